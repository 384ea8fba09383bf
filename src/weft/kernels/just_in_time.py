"""Just-in-time placement: bind a task to a machine when its predecessors have finished."""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.arrivals import data_ready_s
from weft.kernels.compilation import kernel
from weft.kernels.placement import (
    PartialSchedule,
    PlacementRule,
    PlacementState,
    Workspace,
    begin_placement,
    commit_task,
    evaluate_task,
    find_modes,
    gather_all_data,
    mode_seconds,
    place_without_nodes,
    settle_transfers,
    transfer_seconds,
)
from weft.kernels.priorities import pop_task, push_task
from weft.kernels.problem import (
    COMPUTE,
    INFINITY,
    TRANSFER,
    Doubles,
    Indices,
    Integers,
    ModeArrays,
    ProblemArrays,
    TaskArrays,
)


class PendingTasks(NamedTuple):
    """Scratch arrays for tasks that are not placed yet, and the heap of ready tasks."""

    left: Integers
    """Per task: number of unfinished predecessors."""
    ready: Doubles
    """Per task: the finish of its last predecessor."""
    heap: Indices


@kernel
def place_when_ready(
    problem: ProblemArrays,
    rule: PlacementRule,
    by_transfer: int,
    draw: Doubles,
    rank: Indices,
    pending: PendingTasks,
    workspace: Workspace,
) -> int:
    """Place tasks as they become ready; return a task that fits nowhere, or the number of tasks.

    R. Prodan, T. Fahringer, Dynamic Scheduling of Scientific Workflow Applications on the Grid, SAC 2005, the
    lazy baseline (docs/papers/dynamic-grid.md, section 13). *The machine that gives the task the lowest time*
    can be read in two ways. By transfer: a transfer goes to the machine where it takes the least time, and
    the tasks of the same binding variable run on that machine; a task without a machine goes where its data
    arrive first and, among such machines, where it takes the least time. By finish: a task goes to the
    machine where it finishes first, after the tasks already queued on that machine.

    O(v log v + e l + v k) for l locations and k modes per task.

    ``draw`` (per task, from 0 to 1) chooses among machines that are equally good by transfer; 0 takes the
    first. ``rank`` orders tasks that become ready at the same time.
    """
    tasks, machines, schedule = problem.tasks, problem.machines, workspace.schedule
    state = begin_placement(problem, workspace)
    size = 0
    for task in range(tasks.number):
        pending.left[task] = 0 + tasks.pointer[task + 1] - tasks.pointer[task]
        pending.ready[task] = tasks.earliest[task]
        if pending.left[task] == 0:
            push_task(pending.heap, size, task, pending.ready, rank)
            size += 1
    while size > 0:
        task = pop_task(pending.heap, size, pending.ready, rank)
        size -= 1
        settle_transfers(state, task)
        variable = tasks.variable[task]
        binds = by_transfer != 0 and schedule.bound[variable] == machines.number
        if tasks.kind[task] == COMPUTE:
            if binds:
                gather_all_data(state, task)
                schedule.bound[variable] = _first_data(state, task, draw[task])
            mode, start = evaluate_task(state, rule, task)
            if start == INFINITY:
                return task
            commit_task(state, task, mode, start)
        else:
            source = tasks.source[task]
            if binds and tasks.kind[task] == TRANSFER and schedule.bound[source] < machines.number:
                schedule.bound[variable] = _least_moving(state, task, draw[task])
            place_without_nodes(state, task)
        size = _release(tasks, schedule, pending, size, task, rank)
    return tasks.number


@kernel
def _release(
    tasks: TaskArrays, schedule: PartialSchedule, pending: PendingTasks, size: int, task: int, rank: Indices
) -> int:
    """Update the successors of a placed task, and push those that become ready; return the heap's size."""
    done = schedule.finish[task]
    if done != done:  # a transfer that waits for its destination can depart now
        done = pending.ready[task]
    for position in range(tasks.after_pointer[task], tasks.after_pointer[task + 1]):
        other = tasks.after[position]
        if done > pending.ready[other]:
            pending.ready[other] = done
        pending.left[other] -= 1
        if pending.left[other] == 0:
            push_task(pending.heap, size, other, pending.ready, rank)
            size += 1
    return size


@kernel
def _first_data(state: PlacementState, task: int, draw: float) -> int:
    """Return the candidate machine where all data arrive first; ties by least seconds, then by ``draw``."""
    tasks, modes, machines, _, arrivals, _ = state
    found = tasks.candidate_set[tasks.variable[task]]
    first, end = tasks.candidate_pointer[found], tasks.candidate_pointer[found + 1]
    best = INFINITY
    least = INFINITY
    ties = 0
    for position in range(first, end):
        machine = tasks.candidate[position]
        ready = data_ready_s(machines, arrivals, machine)
        spent = _shortest(modes, task, machine)
        if ready < best or (ready == best and spent < least):
            best = ready
            least = spent
            ties = 0
        if ready == best and spent == least:
            ties += 1
    left = int(draw * ties)
    chosen = machines.number
    for position in range(first, end):
        machine = tasks.candidate[position]
        if data_ready_s(machines, arrivals, machine) == best and _shortest(modes, task, machine) == least:
            if left == 0:
                chosen = machine
            left -= 1
    return chosen


@kernel
def _shortest(modes: ModeArrays, task: int, machine: int) -> float:
    """Return the least seconds of a task on a machine; infinity if it cannot run on the machine."""
    low, high = find_modes(modes, task, machine)
    least = INFINITY
    for mode in range(low, high):
        spent = mode_seconds(modes, task, mode)
        if spent < least:
            least = spent
    return least


@kernel
def _least_moving(state: PlacementState, transfer: int, draw: float) -> int:
    """Return the destination machine with the shortest transfer time; ties by ``draw`` (from 0 to 1)."""
    tasks, machines, schedule = state.tasks, state.machines, state.schedule
    found = tasks.candidate_set[tasks.variable[transfer]]
    first, end = tasks.candidate_pointer[found], tasks.candidate_pointer[found + 1]
    source = schedule.bound[tasks.source[transfer]]
    best = INFINITY
    ties = 0
    for position in range(first, end):
        spent = transfer_seconds(machines, source, tasks.candidate[position], tasks.moved[transfer])
        if spent < best:
            best = spent
            ties = 0
        if spent == best:
            ties += 1
    left = int(draw * ties)
    chosen = machines.number
    for position in range(first, end):
        if transfer_seconds(machines, source, tasks.candidate[position], tasks.moved[transfer]) == best:
            if left == 0:
                chosen = tasks.candidate[position]
            left -= 1
    return chosen
