"""Simulated annealing of order and machines where machines run one task at a time."""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.compilation import inlined_kernel, kernel
from weft.kernels.problem import Doubles, Flags, Indices, Integers


class SingleProblem(NamedTuple):
    """The instance as arrays. Task indices are a topological order."""

    tasks: int
    machines: int
    hosts: int
    variable: Indices
    choice: Indices
    """Per variable: its row of ``option``."""
    option_pointer: Indices
    option: Indices
    """``option`` holds the candidate machines of each row, ascending (CSR with ``option_pointer``)."""
    member_pointer: Indices
    member: Indices
    """``member`` holds the tasks of each variable, ascending (CSR with ``member_pointer``)."""
    earliest: Doubles
    seconds: Doubles
    """Tasks x machines: seconds of a task; 0 if the task occupies no machine."""
    lined: Flags
    """Per machine: whether it runs one task at a time; otherwise it is unlimited."""
    host: Indices
    """Per machine: its host."""
    pointer: Indices
    before: Indices
    size: Doubles
    files: Doubles
    fixed: Doubles
    """Per edge: ``size`` in bytes, number of ``files`` and ``fixed`` seconds. ``files`` and ``fixed`` are
    None if transfer times depend on bytes only.
    """
    after_pointer: Indices
    after: Indices
    after_edge: Indices
    """Predecessors and successors of each task, as in ``weft.kernels.problem.TaskArrays``."""
    inverse: Doubles
    latency: Doubles
    apart: Doubles
    """Hosts x hosts: ``inverse`` is seconds per byte, ``latency`` seconds per file, ``apart`` is 1; all are 0
    within a host. ``latency`` and ``apart`` are None if ``fixed`` is None.
    """
    sinks: int
    sink: Indices
    """Tasks without successors; one of them finishes last."""


class SingleObjective(NamedTuple):
    """The terms of the energy: makespan, weights of tasks on machines, penalties for exceeded limits."""

    per_second: float
    deadline: float
    per_late_second: float
    weighed: int
    """Whether ``weight`` and ``price`` are read; otherwise only the makespan counts."""
    weight: Doubles
    """Tasks x machines: energy of a task on a machine."""
    price: Doubles
    """Tasks x machines: cost of a task on a machine."""
    most: float
    """Maximal cost; infinity if there is no limit."""
    per_excess: float


class SingleState(NamedTuple):
    """The current state and the best one; the *line* of a machine is the sequence of its tasks."""

    order: Indices
    position: Indices
    """``order`` holds the tasks, each after its predecessors and after the previous task of its line;
    ``position`` is the position of each task in it.
    """
    machine: Indices
    home: Indices
    """Per task: its ``machine``, and the host of this machine (``home``)."""
    line: Indices
    """Per task: its machine if the task occupies that machine, otherwise the number of machines."""
    previous: Indices
    following: Indices
    """Per task: the previous and the next task on its line; the number of tasks if there is none."""
    first: Indices
    last: Indices
    """Per machine: first and last task of its line; the number of tasks if the line is empty."""
    spent: Doubles
    finish: Doubles
    tail: Doubles
    """Per task: its seconds (``spent``), the longest path to its finish (``finish``), and the longest path
    from its start (``tail``).
    """
    stale: Flags
    """Per task: whether its finish or tail must be recomputed; 0 between moves."""
    total: Doubles
    """Four elements: makespan, sum of weights, sum of prices, least energy so far."""
    best_order: Indices
    best_machine: Indices


@inlined_kernel
def _transfer_lag(problem: SingleProblem, fixed: Doubles, edge: int, link: int) -> float:
    """Return the seconds that the data of an edge take over a link, computed as in the decoder.

    Pass ``problem.fixed`` as ``fixed``: numba omits a branch only if an argument is None.
    """
    if fixed is None:
        return problem.size[edge] * problem.inverse[link]
    delay = fixed[edge] * problem.apart[link] + problem.files[edge] * problem.latency[link]
    return delay + problem.size[edge] * problem.inverse[link]


@kernel
def _find_ready(problem: SingleProblem, home: Indices, finish: Doubles, task: int, here: int) -> float:
    """Return the time when all data of a task are on host ``here``."""
    latest = problem.earliest[task]
    before, hosts = problem.before, problem.hosts
    for edge in range(problem.pointer[task], problem.pointer[task + 1]):
        other = before[edge]
        link = 0 + home[other] * hosts + here
        arrival = finish[other] + _transfer_lag(problem, problem.fixed, edge, link)
        if arrival > latest:
            latest = arrival
    return latest


