"""Gaps: the free stretches between the tasks of a machine that serves one task at a time.

Each machine has a stretch of the common arrays, in order of time; when it is full it moves to one twice as
long. A search begins, by bisection, at the first gap that ends late enough (not long before the last one
found), and ends at once where no later gap is wide enough. The widths are kept a little too large, and are
not lowered when a gap is cut: they only save time.

Timelines: what is free on each machine, and the earliest place a task fits into.

Machines that serve one task at a time keep the gaps between their tasks (``gaps.py``), machines that count
nodes and amounts a step function of what is free, as a linked list in a common pool. A search begins where
the last one on that machine began: what is placed one after another is ready at about the same time. A task
of no length fits anywhere.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.compilation import kernel
from weft.kernels.problem import OPEN, SINGLE, Doubles, Indices, Integers, MachineArrays

__all__ = [
    "INITIAL_GAPS",
    "Gaps",
    "Timelines",
    "append_gap",
    "cut_gap",
    "earliest_append",
    "earliest_start",
    "earliest_start_by",
    "earliest_start_single",
    "find_gap",
    "occupy",
    "occupy_steps",
    "reset_gaps",
    "reset_timelines",
]


INITIAL_GAPS = 4
"""Gaps for which every machine has room from the beginning."""
_ROUNDING = 1e-12
_HINT_DISTANCE = 6
"""How many gaps before the last one found a search begins: what is placed next may be ready earlier."""


class Gaps(NamedTuple):
    """The gaps of all machines."""

    base: Integers
    """Per machine: the position of its first gap."""
    count: Integers
    room: Integers
    reach: Doubles
    """Per machine: the end of its last gap; 0: it has none."""
    hint: Integers
    """Per machine: where a search may begin, counted from its first gap."""
    used: Integers
    """One number: positions taken by all machines."""
    start: Doubles
    end: Doubles
    widest: Doubles
    """Per gap: at least the width of the widest from here on."""


@kernel
def reset_gaps(machines: int, gaps: Gaps) -> None:
    """Begin without gaps."""
    for machine in range(machines):
        gaps.base[machine] = machine * INITIAL_GAPS
        gaps.count[machine] = 0
        gaps.reach[machine] = 0.0
        gaps.hint[machine] = 0
        gaps.room[machine] = INITIAL_GAPS
    gaps.used[0] = machines * INITIAL_GAPS


@kernel
def find_gap(
    machine: int,
    base: Integers,
    count: Integers,
    hint: Integers,
    gap_start: Doubles,
    gap_end: Doubles,
    widest: Doubles,
    free: float,
    ready: float,
    seconds: float,
    limit: float,
) -> float:
    """Find the earliest start in a gap of a machine, else ``free``, from where all is free.

    Only for machines whose ``reach`` is at least ``ready + seconds``: no gap ends later. The search gives up
    where the task would end after ``limit``.
    """
    first = base[machine]
    end = first + count[machine]
    needed = ready + seconds
    low = first + hint[machine]
    if low >= end or gap_end[low] >= needed:
        low = first
    if widest[low] < seconds:
        return free
    # The first gap that ends late enough lies between low and its last position; no branch to be guessed.
    size = end - low
    while size > 1:
        half = size // 2
        low += half * (gap_end[low + half - 1] < needed)
        size -= half
    hint[machine] = max(0, low - first - _HINT_DISTANCE)
    while low < end and widest[low] >= seconds:
        begin = gap_start[low]
        if ready > begin:
            begin = ready
        finish = begin + seconds
        if finish <= gap_end[low]:
            return begin
        if finish > limit:
            return free
        low += 1
    return free


@kernel
def append_gap(gaps: Gaps, machine: int, start: float, end: float) -> None:
    """Note a gap behind all others."""
    if gaps.count[machine] == gaps.room[machine]:
        _grow(gaps, machine)
    base = gaps.base[machine]
    position = base + gaps.count[machine]
    gaps.count[machine] += 1
    gaps.reach[machine] = end
    gaps.start[position] = start
    gaps.end[position] = end
    width = end - start + _ROUNDING * end
    gaps.widest[position] = width
    while position > base and gaps.widest[position - 1] < width:
        position -= 1
        gaps.widest[position] = width


@kernel
def _grow(gaps: Gaps, machine: int) -> None:
    """Give a machine twice the room."""
    base = gaps.base[machine]
    target = gaps.used[0]
    for offset in range(gaps.count[machine]):
        gaps.start[target + offset] = gaps.start[base + offset]
        gaps.end[target + offset] = gaps.end[base + offset]
        gaps.widest[target + offset] = gaps.widest[base + offset]
    gaps.base[machine] = target
    gaps.room[machine] *= 2
    gaps.used[0] = target + gaps.room[machine]


@kernel
def cut_gap(gaps: Gaps, machine: int, start: float, finish: float) -> None:
    """Take a stretch out of the gap that holds it; what is left of it stays free."""
    low = gaps.base[machine]
    high = low + gaps.count[machine]
    while low < high:
        middle = (low + high) // 2
        if gaps.end[middle] <= start:
            low = middle + 1
        else:
            high = middle
    inside = start > gaps.start[low]
    if finish < gaps.end[low]:
        if inside:
            low = _split(gaps, machine, low, start)
        gaps.start[low] = finish
        return
    last = gaps.base[machine] + gaps.count[machine] - 1
    if inside:
        gaps.end[low] = start
    else:
        for position in range(low, last):
            gaps.start[position] = gaps.start[position + 1]
            gaps.end[position] = gaps.end[position + 1]
            gaps.widest[position] = gaps.widest[position + 1]
        gaps.count[machine] -= 1
        last -= 1
    gaps.reach[machine] = gaps.end[last] if gaps.count[machine] > 0 else 0.0


@kernel
def _split(gaps: Gaps, machine: int, position: int, start: float) -> int:
    """Divide a gap at a moment; give the later part."""
    if gaps.count[machine] == gaps.room[machine]:
        position -= gaps.base[machine]
        _grow(gaps, machine)
        position += gaps.base[machine]
    end = gaps.base[machine] + gaps.count[machine]
    while end > position:
        gaps.start[end] = gaps.start[end - 1]
        gaps.end[end] = gaps.end[end - 1]
        gaps.widest[end] = gaps.widest[end - 1]
        end -= 1
    gaps.count[machine] += 1
    gaps.end[position] = start
    return position + 1


_STEPS, _SPARE = 0, 1
"""Positions in ``used``: steps taken from the pool; the first one that was given back."""
_INFINITE = float("inf")


class Timelines(NamedTuple):
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
def reset_timelines(machines: MachineArrays, lines: Timelines) -> None:
    """Begin with empty machines."""
    resources = machines.resources
    reset_gaps(machines.number, lines.gaps)
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
def earliest_start(
    machines: MachineArrays,
    lines: Timelines,
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
    return earliest_start_by(machines, lines, machine, ready, seconds, nodes, need, amount, _INFINITE)


@kernel
def earliest_start_by(
    machines: MachineArrays,
    lines: Timelines,
    machine: int,
    ready: float,
    seconds: float,
    nodes: int,
    need: int,
    amount: Doubles,
    limit: float,
) -> float:
    """Find the earliest start as ``earliest_start`` does; what would end after ``limit`` may also be
    infinite.

    Where nodes are counted the search ends there.
    """
    form = machines.form[machine]
    if seconds == 0.0 or form == OPEN:
        return ready
    if form == SINGLE:
        return earliest_start_single(lines, machine, ready, seconds)
    return _earliest_step(machines, lines, machine, ready, seconds, nodes, need, amount, limit)


@kernel
def earliest_start_single(lines: Timelines, machine: int, ready: float, seconds: float) -> float:
    """Find the earliest start on a machine that serves one task at a time."""
    free = lines.free_from[machine]
    if ready >= free:
        return ready
    gaps = lines.gaps
    if gaps.reach[machine] < ready + seconds:
        return free
    return find_gap(
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
    machines: MachineArrays, lines: Timelines, machine: int, step: int, nodes: int, need: int, amount: Doubles
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
    machines: MachineArrays,
    lines: Timelines,
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
def _step_at(lines: Timelines, machine: int, time: float) -> int:
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
def earliest_append(
    machines: MachineArrays,
    lines: Timelines,
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
def occupy(
    machines: MachineArrays,
    lines: Timelines,
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
        occupy_steps(machines, lines, machine, start, seconds, nodes, need, amount, 1.0)


@kernel
def occupy_steps(
    machines: MachineArrays,
    lines: Timelines,
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
def _cut(machines: MachineArrays, lines: Timelines, machine: int, time: float) -> int:
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
def _merge(machines: MachineArrays, lines: Timelines, machine: int, step: int) -> None:
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
