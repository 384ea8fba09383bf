"""Heads that count area: a task starts only after all its ancestors, and these need room.

For each task the combination of heads, area and tails is applied to its ancestors, whose own heads have been
raised the same way before: where levels wait for each other their bounds add up. In reverse it gives tails.

Complexity O(v^2 + v e) for v tasks and e edges in time, O(v^2) in space: for graphs of up to some hundred
tasks; of larger ones only ``stages`` are looked at.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from weft.schedule.bounds.combination import Load, in_turns, needed, nest
from weft.schedule.bounds.paths import Edges
from weft.schedule.bounds.refutation import SLACK
from weft.workflow.unfolding.task_graph import Floats

__all__ = ["heads_after_ancestors"]


def heads_after_ancestors(
    edges: Edges, seconds_s: Floats, base_s: Floats, loads: list[Load], *, whole: bool
) -> Floats:
    """Raise heads by what the ancestors of each task need; ``whole``: every time is a whole number."""
    head_s = base_s.copy()
    # Row: task; column: ancestor. The longest path from the ancestor's end to the task's start.
    between = np.full((len(edges), len(edges)), -np.inf)
    pointer = edges.pointer.tolist()
    for task in range(len(edges)):
        first, end = pointer[task], pointer[task + 1]
        if first == end:
            continue
        before, moving = edges.before[first:end], edges.moving_s[first:end]
        spent = seconds_s[before] + moving
        row = between[task, :task]
        np.max(between[before, :task] + spent[:, None], axis=0, out=row)
        row[before] = np.maximum(row[before], moving)
        head = max(float(head_s[task]), float((head_s[before] + spent).max()))
        # All that precedes an only predecessor has ended before that one starts: nothing to add.
        if end - first > 1:
            head = _raised(head, row, before, head_s, loads)
        head_s[task] = math.ceil(head * (1 - SLACK)) if whole else head
    return head_s


def _raised(head: float, row: Floats, before: NDArray[np.int64], head_s: Floats, loads: list[Load]) -> float:
    """Raise the head of a task by what its ancestors need, and by the turns of those just before it."""
    ancestors: NDArray[np.intp] = np.flatnonzero(row > -np.inf)
    waited_for = [load for load in loads if not load.all_at_once(ancestors)]
    if not waited_for:
        return head
    heads, paths = head_s[ancestors], row[ancestors]
    late_first, far_first = np.argsort(-heads, kind="stable"), np.argsort(-paths, kind="stable")
    # In either order all tasks of a set have at least the head, and the path, of its last or lowest one.
    orders = (
        (late_first, heads[late_first] + np.minimum.accumulate(paths[late_first])),
        (far_first, np.minimum.accumulate(heads[far_first]) + paths[far_first]),
    )
    for load in waited_for:
        head = max(head, float(head_s[before].min()) + in_turns(load, before))
        nests = [nest(load, ancestors, order, around) for order, around in orders]
        head = needed(load, nests, ancestors, heads + paths, head)
    return head
