"""Priorities of tasks, a heap of tasks, and the order of a ready queue.

Task indices are a topological order. Upward and downward ranks use mean seconds and mean communication: H.
Topcuoglu, S. Hariri, M.-Y. Wu, IEEE TPDS 13(3), 2002, equations 8 and 9.
"""

from __future__ import annotations

from weft.kernels.compilation import kernel
from weft.kernels.placement import mode_seconds
from weft.kernels.problem import COMPUTE, INFINITY, Doubles, Indices, Integers, ModeArrays, TaskArrays


@kernel
def fill_upward_ranks(
    tasks: int,
    pointer: Indices,
    after: Indices,
    edge: Indices,
    seconds: Doubles,
    communication: Doubles,
    ranks: Doubles,
) -> None:
    """Fill ``ranks`` with ``rank_u(i) = w_i + max over successors j of (c_ij + rank_u(j))``."""
    for back in range(tasks):
        task = tasks - 1 - back
        longest = 0.0
        for position in range(pointer[task], pointer[task + 1]):
            length = communication[edge[position]] + ranks[after[position]]
            if length > longest:
                longest = length
        ranks[task] = seconds[task] + longest


@kernel
def fill_downward_ranks(
    tasks: int, pointer: Indices, before: Indices, seconds: Doubles, communication: Doubles, ranks: Doubles
) -> None:
    """Fill ``ranks`` with ``rank_d(i) = max over predecessors j of (rank_d(j) + w_j + c_ji)``."""
    for task in range(tasks):
        longest = 0.0
        for position in range(pointer[task], pointer[task + 1]):
            earlier = before[position]
            length = ranks[earlier] + seconds[earlier] + communication[position]
            if length > longest:
                longest = length
        ranks[task] = longest


@kernel
def fill_optimistic_costs(
    tasks: TaskArrays,
    modes: ModeArrays,
    machines: int,
    mean_seconds: Doubles,
    communication: Doubles,
    total: Doubles,
    costs: Doubles,
    ranks: Doubles,
) -> None:
    """Fill ``costs`` (tasks x machines) with optimistic costs, and ``ranks`` with their mean per task.

    Optimistic costs: H. Arabnejad, J. G. Barbosa, IEEE TPDS 25(3), 2014, equation 4: ``OCT(i, k) = max over
    successors j of min over machines w of (OCT(j, w) + seconds(j, w) + c_ij if w != k)``. The minimum over w
    is either the term of k itself or the least of all terms plus communication, so an edge costs O(p) instead
    of O(p^2).

    ``mean_seconds`` is read for transfers and virtual tasks; ``communication`` is the mean per edge;
    ``total`` is scratch, per machine.
    """
    for index in range(tasks.number * machines):
        costs[index] = 0.0
    for back in range(tasks.number):
        task = tasks.number - 1 - back
        for machine in range(machines):
            total[machine] = INFINITY
        if tasks.kind[task] == COMPUTE:
            _add_modes(tasks, modes, machines, task, costs, total)
        else:
            _add_candidates(tasks, machines, task, mean_seconds[task], costs, total)
        least = INFINITY
        used = 0
        weight = 0.0
        for machine in range(machines):
            if total[machine] < INFINITY:
                used += 1
                weight += costs[task * machines + machine]
                if total[machine] < least:
                    least = total[machine]
        ranks[task] = 0.0
        if used > 0:
            ranks[task] = weight / used
        for edge in range(tasks.pointer[task], tasks.pointer[task + 1]):
            row = tasks.before[edge] * machines
            elsewhere = least + communication[edge]
            if tasks.variable[tasks.before[edge]] == tasks.variable[task]:
                elsewhere = INFINITY  # both tasks share a machine
            for machine in range(machines):
                cost = total[machine]
                if elsewhere < cost:
                    cost = elsewhere
                if cost > costs[row + machine]:
                    costs[row + machine] = cost


@kernel
def _add_modes(
    tasks: TaskArrays, modes: ModeArrays, machines: int, task: int, costs: Doubles, total: Doubles
) -> None:
    """Fill ``total`` (per machine): cost of a compute task plus its least seconds, where it can run."""
    pinned = tasks.pinned[tasks.variable[task]]
    group = modes.group[task]
    for mode in range(0 + modes.first[group], 0 + modes.first[group + 1]):
        machine = modes.machine[mode]
        if pinned < machines and machine != pinned:
            continue
        needed = costs[task * machines + machine] + mode_seconds(modes, task, mode)
        if needed < total[machine]:
            total[machine] = needed


@kernel
def _add_candidates(
    tasks: TaskArrays, machines: int, task: int, seconds: float, costs: Doubles, total: Doubles
) -> None:
    """Set ``total`` for the candidate machines of a transfer or virtual task: cost plus its seconds."""
    variable = tasks.variable[task]
    pinned = tasks.pinned[variable]
    found = tasks.candidate_set[variable]
    for position in range(tasks.candidate_pointer[found], tasks.candidate_pointer[found + 1]):
        machine = tasks.candidate[position]
        if pinned == machines or machine == pinned:
            total[machine] = costs[task * machines + machine] + seconds


@kernel
def push_task(heap: Indices, size: int, task: int, value: Doubles, rank: Indices) -> None:
    """Push a task on a heap of ``size`` tasks, ordered by value, then rank; O(log n)."""
    own, own_rank = value[task], rank[task]
    place = size
    while place > 0:
        above = (place - 1) // 2
        other = heap[above]
        if value[other] < own or (value[other] == own and rank[other] < own_rank):
            break
        heap[place] = other
        place = above
    heap[place] = task


@kernel
def pop_task(heap: Indices, size: int, value: Doubles, rank: Indices) -> int:
    """Remove and return the task with the least value, then rank, of a heap of ``size`` tasks; O(log n)."""
    first = heap[0]
    last = size - 1
    task = heap[last]
    own, own_rank = value[task], rank[task]
    place = 0
    while 2 * place + 1 < last:
        below = 2 * place + 1
        other = heap[below]
        if below + 1 < last:
            sibling = heap[below + 1]
            if value[sibling] < value[other] or (
                value[sibling] == value[other] and rank[sibling] < rank[other]
            ):
                below += 1
                other = sibling
        if own < value[other] or (own == value[other] and own_rank < rank[other]):
            break
        heap[place] = other
        place = below
    heap[place] = task
    return first


@kernel
def order_ready(
    tasks: int,
    pointer: Indices,
    after_pointer: Indices,
    after: Indices,
    value: Doubles,
    rank: Indices,
    left: Integers,
    heap: Indices,
    order: Indices,
) -> None:
    """Fill ``order`` with all tasks; next is always the ready task of least value, ties by lowest rank.

    This order is needed for priorities that do not decrease along every path: sorting by them might put a
    task before its predecessors. ``left`` (per task: predecessors not ordered yet) and ``heap`` are scratch
    arrays.
    """
    size = 0
    for task in range(tasks):
        left[task] = 0 + pointer[task + 1] - pointer[task]
        if left[task] == 0:
            push_task(heap, size, task, value, rank)
            size += 1
    for position in range(tasks):
        task = pop_task(heap, size, value, rank)
        size -= 1
        order[position] = task
        for edge in range(after_pointer[task], after_pointer[task + 1]):
            following = after[edge]
            left[following] -= 1
            if left[following] == 0:
                push_task(heap, size, following, value, rank)
                size += 1
