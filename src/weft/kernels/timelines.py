"""Free time of machines, and the earliest start of a task on them."""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.compilation import inlined_kernel, kernel
from weft.kernels.problem import INFINITY, OPEN, SINGLE, Doubles, Indices, Integers, MachineArrays

INITIAL_GAPS = 4
"""Number of gaps for which every machine has space at first."""
_ROUNDING = 1e-12
_HINT_DISTANCE = 6
"""A search starts this many gaps before the gap found last, because the next task may be ready earlier."""


class Gaps(NamedTuple):
    """The gaps (idle intervals between tasks) of all machines.

    The gaps of a machine are a section of common arrays, in order of time; the gaps of a full section are
    moved to a section twice as long. A search starts a few gaps before the gap found last, bisects to the
    first gap that ends late enough, and stops where no later gap is wide enough. The stored widths are upper
    bounds and are not lowered when a gap is cut; they only save time.
    """

    base: Integers
    """Per machine: the position of its first gap."""
    count: Integers
    capacity: Integers
    reach: Doubles
    """Per machine: the end of its last gap; 0 without gaps."""
    hint: Integers
    """Per machine: where a search may start, relative to its first gap."""
    used: Integers
    """One element: number of positions that the sections of all machines occupy."""
    start: Doubles
    end: Doubles
    widest: Doubles
    """Per gap: upper bound of the width of this and all later gaps of the machine."""


@kernel
def reset_gaps(machines: int, gaps: Gaps) -> None:
    """Remove all gaps."""
    for machine in range(machines):
        gaps.base[machine] = machine * INITIAL_GAPS
        gaps.count[machine] = 0
        gaps.reach[machine] = 0.0
        gaps.hint[machine] = 0
        gaps.capacity[machine] = INITIAL_GAPS
    gaps.used[0] = machines * INITIAL_GAPS


@inlined_kernel
def find_gap(gaps: Gaps, machine: int, free: float, ready: float, seconds: float, limit: float) -> float:
    """Return the earliest start in a gap of a machine; if no gap fits, ``free``, the end of its last task.

    ``reach`` of the machine must be at least ``ready + seconds``, so that some gap ends late enough. The
    search stops where the task would finish after ``limit``.
    """
    gap_end, widest = gaps.end, gaps.widest
    first = gaps.base[machine]
    end = first + gaps.count[machine]
    needed = ready + seconds
    low = first + gaps.hint[machine]
    if low >= end or gap_end[low] >= needed:
        low = first
    if widest[low] < seconds:
        return free
    # Bisect to the first gap that ends late enough, without a branch that the processor would have to
    # predict.
    size = end - low
    while size > 1:
        half = size // 2
        low += half * (gap_end[low + half - 1] < needed)
        size -= half
    gaps.hint[machine] = max(0, low - first - _HINT_DISTANCE)
    while low < end and widest[low] >= seconds:
        begin = gaps.start[low]
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
    """Add a gap after all gaps of a machine."""
    if gaps.count[machine] == gaps.capacity[machine]:
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
    """Move the gaps of a machine to a section twice as long."""
    base = gaps.base[machine]
    target = gaps.used[0]
    for offset in range(gaps.count[machine]):
        gaps.start[target + offset] = gaps.start[base + offset]
        gaps.end[target + offset] = gaps.end[base + offset]
        gaps.widest[target + offset] = gaps.widest[base + offset]
    gaps.base[machine] = target
    gaps.capacity[machine] *= 2
    gaps.used[0] = target + gaps.capacity[machine]


@kernel
def cut_gap(gaps: Gaps, machine: int, start: float, finish: float) -> None:
    """Remove an interval from the gap that contains it; the rest of the gap stays free."""
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
    """Split a gap at a time; return the position of the later part."""
    if gaps.count[machine] == gaps.capacity[machine]:
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
"""Positions in ``Timelines.used``: number of steps taken from the pool; first step of the free list."""


