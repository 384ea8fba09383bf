"""Moving a task to another place: links of the lines, the order, and all paths that change.

Only tasks whose longest path changes are looked at again, in the order, from the place of the move on: a few
dozen of a thousand, which is why a move costs about the same for small and large workflows.
"""

from __future__ import annotations

from weft.kernels.forms import kernel
from weft.kernels.searches.single_state import Field, State
from weft.kernels.types import Doubles, Indices

__all__ = ["begin", "lag", "move", "ready", "rest", "slot"]


@kernel
def lag(
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
def ready(field: Field, home: Indices, finish: Doubles, task: int, here: int) -> float:
    """Say when all data of a task are on a host."""
    latest = field.earliest[task]
    before, hosts = field.before, field.hosts
    size, inverse, files, latency = field.size, field.inverse, field.files, field.latency
    fixed, apart = field.fixed, field.apart
    for edge in range(field.pointer[task], field.pointer[task + 1]):
        other = before[edge]
        link = 0 + home[other] * hosts + here
        arrival = finish[other] + lag(edge, link, size, inverse, files, latency, fixed, apart)
        if arrival > latest:
            latest = arrival
    return latest


@kernel
def rest(field: Field, home: Indices, tail: Doubles, task: int, here: int) -> float:
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
        length = tail[other] + lag(edge, link, size, inverse, files, latency, fixed, apart)
        if length > longest:
            longest = length
    return longest


@kernel
def begin(field: Field, weighed: int, weight: Doubles, price: Doubles, state: State) -> None:
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
        start = ready(field, state.home, state.finish, task, 0 + state.home[task])
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
        length = rest(field, state.home, state.tail, task, 0 + state.home[task])
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
def slot(
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
def move(field: Field, task: int, machine: int, place: int, before: int, state: State) -> float:
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
def _follow_heads(field: Field, task: int, place: int, one: int, two: int, state: State) -> None:
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
        start = ready(field, home, finish, other, 0 + home[other])
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
def _follow_tails(field: Field, task: int, place: int, one: int, two: int, state: State) -> None:
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
        length = rest(field, home, tail, other, 0 + home[other])
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
