"""Values as users write them: quantities, expressions, ranges, value sets, indexed names.

The facets of a task that planners read: data, dependencies, sweeps, node counts, speed-up laws.

The facets of a task that its execution needs: what is run, how it is watched, what if it fails.

From a document to a workflow: gives the keys their meaning and collects every problem on the way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise

from weft.documents import Document, DocumentNode, Reader, expand_braces
from weft.errors import InvalidInput, Problem, shorten
from weft.expressions import Expression, Value, parse
from weft.units import parse_bytes, parse_seconds
from weft.workflow import keys
from weft.workflow.quantity import Amount, Quantity, Range, Sweep, Values
from weft.workflow.task import (
    ALL,
    CAUSES,
    NO_RECOVERY,
    ON_FAILURE,
    Amdahl,
    Checkpoint,
    CommunicationOverhead,
    ContractTerms,
    Dependency,
    Environment,
    IndexRange,
    Input,
    JobSpec,
    MeasuredSeconds,
    NodeCounts,
    Output,
    Recovery,
    Roofline,
    SpeedUp,
    Task,
    TaskKind,
    Transfer,
)
from weft.workflow.workflow import ON_EXHAUSTED, Loop, Parameter, Workflow

__all__ = [
    "Indices",
    "parse_reference",
    "read_after",
    "read_amount",
    "read_bytes",
    "read_count",
    "read_expression",
    "read_inputs",
    "read_job",
    "read_nodes",
    "read_outputs",
    "read_parameter",
    "read_quantity",
    "read_range",
    "read_recovery",
    "read_seconds",
    "read_speedup",
    "read_sweep",
    "read_values",
    "read_workflow",
    "split_range",
]


Indices = tuple[Expression | IndexRange | str, ...]
"""What stands between the brackets of ``a[i, 2*j-1..2*j]``."""

_MOST = 1e300
"""Numbers beyond are slips, and would not fit into arrays."""
_MOST_DIGITS = 18


def _quantity(
    reader: Reader, node: DocumentNode, what: str, parse_unit: Callable[[str], float | None]
) -> Quantity | None:
    value = node.value
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not -_MOST < value < _MOST:
            reader.add_problem(
                node, f"{node.display()} is not allowed", rule=f"must be a finite number of {what}"
            )
            return None
        return value
    if isinstance(value, str):
        number = parse_unit(value)
        if number is not None:
            return int(number) if number.is_integer() else number
        return read_expression(reader, node)
    reader.add_type_problem(node, f"a number of {what}, a quantity with unit, or an expression")
    return None


def read_seconds(reader: Reader, node: DocumentNode) -> Quantity | None:
    """Read a time: ``90``, ``1h30m``, ``2*n``."""
    return _quantity(reader, node, "seconds", parse_seconds)


def read_bytes(reader: Reader, node: DocumentNode) -> Quantity | None:
    """Read a size: ``40MB``, ``200*n``."""
    return _quantity(reader, node, "bytes", parse_bytes)


def read_quantity(reader: Reader, node: DocumentNode) -> Quantity | None:
    """Read a pure number or an expression; a time counts as its seconds (work is seconds on speed 1)."""
    return _quantity(reader, node, "units", parse_seconds)


def read_count(reader: Reader, node: DocumentNode) -> Quantity | None:
    """Read a whole number or an expression."""
    return _quantity(reader, node, "units", _whole)


def _whole(text: str) -> float | None:
    text = text.strip()
    return float(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


def read_expression(reader: Reader, node: DocumentNode) -> Expression | None:
    """Read an expression; a leading ``=`` is allowed."""
    if not isinstance(node.value, str | bool | int | float):
        reader.add_type_problem(node, "an expression in text")
        return None
    text = node.value.strip().removeprefix("=") if isinstance(node.value, str) else str(node.value)
    found: Expression | None = reader.collect_problems(node, lambda: parse(text))
    return found


def read_parameter(reader: Reader, node: DocumentNode) -> Value | Expression:
    """Read a parameter: a plain value, or a formula if it is text with a leading ``=``; None: unreadable."""
    if isinstance(node.value, str) and node.value.startswith("="):
        return read_expression(reader, node)
    plain: Value = node.to_plain()
    return plain


def split_range(text: str) -> tuple[str, str] | None:
    """Split ``low..high`` outside brackets and quotes; None if it is not a range."""
    cuts = _cuts(text, "..")
    return None if not cuts else (text[: cuts[0]], text[cuts[0] + 2 :])


def _cuts(text: str, separator: str) -> list[int]:
    """Find where a separator stands outside brackets and quotes."""
    depth, quote, cuts, position = 0, "", [], 0
    while position < len(text):
        char = text[position]
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif depth == 0 and text.startswith(separator, position):
            cuts.append(position)
            position += len(separator) - 1
        position += 1
    return cuts


def read_range(reader: Reader, node: DocumentNode, text: str) -> Range | None:
    """Read ``low..high`` or ``low..high step s``; None if the text is not a range or is wrong."""
    halves = split_range(text)
    if halves is None:
        return None
    high, word, step = halves[1].partition(" step ")
    ends = [
        reader.collect_problems(node, partial(parse, part))
        for part in (halves[0], high, *([step] if word else []))
    ]
    if None in ends:
        return None
    return Range(low=ends[0], high=ends[1], step=ends[2] if word else None)


def read_values(reader: Reader, node: DocumentNode) -> Values | None:
    """Read the value set of a sweep variable: a list, a range, or an expression that gives a list."""
    if isinstance(node.value, list):
        return tuple(item.to_plain() for item in node.value)
    if isinstance(node.value, str):
        if split_range(node.value) is not None:
            return read_range(reader, node, node.value)
        return read_expression(reader, node)
    if isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return (node.value,)
    reader.add_type_problem(
        node, "a list, a range such as 1..50, or an expression", "write `name: [1, 2, 3]`"
    )
    return None


def parse_reference(text: str) -> tuple[str, Indices | None]:
    """Split ``a[i, 2*j-1..2*j]`` into the task's name and its index."""
    text = text.strip()
    name, bracket, rest = text.partition("[")
    if not name.strip():
        raise InvalidInput(
            Problem(what=f"{shorten(text)!r} names no task", advice="write name or name[index]")
        )
    if not bracket:
        return text, None
    if not rest.endswith("]"):
        what = f"{shorten(text)!r} has no closing bracket"
        raise InvalidInput(Problem(what=what, advice="write name[index]"))
    inside = rest[:-1]
    cuts = [-1, *_cuts(inside, ","), len(inside)]
    parts = [inside[start + 1 : end].strip() for start, end in pairwise(cuts)]
    return name.strip(), tuple(_index(part, text) for part in parts)


