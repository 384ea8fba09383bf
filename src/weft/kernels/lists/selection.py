"""Selection: of all tasks that are ready, place the one that a rule prefers, where it prefers to be.

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
from weft.kernels.choices import Rule
from weft.kernels.forms import kernel
from weft.kernels.lists.best_machines import MOMENT, made_at, two_best
from weft.kernels.lists.heaps import pop, push
from weft.kernels.placement import Board, begin, commit, evaluate, gather_all, place_freely, settle_before
from weft.kernels.problem import COMPUTE, SHARED, SINGLE, Machines, Modes, Problem, Tasks
from weft.kernels.timelines import Lines
from weft.kernels.types import Doubles, Indices, Integers

__all__ = ["LEAST", "MOST", "SUFFERAGE", "Ready", "Wish", "select"]

LEAST, MOST, SUFFERAGE = 0, 1, 2
"""``Wish.sense``: the least value first; the largest; who would lose most on the next best machine."""
_INFINITE = float("inf")


class Wish(NamedTuple):
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


class Ready(NamedTuple):
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
def select(
    problem: Problem, rule: Rule, wish: Wish, ready: Ready, lines: Lines, arrivals: Arrivals, board: Board
) -> int:
    """Place all tasks; give the task that fits nowhere, or the number of tasks.

    ``rule`` says whether gaps are used, and how many nodes a moldable task gives up once it is selected.
    """
    tasks, modes, machines = problem.tasks, problem.modes, problem.machines
    begin(problem, lines, arrivals, board)
    head, tail, size, due, looked_at = 0, _begin_ready(tasks, machines, wish, ready), 0, 0, 0
    queue, heap, value, rank = ready.queue, ready.heap, ready.value, wish.rank
    pace = 0.0
    while head < tail or size + due > 0:
        # Who is next: to be looked at, or to be placed?
        new = head < tail
        if new:
            task = queue[head]
            head += 1
            settle_before(tasks, machines, arrivals, board, task)
            if tasks.kind[task] != COMPUTE:
                place_freely(tasks, machines, arrivals, board, task)
                tail = _release(tasks, wish, ready, task, tail)
                continue
            known = False
        elif wish.paced != 0 and size > 0 and value[heap[0]] <= pace:
            push(ready.due, due, pop(heap, size, value, rank), ready.equal, rank)
            size -= 1
            due += 1
            continue
        elif wish.sense == LEAST:
            if due > 0:
                task = pop(ready.due, due, ready.equal, rank)
                due -= 1
            else:
                task = pop(heap, size, value, rank)
                size -= 1
            known = _is_known(tasks, modes, machines, board, ready, task)
        elif looked_at < size:
            task = heap[looked_at]
            looked_at += 1
            if _is_known(tasks, modes, machines, board, ready, task):
                continue
            known = False
        else:
            place = _least_of_all(heap, size, value, rank)
            task = heap[place]
            size -= 1
            looked_at = 0
            heap[place] = heap[size]
            known = True

        if not known:
            _look(tasks, modes, machines, lines, arrivals, board, rule, wish, ready, task)
            if wish.sense == LEAST:
                push(heap, size, task, value, rank)
                size += 1
            elif new:
                heap[size] = task
                size += 1
            continue
        mode = 0 + ready.mode[task]
        start = ready.start[task]
        if start == _INFINITE:
            return task
        if rule.factor > 1.0 and modes.moldable[modes.group[task]] != 0:
            mode, start = evaluate(tasks, modes, machines, lines, arrivals, board, rule, task)
        commit(tasks, modes, machines, lines, arrivals, board, task, mode, start)
        ready.taken[modes.machine[mode]] += 1
        tail = _release(tasks, wish, ready, task, tail)
        if wish.paced != 0:
            pace = _first_free(machines, lines)
    return tasks.number


@kernel
def _begin_ready(tasks: Tasks, machines: Machines, wish: Wish, ready: Ready) -> int:
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
def _release(tasks: Tasks, wish: Wish, ready: Ready, task: int, tail: int) -> int:
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
def _first_free(machines: Machines, lines: Lines) -> float:
    """Give from when on a node of some machine is free for good."""
    first = _INFINITE
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
def _least_of_all(some: Indices, size: int, value: Doubles, rank: Indices) -> int:
    """Give the place of the task of least value among some."""
    best = 0
    for place in range(1, size):
        task, other = some[place], some[best]
        if value[task] < value[other] or (value[task] == value[other] and rank[task] < rank[other]):
            best = place
    return best


@kernel
def _is_known(tasks: Tasks, modes: Modes, machines: Machines, board: Board, ready: Ready, task: int) -> bool:
    """Say whether what is remembered of a task still holds."""
    if ready.taken[modes.machine[ready.mode[task]]] != ready.seen[task]:
        return False
    other = ready.other[task]
    if other < machines.number and ready.taken[other] != ready.seen_other[task]:
        return False
    return bool(board.bound[tasks.variable[task]] == ready.seen_bound[task])


@kernel
def _look(
    tasks: Tasks,
    modes: Modes,
    machines: Machines,
    lines: Lines,
    arrivals: Arrivals,
    board: Board,
    rule: Rule,
    wish: Wish,
    ready: Ready,
    task: int,
) -> None:
    """Find out what a task would get now, and remember it: nothing (it starts never) if it fits nowhere."""
    gather_all(tasks, machines, arrivals, board, task)
    bound = board.bound[tasks.variable[task]]
    made = 0.0
    if wish.criterion == MOMENT:
        made = made_at(tasks, board, task)
    mode, start, value, other, next_value = two_best(
        tasks, modes, machines, lines, arrivals, wish.criterion, rule.place, task, bound, made
    )
    if start < _INFINITE:
        ready.mode[task] = mode
    ready.start[task] = start
    ready.seen[task] = ready.taken[modes.machine[ready.mode[task]]]
    ready.seen_bound[task] = bound
    ready.other[task] = machines.number
    if start == _INFINITE:
        ready.value[task] = _INFINITE
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
