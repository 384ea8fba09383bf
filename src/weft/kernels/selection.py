"""Best machines: where a task would start, end or be let in first, and where next.

Every mode is looked at. Tasks stand behind all others of a machine, or go into gaps.

Selection: of all tasks that are ready, place the one that a rule prefers, where it prefers to be.

A task is ready when all its predecessors have a place. What it would get is found once and remembered: a
place that others take makes machines only later, so the memory holds until its own machine is taken or its
variable is bound. Rules that look for the *least* value keep the ready tasks in a heap by what they remember,
which is never too large; so only what comes first in the heap is looked at again (O(log n) and a few looks
per task). Rules that look for the *most* must look at every ready task (O(n) per task).

Where starts are compared, all that is ready ties as soon as a machine is free. Then the pace of the machines
helps: nothing starts before the first of them is free, so that tasks which could have started by then are due
and only their ranks differ; no more than the first of them needs to be looked at again. Tasks that are like
each other in everything (the points of many sweeps) come one after another: only the first of them competes.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.arrivals import Arrivals
from weft.kernels.compilation import kernel
from weft.kernels.placement import (
    APPENDED,
    START,
    PartialSchedule,
    PlacementRule,
    commit_task,
    evaluate_task,
    find_modes,
    gather_all_data,
    place_without_nodes,
    reset_schedule,
    settle_transfers,
)
from weft.kernels.priorities import pop_task, push_task
from weft.kernels.problem import (
    CLASSES,
    COMPUTE,
    OPEN,
    RELATED,
    SHARED,
    SINGLE,
    Doubles,
    Indices,
    Integers,
    MachineArrays,
    ModeArrays,
    ProblemArrays,
    TaskArrays,
)
from weft.kernels.timelines import Timelines, earliest_append, earliest_start

__all__ = [
    "AVAILABILITY",
    "LEAST",
    "MOST",
    "SUFFERAGE",
    "SelectionQueue",
    "SelectionRule",
    "data_made_s",
    "find_two_best",
    "place_by_selection",
]


AVAILABILITY = 2
"""A criterion beside FINISH and START: when data are made, wherever they lie, and a machine is free."""
_INFINITE = float("inf")


@kernel
def data_made_s(tasks: TaskArrays, board: PartialSchedule, task: int) -> float:
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
def find_two_best(
    tasks: TaskArrays,
    modes: ModeArrays,
    machines: MachineArrays,
    lines: Timelines,
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
        low, high = find_modes(modes, task, bound)
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
def _room(
    tasks: TaskArrays,
    modes: ModeArrays,
    machines: MachineArrays,
    lines: Timelines,
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
        start = earliest_append(machines, lines, machine, ready, spent, nodes, need, tasks.amount)
        moment = earliest_append(machines, lines, machine, made, spent, nodes, need, tasks.amount)
    else:
        start = earliest_start(machines, lines, machine, ready, spent, nodes, need, tasks.amount)
        moment = earliest_start(machines, lines, machine, made, spent, nodes, need, tasks.amount)
    return start, moment


LEAST, MOST, SUFFERAGE = 0, 1, 2
"""``Wish.sense``: the least value first; the largest; who would lose most on the next best machine."""
_NEVER = float("inf")


class SelectionRule(NamedTuple):
    """What a planner prefers."""

    criterion: int
    """FINISH, START or MOMENT: the least of it decides on the machine, and is the value of the task."""
    sense: int
    """LEAST, MOST or SUFFERAGE: the task."""
    offset: Doubles
    """Per task: what is taken off its value; with LEAST only."""
    rank: Indices
    """Per task: ties go to the lower one."""
    following: Indices
    """Per task: the next by rank of those that are like it in everything; the number of tasks: none."""
    paced: int
    """Whether no value is ever below the moment a node of some machine is free for good; with LEAST only."""


class SelectionQueue(NamedTuple):
    """The ready tasks and what each would get."""

    left: Integers
    """Per task: for how many others it waits."""
    queue: Indices
    """Tasks in the order in which they became ready."""
    heap: Indices
    """Ready compute tasks: a heap with LEAST, else in no order."""
    due: Indices
    equal: Doubles
    """A heap of those that may be first, by rank alone: their values count as equal, all 0."""
    value: Doubles
    """Per task: the least is placed first."""
    mode: Indices
    start: Doubles
    """Per task: what it would get."""
    other: Indices
    """Per task: its next best machine; the number of machines: none, or nobody asks."""
    seen: Integers
    seen_other: Integers
    """Per task: how often its machine, and the next best, were taken when it was looked at."""
    seen_bound: Indices
    """Per task: the machine of its variable when it was looked at."""
    taken: Integers
    """Per machine: how often it was taken."""


@kernel
def place_by_selection(
    problem: ProblemArrays,
    rule: PlacementRule,
    wish: SelectionRule,
    ready: SelectionQueue,
    lines: Timelines,
    arrivals: Arrivals,
    board: PartialSchedule,
) -> int:
    """Place all tasks; give the task that fits nowhere, or the number of tasks.

    ``rule`` says whether gaps are used, and how many nodes a moldable task gives up once it is selected.
    """
    tasks, modes, machines = problem.tasks, problem.modes, problem.machines
    reset_schedule(problem, lines, arrivals, board)
    head, tail, size, due, looked_at = 0, _reset_ready(tasks, machines, wish, ready), 0, 0, 0
    queue, heap, value, rank = ready.queue, ready.heap, ready.value, wish.rank
    pace = 0.0
    while head < tail or size + due > 0:
        # Who is next: to be looked at, or to be placed?
        new = head < tail
        if new:
            task = queue[head]
            head += 1
            settle_transfers(tasks, machines, arrivals, board, task)
            if tasks.kind[task] != COMPUTE:
                place_without_nodes(tasks, machines, arrivals, board, task)
                tail = _release(tasks, wish, ready, task, tail)
                continue
            known = False
        elif wish.paced != 0 and size > 0 and value[heap[0]] <= pace:
            push_task(ready.due, due, pop_task(heap, size, value, rank), ready.equal, rank)
            size -= 1
            due += 1
            continue
        elif wish.sense == LEAST:
            if due > 0:
                task = pop_task(ready.due, due, ready.equal, rank)
                due -= 1
            else:
                task = pop_task(heap, size, value, rank)
                size -= 1
            known = _is_current(tasks, modes, machines, board, ready, task)
        elif looked_at < size:
            task = heap[looked_at]
            looked_at += 1
            if _is_current(tasks, modes, machines, board, ready, task):
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
            _evaluate_ready(tasks, modes, machines, lines, arrivals, board, rule, wish, ready, task)
            if wish.sense == LEAST:
                push_task(heap, size, task, value, rank)
                size += 1
            elif new:
                heap[size] = task
                size += 1
            continue
        mode = 0 + ready.mode[task]
        start = ready.start[task]
        if start == _NEVER:
            return task
        if rule.factor > 1.0 and modes.moldable[modes.group[task]] != 0:
            mode, start = evaluate_task(tasks, modes, machines, lines, arrivals, board, rule, task)
        commit_task(tasks, modes, machines, lines, arrivals, board, task, mode, start)
        ready.taken[modes.machine[mode]] += 1
        tail = _release(tasks, wish, ready, task, tail)
        if wish.paced != 0:
            pace = _first_free(machines, lines)
    return tasks.number


@kernel
def _reset_ready(
    tasks: TaskArrays, machines: MachineArrays, wish: SelectionRule, ready: SelectionQueue
) -> int:
    """Begin with the tasks that wait for nobody in the queue; give its end."""
    for task in range(tasks.number):
        ready.left[task] = 0 + tasks.pointer[task + 1] - tasks.pointer[task]
    for task in range(tasks.number):
        if wish.following[task] < tasks.number:
            ready.left[wish.following[task]] += 1
    tail = 0
    for task in range(tasks.number):
        if ready.left[task] == 0:
            ready.queue[tail] = task
            tail += 1
    for machine in range(machines.number):
        ready.taken[machine] = 0
    return tail


@kernel
def _release(tasks: TaskArrays, wish: SelectionRule, ready: SelectionQueue, task: int, tail: int) -> int:
    """Put the tasks into the queue that waited for this one only; give its end."""
    for edge in range(tasks.after_pointer[task], tasks.after_pointer[task + 1]):
        following = tasks.after[edge]
        ready.left[following] -= 1
        if ready.left[following] == 0:
            ready.queue[tail] = following
            tail += 1
    alike = wish.following[task]
    if alike < tasks.number:
        # It has the same predecessors, so it is ready as well.
        ready.queue[tail] = alike
        tail += 1
    return tail


@kernel
def _first_free(machines: MachineArrays, lines: Timelines) -> float:
    """Give from when on a node of some machine is free for good."""
    first = _NEVER
    for machine in range(machines.number):
        free = 0.0
        if machines.form[machine] == SINGLE:
            free = lines.free_from[machine]
        elif machines.form[machine] == SHARED:
            step = lines.last_step[machine]
            while step != lines.no_step and lines.step_nodes[step] > 0:
                free = lines.step_time[step]
                step = lines.step_before[step]
        if free < first:
            first = free
    return first


@kernel
def _find_least(some: Indices, size: int, value: Doubles, rank: Indices) -> int:
    """Give the place of the task of least value among some."""
    best = 0
    for place in range(1, size):
        task, other = some[place], some[best]
        if value[task] < value[other] or (value[task] == value[other] and rank[task] < rank[other]):
            best = place
    return best


@kernel
def _is_current(
    tasks: TaskArrays,
    modes: ModeArrays,
    machines: MachineArrays,
    board: PartialSchedule,
    ready: SelectionQueue,
    task: int,
) -> bool:
    """Say whether what is remembered of a task still holds."""
    if ready.taken[modes.machine[ready.mode[task]]] != ready.seen[task]:
        return False
    other = ready.other[task]
    if other < machines.number and ready.taken[other] != ready.seen_other[task]:
        return False
    return bool(board.bound[tasks.variable[task]] == ready.seen_bound[task])


@kernel
def _evaluate_ready(
    tasks: TaskArrays,
    modes: ModeArrays,
    machines: MachineArrays,
    lines: Timelines,
    arrivals: Arrivals,
    board: PartialSchedule,
    rule: PlacementRule,
    wish: SelectionRule,
    ready: SelectionQueue,
    task: int,
) -> None:
    """Find out what a task would get now, and remember it: nothing (it starts never) if it fits nowhere."""
    gather_all_data(tasks, machines, arrivals, board, task)
    bound = board.bound[tasks.variable[task]]
    made = 0.0
    if wish.criterion == AVAILABILITY:
        made = data_made_s(tasks, board, task)
    mode, start, value, other, next_value = find_two_best(
        tasks, modes, machines, lines, arrivals, wish.criterion, rule.place, task, bound, made
    )
    if start < _NEVER:
        ready.mode[task] = mode
    ready.start[task] = start
    ready.seen[task] = ready.taken[modes.machine[ready.mode[task]]]
    ready.seen_bound[task] = bound
    ready.other[task] = machines.number
    if start == _NEVER:
        ready.value[task] = _NEVER
    elif wish.sense == LEAST:
        ready.value[task] = value - wish.offset[task]
    elif wish.sense == MOST:
        ready.value[task] = -value
    else:
        # Without a next best machine it would lose everything: the value is minus infinity.
        ready.value[task] = value - next_value
        ready.other[task] = other
        if other < machines.number:
            ready.seen_other[task] = ready.taken[other]
