"""Skylines: what is free on a machine as a function of time, in steps that lie side by side.

Decoders know beforehand how many stretches a machine will hold, so that every line has its own section of
common arrays: few arrays to hand over, and the step at a moment is found by bisection. Placement, which does
not know it, keeps linked lists (``weft.kernels.timelines``). A line always has a step at 0.

Nodes are compared exactly. Amounts are doubles that are taken and given back: the caller passes what must at
least be free, a little less than what is taken.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.compilation import kernel
from weft.kernels.problem import Doubles, Integers

__all__ = ["Skylines", "first_fit", "occupy_skyline", "permanent_fit", "write_demand"]


_INFINITE = float("inf")


class Skylines(NamedTuple):
    """From ``time`` of a step on, until the next, ``nodes`` and ``left`` are free."""

    resources: int
    first: Integers
    """Per line: its first step."""
    last: Integers
    """Per line: its last step; it never ends."""
    time: Doubles
    nodes: Integers
    left: Doubles
    """Steps x resources."""


@kernel
def write_demand(
    resources: int, amount: Doubles, need: int, slack: Doubles, machine: int, taken: Doubles, least: Doubles
) -> None:
    """Write down what a task takes, and what must be free for it; what it does not take may be exhausted.

    ``need`` is a row of ``amount``, ``machine`` one of ``slack``.
    """
    for resource in range(resources):
        wanted = amount[need * resources + resource]
        taken[resource] = wanted
        least[resource] = wanted - slack[machine * resources + resource]
        if wanted == 0.0:
            least[resource] = -_INFINITE


@kernel
def first_fit(lines: Skylines, line: int, ready: float, seconds: float, nodes: int, least: Doubles) -> float:
    """Find the first moment not before ``ready`` from which enough is free for so long; infinite: never."""
    last = lines.last[line]
    step = _step_at(lines.time, lines.first[line], last, ready)
    start = ready
    while True:
        if not _fits(lines.nodes, lines.left, lines.resources, step, nodes, least):
            if step == last:
                return _INFINITE
            step += 1
            start = lines.time[step]
        elif step == last or lines.time[step + 1] >= start + seconds:
            return start
        else:
            step += 1


@kernel
def permanent_fit(lines: Skylines, line: int, ready: float, nodes: int, least: Doubles) -> float:
    """Find the first moment not before ``ready`` from which enough is free for ever; infinite: never."""
    step = lines.last[line]
    first = lines.first[line]
    if not _fits(lines.nodes, lines.left, lines.resources, step, nodes, least):
        return _INFINITE
    while (
        step > first
        and lines.time[step] > ready
        and _fits(lines.nodes, lines.left, lines.resources, step - 1, nodes, least)
    ):
        step -= 1
    start = lines.time[step]
    if ready > start:
        start = ready
    return start


@kernel
def occupy_skyline(
    lines: Skylines, line: int, start: float, finish: float, nodes: int, taken: Doubles
) -> None:
    """Take nodes and amounts from ``start`` to ``finish``."""
    resources = lines.resources
    begin = _cut(lines, line, start)
    end = _cut(lines, line, finish)
    for step in range(begin, end):
        lines.nodes[step] -= nodes
        for resource in range(resources):
            lines.left[step * resources + resource] -= taken[resource]
    _merge(lines, line, end)
    _merge(lines, line, begin)


@kernel
def _step_at(time: Doubles, first: int, last: int, moment: float) -> int:
    """Find the last step that begins at a moment or before it; else the first."""
    low = first
    high = last
    while low < high:
        middle = (low + high + 1) // 2
        if time[middle] <= moment:
            low = middle
        else:
            high = middle - 1
    return low


@kernel
def _fits(free: Integers, left: Doubles, resources: int, step: int, nodes: int, least: Doubles) -> bool:
    fits = free[step] >= nodes
    for resource in range(resources):
        fits = fits and left[step * resources + resource] >= least[resource]
    return bool(fits)


@kernel
def _cut(lines: Skylines, line: int, moment: float) -> int:
    """Make a step begin at a moment and give it."""
    resources = lines.resources
    last = lines.last[line]
    step = _step_at(lines.time, lines.first[line], last, moment)
    if lines.time[step] == moment:
        return step
    for back in range(last - step):
        source = last - back
        lines.time[source + 1] = lines.time[source]
        lines.nodes[source + 1] = lines.nodes[source]
        for resource in range(resources):
            lines.left[(source + 1) * resources + resource] = lines.left[source * resources + resource]
    lines.time[step + 1] = moment
    lines.nodes[step + 1] = lines.nodes[step]
    for resource in range(resources):
        lines.left[(step + 1) * resources + resource] = lines.left[step * resources + resource]
    lines.last[line] = last + 1
    return step + 1


@kernel
def _merge(lines: Skylines, line: int, step: int) -> None:
    """Drop a step that is like the one before it, so that a full stretch of time is one step."""
    resources = lines.resources
    if step == lines.first[line] or lines.nodes[step] != lines.nodes[step - 1]:
        return
    for resource in range(resources):
        if lines.left[step * resources + resource] != lines.left[(step - 1) * resources + resource]:
            return
    last = lines.last[line]
    for source in range(step + 1, last + 1):
        lines.time[source - 1] = lines.time[source]
        lines.nodes[source - 1] = lines.nodes[source]
        for resource in range(resources):
            lines.left[(source - 1) * resources + resource] = lines.left[source * resources + resource]
    lines.last[line] = last - 1
