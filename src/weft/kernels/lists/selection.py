"""Selection: of all tasks that are ready, place the one that a rule prefers, where it prefers to be.

A task is ready when all its predecessors have a place. What it would get is found once and remembered: a
place that others take makes machines only later, so the memory holds until its own machine is taken or its
variable is bound. Rules that look for the *least* value keep the ready tasks in a heap by what they remember,
which is never too large; so only what comes first in the heap is looked at again (O(log n) and a few looks
per task). Rules that look for the *most* must look at every ready task (O(n) per task).
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.arrivals import Arrivals
from weft.kernels.choices import APPENDED, START, Rule, modes_on
from weft.kernels.forms import kernel
from weft.kernels.lists.heaps import pop, push
from weft.kernels.placement import (
    Board,
    begin,
    commit,
    evaluate,
    gather_all,
    place_freely,
    settle_before,
)
from weft.kernels.problem import (
    CLASSES,
    COMPUTE,
    OPEN,
    RELATED,
    SINGLE,
    Machines,
    Modes,
    Problem,
    Tasks,
)
from weft.kernels.timelines import Lines, after_all, earliest
from weft.kernels.types import Doubles, Indices, Integers

__all__ = ["LEAST", "MOMENT", "MOST", "SUFFERAGE", "Ready", "Wish", "select"]

MOMENT = 2
"""``Wish.criterion``, beside FINISH and START: when data are made, wherever, and a machine is free."""
LEAST, MOST, SUFFERAGE = 0, 1, 2
"""``Wish.sense``: the least value first; the largest; who would lose most on the next best machine."""
_INFINITE = float("inf")
_HEAD, _TAIL, _SIZE = 0, 1, 2
"""Positions in ``Ready.number``: of the queue its first and its end, of the heap its size."""


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


class Ready(NamedTuple):
    """The ready tasks and what each would get."""

    number: Integers
    left: Integers
    """Per task: predecessors without a place."""
    queue: Indices
    """Tasks in the order in which they became ready."""
    heap: Indices
    """Ready compute tasks: a heap with LEAST, else in no order."""
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
    _begin_ready(tasks, machines, ready)
    while True:
        _admit(tasks, modes, machines, lines, arrivals, board, rule, wish, ready)
        if ready.number[_SIZE] == 0:
            return tasks.number
        if wish.sense == LEAST:
            task = _first_of_heap(tasks, modes, machines, lines, arrivals, board, rule, wish, ready)
        else:
            task = _first_of_all(tasks, modes, machines, lines, arrivals, board, rule, wish, ready)
        mode = 0 + ready.mode[task]
        start = ready.start[task]
        if start == _INFINITE:
            return task
        if rule.factor > 1.0 and modes.moldable[modes.group[task]] != 0:
            mode, start = evaluate(tasks, modes, machines, lines, arrivals, board, rule, task)
        commit(tasks, modes, machines, lines, arrivals, board, task, mode, start)
        ready.taken[modes.machine[mode]] += 1
        _release(tasks, ready, task)


@kernel
def _begin_ready(tasks: Tasks, machines: Machines, ready: Ready) -> None:
    ready.number[_HEAD] = 0
    ready.number[_SIZE] = 0
    tail = 0
    for task in range(tasks.number):
        before = 0 + tasks.pointer[task + 1] - tasks.pointer[task]
        ready.left[task] = before
        if before == 0:
            ready.queue[tail] = task
            tail += 1
    ready.number[_TAIL] = tail
    for machine in range(machines.number):
        ready.taken[machine] = 0


@kernel
def _release(tasks: Tasks, ready: Ready, task: int) -> None:
    """Put the tasks into the queue that waited for this one only."""
    for edge in range(tasks.after_pointer[task], tasks.after_pointer[task + 1]):
        following = tasks.after[edge]
        ready.left[following] -= 1
        if ready.left[following] == 0:
            ready.queue[ready.number[_TAIL]] = following
            ready.number[_TAIL] += 1


@kernel
def _admit(
    tasks: Tasks,
    modes: Modes,
    machines: Machines,
    lines: Lines,
    arrivals: Arrivals,
    board: Board,
    rule: Rule,
    wish: Wish,
    ready: Ready,
) -> None:
    """Place what is in the queue and occupies nothing, look at the rest."""
    while ready.number[_HEAD] < ready.number[_TAIL]:
        task = ready.queue[ready.number[_HEAD]]
        ready.number[_HEAD] += 1
        settle_before(tasks, machines, arrivals, board, task)
        if tasks.kind[task] != COMPUTE:
            place_freely(tasks, machines, arrivals, board, task)
            _release(tasks, ready, task)
            continue
        _look(tasks, modes, machines, lines, arrivals, board, rule, wish, ready, task)
        if wish.sense == LEAST:
            push(ready.heap, ready.number[_SIZE], task, ready.value, wish.rank)
        else:
            ready.heap[ready.number[_SIZE]] = task
        ready.number[_SIZE] += 1


@kernel
def _first_of_heap(
    tasks: Tasks,
    modes: Modes,
    machines: Machines,
    lines: Lines,
    arrivals: Arrivals,
    board: Board,
    rule: Rule,
    wish: Wish,
    ready: Ready,
) -> int:
    """Take the task of least value out: the first that is still first after it was looked at again."""
    heap, value, rank = ready.heap, ready.value, wish.rank
    while True:
        task = pop(heap, ready.number[_SIZE], value, rank)
        if _is_known(tasks, modes, machines, board, ready, task):
            ready.number[_SIZE] -= 1
            return task
        _look(tasks, modes, machines, lines, arrivals, board, rule, wish, ready, task)
        push(heap, ready.number[_SIZE] - 1, task, value, rank)


@kernel
def _first_of_all(
    tasks: Tasks,
    modes: Modes,
    machines: Machines,
    lines: Lines,
    arrivals: Arrivals,
    board: Board,
    rule: Rule,
    wish: Wish,
    ready: Ready,
) -> int:
    """Take the task of least value out, by looking at every one."""
    heap, value, rank = ready.heap, ready.value, wish.rank
    size = ready.number[_SIZE]
    found = 0
    for place in range(size):
        task = heap[place]
        if not _is_known(tasks, modes, machines, board, ready, task):
            _look(tasks, modes, machines, lines, arrivals, board, rule, wish, ready, task)
        best = heap[found]
        if value[task] < value[best] or (value[task] == value[best] and rank[task] < rank[best]):
            found = place
    chosen = heap[found]
    heap[found] = heap[size - 1]
    ready.number[_SIZE] = size - 1
    return chosen


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
        made = _made(tasks, board, task)
    mode, start, value, other, next_value = _two_best(
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


@kernel
def _made(tasks: Tasks, board: Board, task: int) -> float:
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
def _two_best(
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
        start = ready
        moment = made
        if spent != 0.0 and form[machine] != OPEN:
            need = 0 + tasks.need[task] + modes.shift[mode]
            if place == APPENDED:
                free = free_from[machine]
                if form[machine] != SINGLE:
                    free = after_all(
                        machines, lines, machine, 0.0, spent, modes.nodes[mode], need, tasks.amount
                    )
                if free > start:
                    start = free
                if free > moment:
                    moment = free
            else:
                start = earliest(
                    machines, lines, machine, ready, spent, modes.nodes[mode], need, tasks.amount
                )
                if criterion == MOMENT:
                    moment = earliest(
                        machines, lines, machine, made, spent, modes.nodes[mode], need, tasks.amount
                    )
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
