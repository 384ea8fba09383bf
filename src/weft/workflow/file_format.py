"""Workflow files: the fields of every record, reading, and writing.

A workflow that is written and read again is equal to the original.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from operator import attrgetter
from typing import Any

from weft.documents import Document, DocumentNode, Reader, from_python
from weft.errors import InvalidInput, shorten
from weft.expressions import Expression, Value, parse
from weft.fields import (
    ANY_SHAPE,
    FLAG,
    NULL_SHAPE,
    QUANTITY_SHAPE,
    TEXT,
    TEXT_SHAPE,
    TEXTS,
    TEXTS_BY_NAME,
    Field,
    Record,
    Shape,
    ValueType,
    any_of,
    choice,
    keep_node,
    list_shape,
    mapping_shape,
    never_written,
    version_field,
)
from weft.predictions import PREDICTIONS
from weft.units import parse_bytes, parse_seconds
from weft.workflow.quantity import LARGEST_NUMBER, Amount, Quantity, Range, Sweep, Values
from weft.workflow.settings import read_settings, settings_shape, write_settings
from weft.workflow.task import (
    ALL,
    CAUSES,
    ISOLATED_BY,
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
    Isolation,
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
from weft.workflow.workflow import ON_EXHAUSTED, Loop, Parameter, Secret, Workflow

Indices = tuple[Expression | IndexRange | str, ...]
"""The index of ``a[i, 2*j-1..2*j]``, one entry per sweep variable."""

_MOST_RETRIES = 1_000_000
_MAX_DIGITS = 18
_MAX_COUNT_DIGITS = 9


# Values


def _read_number_or_unit(
    reader: Reader, node: DocumentNode, what: str, parse_unit: Callable[[str], float | None]
) -> Quantity | None:
    value = node.value
    number = parse_unit(value) if isinstance(value, str) else value
    if isinstance(number, int | float) and not isinstance(number, bool):
        if not -LARGEST_NUMBER < number < LARGEST_NUMBER:
            rule = f"must be a finite number of {what}, smaller than 1e300 in magnitude"
            reader.add_problem(node, f"{node.display()} is not allowed", rule=rule)
            return None
        return int(number) if isinstance(value, str) and float(number).is_integer() else number
    if isinstance(value, str):
        sign, amount = value.strip()[:1], value.strip()[1:]
        if sign == "-" and amount[-1:].isalpha() and parse_unit(amount) is not None:
            reader.add_problem(node, f"{node.display()} is not allowed", rule="must be at least 0")
            return None
        return _read_expression(reader, node)
    wanted = "a whole number" if what == "nodes or cores" else f"a number of {what}, a quantity with unit,"
    reader.add_type_problem(node, f"{wanted} or an expression")
    return None


def _parse_whole_number(text: str) -> float | None:
    text = text.strip()
    return float(text) if text.isdecimal() and len(text) <= _MAX_DIGITS else None


_read_seconds = partial(_read_number_or_unit, what="seconds", parse_unit=parse_seconds)
"""Return the seconds of a time (``1h30m``) or an expression (``2*n``); None after adding a problem."""
_read_bytes = partial(_read_number_or_unit, what="bytes", parse_unit=parse_bytes)
"""Return the bytes of a size (``40MB``) or an expression (``200*n``); None after adding a problem."""
_read_work = partial(_read_number_or_unit, what="units", parse_unit=parse_seconds)
"""Return a number or an expression; a time (``2h``) is converted to seconds. None after adding a problem."""
_read_count = partial(_read_number_or_unit, what="nodes or cores", parse_unit=_parse_whole_number)


def _read_expression(reader: Reader, node: DocumentNode) -> Expression | None:
    """Return the expression in a node, with or without a leading ``=``; None after adding a problem."""
    if not isinstance(node.value, str | bool | int | float):
        reader.add_type_problem(node, "an expression in text")
        return None
    text = node.value.strip().removeprefix("=") if isinstance(node.value, str) else str(node.value)
    found: Expression | None = reader.collect_problems(node, lambda: parse(text))
    return found


def read_parameter(reader: Reader, node: DocumentNode) -> Value | Expression:
    """Return a plain value or, for text with a leading ``=``, a formula; None if the formula is invalid."""
    if isinstance(node.value, str) and node.value.startswith("="):
        return _read_expression(reader, node)
    plain: Value = node.to_plain()
    return plain


def _write_quantity(value: object) -> Any:
    """Return a number unchanged and a formula as text, with ``=`` if the text could be read as a number."""
    if not isinstance(value, Expression):
        return value
    return f"={value}" if parse_seconds(value.text) is not None else value.text


def split_range(text: str) -> tuple[str, str] | None:
    """Return (low, high) of ``low..high``; None if the text has no ``..`` outside brackets and quotes."""
    cuts = _find_separators(text, "..")
    return None if not cuts else (text[: cuts[0]], text[cuts[0] + 2 :])


def _find_separators(text: str, separator: str) -> list[int]:
    """Return the positions of a separator outside brackets and quotes."""
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
    """Return the range ``low..high`` or ``low..high step s``; None if the text is no range or is invalid."""
    if (halves := split_range(text)) is None:
        return None
    high, word, step = halves[1].partition(" step ")
    parts = (halves[0], high, *([step] if word else []))
    ends = [reader.collect_problems(node, partial(parse, part)) for part in parts]
    if None in ends:
        return None
    return Range(low=ends[0], high=ends[1], step=ends[2] if word else None)


EXPRESSION = ValueType(
    "expression", {"type": ["string", "number", "boolean"]}, _read_expression, attrgetter("text")
)
_SECONDS = ValueType("time or expression", QUANTITY_SHAPE, _read_seconds, _write_quantity, unit="s")
_BYTES = ValueType("size or expression", QUANTITY_SHAPE, _read_bytes, _write_quantity, unit="bytes")


def _read_limit(reader: Reader, node: DocumentNode) -> float | None:
    """Return the bytes of a size such as ``20GB``; None after adding a problem."""
    value = parse_bytes(node.value) if isinstance(node.value, str) else node.value
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < LARGEST_NUMBER:
        return value
    reader.add_problem(node, f"{node.display()} is not allowed", rule="must be a size such as 20GB, above 0")
    return None


_LIMIT = ValueType("size", QUANTITY_SHAPE, _read_limit, unit="bytes")
_COUNT = ValueType(
    "whole number or expression", {"type": ["number", "string"], "minimum": 1}, _read_count, _write_quantity
)


# Amounts by node count


def _read_by_count(reader: Reader, node: DocumentNode) -> Iterator[tuple[int, DocumentNode]]:
    """Yield (node count, document node) per entry of a table; add a problem for keys that are no counts."""
    for count, value in reader.mapping(node).items():
        if count.isdecimal() and len(count) <= _MAX_COUNT_DIGITS:
            yield int(count), value
        else:
            what = f"node count {shorten(repr(count))}"
            reader.add_problem(value, what, rule="must be a whole number, at least 1")


def _read_amount(
    reader: Reader, node: DocumentNode, *, read: Callable[[Reader, DocumentNode], Quantity | None]
) -> Amount | None:
    """Return a quantity, or a dictionary of quantities by node count; None after adding a problem."""
    if not isinstance(node.value, dict):
        return read(reader, node)
    found = {count: read(reader, value) for count, value in _read_by_count(reader, node)}
    if not node.value:
        reader.add_problem(
            node, "the table of amounts is empty", advice="add at least one entry {nodes: amount}"
        )
    return {count: quantity for count, quantity in found.items() if quantity is not None} or None


def _write_amount(amount: Amount) -> Any:
    if isinstance(amount, Mapping):
        return {str(count): _write_quantity(quantity) for count, quantity in amount.items()}
    return _write_quantity(amount)


_BY_COUNT_SHAPE: Shape = {**mapping_shape(QUANTITY_SHAPE, least=1), "propertyNames": {"pattern": "^[0-9]+$"}}
_AMOUNT_SHAPE = any_of(QUANTITY_SHAPE, _BY_COUNT_SHAPE)
_read_byte_amount = partial(_read_amount, read=_read_bytes)


def _read_amounts(reader: Reader, node: DocumentNode) -> dict[str, Amount]:
    found = {name: _read_byte_amount(reader, value) for name, value in reader.mapping(node).items()}
    return {name: amount for name, amount in found.items() if amount is not None}


def _write_amounts(amounts: Mapping[str, Amount]) -> dict[str, Any]:
    return {name: _write_amount(amount) for name, amount in amounts.items()}


def _write_resources(task: Task) -> dict[str, Any] | None:
    return {n: _write_amount(a) for n, a in task.resources.items() if n not in ("memory", "gpus")} or None


_AMOUNTS = ValueType("mapping of amounts", mapping_shape(_AMOUNT_SHAPE), _read_amounts, _write_amounts)


def _amount_type(label: str, unit: str, read: Callable[[Reader, DocumentNode], Quantity | None]) -> ValueType:
    return ValueType(
        f"{label}, or by node count",
        _AMOUNT_SHAPE,
        partial(_read_amount, read=read),
        _write_amount,
        unit=unit,
    )


# Sweeps and dependencies


def _read_sweep(reader: Reader, node: DocumentNode) -> Sweep | None:
    variables, paired = [], False
    for name, values in reader.mapping(node).items():
        if name == "zip":
            paired = reader.flag(values)
        elif not name.isidentifier():
            reader.add_problem(values, f"sweep variable {name!r}", rule="must be a plain name, such as k")
        elif (found := _read_sweep_values(reader, values)) is not None:
            variables.append((name, found))
    if not variables and isinstance(node.value, dict) and not node.value:
        reader.add_problem(node, "the sweep has no variables", advice="add a variable: `sweep: {k: 1..10}`")
    return Sweep(variables=tuple(variables), paired=paired) if variables else None


def _read_sweep_values(reader: Reader, node: DocumentNode) -> Values | None:
    """Return a sweep variable's values: a list, a range, or an expression for a list; None if invalid."""
    if isinstance(node.value, list):
        return tuple(item.to_plain() for item in node.value)
    if isinstance(node.value, str):
        if split_range(node.value) is not None:
            return read_range(reader, node, node.value)
        return _read_expression(reader, node)
    if isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return (node.value,)
    wanted = "a list, a range such as 1..50, or an expression"
    reader.add_type_problem(node, wanted, "write `name: [1, 2, 3]`")
    return None


