"""List scheduling: place one task after another, each in the mode that a rule prefers."""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.arrivals import Arrivals, data_ready_s, gather_data, reset_arrivals, send_data
from weft.kernels.compilation import inlined_kernel, kernel
from weft.kernels.problem import (
    CLASSES,
    COMPUTE,
    INFINITY,
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
    Load,
    Timelines,
    earliest_append,
    earliest_start,
    earliest_start_single,
    occupy,
    reset_timelines,
)

FINISH, START = 0, 1
"""Values of ``PlacementRule.criterion``."""
APPENDED = 1
"""Value of ``PlacementRule.place``: a task starts after all tasks of its machine, never in a gap."""
_NEARLY_ONE = 1.0 - 1e-15
"""Tolerance for rounding: modes are sorted by 1 / rate / gain, but take work / rate / gain seconds."""


class PlacementRule(NamedTuple):
    """How a planner chooses among the modes of a task."""

    criterion: int
    """FINISH or START: the time to minimise."""
    place: int
    """0 if tasks may use gaps; APPENDED if a task starts after all tasks of its machine."""
    factor: float
    """A moldable task takes fewer nodes if it still finishes within this factor of its earliest finish."""
    price_weight: float
    """The price of a mode times this weight is added to the score."""
    weighs: int
    """Whether ``extra`` is added to the score."""
    extra: Doubles
    """Tasks x machines: numbers that are added to the score if ``weighs`` is set."""
    counts: int
    """Whether ``only_count`` is applied."""
    only_count: Indices
    """Per task: the only allowed node count; 0 if every count is allowed."""


class PartialSchedule(NamedTuple):
    """A schedule under construction."""

    machine: Indices
    nodes: Integers
    start: Doubles
    finish: Doubles
    """Per task: machine, nodes, start and finish; ``finish`` is nan until the task is placed."""
    mode: Indices
    """Per compute task: its mode."""
    bound: Indices
    """Per variable: its machine; the number of machines if the variable is not bound yet."""
    waiting: Indices
    """Per variable: the first transfer that waits for its binding; the number of tasks if there is none."""
    next_waiting: Indices
    """Per waiting transfer: the next one that waits for the same variable."""
    departure: Doubles
    """Per waiting transfer: the time at which it can start."""
    mode_start: Doubles
    mode_finish: Doubles
    """Scratch: ``mode_start`` and ``mode_finish`` are the start and finish of each mode of one task."""


class Workspace(NamedTuple):
    """The arrays of one placement: its result and its scratch arrays."""

    timelines: Timelines
    arrivals: Arrivals
    schedule: PartialSchedule


class PlacementState(NamedTuple):
    """Problem, timelines, arrivals and partial schedule: the common input of the steps of list scheduling."""

    tasks: TaskArrays
    modes: ModeArrays
    machines: MachineArrays
    timelines: Timelines
    arrivals: Arrivals
    schedule: PartialSchedule


@kernel
def mode_seconds(modes: ModeArrays, task: int, mode: int) -> float:
    """Return the seconds of a mode of a task."""
    if modes.layout == RELATED:
        return modes.work[task] / modes.rate[mode] / modes.gain[mode]
    if modes.layout == CLASSES:
        return modes.rate[mode]
    return modes.cell[modes.row[task] + (mode - modes.first[modes.group[task]])]


@kernel
def find_modes(modes: ModeArrays, task: int, machine: int) -> tuple[int, int]:
    """Return the first mode of a task on a machine, and the end (exclusive) of its modes; uses bisection."""
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
def possible_modes(state: PlacementState, task: int) -> tuple[int, int]:
    """Return the first mode and the end (exclusive) of the modes of a task.

    If the task is bound to a machine, only the modes on this machine are considered.
    """
    modes = state.modes
    bound = state.schedule.bound[state.tasks.variable[task]]
    if bound < state.machines.number:
        return find_modes(modes, task, bound)
    group = modes.group[task]
    return 0 + modes.first[group], 0 + modes.first[group + 1]


