"""List scheduling by selection: among all ready tasks, place the one that a rule prefers."""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.compilation import inlined_kernel, kernel
from weft.kernels.placement import (
    APPENDED,
    START,
    PartialSchedule,
    PlacementRule,
    PlacementState,
    Workspace,
    begin_placement,
    commit_task,
    evaluate_task,
    gather_all_data,
    place_without_nodes,
    possible_modes,
    settle_transfers,
    start_of_mode,
)
from weft.kernels.priorities import pop_task, push_task
from weft.kernels.problem import (
    CLASSES,
    COMPUTE,
    INFINITY,
    OPEN,
    RELATED,
    SHARED,
    SINGLE,
    Doubles,
    Indices,
    Integers,
    MachineArrays,
    ProblemArrays,
    TaskArrays,
)
from weft.kernels.timelines import Timelines

AVAILABILITY = 2
"""A criterion besides FINISH and START: the time at which the data exist anywhere and the machine is free."""


@kernel
def _data_made_s(tasks: TaskArrays, schedule: PartialSchedule, task: int) -> float:
    """Return the time when all data of a task exist, on any machine; at least its earliest start."""
    made = tasks.earliest[task]
    for edge in range(tasks.pointer[task], tasks.pointer[task + 1]):
        before = tasks.before[edge]
        done = schedule.finish[before]
        if done != done:  # a transfer whose destination is not bound yet
            done = schedule.departure[before]
        if done > made:
            made = done
    return made


@inlined_kernel
def _find_two_best(
    state: PlacementState, criterion: int, place: int, task: int, made: float
) -> tuple[int, float, float, int, float]:
    """Return mode, start and value on the best machine of a task, and the second-best machine with its value.

    ``made`` is the time when all data of the task exist on some machine. If no mode fits, start and value are
    infinity. Ties: earlier finish, then smaller count, then lower machine index.
    """
    _, modes, machines, timelines, arrivals, _ = state
    low, high = possible_modes(state, task)
    layout, on, count = modes.layout, modes.machine, modes.count
    rate, gain, cell, work = modes.rate, modes.gain, modes.cell, modes.work[task]
    cells = modes.row[task] - modes.first[modes.group[task]]
    location, host_of, form, free_from = machines.location, machines.host, machines.form, timelines.free_from
    latest, second, sender = arrivals.latest, arrivals.second, arrivals.sender
    is_home, at_home, turn = arrivals.is_home, arrivals.at_home, arrivals.turn[0]
    chosen, other = high, machines.number
    start_there = value_there = finish_there = next_value = INFINITY
    for mode in range(low, high):
        machine = on[mode]
        # Compute the arrival as ``arrivals.data_ready_s`` does.
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
            start, moment = _earliest_starts(state, place, task, mode, spent, ready, made)
        finish = start + spent
        if finish == INFINITY:
            continue
        value = finish
        if criterion == START:
            value = start
        elif criterion == AVAILABILITY:
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
def _earliest_starts(
    state: PlacementState, place: int, task: int, mode: int, spent: float, ready: float, made: float
) -> tuple[float, float]:
    """Return the earliest start of a mode, and its earliest start if transfers took no time."""
    start = start_of_mode(state, place, task, mode, ready, spent, INFINITY)
    moment = start_of_mode(state, place, task, mode, made, spent, INFINITY)
    return start, moment


LEAST, MOST, SUFFERAGE = 0, 1, 2
"""Values of ``SelectionRule.sense``: the first task is the one with the least value, with the largest value,
or with the largest loss on its second-best machine.
"""


class SelectionRule(NamedTuple):
    """How a planner selects the next task."""

    criterion: int
    """FINISH, START or AVAILABILITY: which time, on its best machine, is the value of a task."""
    sense: int
    """LEAST, MOST or SUFFERAGE: which value or loss is selected first."""
    offset: Doubles
    """Per task: number subtracted from its value (LEAST only)."""
    rank: Indices
    """Per task: the lower rank wins a tie."""
    following: Indices
    """Per task: the next identical task by rank; the number of tasks if there is none."""
    paced: int
    """Whether tasks whose value is not later than the *pace* count as equal (LEAST only).

    The pace is the time from which some machine always has a free node.
    """