def _write_sweep(sweep: Sweep) -> dict[str, Any]:
    def plain(values: Values) -> object:
        if isinstance(values, Range):
            return str(values)
        return values.text if isinstance(values, Expression) else list(values)

    found = {name: plain(values) for name, values in sweep.variables}
    return {**found, "zip": True} if sweep.paired else found


def _parse_reference(text: str) -> tuple[str, Indices | None]:
    """Split ``a[i, 2*j-1..2*j]`` into the name of the task and its index."""
    text = text.strip()
    name, bracket, rest = text.partition("[")
    if not name.strip():
        what = f"{shorten(text)!r} names no task"
        raise InvalidInput(what, advice="write name or name[index]")
    if not bracket:
        return text, None
    if not rest.endswith("]"):
        what = f"{shorten(text)!r} has no closing bracket"
        raise InvalidInput(what, advice="write name[index]")
    inside = rest[:-1]
    cuts = [-1, *_find_separators(inside, ","), len(inside)]
    parts = [inside[start + 1 : end].strip() for start, end in pairwise(cuts)]
    return name.strip(), tuple(_parse_index(part, text) for part in parts)


def _parse_index(part: str, text: str) -> Expression | IndexRange | str:
    if not part:
        raise InvalidInput(f"{shorten(text)!r} has an empty index", advice="write name[index]")
    if part == ALL:
        return ALL
    if (halves := split_range(part)) is None:
        return parse(part)
    return IndexRange(low=parse(halves[0]), high=parse(halves[1]))


def _read_reference(reader: Reader, node: DocumentNode) -> dict[str, Any] | None:
    """Return the attributes ``task`` and ``index`` of a dependency; None after adding a problem."""
    text = reader.text(node)
    found = None if text is None else reader.collect_problems(node, partial(_parse_reference, text))
    return None if found is None else {"task": found[0], "index": found[1]}


