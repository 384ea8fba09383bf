"""Laying tasks on shared machines: an order and a way for every task become starts, as quickly as possible.

Serial schedule generation with insertion: in the given order, each task starts at the first moment not before
its data at which its machine has enough free for so long (R. Kolisch, European Journal of Operational
Research 90(2), 1996). Nodes and countable amounts are *packed*: a field of one integer each, with a spare bit
on top, so that one subtraction compares them all. A way is a mode of a task with all that follows from it
written out: machine, seconds, packed needs, charge.

Deviations: laying is given up once some task ends so late that the limit is missed whatever follows. Laid
backwards, from the last task to the first, the same code justifies a schedule (V. Valls, F. Ballestin,
S. Quintanilla, EJOR 165(2), 2005).

Complexity: O(v + e + s) for v tasks, e edges and s steps that are looked at or moved.

Moves of the search on shared machines: other places in the order, other ways, other machines.

Every move changes the state in place; whoever asked for it keeps what is needed to take it back.

Annealing on shared machines: moves, laying and acceptance in one loop.

S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi, Science 220(4598), 1983. A state is an order of the tasks, a way
for each and a machine per binding variable. A move puts a task somewhere else between its predecessors and
its successors, gives it another way on its machine, or takes all tasks of a variable to another machine; or
the schedule is justified: laid backwards, then forwards again, in the order that comes of it (V. Valls,
F. Ballestin, S. Quintanilla, EJOR 165(2), 2005).

Deviations: a candidate is judged against a limit that is drawn before it is laid, the present energy plus
heat times an exponential variate, which gives the same probabilities and lets laying stop early. Limits of
the objective and budgets are penalties. Ways may have a *drag*, which counts for the energy and not for what
a state is worth: without it moldable tasks drift to ways that waste nodes wherever that costs no time yet.
Random numbers are drawn outside.

Complexity: that of laying per step.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.compilation import kernel
from weft.kernels.problem import Doubles, Flags, Indices, Integers

__all__ = [
    "DRAWS",
    "SharedGoal",
    "SharedLinks",
    "SharedModes",
    "SharedMoves",
    "SharedProblem",
    "SharedSchedule",
    "SharedScore",
    "SharedScratch",
    "SharedState",
    "anneal_shared",
    "change_mode",
    "copy_state",
    "generate_schedule",
    "move_task",
    "move_variable",
    "shift_task",
    "sort_by_finish",
]


_NEVER = float("inf")


class SharedModes(NamedTuple):
    """The ways to run tasks, by task, then machine, then nodes."""

    first: Indices
    """Per task and one more; transfers and virtual tasks have no ways."""
    machine: Indices
    seconds: Doubles
    need: Integers
    """Packed."""
    charge: Doubles
    """What a way adds to the objective, apart from its seconds."""
    drag: Doubles
    """What a way adds to the energy besides (``weft.kernels.shared_annealing``)."""
    price: Doubles
    """What a way costs."""
    budgets: int
    use: Doubles
    """Ways x budgets: the share of each budget that a way uses up."""


class SharedLinks(NamedTuple):
    """What data take between machines; read only where ``far`` is set."""

    far: int
    locations: int
    source: Indices
    """Per task: of a transfer, the variable it starts from; else the number of variables."""
    moved: Doubles
    """Per task: bytes a transfer moves."""
    size: Doubles
    files: Doubles
    fixed: Doubles
    """Per edge."""
    host: Indices
    location: Indices
    """Per machine."""
    latency: Doubles
    inverse: Doubles
    """Locations x locations."""


class SharedProblem(NamedTuple):
    """Tasks and machines."""

    tasks: int
    machines: int
    variables: int
    guard: int
    """The spare bits of packed numbers."""
    variable: Indices
    earliest: Doubles
    tail: Doubles
    """Per task: the seconds that pass at least between its end and that of the last task."""
    pointer: Indices
    before: Indices
    after_pointer: Indices
    after: Indices
    open: Flags
    """Per machine: whether tasks do not disturb each other."""
    step_pointer: Integers
    step_time: Doubles
    step_free: Integers
    """Per machine (CSR): what is free before any task is laid."""


class SharedSchedule(NamedTuple):
    """Where tasks were laid, and what is free now."""

    start: Doubles
    finish: Doubles
    """Per task."""
    first: Integers
    last: Integers
    """Per machine: its first and its last step."""
    time: Doubles
    free: Integers
    """Steps; each holds until the next, the last for ever."""


@kernel
def generate_schedule(
    shop: SharedProblem,
    links: SharedLinks,
    ways: SharedModes,
    forward: int,
    order: Indices,
    way: Indices,
    bound: Indices,
    limit_s: float,
    layout: SharedSchedule,
) -> float:
    """Lay all tasks and give the end of the last one; infinite: it would be after the limit.

    Backwards the order is that of the ends, and times count from the end; data then take no time.
    """
    _reset_steps(shop, ways, way, layout)
    pointer, before = shop.pointer, shop.before
    if forward == 0:
        pointer, before = shop.after_pointer, shop.after
    start, finish = layout.start, layout.finish
    time, free = layout.time, layout.free
    makespan = 0.0
    for position in range(shop.tasks):
        task = order[position]
        ready = 0.0
        seconds = 0.0
        chosen = way[task]
        computes = chosen < ways.first[task + 1]
        if computes:
            seconds = ways.seconds[chosen]
        if links.far != 0 and forward != 0:
            ready, seconds = _arrival(shop, links, bound, finish, task, seconds)
        else:
            if forward != 0:
                ready = shop.earliest[task]
            for edge in range(pointer[task], pointer[task + 1]):
                end = finish[before[edge]]
                if end > ready:
                    ready = end
        if computes and seconds > 0.0:
            machine = ways.machine[chosen]
            if shop.open[machine] == 0:
                first, last = layout.first[machine], layout.last[machine]
                ready, last = _insert_task(
                    time, free, first, last, shop.guard, ready, seconds, ways.need[chosen]
                )
                layout.last[machine] = last
        end = ready + seconds
        start[task] = ready
        finish[task] = end
        if end > makespan:
            makespan = end
        if forward != 0 and end + shop.tail[task] > limit_s:
            return _NEVER
    return makespan


@kernel
def _reset_steps(shop: SharedProblem, ways: SharedModes, way: Indices, layout: SharedSchedule) -> None:
    """Begin with machines on which nothing is laid; each has room for the tasks it will get."""
    first, last = layout.first, layout.last
    if shop.machines > 1:
        for machine in range(shop.machines):
            last[machine] = 0
        for task in range(shop.tasks):
            chosen = way[task]
            if chosen < ways.first[task + 1]:
                last[ways.machine[chosen]] += 2
    step = 0
    for machine in range(shop.machines):
        room = last[machine]
        first[machine] = step
        for position in range(shop.step_pointer[machine], shop.step_pointer[machine + 1]):
            layout.time[step] = shop.step_time[position]
            layout.free[step] = shop.step_free[position]
            step += 1
        last[machine] = step - 1
        step += room


@kernel
def _arrival(
    shop: SharedProblem, links: SharedLinks, bound: Indices, finish: Doubles, task: int, seconds: float
) -> tuple[float, float]:
    """Give the moment at which the data of a task are there, and its seconds, also if it is a transfer."""
    machine = bound[shop.variable[task]]
    source = links.source[task]
    if source < shop.variables:
        origin = bound[source]
        if links.host[origin] != links.host[machine]:
            link = links.location[origin] * links.locations + links.location[machine]
            seconds = links.latency[link] + links.moved[task] * links.inverse[link]
        # It needs its data where it starts from.
        machine = origin
    host = links.host[machine]
    location = links.location[machine]
    ready = shop.earliest[task]
    for edge in range(shop.pointer[task], shop.pointer[task + 1]):
        before = shop.before[edge]
        end = finish[before]
        origin = bound[shop.variable[before]]
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
    """Take what a task needs at the first moment not before ``ready``; give the moment and the last step."""
    low, high = first, last
    while low < high:
        middle = (low + high + 1) >> 1
        if time[middle] <= ready:
            low = middle
        else:
            high = middle - 1
    # ``begin`` is the step in which the task starts, ``step`` the one that is looked at.
    begin, step, start = low, low, ready
    while True:
        if ((free[step] - need) & guard) != 0:
            if step == last:
                return _NEVER, last
            step += 1
            begin, start = step, time[step]
        elif step == last or time[step + 1] >= start + seconds:
            break
        else:
            step += 1
    end = start + seconds
    if step == last or time[step + 1] != end:
        # The step goes on after the task has ended.
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
    """What may be changed, and how often."""

    shifts: int
    shifted: Indices
    """Tasks that have somewhere else to go in the order."""
    molds: int
    molded: Indices
    """Tasks that have several ways on some machine."""
    takes: int
    taken: Indices
    """Variables that may be bound to several machines."""
    candidate_pointer: Indices
    candidate: Indices
    candidate_set: Indices
    """Their machines (CSR over sets; per variable: its set)."""
    member_pointer: Indices
    member: Indices
    """Per variable: its tasks (CSR)."""
    justify_share: float
    mold_share: float
    take_share: float
    """Shares of the moves; the others are shifts."""
    both_share: float
    """How often a move of another kind shifts the task, too."""


class SharedState(NamedTuple):
    """Order, position of each task in it, way of each task, machine of each variable."""

    order: Indices
    place: Indices
    way: Indices
    """Of a task that has no ways: their end, ``Ways.first`` of the next task."""
    bound: Indices


@kernel
def copy_state(tasks: int, variables: int, state: SharedState, other: SharedState) -> None:
    """Make another state like this one."""
    for task in range(tasks):
        other.order[task] = state.order[task]
        other.place[task] = state.place[task]
        other.way[task] = state.way[task]
    for variable in range(variables):
        other.bound[variable] = state.bound[variable]


@kernel
def shift_task(
    pointer: Indices,
    before: Indices,
    after_pointer: Indices,
    after: Indices,
    task: int,
    high: int,
    draw: float,
    order: Indices,
    place: Indices,
) -> None:
    """Put a task somewhere else between the last of its predecessors and the first of its successors.

    ``high`` is the last position of all.
    """
    low = 0
    for edge in range(pointer[task], pointer[task + 1]):
        position = place[before[edge]] + 1
        if position > low:
            low = position
    for edge in range(after_pointer[task], after_pointer[task + 1]):
        position = place[after[edge]] - 1
        if position < high:
            high = position
    if low < high:
        target = low + int(draw * (high - low))
        if target >= place[task]:
            target += 1
        move_task(task, target, order, place)


@kernel
def move_task(task: int, target: int, order: Indices, place: Indices) -> None:
    """Put a task at a position; those between move up or down by one."""
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


@kernel
def change_mode(
    first_way: Indices,
    way_machine: Indices,
    task: int,
    draw: float,
    way: Indices,
    changed: Indices,
    old_way: Indices,
) -> int:
    """Give a task the next or any other way on its machine; give how many tasks were changed."""
    old = 0 + way[task]
    machine = way_machine[old]
    first = old
    while first > first_way[task] and way_machine[first - 1] == machine:
        first -= 1
    last = old
    while last + 1 < first_way[task + 1] and way_machine[last + 1] == machine:
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
    changed[0] = task
    old_way[0] = old
    way[task] = new
    return 1


@kernel
def move_variable(
    first_way: Indices,
    way_machine: Indices,
    moves: SharedMoves,
    variable: int,
    draw: float,
    state: SharedState,
    changed: Indices,
    old_way: Indices,
) -> int:
    """Take the tasks of a variable to another machine; give how many changed their ways.

    A task that had the n-th smallest way here takes the n-th smallest there, if there are so many.
    """
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
        low, end = 0 + first_way[task], 0 + first_way[task + 1]
        if low < end:
            present = 0 + state.way[task]
            rank = 0
            while present - rank > low and way_machine[present - rank - 1] == old:
                rank += 1
            new = _first_on(way_machine, low, end - 1, machine)
            while rank > 0 and new + 1 < end and way_machine[new + 1] == machine:
                new += 1
                rank -= 1
            changed[number] = task
            old_way[number] = present
            number += 1
            state.way[task] = new
    return number


@kernel
def _first_on(machines: Indices, low: int, high: int, machine: int) -> int:
    """Find the first of some ways that is on a machine, which one of them is."""
    while low < high:
        middle = (low + high) // 2
        if machines[middle] < machine:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def sort_by_finish(number: int, order: Indices, key: Doubles, sense: int) -> None:
    """Sort tasks by descending ends, ties by ascending (1) or descending (-1) index.

    Of a task of no seconds and its successor, the index says which one comes first.
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
"""Uniform numbers per step: which move, of what, where to, whether a shift goes with it, where to."""
_INFINITE = float("inf")
_ROUNDING = 1e-9
"""Share by which a limit may be exceeded by rounding."""
_JUSTIFYING = 3
"""Layings of a justification."""


