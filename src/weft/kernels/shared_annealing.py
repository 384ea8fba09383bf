"""Simulated annealing of order, modes and machines where nodes and amounts of machines are shared."""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.compilation import inlined_kernel, kernel
from weft.kernels.problem import INFINITY, Doubles, Flags, Indices, Integers


class SharedModes(NamedTuple):
    """The modes of all tasks, sorted by task, then machine, then nodes."""

    first: Indices
    """Per task: the position of its first mode; one more entry holds the number of all modes. Transfers and
    virtual tasks have no modes.
    """
    machine: Indices
    seconds: Doubles
    need: Integers
    """Per mode: its nodes and resource amounts, packed into one integer."""
    charge: Doubles
    """Contribution of a mode to the objective, apart from its seconds."""
    drag: Doubles
    """Penalty of a mode: part of the energy of a state, but not of the objective."""
    price: Doubles
    """Per mode: its cost."""
    budgets: int
    use: Doubles
    """Modes x budgets: the share of each budget that a mode consumes."""


class SharedLinks(NamedTuple):
    """Transfer times between machines; read only if ``far`` is set."""

    far: int
    locations: int
    source: Indices
    """Per task: for a transfer, the binding variable of its source; otherwise the number of variables."""
    moved: Doubles
    """Per task: the bytes that it moves if it is a transfer."""
    size: Doubles
    files: Doubles
    fixed: Doubles
    """Per edge: ``size`` in bytes, number of ``files`` and ``fixed`` seconds."""
    host: Indices
    location: Indices
    """Per machine: its ``host`` and its ``location``."""
    latency: Doubles
    inverse: Doubles
    """Locations x locations: ``latency`` is seconds per file, ``inverse`` seconds per byte."""


class SharedProblem(NamedTuple):
    """The task graph, and the free capacity of the machines before any task is placed."""

    tasks: int
    machines: int
    variables: int
    guard: int
    """Integer in which only the guard bits of packed integers are set."""
    variable: Indices
    earliest: Doubles
    tail: Doubles
    """Per task: lower bound of the seconds between its finish and the makespan."""
    pointer: Indices
    before: Indices
    after_pointer: Indices
    after: Indices
    open: Flags
    """Per machine: whether its occupancy is unlimited."""
    step_pointer: Integers
    step_time: Doubles
    step_free: Integers
    """Per machine (CSR with ``step_pointer``): the free capacity without any task, as steps with a time and a
    packed integer.
    """


class SharedSchedule(NamedTuple):
    """A decoded schedule and the remaining free capacity."""

    start: Doubles
    finish: Doubles
    """Per task: its start and its finish."""
    first: Integers
    last: Integers
    """Per machine: the positions of its first and its last step."""
    time: Doubles
    free: Integers
    """Per step: ``time`` is its begin, ``free`` the packed free capacity until the next step. The last step
    has no end.
    """


@kernel
def _generate_schedule(
    problem: SharedProblem,
    links: SharedLinks,
    modes: SharedModes,
    forward: int,
    order: Indices,
    mode: Indices,
    bound: Indices,
    limit_s: float,
    schedule: SharedSchedule,
) -> float:
    """Decode a state; return the makespan, or infinity if it would exceed ``limit_s``.

    A state is decoded by serial schedule generation with insertion (R. Kolisch, EJOR 90(2), 1996): in the
    given order, each task starts at the first time at or after the arrival of its data at which its machine
    has enough free for its whole duration. Nodes and countable amounts are *packed* into one integer, one
    field each with a guard bit on top, so that one subtraction compares all of them.

    If ``forward`` is 0, the schedule is generated backwards: tasks are in descending order of finish, times
    count from the end, and transfers take no time.
    """
    _reset_steps(problem, modes, mode, schedule)
    pointer, before = problem.pointer, problem.before
    if forward == 0:
        pointer, before = problem.after_pointer, problem.after
    start, finish = schedule.start, schedule.finish
    time, free = schedule.time, schedule.free
    makespan = 0.0
    for position in range(problem.tasks):
        task = order[position]
        ready = 0.0
        seconds = 0.0
        chosen = mode[task]
        computes = chosen < modes.first[task + 1]
        if computes:
            seconds = modes.seconds[chosen]
        if links.far != 0 and forward != 0:
            ready, seconds = _arrival(problem, links, bound, finish, task, seconds)
        else:
            if forward != 0:
                ready = problem.earliest[task]
            for edge in range(pointer[task], pointer[task + 1]):
                end = finish[before[edge]]
                if end > ready:
                    ready = end
        if computes and seconds > 0.0:
            machine = modes.machine[chosen]
            if problem.open[machine] == 0:
                first, last = schedule.first[machine], schedule.last[machine]
                ready, last = _insert_task(
                    time, free, first, last, problem.guard, ready, seconds, modes.need[chosen]
                )
                schedule.last[machine] = last
        end = ready + seconds
        start[task] = ready
        finish[task] = end
        if end > makespan:
            makespan = end
        if forward != 0 and end + problem.tail[task] > limit_s:
            return INFINITY
    return makespan


