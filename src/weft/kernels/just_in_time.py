"""Placement as a run unfolds: a task is bound when its predecessors have ended, and queues up there.

R. Prodan, T. Fahringer, Dynamic Scheduling of Scientific Workflow Applications on the Grid, SAC 2005, the
lazy baseline (S1 section 13). Two readings of *the machine that gives this task the lowest time*. By
transfer: a transfer goes where it takes least, and the tasks there follow it; a task that nobody bound goes
where its data are first, then where it takes least. By finish: a task goes where it ends first, behind what
is queued there.

Tasks that become ready at one moment are bound by index. O(v log v + e l + v k) for k modes per task.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.arrivals import Arrivals, data_ready_s
from weft.kernels.compilation import kernel
from weft.kernels.placement import (
    PartialSchedule,
    PlacementRule,
    commit_task,
    evaluate_task,
    find_modes,
    gather_all_data,
    mode_seconds,
    place_without_nodes,
    reset_schedule,
    settle_transfers,
    transfer_seconds,
)
from weft.kernels.priorities import pop_task, push_task
from weft.kernels.problem import (
    COMPUTE,
    TRANSFER,
    Doubles,
    Indices,
    Integers,
    MachineArrays,
    ModeArrays,
    ProblemArrays,
    TaskArrays,
)
from weft.kernels.timelines import Timelines

__all__ = ["PendingTasks", "place_when_ready"]


_INFINITE = float("inf")


class PendingTasks(NamedTuple):
    """What is to come."""

    left: Integers
    """Per task: predecessors that have not ended."""
    ready: Doubles
    """Per task: when the last of them ends."""
    heap: Indices


@kernel
def place_when_ready(
    problem: ProblemArrays,
    rule: PlacementRule,
    by_transfer: int,
    draw: Doubles,
    rank: Indices,
    agenda: PendingTasks,
    lines: Timelines,
    arrivals: Arrivals,
    board: PartialSchedule,
) -> int:
    """Place all tasks; give the task that fits nowhere, or the number of tasks.

    ``draw`` (per task, from 0 to 1) chooses among machines that are equally good by transfer; 0: the first.
    ``rank`` is the order of tasks that become ready at one moment.
    """
    tasks, modes, machines = problem.tasks, problem.modes, problem.machines
    reset_schedule(problem, lines, arrivals, board)
    size = 0
    for task in range(tasks.number):
        agenda.left[task] = 0 + tasks.pointer[task + 1] - tasks.pointer[task]
        agenda.ready[task] = tasks.earliest[task]
        if agenda.left[task] == 0:
            push_task(agenda.heap, size, task, agenda.ready, rank)
            size += 1
    while size > 0:
        task = pop_task(agenda.heap, size, agenda.ready, rank)
        size -= 1
        settle_transfers(tasks, machines, arrivals, board, task)
        variable = tasks.variable[task]
        binds = by_transfer != 0 and board.bound[variable] == machines.number
        if tasks.kind[task] == COMPUTE:
            if binds:
                gather_all_data(tasks, machines, arrivals, board, task)
                board.bound[variable] = _first_data(tasks, modes, machines, arrivals, task, draw[task])
            mode, start = evaluate_task(tasks, modes, machines, lines, arrivals, board, rule, task)
            if start == _INFINITE:
                return task
            commit_task(tasks, modes, machines, lines, arrivals, board, task, mode, start)
        else:
            source = tasks.source[task]
            if binds and tasks.kind[task] == TRANSFER and board.bound[source] < machines.number:
                board.bound[variable] = _least_moving(tasks, machines, board, task, draw[task])
            place_without_nodes(tasks, machines, arrivals, board, task)
        size = _release(tasks, board, agenda, size, task, rank)
    return tasks.number


@kernel
def _release(
    tasks: TaskArrays, board: PartialSchedule, agenda: PendingTasks, size: int, task: int, rank: Indices
) -> int:
    """Tell the successors of a task that it has ended; give how many tasks are ready now."""
    done = board.finish[task]
    if done != done:  # a transfer that waits for its destination: it can leave now
        done = agenda.ready[task]
    for position in range(tasks.after_pointer[task], tasks.after_pointer[task + 1]):
        other = tasks.after[position]
        if done > agenda.ready[other]:
            agenda.ready[other] = done
        agenda.left[other] -= 1
        if agenda.left[other] == 0:
            push_task(agenda.heap, size, other, agenda.ready, rank)
            size += 1
    return size


@kernel
def _first_data(
    tasks: TaskArrays, modes: ModeArrays, machines: MachineArrays, arrivals: Arrivals, task: int, draw: float
) -> int:
    """Give the candidate on which all data are first, then the task is shortest, then the one drawn."""
    found = tasks.candidate_set[tasks.variable[task]]
    first, end = tasks.candidate_pointer[found], tasks.candidate_pointer[found + 1]
    best = _INFINITE
    least = _INFINITE
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
    """Give the least seconds of a task on a machine."""
    low, high = find_modes(modes, task, machine)
    least = _INFINITE
    for mode in range(low, high):
        spent = mode_seconds(modes, task, mode)
        if spent < least:
            least = spent
    return least


@kernel
def _least_moving(
    tasks: TaskArrays, machines: MachineArrays, board: PartialSchedule, transfer: int, draw: float
) -> int:
    """Give the candidate to which a transfer takes least, then the one drawn."""
    found = tasks.candidate_set[tasks.variable[transfer]]
    first, end = tasks.candidate_pointer[found], tasks.candidate_pointer[found + 1]
    source = board.bound[tasks.source[transfer]]
    best = _INFINITE
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
