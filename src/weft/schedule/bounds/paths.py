"""Paths: when a task can start at the earliest (its head) and what must follow it (its tail).

Along a path every task takes at least its fastest way, and data take what they must (``moving``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.workflow.unfolding.task_graph import Floats, TaskGraph

__all__ = ["Edges", "backwards", "forwards", "heads", "tails"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Edges:
    """What leads to each task, in an order in which all that leads to a task stands before it."""

    pointer: NDArray[np.int64]
    before: NDArray[np.int64]
    moving_s: Floats

    def __len__(self) -> int:
        return len(self.pointer) - 1


def forwards(graph: TaskGraph, moving_s: Floats) -> Edges:
    """Give the predecessors."""
    before = graph.predecessor.astype(np.int64)
    return Edges(pointer=graph.predecessor_pointer, before=before, moving_s=moving_s)


def backwards(graph: TaskGraph, moving_s: Floats) -> Edges:
    """Give the successors as if they were predecessors: tasks are counted from the last one."""
    lengths = np.diff(graph.successor_pointer)[::-1]
    pointer = np.concatenate([[0], np.cumsum(lengths)])
    first = graph.successor_pointer[:-1][::-1]
    entry = np.repeat(first - pointer[:-1], lengths) + np.arange(len(graph.successor))
    before = len(graph) - 1 - graph.successor[entry].astype(np.int64)
    return Edges(pointer=pointer, before=before, moving_s=moving_s[graph.successor_edge[entry]])


def heads(graph: TaskGraph, seconds_s: Floats, earliest_s: Floats, moving_s: Floats | None = None) -> Floats:
    """Give when each task can start at the earliest if tasks take these seconds and edges those."""
    pointer, before = graph.predecessor_pointer.tolist(), graph.predecessor.tolist()
    seconds, found = seconds_s.tolist(), earliest_s.tolist()
    moving = [0.0] * len(before) if moving_s is None else moving_s.tolist()
    finish = [0.0] * len(graph)
    for task, head in enumerate(found):
        for position in range(pointer[task], pointer[task + 1]):
            arrival = finish[before[position]] + moving[position]
            if arrival > head:
                head = arrival
        found[task] = head
        finish[task] = head + seconds[task]
    return np.asarray(found, dtype=np.float64)


def tails(
    graph: TaskGraph, seconds_s: Floats, moving_s: Floats | None = None, least_s: Floats | None = None
) -> Floats:
    """Give what must follow each task's end if tasks take these seconds and edges those; known: the least."""
    pointer, after = graph.successor_pointer.tolist(), graph.successor.tolist()
    seconds = seconds_s.tolist()
    moving = [0.0] * len(after) if moving_s is None else moving_s[graph.successor_edge].tolist()
    found = [0.0] * len(graph) if least_s is None else least_s.tolist()
    whole = [0.0] * len(graph)
    for task in range(len(graph) - 1, -1, -1):
        tail = found[task]
        for position in range(pointer[task], pointer[task + 1]):
            rest = moving[position] + whole[after[position]]
            if rest > tail:
                tail = rest
        found[task] = tail
        whole[task] = tail + seconds[task]
    return np.asarray(found, dtype=np.float64)