@inlined_kernel
def load_of_mode(state: PlacementState, task: int, mode: int) -> Load:
    """Return the machine, nodes and resource amounts that a task takes in a mode."""
    tasks, modes = state.tasks, state.modes
    need = 0 + tasks.need[task] + modes.shift[mode]
    return modes.machine[mode], modes.nodes[mode], need, tasks.amount


@inlined_kernel
def start_of_mode(
    state: PlacementState, place: int, task: int, mode: int, ready: float, spent: float, limit: float
) -> float:
    """Return the earliest start of a task in a mode; ``limit`` as in ``timelines.earliest_start``."""
    load = load_of_mode(state, task, mode)
    if place == APPENDED:
        return earliest_append(state.machines, state.timelines, load, ready, spent)
    return earliest_start(state.machines, state.timelines, load, ready, spent, limit)


@kernel
def _choose_earliest_finish(state: PlacementState, task: int, homes: int) -> tuple[int, float]:
    _, modes, machines, timelines, arrivals, _ = state
    group = modes.group[task]
    first = 0 + modes.first[group]
    end = 0 + modes.first[group + 1]
    best = INFINITY
    chosen = end
    chosen_start = INFINITY
    # Machines that have data can start before the others of their location: evaluate them one by one.
    for index in range(homes):
        host = arrivals.home[index]
        for position in range(machines.on_host_pointer[host], machines.on_host_pointer[host + 1]):
            machine = machines.on_host[position]
            ready = data_ready_s(machines, arrivals, machine)
            low, high = find_modes(modes, task, machine)
            for mode in range(low, high):
                spent = mode_seconds(modes, task, mode)
                start = start_of_mode(state, 0, task, mode, ready, spent, INFINITY)
                finish = start + spent
                if finish < best or (finish == best < INFINITY and _precedes(modes, mode, chosen)):
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
    free_from, count = timelines.free_from, timelines.gaps.count
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
                break  # too late even on an idle machine; so are all following modes
            continue
        if form[machine] != SINGLE:
            start = start_of_mode(state, 0, task, mode, ready, spent, best)
        elif spent == 0.0:
            start = ready
        else:
            start = free_from[machine]
            if ready > start:
                start = ready
            elif count[machine] > 0:
                start = earliest_start_single(timelines, machine, ready, spent)
        finish = start + spent
        if finish < best or (finish == best < INFINITY and _precedes(modes, mode, chosen)):
            best = finish
            chosen = mode
            chosen_start = start
    return chosen, chosen_start


@kernel
def _precedes(modes: ModeArrays, mode: int, other: int) -> bool:
    """Return whether a mode wins a tie against another: smaller count, then lower machine index."""
    if modes.count[mode] != modes.count[other]:
        return bool(modes.count[mode] < modes.count[other])
    return mode < other


@kernel
def _choose_frugal(state: PlacementState, rule: PlacementRule, task: int) -> tuple[int, float]:
    _, modes, machines, _, arrivals, schedule = state
    mode_start, mode_finish = schedule.mode_start, schedule.mode_finish
    group = modes.group[task]
    first = 0 + modes.first[group]
    end = 0 + modes.first[group + 1]
    low, high = possible_modes(state, task)
    limit = INFINITY
    for position in range(first, end):
        mode = modes.sorted[position]
        mode_finish[mode - first] = INFINITY
        if mode < low or mode >= high:
            continue
        spent = mode_seconds(modes, task, mode)
        ready = data_ready_s(machines, arrivals, modes.machine[mode])
        if ready + spent > limit:
            continue
        start = start_of_mode(state, rule.place, task, mode, ready, spent, limit)
        finish = start + spent
        mode_start[mode - first] = start
        mode_finish[mode - first] = finish
        if finish * rule.factor < limit:
            limit = finish * rule.factor
    chosen = end
    for mode in range(low, high):
        finish = mode_finish[mode - first]
        within = finish <= limit and finish < INFINITY
        if within and (
            chosen == end
            or modes.count[mode] < modes.count[chosen]
            or (modes.count[mode] == modes.count[chosen] and finish < mode_finish[chosen - first])
        ):
            chosen = mode
    if chosen == end:
        return end, INFINITY
    return chosen, mode_start[chosen - first]