class SelectionQueue(NamedTuple):
    """The ready tasks and the cached best mode of each."""

    left: Integers
    """Per task: number of predecessors that are not placed yet."""
    queue: Indices
    """Tasks in the order in which they became ready."""
    heap: Indices
    """Ready compute tasks; they form a heap if the sense is LEAST, otherwise they are not ordered."""
    due: Indices
    equal: Doubles
    """``due`` is a heap, by rank, of the tasks that count as equal (``SelectionRule.paced``). ``equal`` holds
    their keys, which are all 0.
    """
    value: Doubles
    """Per task: its sort key; the task with the least key is placed first."""
    mode: Indices
    start: Doubles
    """Per task: its cached ``mode`` and ``start``."""
    other: Indices
    """Per task: its second-best machine; the number of machines if there is none or it is not needed."""
    seen: Integers
    seen_other: Integers
    """Per task: ``seen`` and ``seen_other`` are the values that ``taken`` of its best and of its second-best
    machine had when the task was evaluated.
    """
    seen_bound: Indices
    """Per task: the machine of its binding variable when the task was evaluated."""
    taken: Integers
    """Per machine: number of tasks placed on it."""


@kernel
def place_by_selection(
    problem: ProblemArrays,
    rule: PlacementRule,
    selection: SelectionRule,
    ready: SelectionQueue,
    workspace: Workspace,
) -> int:
    """Place the preferred ready task until none is left; return a task that fits nowhere, or the task count.

    A task is ready when all its predecessors are placed. Its best mode is computed once and cached. Later
    placements only delay other tasks, so a cached value is a lower bound and stays exact until the machine of
    the task is taken again or its variable is bound. Rules that look for the *least* value keep ready tasks
    in a heap by cached value and re-evaluate only the first task, O(log n) and few evaluations per task.
    Rules that look for the *largest* value check every ready task, O(n) per task.

    If starts are compared, all ready tasks tie as soon as a machine is free. No task can start before the
    time from which some machine stays free (the pace), so tasks whose value is not later than the pace are
    moved to a second heap, ordered by rank alone. Tasks that are identical (points of a sweep) are released
    one after another: only the first of them competes.

    ``rule`` determines whether gaps are used, and the tolerance with which a selected moldable task takes
    fewer nodes.
    """
    tasks, modes, machines = problem.tasks, problem.modes, problem.machines
    state = begin_placement(problem, workspace)
    head, tail, size, due, looked_at = 0, _reset_ready(tasks, machines, selection, ready), 0, 0, 0
    queue, heap, value, rank = ready.queue, ready.heap, ready.value, selection.rank
    pace = 0.0
    while head < tail or size + due > 0:
        # Choose the next task to evaluate or to place.
        new = head < tail
        if new:
            task = queue[head]
            head += 1
            settle_transfers(state, task)
            if tasks.kind[task] != COMPUTE:
                place_without_nodes(state, task)
                tail = _release(tasks, selection, ready, task, tail)
                continue
            known = False
        elif selection.paced != 0 and size > 0 and value[heap[0]] <= pace:
            push_task(ready.due, due, pop_task(heap, size, value, rank), ready.equal, rank)
            size -= 1
            due += 1
            continue
        elif selection.sense == LEAST:
            if due > 0:
                task = pop_task(ready.due, due, ready.equal, rank)
                due -= 1
            else:
                task = pop_task(heap, size, value, rank)
                size -= 1
            known = _is_current(state, ready, task)
        elif looked_at < size:
            task = heap[looked_at]
            looked_at += 1
            if _is_current(state, ready, task):
                continue
            known = False
        else:
            place = _find_least(heap, size, value, rank)
            task = heap[place]
            size -= 1
            looked_at = 0
            heap[place] = heap[size]
            known = True

        if not known:
            _evaluate_ready(state, rule, selection, ready, task)
            if selection.sense == LEAST:
                push_task(heap, size, task, value, rank)
                size += 1
            elif new:
                heap[size] = task
                size += 1
            continue
        mode = 0 + ready.mode[task]
        start = ready.start[task]
        if start == INFINITY:
            return task
        if rule.factor > 1.0 and modes.moldable[modes.group[task]] != 0:
            mode, start = evaluate_task(state, rule, task)
        commit_task(state, task, mode, start)
        ready.taken[modes.machine[mode]] += 1
        tail = _release(tasks, selection, ready, task, tail)
        if selection.paced != 0:
            pace = _first_free(machines, workspace.timelines)
    return tasks.number