def _index(part: str, text: str) -> Expression | IndexRange | str:
    if not part:
        raise InvalidInput(Problem(what=f"{shorten(text)!r} has an empty index", advice="write name[index]"))
    if part == ALL:
        return ALL
    halves = split_range(part)
    if halves is None:
        return parse(part)
    return IndexRange(low=parse(halves[0]), high=parse(halves[1]))


_MOST_COUNT_DIGITS = 9
"""Of a node count."""


def read_sweep(reader: Reader, node: DocumentNode, paired: bool) -> Sweep | None:
    """Read a sweep: variables and their value sets."""
    variables = []
    for name, values in reader.mapping(node).items():
        if name == "zip":
            paired = reader.flag(values)
        elif not name.isidentifier():
            reader.add_problem(values, f"sweep variable {name!r}", rule="must be a plain name, such as k")
        elif (found := read_values(reader, values)) is not None:
            variables.append((name, found))
    if not variables and isinstance(node.value, dict) and not node.value:
        reader.add_problem(node, "a sweep over nothing", advice="name a variable: `sweep: {k: 1..10}`")
    return Sweep(variables=tuple(variables), paired=paired) if variables else None


def read_after(reader: Reader, node: DocumentNode) -> tuple[Dependency, ...]:
    """Read what a task waits for."""
    found = [_read_dependency(reader, item, entry) for entry, item in enumerate(reader.listing(node))]
    return tuple(dependency for dependency in found if dependency is not None)


