"""Placement: put one task after another, each in the mode a rule prefers. List planners differ in the order.

Tasks of one abstract machine follow the first of them that is placed. A transfer whose destination nobody has
chosen yet waits, and is placed with the first task there; its arrival counts in that task's choice.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.arrivals import Arrivals, arrive, begin_arrivals, gather, ready_on
from weft.kernels.choices import Rule, choose, mode_seconds
from weft.kernels.forms import kernel
from weft.kernels.problem import COMPUTE, TRANSFER, Machines, Modes, Problem, Tasks
from weft.kernels.timelines import Lines, open_lines, take
from weft.kernels.types import Doubles, Indices, Integers

__all__ = [
    "Board",
    "begin",
    "commit",
    "evaluate",
    "gather_all",
    "moving",
    "place_freely",
    "place_in_order",
    "settle_before",
]

_INFINITE = float("inf")
_NOT_YET = float("nan")


class Board(NamedTuple):
    """A schedule under construction."""

    machine: Indices
    nodes: Integers
    start: Doubles
    finish: Doubles
    """Per task; finish is nan as long as it is not placed."""
    mode: Indices
    """Per compute task: its mode."""
    bound: Indices
    """Per variable: its machine; the number of machines: none yet."""
    waiting: Indices
    """Per variable: the transfer that began to wait for it last; the number of tasks: none."""
    next_waiting: Indices
    """Per transfer: the one that began to wait before it."""
    departure: Doubles
    """Per waiting transfer: when it can start."""
    mode_start: Doubles
    mode_finish: Doubles
    """Scratch: per mode of one task."""


@kernel
def begin(problem: Problem, lines: Lines, arrivals: Arrivals, board: Board) -> None:
    """Begin with nothing placed but what is busy. ``board.bound`` is filled by the caller."""
    tasks, machines = problem.tasks, problem.machines
    open_lines(machines, lines)
    begin_arrivals(machines, arrivals)
    for stretch in range(len(problem.busy_machine)):
        take(
            machines,
            lines,
            problem.busy_machine[stretch],
            problem.busy_start[stretch],
            problem.busy_seconds[stretch],
            problem.busy_nodes[stretch],
            stretch,
            problem.busy_amount,
        )
    for task in range(tasks.number):
        board.finish[task] = _NOT_YET
    for variable in range(tasks.variables):
        board.waiting[variable] = tasks.number


@kernel
def place_in_order(
    problem: Problem, rule: Rule, order: Indices, lines: Lines, arrivals: Arrivals, board: Board
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
        mode, start = evaluate(tasks, modes, machines, lines, arrivals, board, rule, task)
        if start == _INFINITE:
            return task
        commit(tasks, modes, machines, lines, arrivals, board, task, mode, start)
    return tasks.number


@kernel
def evaluate(
    tasks: Tasks,
    modes: Modes,
    machines: Machines,
    lines: Lines,
    arrivals: Arrivals,
    board: Board,
    rule: Rule,
    task: int,
) -> tuple[int, float]:
    """Give the mode a rule prefers for a compute task, and its start."""
    homes = gather_all(tasks, machines, arrivals, board, task)
    bound = board.bound[tasks.variable[task]]
    return choose(
        tasks.need[task],
        tasks.amount,
        modes,
        machines,
        lines,
        arrivals,
        rule,
        task,
        bound,
        homes,
        board.mode_start,
        board.mode_finish,
    )


@kernel
def gather_all(tasks: Tasks, machines: Machines, arrivals: Arrivals, board: Board, task: int) -> int:
    """Follow the data of predecessors, and of transfers that will arrive wherever the task is."""
    homes = gather(tasks, machines, arrivals, task, board.machine, board.finish)
    if board.waiting[tasks.variable[task]] == tasks.number:
        return homes
    for edge in range(tasks.pointer[task], tasks.pointer[task + 1]):
        transfer = tasks.before[edge]
        done = board.finish[transfer]
        if done != done:
            source = board.bound[tasks.source[transfer]]
            homes = arrive(
                machines,
                arrivals,
                homes,
                source,
                board.departure[transfer],
                tasks.moved[transfer],
                1.0,
                0.0,
            )
    return homes


@kernel
def commit(
    tasks: Tasks,
    modes: Modes,
    machines: Machines,
    lines: Lines,
    arrivals: Arrivals,
    board: Board,
    task: int,
    mode: int,
    start: float,
) -> None:
    """Place a compute task in a mode, and the transfers that waited for its machine."""
    machine = modes.machine[mode]
    spent = mode_seconds(modes, task, mode)
    need = 0 + tasks.need[task] + modes.shift[mode]
    take(machines, lines, machine, start, spent, modes.nodes[mode], need, tasks.amount)
    board.machine[task] = machine
    board.nodes[task] = modes.nodes[mode]
    board.mode[task] = mode
    board.start[task] = start
    board.finish[task] = start + spent
    variable = tasks.variable[task]
    board.bound[variable] = machine
    if board.waiting[variable] != tasks.number:
        _settle(tasks, machines, arrivals, board, variable)


@kernel
def settle_before(tasks: Tasks, machines: Machines, arrivals: Arrivals, board: Board, task: int) -> None:
    """Decide where transfers go that this task needs elsewhere, and when those leave that wait for it."""
    if tasks.transfers == 0:
        return
    own = tasks.variables if tasks.kind[task] == TRANSFER else tasks.variable[task]
    for edge in range(tasks.pointer[task], tasks.pointer[task + 1]):
        transfer = tasks.before[edge]
        done = board.finish[transfer]
        if done != done and tasks.variable[transfer] != own:
            variable = tasks.variable[transfer]
            _depart(tasks, machines, arrivals, board, transfer)
            board.bound[variable] = _soonest_by_transfer(tasks, machines, board, transfer)
            _settle(tasks, machines, arrivals, board, variable)
    for edge in range(tasks.pointer[task], tasks.pointer[task + 1]):
        transfer = tasks.before[edge]
        done = board.finish[transfer]
        if done != done:
            _depart(tasks, machines, arrivals, board, transfer)


@kernel
def place_freely(tasks: Tasks, machines: Machines, arrivals: Arrivals, board: Board, task: int) -> None:
    """Place a transfer or a virtual task: neither occupies anything."""
    variable = tasks.variable[task]
    if tasks.kind[task] == TRANSFER:
        if board.bound[variable] == machines.number and tasks.anchors[variable] != 0:
            board.next_waiting[task] = board.waiting[variable]
            board.waiting[variable] = task
            return
        _depart(tasks, machines, arrivals, board, task)
        if board.bound[variable] == machines.number:
            board.bound[variable] = _soonest_by_transfer(tasks, machines, board, task)
        _move(tasks, machines, board, task)
        return
    gather_all(tasks, machines, arrivals, board, task)
    machine = board.bound[variable]
    if machine == machines.number:
        machine = _soonest(tasks, machines, arrivals, variable)
    ready = ready_on(machines, arrivals, machine)
    _record(tasks, board, task, machine, ready, ready)
    if board.waiting[variable] != tasks.number:
        _settle(tasks, machines, arrivals, board, variable)


@kernel
def _record(tasks: Tasks, board: Board, task: int, machine: int, start: float, finish: float) -> None:
    board.machine[task] = machine
    board.nodes[task] = 0
    board.start[task] = start
    board.finish[task] = finish
    board.bound[tasks.variable[task]] = machine


@kernel
def _depart(tasks: Tasks, machines: Machines, arrivals: Arrivals, board: Board, transfer: int) -> None:
    """Find out when a transfer can start; the machine it starts from is decided here if it was not."""
    source = tasks.source[transfer]
    if board.bound[source] == machines.number:
        board.bound[source] = tasks.candidate[tasks.candidate_pointer[tasks.candidate_set[source]]]
    gather(tasks, machines, arrivals, transfer, board.machine, board.finish)
    board.departure[transfer] = ready_on(machines, arrivals, board.bound[source])


@kernel
def moving(machines: Machines, source: int, target: int, size: float) -> float:
    """Give the seconds of one file between two machines; nothing on one host."""
    if machines.host[source] == machines.host[target]:
        return 0.0
    link = machines.location[source] * machines.locations + machines.location[target]
    return machines.latency[link] + size * machines.inverse[link]


@kernel
def _move(tasks: Tasks, machines: Machines, board: Board, transfer: int) -> None:
    """Record a transfer whose destination is bound."""
    source = board.bound[tasks.source[transfer]]
    target = board.bound[tasks.variable[transfer]]
    start = board.departure[transfer]
    _record(
        tasks,
        board,
        transfer,
        target,
        start,
        start + moving(machines, source, target, tasks.moved[transfer]),
    )


@kernel
def _settle(tasks: Tasks, machines: Machines, arrivals: Arrivals, board: Board, variable: int) -> None:
    """Record the transfers that waited for a variable."""
    transfer = board.waiting[variable]
    board.waiting[variable] = tasks.number
    while transfer != tasks.number:
        _depart(tasks, machines, arrivals, board, transfer)
        _move(tasks, machines, board, transfer)
        transfer = board.next_waiting[transfer]


@kernel
def _soonest(tasks: Tasks, machines: Machines, arrivals: Arrivals, variable: int) -> int:
    """Give the candidate of a variable on which all data are first."""
    chosen = machines.number
    best = _INFINITE
    found = tasks.candidate_set[variable]
    for position in range(tasks.candidate_pointer[found], tasks.candidate_pointer[found + 1]):
        machine = tasks.candidate[position]
        ready = ready_on(machines, arrivals, machine)
        if ready < best or chosen == machines.number:
            best = ready
            chosen = machine
    return chosen


@kernel
def _soonest_by_transfer(tasks: Tasks, machines: Machines, board: Board, transfer: int) -> int:
    """Give the candidate of a transfer's destination at which it arrives first."""
    variable = tasks.variable[transfer]
    if board.bound[variable] != machines.number:
        return board.bound[variable]
    source = board.bound[tasks.source[transfer]]
    chosen = machines.number
    best = _INFINITE
    found = tasks.candidate_set[variable]
    for position in range(tasks.candidate_pointer[found], tasks.candidate_pointer[found + 1]):
        machine = tasks.candidate[position]
        arrival = board.departure[transfer] + moving(machines, source, machine, tasks.moved[transfer])
        if arrival < best or chosen == machines.number:
            best = arrival
            chosen = machine
    return chosen