@inlined_kernel
def _reset_ready(
    tasks: TaskArrays, machines: MachineArrays, selection: SelectionRule, ready: SelectionQueue
) -> int:
    """Fill the queue with the tasks that have no predecessors; return its length."""
    for task in range(tasks.number):
        ready.left[task] = 0 + tasks.pointer[task + 1] - tasks.pointer[task]
    for task in range(tasks.number):
        if selection.following[task] < tasks.number:
            ready.left[selection.following[task]] += 1
    tail = 0
    for task in range(tasks.number):
        if ready.left[task] == 0:
            ready.queue[tail] = task
            tail += 1
    for machine in range(machines.number):
        ready.taken[machine] = 0
    return tail


@inlined_kernel
def _release(tasks: TaskArrays, selection: SelectionRule, ready: SelectionQueue, task: int, tail: int) -> int:
    """Append to the queue the tasks that become ready when ``task`` is placed; return the queue's length."""
    for edge in range(tasks.after_pointer[task], tasks.after_pointer[task + 1]):
        following = tasks.after[edge]
        ready.left[following] -= 1
        if ready.left[following] == 0:
            ready.queue[tail] = following
            tail += 1
    alike = selection.following[task]
    if alike < tasks.number:
        # The next identical task has the same predecessors, so it is ready, too.
        ready.queue[tail] = alike
        tail += 1
    return tail


@inlined_kernel
def _first_free(machines: MachineArrays, timelines: Timelines) -> float:
    """Return the time from which some machine always has a free node."""
    first = INFINITY
    for machine in range(machines.number):
        free = 0.0
        if machines.form[machine] == SINGLE:
            free = timelines.free_from[machine]
        elif machines.form[machine] == SHARED:
            step = timelines.last_step[machine]
            while step != timelines.no_step and timelines.step_nodes[step] > 0:
                free = timelines.step_time[step]
                step = timelines.step_before[step]
        if free < first:
            first = free
    return first


@kernel
def _find_least(some: Indices, size: int, value: Doubles, rank: Indices) -> int:
    """Return the position in ``some`` of the task with the least value, then lowest rank."""
    best = 0
    for place in range(1, size):
        task, other = some[place], some[best]
        if value[task] < value[other] or (value[task] == value[other] and rank[task] < rank[other]):
            best = place
    return best


@inlined_kernel
def _is_current(state: PlacementState, ready: SelectionQueue, task: int) -> bool:
    """Return whether the cached mode of a task is still exact."""
    tasks, modes, machines, _, _, schedule = state
    if ready.taken[modes.machine[ready.mode[task]]] != ready.seen[task]:
        return False
    other = ready.other[task]
    if other < machines.number and ready.taken[other] != ready.seen_other[task]:
        return False
    return bool(schedule.bound[tasks.variable[task]] == ready.seen_bound[task])


@inlined_kernel
def _evaluate_ready(
    state: PlacementState, rule: PlacementRule, selection: SelectionRule, ready: SelectionQueue, task: int
) -> None:
    """Compute and cache the best mode of a task; the cached start is infinity if it fits nowhere."""
    tasks, modes, machines, _, _, schedule = state
    gather_all_data(state, task)
    bound = schedule.bound[tasks.variable[task]]
    made = 0.0
    if selection.criterion == AVAILABILITY:
        made = _data_made_s(tasks, schedule, task)
    mode, start, value, other, next_value = _find_two_best(state, selection.criterion, rule.place, task, made)
    if start < INFINITY:
        ready.mode[task] = mode
    ready.start[task] = start
    ready.seen[task] = ready.taken[modes.machine[ready.mode[task]]]
    ready.seen_bound[task] = bound
    ready.other[task] = machines.number
    if start == INFINITY:
        ready.value[task] = INFINITY
    elif selection.sense == LEAST:
        ready.value[task] = value - selection.offset[task]
    elif selection.sense == MOST:
        ready.value[task] = -value
    else:
        # Without a second-best machine the loss is infinite and the value minus infinity.
        ready.value[task] = value - next_value
        ready.other[task] = other
        if other < machines.number:
            ready.seen_other[task] = ready.taken[other]