@kernel
def _reset_steps(problem: SharedProblem, modes: SharedModes, mode: Indices, schedule: SharedSchedule) -> None:
    """Reset the free capacity of all machines, with space for two more steps per task of a machine."""
    first, last = schedule.first, schedule.last
    if problem.machines > 1:
        for machine in range(problem.machines):
            last[machine] = 0
        for task in range(problem.tasks):
            chosen = mode[task]
            if chosen < modes.first[task + 1]:
                last[modes.machine[chosen]] += 2
    step = 0
    for machine in range(problem.machines):
        reserved = last[machine]
        first[machine] = step
        for position in range(problem.step_pointer[machine], problem.step_pointer[machine + 1]):
            schedule.time[step] = problem.step_time[position]
            schedule.free[step] = problem.step_free[position]
            step += 1
        last[machine] = step - 1
        step += reserved


@kernel
def _arrival(
    problem: SharedProblem, links: SharedLinks, bound: Indices, finish: Doubles, task: int, seconds: float
) -> tuple[float, float]:
    """Return when all data of a task have arrived, and its seconds; for a transfer, those of its link."""
    machine = bound[problem.variable[task]]
    source = links.source[task]
    if source < problem.variables:
        origin = bound[source]
        if links.host[origin] != links.host[machine]:
            link = links.location[origin] * links.locations + links.location[machine]
            seconds = links.latency[link] + links.moved[task] * links.inverse[link]
        # A transfer needs its data at its source.
        machine = origin
    host = links.host[machine]
    location = links.location[machine]
    ready = problem.earliest[task]
    for edge in range(problem.pointer[task], problem.pointer[task + 1]):
        before = problem.before[edge]
        end = finish[before]
        origin = bound[problem.variable[before]]
        if links.host[origin] != host:
            link = links.location[origin] * links.locations + location
            end += (
                links.fixed[edge]
                + links.files[edge] * links.latency[link]
                + links.size[edge] * links.inverse[link]
            )
        if end > ready:
            ready = end
    return ready, seconds


@kernel
def _insert_task(
    time: Doubles, free: Integers, first: int, last: int, guard: int, ready: float, seconds: float, need: int
) -> tuple[float, int]:
    """Occupy ``need`` at the first feasible time from ``ready`` on; return that time and the last step.

    If there is no such time, nothing is occupied and the time is infinity.
    """
    low, high = first, last
    while low < high:
        middle = (low + high + 1) >> 1
        if time[middle] <= ready:
            low = middle
        else:
            high = middle - 1
    # ``begin`` is the step in which the task starts, ``step`` the one that is checked.
    begin, step, start = low, low, ready
    while True:
        if ((free[step] - need) & guard) != 0:
            if step == last:
                return INFINITY, last
            step += 1
            begin, start = step, time[step]
        elif step == last or time[step + 1] >= start + seconds:
            break
        else:
            step += 1
    end = start + seconds
    if end == start:
        return start, last
    if step == last or time[step + 1] != end:
        # The step continues after the finish of the task.
        for back in range(last - step):
            time[last + 1 - back] = time[last - back]
            free[last + 1 - back] = free[last - back]
        time[step + 1] = end
        free[step + 1] = free[step]
        last += 1
    elif free[step] - need == free[step + 1]:
        for later in range(step + 1, last):
            time[later] = time[later + 1]
            free[later] = free[later + 1]
        last -= 1
    if time[begin] != start:
        for back in range(last - begin):
            time[last + 1 - back] = time[last - back]
            free[last + 1 - back] = free[last - back]
        begin += 1
        step += 1
        time[begin] = start
        free[begin] = free[begin - 1]
        last += 1
    elif begin > first and free[begin] - need == free[begin - 1]:
        for later in range(begin, last):
            time[later] = time[later + 1]
            free[later] = free[later + 1]
        last -= 1
        step -= 1
    for lowered in range(begin, step + 1):
        free[lowered] -= need
    return start, last


