"""Placement by due dates: every task takes the cheapest mode that ends in time, else the one that ends first.

What a mode is charged is its node-seconds times the price of the machine. The cheaper modes of a moldable
task are those with few nodes, which leaves room for others; a due date keeps it from taking too long. Ties go
to the earlier finish, then the smaller count, then the machine of lower index.
"""

from __future__ import annotations

from weft.kernels.arrivals import Arrivals, ready_on
from weft.kernels.choices import mode_seconds, modes_on
from weft.kernels.forms import kernel
from weft.kernels.placement import Board, begin, commit, gather_all, place_freely, settle_before
from weft.kernels.problem import COMPUTE, Machines, Modes, Problem, Tasks
from weft.kernels.timelines import Lines, earliest_by
from weft.kernels.types import Doubles, Indices

__all__ = ["place_by_due"]

_INFINITE = float("inf")


@kernel
def place_by_due(
    problem: Problem, due: Doubles, order: Indices, lines: Lines, arrivals: Arrivals, board: Board
) -> int:
    """Place all tasks in an order in which predecessors come first; give the task that fits nowhere.

    The number of tasks: all are placed.
    """
    tasks, modes, machines = problem.tasks, problem.modes, problem.machines
    begin(problem, lines, arrivals, board)
    for position in range(tasks.number):
        task = order[position]
        settle_before(tasks, machines, arrivals, board, task)
        if tasks.kind[task] != COMPUTE:
            place_freely(tasks, machines, arrivals, board, task)
            continue
        gather_all(tasks, machines, arrivals, board, task)
        group = modes.group[task]
        low = 0 + modes.first[group]
        high = 0 + modes.first[group + 1]
        bound = board.bound[tasks.variable[task]]
        if bound < machines.number:
            low, high = modes_on(modes, task, bound)
        mode, start = _cheapest_in_time(tasks, modes, machines, lines, arrivals, task, low, high, due[task])
        if start == _INFINITE:
            mode, start = _first_to_end(tasks, modes, machines, lines, arrivals, task, low, high)
        if start == _INFINITE:
            return task
        commit(tasks, modes, machines, lines, arrivals, board, task, mode, start)
    return tasks.number


@kernel
def _cheapest_in_time(
    tasks: Tasks,
    modes: Modes,
    machines: Machines,
    lines: Lines,
    arrivals: Arrivals,
    task: int,
    low: int,
    high: int,
    due: float,
) -> tuple[int, float]:
    """Give mode and start; the start is infinite where no mode ends in time."""
    best = _INFINITE
    best_finish = _INFINITE
    chosen = high
    chosen_start = _INFINITE
    for mode in range(low, high):
        spent = mode_seconds(modes, task, mode)
        machine = modes.machine[mode]
        charge = modes.nodes[mode] * spent * machines.price[machine]
        ready = ready_on(machines, arrivals, machine)
        if charge > best or ready + spent > due:
            continue
        need = 0 + tasks.need[task] + modes.shift[mode]
        nodes = modes.nodes[mode]
        start = earliest_by(machines, lines, machine, ready, spent, nodes, need, tasks.amount, due)
        finish = start + spent
        if finish > due or finish == _INFINITE:
            continue
        better = charge < best or finish < best_finish
        if better or (finish == best_finish and modes.count[mode] < modes.count[chosen]):
            best = charge
            best_finish = finish
            chosen = mode
            chosen_start = start
    return chosen, chosen_start


@kernel
def _first_to_end(
    tasks: Tasks,
    modes: Modes,
    machines: Machines,
    lines: Lines,
    arrivals: Arrivals,
    task: int,
    low: int,
    high: int,
) -> tuple[int, float]:
    """Give mode and start; the start is infinite where no mode ever fits."""
    best = _INFINITE
    chosen = high
    chosen_start = _INFINITE
    for position in range(low, high):
        # From the last mode on: many nodes end soon, and rule out the modes that take longer.
        mode = low + (high - 1 - position)
        spent = mode_seconds(modes, task, mode)
        machine = modes.machine[mode]
        ready = ready_on(machines, arrivals, machine)
        if ready + spent > best:
            continue
        need = 0 + tasks.need[task] + modes.shift[mode]
        nodes = modes.nodes[mode]
        start = earliest_by(machines, lines, machine, ready, spent, nodes, need, tasks.amount, best)
        finish = start + spent
        if finish == _INFINITE:
            continue
        if finish < best or (finish == best and modes.count[mode] <= modes.count[chosen]):
            best = finish
            chosen = mode
            chosen_start = start
    return chosen, chosen_start