class SharedGoal(NamedTuple):
    """What is to be small: ``base + makespan * per_second + charges``; first of all, no limit is missed."""

    base: float
    per_second: float
    deadline: float
    max_cost: float
    """Infinite: no limit."""
    penalty: float
    """What it adds to the energy to miss a limit by the whole of it."""
    drag: float
    """By what the drags of ways are multiplied."""
    counted: int
    """Whether charges, prices, uses or drags of ways have to be added up."""


class SharedScore(NamedTuple):
    """What the present state and the best one are worth (misses, then the objective), in one element each."""

    missed: Doubles
    value: Doubles
    best_missed: Doubles
    best_value: Doubles


class SharedScratch(NamedTuple):
    """What a move changed, the order of a justification, and what is used of every budget."""

    changed: Indices
    old_way: Indices
    order: Indices
    used: Doubles


@kernel
def anneal_shared(
    shop: SharedProblem,
    links: SharedLinks,
    ways: SharedModes,
    goal: SharedGoal,
    moves: SharedMoves,
    fresh: int,
    heat: float,
    allowed: int,
    uniform: Doubles,
    exponential: Doubles,
    scratch: SharedScratch,
    layout: SharedSchedule,
    state: SharedState,
    best: SharedState,
    score: SharedScore,
) -> int:
    """Go on from a state and keep the best one; give how often all tasks were laid.

    That is at most twice more than allowed. ``fresh``: nothing is known of the state, the first step only
    lays it.
    """
    order, way = state.order, state.way
    changed_task, old_way = scratch.changed, scratch.old_way
    missed, value = score.missed[0], score.value[0]
    owed, charge, drag = _sum_modes(shop.tasks, ways, goal, way, scratch.used)
    energy = value + goal.penalty * missed + drag
    if fresh != 0:
        energy = _INFINITE
    step = 0
    spent = 0
    while spent < allowed:
        draw = DRAWS * step
        limit = energy + heat * exponential[step]
        pick = uniform[draw]
        new_owed, new_charge, new_drag = owed, charge, drag
        task, origin, changed, layings = 0, 0, 0, 1
        variable, machine = shop.variables, 0
        moved = False
        if step >= fresh:
            if pick < moves.justify_share:
                layings = _JUSTIFYING
            else:
                moved = True
                pick -= moves.justify_share
                if pick < moves.mold_share:
                    task = moves.molded[int(uniform[draw + 1] * moves.molds)]
                    changed = change_mode(
                        ways.first, ways.machine, task, uniform[draw + 2], way, changed_task, old_way
                    )
                elif pick < moves.mold_share + moves.take_share:
                    variable = moves.taken[int(uniform[draw + 1] * moves.takes)]
                    machine = state.bound[variable]
                    changed = move_variable(
                        ways.first,
                        ways.machine,
                        moves,
                        variable,
                        uniform[draw + 2],
                        state,
                        changed_task,
                        old_way,
                    )
                    task = moves.member[moves.member_pointer[variable]]
                else:
                    task = moves.shifted[int(uniform[draw + 1] * moves.shifts)]
                origin = state.place[task]
                if pick >= moves.mold_share + moves.take_share or uniform[draw + 3] < moves.both_share:
                    shift_task(
                        shop.pointer,
                        shop.before,
                        shop.after_pointer,
                        shop.after,
                        task,
                        shop.tasks - 1,
                        uniform[draw + 4],
                        order,
                        state.place,
                    )
                if changed > 0:
                    new_owed, new_charge, new_drag = _sum_modes(shop.tasks, ways, goal, way, scratch.used)
        limit_s = _INFINITE
        if goal.per_second > 0.0 and layings == 1:
            # A little more because of rounding.
            known = new_charge + goal.penalty * new_owed + new_drag
            limit_s = (limit - known) / goal.per_second * (1.0 + _ROUNDING)
        makespan = 0.0
        for laying in range(layings):
            laid = order
            if laying > 0:
                laid = scratch.order
                if laying == 1:
                    for position in range(shop.tasks):
                        laid[position] = order[shop.tasks - 1 - position]
                sort_by_finish(shop.tasks, laid, layout.finish, laying * 2 - 3)
            makespan = generate_schedule(
                shop, links, ways, 1 - laying % 2, laid, way, state.bound, limit_s, layout
            )
        step += 1
        spent += layings
        new_missed = new_owed + _excess(makespan, goal.deadline)
        new_value = new_charge + makespan * goal.per_second
        new_energy = new_value + goal.penalty * new_missed + new_drag
        if makespan < _INFINITE and new_energy <= limit:
            if layings > 1:
                for position in range(shop.tasks):
                    task = scratch.order[position]
                    order[position] = task
                    state.place[task] = position
            missed, value, energy = new_missed, new_value, new_energy
            owed, charge, drag = new_owed, new_charge, new_drag
            if _is_better(missed, value, score.best_missed[0], score.best_value[0]):
                score.best_missed[0] = missed
                score.best_value[0] = value
                copy_state(shop.tasks, shop.variables, state, best)
        elif moved:
            move_task(task, origin, order, state.place)
            for position in range(changed):
                way[changed_task[position]] = old_way[position]
            if variable < shop.variables:
                state.bound[variable] = machine
    score.missed[0] = missed
    score.value[0] = value
    return spent


