"""What tasks and loops really do: durations, ends, results, iterations, lines, changes of mind."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from weft.documents import Node, Reader
from weft.errors import nearest
from weft.simulation.reading.keys import (
    CANCELLATION_KEYS,
    DURATION_KEYS,
    REPLANNING_KEYS,
    REQUIREMENT_KEYS,
    SUSPENSION_KEYS,
    TASK_DURATION_KEYS,
)
from weft.simulation.reading.values import read_entry, read_number, read_seconds
from weft.simulation.scenario import (
    FAILURE_WORDS,
    Cancellation,
    Durations,
    End,
    RequirementChange,
    Result,
    Suspension,
)
from weft.workflow.reading.values import read_expression

__all__ = [
    "read_cancellation",
    "read_counts",
    "read_durations",
    "read_ends",
    "read_replanning",
    "read_requirement",
    "read_results",
    "read_suspension",
]

_Item = TypeVar("_Item")

_MOST_CODE = 255


def read_durations(reader: Reader, node: Node) -> Durations:
    """Read noise and bias, and those of single tasks; what a task does not say is that of all."""
    entries = read_entry(reader, node, DURATION_KEYS)
    noise = read_number(reader, entries.get("noise"), 0.0, least=0.0)
    bias = read_number(reader, entries.get("bias"), 1.0, least=0.0, above=True)
    tasks: dict[str, Durations] = {}
    for name, own in (reader.mapping(entries["tasks"]) if "tasks" in entries else {}).items():
        written = read_entry(reader, own, TASK_DURATION_KEYS)
        tasks[name] = Durations(
            noise=read_number(reader, written.get("noise"), noise, least=0.0),
            bias=read_number(reader, written.get("bias"), bias, least=0.0, above=True),
        )
    return Durations(noise=noise, bias=bias, tasks=tasks)


def read_suspension(reader: Reader, node: Node) -> Suspension:
    """Read one suspension."""
    entries = read_entry(reader, node, SUSPENSION_KEYS, ("task", "at"))
    return Suspension(
        task=_task(reader, entries.get("task")),
        at_s=read_seconds(reader, entries.get("at"), 0.0),
        lasting_s=read_seconds(reader, entries.get("lasting"), math.inf),
    )


def read_cancellation(reader: Reader, node: Node) -> Cancellation:
    """Read one cancellation."""
    entries = read_entry(reader, node, CANCELLATION_KEYS, ("task", "at"))
    return Cancellation(
        task=_task(reader, entries.get("task")), at_s=read_seconds(reader, entries.get("at"), 0.0)
    )


def read_requirement(reader: Reader, node: Node) -> RequirementChange:
    """Read one change of requirements or rank."""
    entries = read_entry(reader, node, REQUIREMENT_KEYS, ("task", "after"))
    if isinstance(node.value, dict) and not {"expression", "rank"} & entries.keys():
        reader.complain(node, "a change of nothing", advice="add `expression:` (requirements) or `rank:`")
    return RequirementChange(
        task=_task(reader, entries.get("task")),
        after=read_number(reader, entries.get("after"), 0.0, least=0.0, most=1.0),
        requirements=read_expression(reader, entries["expression"]) if "expression" in entries else None,
        rank=read_expression(reader, entries["rank"]) if "rank" in entries else None,
    )


def _task(reader: Reader, node: Node | None) -> str:
    return (reader.text(node) if node is not None else None) or ""


def read_ends(reader: Reader, node: Node) -> dict[str, tuple[End, ...]]:
    """Read by task how its attempts end."""
    return _lists(reader, node, _end, "a list of exit codes")


def _end(reader: Reader, node: Node) -> End | None:
    if isinstance(node.value, str):
        if node.value in FAILURE_WORDS:
            return node.value
        close = nearest(node.value, FAILURE_WORDS)
        advice = f"did you mean {close!r}?" if close else f"known: {', '.join(FAILURE_WORDS)}"
        reader.complain(node, f"{node.shown()} is no way to end", rule="a code or a word", advice=advice)
        return None
    code = reader.integer(node, least=0)
    if code is not None and code > _MOST_CODE:
        reader.complain(node, f"exit code {code}", rule=f"must be at most {_MOST_CODE}")
    return code


def read_results(reader: Reader, node: Node) -> dict[str, tuple[Result, ...]]:
    """Read by task what its attempts write."""
    return _lists(reader, node, _result, "a list of results, each {name: value}")


def _result(reader: Reader, node: Node) -> Result | None:
    found: dict[str, str | float | bool | None] = {}
    if not isinstance(node.value, dict):
        reader.wanted(node, "a mapping")
        return None
    for name, entry in node.value.items():
        if isinstance(entry.value, list | dict):
            reader.wanted(entry, "a plain value, since results are flat")
        else:
            found[name] = entry.value
    return found


def _lists(
    reader: Reader, node: Node, read: Callable[[Reader, Node], _Item | None], wanted: str
) -> dict[str, tuple[_Item, ...]]:
    found: dict[str, tuple[_Item, ...]] = {}
    for name, entry in reader.mapping(node).items():
        items = reader.listing(entry)
        if not items:
            reader.complain(entry, f"nothing for {name!r}", rule=f"must be {wanted}")
        each = [read(reader, item) for item in items]
        found[name] = tuple(item for item in each if item is not None)
    return found


def read_counts(reader: Reader, node: Node, *, least: int) -> dict[str, int]:
    """Read whole numbers by name."""
    found = {name: reader.integer(entry, least=least) for name, entry in reader.mapping(node).items()}
    return {name: count for name, count in found.items() if count is not None}


def read_replanning(reader: Reader, node: Node) -> float:
    """Read the seconds that a re-plan costs per point."""
    entries = read_entry(reader, node, REPLANNING_KEYS)
    return read_seconds(reader, entries.get("seconds_per_point"), 0.0)