class Timelines(NamedTuple):
    """The occupancy of all machines over time.

    A SINGLE machine keeps the gaps between its tasks, a SHARED machine a step function of free nodes and
    amounts: a linked list in a common pool. A search starts at the step found last on that machine, because
    consecutive tasks are ready at about the same time. A task of 0 seconds fits anywhere. ``no_step`` (the
    size of the pool) ends a list.
    """

    no_step: int
    used: Integers
    free_from: Doubles
    """Per SINGLE machine: the end of its last task."""
    gaps: Gaps
    last_step: Indices
    near_step: Indices
    step_time: Doubles
    step_nodes: Integers
    step_amount: Doubles
    """Steps x resources: free amounts."""
    step_before: Indices
    step_after: Indices


@kernel
def reset_timelines(machines: MachineArrays, timelines: Timelines) -> None:
    """Reset all machines to idle from time 0 on."""
    resources = machines.resources
    reset_gaps(machines.number, timelines.gaps)
    timelines.used[_STEPS] = machines.number
    timelines.used[_SPARE] = timelines.no_step
    for machine in range(machines.number):
        timelines.free_from[machine] = 0.0
        timelines.last_step[machine] = machine
        timelines.near_step[machine] = machine
        timelines.step_time[machine] = 0.0
        timelines.step_nodes[machine] = machines.capacity[machine]
        timelines.step_before[machine] = timelines.no_step
        timelines.step_after[machine] = timelines.no_step
        for resource in range(resources):
            timelines.step_amount[machine * resources + resource] = machines.amount[
                machine * resources + resource
            ]


Load = tuple[int, int, int, Doubles]
"""What a task takes: (machine, nodes, row of its amounts, array that contains this row)."""


@kernel
def earliest_start(
    machines: MachineArrays, timelines: Timelines, load: Load, ready: float, seconds: float, limit: float
) -> float:
    """Return the earliest feasible start at or after ``ready``; infinity if there is none.

    On SHARED machines the search stops at ``limit``: the result may be infinity if the task would finish
    after ``limit``.
    """
    machine = load[0]
    form = machines.form[machine]
    if seconds == 0.0 or form == OPEN:
        return ready
    if form == SINGLE:
        return earliest_start_single(timelines, machine, ready, seconds)
    return _earliest_step(machines, timelines, load, ready, seconds, limit)


@kernel
def earliest_start_single(timelines: Timelines, machine: int, ready: float, seconds: float) -> float:
    """Return the earliest start of a task at or after ``ready`` on a SINGLE machine."""
    free = timelines.free_from[machine]
    if ready >= free:
        return ready
    gaps = timelines.gaps
    if gaps.reach[machine] < ready + seconds:
        return free
    return find_gap(gaps, machine, free, ready, seconds, INFINITY)


@kernel
def _fits(machines: MachineArrays, timelines: Timelines, load: Load, step: int) -> bool:
    machine, nodes, need, amount = load
    if timelines.step_nodes[step] < nodes:
        return False
    resources = machines.resources
    for resource in range(resources):
        left = timelines.step_amount[step * resources + resource]
        # Free amounts are sums of doubles: compare with a tolerance. Nodes are exact.
        if left < amount[need * resources + resource] - machines.slack[machine * resources + resource]:
            return False
    return True


@kernel
def _earliest_step(
    machines: MachineArrays, timelines: Timelines, load: Load, ready: float, seconds: float, limit: float
) -> float:
    step = _step_at(timelines, load[0], ready)
    start = ready
    while True:
        following = timelines.step_after[step]
        if not _fits(machines, timelines, load, step):
            if following == timelines.no_step:
                return INFINITY
            start = timelines.step_time[following]
            if start + seconds > limit:
                return INFINITY
        elif following == timelines.no_step or timelines.step_time[following] >= start + seconds:
            return start
        step = following


@kernel
def _step_at(timelines: Timelines, machine: int, time: float) -> int:
    step = timelines.near_step[machine]
    while timelines.step_time[step] > time:
        step = timelines.step_before[step]
    following = timelines.step_after[step]
    while following != timelines.no_step and timelines.step_time[following] <= time:
        step = following
        following = timelines.step_after[step]
    timelines.near_step[machine] = step
    return step