def _write_reference(dependency: Dependency) -> str:
    if dependency.index is None:
        return dependency.task
    parts = [f"{i.low}..{i.high}" if isinstance(i, IndexRange) else str(i) for i in dependency.index]
    return f"{dependency.task}[{', '.join(parts)}]"


_PAIR = "[value in that task, value in this task]"


def _read_pairs(reader: Reader, node: DocumentNode) -> tuple[tuple[Value, Value], ...]:
    pairs = []
    for item in reader.listing(node):
        plain = item.to_plain()
        if isinstance(plain, list) and len(plain) == 2 and all(map(_is_point, plain)):
            pairs.append((plain[0], plain[1]))
        else:
            reader.add_problem(item, f"{item.display()} is not a pair", rule=f"must be {_PAIR}")
    return tuple(pairs)


def _is_point(value: object) -> bool:
    """Return whether a value can identify a subtask: a single value, or a list with a value per variable."""
    return all(
        isinstance(part, str | int | float) for part in (value if isinstance(value, list) else [value])
    )


_SCALAR_SHAPE: Shape = {"type": ["string", "number", "boolean"]}
_POINT_SHAPE = any_of(_SCALAR_SHAPE, {"type": "array", "items": _SCALAR_SHAPE})

_TASK = ValueType("reference", TEXT_SHAPE, _read_reference)
_PAIRS = ValueType(
    "list of pairs",
    list_shape({"type": "array", "items": _POINT_SHAPE, "minItems": 2, "maxItems": 2}),
    _read_pairs,
    lambda pairs: [list(pair) for pair in pairs],
)

# fmt: off
DEPENDENCY = Record("a dependency", (
    Field("task", _TASK, "the task or loop that must end first, with an index for some of its subtasks",
          required=True, attribute="*", write_record=_write_reference,
          advice="write {task: NAME, if: CONDITION}"),
    Field("pairs", _PAIRS, f"explicit pairs: `{_PAIR}`"),
    Field("if", EXPRESSION,
          "condition over `exit_code` and `result` of that task; the branch is taken only if it holds",
          attribute="condition"),
))
# fmt: on


def _read_after(reader: Reader, node: DocumentNode) -> tuple[Dependency, ...]:
    found = []
    for entry, item in enumerate(reader.listing(node)):
        values = (
            DEPENDENCY.read(reader, item) if isinstance(item.value, dict) else _read_reference(reader, item)
        )
        if values is not None and "task" in values:
            found.append(Dependency(entry=entry, **values))
    return tuple(found)


def _write_dependency(dependency: Dependency) -> object:
    plain = dependency.pairs is None and dependency.condition is None
    return _write_reference(dependency) if plain else DEPENDENCY.write(dependency)


# Files

# fmt: off
INPUT = Record("an input", (
    Field("file", TEXT, "name in the directory of the task", required=True,
          advice="write {file: NAME, from: URL}"),
    Field("from", TEXT, "path or URL from which the file is staged", attribute="source"),
    Field("size", _BYTES, "size, where no task that writes the file states it"),
    Field("shared", FLAG, "`true`: the file is cached on the machine for all its tasks", default=False),
    Field("compressed", FLAG, "`true`: the file is decompressed on the machine", default=False),
    Field("max_size", _LIMIT, "largest size after decompression, such as `20GB`", attribute="max_bytes",
          default_text="1GiB, or 200 times the compressed size"),
))
# fmt: on

# fmt: off
OUTPUT = Record("an output", (
    Field("size", _BYTES, "size of the file", default_text="unknown"),
    Field("seconds", _SECONDS, "fixed transfer time between any two different machines"),
    Field("to", TEXT, "path or URL to which the file is staged", attribute="target"),
))
# fmt: on


def _read_inputs(reader: Reader, node: DocumentNode) -> tuple[Input, ...]:
    found: list[Input] = []
    for entry, item in enumerate(reader.listing(node)):
        if not isinstance(item.value, dict):
            found += [Input(file=name, entry=entry) for name in _read_file_names(reader, item)]
            continue
        values = INPUT.read(reader, item)
        if "file" in values:
            found.append(Input(entry=entry, **values))
    return tuple(found)


def _write_input(given: Input) -> object:
    found = INPUT.write(given)
    return given.file if len(found) == 1 else found


def _read_outputs(reader: Reader, node: DocumentNode) -> tuple[Output, ...]:
    """Return the outputs: a list of names, or a mapping of names to sizes or records."""
    found: list[Output] = []
    if not isinstance(node.value, dict):
        for item in reader.listing(node):
            found += [Output(file=name) for name in _read_file_names(reader, item)]
        return tuple(found)
    for key, item in node.value.items():
        if isinstance(item.value, dict):
            values = OUTPUT.read(reader, item)
        else:
            values = {} if item.value is None else {"size": _read_bytes(reader, item)}
        found += [Output(file=name, **values) for name in reader.expand_names(item, key)]
    return tuple(found)


def _write_outputs(outputs: tuple[Output, ...]) -> object:
    found = {output.file: OUTPUT.write(output) for output in outputs}
    if not any(found.values()):
        return [output.file for output in outputs]
    return {
        file: values.get("size") if values.keys() <= {"size"} else values for file, values in found.items()
    }


def _read_file_names(reader: Reader, node: DocumentNode) -> list[str]:
    """Return the file names to which a text expands; a range in braces gives several names."""
    if (text := reader.text(node)) is not None and not text.strip():
        reader.add_problem(node, "the file name is empty", advice="name the file, or remove the entry")
        return []
    return [] if text is None else reader.expand_names(node, text)


# Time and nodes


def _read_explicit_seconds(reader: Reader, node: DocumentNode) -> Quantity | dict[str, Quantity] | None:
    """Return one time for all machines, or times by machine name; None after adding a problem."""
    if not isinstance(node.value, dict):
        return _read_seconds(reader, node)
    if not node.value:
        reader.add_problem(node, "the table of seconds is empty", advice="write {machine: seconds}")
    found: dict[str, Quantity] = {}
    for machines, value in node.value.items():
        seconds = _read_seconds(reader, value)
        names = reader.expand_names(value, machines)
        if seconds is not None:
            found |= dict.fromkeys(names, seconds)
    return found


