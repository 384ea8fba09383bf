"""Free capacity of machines over time, as step functions in contiguous arrays."""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.compilation import kernel
from weft.kernels.problem import INFINITY, Doubles, Integers


class Skylines(NamedTuple):
    """The steps of all skylines: ``nodes`` and ``left`` are free from ``time`` of a step to the next step.

    In decoders the number of tasks of a machine is known in advance, so every skyline has its own section of
    common arrays and steps are found by bisection. Placement uses linked lists instead
    (``weft.kernels.timelines``). A skyline always has a step at time 0.

    Nodes are compared exactly. Amounts are sums of doubles, so callers pass the least amount that must be
    free, which is slightly less than the amount taken.
    """

    resources: int
    first: Integers
    """Per skyline: its first step."""
    last: Integers
    """Per skyline: its last step, which has no end."""
    time: Doubles
    nodes: Integers
    left: Doubles
    """Steps x resources: the free amounts."""


@kernel
def write_demand(
    resources: int, amount: Doubles, need: int, slack: Doubles, machine: int, taken: Doubles, least: Doubles
) -> None:
    """Fill ``taken``, the amounts of a task, and ``least``, the amounts that must be free.

    ``least`` is minus infinity for a resource that the task does not take.
    ``need`` is a row of ``amount``, ``machine`` a row of ``slack``.
    """
    for resource in range(resources):
        wanted = amount[need * resources + resource]
        taken[resource] = wanted
        least[resource] = wanted - slack[machine * resources + resource]
        if wanted == 0.0:
            least[resource] = -INFINITY


@kernel
def first_fit(
    skylines: Skylines, line: int, ready: float, seconds: float, nodes: int, least: Doubles
) -> float:
    """Return the first time from ``ready`` on when enough is free for ``seconds``; infinity if never."""
    last = skylines.last[line]
    step = _step_at(skylines.time, skylines.first[line], last, ready)
    start = ready
    while True:
        if not _fits(skylines.nodes, skylines.left, skylines.resources, step, nodes, least):
            if step == last:
                return INFINITY
            step += 1
            start = skylines.time[step]
        elif step == last or skylines.time[step + 1] >= start + seconds:
            return start
        else:
            step += 1


@kernel
def permanent_fit(skylines: Skylines, line: int, ready: float, nodes: int, least: Doubles) -> float:
    """Return the first time from ``ready`` on after which enough stays free; infinity if never."""
    step = skylines.last[line]
    first = skylines.first[line]
    if not _fits(skylines.nodes, skylines.left, skylines.resources, step, nodes, least):
        return INFINITY
    while (
        step > first
        and skylines.time[step] > ready
        and _fits(skylines.nodes, skylines.left, skylines.resources, step - 1, nodes, least)
    ):
        step -= 1
    start = skylines.time[step]
    if ready > start:
        start = ready
    return start


@kernel
def occupy_skyline(
    skylines: Skylines, line: int, start: float, finish: float, nodes: int, taken: Doubles
) -> None:
    """Subtract nodes and amounts from the free capacity between ``start`` and ``finish``."""
    if start == finish:  # also by rounding; one step would be removed twice below
        return
    resources = skylines.resources
    begin = _cut(skylines, line, start)
    end = _cut(skylines, line, finish)
    for step in range(begin, end):
        skylines.nodes[step] -= nodes
        for resource in range(resources):
            skylines.left[step * resources + resource] -= taken[resource]
    _merge(skylines, line, end)
    _merge(skylines, line, begin)


@kernel
def _step_at(time: Doubles, first: int, last: int, moment: float) -> int:
    """Return the last step that begins at or before a time, otherwise the first step."""
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
def _cut(skylines: Skylines, line: int, moment: float) -> int:
    """Return the step that begins at a time; insert it if there is none."""
    resources = skylines.resources
    last = skylines.last[line]
    step = _step_at(skylines.time, skylines.first[line], last, moment)
    if skylines.time[step] == moment:
        return step
    for back in range(last - step):
        source = last - back
        skylines.time[source + 1] = skylines.time[source]
        skylines.nodes[source + 1] = skylines.nodes[source]
        for resource in range(resources):
            skylines.left[(source + 1) * resources + resource] = skylines.left[source * resources + resource]
    skylines.time[step + 1] = moment
    skylines.nodes[step + 1] = skylines.nodes[step]
    for resource in range(resources):
        skylines.left[(step + 1) * resources + resource] = skylines.left[step * resources + resource]
    skylines.last[line] = last + 1
    return step + 1


@kernel
def _merge(skylines: Skylines, line: int, step: int) -> None:
    """Remove a step if its free capacity equals that of the step before it."""
    resources = skylines.resources
    if step == skylines.first[line] or skylines.nodes[step] != skylines.nodes[step - 1]:
        return
    for resource in range(resources):
        if skylines.left[step * resources + resource] != skylines.left[(step - 1) * resources + resource]:
            return
    last = skylines.last[line]
    for source in range(step + 1, last + 1):
        skylines.time[source - 1] = skylines.time[source]
        skylines.nodes[source - 1] = skylines.nodes[source]
        for resource in range(resources):
            skylines.left[(source - 1) * resources + resource] = skylines.left[source * resources + resource]
    skylines.last[line] = last - 1
