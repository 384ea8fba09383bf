"""The facets of a task as users write them: data, dependencies, sweeps, speed-up laws, recovery, the job."""

from __future__ import annotations

import math

from weft.braces import expand_braces
from weft.documents import Node, Reader
from weft.workflow.reading import keys
from weft.workflow.reading.values import (
    parse_reference,
    read_bytes,
    read_count,
    read_expression,
    read_range,
    read_seconds,
    read_values,
    split_range,
)
from weft.workflow.records.data import Input, Output
from weft.workflow.records.dependency import Dependency
from weft.workflow.records.job import Environment, Job
from weft.workflow.records.moldable import Amdahl, Communication, Measured, Roofline, SpeedUp
from weft.workflow.records.recovery import CAUSES, ON_FAILURE, Checkpoint, Contract, Recovery
from weft.workflow.records.sweep import Sweep
from weft.workflow.records.task import NodeCounts

__all__ = [
    "read_after",
    "read_inputs",
    "read_job",
    "read_nodes",
    "read_outputs",
    "read_recovery",
    "read_speedup",
    "read_sweep",
]


def read_sweep(reader: Reader, node: Node, paired: bool) -> Sweep | None:
    """Read a sweep: variables and their value sets."""
    variables = []
    for name, values in reader.mapping(node).items():
        if name == "zip" and isinstance(values.value, bool):
            paired = values.value
        elif not name.isidentifier():
            reader.complain(values, f"sweep variable {name!r}", rule="must be a plain name, such as k")
        elif (found := read_values(reader, values)) is not None:
            variables.append((name, found))
    if not variables and isinstance(node.value, dict) and not node.value:
        reader.complain(node, "a sweep over nothing", advice="name a variable: `sweep: {k: 1..10}`")
    return Sweep(variables=tuple(variables), paired=paired) if variables else None


def read_after(reader: Reader, node: Node) -> tuple[Dependency, ...]:
    """Read what a task waits for."""
    found = [_read_dependency(reader, item) for item in reader.listing(node)]
    return tuple(dependency for dependency in found if dependency is not None)


def _read_dependency(reader: Reader, node: Node) -> Dependency | None:
    if not isinstance(node.value, dict):
        text = reader.text(node)
        reference = None if text is None else reader.guard(node, lambda: parse_reference(text))
        return None if reference is None else Dependency(task=reference[0], index=reference[1])
    entries = reader.mapping(node, keys.DEPENDENCY_KEYS)
    if "task" not in entries:
        reader.complain(node, "a dependency without task", advice="write {task: NAME, if: CONDITION}")
        return None
    text = reader.text(entries["task"])
    reference = None if text is None else reader.guard(entries["task"], lambda: parse_reference(text))
    if reference is None:
        return None
    return Dependency(
        task=reference[0],
        index=reference[1],
        pairs=_read_pairs(reader, entries["pairs"]) if "pairs" in entries else None,
        condition=read_expression(reader, entries["if"]) if "if" in entries else None,
    )


def _read_pairs(reader: Reader, node: Node) -> tuple[tuple[object, object], ...]:
    pairs = []
    for item in reader.listing(node):
        plain = item.plain()
        if isinstance(plain, list) and len(plain) == 2:
            pairs.append((plain[0], plain[1]))
        else:
            reader.wanted(item, "a pair [value there, value here]")
    return tuple(pairs)


def read_inputs(reader: Reader, node: Node) -> tuple[Input, ...]:
    """Read the files a task reads: names, or mappings with where they come from."""
    found: list[Input] = []
    for item in reader.listing(node):
        if not isinstance(item.value, dict):
            text = reader.text(item)
            names = reader.guard(item, lambda text=text: expand_braces(text)) if text else None
            found += [Input(file=name) for name in names or ()]
            continue
        entries = reader.mapping(item, keys.INPUT_KEYS)
        if "file" not in entries:
            reader.complain(item, "an input without file", advice="write {file: NAME, from: URL}")
            continue
        found.append(
            Input(
                file=reader.text(entries["file"]) or "",
                source=reader.text(entries["from"]) if "from" in entries else None,
                size=read_bytes(reader, entries["size"]) if "size" in entries else None,
                shared="shared" in entries and reader.flag(entries["shared"]),
                compressed="compressed" in entries and reader.flag(entries["compressed"]),
            )
        )
    return tuple(found)


def read_outputs(reader: Reader, node: Node) -> tuple[Output, ...]:
    """Read the files a task writes: a list of names, or a mapping of names to sizes."""
    found: list[Output] = []
    if not isinstance(node.value, dict):
        for item in reader.listing(node):
            text = reader.text(item)
            names = reader.guard(item, lambda text=text: expand_braces(text)) if text else None
            found += [Output(file=name) for name in names or ()]
        return tuple(found)
    for key, item in node.value.items():
        output = _read_output(reader, item)
        names = reader.guard(item, lambda key=key: expand_braces(key))
        found += [Output(file=name, **output) for name in names or ()]
    return tuple(found)


def _read_output(reader: Reader, node: Node) -> dict[str, object]:
    if node.value is None:
        return {}
    if not isinstance(node.value, dict):
        return {"size": read_bytes(reader, node)}
    entries = reader.mapping(node, keys.OUTPUT_KEYS)
    return {
        "size": read_bytes(reader, entries["size"]) if "size" in entries else None,
        "seconds": read_seconds(reader, entries["seconds"]) if "seconds" in entries else None,
        "target": reader.text(entries["to"]) if "to" in entries else None,
    }


