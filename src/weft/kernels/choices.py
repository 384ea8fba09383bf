"""Choices: in which mode a task ends first, or scores best, on machines that are partly taken.

Three searches. ``_first_to_finish`` skips modes that cannot win: modes stand by ascending seconds, so the
first that could not even win on an idle machine ends the search. ``_frugal`` takes the smallest count that
ends within a factor of the earliest finish. ``best_score`` looks at every mode, for planners that weigh more
than the finish. Ties go to the smaller count, then to the machine of lower index.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.arrivals import Arrivals, ready_on
from weft.kernels.forms import kernel
from weft.kernels.problem import CLASSES, RELATED, SINGLE, Machines, Modes
from weft.kernels.timelines import Lines, after_all, earliest, earliest_by, earliest_single
from weft.kernels.types import Doubles, Indices

__all__ = ["APPENDED", "FINISH", "START", "Rule", "best_score", "choose", "mode_seconds", "modes_on"]

FINISH, START = 0, 1
"""What a score starts from."""
APPENDED = 1
"""``Rule.place``: behind everything on a machine, instead of into gaps."""
_INFINITE = float("inf")
_NEARLY_ONE = 1.0 - 1e-15
"""Modes are sorted by 1 / rate / gain, which may differ in the last bits from work / rate / gain."""


class Rule(NamedTuple):
    """How a planner chooses among the modes of a task."""

    criterion: int
    """FINISH or START: what is to be small."""
    place: int
    """0: into gaps; APPENDED: behind everything."""
    factor: float
    """A moldable task takes fewer nodes as long as it ends within this factor of its earliest finish."""
    price_weight: float
    """Added to the score per unit of price."""
    weighs: int
    """Whether ``extra`` is added to the score."""
    extra: Doubles
    """Tasks x machines."""
    counts: int
    """Whether ``only_count`` is heeded."""
    only_count: Indices
    """Per task: the only count allowed; 0: any."""


@kernel
def mode_seconds(modes: Modes, task: int, mode: int) -> float:
    """Give the seconds of a mode of a task."""
    if modes.layout == RELATED:
        return modes.work[task] / modes.rate[mode] / modes.gain[mode]
    if modes.layout == CLASSES:
        return modes.rate[mode]
    return modes.cell[modes.row[task] + (mode - modes.first[modes.group[task]])]


@kernel
def modes_on(modes: Modes, task: int, machine: int) -> tuple[int, int]:
    """Give the first mode of a task on a machine and the one after its last: modes stand by machine."""
    group = modes.group[task]
    low = 0 + modes.first[group]
    end = 0 + modes.first[group + 1]
    high = end
    while low < high:
        middle = (low + high) // 2
        if modes.machine[middle] < machine:
            low = middle + 1
        else:
            high = middle
    last = low
    while last < end and modes.machine[last] == machine:
        last += 1
    return low, last


@kernel
def choose(
    needs: int,
    amount: Doubles,
    modes: Modes,
    machines: Machines,
    lines: Lines,
    arrivals: Arrivals,
    rule: Rule,
    task: int,
    bound: int,
    homes: int,
    mode_start: Doubles,
    mode_finish: Doubles,
) -> tuple[int, float]:
    """Give mode and start of a task; ``bound`` is the machine it must take, or the number of machines.

    ``needs`` is the task's first row of ``amount``. The start is infinite where no mode ever fits.
    """
    group = modes.group[task]
    if rule.criterion != FINISH or rule.weighs != 0 or rule.price_weight != 0.0 or rule.counts != 0:
        return best_score(needs, amount, modes, machines, lines, arrivals, rule, task, bound)
    if rule.factor > 1.0 and modes.moldable[group] != 0:
        return _frugal(
            needs, amount, modes, machines, lines, arrivals, rule, task, bound, mode_start, mode_finish
        )
    if bound < machines.number or rule.place == APPENDED:
        return best_score(needs, amount, modes, machines, lines, arrivals, rule, task, bound)
    return _first_to_finish(needs, amount, modes, machines, lines, arrivals, task, homes)


@kernel
def _first_to_finish(
    needs: int,
    amount: Doubles,
    modes: Modes,
    machines: Machines,
    lines: Lines,
    arrivals: Arrivals,
    task: int,
    homes: int,
) -> tuple[int, float]:
    group = modes.group[task]
    first = 0 + modes.first[group]
    end = 0 + modes.first[group + 1]
    best = _INFINITE
    chosen = end
    chosen_start = _INFINITE
    # Machines next to data can start before all others at their location: they are looked at exactly.
    for index in range(homes):
        host = arrivals.home[index]
        for position in range(machines.on_host_pointer[host], machines.on_host_pointer[host + 1]):
            machine = machines.on_host[position]
            ready = ready_on(machines, arrivals, machine)
            low, high = modes_on(modes, task, machine)
            for mode in range(low, high):
                spent = mode_seconds(modes, task, mode)
                need = 0 + needs + modes.shift[mode]
                start = earliest(machines, lines, machine, ready, spent, modes.nodes[mode], need, amount)
                finish = start + spent
                if finish < best or (finish == best < _INFINITE and _goes_before(modes, mode, chosen)):
                    best = finish
                    chosen = mode
                    chosen_start = start
    latest, location, form = arrivals.latest, machines.location, machines.form
    soonest = latest[0]
    for place in range(1, machines.locations):
        if latest[place] < soonest:
            soonest = latest[place]
    layout, by_seconds, on = modes.layout, modes.sorted, modes.machine
    rate, gain, cell = modes.rate, modes.gain, modes.cell
    free_from, count = lines.free_from, lines.gaps.count
    work = modes.work[task]
    cells = modes.row[task] - first
    for position in range(first, end):
        mode = by_seconds[position]
        if layout == RELATED:
            spent = work / rate[mode] / gain[mode]
        elif layout == CLASSES:
            spent = rate[mode]
        else:
            spent = cell[cells + mode]
        machine = on[mode]
        ready = latest[location[machine]]
        possible = ready + spent
        if possible > best:
            if layout <= CLASSES and soonest + spent * _NEARLY_ONE > best:
                break  # too late even on idle machines, and so are all that follow
            continue
        if form[machine] != SINGLE:
            need = 0 + needs + modes.shift[mode]
            nodes = modes.nodes[mode]
            start = earliest_by(machines, lines, machine, ready, spent, nodes, need, amount, best)
        elif spent == 0.0:
            start = ready
        else:
            start = free_from[machine]
            if ready > start:
                start = ready
            elif count[machine] > 0:
                start = earliest_single(lines, machine, ready, spent)
        finish = start + spent
        if finish < best or (finish == best < _INFINITE and _goes_before(modes, mode, chosen)):
            best = finish
            chosen = mode
            chosen_start = start
    return chosen, chosen_start


@kernel
def _goes_before(modes: Modes, mode: int, other: int) -> bool:
    """Break a tie: the smaller count, then the lower machine (by which modes stand)."""
    if modes.count[mode] != modes.count[other]:
        return bool(modes.count[mode] < modes.count[other])
    return mode < other


@kernel
def _frugal(
    needs: int,
    amount: Doubles,
    modes: Modes,
    machines: Machines,
    lines: Lines,
    arrivals: Arrivals,
    rule: Rule,
    task: int,
    bound: int,
    mode_start: Doubles,
    mode_finish: Doubles,
) -> tuple[int, float]:
    group = modes.group[task]
    first = 0 + modes.first[group]
    end = 0 + modes.first[group + 1]
    low, high = first, end
    if bound < machines.number:
        low, high = modes_on(modes, task, bound)
    limit = _INFINITE
    for position in range(first, end):
        mode = modes.sorted[position]
        mode_finish[mode - first] = _INFINITE
        if mode < low or mode >= high:
            continue
        spent = mode_seconds(modes, task, mode)
        machine = modes.machine[mode]
        ready = ready_on(machines, arrivals, machine)
        if ready + spent > limit:
            continue
        need = 0 + needs + modes.shift[mode]
        if rule.place == APPENDED:
            start = after_all(machines, lines, machine, ready, spent, modes.nodes[mode], need, amount)
        else:
            nodes = modes.nodes[mode]
            start = earliest_by(machines, lines, machine, ready, spent, nodes, need, amount, limit)
        finish = start + spent
        mode_start[mode - first] = start
        mode_finish[mode - first] = finish
        if finish * rule.factor < limit:
            limit = finish * rule.factor
    chosen = end
    for mode in range(low, high):
        finish = mode_finish[mode - first]
        within = finish <= limit and finish < _INFINITE
        if within and (
            chosen == end
            or modes.count[mode] < modes.count[chosen]
            or (modes.count[mode] == modes.count[chosen] and finish < mode_finish[chosen - first])
        ):
            chosen = mode
    if chosen == end:
        return end, _INFINITE
    return chosen, mode_start[chosen - first]


@kernel
def best_score(
    needs: int,
    amount: Doubles,
    modes: Modes,
    machines: Machines,
    lines: Lines,
    arrivals: Arrivals,
    rule: Rule,
    task: int,
    bound: int,
) -> tuple[int, float]:
    """Look at every mode and take the one of the least score."""
    group = modes.group[task]
    low = 0 + modes.first[group]
    high = 0 + modes.first[group + 1]
    chosen = high
    if bound < machines.number:
        low, high = modes_on(modes, task, bound)
    best = _INFINITE
    best_finish = _INFINITE
    chosen_start = _INFINITE
    for mode in range(low, high):
        if rule.counts != 0 and rule.only_count[task] != 0 and modes.count[mode] != rule.only_count[task]:
            continue
        spent = mode_seconds(modes, task, mode)
        machine = modes.machine[mode]
        ready = ready_on(machines, arrivals, machine)
        nodes = modes.nodes[mode]
        need = 0 + needs + modes.shift[mode]
        if rule.place == APPENDED:
            start = after_all(machines, lines, machine, ready, spent, nodes, need, amount)
        else:
            start = earliest(machines, lines, machine, ready, spent, nodes, need, amount)
        finish = start + spent
        score = finish
        if rule.criterion == START:
            score = start
        if rule.weighs != 0:
            score += rule.extra[task * machines.number + machine]
        if rule.price_weight != 0.0:
            score += rule.price_weight * (nodes * spent * machines.price[machine])
        if finish == _INFINITE:
            continue
        better = score < best or (score == best and finish < best_finish)
        if better or (score == best and finish == best_finish and _goes_before(modes, mode, chosen)):
            best = score
            best_finish = finish
            chosen = mode
            chosen_start = start
    return chosen, chosen_start