@kernel
def _longest_tail(problem: SingleProblem, home: Indices, tail: Doubles, task: int, here: int) -> float:
    """Return the longest path after a task on host ``here``, without the next task of its machine."""
    longest = 0.0
    after, after_edge = problem.after, problem.after_edge
    links = here * problem.hosts
    for place in range(problem.after_pointer[task], problem.after_pointer[task + 1]):
        other = after[place]
        link = 0 + home[other] + links
        edge = 0 + after_edge[place]
        length = tail[other] + _transfer_lag(problem, problem.fixed, edge, link)
        if length > longest:
            longest = length
    return longest


@kernel
def _reset_state(problem: SingleProblem, objective: SingleObjective, state: SingleState) -> None:
    """Compute lines, paths and totals of a state from its order and machines."""
    tasks, machines = problem.tasks, problem.machines
    for machine in range(machines):
        state.first[machine] = tasks
        state.last[machine] = tasks
    for place in range(tasks):
        task = 0 + state.order[place]
        machine = 0 + state.machine[task]
        state.position[task] = place
        state.home[task] = problem.host[machine]
        spent = problem.seconds[task * machines + machine]
        state.spent[task] = spent
        state.stale[task] = 0
        state.previous[task] = tasks
        state.following[task] = tasks
        state.line[task] = machines
        if spent > 0.0 and problem.lined[machine] != 0:
            state.line[task] = machine
            other = state.last[machine]
            state.previous[task] = other
            if other < tasks:
                state.following[other] = task
            else:
                state.first[machine] = task
            state.last[machine] = task
    paid = 0.0
    owed = 0.0
    for place in range(tasks):
        task = 0 + state.order[place]
        start = _find_ready(problem, state.home, state.finish, task, 0 + state.home[task])
        other = state.previous[task]
        if other < tasks and state.finish[other] > start:
            start = state.finish[other]
        state.finish[task] = start + state.spent[task]
        if objective.weighed != 0:
            cell = task * machines + state.machine[task]
            owed += objective.weight[cell]
            paid += objective.price[cell]
    for back in range(tasks):
        task = 0 + state.order[tasks - 1 - back]
        length = _longest_tail(problem, state.home, state.tail, task, 0 + state.home[task])
        other = state.following[task]
        if other < tasks and state.tail[other] > length:
            length = state.tail[other]
        state.tail[task] = length + state.spent[task]
    last = 0.0
    for place in range(problem.sinks):
        if state.finish[problem.sink[place]] > last:
            last = state.finish[problem.sink[place]]
    state.total[0] = last
    state.total[1] = owed
    state.total[2] = paid


@inlined_kernel
def _find_slot(problem: SingleProblem, state: SingleState, place: int, machine: int) -> int:
    """Return the last task on a machine's line before ``place`` in the order; the number of tasks if none."""
    tasks = problem.tasks
    if problem.machines * problem.machines <= tasks:
        # With few machines and long lines, one of the previous tasks in the order is on this line.
        while place > 0:
            place -= 1
            if state.line[state.order[place]] == machine:
                return 0 + state.order[place]
        return tasks
    task = 0 + state.last[machine]
    while task < tasks and state.position[task] >= place:
        task = 0 + state.previous[task]
    return task


@kernel
def _move_on_line(
    problem: SingleProblem, task: int, machine: int, place: int, before: int, state: SingleState
) -> float:
    """Move a task to ``machine`` and to position ``place`` of the order; return the new makespan.

    In the sequence of the machine's tasks, the task follows the task ``before``. ``before`` equals the number
    of tasks if no task precedes the task, or if the task occupies nothing on the machine.
    """
    tasks = problem.tasks
    order, position, previous, following = state.order, state.position, state.previous, state.following
    old_line = state.line[task]
    old_before = 0 + previous[task]
    old_after = 0 + following[task]
    if old_before < tasks:
        following[old_before] = old_after
    elif old_line < problem.machines:
        state.first[old_line] = old_after
    if old_after < tasks:
        previous[old_after] = old_before
    elif old_line < problem.machines:
        state.last[old_line] = old_before
    spent = problem.seconds[task * problem.machines + machine]
    state.machine[task] = machine
    state.home[task] = problem.host[machine]
    state.spent[task] = spent
    behind = tasks
    if spent > 0.0 and problem.lined[machine] != 0:
        if before < tasks:
            behind = 0 + following[before]
            following[before] = task
        else:
            behind = 0 + state.first[machine]
            state.first[machine] = task
        if behind < tasks:
            previous[behind] = task
        else:
            state.last[machine] = task
        state.line[task] = machine
    else:
        state.line[task] = problem.machines
    previous[task] = before
    following[task] = behind
    here = 0 + position[task]
    low, high = here, place
    if place < here:
        low, high = place, here
        for back in range(here - place):
            other = order[here - back - 1]
            order[here - back] = other
            position[other] = here - back
    else:
        for index in range(here, place):
            other = order[index + 1]
            order[index] = other
            position[other] = index
    order[place] = task
    position[task] = place
    _follow_heads(problem, task, low, old_after, behind, state)
    _follow_tails(problem, task, high, old_before, before, state)
    last = 0.0
    finish, sink = state.finish, problem.sink
    for index in range(problem.sinks):
        end = finish[sink[index]]
        if end > last:
            last = end
    return last