def _read_dependency(reader: Reader, node: DocumentNode, entry: int) -> Dependency | None:
    if not isinstance(node.value, dict):
        reference = _read_reference(reader, node)
        return None if reference is None else Dependency(task=reference[0], index=reference[1], entry=entry)
    entries = reader.mapping(node, keys.DEPENDENCY_KEYS)
    if "task" not in entries:
        reader.add_problem(node, "a dependency without task", advice="write {task: NAME, if: CONDITION}")
        return None
    reference = _read_reference(reader, entries["task"])
    if reference is None:
        return None
    return Dependency(
        entry=entry,
        task=reference[0],
        index=reference[1],
        pairs=_read_pairs(reader, entries["pairs"]) if "pairs" in entries else None,
        condition=read_expression(reader, entries["if"]) if "if" in entries else None,
    )


def _read_reference(reader: Reader, node: DocumentNode) -> tuple[str, Indices | None] | None:
    text = reader.text(node)
    if text is None:
        return None
    found: tuple[str, Indices | None] | None = reader.collect_problems(node, partial(parse_reference, text))
    return found


def _read_pairs(reader: Reader, node: DocumentNode) -> tuple[tuple[Value, Value], ...]:
    pairs = []
    for item in reader.listing(node):
        plain = item.to_plain()
        if isinstance(plain, list) and len(plain) == 2 and all(map(_is_point, plain)):
            pairs.append((plain[0], plain[1]))
        else:
            reader.add_problem(item, f"{item.display()} is no pair", rule="must be [value there, value here]")
    return tuple(pairs)


def _is_point(value: object) -> bool:
    """Say whether a value names a subtask: the value of its sweep variable, or the list of several."""
    return all(
        isinstance(part, str | int | float) for part in (value if isinstance(value, list) else [value])
    )


def read_inputs(reader: Reader, node: DocumentNode) -> tuple[Input, ...]:
    """Read the files a task reads: names, or mappings with where they come from."""
    found: list[Input] = []
    for entry, item in enumerate(reader.listing(node)):
        if not isinstance(item.value, dict):
            found += [Input(file=name, entry=entry) for name in _file_names(reader, item)]
            continue
        entries = reader.mapping(item, keys.INPUT_KEYS)
        if "file" not in entries:
            reader.add_problem(item, "an input without file", advice="write {file: NAME, from: URL}")
            continue
        found.append(
            Input(
                entry=entry,
                file=reader.text(entries["file"]) or "",
                source=reader.text(entries["from"]) if "from" in entries else None,
                size=read_bytes(reader, entries["size"]) if "size" in entries else None,
                shared="shared" in entries and reader.flag(entries["shared"]),
                compressed="compressed" in entries and reader.flag(entries["compressed"]),
            )
        )
    return tuple(found)


def read_outputs(reader: Reader, node: DocumentNode) -> tuple[Output, ...]:
    """Read the files a task writes: a list of names, or a mapping of names to sizes."""
    found: list[Output] = []
    if not isinstance(node.value, dict):
        for item in reader.listing(node):
            found += [Output(file=name) for name in _file_names(reader, item)]
        return tuple(found)
    for key, item in node.value.items():
        output = _read_output(reader, item)
        names = reader.collect_problems(item, partial(expand_braces, key))
        found += [replace(output, file=name) for name in names or ()]
    return tuple(found)


def _read_output(reader: Reader, node: DocumentNode) -> Output:
    if node.value is None:
        return Output(file="")
    if not isinstance(node.value, dict):
        return Output(file="", size=read_bytes(reader, node))
    entries = reader.mapping(node, keys.OUTPUT_KEYS)
    return Output(
        file="",
        size=read_bytes(reader, entries["size"]) if "size" in entries else None,
        seconds=read_seconds(reader, entries["seconds"]) if "seconds" in entries else None,
        target=reader.text(entries["to"]) if "to" in entries else None,
    )


