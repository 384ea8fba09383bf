"""From a document to a workflow: gives the keys their meaning and collects every problem on the way."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from weft.braces import expand_braces
from weft.documents import Document, Node, Reader
from weft.errors import shorten
from weft.expressions import Expression
from weft.workflow.reading import facets, jobs, keys
from weft.workflow.reading.values import (
    read_bytes,
    read_count,
    read_expression,
    read_parameter,
    read_quantity,
    read_seconds,
)
from weft.workflow.records.amount import Amount
from weft.workflow.records.loop import ON_EXHAUSTED, Loop
from weft.workflow.records.moldable import Measured
from weft.workflow.records.quantity import Quantity
from weft.workflow.records.task import Kind, NodeCounts, Task, Transfer
from weft.workflow.records.workflow import Parameter, Workflow

__all__ = ["read_workflow"]


def read_workflow(document: Document, *, default_name: str = "workflow") -> tuple[Workflow, Reader]:
    """Read a workflow. The reader holds what is wrong; ``checks`` adds what only the whole shows."""
    root = document.root
    assert root is not None, "a document that is read as a workflow has a root"
    reader = Reader()
    entries = reader.mapping(root, keys.WORKFLOW_KEYS)
    _read_version(reader, root, entries)
    if "tasks" not in entries and isinstance(root.value, dict):
        reader.complain(
            root, "no tasks", rule="a workflow has tasks", advice="add `tasks:` with at least one task"
        )
    defaults = reader.mapping(entries["defaults"], keys.TASK_KEYS) if "defaults" in entries else {}
    workflow = Workflow(
        name=(reader.text(entries["name"]) if "name" in entries else None) or default_name,
        description=reader.text(entries["description"]) if "description" in entries else None,
        owner=reader.text(entries["owner"]) if "owner" in entries else None,
        params=_read_params(reader, entries["params"]) if "params" in entries else {},
        tasks=_read_tasks(reader, entries["tasks"], defaults) if "tasks" in entries else (),
        loops=_read_loops(reader, entries["loops"]) if "loops" in entries else (),
        budgets=_read_budgets(reader, entries["budgets"]) if "budgets" in entries else {},
        document=document,
    )
    return workflow, reader


def _read_version(reader: Reader, root: Node, entries: Mapping[str, Node]) -> None:
    if not isinstance(root.value, dict):
        return
    if "weft" not in entries:
        reader.complain(
            root, "no version", rule="the file says which format it follows", advice="add `weft: 1`"
        )
    elif isinstance(entries["weft"].value, bool) or entries["weft"].value != keys.VERSION:
        found = entries["weft"].shown()
        advice = f"this weft reads version {keys.VERSION}"
        reader.complain(entries["weft"], f"version {found} of the format", advice=advice)


def _read_params(reader: Reader, node: Node) -> dict[str, Parameter]:
    params: dict[str, Parameter] = {}
    for name, value in reader.mapping(node).items():
        if not name.isidentifier():
            reader.complain(
                value, f"parameter {shorten(repr(name))}", rule="must be a plain name, such as atoms"
            )
        params[name] = read_parameter(reader, value)
    return params


def _read_tasks(reader: Reader, node: Node, defaults: Mapping[str, Node]) -> tuple[Task, ...]:
    entries = reader.mapping(node)
    if not entries and isinstance(node.value, dict):
        reader.complain(node, "no tasks", rule="a workflow has at least one task")
    return tuple(_read_task(reader, name, value, defaults) for name, value in entries.items())


def _read_task(reader: Reader, name: str, node: Node, defaults: Mapping[str, Node]) -> Task:
    if not name or any(char in name for char in "[]{},\n"):
        reader.complain(
            node,
            f"task name {shorten(repr(name))}",
            rule="must not be empty or hold brackets, braces, commas",
        )
    written = reader.mapping(node, keys.TASK_KEYS) if node.value is not None else {}
    kind = _read_kind(reader, written.get("kind", defaults.get("kind")))
    entries = {**_inherited(defaults, written, kind), **written}
    paired = "zip" in entries and reader.flag(entries["zip"])
    speedup = facets.read_speedup(reader, entries["speedup"]) if "speedup" in entries else None
    return Task(
        name=name,
        kind=kind,
        sweep=facets.read_sweep(reader, entries["sweep"], paired) if "sweep" in entries else None,
        after=facets.read_after(reader, entries["after"]) if "after" in entries else (),
        inputs=facets.read_inputs(reader, entries["inputs"]) if "inputs" in entries else (),
        outputs=facets.read_outputs(reader, entries["outputs"]) if "outputs" in entries else (),
        work=_work(reader, entries, speedup),
        seconds=_read_seconds_key(reader, entries["seconds"]) if "seconds" in entries else None,
        nodes=_nodes(reader, entries, speedup),
        speedup=speedup,
        machine=reader.text(entries["machine"]) if "machine" in entries else None,
        service=reader.text(entries["service"]) if "service" in entries else None,
        requirements=_expression(reader, entries, "requirements"),
        rank=_expression(reader, entries, "rank"),
        cores=read_count(reader, entries["cores"]) if "cores" in entries else None,
        resources=_read_resources(reader, entries),
        consumes=_read_amounts(reader, entries["consumes"]) if "consumes" in entries else {},
        transfer=_read_transfer(reader, node, entries, kind),
        job=jobs.read_job(reader, entries),
        recovery=jobs.read_recovery(reader, entries),
        outcomes=_read_outcomes(reader, entries["outcomes"]) if "outcomes" in entries else (),
        attributes=_attributes(reader, entries),
    )


def _read_kind(reader: Reader, node: Node | None) -> Kind:
    found = None if node is None else reader.choice(node, [kind.value for kind in Kind])
    return Kind.COMPUTE if found is None else Kind(found)


def _inherited(defaults: Mapping[str, Node], written: Mapping[str, Node], kind: Kind) -> dict[str, Node]:
    """Give the defaults that hold for a task.

    Not how long it takes if it says so itself, and neither that nor what it consumes if it has no work.
    """
    own: tuple[str, ...] = ()
    if kind is not Kind.COMPUTE:
        own = ("work", "seconds", "consumes")
    elif "work" in written or "seconds" in written:
        own = ("work", "seconds")
    return {key: node for key, node in defaults.items() if key not in own}


def _work(reader: Reader, entries: Mapping[str, Node], speedup: object) -> Quantity | None:
    if "work" in entries:
        return read_quantity(reader, entries["work"])
    if isinstance(speedup, Measured) and speedup.seconds and "seconds" not in entries:
        return speedup.first_seconds  # format.md: `work` defaults to the first measured time
    return None


def _nodes(reader: Reader, entries: Mapping[str, Node], speedup: object) -> NodeCounts:
    if "nodes" in entries:
        return facets.read_nodes(reader, entries["nodes"])
    if isinstance(speedup, Measured) and speedup.seconds:
        return tuple(sorted(speedup.seconds))  # the measured counts are the allowed ones
    return (1,)


def _expression(reader: Reader, entries: Mapping[str, Node], key: str) -> Expression | None:
    return read_expression(reader, entries[key]) if key in entries else None


def _attributes(reader: Reader, entries: Mapping[str, Node]) -> dict[str, object]:
    written = reader.mapping(entries["attributes"]) if "attributes" in entries else {}
    found = {key: node.plain() for key, node in written.items()}
    if "description" in entries:
        found["description"] = reader.text(entries["description"])
    return found


def _read_seconds_key(reader: Reader, node: Node) -> Quantity | dict[str, Quantity] | None:
    if not isinstance(node.value, dict):
        return read_seconds(reader, node)
    if not node.value:
        reader.complain(node, "seconds for no machine", advice="write {machine: seconds}")
    found: dict[str, Quantity] = {}
    for machines, value in node.value.items():
        seconds = read_seconds(reader, value)
        names = reader.guard(value, partial(expand_braces, machines))
        if seconds is not None and names is not None:
            found |= dict.fromkeys(names, seconds)
    return found


def _read_resources(reader: Reader, entries: Mapping[str, Node]) -> dict[str, Amount]:
    found: dict[str, Amount | None] = {}
    if "memory" in entries:
        found["memory"] = facets.read_amount(reader, entries["memory"], read_bytes)
    if "gpus" in entries:
        found["gpus"] = facets.read_amount(reader, entries["gpus"], read_count)
    named = _read_amounts(reader, entries["resources"]) if "resources" in entries else {}
    return {name: amount for name, amount in found.items() if amount is not None} | named


def _read_amounts(reader: Reader, node: Node) -> dict[str, Amount]:
    found = {
        name: facets.read_amount(reader, value, read_bytes) for name, value in reader.mapping(node).items()
    }
    return {name: amount for name, amount in found.items() if amount is not None}


def _read_budgets(reader: Reader, node: Node) -> dict[str, Quantity]:
    found = {name: read_bytes(reader, value) for name, value in reader.mapping(node).items()}
    return {name: amount for name, amount in found.items() if amount is not None}


def _read_transfer(reader: Reader, node: Node, entries: Mapping[str, Node], kind: Kind) -> Transfer | None:
    present = [key for key in ("from", "to", "file") if key in entries]
    if kind is not Kind.TRANSFER:
        if present or "size" in entries:
            key = present[0] if present else "size"
            advice = "add `kind: transfer`, or remove it"
            reader.complain(entries[key], f"{key!r} in a task of kind {kind.value}", advice=advice)
        return None
    for key in ("from", "to", "file"):
        if key not in entries:
            reader.complain(node, f"a transfer without {key!r}", rule="a transfer has from, to and file")
    if len(present) < 3:
        return Transfer(source="?", target="?", file="?")
    return Transfer(
        source=reader.text(entries["from"]) or "",
        target=reader.text(entries["to"]) or "",
        file=reader.text(entries["file"]) or "",
        size=read_bytes(reader, entries["size"]) if "size" in entries else None,
    )


def _read_outcomes(reader: Reader, node: Node) -> tuple[int, ...]:
    codes = [reader.integer(item, least=0) for item in reader.listing(node)]
    return tuple(code for code in codes if code is not None)


def _read_loops(reader: Reader, node: Node) -> tuple[Loop, ...]:
    loops = []
    for name, value in reader.mapping(node).items():
        entries = reader.mapping(value, keys.LOOP_KEYS)
        missing = [key for key in ("from", "to") if key not in entries]
        if missing:
            reader.complain(
                value, f"loop {name!r} without {' and '.join(missing)}", rule="a loop has from and to"
            )
            continue
        exhausted = (
            reader.choice(entries["on_exhausted"], ON_EXHAUSTED) if "on_exhausted" in entries else None
        )
        loops.append(
            Loop(
                name=name,
                last=reader.text(entries["from"]) or "",
                first=reader.text(entries["to"]) or "",
                until=_expression(reader, entries, "until"),
                max_iterations=read_count(reader, entries["max_iterations"])
                if "max_iterations" in entries
                else None,
                expect=read_count(reader, entries["expect"]) if "expect" in entries else None,
                on_exhausted=exhausted or "fail",
            )
        )
    return tuple(loops)
