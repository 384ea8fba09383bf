"""Order of a ready queue: of the tasks whose predecessors all came before, the one of highest priority.

For planners whose priorities do not fall along every path, and do not change while tasks are placed.
"""

from __future__ import annotations

from weft.kernels.forms import kernel
from weft.kernels.lists.heaps import pop, push
from weft.kernels.types import Doubles, Indices, Integers

__all__ = ["order_ready"]


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
    """Fill ``order`` with the tasks, always the ready one of least value, then of lowest rank.

    ``left`` (per task: predecessors to come) and ``heap`` are scratch.
    """
    size = 0
    for task in range(tasks):
        left[task] = 0 + pointer[task + 1] - pointer[task]
        if left[task] == 0:
            push(heap, size, task, value, rank)
            size += 1
    for position in range(tasks):
        task = pop(heap, size, value, rank)
        size -= 1
        order[position] = task
        for edge in range(after_pointer[task], after_pointer[task + 1]):
            following = after[edge]
            left[following] -= 1
            if left[following] == 0:
                push(heap, size, following, value, rank)
                size += 1
