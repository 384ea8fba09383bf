"""Allotment: give nodes to the tasks of the critical path until it is no longer than the average area.

The first phase of CPA: A. Radulescu, A. J. C. van Gemund, A Low-Cost Approach towards Mixed Task and Data
Parallel Scheduling, ICPP 2001, section 3. A task has ways to run, each faster than the one before it; it
begins with the first. While the critical path is longer than what the platform needs for all node-seconds,
the task on the path that gains most takes its next way.

Deviation: paths are measured again when the critical one has become 1 % shorter, not after every step. Up to
some 50 tasks on it every step does that. O(m (v + e) + s log d) for m measurements, s steps and d tasks on a
path; m is at most s.

Placement by due dates: every task takes the cheapest mode that ends in time, else the one that ends first.

What a mode is charged is its node-seconds times the price of the machine. The cheaper modes of a moldable
task are those with few nodes, which leaves room for others; a due date keeps it from taking too long. Ties go
to the earlier finish, then the smaller count, then the machine of lower index.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.arrivals import Arrivals, data_ready_s
from weft.kernels.compilation import kernel
from weft.kernels.placement import (
    PartialSchedule,
    commit_task,
    find_modes,
    gather_all_data,
    mode_seconds,
    place_without_nodes,
    reset_schedule,
    settle_transfers,
)
from weft.kernels.priorities import pop_task, push_task
from weft.kernels.problem import (
    COMPUTE,
    Doubles,
    Indices,
    MachineArrays,
    ModeArrays,
    ProblemArrays,
    TaskArrays,
)
from weft.kernels.timelines import Timelines, earliest_start_by

__all__ = ["AllotmentModes", "CriticalPaths", "allot_nodes", "place_tasks_by_due_date"]


_SHORTER = 0.99
"""Share of its length down to which a path counts as critical without measuring again."""


class AllotmentModes(NamedTuple):
    """How tasks can run, each way faster than the one before it (CSR over tasks)."""

    first: Indices
    """Per task and one more."""
    seconds: Doubles
    share: Doubles
    """How long the whole platform is taken by one task."""
    gain: Doubles
    """How much the next way is worth; of a last way: not read."""


class CriticalPaths(NamedTuple):
    """The longest paths under the ways taken, and a heap of the tasks on the critical one."""

    bottom: Doubles
    """Per task: seconds from its start to the end of the workflow, if nothing waits."""
    follower: Indices
    """Per task: the successor on its longest path; the number of tasks: none."""
    heap: Indices
    loss: Doubles
    """Per task: the gain of its next way, negative so that the largest comes first."""
    rank: Indices
    """Per task: its index."""


@kernel
def allot_nodes(
    tasks: TaskArrays, ways: AllotmentModes, communication: Doubles, way: Indices, paths: CriticalPaths
) -> int:
    """Fill ``way`` with the way of every task; give the number of steps. ``communication`` is per edge."""
    area = 0.0
    for task in range(tasks.number):
        way[task] = ways.first[task]
        area += ways.share[ways.first[task]]
        paths.rank[task] = task
    heap, loss, rank = paths.heap, paths.loss, paths.rank
    steps = 0
    while True:
        task = _measure(tasks, ways.seconds, communication, way, paths.bottom, paths.follower)
        length = paths.bottom[task]
        shorter = length * _SHORTER
        size = _gather(ways, way, paths, task, tasks.number)
        if size == 0 or length <= area:
            return steps
        critical = True
        while critical:
            task = pop_task(heap, size, loss, rank)
            size -= 1
            own = 0 + way[task]
            length -= ways.seconds[own] - ways.seconds[own + 1]
            area += ways.share[own + 1] - ways.share[own]
            way[task] = own + 1
            steps += 1
            if own + 2 < ways.first[task + 1]:
                loss[task] = -ways.gain[own + 1]
                push_task(heap, size, task, loss, rank)
                size += 1
            critical = size > 0 and length > area and length > shorter


@kernel
def _measure(
    tasks: TaskArrays,
    seconds: Doubles,
    communication: Doubles,
    way: Indices,
    bottom: Doubles,
    follower: Indices,
) -> int:
    """Measure all bottom levels; give the task of the longest path, of lower index if several."""
    number = tasks.number
    pointer, after, edge = tasks.after_pointer, tasks.after, tasks.after_edge
    first = 0
    highest = -1.0
    for done in range(number):
        task = number - 1 - done
        longest = 0.0
        following = number
        for position in range(pointer[task], pointer[task + 1]):
            other = 0 + after[position]
            length = communication[edge[position]] + bottom[other]
            if following == number or length > longest:
                longest = length
                following = other
        follower[task] = following
        bottom[task] = seconds[way[task]] + longest
        if bottom[task] >= highest:
            highest = bottom[task]
            first = task
    return first


@kernel
def _gather(ways: AllotmentModes, way: Indices, paths: CriticalPaths, first: int, number: int) -> int:
    """Put the tasks of a path that have another way into the heap; give their number."""
    size = 0
    task = 0 + first
    while task != number:
        own = 0 + way[task]
        if own + 1 < ways.first[task + 1]:
            paths.loss[task] = -ways.gain[own]
            push_task(paths.heap, size, task, paths.loss, paths.rank)
            size += 1
        task = 0 + paths.follower[task]
    return size


_INFINITE = float("inf")


@kernel
def place_tasks_by_due_date(
    problem: ProblemArrays,
    due: Doubles,
    order: Indices,
    lines: Timelines,
    arrivals: Arrivals,
    board: PartialSchedule,
) -> int:
    """Place all tasks in an order in which predecessors come first; give the task that fits nowhere.

    The number of tasks: all are placed.
    """
    tasks, modes, machines = problem.tasks, problem.modes, problem.machines
    reset_schedule(problem, lines, arrivals, board)
    for position in range(tasks.number):
        task = order[position]
        settle_transfers(tasks, machines, arrivals, board, task)
        if tasks.kind[task] != COMPUTE:
            place_without_nodes(tasks, machines, arrivals, board, task)
            continue
        gather_all_data(tasks, machines, arrivals, board, task)
        group = modes.group[task]
        low = 0 + modes.first[group]
        high = 0 + modes.first[group + 1]
        bound = board.bound[tasks.variable[task]]
        if bound < machines.number:
            low, high = find_modes(modes, task, bound)
        mode, start = _cheapest_in_time(tasks, modes, machines, lines, arrivals, task, low, high, due[task])
        if start == _INFINITE:
            mode, start = _first_to_end(tasks, modes, machines, lines, arrivals, task, low, high)
        if start == _INFINITE:
            return task
        commit_task(tasks, modes, machines, lines, arrivals, board, task, mode, start)
    return tasks.number


@kernel
def _cheapest_in_time(
    tasks: TaskArrays,
    modes: ModeArrays,
    machines: MachineArrays,
    lines: Timelines,
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
        ready = data_ready_s(machines, arrivals, machine)
        if charge > best or ready + spent > due:
            continue
        need = 0 + tasks.need[task] + modes.shift[mode]
        nodes = modes.nodes[mode]
        start = earliest_start_by(machines, lines, machine, ready, spent, nodes, need, tasks.amount, due)
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
    tasks: TaskArrays,
    modes: ModeArrays,
    machines: MachineArrays,
    lines: Timelines,
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
        ready = data_ready_s(machines, arrivals, machine)
        if ready + spent > best:
            continue
        need = 0 + tasks.need[task] + modes.shift[mode]
        nodes = modes.nodes[mode]
        start = earliest_start_by(machines, lines, machine, ready, spent, nodes, need, tasks.amount, best)
        finish = start + spent
        if finish == _INFINITE:
            continue
        if finish < best or (finish == best and modes.count[mode] <= modes.count[chosen]):
            best = finish
            chosen = mode
            chosen_start = start
    return chosen, chosen_start
