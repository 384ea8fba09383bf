"""Laying tasks on shared machines: an order and a way for every task become starts, as quickly as possible.

Serial schedule generation with insertion: in the given order, each task starts at the first moment not before
its data at which its machine has enough free for so long (R. Kolisch, European Journal of Operational
Research 90(2), 1996). Nodes and countable amounts are *packed*: a field of one integer each, with a spare bit
on top, so that one subtraction compares them all. A way is a mode of a task with all that follows from it
written out: machine, seconds, packed needs, charge.

Deviations: laying is given up once some task ends so late that the limit is missed whatever follows. Laid
backwards, from the last task to the first, the same code justifies a schedule (V. Valls, F. Ballestin,
S. Quintanilla, EJOR 165(2), 2005).

Complexity: O(v + e + s) for v tasks, e edges and s steps that are looked at or moved.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.forms import kernel
from weft.kernels.types import Doubles, Flags, Indices, Integers

__all__ = ["Layout", "Links", "Shop", "Ways", "lay"]

_INFINITE = float("inf")


class Ways(NamedTuple):
    """The ways to run tasks, by task, then machine, then nodes."""

    first: Indices
    """Per task and one more; transfers and virtual tasks have no ways."""
    machine: Indices
    seconds: Doubles
    need: Integers
    """Packed."""
    charge: Doubles
    """What a way adds to the objective, apart from its seconds."""
    drag: Doubles
    """What a way adds to the energy besides (``weft.kernels.searches.shared_annealing``)."""
    price: Doubles
    """What a way costs."""
    budgets: int
    use: Doubles
    """Ways x budgets: the share of each budget that a way uses up."""


class Links(NamedTuple):
    """What data take between machines; read only where ``far`` is set."""

    far: int
    locations: int
    source: Indices
    """Per task: of a transfer, the variable it starts from; else the number of variables."""
    moved: Doubles
    """Per task: bytes a transfer moves."""
    size: Doubles
    files: Doubles
    fixed: Doubles
    """Per edge."""
    host: Indices
    location: Indices
    """Per machine."""
    latency: Doubles
    inverse: Doubles
    """Locations x locations."""


class Shop(NamedTuple):
    """Tasks and machines."""

    tasks: int
    machines: int
    variables: int
    guard: int
    """The spare bits of packed numbers."""
    variable: Indices
    earliest: Doubles
    tail: Doubles
    """Per task: the seconds that pass at least between its end and that of the last task."""
    pointer: Indices
    before: Indices
    after_pointer: Indices
    after: Indices
    open: Flags
    """Per machine: whether tasks do not disturb each other."""
    step_pointer: Integers
    step_time: Doubles
    step_free: Integers
    """Per machine (CSR): what is free before any task is laid."""


class Layout(NamedTuple):
    """Where tasks were laid, and what is free now."""

    start: Doubles
    finish: Doubles
    """Per task."""
    first: Integers
    last: Integers
    """Per machine: its first and its last step."""
    time: Doubles
    free: Integers
    """Steps; each holds until the next, the last for ever."""


@kernel
def lay(
    shop: Shop,
    links: Links,
    ways: Ways,
    forward: int,
    order: Indices,
    way: Indices,
    bound: Indices,
    limit_s: float,
    layout: Layout,
) -> float:
    """Lay all tasks and give the end of the last one; infinite: it would be after the limit.

    Backwards the order is that of the ends, and times count from the end; data then take no time.
    """
    _draw(shop, ways, way, layout)
    pointer, before = shop.pointer, shop.before
    if forward == 0:
        pointer, before = shop.after_pointer, shop.after
    start, finish = layout.start, layout.finish
    time, free = layout.time, layout.free
    makespan = 0.0
    for position in range(shop.tasks):
        task = order[position]
        ready = 0.0
        seconds = 0.0
        chosen = way[task]
        computes = chosen < ways.first[task + 1]
        if computes:
            seconds = ways.seconds[chosen]
        if links.far != 0 and forward != 0:
            ready, seconds = _arrival(shop, links, bound, finish, task, seconds)
        else:
            if forward != 0:
                ready = shop.earliest[task]
            for edge in range(pointer[task], pointer[task + 1]):
                end = finish[before[edge]]
                if end > ready:
                    ready = end
        if computes and seconds > 0.0:
            machine = ways.machine[chosen]
            if shop.open[machine] == 0:
                first, last = layout.first[machine], layout.last[machine]
                ready, last = _put(time, free, first, last, shop.guard, ready, seconds, ways.need[chosen])
                layout.last[machine] = last
        end = ready + seconds
        start[task] = ready
        finish[task] = end
        if end > makespan:
            makespan = end
        if forward != 0 and end + shop.tail[task] > limit_s:
            return _INFINITE
    return makespan


@kernel
def _draw(shop: Shop, ways: Ways, way: Indices, layout: Layout) -> None:
    """Begin with machines on which nothing is laid; each has room for the tasks it will get."""
    first, last = layout.first, layout.last
    if shop.machines > 1:
        for machine in range(shop.machines):
            last[machine] = 0
        for task in range(shop.tasks):
            chosen = way[task]
            if chosen < ways.first[task + 1]:
                last[ways.machine[chosen]] += 2
    step = 0
    for machine in range(shop.machines):
        room = last[machine]
        first[machine] = step
        for position in range(shop.step_pointer[machine], shop.step_pointer[machine + 1]):
            layout.time[step] = shop.step_time[position]
            layout.free[step] = shop.step_free[position]
            step += 1
        last[machine] = step - 1
        step += room


@kernel
def _arrival(
    shop: Shop, links: Links, bound: Indices, finish: Doubles, task: int, seconds: float
) -> tuple[float, float]:
    """Give the moment at which the data of a task are there, and its seconds, also if it is a transfer."""
    machine = bound[shop.variable[task]]
    source = links.source[task]
    if source < shop.variables:
        origin = bound[source]
        if links.host[origin] != links.host[machine]:
            link = links.location[origin] * links.locations + links.location[machine]
            seconds = links.latency[link] + links.moved[task] * links.inverse[link]
        # It needs its data where it starts from.
        machine = origin
    host = links.host[machine]
    location = links.location[machine]
    ready = shop.earliest[task]
    for edge in range(shop.pointer[task], shop.pointer[task + 1]):
        before = shop.before[edge]
        end = finish[before]
        origin = bound[shop.variable[before]]
        if links.host[origin] != host:
            link = links.location[origin] * links.locations + location
            end += (
                links.fixed[edge]
                + links.files[edge] * links.latency[link]
                + links.size[edge] * links.inverse[link]
            )
        if end > ready:
            ready = end
    return ready, seconds


@kernel
def _put(
    time: Doubles, free: Integers, first: int, last: int, guard: int, ready: float, seconds: float, need: int
) -> tuple[float, int]:
    """Take what a task needs at the first moment not before ``ready``; give the moment and the last step."""
    low, high = first, last
    while low < high:
        middle = (low + high + 1) >> 1
        if time[middle] <= ready:
            low = middle
        else:
            high = middle - 1
    # ``begin`` is the step in which the task starts, ``step`` the one that is looked at.
    begin, step, start = low, low, ready
    while True:
        if ((free[step] - need) & guard) != 0:
            if step == last:
                return _INFINITE, last
            step += 1
            begin, start = step, time[step]
        elif step == last or time[step + 1] >= start + seconds:
            break
        else:
            step += 1
    end = start + seconds
    if step == last or time[step + 1] != end:
        # The step goes on after the task has ended.
        for back in range(last - step):
            time[last + 1 - back] = time[last - back]
            free[last + 1 - back] = free[last - back]
        time[step + 1] = end
        free[step + 1] = free[step]
        last += 1
    elif free[step] - need == free[step + 1]:
        for later in range(step + 1, last):
            time[later] = time[later + 1]
            free[later] = free[later + 1]
        last -= 1
    if time[begin] != start:
        for back in range(last - begin):
            time[last + 1 - back] = time[last - back]
            free[last + 1 - back] = free[last - back]
        begin += 1
        step += 1
        time[begin] = start
        free[begin] = free[begin - 1]
        last += 1
    elif begin > first and free[begin] - need == free[begin - 1]:
        for later in range(begin, last):
            time[later] = time[later + 1]
            free[later] = free[later + 1]
        last -= 1
        step -= 1
    for lowered in range(begin, step + 1):
        free[lowered] -= need
    return start, last
