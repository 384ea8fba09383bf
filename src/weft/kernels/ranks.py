"""Priorities of tasks: upward and downward ranks over mean seconds and mean communication.

H. Topcuoglu, S. Hariri, M.-Y. Wu, IEEE TPDS 13(3), 2002, equations 8 and 9. Tasks stand in topological order.
"""

from __future__ import annotations

from weft.kernels.forms import kernel
from weft.kernels.types import Doubles, Indices

__all__ = ["downward_ranks", "upward_ranks"]


@kernel
def upward_ranks(
    tasks: int,
    pointer: Indices,
    after: Indices,
    edge: Indices,
    seconds: Doubles,
    communication: Doubles,
    ranks: Doubles,
) -> None:
    """Fill ``rank_u(i) = w_i + max over successors j of (c_ij + rank_u(j))``."""
    for back in range(tasks):
        task = tasks - 1 - back
        longest = 0.0
        for position in range(pointer[task], pointer[task + 1]):
            length = communication[edge[position]] + ranks[after[position]]
            if length > longest:
                longest = length
        ranks[task] = seconds[task] + longest


@kernel
def downward_ranks(
    tasks: int, pointer: Indices, before: Indices, seconds: Doubles, communication: Doubles, ranks: Doubles
) -> None:
    """Fill ``rank_d(i) = max over predecessors j of (rank_d(j) + w_j + c_ji)``; 0 without predecessors."""
    for task in range(tasks):
        longest = 0.0
        for position in range(pointer[task], pointer[task + 1]):
            earlier = before[position]
            length = ranks[earlier] + seconds[earlier] + communication[position]
            if length > longest:
                longest = length
        ranks[task] = longest
