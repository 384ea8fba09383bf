"""What the search on machines of one task at a time reads, and where it stands.

Every machine is a line of tasks, each tied to the one before it. With the graph's own edges that gives for
each task the longest path that leads to it and the longest one behind it, and so the longest path *through*
it, which is what a move is judged by.

Moving a task to another place: links of the lines, the order, and all paths that change.

Only tasks whose longest path changes are looked at again, in the order, from the place of the move on: a few
dozen of a thousand, which is why a move costs about the same for small and large workflows.

Annealing of orders and machines together, where machines serve one task at a time.

A move takes a task to another machine, or past its neighbour on the line. It is judged by the longest path
through the task afterwards, known from the paths to its new predecessors and from its new successors without
decoding anything: E. Balas and A. Vazacopoulos (Management Science 44(2), 1998) and M. Mastrolilli and
L. M. Gambardella (Journal of Scheduling 3(1), 2000) judge moves in job shops so. What is accepted is then
followed exactly.

Deviations: data take time between machines; the judgement is an upper bound, because paths that the move
itself shortens are not looked at; a move must neither lengthen the plan nor the longest path through the task
by more than the heat allows. The second makes tasks settle that are not critical now, without which plateaus
of the makespan are wandered about in large workflows.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.compilation import kernel
from weft.kernels.problem import Doubles, Flags, Indices, Integers

__all__ = [
    "WORDS",
    "SingleObjective",
    "SingleProblem",
    "SingleState",
    "anneal_single",
    "find_ready",
    "find_slot",
    "longest_tail",
    "move_on_line",
    "reset_state",
    "transfer_lag",
]


class SingleProblem(NamedTuple):
    """The instance. Tasks stand in topological order."""

    tasks: int
    machines: int
    hosts: int
    variable: Indices
    choice: Indices
    """Per variable: its row of ``option``."""
    option_pointer: Indices
    option: Indices
    """The machines of a row (CSR), ascending."""
    member_pointer: Indices
    member: Indices
    """The tasks of a variable (CSR), ascending."""
    earliest: Doubles
    seconds: Doubles
    """Tasks x machines; 0: it occupies nothing."""
    lined: Flags
    """Per machine: whether it serves one task at a time; else any number."""
    host: Indices
    """Per machine."""
    pointer: Indices
    before: Indices
    size: Doubles
    files: Doubles | None
    fixed: Doubles | None
    """Per edge; None where data pay for their size alone: another form of the kernel."""
    after_pointer: Indices
    after: Indices
    after_edge: Indices
    """The graph as in ``weft.kernels.problem``."""
    inverse: Doubles
    latency: Doubles | None
    apart: Doubles | None
    """Hosts x hosts: seconds per byte and per file, and 1; all 0 on one host. None as above."""
    sinks: int
    sink: Indices
    """Tasks without successors: one of them ends last."""


class SingleObjective(NamedTuple):
    """The aim: makespan, what else is paid, and limits whose excess is paid dearly."""

    per_second: float
    deadline: float
    per_late_second: float
    weighed: int
    """Whether ``weight`` is there: else only the makespan counts."""
    weight: Doubles
    """Tasks x machines: what a task adds to the energy there."""
    price: Doubles
    """Tasks x machines: what it costs there."""
    most: float
    """Infinite: no limit of the cost."""
    per_excess: float


class SingleState(NamedTuple):
    """Where the search stands."""

    order: Indices
    position: Indices
    """An order in which every task comes behind its predecessors and behind the one before it on its line."""
    machine: Indices
    home: Indices
    """Per task: its machine, and the host of it."""
    line: Indices
    """Per task: its machine if it occupies it, else the number of machines."""
    previous: Indices
    following: Indices
    """Per task: its neighbours on the line; the number of tasks: none."""
    first: Indices
    last: Indices
    """Per machine: the ends of its line; the number of tasks: nobody is on it."""
    spent: Doubles
    finish: Doubles
    tail: Doubles
    """Per task: its seconds, the longest path to its end, and the longest from its start."""
    stale: Flags
    """Per task: whether its path must be looked at again; 0 between moves."""
    total: Doubles
    """Makespan, sum of weights, sum of prices, and the least energy so far."""
    best_order: Indices
    best_machine: Indices


@kernel
def transfer_lag(
    edge: int,
    link: int,
    size: Doubles,
    inverse: Doubles,
    files: Doubles,
    latency: Doubles,
    fixed: Doubles,
    apart: Doubles,
) -> float:
    """Give the seconds the data of an edge take over a link, as the decoder counts them."""
    if fixed is None:
        return size[edge] * inverse[link]
    return fixed[edge] * apart[link] + files[edge] * latency[link] + size[edge] * inverse[link]


@kernel
def find_ready(field: SingleProblem, home: Indices, finish: Doubles, task: int, here: int) -> float:
    """Say when all data of a task are on a host."""
    latest = field.earliest[task]
    before, hosts = field.before, field.hosts
    size, inverse, files, latency = field.size, field.inverse, field.files, field.latency
    fixed, apart = field.fixed, field.apart
    for edge in range(field.pointer[task], field.pointer[task + 1]):
        other = before[edge]
        link = 0 + home[other] * hosts + here
        arrival = finish[other] + transfer_lag(edge, link, size, inverse, files, latency, fixed, apart)
        if arrival > latest:
            latest = arrival
    return latest


@kernel
def longest_tail(field: SingleProblem, home: Indices, tail: Doubles, task: int, here: int) -> float:
    """Give the longest path behind a task on a host, its line left out."""
    longest = 0.0
    after, after_edge, hosts = field.after, field.after_edge, field.hosts
    size, inverse, files, latency = field.size, field.inverse, field.files, field.latency
    fixed, apart = field.fixed, field.apart
    links = here * hosts
    for place in range(field.after_pointer[task], field.after_pointer[task + 1]):
        other = after[place]
        link = 0 + home[other] + links
        edge = 0 + after_edge[place]
        length = tail[other] + transfer_lag(edge, link, size, inverse, files, latency, fixed, apart)
        if length > longest:
            longest = length
    return longest


@kernel
def reset_state(
    field: SingleProblem, weighed: int, weight: Doubles, price: Doubles, state: SingleState
) -> None:
    """Lay out order and machines of a state; what else is in it is found from these."""
    tasks, machines = field.tasks, field.machines
    for machine in range(machines):
        state.first[machine] = tasks
        state.last[machine] = tasks
    for place in range(tasks):
        task = 0 + state.order[place]
        machine = 0 + state.machine[task]
        state.position[task] = place
        state.home[task] = field.host[machine]
        spent = field.seconds[task * machines + machine]
        state.spent[task] = spent
        state.stale[task] = 0
        state.previous[task] = tasks
        state.following[task] = tasks
        state.line[task] = machines
        if spent > 0.0 and field.lined[machine] != 0:
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
        start = find_ready(field, state.home, state.finish, task, 0 + state.home[task])
        other = state.previous[task]
        if other < tasks and state.finish[other] > start:
            start = state.finish[other]
        state.finish[task] = start + state.spent[task]
        if weighed != 0:
            cell = task * machines + state.machine[task]
            owed += weight[cell]
            paid += price[cell]
    for back in range(tasks):
        task = 0 + state.order[tasks - 1 - back]
        length = longest_tail(field, state.home, state.tail, task, 0 + state.home[task])
        other = state.following[task]
        if other < tasks and state.tail[other] > length:
            length = state.tail[other]
        state.tail[task] = length + state.spent[task]
    last = 0.0
    for place in range(field.sinks):
        if state.finish[field.sink[place]] > last:
            last = state.finish[field.sink[place]]
    state.total[0] = last
    state.total[1] = owed
    state.total[2] = paid


@kernel
def find_slot(
    tasks: int,
    machines: int,
    place: int,
    machine: int,
    order: Indices,
    position: Indices,
    line: Indices,
    last: Indices,
    previous: Indices,
) -> int:
    """Give the last task of a line that stands before a place of the order; the number of tasks: none."""
    if machines * machines <= tasks:
        # Few machines with long lines: one of the next tasks in the order is on this line.
        while place > 0:
            place -= 1
            if line[order[place]] == machine:
                return 0 + order[place]
        return tasks
    task = 0 + last[machine]
    while task < tasks and position[task] >= place:
        task = 0 + previous[task]
    return task


@kernel
def move_on_line(
    field: SingleProblem, task: int, machine: int, place: int, before: int, state: SingleState
) -> float:
    """Put a task on a machine behind another one of its line, at a place of the order; give the makespan.

    ``before`` is that other one; the number of tasks: none, or the task occupies nothing there.
    """
    tasks = field.tasks
    order, position, previous, following = state.order, state.position, state.previous, state.following
    old_line = state.line[task]
    old_before = 0 + previous[task]
    old_after = 0 + following[task]
    if old_before < tasks:
        following[old_before] = old_after
    elif old_line < field.machines:
        state.first[old_line] = old_after
    if old_after < tasks:
        previous[old_after] = old_before
    elif old_line < field.machines:
        state.last[old_line] = old_before
    spent = field.seconds[task * field.machines + machine]
    state.machine[task] = machine
    state.home[task] = field.host[machine]
    state.spent[task] = spent
    behind = tasks
    if spent > 0.0 and field.lined[machine] != 0:
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
        state.line[task] = field.machines
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
    _follow_heads(field, task, low, old_after, behind, state)
    _follow_tails(field, task, high, old_before, before, state)
    last = 0.0
    finish, sink = state.finish, field.sink
    for index in range(field.sinks):
        end = finish[sink[index]]
        if end > last:
            last = end
    return last


@kernel
def _follow_heads(
    field: SingleProblem, task: int, place: int, one: int, two: int, state: SingleState
) -> None:
    """Find the ends of a task that was moved, of the followers it had and has, and of all they change."""
    tasks = field.tasks
    order, home, finish, spent = state.order, state.home, state.finish, state.spent
    previous, following, stale = state.previous, state.following, state.stale
    after_pointer, after = field.after_pointer, field.after
    stale[task] = 1
    waiting = 1
    if one < tasks and stale[one] == 0:
        stale[one] = 1
        waiting += 1
    if two < tasks and stale[two] == 0:
        stale[two] = 1
        waiting += 1
    for index in range(after_pointer[task], after_pointer[task + 1]):
        # Data come from elsewhere now, even if the task ends when it did.
        waiting += 1 - stale[after[index]]
        stale[after[index]] = 1
    while waiting > 0:
        other = 0 + order[place]
        place += 1
        if stale[other] == 0:
            continue
        stale[other] = 0
        waiting -= 1
        start = find_ready(field, home, finish, other, 0 + home[other])
        ahead = previous[other]
        if ahead < tasks and finish[ahead] > start:
            start = finish[ahead]
        end = start + spent[other]
        if end != finish[other]:
            finish[other] = end
            behind = following[other]
            if behind < tasks and stale[behind] == 0:
                stale[behind] = 1
                waiting += 1
            for index in range(after_pointer[other], after_pointer[other + 1]):
                waiting += 1 - stale[after[index]]
                stale[after[index]] = 1


@kernel
def _follow_tails(
    field: SingleProblem, task: int, place: int, one: int, two: int, state: SingleState
) -> None:
    """Find the tails of a task that was moved, of those before it then and now, and of all they change."""
    tasks = field.tasks
    order, home, tail, spent = state.order, state.home, state.tail, state.spent
    previous, following, stale = state.previous, state.following, state.stale
    pointer, before = field.pointer, field.before
    stale[task] = 1
    waiting = 1
    if one < tasks and stale[one] == 0:
        stale[one] = 1
        waiting += 1
    if two < tasks and stale[two] == 0:
        stale[two] = 1
        waiting += 1
    for index in range(pointer[task], pointer[task + 1]):
        waiting += 1 - stale[before[index]]
        stale[before[index]] = 1
    place += 1
    while waiting > 0:
        place -= 1
        other = 0 + order[place]
        if stale[other] == 0:
            continue
        stale[other] = 0
        waiting -= 1
        length = longest_tail(field, home, tail, other, 0 + home[other])
        behind = following[other]
        if behind < tasks and tail[behind] > length:
            length = tail[behind]
        length += spent[other]
        if length != tail[other]:
            tail[other] = length
            ahead = previous[other]
            if ahead < tasks and stale[ahead] == 0:
                stale[ahead] = 1
                waiting += 1
            for index in range(pointer[other], pointer[other + 1]):
                waiting += 1 - stale[before[index]]
                stale[before[index]] = 1


WORDS = 2
"""Random words of 63 bits per step."""
_BITS = 20
_PART = (1 << _BITS) - 1
_STAYING = 16
_NEAR = 40
"""Of 64 moves so many stay on the machine; from there on so many go where a neighbour of the graph is."""
_NEARLY_ONE = 1.0 - 1e-9
_PATIENCE = 1e-12
"""Share by which an energy must be smaller to be a new best one: sums differ in their last bits."""


@kernel
def anneal_single(
    field: SingleProblem,
    terms: SingleObjective,
    steps: int,
    heat: float,
    cooling: float,
    word: Integers,
    variate: Doubles,
    state: SingleState,
) -> int:
    """Take some steps from the order and the machines of a state; give how many moves were made.

    ``heat`` is multiplied by ``cooling`` after every step; ``variate`` are 2,048 exponential variates.
    """
    tasks, machines, hosts = field.tasks, field.machines, field.hosts
    pointer, before, after_pointer, after = field.pointer, field.before, field.after_pointer, field.after
    after_edge, size, files, fixed = field.after_edge, field.size, field.files, field.fixed
    inverse, latency, apart = field.inverse, field.latency, field.apart
    seconds, host, lined, earliest = field.seconds, field.host, field.lined, field.earliest
    variable, choice, option_pointer, option = (
        field.variable,
        field.choice,
        field.option_pointer,
        field.option,
    )
    member_pointer, member = field.member_pointer, field.member
    order, position, machine_of, home, line = (
        state.order,
        state.position,
        state.machine,
        state.home,
        state.line,
    )
    previous, following, last = state.previous, state.following, state.last
    spent_by, finish, tail, total = state.spent, state.finish, state.tail, state.total
    per_second, deadline, per_late = terms.per_second, terms.deadline, terms.per_late_second
    weighed = terms.weighed
    reset_state(field, weighed, terms.weight, terms.price, state)
    makespan = total[0]
    energy = _energy(terms, makespan, total[1], total[2])
    _keep_best(tasks, energy, state)
    made = 0
    for step in range(steps):
        one = word[2 * step]
        two = word[2 * step + 1]
        heat *= cooling

        # Of two tasks the one with the longer path.
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

        # What may the longest path cost?
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
                weight += terms.weight[cell + machine] - terms.weight[cell + old]
                price += terms.price[cell + machine] - terms.price[cell + old]
            dearer = weight + terms.per_excess * (
                _excess_over(total[2] + price, terms.most) - _excess_over(total[2], terms.most)
            )
            most -= dearer
            if dearer > chance and not several and through < makespan * _NEARLY_ONE:
                # It pays for nothing: another path is as long as the plan.
                continue

        place = 0 + position[task]
        target = place
        ahead = tasks
        if not several:
            # The path without its line; the window of the order the task may stand in.
            here = 0 + host[machine]
            spent = seconds[task * machines + machine]
            head = earliest[task]
            low = 0
            for edge in range(first_edge, end_edge):
                other = 0 + before[edge]
                link = 0 + home[other] * hosts + here
                arrival = finish[other] + transfer_lag(
                    edge, link, size, inverse, files, latency, fixed, apart
                )
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
                length = tail[other] + transfer_lag(edge, link, size, inverse, files, latency, fixed, apart)
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
                    ahead = find_slot(tasks, machines, bar, machine, order, position, line, last, previous)
                    behind = 0 + state.first[machine]
                    if ahead < tasks:
                        behind = 0 + following[ahead]
                        if finish[ahead] > head:
                            head = finish[ahead]
                    if behind < tasks and tail[behind] > rear:
                        rear = tail[behind]
                    path = head + spent + rear
            else:
                # Behind the next one of the line, whose path changes as well.
                ahead = 0 + following[task]
                if ahead == tasks or position[ahead] > high:
                    continue
                target = 0 + position[ahead]
                done = find_ready(field, home, finish, ahead, here)
                if previous[task] < tasks and finish[previous[task]] > done:
                    done = finish[previous[task]]
                done += spent_by[ahead]
                if done > head:
                    head = done
                behind = 0 + following[ahead]
                if behind < tasks and tail[behind] > rear:
                    rear = tail[behind]
                path = head + spent + rear
                length = longest_tail(field, home, tail, ahead, here)
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

        # Where paths do not tell all, the move is made, and taken back if the energy is too large.
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
                        ahead = find_slot(
                            tasks, machines, target, goal, order, position, line, last, previous
                        )
                total[0] = move_on_line(field, mover, goal, target, ahead, state)
            if way == 1:
                break
            new = _energy(terms, total[0], total[1] + weight, total[2] + price)
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
def _energy(terms: SingleObjective, makespan: float, weight: float, price: float) -> float:
    return (
        makespan * terms.per_second
        + _excess_over(makespan, terms.deadline) * terms.per_late_second
        + weight
        + _excess_over(price, terms.most) * terms.per_excess
    )


@kernel
def _keep_best(tasks: int, energy: float, state: SingleState) -> None:
    """Remember the state if it is better than all before."""
    if energy < state.total[3] - _PATIENCE * abs(energy):
        state.total[3] = energy
        for index in range(tasks):
            state.best_order[index] = state.order[index]
            state.best_machine[index] = state.machine[index]