def _write_explicit_seconds(seconds: Quantity | Mapping[str, Quantity]) -> Any:
    if isinstance(seconds, Mapping):
        return {machine: _write_quantity(value) for machine, value in seconds.items()}
    return _write_quantity(seconds)


def _read_nodes(reader: Reader, node: DocumentNode) -> NodeCounts:
    counts: list[Quantity | Range] = []
    items = reader.listing(node)
    for item in items:
        found: Quantity | Range | None
        if isinstance(item.value, str) and split_range(item.value) is not None:
            found = read_range(reader, item, item.value)
        else:
            found = _read_count(reader, item)
        if found is not None:
            counts.append(found)
    if not items:
        advice = "add at least one count, or remove the key nodes"
        reader.add_problem(node, "the list of node counts is empty", advice=advice)
    return tuple(counts) or (1,)


def _write_nodes(task: Task) -> object:
    counts = [str(count) if isinstance(count, Range) else _write_quantity(count) for count in task.nodes]
    if isinstance(task.speedup, MeasuredSeconds):
        return None if task.nodes == tuple(sorted(task.speedup.seconds)) else counts
    return None if counts == [1] else counts[0] if len(counts) == 1 else counts


def _read_law(reader: Reader, node: DocumentNode, *, make: Callable[[float], SpeedUp]) -> SpeedUp | None:
    number = node.value
    if not isinstance(number, int | float) or isinstance(number, bool) or not math.isfinite(number):
        reader.add_type_problem(node, "a number")
        return None
    return make(float(number))


def _read_roofline(reader: Reader, node: DocumentNode) -> Roofline | None:
    limit = reader.integer(node, least=1)
    return None if limit is None else Roofline(limit=limit)


def _read_measured_seconds(reader: Reader, node: DocumentNode) -> MeasuredSeconds | None:
    table: dict[int, float] = {}
    for count, seconds in _read_by_count(reader, node):
        value = _read_seconds(reader, seconds)
        if isinstance(value, int | float):
            table[count] = float(value)
        elif value is not None:
            reader.add_type_problem(seconds, "a number of seconds")
    if isinstance(node.value, dict) and not node.value:
        advice = "add at least one entry {nodes: seconds}"
        reader.add_problem(node, "the table of seconds is empty", advice=advice)
    return MeasuredSeconds(seconds=table) if table else None


def _write_measured_seconds(law: SpeedUp) -> object:
    if not isinstance(law, MeasuredSeconds):
        return None
    return {str(count): seconds for count, seconds in law.seconds.items()}


_SHARE_SHAPE: Shape = {"type": "number", "minimum": 0, "maximum": 1}
_AT_LEAST_0: Shape = {"type": "number", "minimum": 0}

_AMDAHL = ValueType("number", _SHARE_SHAPE, partial(_read_law, make=lambda serial: Amdahl(serial=serial)))
_ROOFLINE = ValueType("whole number", {"type": "integer", "minimum": 1}, _read_roofline)
_COMMUNICATION = ValueType(
    "number", _AT_LEAST_0, partial(_read_law, make=lambda share: CommunicationOverhead(overhead=share))
)
_SPEEDUP_SECONDS = ValueType("times by node count", _BY_COUNT_SHAPE, _read_measured_seconds, unit="s")

# fmt: off
SPEEDUP = Record("a speed-up law", (
    Field("amdahl", _AMDAHL,
          "serial share f of the work, 0 to 1; relative seconds on R nodes: `f + (1 - f)/R`",
          write_record=lambda law: law.serial if isinstance(law, Amdahl) else None),
    Field("roofline", _ROOFLINE, "node count L up to which the speed-up is perfect: `1 / min(R, L)`",
          write_record=lambda law: law.limit if isinstance(law, Roofline) else None),
    Field("communication", _COMMUNICATION,
          "overhead c per added node as a share of the serial time: `1/R + c*(R - 1)`",
          write_record=lambda law: law.overhead if isinstance(law, CommunicationOverhead) else None),
    Field("seconds", _SPEEDUP_SECONDS,
          "seconds measured on speed 1 by node count: `{1: 2100, 2: 1073.3}`; interpolated between",
          write_record=_write_measured_seconds),
), constraints={"minProperties": 1, "maxProperties": 1})
# fmt: on


def _read_speedup(reader: Reader, node: DocumentNode) -> SpeedUp | None:
    entries = SPEEDUP.read_entries(reader, node)
    if len(entries) != 1:
        if isinstance(node.value, dict):
            rule = f"must have exactly one of {', '.join(SPEEDUP.help)}"
            reader.add_problem(node, f"the speed-up has {len(entries)} laws", rule=rule)
        return None
    laws = list(SPEEDUP.read_values(reader, entries).values())
    return laws[0] if laws else None


# Execution and recovery


def _read_command(reader: Reader, node: DocumentNode) -> str | tuple[str, ...] | None:
    return TEXTS.read(reader, node) if isinstance(node.value, list) else reader.text(node)


# fmt: off
ENVIRONMENT = Record("an environment", (
    Field("container", TEXT, "container image"),
    Field("conda", TEXT, "conda environment file"),
    Field("modules", TEXTS, "environment modules to load", default=()),
))
# fmt: on

# fmt: off
ISOLATION = Record("an isolation", (
    Field("with", choice(("none", *ISOLATED_BY)), "program that isolates the task; `none`: not isolated",
          attribute="tool", default_text=f"`{ISOLATED_BY[0]}`"),
    Field("network", FLAG, "`true`: the program may use the network", default=False),
    Field("read", TEXTS, "absolute paths outside the task that the program may read", default=()),
))
# fmt: on


def read_isolation(reader: Reader, node: DocumentNode) -> Isolation | None:
    """Return the isolation that a word or a mapping states; None if it is invalid (a problem is added)."""
    if isinstance(node.value, dict):
        return Isolation(**{"tool": ISOLATED_BY[0], **ISOLATION.read(reader, node)})
    tool = reader.choice(node, ("none", *ISOLATED_BY))
    return None if tool is None else Isolation(tool=tool)


