"""Best machines: where a task would start, end or be let in first, and where next.

Every mode is looked at. Tasks stand behind all others of a machine, or go into gaps.
"""

from __future__ import annotations

from weft.kernels.arrivals import Arrivals
from weft.kernels.choices import APPENDED, START, modes_on
from weft.kernels.forms import kernel
from weft.kernels.placement import Board
from weft.kernels.problem import CLASSES, OPEN, RELATED, SINGLE, Machines, Modes, Tasks
from weft.kernels.timelines import Lines, after_all, earliest

__all__ = ["MOMENT", "made_at", "two_best"]

MOMENT = 2
"""A criterion beside FINISH and START: when data are made, wherever they lie, and a machine is free."""
_INFINITE = float("inf")


@kernel
def made_at(tasks: Tasks, board: Board, task: int) -> float:
    """Give when all data of a task are made, wherever they lie, and it may start."""
    made = tasks.earliest[task]
    for edge in range(tasks.pointer[task], tasks.pointer[task + 1]):
        before = tasks.before[edge]
        done = board.finish[before]
        if done != done:  # a transfer that waits to know where the task will be
            done = board.departure[before]
        if done > made:
            made = done
    return made


@kernel
def two_best(
    tasks: Tasks,
    modes: Modes,
    machines: Machines,
    lines: Lines,
    arrivals: Arrivals,
    criterion: int,
    place: int,
    task: int,
    bound: int,
    made: float,
) -> tuple[int, float, float, int, float]:
    """Give mode, start and value of the best machine of a task, then the next best machine and its value.

    Ties go to the earlier finish, then to the smaller count, then to the machine of lower index.
    """
    group = modes.group[task]
    first = 0 + modes.first[group]
    low = first
    high = 0 + modes.first[group + 1]
    if bound < machines.number:
        low, high = modes_on(modes, task, bound)
    layout, on, count, rate, gain, cell = (
        modes.layout,
        modes.machine,
        modes.count,
        modes.rate,
        modes.gain,
        modes.cell,
    )
    work = modes.work[task]
    cells = modes.row[task] - first
    location, host_of, form, free_from = machines.location, machines.host, machines.form, lines.free_from
    latest, second, sender = arrivals.latest, arrivals.second, arrivals.sender
    is_home, at_home, turn = arrivals.is_home, arrivals.at_home, arrivals.turn[0]
    chosen, other = high, machines.number
    start_there = value_there = finish_there = next_value = _INFINITE
    for mode in range(low, high):
        machine = on[mode]
        # When are the data there? As ``arrivals.ready_on``.
        where = location[machine]
        host = host_of[machine]
        ready = latest[where]
        if is_home[host] == turn:
            if sender[where] == host:
                ready = second[where]
            if at_home[host] > ready:
                ready = at_home[host]
        if layout == RELATED:
            spent = work / rate[mode] / gain[mode]
        elif layout == CLASSES:
            spent = rate[mode]
        else:
            spent = cell[cells + mode]
        start, moment = ready, made
        if place == APPENDED and form[machine] == SINGLE:
            free = free_from[machine]
            if spent != 0.0:
                start = max(start, free)
                moment = max(moment, free)
        elif form[machine] != OPEN:
            start, moment = _room(tasks, modes, machines, lines, place, task, mode, spent, ready, made)
        finish = start + spent
        if finish == _INFINITE:
            continue
        value = finish
        if criterion == START:
            value = start
        elif criterion == MOMENT:
            value = moment
        better = value < value_there or (value == value_there and finish < finish_there)
        if value == value_there and finish == finish_there and count[mode] < count[chosen]:
            better = True
        if better:
            if chosen < high and on[chosen] != machine:
                other = 0 + on[chosen]
                next_value = value_there
            chosen = mode
            start_there = start
            value_there = value
            finish_there = finish
        elif on[chosen] != machine and value < next_value:
            other = 0 + machine
            next_value = value
    return chosen, start_there, value_there, other, next_value


@kernel
def _room(
    tasks: Tasks,
    modes: Modes,
    machines: Machines,
    lines: Lines,
    place: int,
    task: int,
    mode: int,
    spent: float,
    ready: float,
    made: float,
) -> tuple[float, float]:
    """Give when a mode could start, and when it could if all data were where they are needed once made."""
    machine = modes.machine[mode]
    nodes = modes.nodes[mode]
    need = 0 + tasks.need[task] + modes.shift[mode]
    if place == APPENDED:
        start = after_all(machines, lines, machine, ready, spent, nodes, need, tasks.amount)
        moment = after_all(machines, lines, machine, made, spent, nodes, need, tasks.amount)
    else:
        start = earliest(machines, lines, machine, ready, spent, nodes, need, tasks.amount)
        moment = earliest(machines, lines, machine, made, spent, nodes, need, tasks.amount)
    return start, moment
