"""A heap of tasks: the task of least value is found at once, a new one finds its place in O(log n) steps.

Ties go to the lower rank, so that the order of tasks never depends on when they were put in.
"""

from __future__ import annotations

from weft.kernels.forms import kernel
from weft.kernels.types import Doubles, Indices

__all__ = ["pop", "push"]


@kernel
def push(heap: Indices, size: int, task: int, value: Doubles, rank: Indices) -> None:
    """Put a task into a heap that holds ``size`` tasks."""
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
def pop(heap: Indices, size: int, value: Doubles, rank: Indices) -> int:
    """Take the first task out of a heap that holds ``size`` tasks, at least one."""
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
