"""Lower bounds of the makespan: no schedule can be shorter, whatever planner made it.

Three arguments, each valid for unlike machines, communication and moldable tasks:

- *critical path*: along every path each task takes at least its fastest mode; data may cost nothing;
- *area*: every task needs at least its smallest share of the platform, in nodes and in each countable
  resource. For unlike machines a share is weighted: with any weights y >= 0 such that all nodes together
  weigh 1, a task occupies at least ``min over its modes of y[machine] * nodes * seconds`` (the dual of
  fractional assignment). Uniform weights and weights in proportion to speed are tried; for machines that
  differ only by speed the latter is the exact fractional bound;
- *combination*: tasks that cannot start before a (their heads) and must be followed by b (their tails) need
  their area between a and T - b, so ``a + area + b <= T``.

Complexity O(v k + e + v log v) for v tasks, e edges and k modes per task.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.instance.instance import Instance
from weft.workflow.unfolding.task_graph import Floats, TaskGraph

__all__ = ["Bounds", "heads", "lower_bounds", "tails"]

_WINDOWS = 32
"""How many head thresholds the combination tries; each is valid, more only tighten it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Lower bounds of the makespan in seconds."""

    critical_path_s: float
    area_s: float
    combined_s: float

    @property
    def best_s(self) -> float:
        """Give the largest: it is a bound too."""
        return max(self.critical_path_s, self.area_s, self.combined_s)


def lower_bounds(instance: Instance) -> Bounds:
    """Compute the bounds of an instance."""
    shortest, areas = _shortest_and_areas(instance)
    head_s = heads(instance.graph, shortest, instance.earliest_start_s)
    tail_s = tails(instance.graph, shortest)
    critical = float((head_s + shortest + tail_s).max(initial=0.0))
    area = max((float(column.sum()) for column in areas), default=0.0)
    combined = max((_combine(head_s, tail_s, column) for column in areas), default=0.0)
    return Bounds(critical_path_s=critical, area_s=area, combined_s=combined)


def _shortest_and_areas(instance: Instance) -> tuple[Floats, list[Floats]]:
    """Give the shortest time of every task, and its least share of the platform under every weighting."""
    weights = _node_weights(instance)
    shortest = np.zeros(len(instance))
    shares = [np.zeros(len(instance)) for _ in weights]
    for group in instance.groups:
        weighed = [weight[group.machine] * group.nodes for weight in weights]
        for tasks, seconds in group.chunks():
            shortest[tasks] = seconds.min(axis=1)
            for factor, share in zip(weighed, shares, strict=True):
                share[tasks] = (factor * seconds).min(axis=1)
    demand = instance.graph.demand
    held = [demand[:, column] * shortest / total for column, total in _resource_totals(instance)]
    return shortest, [*shares, *held]


def _node_weights(instance: Instance) -> list[Floats]:
    """Give weightings of the machines under which all nodes together weigh 1."""
    if instance.unlimited.any():
        return []  # where tasks do not disturb each other there is no area to run out of
    capacity = instance.capacity.astype(float)
    rates = np.array([machine.rate(None) for machine in instance.machines])
    return [np.ones(len(capacity)) / capacity.sum(), rates / (rates * capacity).sum()]


def _resource_totals(instance: Instance) -> list[tuple[int, float]]:
    if instance.unlimited.any():
        return []
    totals = instance.amounts.sum(axis=0)
    return [(column, float(total)) for column, total in enumerate(totals) if 0 < total < np.inf]


def heads(graph: TaskGraph, seconds_s: Floats, earliest_s: Floats) -> Floats:
    """Give when each task can start at the earliest if tasks take these seconds and data nothing."""
    pointer, before = graph.predecessor_pointer.tolist(), graph.predecessor.tolist()
    seconds, found = seconds_s.tolist(), earliest_s.tolist()
    finish = [0.0] * len(graph)
    for task, head in enumerate(found):
        for position in range(pointer[task], pointer[task + 1]):
            if finish[before[position]] > head:
                head = finish[before[position]]
        found[task] = head
        finish[task] = head + seconds[task]
    return np.asarray(found, dtype=np.float64)


def tails(graph: TaskGraph, seconds_s: Floats) -> Floats:
    """Give what must follow after each task's end if tasks take these seconds and data nothing."""
    pointer, after = graph.successor_pointer.tolist(), graph.successor.tolist()
    seconds = seconds_s.tolist()
    found = [0.0] * len(graph)
    whole = [0.0] * len(graph)
    for task in range(len(graph) - 1, -1, -1):
        tail = 0.0
        for position in range(pointer[task], pointer[task + 1]):
            if whole[after[position]] > tail:
                tail = whole[after[position]]
        found[task] = tail
        whole[task] = tail + seconds[task]
    return np.asarray(found, dtype=np.float64)


def _combine(head_s: Floats, tail_s: Floats, area: Floats) -> float:
    """Find the best ``a + area of tasks with head >= a and tail >= b + b`` over thresholds a and all b."""
    by_tail = np.argsort(-tail_s, kind="stable")
    sorted_tails, sorted_heads, sorted_area = tail_s[by_tail], head_s[by_tail], area[by_tail]
    distinct = np.unique(head_s)
    picks = (
        distinct[np.unique(np.linspace(0, len(distinct) - 1, _WINDOWS).astype(int))] if len(distinct) else ()
    )
    best = 0.0
    for threshold in picks:
        late = sorted_heads >= threshold
        # Among the tasks with the longest tails, the last one's tail is common to all of them.
        values = threshold + np.cumsum(sorted_area[late]) + sorted_tails[late]
        best = max(best, float(values.max()))
    return best