@kernel
def _choose_best_score(state: PlacementState, rule: PlacementRule, task: int) -> tuple[int, float]:
    """Return the mode with the least score, and its start (infinity if no mode fits)."""
    _, modes, machines, _, arrivals, _ = state
    low, high = possible_modes(state, task)
    chosen = high
    best = INFINITY
    best_finish = INFINITY
    chosen_start = INFINITY
    for mode in range(low, high):
        if rule.counts != 0 and rule.only_count[task] != 0 and modes.count[mode] != rule.only_count[task]:
            continue
        spent = mode_seconds(modes, task, mode)
        machine = modes.machine[mode]
        ready = data_ready_s(machines, arrivals, machine)
        start = start_of_mode(state, rule.place, task, mode, ready, spent, INFINITY)
        finish = start + spent
        score = finish
        if rule.criterion == START:
            score = start
        if rule.weighs != 0:
            score += rule.extra[task * machines.number + machine]
        if rule.price_weight != 0.0:
            score += rule.price_weight * (modes.nodes[mode] * spent * machines.price[machine])
        if finish == INFINITY:
            continue
        better = score < best or (score == best and finish < best_finish)
        if better or (score == best and finish == best_finish and _precedes(modes, mode, chosen)):
            best = score
            best_finish = finish
            chosen = mode
            chosen_start = start
    return chosen, chosen_start


_NOT_YET = float("nan")


@kernel
def reset_schedule(problem: ProblemArrays, workspace: Workspace) -> None:
    """Reset the workspace: only busy intervals occupy machines. The caller sets ``schedule.bound``."""
    tasks, machines = problem.tasks, problem.machines
    timelines, arrivals, schedule = workspace
    reset_timelines(machines, timelines)
    reset_arrivals(machines, arrivals)
    for stretch in range(len(problem.busy_machine)):
        load = problem.busy_machine[stretch], problem.busy_nodes[stretch], stretch, problem.busy_amount
        occupy(machines, timelines, load, problem.busy_start[stretch], problem.busy_seconds[stretch])
    for task in range(tasks.number):
        schedule.finish[task] = _NOT_YET
    for variable in range(tasks.variables):
        schedule.waiting[variable] = tasks.number


@inlined_kernel
def begin_placement(problem: ProblemArrays, workspace: Workspace) -> PlacementState:
    """Reset the workspace, and return the state of a placement in which no task is placed."""
    reset_schedule(problem, workspace)
    timelines, arrivals, schedule = workspace
    return PlacementState(problem.tasks, problem.modes, problem.machines, timelines, arrivals, schedule)


@kernel
def place_in_order(problem: ProblemArrays, rule: PlacementRule, order: Indices, workspace: Workspace) -> int:
    """Place all tasks in a topological order; return a task that fits nowhere, or the number of tasks.

    The first placed task of a binding variable determines the machine of all its tasks. A transfer whose
    destination is not bound yet waits and is placed with the first task of the destination; its arrival is
    considered when the mode of that task is chosen.
    """
    tasks = problem.tasks
    state = begin_placement(problem, workspace)
    for position in range(tasks.number):
        task = order[position]
        settle_transfers(state, task)
        if tasks.kind[task] != COMPUTE:
            place_without_nodes(state, task)
            continue
        mode, start = evaluate_task(state, rule, task)
        if start == INFINITY:
            return task
        commit_task(state, task, mode, start)
    return tasks.number