@kernel
def earliest_append(
    machines: MachineArrays, timelines: Timelines, load: Load, ready: float, seconds: float
) -> float:
    """Return the earliest start at or after ``ready`` from which enough stays free; infinity if never."""
    machine = load[0]
    form = machines.form[machine]
    if seconds == 0.0 or form == OPEN:
        return ready
    start = timelines.free_from[machine]
    if form != SINGLE:
        start = INFINITY
        step = timelines.last_step[machine]
        while step != timelines.no_step and _fits(machines, timelines, load, step):
            start = timelines.step_time[step]
            step = timelines.step_before[step]
    if ready > start:
        start = ready
    return start


@kernel
def occupy(machines: MachineArrays, timelines: Timelines, load: Load, start: float, seconds: float) -> None:
    """Occupy the nodes and amounts of a load for ``seconds`` from ``start``.

    A task so short that rounding makes its finish equal to its start occupies nothing.
    """
    machine = load[0]
    form = machines.form[machine]
    finish = start + seconds
    if finish == start or form == OPEN:
        return
    if form == SINGLE:
        free = timelines.free_from[machine]
        if start < free:
            cut_gap(timelines.gaps, machine, start, finish)
            return
        if start > free:
            append_gap(timelines.gaps, machine, free, start)
        timelines.free_from[machine] = finish
    else:
        _occupy_steps(machines, timelines, load, start, finish)


@kernel
def _occupy_steps(
    machines: MachineArrays, timelines: Timelines, load: Load, start: float, finish: float
) -> None:
    """Subtract nodes and amounts from the steps of a SHARED machine while the task runs."""
    machine, nodes, need, amount = load
    resources = machines.resources
    first = _cut(machines, timelines, machine, start)
    end = _cut(machines, timelines, machine, finish)
    step = first
    while step != end:
        timelines.step_nodes[step] -= nodes
        for resource in range(resources):
            timelines.step_amount[step * resources + resource] -= amount[need * resources + resource]
        step = timelines.step_after[step]
    _merge(machines, timelines, machine, end)
    _merge(machines, timelines, machine, first)


@kernel
def _cut(machines: MachineArrays, timelines: Timelines, machine: int, time: float) -> int:
    """Return the step that begins at a time; insert it if there is none."""
    step = _step_at(timelines, machine, time)
    if timelines.step_time[step] == time:
        return step
    made = timelines.used[_SPARE]
    if made == timelines.no_step:
        made = timelines.used[_STEPS]
        timelines.used[_STEPS] = made + 1
    else:
        timelines.used[_SPARE] = timelines.step_after[made]
    following = timelines.step_after[step]
    resources = machines.resources
    timelines.step_time[made] = time
    timelines.step_nodes[made] = timelines.step_nodes[step]
    for resource in range(resources):
        timelines.step_amount[made * resources + resource] = timelines.step_amount[
            step * resources + resource
        ]
    timelines.step_before[made] = step
    timelines.step_after[made] = following
    timelines.step_after[step] = made
    if following == timelines.no_step:
        timelines.last_step[machine] = made
    else:
        timelines.step_before[following] = made
    return made


@kernel
def _merge(machines: MachineArrays, timelines: Timelines, machine: int, step: int) -> None:
    """Remove a step if its free capacity equals that of the step before it."""
    earlier = timelines.step_before[step]
    if earlier == timelines.no_step or timelines.step_nodes[step] != timelines.step_nodes[earlier]:
        return
    resources = machines.resources
    for resource in range(resources):
        if (
            timelines.step_amount[step * resources + resource]
            != timelines.step_amount[earlier * resources + resource]
        ):
            return
    if timelines.near_step[machine] == step:
        timelines.near_step[machine] = earlier
    following = timelines.step_after[step]
    timelines.step_after[earlier] = following
    if following == timelines.no_step:
        timelines.last_step[machine] = earlier
    else:
        timelines.step_before[following] = earlier
    timelines.step_after[step] = timelines.used[_SPARE]
    timelines.used[_SPARE] = step