class SharedMoves(NamedTuple):
    """The possible moves, and the probability of each kind of move."""

    shifts: int
    shifted: Indices
    """Tasks with more than one possible position in the order."""
    molds: int
    molded: Indices
    """Tasks that have several modes on some machine."""
    takes: int
    taken: Indices
    """Variables with several candidate machines."""
    candidate_pointer: Indices
    candidate: Indices
    candidate_set: Indices
    """``candidate`` holds the candidate machines of each set (CSR with ``candidate_pointer``),
    ``candidate_set`` the set of each variable.
    """
    member_pointer: Indices
    member: Indices
    """``member`` holds the tasks of each variable (CSR with ``member_pointer``)."""
    justify_share: float
    mold_share: float
    take_share: float
    """Probabilities of justifications, mode changes and moves of variables, in this order; all other moves
    are shifts.
    """
    both_share: float
    """Probability that a mode change or a move of a variable also shifts the task."""


class SharedState(NamedTuple):
    """A state: task order, position of each task in it, mode of each task, machine of each variable."""

    order: Indices
    place: Indices
    mode: Indices
    """Per task: its mode; for a task without modes, ``SharedModes.first`` of the next task."""
    bound: Indices


@kernel
def _copy_state(tasks: int, variables: int, state: SharedState, other: SharedState) -> None:
    for task in range(tasks):
        other.order[task] = state.order[task]
        other.place[task] = state.place[task]
        other.mode[task] = state.mode[task]
    for variable in range(variables):
        other.bound[variable] = state.bound[variable]


@inlined_kernel
def _shift_task(problem: SharedProblem, task: int, draw: float, state: SharedState) -> None:
    """Move a task to another position between its last predecessor and its first successor in the order."""
    place = state.place
    high = problem.tasks - 1
    low = 0
    for edge in range(problem.pointer[task], problem.pointer[task + 1]):
        position = place[problem.before[edge]] + 1
        if position > low:
            low = position
    for edge in range(problem.after_pointer[task], problem.after_pointer[task + 1]):
        position = place[problem.after[edge]] - 1
        if position < high:
            high = position
    if low < high:
        target = low + int(draw * (high - low))
        if target >= place[task]:
            target += 1
        _move_task(task, target, state.order, place)


@kernel
def _move_task(task: int, target: int, order: Indices, place: Indices) -> None:
    """Move a task to position ``target`` of the order; the tasks in between shift by one."""
    position = 0 + place[task]
    while position < target:
        other = order[position + 1]
        order[position] = other
        place[other] = position
        position += 1
    while position > target:
        other = order[position - 1]
        order[position] = other
        place[other] = position
        position -= 1
    order[position] = task
    place[task] = position


@inlined_kernel
def _change_mode(
    modes: SharedModes, task: int, draw: float, state: SharedState, scratch: SharedScratch
) -> int:
    """Change a task to an adjacent or a random mode on its machine; return the number of changed tasks."""
    first_mode, mode_machine = modes.first, modes.machine
    old = 0 + state.mode[task]
    machine = mode_machine[old]
    first = old
    while first > first_mode[task] and mode_machine[first - 1] == machine:
        first -= 1
    last = old
    while last + 1 < first_mode[task + 1] and mode_machine[last + 1] == machine:
        last += 1
    if draw < 0.25:
        new = old + 1
    elif draw < 0.5:
        new = old - 1
    else:
        new = first + int((draw - 0.5) * 2.0 * (last - first))
        if new >= old:
            new += 1
    if new < first or new > last:
        return 0
    scratch.changed[0] = task
    scratch.old_mode[0] = old
    state.mode[task] = new
    return 1


@inlined_kernel
def _move_variable(
    modes: SharedModes,
    moves: SharedMoves,
    variable: int,
    draw: float,
    state: SharedState,
    scratch: SharedScratch,
) -> int:
    """Move the tasks of a variable to another machine; return the number of changed modes.

    A task in the n-th smallest mode of the old machine takes the n-th smallest mode of the new machine, or
    its largest mode if it has fewer than n.
    """
    first_mode, mode_machine = modes.first, modes.machine
    old = state.bound[variable]
    first = 0 + moves.candidate_pointer[moves.candidate_set[variable]]
    others = moves.candidate_pointer[moves.candidate_set[variable] + 1] - first - 1
    picked = first + int(draw * others)
    machine = moves.candidate[picked]
    if machine >= old:
        machine = moves.candidate[picked + 1]
    state.bound[variable] = machine
    number = 0
    for position in range(moves.member_pointer[variable], moves.member_pointer[variable + 1]):
        task = moves.member[position]
        low, end = 0 + first_mode[task], 0 + first_mode[task + 1]
        if low < end:
            present = 0 + state.mode[task]
            rank = 0
            while present - rank > low and mode_machine[present - rank - 1] == old:
                rank += 1
            new = _first_on(mode_machine, low, end - 1, machine)
            while rank > 0 and new + 1 < end and mode_machine[new + 1] == machine:
                new += 1
                rank -= 1
            scratch.changed[number] = task
            scratch.old_mode[number] = present
            number += 1
            state.mode[task] = new
    return number


