"""Stages: cuts through a graph where everything before precedes everything after. Their bounds add up.

At a position of the topological order everything before precedes everything after if and only if every task
before that has no successor before the cut is a direct predecessor of every task after it that has no
predecessor after the cut. Both sides and the edges between them are counted for all positions at once.

Complexity O(v + e) for v tasks and e edges to find the cuts.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from weft.schedule.bounds.combination import Load, combined
from weft.schedule.bounds.paths import Edges
from weft.schedule.bounds.refutation import SLACK
from weft.workflow.unfolding.task_graph import Floats

__all__ = ["cuts", "heads_after_stages"]

_MOST = 5_000
"""Stages that are looked at, those with the most tasks first."""

_Positions = NDArray[np.intp]


def cuts(edges: Edges) -> _Positions:
    """Give the positions p such that all tasks below p precede all others."""
    tasks = len(edges)
    target = np.repeat(np.arange(tasks), np.diff(edges.pointer))
    last_before, first_after = np.full(tasks, -1), np.full(tasks, tasks)
    np.maximum.at(last_before, target, edges.before)
    np.minimum.at(first_after, edges.before, target)
    # A task is an end at the cuts after itself up to its first successor; a start likewise before itself.
    ends = _covered(np.arange(tasks) + 1, first_after + 1, tasks)
    starts = _covered(last_before + 1, np.arange(tasks) + 1, tasks)
    joined = _covered(last_before[target] + 1, first_after[edges.before] + 1, tasks)
    inside = np.arange(1, tasks)
    found: _Positions = inside[joined[inside] == ends[inside] * starts[inside]]
    return found


def _covered(first: NDArray[np.int64], end: NDArray[np.int64], tasks: int) -> NDArray[np.int64]:
    """Count, per position, the ranges from ``first`` to before ``end`` that hold it."""
    kept = first < end
    change = np.bincount(first[kept], minlength=tasks + 2) - np.bincount(end[kept], minlength=tasks + 2)
    return np.cumsum(change)


def heads_after_stages(
    edges: Edges, seconds_s: Floats, base_s: Floats, loads: list[Load], *, whole: bool
) -> Floats:
    """Raise heads by what the stages before each task need; ``whole``: every time is a whole number."""
    limits = [0, *cuts(edges).tolist(), len(edges)]
    sizes = np.diff(limits)
    largest = set(np.argsort(-sizes, kind="stable")[:_MOST].tolist())
    walk, start = _Walk(edges, seconds_s, base_s), 0.0
    for stage, (first, end) in enumerate(pairwise(limits)):
        finish = walk.through(first, end, start)
        if end - first > 1 and stage in largest and end < len(edges):
            tasks = np.arange(first, end)
            waited_for = [load for load in loads if not load.all_at_once(tasks)]
            heads, tails = np.asarray(walk.head_s[first:end]), walk.tails(first, end)
            for load in waited_for:
                finish = combined(load, tasks, heads, tails, finish)
        start = math.ceil(finish * (1 - SLACK)) if whole else finish
    return np.asarray(walk.head_s)


class _Walk:
    """Heads and tails within stages, in plain numbers."""

    def __init__(self, edges: Edges, seconds_s: Floats, base_s: Floats) -> None:
        self.pointer, self.before = edges.pointer.tolist(), edges.before.tolist()
        self.moving_s, self.seconds_s = edges.moving_s.tolist(), seconds_s.tolist()
        self.head_s = base_s.tolist()

    def through(self, first: int, end: int, start_s: float) -> float:
        """Raise the heads of a stage that starts at some time; give when its longest path ends."""
        finish = start_s
        for task in range(first, end):
            head = max(self.head_s[task], start_s)
            for position in range(self.pointer[task], self.pointer[task + 1]):
                before = self.before[position]
                arrival = self.head_s[before] + self.seconds_s[before] + self.moving_s[position]
                if arrival > head:
                    head = arrival
            self.head_s[task] = head
            finish = max(finish, head + self.seconds_s[task])
        return finish

    def tails(self, first: int, end: int) -> Floats:
        """Give what follows each task of a stage within the stage."""
        found = [0.0] * (end - first)
        for task in range(end - 1, first - 1, -1):
            rest = found[task - first] + self.seconds_s[task]
            for position in range(self.pointer[task], self.pointer[task + 1]):
                before = self.before[position] - first
                if before >= 0 and rest + self.moving_s[position] > found[before]:
                    found[before] = rest + self.moving_s[position]
        return np.asarray(found)
