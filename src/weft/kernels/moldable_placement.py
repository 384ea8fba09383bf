"""Placement of moldable tasks: allotment of nodes on the critical path, and placement by due dates.

Allotment is the first phase of CPA: A. Radulescu, A. J. C. van Gemund, A Low-Cost Approach towards Mixed Task
and Data Parallel Scheduling, ICPP 2001, section 3. The modes of a task are sorted by descending seconds; a
task starts with the first. While the critical path is longer than the average area (all node-seconds over the
nodes of the platform), the task on the path with the largest gain takes its next mode.

Deviation: paths are recomputed when the critical path has become 1 % shorter, not after every step. With up
to about 50 tasks on the path, every step shortens the path that much. O(m (v + e) + s log d) for m
recomputations, s steps and d tasks on a path; m <= s.

Placement by due dates: a task takes the cheapest mode that finishes by its due date, otherwise the one that
finishes first. A mode is charged its node-seconds times the price of the machine, so modes with few nodes are
cheap and leave nodes for other tasks. Ties: earlier finish, smaller count, lower machine index.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.arrivals import data_ready_s
from weft.kernels.compilation import kernel
from weft.kernels.placement import (
    PlacementState,
    Workspace,
    begin_placement,
    commit_task,
    gather_all_data,
    mode_seconds,
    place_without_nodes,
    possible_modes,
    settle_transfers,
    start_of_mode,
)
from weft.kernels.priorities import pop_task, push_task
from weft.kernels.problem import COMPUTE, INFINITY, Doubles, Indices, ProblemArrays, TaskArrays

_SHORTER = 0.99
"""Paths are recomputed when the critical path has become shorter than this share of its length."""


class AllotmentModes(NamedTuple):
    """The modes of tasks by descending seconds (CSR over tasks)."""

    first: Indices
    """Per task: the position of its first mode; one more entry holds the number of all modes."""
    seconds: Doubles
    share: Doubles
    """Per mode: its area, the seconds for which its node-seconds would occupy the whole platform."""
    gain: Doubles
    """Per mode: the gain of changing to the next mode; undefined for the last mode of a task."""


class CriticalPaths(NamedTuple):
    """The longest paths with the current modes, and a heap of the tasks on the critical path."""

    bottom: Doubles
    """Per task: seconds from its start to the end of the workflow with unlimited machines."""
    follower: Indices
    """Per task: the successor on its longest path; the number of tasks if there is none."""
    heap: Indices
    loss: Doubles
    """Per task: the negative gain of its next mode, so that the heap returns the largest gain."""
    rank: Indices
    """Per task: its index, by which the heap breaks ties."""


@kernel
def allot_nodes(
    tasks: TaskArrays, modes: AllotmentModes, communication: Doubles, mode: Indices, paths: CriticalPaths
) -> int:
    """Fill ``mode`` with a mode per task and return the number of steps.

    ``communication`` are the seconds that the data of each edge take.
    """
    area = 0.0
    for task in range(tasks.number):
        mode[task] = modes.first[task]
        area += modes.share[modes.first[task]]
        paths.rank[task] = task
    heap, loss, rank = paths.heap, paths.loss, paths.rank
    steps = 0
    while True:
        task = _measure(tasks, modes.seconds, communication, mode, paths)
        length = paths.bottom[task]
        shorter = length * _SHORTER
        size = _gather(modes, mode, paths, task, tasks.number)
        if size == 0 or length <= area:
            return steps
        critical = True
        while critical:
            task = pop_task(heap, size, loss, rank)
            size -= 1
            own = 0 + mode[task]
            length -= modes.seconds[own] - modes.seconds[own + 1]
            area += modes.share[own + 1] - modes.share[own]
            mode[task] = own + 1
            steps += 1
            if own + 2 < modes.first[task + 1]:
                loss[task] = -modes.gain[own + 1]
                push_task(heap, size, task, loss, rank)
                size += 1
            critical = size > 0 and length > area and length > shorter


@kernel
def _measure(
    tasks: TaskArrays, seconds: Doubles, communication: Doubles, mode: Indices, paths: CriticalPaths
) -> int:
    """Compute all bottom levels; return the first task of the longest path (ties by lower index)."""
    number, bottom, follower = tasks.number, paths.bottom, paths.follower
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
        bottom[task] = seconds[mode[task]] + longest
        if bottom[task] >= highest:
            highest = bottom[task]
            first = task
    return first


@kernel
def _gather(modes: AllotmentModes, mode: Indices, paths: CriticalPaths, first: int, number: int) -> int:
    """Push the tasks of a path that have a next mode on the heap; return their number."""
    size = 0
    task = 0 + first
    while task != number:
        own = 0 + mode[task]
        if own + 1 < modes.first[task + 1]:
            paths.loss[task] = -modes.gain[own]
            push_task(paths.heap, size, task, paths.loss, paths.rank)
            size += 1
        task = 0 + paths.follower[task]
    return size


@kernel
def place_tasks_by_due_date(
    problem: ProblemArrays, due: Doubles, order: Indices, workspace: Workspace
) -> int:
    """Place all tasks in a given order, each in its cheapest mode that meets its due date.

    Return the first task that fits on no machine, or the number of tasks if all are placed.
    """
    tasks = problem.tasks
    state = begin_placement(problem, workspace)
    for position in range(tasks.number):
        task = order[position]
        settle_transfers(state, task)
        if tasks.kind[task] != COMPUTE:
            place_without_nodes(state, task)
            continue
        gather_all_data(state, task)
        low, high = possible_modes(state, task)
        mode, start = _cheapest_in_time(state, task, low, high, due[task])
        if start == INFINITY:
            mode, start = _first_to_end(state, task, low, high)
        if start == INFINITY:
            return task
        commit_task(state, task, mode, start)
    return tasks.number


@kernel
def _cheapest_in_time(state: PlacementState, task: int, low: int, high: int, due: float) -> tuple[int, float]:
    """Return the cheapest mode that finishes by the due date, and its start (infinity if none does)."""
    _, modes, machines, _, arrivals, _ = state
    best = INFINITY
    best_finish = INFINITY
    chosen = high
    chosen_start = INFINITY
    for mode in range(low, high):
        spent = mode_seconds(modes, task, mode)
        machine = modes.machine[mode]
        charge = modes.nodes[mode] * spent * machines.price[machine]
        ready = data_ready_s(machines, arrivals, machine)
        if charge > best or ready + spent > due:
            continue
        start = start_of_mode(state, 0, task, mode, ready, spent, due)
        finish = start + spent
        if finish > due or finish == INFINITY:
            continue
        better = charge < best or finish < best_finish
        if better or (finish == best_finish and modes.count[mode] < modes.count[chosen]):
            best = charge
            best_finish = finish
            chosen = mode
            chosen_start = start
    return chosen, chosen_start


@kernel
def _first_to_end(state: PlacementState, task: int, low: int, high: int) -> tuple[int, float]:
    """Return the mode that finishes first, and its start (infinity if no mode fits)."""
    _, modes, machines, _, arrivals, _ = state
    best = INFINITY
    chosen = high
    chosen_start = INFINITY
    for position in range(low, high):
        # Start with the last mode: modes with many nodes finish early and rule out longer ones.
        mode = low + (high - 1 - position)
        spent = mode_seconds(modes, task, mode)
        ready = data_ready_s(machines, arrivals, modes.machine[mode])
        if ready + spent > best:
            continue
        start = start_of_mode(state, 0, task, mode, ready, spent, best)
        finish = start + spent
        if finish == INFINITY:
            continue
        if finish < best or (finish == best and modes.count[mode] <= modes.count[chosen]):
            best = finish
            chosen = mode
            chosen_start = start
    return chosen, chosen_start
