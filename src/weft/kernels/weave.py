"""Inner loops of the planner ``weave``: simulated annealing of task orders, machines and modes.

``anneal_single`` searches where machines run one task at a time: it evaluates a move by the paths through one
task. ``anneal_shared`` searches where nodes and amounts of machines are shared: it decodes a schedule for
every move.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.compilation import inlined_kernel, kernel
from weft.kernels.problem import INFINITY, Doubles, Flags, Indices, Integers


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
def _reset_lines(problem: SingleProblem, objective: SingleObjective, state: SingleState) -> None:
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
    position, previous, following = state.position, state.previous, state.following
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
    _move_task(task, place, state.order, position)
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


SINGLE_WORDS = 2
"""Number of random 63-bit words that one step uses."""
_WORD_BITS = 20
_WORD_PART = (1 << _WORD_BITS) - 1
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
    _reset_lines(problem, objective, state)
    makespan = total[0]
    energy = _single_energy(objective, makespan, total[1], total[2])
    _keep_best_single(tasks, energy, state)
    made = 0
    for step in range(steps):
        one = word[2 * step]
        two = word[2 * step + 1]
        heat *= cooling

        # Draw two tasks and take the one with the longer path.
        task = ((one & _WORD_PART) * tasks) >> _WORD_BITS
        other = (((one >> _WORD_BITS) & _WORD_PART) * tasks) >> _WORD_BITS
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
                machine = 0 + option[first + (((two & _WORD_PART) * many) >> _WORD_BITS)]
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
                _absolute_excess(total[2] + price, objective.most)
                - _absolute_excess(total[2], objective.most)
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
                target = low + ((((two >> _WORD_BITS) & _WORD_PART) * (high - low + 1)) >> _WORD_BITS)
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
            new = _single_energy(objective, total[0], total[1] + weight, total[2] + price)
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
            _keep_best_single(tasks, energy, state)
    return made


@kernel
def _absolute_excess(amount: float, limit: float) -> float:
    return amount - limit if amount > limit else 0.0


@kernel
def _single_energy(objective: SingleObjective, makespan: float, weight: float, price: float) -> float:
    return (
        makespan * objective.per_second
        + _absolute_excess(makespan, objective.deadline) * objective.per_late_second
        + weight
        + _absolute_excess(price, objective.most) * objective.per_excess
    )


@kernel
def _keep_best_single(tasks: int, energy: float, state: SingleState) -> None:
    """Store the current state as the best one if its energy is the least so far."""
    if energy < state.total[3] - _PATIENCE * abs(energy):
        state.total[3] = energy
        for index in range(tasks):
            state.best_order[index] = state.order[index]
            state.best_machine[index] = state.machine[index]


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
def _copy_shared_state(tasks: int, variables: int, state: SharedState, other: SharedState) -> None:
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


SHARED_DRAWS = 5
"""Random numbers per step: kind of move, object, target, whether to shift too, target of the shift."""
_EXCESS_TOLERANCE = 1e-9
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
        draw = SHARED_DRAWS * step
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
            limit_s = (limit - known) / goal.per_second * (1.0 + _EXCESS_TOLERANCE)
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
        new_missed = new_owed + _relative_excess(makespan, goal.deadline)
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
            if _is_better_shared(missed, value, score.best_missed[0], score.best_value[0]):
                score.best_missed[0] = missed
                score.best_value[0] = value
                _copy_shared_state(problem.tasks, problem.variables, state, best)
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
def _is_better_shared(missed: float, value: float, best_missed: float, best_value: float) -> bool:
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
    missed = _relative_excess(price, goal.max_cost)
    for budget in range(modes.budgets):
        missed += _relative_excess(used[budget], 1.0)
    return missed, charge, drag * goal.drag


@kernel
def _relative_excess(amount: float, limit: float) -> float:
    """Return by how much an amount exceeds a limit, as a share of the limit; the amount if the limit is 0."""
    if amount <= limit * (1.0 + _EXCESS_TOLERANCE):
        return 0.0
    if limit > 0.0:
        return (amount - limit) / limit
    return amount