def read_nodes(reader: Reader, node: Node) -> NodeCounts:
    """Read the allowed node counts."""
    counts = []
    for item in reader.listing(node):
        if isinstance(item.value, str) and split_range(item.value) is not None:
            found = read_range(reader, item, item.value)
        else:
            found = read_count(reader, item)
        if found is not None:
            counts.append(found)
    if not counts and not reader.problems:
        reader.complain(
            node, "an empty list of node counts", advice="give at least one count, or remove nodes"
        )
    return tuple(counts) or (1,)


def read_speedup(reader: Reader, node: Node) -> SpeedUp | None:
    """Read a speed-up law."""
    entries = reader.mapping(node, keys.SPEEDUP_KEYS)
    if len(entries) != 1:
        if isinstance(node.value, dict):
            rule = f"exactly one of {', '.join(keys.SPEEDUP_KEYS)}"
            reader.complain(node, f"a speed-up law with {len(entries)} known keys", rule=rule)
        return None
    (name, value), *_ = entries.items()
    if name == "seconds":
        return _read_measured(reader, value)
    number = value.value
    if not isinstance(number, int | float) or isinstance(number, bool) or not math.isfinite(number):
        reader.wanted(value, "a number")
        return None
    if name == "amdahl":
        return Amdahl(serial=float(number))
    if name == "roofline":
        return Roofline(limit=int(number))
    return Communication(overhead=float(number))


def _read_measured(reader: Reader, node: Node) -> Measured | None:
    table: dict[int, float] = {}
    for count, seconds in reader.mapping(node).items():
        value = read_seconds(reader, seconds)
        if not count.isdigit():
            reader.complain(seconds, f"node count {count!r}", rule="must be a whole number, at least 1")
        elif isinstance(value, int | float):
            table[int(count)] = float(value)
        elif value is not None:
            reader.wanted(seconds, "a number of seconds")
    return Measured(seconds=table) if table or not reader.problems else None


def read_job(reader: Reader, entries: dict[str, Node]) -> Job | None:
    """Read what a task executes; None when it says nothing of it."""
    fields: dict[str, object] = {
        key: reader.text(entries[key])
        for key in (
            "call", "stdin", "stdout", "stderr", "prolog", "wrapper", "epilog", "selector", "evaluator", "version",
        )
        if key in entries
    }  # fmt: skip
    if "command" in entries:
        fields["command"] = _read_command(reader, entries["command"])
    if "arguments" in entries:
        fields["arguments"] = _texts(reader, entries["arguments"])
    if "env" in entries:
        fields["env"] = {key: reader.text(node) or "" for key, node in reader.mapping(entries["env"]).items()}
    if "environment" in entries:
        fields["environment"] = _read_environment(reader, entries["environment"])
    return Job(**fields) if fields else None  # type: ignore[arg-type]


def _texts(reader: Reader, node: Node) -> tuple[str, ...]:
    return tuple(reader.text(item) or "" for item in reader.listing(node))


def _read_command(reader: Reader, node: Node) -> str | tuple[str, ...] | None:
    return _texts(reader, node) if isinstance(node.value, list) else reader.text(node)


def _read_environment(reader: Reader, node: Node) -> Environment:
    entries = reader.mapping(node, keys.ENVIRONMENT_KEYS)
    return Environment(
        container=reader.text(entries["container"]) if "container" in entries else None,
        conda=reader.text(entries["conda"]) if "conda" in entries else None,
        modules=_texts(reader, entries["modules"]) if "modules" in entries else (),
    )


def read_recovery(reader: Reader, entries: dict[str, Node]) -> Recovery:
    """Read how a task is watched and what happens when it fails."""
    retries, by_cause = _read_retries(reader, entries["retries"]) if "retries" in entries else (None, {})
    return Recovery(
        checkpoint=_read_checkpoint(reader, entries["checkpoint"]) if "checkpoint" in entries else None,
        progress=reader.text(entries["progress"]) if "progress" in entries else None,
        contract=_read_contract(reader, entries["contract"]) if "contract" in entries else None,
        retries=retries,
        retries_by_cause=by_cause,
        on_failure=reader.choice(entries["on_failure"], ON_FAILURE) if "on_failure" in entries else None,
        time_limit=read_seconds(reader, entries["time_limit"]) if "time_limit" in entries else None,
    )


def _read_retries(reader: Reader, node: Node) -> tuple[int | None, dict[str, int]]:
    if not isinstance(node.value, dict):
        return reader.integer(node, least=0), {}
    found = {
        cause: reader.integer(value, least=0)
        for cause, value in reader.mapping(node, CAUSES, "cause of failure").items()
    }
    return None, {cause: count for cause, count in found.items() if count is not None}


def _read_checkpoint(reader: Reader, node: Node) -> Checkpoint:
    if not isinstance(node.value, dict):
        return Checkpoint(files=_texts(reader, node))
    entries = reader.mapping(node, keys.CHECKPOINT_KEYS)
    if "files" not in entries:
        reader.complain(node, "a checkpoint without files", advice="name the restart files: `files: [...]`")
    return Checkpoint(
        files=_texts(reader, entries["files"]) if "files" in entries else (),
        every=read_seconds(reader, entries["every"]) if "every" in entries else None,
        nodes=(reader.choice(entries["nodes"], ("same", "any")) if "nodes" in entries else None) or "same",
    )


def _read_contract(reader: Reader, node: Node) -> Contract | None:
    if isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return Contract(factor=float(node.value))
    if node.value in ("none", None):
        return Contract(factor=None)
    entries = reader.mapping(node, keys.CONTRACT_KEYS)
    numbers = {key: read_seconds(reader, value) for key, value in entries.items()}
    for key, number in numbers.items():
        if number is not None and not isinstance(number, int | float):
            reader.wanted(entries[key], "a number")
            return None
    factor, grace = numbers.get("factor", 0.5), numbers.get("grace")
    return Contract(factor=factor, grace_s=grace)  # type: ignore[arg-type]