@kernel
def _first_on(machines: Indices, low: int, high: int, machine: int) -> int:
    """Return the first mode on a machine, by bisection; there must be one."""
    while low < high:
        middle = (low + high) // 2
        if machines[middle] < machine:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _sort_by_finish(number: int, order: Indices, key: Doubles, sense: int) -> None:
    """Sort tasks by descending ``key`` (finish), ties by ascending (1) or descending (-1) index.

    The index decides between a task of 0 seconds and its successor, which have the same finish.
    """
    gap = 1
    while gap * 3 < number:
        gap = gap * 3 + 1
    while gap > 0:
        for position in range(gap, number):
            task = 0 + order[position]
            own = key[task]
            hole = position
            while hole >= gap:
                other = 0 + order[hole - gap]
                theirs = key[other]
                if theirs > own or (theirs == own and other * sense < task * sense):
                    break
                order[hole] = other
                hole -= gap
            order[hole] = task
        gap //= 3


DRAWS = 5
"""Random numbers per step: kind of move, object, target, whether to shift too, target of the shift."""
_ROUNDING = 1e-9
"""Relative tolerance with which an amount may exceed a limit, for rounding errors."""
_JUSTIFYING = 3
"""Number of schedules generated per justification."""


class SharedGoal(NamedTuple):
    """The objective: minimise the excess over limits, then ``base + makespan * per_second + charges``."""

    base: float
    per_second: float
    deadline: float
    max_cost: float
    """Limits of makespan and cost; each is infinity if there is no limit."""
    penalty: float
    """Energy added for exceeding a limit by 100 %."""
    drag: float
    """Factor by which the drags of modes are multiplied."""
    counted: int
    """Whether charges, prices, uses or drags of modes have to be summed."""


class SharedScore(NamedTuple):
    """Objective value and excess over the limits, for the current and the best state; arrays of length 1."""

    missed: Doubles
    value: Doubles
    best_missed: Doubles
    best_value: Doubles


class SharedScratch(NamedTuple):
    """Scratch: changed tasks, their old modes, order of a justification, used share of every budget."""

    changed: Indices
    old_mode: Indices
    order: Indices
    used: Doubles