def _file_names(reader: Reader, node: DocumentNode) -> list[str]:
    """Read the name of a file; a range in braces stands for several."""
    text = reader.text(node)
    if text is not None and not text.strip():
        reader.add_problem(node, "an empty file name", advice="name the file, or remove the entry")
        return []
    names: list[str] | None = (
        None if text is None else reader.collect_problems(node, partial(expand_braces, text))
    )
    return names or []


def read_nodes(reader: Reader, node: DocumentNode) -> NodeCounts:
    """Read the allowed node counts."""
    counts: list[Quantity | Range] = []
    items = reader.listing(node)
    for item in items:
        found: Quantity | Range | None
        if isinstance(item.value, str) and split_range(item.value) is not None:
            found = read_range(reader, item, item.value)
        else:
            found = read_count(reader, item)
        if found is not None:
            counts.append(found)
    if not items:
        advice = "give at least one count, or remove nodes"
        reader.add_problem(node, "an empty list of node counts", advice=advice)
    return tuple(counts) or (1,)


def read_speedup(reader: Reader, node: DocumentNode) -> SpeedUp | None:
    """Read a speed-up law."""
    entries = reader.mapping(node, keys.SPEEDUP_KEYS)
    if len(entries) != 1:
        if isinstance(node.value, dict):
            rule = f"exactly one of {', '.join(keys.SPEEDUP_KEYS)}"
            reader.add_problem(node, f"a speed-up law with {len(entries)} known keys", rule=rule)
        return None
    (name, value), *_ = entries.items()
    if name == "seconds":
        return _read_measured(reader, value)
    number = value.value
    if not isinstance(number, int | float) or isinstance(number, bool) or not math.isfinite(number):
        reader.add_type_problem(value, "a number")
        return None
    if name == "amdahl":
        return Amdahl(serial=float(number))
    if name == "roofline":
        limit = reader.integer(value, least=1)
        return None if limit is None else Roofline(limit=limit)
    return CommunicationOverhead(overhead=float(number))


def _read_measured(reader: Reader, node: DocumentNode) -> MeasuredSeconds | None:
    table: dict[int, float] = {}
    for count, seconds in _by_count(reader, node):
        value = read_seconds(reader, seconds)
        if isinstance(value, int | float):
            table[count] = float(value)
        elif value is not None:
            reader.add_type_problem(seconds, "a number of seconds")
    if isinstance(node.value, dict) and not node.value:
        reader.add_problem(
            node, "an empty table of seconds", advice="give at least one {nodes: seconds} entry"
        )
    return MeasuredSeconds(seconds=table) if table else None


def read_amount(
    reader: Reader, node: DocumentNode, read: Callable[[Reader, DocumentNode], Quantity | None]
) -> Amount | None:
    """Read an amount: a quantity, or a table of quantities by node count."""
    if not isinstance(node.value, dict):
        return read(reader, node)
    found = {count: read(reader, value) for count, value in _by_count(reader, node)}
    if not node.value:
        reader.add_problem(
            node, "an empty table of amounts", advice="give at least one {nodes: amount} entry"
        )
    table = {count: quantity for count, quantity in found.items() if quantity is not None}
    return table or None


def _by_count(reader: Reader, node: DocumentNode) -> Iterator[tuple[int, DocumentNode]]:
    """Give the entries of a table whose keys are node counts."""
    for count, value in reader.mapping(node).items():
        if count.isdecimal() and len(count) <= _MOST_COUNT_DIGITS:
            yield int(count), value
        else:
            what = f"node count {shorten(repr(count))}"
            reader.add_problem(value, what, rule="must be a whole number, at least 1")


_STREAM_KEYS = ("stdin", "stdout", "stderr")
_MODULE_KEYS = ("prolog", "wrapper", "epilog", "selector", "evaluator")
_TEXT_KEYS = ("call", *_STREAM_KEYS, *_MODULE_KEYS, "version")
_RECOVERY_KEYS = ("checkpoint", "progress", "contract", "retries", "on_failure", "time_limit")


