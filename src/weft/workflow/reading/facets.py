"""The facets of a task that planners read: data, dependencies, sweeps, node counts, speed-up laws."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from weft.braces import expand_braces
from weft.documents import Node, Reader
from weft.errors import shorten
from weft.expressions import Value
from weft.workflow.reading import keys
from weft.workflow.reading.values import (
    Indices,
    parse_reference,
    read_bytes,
    read_count,
    read_expression,
    read_range,
    read_seconds,
    read_values,
    split_range,
)
from weft.workflow.records.amount import Amount
from weft.workflow.records.data import Input, Output
from weft.workflow.records.dependency import Dependency
from weft.workflow.records.moldable import Amdahl, Communication, Measured, Roofline, SpeedUp
from weft.workflow.records.quantity import Quantity
from weft.workflow.records.sweep import Range, Sweep
from weft.workflow.records.task import NodeCounts

__all__ = [
    "read_after",
    "read_amount",
    "read_inputs",
    "read_nodes",
    "read_outputs",
    "read_speedup",
    "read_sweep",
]

_MOST_DIGITS = 9
"""Of a node count."""


def read_sweep(reader: Reader, node: Node, paired: bool) -> Sweep | None:
    """Read a sweep: variables and their value sets."""
    variables = []
    for name, values in reader.mapping(node).items():
        if name == "zip":
            paired = reader.flag(values)
        elif not name.isidentifier():
            reader.complain(values, f"sweep variable {name!r}", rule="must be a plain name, such as k")
        elif (found := read_values(reader, values)) is not None:
            variables.append((name, found))
    if not variables and isinstance(node.value, dict) and not node.value:
        reader.complain(node, "a sweep over nothing", advice="name a variable: `sweep: {k: 1..10}`")
    return Sweep(variables=tuple(variables), paired=paired) if variables else None


def read_after(reader: Reader, node: Node) -> tuple[Dependency, ...]:
    """Read what a task waits for."""
    found = [_read_dependency(reader, item, entry) for entry, item in enumerate(reader.listing(node))]
    return tuple(dependency for dependency in found if dependency is not None)


def _read_dependency(reader: Reader, node: Node, entry: int) -> Dependency | None:
    if not isinstance(node.value, dict):
        reference = _read_reference(reader, node)
        return None if reference is None else Dependency(task=reference[0], index=reference[1], entry=entry)
    entries = reader.mapping(node, keys.DEPENDENCY_KEYS)
    if "task" not in entries:
        reader.complain(node, "a dependency without task", advice="write {task: NAME, if: CONDITION}")
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


def _read_reference(reader: Reader, node: Node) -> tuple[str, Indices | None] | None:
    text = reader.text(node)
    if text is None:
        return None
    found: tuple[str, Indices | None] | None = reader.guard(node, partial(parse_reference, text))
    return found


def _read_pairs(reader: Reader, node: Node) -> tuple[tuple[Value, Value], ...]:
    pairs = []
    for item in reader.listing(node):
        plain = item.plain()
        if isinstance(plain, list) and len(plain) == 2 and all(map(_is_point, plain)):
            pairs.append((plain[0], plain[1]))
        else:
            reader.complain(item, f"{item.shown()} is no pair", rule="must be [value there, value here]")
    return tuple(pairs)


def _is_point(value: object) -> bool:
    """Say whether a value names a subtask: the value of its sweep variable, or the list of several."""
    return all(
        isinstance(part, str | int | float) for part in (value if isinstance(value, list) else [value])
    )


def read_inputs(reader: Reader, node: Node) -> tuple[Input, ...]:
    """Read the files a task reads: names, or mappings with where they come from."""
    found: list[Input] = []
    for entry, item in enumerate(reader.listing(node)):
        if not isinstance(item.value, dict):
            found += [Input(file=name, entry=entry) for name in _file_names(reader, item)]
            continue
        entries = reader.mapping(item, keys.INPUT_KEYS)
        if "file" not in entries:
            reader.complain(item, "an input without file", advice="write {file: NAME, from: URL}")
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


def read_outputs(reader: Reader, node: Node) -> tuple[Output, ...]:
    """Read the files a task writes: a list of names, or a mapping of names to sizes."""
    found: list[Output] = []
    if not isinstance(node.value, dict):
        for item in reader.listing(node):
            found += [Output(file=name) for name in _file_names(reader, item)]
        return tuple(found)
    for key, item in node.value.items():
        output = _read_output(reader, item)
        names = reader.guard(item, partial(expand_braces, key))
        found += [replace(output, file=name) for name in names or ()]
    return tuple(found)


def _read_output(reader: Reader, node: Node) -> Output:
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


def _file_names(reader: Reader, node: Node) -> list[str]:
    """Read the name of a file; a range in braces stands for several."""
    text = reader.text(node)
    if text is not None and not text.strip():
        reader.complain(node, "an empty file name", advice="name the file, or remove the entry")
        return []
    names: list[str] | None = None if text is None else reader.guard(node, partial(expand_braces, text))
    return names or []


def read_nodes(reader: Reader, node: Node) -> NodeCounts:
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
        reader.complain(node, "an empty list of node counts", advice=advice)
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
        limit = reader.integer(value, least=1)
        return None if limit is None else Roofline(limit=limit)
    return Communication(overhead=float(number))


def _read_measured(reader: Reader, node: Node) -> Measured | None:
    table: dict[int, float] = {}
    for count, seconds in _by_count(reader, node):
        value = read_seconds(reader, seconds)
        if isinstance(value, int | float):
            table[count] = float(value)
        elif value is not None:
            reader.wanted(seconds, "a number of seconds")
    if isinstance(node.value, dict) and not node.value:
        reader.complain(node, "an empty table of seconds", advice="give at least one {nodes: seconds} entry")
    return Measured(seconds=table) if table else None


def read_amount(reader: Reader, node: Node, read: Callable[[Reader, Node], Quantity | None]) -> Amount | None:
    """Read an amount: a quantity, or a table of quantities by node count."""
    if not isinstance(node.value, dict):
        return read(reader, node)
    found = {count: read(reader, value) for count, value in _by_count(reader, node)}
    if not node.value:
        reader.complain(node, "an empty table of amounts", advice="give at least one {nodes: amount} entry")
    table = {count: quantity for count, quantity in found.items() if quantity is not None}
    return table or None


def _by_count(reader: Reader, node: Node) -> Iterator[tuple[int, Node]]:
    """Give the entries of a table whose keys are node counts."""
    for count, value in reader.mapping(node).items():
        if count.isdecimal() and len(count) <= _MOST_DIGITS:
            yield int(count), value
        else:
            what = f"node count {shorten(repr(count))}"
            reader.complain(value, what, rule="must be a whole number, at least 1")
