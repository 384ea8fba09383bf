"""Moves of the search on shared machines: other places in the order, other ways, other machines.

Every move changes the state in place; whoever asked for it keeps what is needed to take it back.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.forms import kernel
from weft.kernels.types import Doubles, Indices

__all__ = ["Moves", "State", "by_ends", "copy", "mold", "move_to", "shift", "take"]


class Moves(NamedTuple):
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


class State(NamedTuple):
    """Order, position of each task in it, way of each task, machine of each variable."""

    order: Indices
    place: Indices
    way: Indices
    """Of a task that has no ways: their end, ``Ways.first`` of the next task."""
    bound: Indices


@kernel
def copy(tasks: int, variables: int, state: State, other: State) -> None:
    """Make another state like this one."""
    for task in range(tasks):
        other.order[task] = state.order[task]
        other.place[task] = state.place[task]
        other.way[task] = state.way[task]
    for variable in range(variables):
        other.bound[variable] = state.bound[variable]


@kernel
def shift(
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
        move_to(task, target, order, place)


@kernel
def move_to(task: int, target: int, order: Indices, place: Indices) -> None:
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
def mold(
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
def take(
    first_way: Indices,
    way_machine: Indices,
    moves: Moves,
    variable: int,
    draw: float,
    state: State,
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
def by_ends(number: int, order: Indices, key: Doubles, sense: int) -> None:
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