def make_isolation(stated: Isolation | str | Mapping[str, Any]) -> Isolation:
    """Return the isolation that an option or an argument states; raise InvalidInput if it is invalid."""
    if isinstance(stated, Isolation):
        return stated
    reader = Reader()
    found = read_isolation(reader, from_python(stated, path=("isolate",)))
    problems = [*reader.problems, *(found.find_problems() if found is not None else ())]
    if problems or found is None:
        raise InvalidInput(problems)
    return found


def _write_isolation(isolation: Isolation) -> object:
    return ISOLATION.write(isolation) if isolation.network or isolation.read else isolation.tool


# fmt: off
CHECKPOINT = Record("a checkpoint", (
    Field("files", TEXTS, "restart files; an empty list: the task has none", required=True,
          advice="add `files: [...]`"),
    Field("every", _SECONDS,
          "interval at which restart files are requested (SIGUSR1) and copied to the store",
          default_text="copied when they have changed"),
    Field("url", TEXT, "path or URL of the store: a folder for copies of the restart files",
          default_text="below `.weft`"),
    Field("nodes", choice(("any", "same")),
          "`any`: valid for every node count; `same`: only for the count that wrote it", default="same"),
))
# fmt: on


def _read_checkpoint(reader: Reader, node: DocumentNode) -> Checkpoint:
    values = (
        CHECKPOINT.read(reader, node) if isinstance(node.value, dict) else {"files": TEXTS.read(reader, node)}
    )
    return Checkpoint(**{"files": (), **values})


def _read_constant(reader: Reader, node: DocumentNode) -> float | None:
    number = _read_seconds(reader, node)
    if isinstance(number, Expression):
        reader.add_problem(node, f"{node.display()} is an expression", rule="must be a number")
        return None
    return number


_FACTOR = ValueType("number", _AT_LEAST_0, _read_constant)
_GRACE = ValueType("time", QUANTITY_SHAPE, _read_constant, unit="s")

# fmt: off
CONTRACT = Record("a contract", (
    Field("factor", _FACTOR, "allowed excess over the estimate: 0.5 allows 1.5 times the estimate",
          default_text="that of the settings, else 0.5"),
    Field("grace", _GRACE, "time before the contract is first checked", attribute="grace_s",
          default_text="that of the settings, else a tenth of the estimate"),
))
# fmt: on


def _read_contract(reader: Reader, node: DocumentNode) -> ContractTerms | None:
    if isinstance(node.value, int | float) and not isinstance(node.value, bool):
        factor = _read_constant(reader, node)
        return None if factor is None else ContractTerms(factor=float(factor))
    if node.value in ("none", None):
        return ContractTerms(factor=math.inf)
    if not isinstance(node.value, dict):
        reader.add_type_problem(node, "a number, none, or a mapping of factor and grace")
        return None
    return ContractTerms(**CONTRACT.read(reader, node))


def _write_contract(contract: ContractTerms) -> object:
    if contract.factor == math.inf:
        return "none"
    has_factor_only = contract.factor is not None and contract.grace_s is None
    return contract.factor if has_factor_only else CONTRACT.write(contract)


def _read_retries(reader: Reader, node: DocumentNode) -> dict[str, Any]:
    """Return ``{"retries": count}`` or, for a mapping, ``{"retries_by_cause": {cause: count}}``."""
    if not isinstance(node.value, dict):
        return {"retries": reader.integer(node, least=0, most=_MOST_RETRIES)}
    found = {
        cause: reader.integer(value, least=0, most=_MOST_RETRIES)
        for cause, value in reader.mapping(node, CAUSES, "cause of failure").items()
    }
    return {"retries_by_cause": {cause: count for cause, count in found.items() if count is not None}}


def _read_outcomes(reader: Reader, node: DocumentNode) -> tuple[int, ...]:
    codes = [reader.integer(item, least=0) for item in reader.listing(node)]
    return tuple(code for code in codes if code is not None)


def _read_attributes(reader: Reader, node: DocumentNode) -> dict[str, object]:
    return {key: value.to_plain() for key, value in reader.mapping(node).items()}


def _write_attributes(task: Task) -> dict[str, object] | None:
    return {key: value for key, value in task.attributes.items() if key != "description"} or None


# Tasks


def _read_kind(reader: Reader, node: DocumentNode) -> TaskKind | None:
    found = reader.choice(node, [kind.value for kind in TaskKind])
    return None if found is None else TaskKind(found)


_CODE_SHAPE: Shape = {"type": "integer", "minimum": 0}
_RETRIES_SHAPE: Shape = {**_CODE_SHAPE, "maximum": _MOST_RETRIES}
_CAUSES_SHAPE: Shape = {
    "type": "object",
    "properties": dict.fromkeys(CAUSES, _RETRIES_SHAPE),
    "additionalProperties": False,
}
_SWEEP_VALUES_SHAPE = any_of({"type": ["string", "number"]}, {"type": "array", "items": _SCALAR_SHAPE})


def _transfer_field(key: str, attribute: str, kind: ValueType, text: str) -> Field:
    return Field(key, kind, f"of a transfer: {text}", attribute=f"transfer.{attribute}")


def _job_field(key: str, text: str, kind: ValueType = TEXT, default: object = None) -> Field:
    return Field(key, kind, text, attribute=f"job.{key}", default=default)


