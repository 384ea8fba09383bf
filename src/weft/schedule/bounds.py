"""Lower bounds of the makespan: no schedule can be shorter, whatever planner made it.

Three arguments, each valid for unlike machines, communication and moldable tasks:

- *critical path*: along every path each task takes at least its fastest mode; data may cost nothing;
- *area*: every task needs at least its smallest share of the platform, in nodes and in each countable resource. For
  unlike machines a share is weighted: with any weights y >= 0 such that all nodes together weigh 1, a task occupies at
  least ``min over its modes of y[machine] * nodes * seconds`` (the dual of fractional assignment). Uniform weights and
  weights in proportion to speed are tried; for related machines the latter is the exact fractional bound;
- *combination*: tasks that cannot start before a (their heads) and must be followed by b (their tails) need their area
  between a and T - b, so ``a + area + b <= T``.

Complexity O(v k + e + v log v) for v tasks, e edges and k modes per task.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.instance.instance import Instance
from weft.workflow.unfolding.task_graph import COMPUTE, Floats

__all__ = ["Bounds", "lower_bounds"]

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
    heads, tails = _heads(instance, shortest), _tails(instance, shortest)
    critical = float((heads + shortest + tails).max(initial=0.0))
    area = max((float(column.sum()) for column in areas), default=0.0)
    combined = max((_combine(heads, tails, column) for column in areas), default=0.0)
    return Bounds(critical_path_s=critical, area_s=area, combined_s=combined)


def _shortest_and_areas(instance: Instance) -> tuple[Floats, list[Floats]]:
    """Give the shortest time of every task, and its least share of the platform under every weighting."""
    graph = instance.graph
    weights = _node_weights(instance)
    totals = _resource_totals(instance)
    shortest = np.zeros(len(graph))
    shares = [np.zeros(len(graph)) for _ in weights]
    held = [np.zeros(len(graph)) for _ in totals]
    for task in np.flatnonzero(graph.kind == COMPUTE).tolist():
        modes = instance.modes(task)
        if not len(modes):
            continue
        shortest[task] = modes.seconds.min()
        node_seconds = modes.nodes * modes.seconds
        for weight, share in zip(weights, shares, strict=True):
            share[task] = (weight[modes.machine] * node_seconds).min()
        for (column, total), hold in zip(totals, held, strict=True):
            hold[task] = graph.demand[task, column] * shortest[task] / total
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


def _heads(instance: Instance, shortest: Floats) -> Floats:
    graph = instance.graph
    pointer, before = graph.predecessor_pointer.tolist(), graph.predecessor.tolist()
    seconds, earliest = shortest.tolist(), instance.earliest_start_s.tolist()
    heads = [0.0] * len(graph)
    for task in range(len(graph)):
        head = earliest[task]
        for position in range(pointer[task], pointer[task + 1]):
            other = before[position]
            head = max(head, heads[other] + seconds[other])
        heads[task] = head
    return np.asarray(heads)


def _tails(instance: Instance, shortest: Floats) -> Floats:
    graph = instance.graph
    pointer, after = graph.successor_pointer.tolist(), graph.successor.tolist()
    seconds = shortest.tolist()
    tails = [0.0] * len(graph)
    for task in range(len(graph) - 1, -1, -1):
        tail = 0.0
        for position in range(pointer[task], pointer[task + 1]):
            other = after[position]
            tail = max(tail, tails[other] + seconds[other])
        tails[task] = tail
    return np.asarray(tails)


def _combine(heads: Floats, tails: Floats, area: Floats) -> float:
    """Find the best ``a + area of tasks with head >= a and tail >= b + b`` over thresholds a and all b."""
    if not len(heads):
        return 0.0
    by_tail = np.argsort(-tails, kind="stable")
    sorted_tails, sorted_heads, sorted_area = tails[by_tail], heads[by_tail], area[by_tail]
    distinct = np.unique(heads)
    picks = distinct[np.unique(np.linspace(0, len(distinct) - 1, _WINDOWS).astype(int))]
    best = 0.0
    for threshold in picks.tolist():
        late = sorted_heads >= threshold
        if late.any():
            # Among the tasks with the longest tails, the last one's tail is common to all of them.
            values = threshold + np.cumsum(sorted_area[late]) + sorted_tails[late]
            best = max(best, float(values.max()))
    return best
