"""Choices: in which mode a task ends first, or scores best, on machines that are partly taken.

Three searches. ``_choose_earliest_finish`` skips modes that cannot win: modes stand by ascending
seconds, so the
first that could not even win on an idle machine ends the search. ``_choose_frugal`` takes the smallest
count that
ends within a factor of the earliest finish. ``choose_best_score`` looks at every mode, for planners
that weigh more
than the finish. Ties go to the smaller count, then to the machine of lower index.

Placement: put one task after another, each in the mode a rule prefers. List planners differ in the order.

Tasks of one abstract machine follow the first of them that is placed. A transfer whose destination nobody has
chosen yet waits, and is placed with the first task there; its arrival counts in that task's choice.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.arrivals import Arrivals, data_ready_s, gather_data, reset_arrivals, send_data
from weft.kernels.compilation import kernel
from weft.kernels.problem import (
    CLASSES,
    COMPUTE,
    RELATED,
    SINGLE,
    TRANSFER,
    Doubles,
    Indices,
    Integers,
    MachineArrays,
    ModeArrays,
    ProblemArrays,
    TaskArrays,
)
from weft.kernels.timelines import (
    Timelines,
    earliest_append,
    earliest_start,
    earliest_start_by,
    earliest_start_single,
    occupy,
    reset_timelines,
)

__all__ = [
    "APPENDED",
    "FINISH",
    "START",
    "PartialSchedule",
    "PlacementRule",
    "choose_best_score",
    "choose_mode",
    "commit_task",
    "evaluate_task",
    "find_modes",
    "gather_all_data",
    "mode_seconds",
    "place_in_order",
    "place_without_nodes",
    "reset_schedule",
    "settle_transfers",
    "transfer_seconds",
]


FINISH, START = 0, 1
"""What a score starts from."""
APPENDED = 1
"""``Rule.place``: behind everything on a machine, instead of into gaps."""
_NEVER = float("inf")
_NEARLY_ONE = 1.0 - 1e-15
"""Modes are sorted by 1 / rate / gain, which may differ in the last bits from work / rate / gain."""


class PlacementRule(NamedTuple):
    """How a planner chooses among the modes of a task."""

    criterion: int
    """FINISH or START: what is to be small."""
    place: int
    """0: into gaps; APPENDED: behind everything."""
    factor: float
    """A moldable task takes fewer nodes as long as it ends within this factor of its earliest finish."""
    price_weight: float
    """Added to the score per unit of price."""
    weighs: int
    """Whether ``extra`` is added to the score."""
    extra: Doubles
    """Tasks x machines."""
    counts: int
    """Whether ``only_count`` is heeded."""
    only_count: Indices
    """Per task: the only count allowed; 0: any."""


@kernel
def mode_seconds(modes: ModeArrays, task: int, mode: int) -> float:
    """Give the seconds of a mode of a task."""
    if modes.layout == RELATED:
        return modes.work[task] / modes.rate[mode] / modes.gain[mode]
    if modes.layout == CLASSES:
        return modes.rate[mode]
    return modes.cell[modes.row[task] + (mode - modes.first[modes.group[task]])]


@kernel
def find_modes(modes: ModeArrays, task: int, machine: int) -> tuple[int, int]:
    """Give the first mode of a task on a machine and the one after its last: modes stand by machine."""
    group = modes.group[task]
    low = 0 + modes.first[group]
    end = 0 + modes.first[group + 1]
    high = end
    while low < high:
        middle = (low + high) // 2
        if modes.machine[middle] < machine:
            low = middle + 1
        else:
            high = middle
    last = low
    while last < end and modes.machine[last] == machine:
        last += 1
    return low, last


@kernel
def choose_mode(
    needs: int,
    amount: Doubles,
    modes: ModeArrays,
    machines: MachineArrays,
    lines: Timelines,
    arrivals: Arrivals,
    rule: PlacementRule,
    task: int,
    bound: int,
    homes: int,
    mode_start: Doubles,
    mode_finish: Doubles,
) -> tuple[int, float]:
    """Give mode and start of a task; ``bound`` is the machine it must take, or the number of machines.

    ``needs`` is the task's first row of ``amount``. The start is infinite where no mode ever fits.
    """
    group = modes.group[task]
    if rule.criterion != FINISH or rule.weighs != 0 or rule.price_weight != 0.0 or rule.counts != 0:
        return choose_best_score(needs, amount, modes, machines, lines, arrivals, rule, task, bound)
    if rule.factor > 1.0 and modes.moldable[group] != 0:
        return _choose_frugal(
            needs, amount, modes, machines, lines, arrivals, rule, task, bound, mode_start, mode_finish
        )
    if bound < machines.number or rule.place == APPENDED:
        return choose_best_score(needs, amount, modes, machines, lines, arrivals, rule, task, bound)
    return _choose_earliest_finish(needs, amount, modes, machines, lines, arrivals, task, homes)


@kernel
def _choose_earliest_finish(
    needs: int,
    amount: Doubles,
    modes: ModeArrays,
    machines: MachineArrays,
    lines: Timelines,
    arrivals: Arrivals,
    task: int,
    homes: int,
) -> tuple[int, float]:
    group = modes.group[task]
    first = 0 + modes.first[group]
    end = 0 + modes.first[group + 1]
    best = _NEVER
    chosen = end
    chosen_start = _NEVER
    # Machines next to data can start before all others at their location: they are looked at exactly.
    for index in range(homes):
        host = arrivals.home[index]
        for position in range(machines.on_host_pointer[host], machines.on_host_pointer[host + 1]):
            machine = machines.on_host[position]
            ready = data_ready_s(machines, arrivals, machine)
            low, high = find_modes(modes, task, machine)
            for mode in range(low, high):
                spent = mode_seconds(modes, task, mode)
                need = 0 + needs + modes.shift[mode]
                start = earliest_start(
                    machines, lines, machine, ready, spent, modes.nodes[mode], need, amount
                )
                finish = start + spent
                if finish < best or (finish == best < _NEVER and _precedes(modes, mode, chosen)):
                    best = finish
                    chosen = mode
                    chosen_start = start
    latest, location, form = arrivals.latest, machines.location, machines.form
    soonest = latest[0]
    for place in range(1, machines.locations):
        if latest[place] < soonest:
            soonest = latest[place]
    layout, by_seconds, on = modes.layout, modes.sorted, modes.machine
    rate, gain, cell = modes.rate, modes.gain, modes.cell
    free_from, count = lines.free_from, lines.gaps.count
    work = modes.work[task]
    cells = modes.row[task] - first
    for position in range(first, end):
        mode = by_seconds[position]
        if layout == RELATED:
            spent = work / rate[mode] / gain[mode]
        elif layout == CLASSES:
            spent = rate[mode]
        else:
            spent = cell[cells + mode]
        machine = on[mode]
        ready = latest[location[machine]]
        possible = ready + spent
        if possible > best:
            if layout <= CLASSES and soonest + spent * _NEARLY_ONE > best:
                break  # too late even on idle machines, and so are all that follow
            continue
        if form[machine] != SINGLE:
            need = 0 + needs + modes.shift[mode]
            nodes = modes.nodes[mode]
            start = earliest_start_by(machines, lines, machine, ready, spent, nodes, need, amount, best)
        elif spent == 0.0:
            start = ready
        else:
            start = free_from[machine]
            if ready > start:
                start = ready
            elif count[machine] > 0:
                start = earliest_start_single(lines, machine, ready, spent)
        finish = start + spent
        if finish < best or (finish == best < _NEVER and _precedes(modes, mode, chosen)):
            best = finish
            chosen = mode
            chosen_start = start
    return chosen, chosen_start


@kernel
def _precedes(modes: ModeArrays, mode: int, other: int) -> bool:
    """Break a tie: the smaller count, then the lower machine (by which modes stand)."""
    if modes.count[mode] != modes.count[other]:
        return bool(modes.count[mode] < modes.count[other])
    return mode < other


@kernel
def _choose_frugal(
    needs: int,
    amount: Doubles,
    modes: ModeArrays,
    machines: MachineArrays,
    lines: Timelines,
    arrivals: Arrivals,
    rule: PlacementRule,
    task: int,
    bound: int,
    mode_start: Doubles,
    mode_finish: Doubles,
) -> tuple[int, float]:
    group = modes.group[task]
    first = 0 + modes.first[group]
    end = 0 + modes.first[group + 1]
    low, high = first, end
    if bound < machines.number:
        low, high = find_modes(modes, task, bound)
    limit = _NEVER
    for position in range(first, end):
        mode = modes.sorted[position]
        mode_finish[mode - first] = _NEVER
        if mode < low or mode >= high:
            continue
        spent = mode_seconds(modes, task, mode)
        machine = modes.machine[mode]
        ready = data_ready_s(machines, arrivals, machine)
        if ready + spent > limit:
            continue
        need = 0 + needs + modes.shift[mode]
        if rule.place == APPENDED:
            start = earliest_append(machines, lines, machine, ready, spent, modes.nodes[mode], need, amount)
        else:
            nodes = modes.nodes[mode]
            start = earliest_start_by(machines, lines, machine, ready, spent, nodes, need, amount, limit)
        finish = start + spent
        mode_start[mode - first] = start
        mode_finish[mode - first] = finish
        if finish * rule.factor < limit:
            limit = finish * rule.factor
    chosen = end
    for mode in range(low, high):
        finish = mode_finish[mode - first]
        within = finish <= limit and finish < _NEVER
        if within and (
            chosen == end
            or modes.count[mode] < modes.count[chosen]
            or (modes.count[mode] == modes.count[chosen] and finish < mode_finish[chosen - first])
        ):
            chosen = mode
    if chosen == end:
        return end, _NEVER
    return chosen, mode_start[chosen - first]


@kernel
def choose_best_score(
    needs: int,
    amount: Doubles,
    modes: ModeArrays,
    machines: MachineArrays,
    lines: Timelines,
    arrivals: Arrivals,
    rule: PlacementRule,
    task: int,
    bound: int,
) -> tuple[int, float]:
    """Look at every mode and take the one of the least score."""
    group = modes.group[task]
    low = 0 + modes.first[group]
    high = 0 + modes.first[group + 1]
    chosen = high
    if bound < machines.number:
        low, high = find_modes(modes, task, bound)
    best = _NEVER
    best_finish = _NEVER
    chosen_start = _NEVER
    for mode in range(low, high):
        if rule.counts != 0 and rule.only_count[task] != 0 and modes.count[mode] != rule.only_count[task]:
            continue
        spent = mode_seconds(modes, task, mode)
        machine = modes.machine[mode]
        ready = data_ready_s(machines, arrivals, machine)
        nodes = modes.nodes[mode]
        need = 0 + needs + modes.shift[mode]
        if rule.place == APPENDED:
            start = earliest_append(machines, lines, machine, ready, spent, nodes, need, amount)
        else:
            start = earliest_start(machines, lines, machine, ready, spent, nodes, need, amount)
        finish = start + spent
        score = finish
        if rule.criterion == START:
            score = start
        if rule.weighs != 0:
            score += rule.extra[task * machines.number + machine]
        if rule.price_weight != 0.0:
            score += rule.price_weight * (nodes * spent * machines.price[machine])
        if finish == _NEVER:
            continue
        better = score < best or (score == best and finish < best_finish)
        if better or (score == best and finish == best_finish and _precedes(modes, mode, chosen)):
            best = score
            best_finish = finish
            chosen = mode
            chosen_start = start
    return chosen, chosen_start


_INFINITE = float("inf")
_NOT_YET = float("nan")


class PartialSchedule(NamedTuple):
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
def reset_schedule(
    problem: ProblemArrays, lines: Timelines, arrivals: Arrivals, board: PartialSchedule
) -> None:
    """Begin with nothing placed but what is busy. ``board.bound`` is filled by the caller."""
    tasks, machines = problem.tasks, problem.machines
    reset_timelines(machines, lines)
    reset_arrivals(machines, arrivals)
    for stretch in range(len(problem.busy_machine)):
        occupy(
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
    problem: ProblemArrays,
    rule: PlacementRule,
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
        mode, start = evaluate_task(tasks, modes, machines, lines, arrivals, board, rule, task)
        if start == _INFINITE:
            return task
        commit_task(tasks, modes, machines, lines, arrivals, board, task, mode, start)
    return tasks.number


@kernel
def evaluate_task(
    tasks: TaskArrays,
    modes: ModeArrays,
    machines: MachineArrays,
    lines: Timelines,
    arrivals: Arrivals,
    board: PartialSchedule,
    rule: PlacementRule,
    task: int,
) -> tuple[int, float]:
    """Give the mode a rule prefers for a compute task, and its start."""
    homes = gather_all_data(tasks, machines, arrivals, board, task)
    bound = board.bound[tasks.variable[task]]
    return choose_mode(
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
def gather_all_data(
    tasks: TaskArrays, machines: MachineArrays, arrivals: Arrivals, board: PartialSchedule, task: int
) -> int:
    """Follow the data of predecessors, and of transfers that will arrive wherever the task is."""
    homes = gather_data(tasks, machines, arrivals, task, board.machine, board.finish)
    if board.waiting[tasks.variable[task]] == tasks.number:
        return homes
    for edge in range(tasks.pointer[task], tasks.pointer[task + 1]):
        transfer = tasks.before[edge]
        done = board.finish[transfer]
        if done != done:
            source = board.bound[tasks.source[transfer]]
            homes = send_data(
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
def commit_task(
    tasks: TaskArrays,
    modes: ModeArrays,
    machines: MachineArrays,
    lines: Timelines,
    arrivals: Arrivals,
    board: PartialSchedule,
    task: int,
    mode: int,
    start: float,
) -> None:
    """Place a compute task in a mode, and the transfers that waited for its machine."""
    machine = modes.machine[mode]
    spent = mode_seconds(modes, task, mode)
    need = 0 + tasks.need[task] + modes.shift[mode]
    occupy(machines, lines, machine, start, spent, modes.nodes[mode], need, tasks.amount)
    board.machine[task] = machine
    board.nodes[task] = modes.nodes[mode]
    board.mode[task] = mode
    board.start[task] = start
    board.finish[task] = start + spent
    variable = tasks.variable[task]
    board.bound[variable] = machine
    if board.waiting[variable] != tasks.number:
        _place_waiting(tasks, machines, arrivals, board, variable)


@kernel
def settle_transfers(
    tasks: TaskArrays, machines: MachineArrays, arrivals: Arrivals, board: PartialSchedule, task: int
) -> None:
    """Decide where transfers go that this task needs elsewhere, and when those leave that wait for it."""
    if tasks.transfers == 0:
        return
    own = tasks.variables if tasks.kind[task] == TRANSFER else tasks.variable[task]
    for edge in range(tasks.pointer[task], tasks.pointer[task + 1]):
        transfer = tasks.before[edge]
        done = board.finish[transfer]
        if done != done and tasks.variable[transfer] != own:
            variable = tasks.variable[transfer]
            _find_departure(tasks, machines, arrivals, board, transfer)
            board.bound[variable] = _first_destination(tasks, machines, board, transfer)
            _place_waiting(tasks, machines, arrivals, board, variable)
    for edge in range(tasks.pointer[task], tasks.pointer[task + 1]):
        transfer = tasks.before[edge]
        done = board.finish[transfer]
        if done != done:
            _find_departure(tasks, machines, arrivals, board, transfer)


@kernel
def place_without_nodes(
    tasks: TaskArrays, machines: MachineArrays, arrivals: Arrivals, board: PartialSchedule, task: int
) -> None:
    """Place a transfer or a virtual task: neither occupies anything."""
    variable = tasks.variable[task]
    if tasks.kind[task] == TRANSFER:
        if board.bound[variable] == machines.number and tasks.anchors[variable] != 0:
            board.next_waiting[task] = board.waiting[variable]
            board.waiting[variable] = task
            return
        _find_departure(tasks, machines, arrivals, board, task)
        if board.bound[variable] == machines.number:
            board.bound[variable] = _first_destination(tasks, machines, board, task)
        _place_transfer(tasks, machines, board, task)
        return
    gather_all_data(tasks, machines, arrivals, board, task)
    machine = board.bound[variable]
    if machine == machines.number:
        machine = _first_candidate(tasks, machines, arrivals, variable)
    ready = data_ready_s(machines, arrivals, machine)
    _record(tasks, board, task, machine, ready, ready)
    if board.waiting[variable] != tasks.number:
        _place_waiting(tasks, machines, arrivals, board, variable)


@kernel
def _record(
    tasks: TaskArrays, board: PartialSchedule, task: int, machine: int, start: float, finish: float
) -> None:
    board.machine[task] = machine
    board.nodes[task] = 0
    board.start[task] = start
    board.finish[task] = finish
    board.bound[tasks.variable[task]] = machine


@kernel
def _find_departure(
    tasks: TaskArrays, machines: MachineArrays, arrivals: Arrivals, board: PartialSchedule, transfer: int
) -> None:
    """Find out when a transfer can start; the machine it starts from is decided here if it was not."""
    source = tasks.source[transfer]
    if board.bound[source] == machines.number:
        board.bound[source] = tasks.candidate[tasks.candidate_pointer[tasks.candidate_set[source]]]
    gather_data(tasks, machines, arrivals, transfer, board.machine, board.finish)
    board.departure[transfer] = data_ready_s(machines, arrivals, board.bound[source])


@kernel
def transfer_seconds(machines: MachineArrays, source: int, target: int, size: float) -> float:
    """Give the seconds of one file between two machines; nothing on one host."""
    if machines.host[source] == machines.host[target]:
        return 0.0
    link = machines.location[source] * machines.locations + machines.location[target]
    return machines.latency[link] + size * machines.inverse[link]


@kernel
def _place_transfer(
    tasks: TaskArrays, machines: MachineArrays, board: PartialSchedule, transfer: int
) -> None:
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
        start + transfer_seconds(machines, source, target, tasks.moved[transfer]),
    )


@kernel
def _place_waiting(
    tasks: TaskArrays, machines: MachineArrays, arrivals: Arrivals, board: PartialSchedule, variable: int
) -> None:
    """Record the transfers that waited for a variable."""
    transfer = board.waiting[variable]
    board.waiting[variable] = tasks.number
    while transfer != tasks.number:
        _find_departure(tasks, machines, arrivals, board, transfer)
        _place_transfer(tasks, machines, board, transfer)
        transfer = board.next_waiting[transfer]


@kernel
def _first_candidate(tasks: TaskArrays, machines: MachineArrays, arrivals: Arrivals, variable: int) -> int:
    """Give the candidate of a variable on which all data are first."""
    chosen = machines.number
    best = _INFINITE
    found = tasks.candidate_set[variable]
    for position in range(tasks.candidate_pointer[found], tasks.candidate_pointer[found + 1]):
        machine = tasks.candidate[position]
        ready = data_ready_s(machines, arrivals, machine)
        if ready < best or chosen == machines.number:
            best = ready
            chosen = machine
    return chosen


@kernel
def _first_destination(
    tasks: TaskArrays, machines: MachineArrays, board: PartialSchedule, transfer: int
) -> int:
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
        arrival = board.departure[transfer] + transfer_seconds(
            machines, source, machine, tasks.moved[transfer]
        )
        if arrival < best or chosen == machines.number:
            best = arrival
            chosen = machine
    return chosen