@kernel
def _mark_stale(stale: Flags, tasks: int, other: int, pointer: Indices, neighbour: Indices, task: int) -> int:
    """Mark the neighbours of a task, and ``other`` if it is a task; return how many are newly marked."""
    marked = 0
    if other < tasks:
        marked += 1 - stale[other]
        stale[other] = 1
    for index in range(pointer[task], pointer[task + 1]):
        marked += 1 - stale[neighbour[index]]
        stale[neighbour[index]] = 1
    return marked


@kernel
def _follow_heads(
    problem: SingleProblem, task: int, place: int, one: int, two: int, state: SingleState
) -> None:
    """Recompute the finish of a moved task, of ``one`` and ``two``, and of all tasks that depend on them.

    ``one`` and ``two`` follow the old and the new place of the task on its line; the number of tasks if none.
    ``place`` is the first position in the order that may change.
    """
    tasks = problem.tasks
    order, home, finish, spent = state.order, state.home, state.finish, state.spent
    previous, following, stale = state.previous, state.following, state.stale
    pointer, after = problem.after_pointer, problem.after
    stale[task] = 1
    waiting = 1
    if one < tasks and stale[one] == 0:
        stale[one] = 1
        waiting += 1
    # The data come from another machine now, even if the finish of the task is the same.
    waiting += _mark_stale(stale, tasks, two, pointer, after, task)
    while waiting > 0:
        other = 0 + order[place]
        place += 1
        if stale[other] == 0:
            continue
        stale[other] = 0
        waiting -= 1
        start = _find_ready(problem, home, finish, other, 0 + home[other])
        ahead = previous[other]
        if ahead < tasks and finish[ahead] > start:
            start = finish[ahead]
        end = start + spent[other]
        if end != finish[other]:
            finish[other] = end
            waiting += _mark_stale(stale, tasks, 0 + following[other], pointer, after, other)


@kernel
def _follow_tails(
    problem: SingleProblem, task: int, place: int, one: int, two: int, state: SingleState
) -> None:
    """Recompute the tail of a moved task, of ``one`` and ``two``, and of all tasks on which they depend.

    ``one`` and ``two`` precede the old and the new place of the task on its line; the number of tasks if
    none. ``place`` is the last position in the order that may change.
    """
    tasks = problem.tasks
    order, home, tail, spent = state.order, state.home, state.tail, state.spent
    previous, following, stale = state.previous, state.following, state.stale
    pointer, before = problem.pointer, problem.before
    stale[task] = 1
    waiting = 1
    if one < tasks and stale[one] == 0:
        stale[one] = 1
        waiting += 1
    waiting += _mark_stale(stale, tasks, two, pointer, before, task)
    place += 1
    while waiting > 0:
        place -= 1
        other = 0 + order[place]
        if stale[other] == 0:
            continue
        stale[other] = 0
        waiting -= 1
        length = _longest_tail(problem, home, tail, other, 0 + home[other])
        behind = following[other]
        if behind < tasks and tail[behind] > length:
            length = tail[behind]
        length += spent[other]
        if length != tail[other]:
            tail[other] = length
            waiting += _mark_stale(stale, tasks, 0 + previous[other], pointer, before, other)


WORDS = 2
"""Number of random 63-bit words that one step uses."""
_BITS = 20
_PART = (1 << _BITS) - 1
_STAYING = 16
_NEAR = 40
"""A move draws a number below 64. Below ``_STAYING``, the task keeps its machine; from ``_NEAR`` on, it gets
the machine of a predecessor or successor; otherwise it gets a random machine.
"""
_NEARLY_ONE = 1.0 - 1e-9
_PATIENCE = 1e-12
"""Least relative improvement of the energy that counts as a new best; smaller ones may be rounding."""