@kernel
def _is_better(missed: float, value: float, best_missed: float, best_value: float) -> bool:
    return missed < best_missed or (missed == best_missed and value < best_value)


@kernel
def _sum_modes(
    tasks: int, ways: SharedModes, goal: SharedGoal, way: Indices, used: Doubles
) -> tuple[float, float, float]:
    """Give what the ways alone add: to the misses, to the objective and to the energy besides."""
    if goal.counted == 0:
        return 0.0, goal.base, 0.0
    charge = goal.base
    price = 0.0
    drag = 0.0
    for budget in range(ways.budgets):
        used[budget] = 0.0
    for task in range(tasks):
        chosen = way[task]
        if chosen < ways.first[task + 1]:
            charge += ways.charge[chosen]
            price += ways.price[chosen]
            drag += ways.drag[chosen]
            for budget in range(ways.budgets):
                used[budget] += ways.use[chosen * ways.budgets + budget]
    missed = _excess(price, goal.max_cost)
    for budget in range(ways.budgets):
        missed += _excess(used[budget], 1.0)
    return missed, charge, drag * goal.drag


@kernel
def _excess(amount: float, limit: float) -> float:
    """Give by which share a limit is missed."""
    if amount <= limit * (1.0 + _ROUNDING):
        return 0.0
    if limit > 0.0:
        return (amount - limit) / limit
    return amount