@kernel
def evaluate_task(state: PlacementState, rule: PlacementRule, task: int) -> tuple[int, float]:
    """Return the mode that a rule prefers for a compute task, and its start (infinity if no mode fits).

    One of three functions chooses the mode. ``_choose_earliest_finish`` goes through the modes by ascending
    seconds and stops at the first one that would finish too late even on an idle machine. ``_choose_frugal``
    takes the smallest count that finishes within a factor of the earliest finish. ``_choose_best_score``
    evaluates every mode, for planners whose score is more than the finish. Ties: smaller count, then lower
    machine index.
    """
    modes = state.modes
    homes = gather_all_data(state, task)
    if rule.criterion != FINISH or rule.weighs != 0 or rule.price_weight != 0.0 or rule.counts != 0:
        return _choose_best_score(state, rule, task)
    if rule.factor > 1.0 and modes.moldable[modes.group[task]] != 0:
        return _choose_frugal(state, rule, task)
    bound = state.schedule.bound[state.tasks.variable[task]]
    if bound < state.machines.number or rule.place == APPENDED:
        return _choose_best_score(state, rule, task)
    return _choose_earliest_finish(state, task, homes)


@kernel
def gather_all_data(state: PlacementState, task: int) -> int:
    """Compute when a task's data arrive, also by waiting transfers; return the number of hosts with data."""
    tasks, _, machines, _, arrivals, schedule = state
    homes = gather_data(tasks, machines, arrivals, task, schedule.machine, schedule.finish)
    if schedule.waiting[tasks.variable[task]] == tasks.number:
        return homes
    for edge in range(tasks.pointer[task], tasks.pointer[task + 1]):
        transfer = tasks.before[edge]
        done = schedule.finish[transfer]
        if done != done:
            source, size = schedule.bound[tasks.source[transfer]], tasks.moved[transfer]
            departure = schedule.departure[transfer]
            homes = send_data(machines, arrivals, homes, source, departure, size, 1.0, 0.0)
    return homes


@inlined_kernel
def commit_task(state: PlacementState, task: int, mode: int, start: float) -> None:
    """Place a compute task in a mode, and the transfers that waited for its machine."""
    tasks, modes, machines, timelines, _, schedule = state
    machine = modes.machine[mode]
    spent = mode_seconds(modes, task, mode)
    occupy(machines, timelines, load_of_mode(state, task, mode), start, spent)
    schedule.machine[task] = machine
    schedule.nodes[task] = modes.nodes[mode]
    schedule.mode[task] = mode
    schedule.start[task] = start
    schedule.finish[task] = start + spent
    variable = tasks.variable[task]
    schedule.bound[variable] = machine
    if schedule.waiting[variable] != tasks.number:
        _place_waiting(state, variable)


@inlined_kernel
def settle_transfers(state: PlacementState, task: int) -> None:
    """Process the unplaced transfers among the predecessors of a task.

    A transfer to another binding variable is placed. For a transfer to the task's own variable, whose machine
    is not chosen yet, only the departure is computed.
    """
    tasks, schedule = state.tasks, state.schedule
    if tasks.transfers == 0:
        return
    own = tasks.variables if tasks.kind[task] == TRANSFER else tasks.variable[task]
    for edge in range(tasks.pointer[task], tasks.pointer[task + 1]):
        transfer = tasks.before[edge]
        done = schedule.finish[transfer]
        if done != done and tasks.variable[transfer] != own:
            variable = tasks.variable[transfer]
            _find_departure(state, transfer)
            schedule.bound[variable] = _first_destination(state, transfer)
            _place_waiting(state, variable)
    for edge in range(tasks.pointer[task], tasks.pointer[task + 1]):
        transfer = tasks.before[edge]
        done = schedule.finish[transfer]
        if done != done:
            _find_departure(state, transfer)


@kernel
def place_without_nodes(state: PlacementState, task: int) -> None:
    """Place a transfer or a virtual task; neither occupies a machine."""
    tasks, _, machines, _, arrivals, schedule = state
    variable = tasks.variable[task]
    if tasks.kind[task] == TRANSFER:
        if schedule.bound[variable] == machines.number and tasks.anchors[variable] != 0:
            schedule.next_waiting[task] = schedule.waiting[variable]
            schedule.waiting[variable] = task
            return
        _find_departure(state, task)
        if schedule.bound[variable] == machines.number:
            schedule.bound[variable] = _first_destination(state, task)
        _place_transfer(state, task)
        return
    gather_all_data(state, task)
    machine = schedule.bound[variable]
    if machine == machines.number:
        machine = _first_candidate(state, variable)
    ready = data_ready_s(machines, arrivals, machine)
    _record(tasks, schedule, task, machine, ready, ready)
    if schedule.waiting[variable] != tasks.number:
        _place_waiting(state, variable)