def read_job(reader: Reader, entries: dict[str, DocumentNode]) -> JobSpec | None:
    """Read what a task executes; None when it says nothing of it."""
    fields: dict[str, object] = {key: reader.text(entries[key]) for key in _TEXT_KEYS if key in entries}
    if "command" in entries:
        fields["command"] = _read_command(reader, entries["command"])
    if "arguments" in entries:
        fields["arguments"] = _texts(reader, entries["arguments"])
    if "env" in entries:
        fields["env"] = {key: reader.text(node) or "" for key, node in reader.mapping(entries["env"]).items()}
    if "environment" in entries:
        fields["environment"] = _read_environment(reader, entries["environment"])
    return JobSpec(**fields) if fields else None  # type: ignore[arg-type]


def _texts(reader: Reader, node: DocumentNode) -> tuple[str, ...]:
    return tuple(reader.text(item) or "" for item in reader.listing(node))


def _read_command(reader: Reader, node: DocumentNode) -> str | tuple[str, ...] | None:
    return _texts(reader, node) if isinstance(node.value, list) else reader.text(node)


def _read_environment(reader: Reader, node: DocumentNode) -> Environment:
    entries = reader.mapping(node, keys.ENVIRONMENT_KEYS)
    return Environment(
        container=reader.text(entries["container"]) if "container" in entries else None,
        conda=reader.text(entries["conda"]) if "conda" in entries else None,
        modules=_texts(reader, entries["modules"]) if "modules" in entries else (),
    )


def read_recovery(reader: Reader, entries: dict[str, DocumentNode]) -> Recovery:
    """Read how a task is watched and what happens when it fails."""
    if not any(key in entries for key in _RECOVERY_KEYS):
        return NO_RECOVERY
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


def _read_retries(reader: Reader, node: DocumentNode) -> tuple[int | None, dict[str, int]]:
    if not isinstance(node.value, dict):
        return reader.integer(node, least=0), {}
    found = {
        cause: reader.integer(value, least=0)
        for cause, value in reader.mapping(node, CAUSES, "cause of failure").items()
    }
    return None, {cause: count for cause, count in found.items() if count is not None}


def _read_checkpoint(reader: Reader, node: DocumentNode) -> Checkpoint:
    if not isinstance(node.value, dict):
        return Checkpoint(files=_texts(reader, node))
    entries = reader.mapping(node, keys.CHECKPOINT_KEYS)
    if "files" not in entries:
        reader.add_problem(
            node, "a checkpoint without files", advice="name the restart files: `files: [...]`"
        )
    return Checkpoint(
        files=_texts(reader, entries["files"]) if "files" in entries else (),
        every=read_seconds(reader, entries["every"]) if "every" in entries else None,
        nodes=(reader.choice(entries["nodes"], ("same", "any")) if "nodes" in entries else None) or "same",
    )


def _read_contract(reader: Reader, node: DocumentNode) -> ContractTerms | None:
    if isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return ContractTerms(factor=float(node.value))
    if node.value in ("none", None):
        return ContractTerms(factor=None)
    if not isinstance(node.value, dict):
        reader.add_type_problem(node, "a number, none, or a mapping of factor and grace")
        return None
    entries = reader.mapping(node, keys.CONTRACT_KEYS)
    numbers: dict[str, float] = {}
    for key, value in entries.items():
        number = read_seconds(reader, value)
        if isinstance(number, Expression):
            reader.add_problem(value, f"{value.display()} is an expression", rule="must be a number")
        elif number is not None:
            numbers[key] = number
    return ContractTerms(factor=numbers.get("factor", 0.5), grace_s=numbers.get("grace"))