@kernel
def anneal_shared(
    problem: SharedProblem,
    links: SharedLinks,
    modes: SharedModes,
    goal: SharedGoal,
    moves: SharedMoves,
    fresh: int,
    heat: float,
    allowed: int,
    uniform: Doubles,
    exponential: Doubles,
    scratch: SharedScratch,
    schedule: SharedSchedule,
    state: SharedState,
    best: SharedState,
    score: SharedScore,
) -> int:
    """Anneal from ``state`` and store the best state in ``best``; return the number of generated schedules.

    S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi, Science 220(4598), 1983. A state is an order of the tasks, a
    mode per task and a machine per binding variable. A move shifts a task in the order between its
    predecessors and successors, changes its mode on the same machine, or moves all tasks of a variable to
    another machine. Alternatively the schedule is justified: generated backwards, then forwards in the
    resulting order (V. Valls, F. Ballestin, S. Quintanilla, EJOR 165(2), 2005). Moves change the state in
    place; a rejected move is undone.

    Deviations: the acceptance limit (current energy plus heat times an exponential variate) is drawn before a
    candidate is decoded; the probabilities are the same, and decoding stops early when a task finishes so
    late that the limit is missed. An excess over a limit of the objective or a budget adds a penalty. A mode
    may have a *drag*, which is part of the energy but not of the objective: without it moldable tasks drift
    to modes that waste nodes where that costs no time yet. Random numbers are passed in.

    Complexity per step: O(v + e + s) for v tasks, e edges and s steps of machines that are visited or moved.

    The number of generated schedules exceeds ``allowed`` by at most two. With ``fresh`` the first step only
    decodes the given state.
    """
    order, mode = state.order, state.mode
    missed, value = score.missed[0], score.value[0]
    owed, charge, drag = _sum_modes(problem.tasks, modes, goal, mode, scratch.used)
    energy = value + goal.penalty * missed + drag
    if fresh != 0:
        energy = INFINITY
    step = 0
    spent = 0
    while spent < allowed:
        draw = DRAWS * step
        limit = energy + heat * exponential[step]
        pick = uniform[draw]
        new_owed, new_charge, new_drag = owed, charge, drag
        task, origin, changed, layings = 0, 0, 0, 1
        variable, machine = problem.variables, 0
        moved = False
        if step >= fresh:
            if pick < moves.justify_share:
                layings = _JUSTIFYING
            else:
                moved = True
                pick -= moves.justify_share
                if pick < moves.mold_share:
                    task = moves.molded[int(uniform[draw + 1] * moves.molds)]
                    changed = _change_mode(modes, task, uniform[draw + 2], state, scratch)
                elif pick < moves.mold_share + moves.take_share:
                    variable = moves.taken[int(uniform[draw + 1] * moves.takes)]
                    machine = state.bound[variable]
                    changed = _move_variable(modes, moves, variable, uniform[draw + 2], state, scratch)
                    task = moves.member[moves.member_pointer[variable]]
                else:
                    task = moves.shifted[int(uniform[draw + 1] * moves.shifts)]
                origin = state.place[task]
                if pick >= moves.mold_share + moves.take_share or uniform[draw + 3] < moves.both_share:
                    _shift_task(problem, task, uniform[draw + 4], state)
                if changed > 0:
                    new_owed, new_charge, new_drag = _sum_modes(
                        problem.tasks, modes, goal, mode, scratch.used
                    )
        limit_s = INFINITY
        if goal.per_second > 0.0 and layings == 1:
            # The limit is slightly larger, so that rounding errors reject no state.
            known = new_charge + goal.penalty * new_owed + new_drag
            limit_s = (limit - known) / goal.per_second * (1.0 + _ROUNDING)
        makespan = 0.0
        for laying in range(layings):
            laid = order
            if laying > 0:
                laid = scratch.order
                if laying == 1:
                    for position in range(problem.tasks):
                        laid[position] = order[problem.tasks - 1 - position]
                _sort_by_finish(problem.tasks, laid, schedule.finish, laying * 2 - 3)
            makespan = _generate_schedule(
                problem, links, modes, 1 - laying % 2, laid, mode, state.bound, limit_s, schedule
            )
        step += 1
        spent += layings
        new_missed = new_owed + _excess(makespan, goal.deadline)
        new_value = new_charge + makespan * goal.per_second
        new_energy = new_value + goal.penalty * new_missed + new_drag
        if makespan < INFINITY and new_energy <= limit:
            if layings > 1:
                for position in range(problem.tasks):
                    task = scratch.order[position]
                    order[position] = task
                    state.place[task] = position
            missed, value, energy = new_missed, new_value, new_energy
            owed, charge, drag = new_owed, new_charge, new_drag
            if _is_better(missed, value, score.best_missed[0], score.best_value[0]):
                score.best_missed[0] = missed
                score.best_value[0] = value
                _copy_state(problem.tasks, problem.variables, state, best)
        elif moved:
            _move_task(task, origin, order, state.place)
            for position in range(changed):
                mode[scratch.changed[position]] = scratch.old_mode[position]
            if variable < problem.variables:
                state.bound[variable] = machine
    score.missed[0] = missed
    score.value[0] = value
    return spent


@kernel
def _is_better(missed: float, value: float, best_missed: float, best_value: float) -> bool:
    return missed < best_missed or (missed == best_missed and value < best_value)


@kernel
def _sum_modes(
    tasks: int, modes: SharedModes, goal: SharedGoal, mode: Indices, used: Doubles
) -> tuple[float, float, float]:
    """Return three sums over the chosen modes of all tasks: excess, objective value and drag.

    The excess is the amount by which cost and consumed budgets exceed their limits. The objective value
    does not contain the makespan. The drag is a penalty of modes (``SharedModes.drag``) that is no part of
    the objective.
    """
    if goal.counted == 0:
        return 0.0, goal.base, 0.0
    charge = goal.base
    price = 0.0
    drag = 0.0
    for budget in range(modes.budgets):
        used[budget] = 0.0
    for task in range(tasks):
        chosen = mode[task]
        if chosen < modes.first[task + 1]:
            charge += modes.charge[chosen]
            price += modes.price[chosen]
            drag += modes.drag[chosen]
            for budget in range(modes.budgets):
                used[budget] += modes.use[chosen * modes.budgets + budget]
    missed = _excess(price, goal.max_cost)
    for budget in range(modes.budgets):
        missed += _excess(used[budget], 1.0)
    return missed, charge, drag * goal.drag


@kernel
def _excess(amount: float, limit: float) -> float:
    """Return by how much an amount exceeds a limit, as a share of the limit; the amount if the limit is 0."""
    if amount <= limit * (1.0 + _ROUNDING):
        return 0.0
    if limit > 0.0:
        return (amount - limit) / limit
    return amount
