"""Combination: tasks that cannot start before a and must be followed by b need their area in between.

So ``a + area + b <= T`` for every set of tasks whose heads are at least a and whose tails are at least b.
Three sharper points:

- a few tasks cannot use the whole platform: k of them take at most the k best nodes at once;
- if all is to end by T, a task may last no longer than T less its head and tail, so a moldable task must be
  so wide that its area is larger. The longest T that is refuted so is a bound (the argument of J. Turek,
  J. L. Wolf, P. S. Yu, Approximate Algorithms for Scheduling Parallelizable Tasks, SPAA 1992, with heads and
  tails);
- of tasks that last longer than a (k + 1)-th of the time, at most k follow each other on a node: whatever
  their area, so many as need more than k platforms at once make it k + 1 times as long as the shortest of
  them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from weft.schedule.bounds.fronts import Front
from weft.schedule.bounds.refutation import SLACK, crossing
from weft.schedule.bounds.supplies import Supply
from weft.workflow.unfolding.task_graph import Floats

__all__ = ["Load", "Nest", "combined", "in_turns", "needed", "nest"]

_WINDOWS = 32
"""How many head thresholds are tried; each is valid, more only tighten the bound."""
_TURN_WINDOWS = 6
"""How many head thresholds, and tail thresholds, are tried where tasks are counted."""

_Positions = NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Load:
    """What the tasks ask of one supply."""

    supply: Supply
    front: Front
    widest: Floats
    """Per task: the most nodes it can take."""
    reach: tuple[Floats, Floats] | None
    """What counts of nodes can take of the supply at once; None: as much as they ask for."""

    def backwards(self) -> Load:
        """Give the same with the tasks in reverse order."""
        return replace(self, front=self.front.backwards(), widest=self.widest[::-1])

    def all_at_once(self, tasks: _Positions) -> bool:
        """Tell whether some tasks can all run at the same time, however wide: then area tells nothing."""
        return self.reach is None and float(self.front.peak[tasks].sum()) <= 1.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Nest:
    """Sets of tasks, each one task more than the one before, and what is around each: head plus tail."""

    order: _Positions
    around_s: Floats
    reach: Floats | None
    """Per set: the share of the supply its tasks can take at once; None: all of it."""


def nest(load: Load, tasks: _Positions, order: _Positions, around_s: Floats) -> Nest:
    """Make the sets of the first one, two, ... of some tasks in an order."""
    if load.reach is None:
        return Nest(order=order, around_s=around_s, reach=None)
    # Tasks that take no nodes need nothing: any reach will do.
    nodes = np.maximum(1.0, load.widest[tasks][order].cumsum())
    counts, weights = load.reach
    return Nest(order=order, around_s=around_s, reach=np.interp(nodes, counts, weights))


def needed(load: Load, nests: Sequence[Nest], tasks: _Positions, around_s: Floats, low_s: float) -> float:
    """Give how long the tasks of the neediest set take with what is around them, at least ``low_s``.

    ``around_s`` is per task: its own head plus tail.
    """
    best = max(low_s, _largest(nests, load.front.area[tasks]))
    if not load.front.bends:
        return best

    def at(limit_s: float) -> float:
        room_s = limit_s - around_s + SLACK * limit_s
        return _largest(nests, load.front.area_within(room_s, tasks))

    return crossing(best, at)


def _largest(nests: Sequence[Nest], area: Floats) -> float:
    best = 0.0
    for sets in nests:
        total = area[sets.order].cumsum()
        if sets.reach is not None:
            total = total / sets.reach
        best = max(best, float((sets.around_s + total).max()))
    return best


def in_turns(load: Load, tasks: _Positions) -> float:
    """Give how long some tasks take, counted by how many of them must follow each other."""
    shortest_s, rate = load.front.shortest_s[tasks], load.front.least_rate[tasks]
    if float(rate.sum()) <= 1.0:
        return 0.0
    order = np.argsort(-shortest_s, kind="stable")
    at_once = rate[order].cumsum()
    turns = np.arange(1, int(at_once[-1] * (1 - SLACK)) + 1)
    # The first task that the longer ones leave no room for in so many turns makes it one turn more.
    next_one = np.searchsorted(at_once, turns * (1 + SLACK), side="right")
    fits = next_one < len(order)
    return float(
        ((turns + 1) * shortest_s[order[np.minimum(next_one, len(order) - 1)]])[fits].max(initial=0.0)
    )


def combined(load: Load, tasks: _Positions, head_s: Floats, tail_s: Floats, low_s: float) -> float:
    """Give what some tasks with these heads and tails need at least; not below ``low_s``, a known bound."""
    by_head, by_tail = np.argsort(-head_s, kind="stable"), np.argsort(-tail_s, kind="stable")
    around = head_s[by_head] + np.minimum.accumulate(tail_s[by_head])
    nests = [nest(load, tasks, by_head, around)]
    for threshold in _picked(head_s, _WINDOWS):
        order = by_tail[head_s[by_tail] >= threshold]
        # Among the tasks with the longest tails, the last one's tail is common to all of them.
        nests.append(nest(load, tasks, order, threshold + tail_s[order]))
    low_s = max(low_s, _turns_between(load, tasks, head_s, tail_s))
    return needed(load, nests, tasks, head_s + tail_s, low_s)


def _turns_between(load: Load, tasks: _Positions, head_s: Floats, tail_s: Floats) -> float:
    """Give the bound of ``in_turns`` for sets with a head and a tail threshold."""
    best = 0.0
    if load.all_at_once(tasks):
        return best
    for start in _picked(head_s, _TURN_WINDOWS):
        late = head_s >= start
        for rest in _picked(tail_s[late], _TURN_WINDOWS):
            chosen = tasks[late & (tail_s >= rest)]
            best = max(best, start + in_turns(load, chosen) + rest)
    return best


def _picked(values: Floats, number: int) -> list[float]:
    """Pick some of the distinct values, evenly by their rank."""
    distinct = np.unique(values)
    picks: list[float] = distinct[np.unique(np.linspace(0, len(distinct) - 1, number).astype(int))].tolist()
    return picks