@kernel
def anneal_single(
    problem: SingleProblem,
    objective: SingleObjective,
    steps: int,
    heat: float,
    cooling: float,
    word: Integers,
    variate: Doubles,
    state: SingleState,
) -> int:
    """Anneal for ``steps`` steps from the order and machines of a state; return the number of accepted moves.

    Every machine has a line of tasks in which each task waits for the one before it. Lines and edges of the
    graph together give for each task the longest path to its finish and the longest path from its start. A
    move puts a task on another machine, or after its neighbour on the line. A move is judged by the longest
    path through the task after the move, which follows from the paths of its new predecessors and successors
    without decoding: E. Balas, A. Vazacopoulos, Management Science 44(2), 1998; M. Mastrolilli, L. M.
    Gambardella, Journal of Scheduling 3(1), 2000. After an accepted move only the paths that change are
    recomputed, a few dozen of a thousand, so a move costs about the same in small and large workflows.

    Deviations: transfers take time between machines. The judgement is an upper bound because paths that the
    move shortens are ignored. Neither the makespan nor the longest path through the task may grow by more
    than the heat allows; without the second rule, tasks that are not critical would move at random on
    plateaus of the makespan of large workflows.

    ``heat`` is multiplied by ``cooling`` after every step; ``variate`` holds 2,048 exponential variates.
    """
    tasks, machines, hosts = problem.tasks, problem.machines, problem.hosts
    pointer, before, after_edge = problem.pointer, problem.before, problem.after_edge
    after_pointer, after = problem.after_pointer, problem.after
    seconds, host, lined, earliest = problem.seconds, problem.host, problem.lined, problem.earliest
    variable, choice = problem.variable, problem.choice
    option_pointer, option = problem.option_pointer, problem.option
    member_pointer, member = problem.member_pointer, problem.member
    position, machine_of, home = state.position, state.machine, state.home
    previous, following = state.previous, state.following
    spent_by, finish, tail, total = state.spent, state.finish, state.tail, state.total
    per_second, deadline, per_late = objective.per_second, objective.deadline, objective.per_late_second
    weighed = objective.weighed
    _reset_state(problem, objective, state)
    makespan = total[0]
    energy = _energy(objective, makespan, total[1], total[2])
    _keep_best(tasks, energy, state)
    made = 0
    for step in range(steps):
        one = word[2 * step]
        two = word[2 * step + 1]
        heat *= cooling

        # Draw two tasks and take the one with the longer path.
        task = ((one & _PART) * tasks) >> _BITS
        other = (((one >> _BITS) & _PART) * tasks) >> _BITS
        through = finish[task] + tail[task] - spent_by[task]
        if finish[other] + tail[other] - spent_by[other] > through:
            task = other
            through = finish[task] + tail[task] - spent_by[task]
        old = 0 + machine_of[task]
        kind = (one >> 40) & 63
        machine = old
        group = 0 + variable[task]
        first_edge = 0 + pointer[task]
        end_edge = 0 + pointer[task + 1]
        first_after = 0 + after_pointer[task]
        end_after = 0 + after_pointer[task + 1]
        if kind >= _STAYING:
            row = choice[group]
            first = 0 + option_pointer[row]
            many = option_pointer[row + 1] - first
            degree = end_edge - first_edge + end_after - first_after
            if kind >= _NEAR and degree > 0:
                pick = (((one >> 46) & 0xFFFF) * degree) >> 16
                if pick < end_edge - first_edge:
                    machine = 0 + machine_of[before[first_edge + pick]]
                else:
                    machine = 0 + machine_of[after[first_after + pick - (end_edge - first_edge)]]
                found = False
                for index in range(first, first + many):
                    if option[index] == machine:
                        found = True
                        break
                if not found:
                    continue
            else:
                machine = 0 + option[first + (((two & _PART) * many) >> _BITS)]
            if machine == old:
                continue

        # The upper limit of the cost of the longest path.
        chance = heat * variate[(two >> 40) & 2047]
        most = makespan * per_second + chance
        if makespan > deadline:
            most += (makespan - deadline) * per_late
        first = 0 + member_pointer[group]
        end = 0 + member_pointer[group + 1]
        several = machine != old and end - first > 1
        weight = 0.0
        price = 0.0
        if weighed == 0:
            own = through * per_second + heat * variate[(two >> 51) & 2047]
            if through > deadline:
                own += (through - deadline) * per_late
            if own < most:
                most = own
        elif machine != old:
            for index in range(first, end):
                cell = member[index] * machines
                weight += objective.weight[cell + machine] - objective.weight[cell + old]
                price += objective.price[cell + machine] - objective.price[cell + old]
            added = weight + objective.per_excess * (
                _excess_over(total[2] + price, objective.most) - _excess_over(total[2], objective.most)
            )
            most -= added
            if added > chance and not several and through < makespan * _NEARLY_ONE:
                # The makespan cannot decrease, because a path without this task is as long as the makespan.
                continue

        place = 0 + position[task]
        target = place
        ahead = tasks
        if not several:
            # Compute the path without the line, and the feasible positions in the order.
            here = 0 + host[machine]
            spent = seconds[task * machines + machine]
            head = earliest[task]
            low = 0
            for edge in range(first_edge, end_edge):
                other = 0 + before[edge]
                link = 0 + home[other] * hosts + here
                arrival = finish[other] + _transfer_lag(problem, problem.fixed, edge, link)
                if arrival > head:
                    head = arrival
                if position[other] >= low:
                    low = 1 + position[other]
            if (head + spent) * per_second > most:
                continue
            rear = 0.0
            high = tasks - 1
            for index in range(first_after, end_after):
                other = 0 + after[index]
                link = 0 + here * hosts + home[other]
                edge = 0 + after_edge[index]
                length = tail[other] + _transfer_lag(problem, problem.fixed, edge, link)
                if length > rear:
                    rear = length
                if position[other] <= high:
                    high = position[other] - 1
            path = head + spent + rear
            if path * per_second > most:
                continue
            if machine != old:
                target = low + ((((two >> _BITS) & _PART) * (high - low + 1)) >> _BITS)
                if spent > 0.0 and lined[machine] != 0:
                    bar = target if target <= place else target + 1
                    ahead = _find_slot(problem, state, bar, machine)
                    behind = 0 + state.first[machine]
                    if ahead < tasks:
                        behind = 0 + following[ahead]
                        if finish[ahead] > head:
                            head = finish[ahead]
                    if behind < tasks and tail[behind] > rear:
                        rear = tail[behind]
                    path = head + spent + rear
            else:
                # Swap with the next task of the line, whose path changes as well.
                ahead = 0 + following[task]
                if ahead == tasks or position[ahead] > high:
                    continue
                target = 0 + position[ahead]
                done = _find_ready(problem, home, finish, ahead, here)
                if previous[task] < tasks and finish[previous[task]] > done:
                    done = finish[previous[task]]
                done += spent_by[ahead]
                if done > head:
                    head = done
                behind = 0 + following[ahead]
                if behind < tasks and tail[behind] > rear:
                    rear = tail[behind]
                path = head + spent + rear
                length = _longest_tail(problem, home, tail, ahead, here)
                if spent + rear > length:
                    length = spent + rear
                if done + length > path:
                    path = done + length
            owed = path * per_second
            if path > deadline:
                owed += (path - deadline) * per_late
            if owed > most:
                continue
            first = 0
            end = 1

        # Where paths are not the whole energy, make the move and undo it if the energy is too large.
        back = 0 + previous[task]
        goal = machine
        for way in range(2):
            for index in range(first, end):
                mover = task
                if several:
                    mover = 0 + member[index]
                    target = 0 + position[mover]
                    ahead = tasks
                    if seconds[mover * machines + goal] > 0.0 and lined[goal] != 0:
                        ahead = _find_slot(problem, state, target, goal)
                total[0] = _move_on_line(problem, mover, goal, target, ahead, state)
            if way == 1:
                break
            new = _energy(objective, total[0], total[1] + weight, total[2] + price)
            if new <= energy + chance or not (several or weighed != 0):
                energy = new
                total[1] += weight
                total[2] += price
                made += 1
                break
            goal = old
            target = place
            ahead = back
        makespan = total[0]
        if energy < state.total[3]:
            _keep_best(tasks, energy, state)
    return made


@kernel
def _excess_over(amount: float, limit: float) -> float:
    return amount - limit if amount > limit else 0.0


@kernel
def _energy(objective: SingleObjective, makespan: float, weight: float, price: float) -> float:
    return (
        makespan * objective.per_second
        + _excess_over(makespan, objective.deadline) * objective.per_late_second
        + weight
        + _excess_over(price, objective.most) * objective.per_excess
    )


@kernel
def _keep_best(tasks: int, energy: float, state: SingleState) -> None:
    """Store the current state as the best one if its energy is the least so far."""
    if energy < state.total[3] - _PATIENCE * abs(energy):
        state.total[3] = energy
        for index in range(tasks):
            state.best_order[index] = state.order[index]
            state.best_machine[index] = state.machine[index]