_KIND = ValueType(
    ", ".join(f"`{kind.value}`" for kind in TaskKind),
    {"enum": [kind.value for kind in TaskKind]},
    _read_kind,
    attrgetter("value"),
)
_SWEEP = ValueType(
    "mapping of values",
    {**mapping_shape(_SWEEP_VALUES_SHAPE, least=1), "properties": {"zip": FLAG.shape}},
    _read_sweep,
    _write_sweep,
)
_AFTER = ValueType(
    "list of dependencies",
    list_shape(any_of(TEXT_SHAPE, DEPENDENCY.shape())),
    _read_after,
    lambda after: [_write_dependency(each) for each in after],
)
_COMMAND = ValueType(
    "text or list",
    any_of(TEXT_SHAPE, {"type": "array", "items": TEXT_SHAPE}),
    _read_command,
    lambda command: list(command) if isinstance(command, tuple) else command,
)
_ENVIRONMENT = ValueType(
    "mapping",
    ENVIRONMENT.shape(),
    lambda reader, node: Environment(**ENVIRONMENT.read(reader, node)),
    ENVIRONMENT.write,
)
_ISOLATION = ValueType(
    "`none`, `bubblewrap`, `unshare` or mapping",
    any_of({"enum": ["none", *ISOLATED_BY]}, ISOLATION.shape()),
    read_isolation,
    _write_isolation,
)
_INPUTS = ValueType(
    "list of files",
    list_shape(any_of(TEXT_SHAPE, INPUT.shape())),
    _read_inputs,
    lambda inputs: [_write_input(each) for each in inputs],
)
_OUTPUTS = ValueType(
    "list or mapping of files",
    any_of(list_shape(TEXT_SHAPE), mapping_shape(any_of(QUANTITY_SHAPE, OUTPUT.shape(), NULL_SHAPE))),
    _read_outputs,
    _write_outputs,
)
_WORK = ValueType(
    "number, time or expression", QUANTITY_SHAPE, _read_work, _write_quantity, unit="s on speed 1"
)
_TASK_SECONDS = ValueType(
    "time or expression, or by machine",
    any_of(QUANTITY_SHAPE, mapping_shape(QUANTITY_SHAPE, least=1)),
    _read_explicit_seconds,
    _write_explicit_seconds,
    unit="s",
)
_NODES = ValueType(
    "count, range or list",
    any_of(_COUNT.shape, {"type": "array", "items": _COUNT.shape, "minItems": 1}),
    _read_nodes,
)
_SPEEDUP = ValueType("speed-up law", SPEEDUP.shape(), _read_speedup, SPEEDUP.write)
_CORES = ValueType("whole number or expression", QUANTITY_SHAPE, _read_count, _write_quantity)
_CHECKPOINT = ValueType(
    "files or mapping", any_of(list_shape(TEXT_SHAPE), CHECKPOINT.shape()), _read_checkpoint, CHECKPOINT.write
)
_CONTRACT = ValueType(
    "number, `none` or mapping",
    any_of(_AT_LEAST_0, {"enum": ["none", None]}, CONTRACT.shape()),
    _read_contract,
    _write_contract,
)
_RETRIES = ValueType("whole number, or by cause", any_of(_RETRIES_SHAPE, _CAUSES_SHAPE), _read_retries)
_TASK_SETTINGS = ValueType(
    "mapping", settings_shape(scope="task"), partial(read_settings, scope="task"), write_settings
)
_SETTINGS = ValueType("mapping", settings_shape(), read_settings, write_settings)
_OUTCOMES = ValueType("list of exit codes", list_shape(_CODE_SHAPE), _read_outcomes, list)
_ATTRIBUTES = ValueType("mapping", mapping_shape(ANY_SHAPE), _read_attributes)

# fmt: off
TASK = Record("a task", (
    Field("description", TEXT, "free text", attribute="attributes.description"),
    Field("kind", _KIND, "`transfer`: an explicit file transfer; `virtual`: no work, no nodes",
          default=TaskKind.COMPUTE, default_text="`compute`"),
    Field("sweep", _SWEEP,
          "one subtask per value: `{k: 1..50}`; several variables are crossed, `zip: true` pairs them"),
    Field("zip", FLAG, "the same as `zip` inside `sweep`", default_text="`false`",
          write_record=never_written),
    Field("after", _AFTER, "tasks, subtasks and loops that must end first", default=()),
    _transfer_field("from", "source", TEXT, "abstract machine that sends the file"),
    _transfer_field("to", "target", TEXT, "abstract machine that receives the file"),
    _transfer_field("file", "file", TEXT, "name of the file"),
    _transfer_field("size", "size", _BYTES, "size of the file; by default that of the output"),
    _job_field("command", "text: a line for the shell; list: program and arguments without a shell",
               _COMMAND),
    _job_field("arguments", "arguments appended to the command", TEXTS, ()),
    _job_field("call", "Python function instead of a command, `module:name`"),
    _job_field("env", "environment variables", TEXTS_BY_NAME, {}),
    Field("secrets", TEXTS, "names of the workflow's secrets that the program receives",
          attribute="job.secrets", default_text="all"),
    _job_field("stdin", "file for the standard input"),
    _job_field("stdout", "file for the standard output"),
    _job_field("stderr", "file for the standard error"),
    _job_field("environment",
               "`{container: IMAGE}`, `{conda: FILE}` or `{modules: [gcc]}` around the command",
               _ENVIRONMENT),
    _job_field("isolate",
               "`bubblewrap` or `unshare`: the program sees only declared files, and no network",
               _ISOLATION),
    _job_field("prolog", "command that prepares the machine, run as a program before that of the task"),
    _job_field("wrapper", "command that runs the task's command, which it gets as its arguments"),
    _job_field("epilog", "command that cleans up, run as a program after that of the task"),
    _job_field("selector", "what chooses the machine of this task: a policy (`rank`, `fcfs`) or a program"),
    _job_field("evaluator",
               "contract of this task: a factor (`0.5`), seconds per iteration (`8s`), `none`, or a program"),
    _job_field("version", "part of the fingerprint by which finished tasks are reused"),
    Field("inputs", _INPUTS,
          "files read: names, wildcards, folders or records; a file of another task is a dependency",
          default=()),
    Field("outputs", _OUTPUTS, "files written: a list of names, `{name: size}`, or records by name",
          default=()),
    Field("work", _WORK, "seconds on one node of a machine of speed 1", default_text="1, marked as assumed"),
    Field("seconds", _TASK_SECONDS,
          "explicit times instead of `work`: one time, or `{P1: 14, P2: 16}` for these machines only"),
    Field("nodes", _NODES, "allowed node counts; a task with more than one is moldable", default_text="1",
          write_record=_write_nodes),
    Field("speedup", _SPEEDUP, "how the time decreases with the node count", default_text="no speed-up"),
    Field("machine", TEXT, "abstract machine; tasks with the same name run on the same machine"),
    Field("service", TEXT, "only machines that offer this service are used"),
    Field("requirements", EXPRESSION,
          'only machines for which this holds are used: `memory >= 4*GB and arch == "x86_64"`'),
    Field("rank", EXPRESSION,
          "number that decides between the free machines that meet `requirements`; the highest wins"),
    Field("cores", _CORES, "cores on each node; where a node is one core (`local`), each takes a node"),
    Field("memory", _amount_type("size or expression", "bytes", _read_bytes),
          "memory of the machine taken while the task runs", attribute="resources.memory"),
    Field("gpus", _amount_type("number or expression", "", _read_count),
          "GPUs of the machine taken while the task runs", attribute="resources.gpus"),
    Field("resources", _AMOUNTS, "other countable resources taken while the task runs: `{licence: 1}`",
          attribute="resources.*", write_record=_write_resources),
    Field("consumes", _AMOUNTS, "amounts taken from the `budgets` of the workflow: `{credits: 3}`",
          default={}),
    Field("checkpoint", _CHECKPOINT, "restart files, or `{files: [...], every: 60s, nodes: any}`",
          attribute="recovery.checkpoint"),
    Field("progress", TEXT, "file in which the task reports its progress", attribute="recovery.progress"),
    Field("contract", _CONTRACT,
          "performance that an attempt must deliver: the factor, or `{factor: 0.5, grace: 10s}`",
          attribute="recovery.contract"),
    Field("retries", _RETRIES,
          f"retries of a failed attempt; causes: {', '.join(f'`{cause}`' for cause in CAUSES)}",
          attribute="recovery.*", default_text="by cause, see below",
          write_record=lambda task: dict(task.recovery.retries_by_cause) or task.recovery.retries),
    Field("on_failure", choice(ON_FAILURE), "action when the retries are used up",
          attribute="recovery.on_failure", default_text="`stop`"),
    Field("time_limit", _SECONDS, "an attempt is ended after this time", attribute="recovery.time_limit"),
    Field("settings", _TASK_SETTINGS, "settings of this task alone: `{migration: {gain: 0.1}}`", default={}),
    Field("outcomes", _OUTCOMES, "exit codes that are results, not failures", default=()),
    Field("attributes", _ATTRIBUTES, "values kept for other systems; weft does not read them",
          attribute="attributes.*",
          write_record=_write_attributes),
))
# fmt: on


