"""Intra-workflow orders: which of the ready tasks of one workflow is next.

``index``: as they stand in the workflow. ``rank``: the longest way to the end first, HEFT's upward rank over
mean seconds and mean transfers (S5 section 1: R. Bolze, F. Desprez, B. Isnard, Evaluation of Online
Multi-Workflow Heuristics based on List-Scheduling Algorithms). ``priority``: pM-S (S4 section 5: T. Ma, R.
Buyya, Critical-Path and Priority based Algorithms for Scheduling Workflows with Parameter Sweep Tasks on
Global Grids): the end of a task makes everything urgent for which its children still wait, directly or not.

Deviations: pM-S counts for any graph, not for layers only. One end makes a task more urgent by one step,
however many children wait for it. Tasks that have ended keep their priority: nobody will ask for it, and all
their ancestors have ended too, so that an end costs O(unfinished ancestors of the children).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal
from weakref import WeakKeyDictionary

from weft.instance.instance import Instance
from weft.planners.ranks import upward_ranks
from weft.policies.policy import RunOrder, TaskOrder

__all__ = ["ORDERS", "ByIndex", "ByPriority", "ByRank", "Intra"]

Intra = Literal["rank", "index", "priority"]

_rank_keys: WeakKeyDictionary[Instance, Sequence[float]] = WeakKeyDictionary()
"""Many runs may have one instance: their keys are kept once."""


@dataclass(frozen=True, slots=True)
class _FixedOrder:
    """Keys that never change."""

    key: Callable[[int], float]

    def remembered(self) -> Sequence[float]:
        return ()

    def remember(self, values: Sequence[float]) -> None:
        """Change nothing: the order was fixed from the beginning."""

    def completed(self, task: int) -> Iterable[int]:  # noqa: ARG002
        return ()


class ByIndex:
    """As the tasks stand in the workflow."""

    def of(self, instance: Instance) -> RunOrder:  # noqa: ARG002
        """Give every task the same key; ties go by index."""
        return _FixedOrder(_no_preference)


def _no_preference(task: int) -> float:  # noqa: ARG001
    return 0.0


class ByRank:
    """The highest upward rank first."""

    def of(self, instance: Instance) -> RunOrder:
        """Compute the ranks, once per instance."""
        keys = _rank_keys.get(instance)
        if keys is None:
            keys = _rank_keys[instance] = (-upward_ranks(instance)).tolist()
        return _FixedOrder(keys.__getitem__)


class ByPriority:
    """What finished tasks' children wait for first."""

    def of(self, instance: Instance) -> RunOrder:
        """Begin with all priorities 0."""
        return _PriorityOrder(instance)


class _PriorityOrder:
    """Pri(t) of one run: the lower, the more urgent."""

    def __init__(self, instance: Instance) -> None:
        graph = instance.graph
        self._parents = graph.predecessors
        self._children = graph.successors
        self._priority = [0.0] * len(graph)
        self._ended = bytearray(len(graph))

    def key(self, task: int) -> float:
        return self._priority[task]

    def completed(self, task: int) -> Iterable[int]:
        if self._ended[task]:
            self._begin_again_after(task)
        self._ended[task] = 1
        priority = self._priority
        urgent = self._awaited_by(self._children(task).tolist())
        for ancestor in urgent:
            priority[ancestor] -= 1.0
        return urgent

    def remembered(self) -> Sequence[float]:
        return [*self._priority, *self._ended]

    def remember(self, values: Sequence[float]) -> None:
        tasks = len(self._priority)
        self._priority = list(values[:tasks])
        self._ended = bytearray(int(ended) for ended in values[tasks:])

    def _awaited_by(self, children: list[int]) -> list[int]:
        """List the unfinished ancestors of some tasks, each once."""
        found: list[int] = []
        seen: set[int] = set()
        left = children
        while left:
            for parent in self._parents(left.pop()).tolist():
                if parent not in seen and not self._ended[parent]:
                    seen.add(parent)
                    found.append(parent)
                    left.append(parent)
        return found

    def _begin_again_after(self, task: int) -> None:
        """Hear again of a task's end (a loop, a lost output): what follows it will run again too."""
        left = [task]
        while left:
            for child in self._children(left.pop()).tolist():
                if self._ended[child]:
                    self._ended[child] = 0
                    left.append(child)


ORDERS: dict[str, TaskOrder] = {"rank": ByRank(), "index": ByIndex(), "priority": ByPriority()}
"""Every order by its name in options."""