@kernel
def _record(
    tasks: TaskArrays, schedule: PartialSchedule, task: int, machine: int, start: float, finish: float
) -> None:
    schedule.machine[task] = machine
    schedule.nodes[task] = 0
    schedule.start[task] = start
    schedule.finish[task] = finish
    schedule.bound[tasks.variable[task]] = machine


@kernel
def _find_departure(state: PlacementState, transfer: int) -> None:
    """Set ``departure`` of a transfer to the time when its data are at its source.

    A source without a machine is bound to its first candidate.
    """
    tasks, _, machines, _, arrivals, schedule = state
    source = tasks.source[transfer]
    if schedule.bound[source] == machines.number:
        schedule.bound[source] = tasks.candidate[tasks.candidate_pointer[tasks.candidate_set[source]]]
    gather_data(tasks, machines, arrivals, transfer, schedule.machine, schedule.finish)
    schedule.departure[transfer] = data_ready_s(machines, arrivals, schedule.bound[source])


@kernel
def transfer_seconds(machines: MachineArrays, source: int, target: int, size: float) -> float:
    """Return the seconds to transfer a file of ``size`` bytes between two machines; 0 within a host."""
    if machines.host[source] == machines.host[target]:
        return 0.0
    link = machines.location[source] * machines.locations + machines.location[target]
    return machines.latency[link] + size * machines.inverse[link]


@kernel
def _place_transfer(state: PlacementState, transfer: int) -> None:
    tasks, machines, schedule = state.tasks, state.machines, state.schedule
    source = schedule.bound[tasks.source[transfer]]
    target = schedule.bound[tasks.variable[transfer]]
    start = schedule.departure[transfer]
    finish = start + transfer_seconds(machines, source, target, tasks.moved[transfer])
    _record(tasks, schedule, transfer, target, start, finish)


@kernel
def _place_waiting(state: PlacementState, variable: int) -> None:
    tasks, schedule = state.tasks, state.schedule
    transfer = schedule.waiting[variable]
    schedule.waiting[variable] = tasks.number
    while transfer != tasks.number:
        _find_departure(state, transfer)
        _place_transfer(state, transfer)
        transfer = schedule.next_waiting[transfer]


@kernel
def _first_candidate(state: PlacementState, variable: int) -> int:
    """Return the candidate machine of a variable on which all data arrive first."""
    tasks, machines, arrivals = state.tasks, state.machines, state.arrivals
    chosen = machines.number
    best = INFINITY
    found = tasks.candidate_set[variable]
    for position in range(tasks.candidate_pointer[found], tasks.candidate_pointer[found + 1]):
        machine = tasks.candidate[position]
        ready = data_ready_s(machines, arrivals, machine)
        if ready < best or chosen == machines.number:
            best = ready
            chosen = machine
    return chosen


@kernel
def _first_destination(state: PlacementState, transfer: int) -> int:
    """Return the machine of a transfer's destination.

    If the destination is not bound, return the candidate machine where the data arrive first.
    """
    tasks, machines, schedule = state.tasks, state.machines, state.schedule
    variable = tasks.variable[transfer]
    if schedule.bound[variable] != machines.number:
        return schedule.bound[variable]
    source = schedule.bound[tasks.source[transfer]]
    chosen = machines.number
    best = INFINITY
    found = tasks.candidate_set[variable]
    for position in range(tasks.candidate_pointer[found], tasks.candidate_pointer[found + 1]):
        machine = tasks.candidate[position]
        arrival = schedule.departure[transfer] + transfer_seconds(
            machines, source, machine, tasks.moved[transfer]
        )
        if arrival < best or chosen == machines.number:
            best = arrival
            chosen = machine
    return chosen