def _read_task(reader: Reader, name: str, node: DocumentNode, defaults: Mapping[str, DocumentNode]) -> Task:
    rule = ""
    if control := [char for char in name if char < " " or "\x7f" <= char <= "\x9f"]:
        rule = f"must not contain the control character U+{ord(control[0]):04X}"
    elif not name or any(char in name for char in "[]{},"):
        rule = "must not be empty or contain brackets, braces or commas"
    if rule:
        reader.add_problem(node, f"task name {shorten(repr(name))}", rule=rule)
    written = TASK.read_entries(reader, node) if node.value is not None else {}
    stated = written.get("kind", defaults.get("kind"))
    kind = (None if stated is None else _read_kind(reader, stated)) or TaskKind.COMPUTE
    entries = {**_inherited(defaults, written, kind), **written}
    entries.pop("kind", None)
    values = TASK.read_values(reader, entries)
    if values.pop("zip", False) and "sweep" in values and "zip" not in entries["sweep"].to_plain():
        values["sweep"] = replace(values["sweep"], paired=True)
    values["transfer"] = _make_transfer(reader, node, entries, kind, values.get("transfer", {}))
    if "job" in values:
        values["job"] = JobSpec(**values["job"])
    values["recovery"] = Recovery(**values["recovery"]) if "recovery" in values else NO_RECOVERY
    law = values.get("speedup")
    if isinstance(law, MeasuredSeconds) and law.seconds:
        if "work" not in entries and "seconds" not in entries:
            values["work"] = law.first_seconds
        if "nodes" not in entries:
            values["nodes"] = tuple(sorted(law.seconds))
    return Task(name=name, kind=kind, **values)


def _inherited(
    defaults: Mapping[str, DocumentNode], written: Mapping[str, DocumentNode], kind: TaskKind
) -> dict[str, DocumentNode]:
    """Return the workflow's ``defaults`` that apply to a task.

    A task that states ``work`` or ``seconds`` inherits neither of the two. A transfer or a virtual task
    inherits none of ``work``, ``seconds`` and ``consumes``.
    """
    own: tuple[str, ...] = ()
    if kind is not TaskKind.COMPUTE:
        own = ("work", "seconds", "consumes")
    elif "work" in written or "seconds" in written:
        own = ("work", "seconds")
    return {key: node for key, node in defaults.items() if key not in own}


def _make_transfer(
    reader: Reader,
    node: DocumentNode,
    entries: Mapping[str, DocumentNode],
    kind: TaskKind,
    values: Mapping[str, Any],
) -> Transfer | None:
    if kind is not TaskKind.TRANSFER:
        for key in ("from", "to", "file", "size"):
            if key in entries:
                advice = "add `kind: transfer`, or remove the key"
                reader.add_problem(
                    entries[key], f"a task of kind {kind.value} has the key {key!r}", advice=advice
                )
                break
        return None
    for key in ("from", "to", "file"):
        if key not in entries:
            reader.add_problem(node, f"the transfer has no key {key!r}", rule="must have from, to and file")
    return Transfer(**{"source": "?", "target": "?", "file": "?", **values})


# Loops and the workflow

# fmt: off
LOOP = Record("a loop", (
    Field("from", TEXT, "last task of the body, where the back edge starts", attribute="last", required=True),
    Field("to", TEXT, "first task of the body, where the back edge leads", attribute="first", required=True),
    Field("until", EXPRESSION, "the loop ends when this holds after the last task: `conv.exit_code == 0`"),
    Field("max_iterations", _COUNT, "the loop ends after this many iterations at the latest"),
    Field("expect", _COUNT, "expected iterations, for the total of a plan", default_text="total unknown"),
    Field("on_exhausted", choice(ON_EXHAUSTED), "action when `max_iterations` is reached", default="fail"),
))
# fmt: on


def _read_loops(reader: Reader, node: DocumentNode) -> tuple[Loop, ...]:
    loops = []
    for name, value in reader.mapping(node).items():
        values = LOOP.read(reader, value)
        if {"last", "first"} <= values.keys():
            loops.append(Loop(name=name, **values))
    return tuple(loops)