def read_workflow(document: Document, *, default_name: str = "workflow") -> tuple[Workflow, Reader]:
    """Read a workflow. The reader holds what is wrong; ``checks`` adds what only the whole shows."""
    root = document.root
    assert root is not None, "a document that is read as a workflow has a root"
    reader = Reader()
    entries = reader.mapping(root, keys.WORKFLOW_KEYS)
    _read_version(reader, root, entries)
    if "tasks" not in entries and isinstance(root.value, dict):
        reader.add_problem(
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


def _read_version(reader: Reader, root: DocumentNode, entries: Mapping[str, DocumentNode]) -> None:
    if not isinstance(root.value, dict):
        return
    if "weft" not in entries:
        reader.add_problem(
            root, "no version", rule="the file says which format it follows", advice="add `weft: 1`"
        )
    elif isinstance(entries["weft"].value, bool) or entries["weft"].value != keys.VERSION:
        found = entries["weft"].display()
        advice = f"this weft reads version {keys.VERSION}"
        reader.add_problem(entries["weft"], f"version {found} of the format", advice=advice)


def _read_params(reader: Reader, node: DocumentNode) -> dict[str, Parameter]:
    params: dict[str, Parameter] = {}
    for name, value in reader.mapping(node).items():
        if not name.isidentifier():
            reader.add_problem(
                value, f"parameter {shorten(repr(name))}", rule="must be a plain name, such as atoms"
            )
        params[name] = read_parameter(reader, value)
    return params


def _read_tasks(reader: Reader, node: DocumentNode, defaults: Mapping[str, DocumentNode]) -> tuple[Task, ...]:
    entries = reader.mapping(node)
    if not entries and isinstance(node.value, dict):
        reader.add_problem(node, "no tasks", rule="a workflow has at least one task")
    return tuple(_read_task(reader, name, value, defaults) for name, value in entries.items())


def _read_task(reader: Reader, name: str, node: DocumentNode, defaults: Mapping[str, DocumentNode]) -> Task:
    if not name or any(char in name for char in "[]{},\n"):
        reader.add_problem(
            node,
            f"task name {shorten(repr(name))}",
            rule="must not be empty or hold brackets, braces, commas",
        )
    written = reader.mapping(node, keys.TASK_KEYS) if node.value is not None else {}
    kind = _read_kind(reader, written.get("kind", defaults.get("kind")))
    entries = {**_inherited(defaults, written, kind), **written}
    paired = "zip" in entries and reader.flag(entries["zip"])
    speedup = read_speedup(reader, entries["speedup"]) if "speedup" in entries else None
    return Task(
        name=name,
        kind=kind,
        sweep=read_sweep(reader, entries["sweep"], paired) if "sweep" in entries else None,
        after=read_after(reader, entries["after"]) if "after" in entries else (),
        inputs=read_inputs(reader, entries["inputs"]) if "inputs" in entries else (),
        outputs=read_outputs(reader, entries["outputs"]) if "outputs" in entries else (),
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
        job=read_job(reader, entries),
        recovery=read_recovery(reader, entries),
        outcomes=_read_outcomes(reader, entries["outcomes"]) if "outcomes" in entries else (),
        attributes=_attributes(reader, entries),
    )


def _read_kind(reader: Reader, node: DocumentNode | None) -> TaskKind:
    found = None if node is None else reader.choice(node, [kind.value for kind in TaskKind])
    return TaskKind.COMPUTE if found is None else TaskKind(found)


def _inherited(
    defaults: Mapping[str, DocumentNode], written: Mapping[str, DocumentNode], kind: TaskKind
) -> dict[str, DocumentNode]:
    """Give the defaults that hold for a task.

    Not how long it takes if it says so itself, and neither that nor what it consumes if it has no work.
    """
    own: tuple[str, ...] = ()
    if kind is not TaskKind.COMPUTE:
        own = ("work", "seconds", "consumes")
    elif "work" in written or "seconds" in written:
        own = ("work", "seconds")
    return {key: node for key, node in defaults.items() if key not in own}


def _work(reader: Reader, entries: Mapping[str, DocumentNode], speedup: object) -> Quantity | None:
    if "work" in entries:
        return read_quantity(reader, entries["work"])
    if isinstance(speedup, MeasuredSeconds) and speedup.seconds and "seconds" not in entries:
        return speedup.first_seconds  # format.md: `work` defaults to the first measured time
    return None


def _nodes(reader: Reader, entries: Mapping[str, DocumentNode], speedup: object) -> NodeCounts:
    if "nodes" in entries:
        return read_nodes(reader, entries["nodes"])
    if isinstance(speedup, MeasuredSeconds) and speedup.seconds:
        return tuple(sorted(speedup.seconds))  # the measured counts are the allowed ones
    return (1,)


def _expression(reader: Reader, entries: Mapping[str, DocumentNode], key: str) -> Expression | None:
    return read_expression(reader, entries[key]) if key in entries else None


def _attributes(reader: Reader, entries: Mapping[str, DocumentNode]) -> dict[str, object]:
    written = reader.mapping(entries["attributes"]) if "attributes" in entries else {}
    found = {key: node.to_plain() for key, node in written.items()}
    if "description" in entries:
        found["description"] = reader.text(entries["description"])
    return found


def _read_seconds_key(reader: Reader, node: DocumentNode) -> Quantity | dict[str, Quantity] | None:
    if not isinstance(node.value, dict):
        return read_seconds(reader, node)
    if not node.value:
        reader.add_problem(node, "seconds for no machine", advice="write {machine: seconds}")
    found: dict[str, Quantity] = {}
    for machines, value in node.value.items():
        seconds = read_seconds(reader, value)
        names = reader.collect_problems(value, partial(expand_braces, machines))
        if seconds is not None and names is not None:
            found |= dict.fromkeys(names, seconds)
    return found


def _read_resources(reader: Reader, entries: Mapping[str, DocumentNode]) -> dict[str, Amount]:
    found: dict[str, Amount | None] = {}
    if "memory" in entries:
        found["memory"] = read_amount(reader, entries["memory"], read_bytes)
    if "gpus" in entries:
        found["gpus"] = read_amount(reader, entries["gpus"], read_count)
    named = _read_amounts(reader, entries["resources"]) if "resources" in entries else {}
    return {name: amount for name, amount in found.items() if amount is not None} | named


def _read_amounts(reader: Reader, node: DocumentNode) -> dict[str, Amount]:
    found = {name: read_amount(reader, value, read_bytes) for name, value in reader.mapping(node).items()}
    return {name: amount for name, amount in found.items() if amount is not None}


def _read_budgets(reader: Reader, node: DocumentNode) -> dict[str, Quantity]:
    found = {name: read_bytes(reader, value) for name, value in reader.mapping(node).items()}
    return {name: amount for name, amount in found.items() if amount is not None}


def _read_transfer(
    reader: Reader, node: DocumentNode, entries: Mapping[str, DocumentNode], kind: TaskKind
) -> Transfer | None:
    present = [key for key in ("from", "to", "file") if key in entries]
    if kind is not TaskKind.TRANSFER:
        if present or "size" in entries:
            key = present[0] if present else "size"
            advice = "add `kind: transfer`, or remove it"
            reader.add_problem(entries[key], f"{key!r} in a task of kind {kind.value}", advice=advice)
        return None
    for key in ("from", "to", "file"):
        if key not in entries:
            reader.add_problem(node, f"a transfer without {key!r}", rule="a transfer has from, to and file")
    if len(present) < 3:
        return Transfer(source="?", target="?", file="?")
    return Transfer(
        source=reader.text(entries["from"]) or "",
        target=reader.text(entries["to"]) or "",
        file=reader.text(entries["file"]) or "",
        size=read_bytes(reader, entries["size"]) if "size" in entries else None,
    )


def _read_outcomes(reader: Reader, node: DocumentNode) -> tuple[int, ...]:
    codes = [reader.integer(item, least=0) for item in reader.listing(node)]
    return tuple(code for code in codes if code is not None)


def _read_loops(reader: Reader, node: DocumentNode) -> tuple[Loop, ...]:
    loops = []
    for name, value in reader.mapping(node).items():
        entries = reader.mapping(value, keys.LOOP_KEYS)
        missing = [key for key in ("from", "to") if key not in entries]
        if missing:
            reader.add_problem(
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
