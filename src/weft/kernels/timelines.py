"""Timelines: what is free on each machine, and the earliest place a task fits into.

Machines that serve one task at a time keep the gaps between their tasks (``gaps.py``), machines that count
nodes and amounts a step function of what is free, as a linked list in a common pool. A search begins where
the last one on that machine began: what is placed one after another is ready at about the same time. A task
of no length fits anywhere.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.forms import kernel
from weft.kernels.gaps import Gaps, append_gap, begin_gaps, cut_gap, earliest_gap
from weft.kernels.problem import OPEN, SINGLE, Machines
from weft.kernels.types import Doubles, Indices, Integers

__all__ = [
    "Lines",
    "after_all",
    "earliest",
    "earliest_by",
    "earliest_single",
    "open_lines",
    "take",
    "take_steps",
]

_STEPS, _SPARE = 0, 1
"""Positions in ``used``: steps taken from the pool; the first one that was given back."""
_INFINITE = float("inf")


class Lines(NamedTuple):
    """The occupancy of all machines. ``no_step`` (the size of the pool) ends the lists."""

    no_step: int
    used: Integers
    free_from: Doubles
    """Per machine that serves one task at a time: from here on it is free."""
    gaps: Gaps
    last_step: Indices
    near_step: Indices
    step_time: Doubles
    step_nodes: Integers
    step_amount: Doubles
    """Steps x resources."""
    step_before: Indices
    step_after: Indices


@kernel
def open_lines(machines: Machines, lines: Lines) -> None:
    """Begin with empty machines."""
    resources = machines.resources
    begin_gaps(machines.number, lines.gaps)
    lines.used[_STEPS] = machines.number
    lines.used[_SPARE] = lines.no_step
    for machine in range(machines.number):
        lines.free_from[machine] = 0.0
        lines.last_step[machine] = machine
        lines.near_step[machine] = machine
        lines.step_time[machine] = 0.0
        lines.step_nodes[machine] = machines.capacity[machine]
        lines.step_before[machine] = lines.no_step
        lines.step_after[machine] = lines.no_step
        for resource in range(resources):
            lines.step_amount[machine * resources + resource] = machines.amount[
                machine * resources + resource
            ]


@kernel
def earliest(
    machines: Machines,
    lines: Lines,
    machine: int,
    ready: float,
    seconds: float,
    nodes: int,
    need: int,
    amount: Doubles,
) -> float:
    """Find the earliest start not before ``ready``; infinite where it never fits.

    ``need`` is the row of ``amount`` that holds what the task takes.
    """
    return earliest_by(machines, lines, machine, ready, seconds, nodes, need, amount, _INFINITE)


@kernel
def earliest_by(
    machines: Machines,
    lines: Lines,
    machine: int,
    ready: float,
    seconds: float,
    nodes: int,
    need: int,
    amount: Doubles,
    limit: float,
) -> float:
    """Find the earliest start as ``earliest`` does; what would end after ``limit`` may also be infinite.

    Where nodes are counted the search ends there.
    """
    form = machines.form[machine]
    if seconds == 0.0 or form == OPEN:
        return ready
    if form == SINGLE:
        return earliest_single(lines, machine, ready, seconds)
    return _earliest_step(machines, lines, machine, ready, seconds, nodes, need, amount, limit)


@kernel
def earliest_single(lines: Lines, machine: int, ready: float, seconds: float) -> float:
    """Find the earliest start on a machine that serves one task at a time."""
    free = lines.free_from[machine]
    if ready >= free:
        return ready
    gaps = lines.gaps
    if gaps.reach[machine] < ready + seconds:
        return free
    return earliest_gap(
        machine,
        gaps.base,
        gaps.count,
        gaps.hint,
        gaps.start,
        gaps.end,
        gaps.widest,
        free,
        ready,
        seconds,
        _INFINITE,
    )


@kernel
def _fits(
    machines: Machines, lines: Lines, machine: int, step: int, nodes: int, need: int, amount: Doubles
) -> bool:
    if lines.step_nodes[step] < nodes:
        return False
    resources = machines.resources
    for resource in range(resources):
        left = lines.step_amount[step * resources + resource]
        # Amounts are doubles that are taken and given back: compare with a tolerance, nodes exactly.
        if left < amount[need * resources + resource] - machines.slack[machine * resources + resource]:
            return False
    return True


@kernel
def _earliest_step(
    machines: Machines,
    lines: Lines,
    machine: int,
    ready: float,
    seconds: float,
    nodes: int,
    need: int,
    amount: Doubles,
    limit: float,
) -> float:
    step = _step_at(lines, machine, ready)
    start = ready
    while True:
        following = lines.step_after[step]
        if not _fits(machines, lines, machine, step, nodes, need, amount):
            if following == lines.no_step:
                return _INFINITE
            start = lines.step_time[following]
            if start + seconds > limit:
                return _INFINITE
        elif following == lines.no_step or lines.step_time[following] >= start + seconds:
            return start
        step = following


@kernel
def _step_at(lines: Lines, machine: int, time: float) -> int:
    """Find the step in which a moment lies."""
    step = lines.near_step[machine]
    while lines.step_time[step] > time:
        step = lines.step_before[step]
    following = lines.step_after[step]
    while following != lines.no_step and lines.step_time[following] <= time:
        step = following
        following = lines.step_after[step]
    lines.near_step[machine] = step
    return step


@kernel
def after_all(
    machines: Machines,
    lines: Lines,
    machine: int,
    ready: float,
    seconds: float,
    nodes: int,
    need: int,
    amount: Doubles,
) -> float:
    """Find the earliest start not before ``ready`` from which on nothing is in the way any more: no gaps."""
    form = machines.form[machine]
    if seconds == 0.0 or form == OPEN:
        return ready
    start = lines.free_from[machine]
    if form != SINGLE:
        start = _INFINITE
        step = lines.last_step[machine]
        while step != lines.no_step and _fits(machines, lines, machine, step, nodes, need, amount):
            start = lines.step_time[step]
            step = lines.step_before[step]
    if ready > start:
        start = ready
    return start


@kernel
def take(
    machines: Machines,
    lines: Lines,
    machine: int,
    start: float,
    seconds: float,
    nodes: int,
    need: int,
    amount: Doubles,
) -> None:
    """Occupy nodes and amounts from ``start`` on."""
    form = machines.form[machine]
    if seconds == 0.0 or form == OPEN:
        return
    if form == SINGLE:
        free = lines.free_from[machine]
        if start < free:
            cut_gap(lines.gaps, machine, start, start + seconds)
            return
        if start > free:
            append_gap(lines.gaps, machine, free, start)
        lines.free_from[machine] = start + seconds
    else:
        take_steps(machines, lines, machine, start, seconds, nodes, need, amount, 1.0)


@kernel
def take_steps(
    machines: Machines,
    lines: Lines,
    machine: int,
    start: float,
    seconds: float,
    nodes: int,
    need: int,
    amount: Doubles,
    sign: float,
) -> None:
    """Lower what is free while the task runs; with ``sign`` -1 and negative nodes, give it back."""
    resources = machines.resources
    first = _cut(machines, lines, machine, start)
    end = _cut(machines, lines, machine, start + seconds)
    step = first
    while step != end:
        lines.step_nodes[step] -= nodes
        for resource in range(resources):
            lines.step_amount[step * resources + resource] -= sign * amount[need * resources + resource]
        step = lines.step_after[step]
    _merge(machines, lines, machine, end)
    _merge(machines, lines, machine, first)


@kernel
def _cut(machines: Machines, lines: Lines, machine: int, time: float) -> int:
    """Make a step begin at a time and give it."""
    step = _step_at(lines, machine, time)
    if lines.step_time[step] == time:
        return step
    made = lines.used[_SPARE]
    if made == lines.no_step:
        made = lines.used[_STEPS]
        lines.used[_STEPS] = made + 1
    else:
        lines.used[_SPARE] = lines.step_after[made]
    following = lines.step_after[step]
    resources = machines.resources
    lines.step_time[made] = time
    lines.step_nodes[made] = lines.step_nodes[step]
    for resource in range(resources):
        lines.step_amount[made * resources + resource] = lines.step_amount[step * resources + resource]
    lines.step_before[made] = step
    lines.step_after[made] = following
    lines.step_after[step] = made
    if following == lines.no_step:
        lines.last_step[machine] = made
    else:
        lines.step_before[following] = made
    return made


@kernel
def _merge(machines: Machines, lines: Lines, machine: int, step: int) -> None:
    """Drop a step that is like the one before it, so that a full stretch of time is one step."""
    earlier = lines.step_before[step]
    if earlier == lines.no_step or lines.step_nodes[step] != lines.step_nodes[earlier]:
        return
    resources = machines.resources
    for resource in range(resources):
        if (
            lines.step_amount[step * resources + resource]
            != lines.step_amount[earlier * resources + resource]
        ):
            return
    if lines.near_step[machine] == step:
        lines.near_step[machine] = earlier
    following = lines.step_after[step]
    lines.step_after[earlier] = following
    if following == lines.no_step:
        lines.last_step[machine] = earlier
    else:
        lines.step_before[following] = earlier
    lines.step_after[step] = lines.used[_SPARE]
    lines.used[_SPARE] = step