def _read_params(reader: Reader, node: DocumentNode) -> dict[str, Parameter]:
    params: dict[str, Parameter] = {}
    for name, value in reader.mapping(node).items():
        if not name.isidentifier():
            rule = "must be a plain name, such as atoms"
            reader.add_problem(value, f"parameter {shorten(repr(name))}", rule=rule)
        params[name] = read_parameter(reader, value)
    return params


def _write_params(params: Mapping[str, Parameter]) -> dict[str, object]:
    return {name: f"={value}" if isinstance(value, Expression) else value for name, value in params.items()}


# fmt: off
SECRET = Record("a secret", (
    Field("env", TEXT, "environment variable of weft with the value", attribute="variable",
          default_text="the same name"),
    Field("file", TEXT, "file with the value, relative to the folder of the workflow; `~` is your home"),
    Field("fingerprint", FLAG, "`false`: finished tasks are reused although the value has changed",
          default=True),
), null_is_absent=True)
# fmt: on


def _read_secrets(reader: Reader, node: DocumentNode) -> tuple[Secret, ...]:
    if not isinstance(node.value, dict):
        return tuple(Secret(name=name) for name in TEXTS.read(reader, node))
    found = []
    for name, value in reader.mapping(node).items():
        facts = SECRET.read(reader, value) if value.value is not None else {}
        found.append(Secret(name=name, **facts))
    return tuple(found)


def _write_secrets(secrets: tuple[Secret, ...]) -> object:
    facts = {secret.name: SECRET.write(secret) for secret in secrets}
    return facts if any(facts.values()) else list(facts)


def _read_budgets(reader: Reader, node: DocumentNode) -> dict[str, Quantity]:
    found = {name: _read_bytes(reader, value) for name, value in reader.mapping(node).items()}
    return {name: amount for name, amount in found.items() if amount is not None}


def _read_tasks(reader: Reader, node: DocumentNode, defaults: Mapping[str, DocumentNode]) -> tuple[Task, ...]:
    if not (entries := reader.mapping(node)) and isinstance(node.value, dict):
        reader.add_problem(node, "the workflow has no tasks", rule="a workflow must have at least one task")
    return tuple(_read_task(reader, name, value, defaults) for name, value in entries.items())


_TASK_REFERENCE: Shape = {"$ref": "#/$defs/task"}


PARAMS = ValueType("mapping", mapping_shape(ANY_SHAPE), _read_params, _write_params)
"""The type of ``params``: values and formulas by the name of the parameter."""

_DEFAULTS = ValueType("task", _TASK_REFERENCE, TASK.read_entries)
_BUDGETS = ValueType(
    "mapping of amounts",
    mapping_shape(QUANTITY_SHAPE),
    _read_budgets,
    lambda budgets: {name: _write_quantity(amount) for name, amount in budgets.items()},
)
_SECRETS = ValueType(
    "list of names, or mapping of secrets",
    any_of(list_shape(TEXT_SHAPE), mapping_shape(any_of(SECRET.shape(), NULL_SHAPE))),
    _read_secrets,
    _write_secrets,
)
_TASKS = ValueType(
    "mapping of tasks",
    mapping_shape(any_of(_TASK_REFERENCE, NULL_SHAPE), least=1),
    keep_node,
    lambda tasks: {task.name: TASK.write(task) for task in tasks},
)
_LOOPS = ValueType(
    "mapping of loops",
    mapping_shape({"$ref": "#/$defs/loop"}),
    _read_loops,
    lambda loops: {loop.name: LOOP.write(loop) for loop in loops},
)

# fmt: off
WORKFLOW = Record("a workflow", (
    version_field(required=True),
    Field("name", TEXT, "name of the workflow", default_text="the file's name"),
    Field("description", TEXT, "free text"),
    Field("owner", TEXT, "user to whom the workflow belongs"),
    Field("params", PARAMS,
          "values, lists, mappings; text with a leading `=` is a formula; `-p name=value` changes one",
          default={}),
    Field("defaults", _DEFAULTS, "task keys for every task that does not set them",
          write_record=never_written),
    Field("budgets", _BUDGETS, "amounts by name that all tasks together may consume", default={}),
    Field("secrets", _SECRETS,
          "values that programs receive as environment variables, and that weft writes nowhere", default=()),
    Field("predictions", PREDICTIONS,
          "predicted or measured times of its tasks: a CSV or YAML file, or rows", default=()),
    Field("settings", _SETTINGS,
          "how the run is planned and adapted: contracts, migration, retries, re-planning", default={}),
    Field("tasks", _TASKS, "the tasks by name", required=True, advice="add `tasks:` with at least one task"),
    Field("loops", _LOOPS, "the loops by name", default=()),
))
# fmt: on


WORKFLOW_RECORDS = {
    "workflow": WORKFLOW,
    "task": TASK,
    "dependency": DEPENDENCY,
    "input": INPUT,
    "output": OUTPUT,
    "speedup": SPEEDUP,
    "environment": ENVIRONMENT,
    "isolate": ISOLATION,
    "checkpoint": CHECKPOINT,
    "contract": CONTRACT,
    "loop": LOOP,
    "secret": SECRET,
}
"""The records of a workflow file by the names of their tables on the reference page."""


def read_workflow(document: Document, *, default_name: str = "workflow") -> tuple[Workflow, Reader]:
    """Return the workflow that a document describes, and the reader with the problems found.

    ``checks`` finds the problems that involve several records.
    """
    root = document.root
    assert root is not None, "a document that is read as a workflow has a root"
    reader = Reader()
    values = WORKFLOW.read(reader, root)
    defaults = values.pop("defaults", {})
    tasks = _read_tasks(reader, values.pop("tasks"), defaults) if "tasks" in values else ()
    values["name"] = values.get("name") or default_name
    return Workflow(**values, tasks=tasks, document=document), reader


def workflow_document(workflow: Workflow) -> dict[str, Any]:
    """Return a workflow as plain data with the keys of a file, without values equal to their default."""
    return WORKFLOW.write(workflow)


def workflow_schema() -> Shape:
    """Return the JSON Schema of a workflow file."""
    return {**WORKFLOW.shape(), "$defs": {"task": TASK.shape(), "loop": LOOP.shape()}}
