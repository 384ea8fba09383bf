"""Annealing of orders and machines together, where machines serve one task at a time.

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

from weft.kernels.forms import kernel
from weft.kernels.searches.single_moves import begin, lag, move, ready, rest, slot
from weft.kernels.searches.single_state import Field, State, Terms
from weft.kernels.types import Doubles, Integers

__all__ = ["WORDS", "anneal_singly"]

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
def anneal_singly(
    field: Field,
    terms: Terms,
    steps: int,
    heat: float,
    cooling: float,
    word: Integers,
    variate: Doubles,
    state: State,
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
    begin(field, weighed, terms.weight, terms.price, state)
    makespan = total[0]
    energy = _energy(terms, makespan, total[1], total[2])
    _keep(tasks, energy, state)
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
                _over(total[2] + price, terms.most) - _over(total[2], terms.most)
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
                arrival = finish[other] + lag(edge, link, size, inverse, files, latency, fixed, apart)
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
                length = tail[other] + lag(edge, link, size, inverse, files, latency, fixed, apart)
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
                    ahead = slot(tasks, machines, bar, machine, order, position, line, last, previous)
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
                done = ready(field, home, finish, ahead, here)
                if previous[task] < tasks and finish[previous[task]] > done:
                    done = finish[previous[task]]
                done += spent_by[ahead]
                if done > head:
                    head = done
                behind = 0 + following[ahead]
                if behind < tasks and tail[behind] > rear:
                    rear = tail[behind]
                path = head + spent + rear
                length = rest(field, home, tail, ahead, here)
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
                        ahead = slot(tasks, machines, target, goal, order, position, line, last, previous)
                total[0] = move(field, mover, goal, target, ahead, state)
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
            _keep(tasks, energy, state)
    return made


@kernel
def _over(amount: float, limit: float) -> float:
    return amount - limit if amount > limit else 0.0


@kernel
def _energy(terms: Terms, makespan: float, weight: float, price: float) -> float:
    return (
        makespan * terms.per_second
        + _over(makespan, terms.deadline) * terms.per_late_second
        + weight
        + _over(price, terms.most) * terms.per_excess
    )


@kernel
def _keep(tasks: int, energy: float, state: State) -> None:
    """Remember the state if it is better than all before."""
    if energy < state.total[3] - _PATIENCE * abs(energy):
        state.total[3] = energy
        for index in range(tasks):
            state.best_order[index] = state.order[index]
            state.best_machine[index] = state.machine[index]
