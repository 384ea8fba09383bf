"""Orders of the ready tasks within a workflow.

``index``: by task index. ``rank``: by HEFT's upward rank over mean seconds and mean transfers
(docs/papers/many-workflows.md, section 1). ``priority``: pM-S (T. Ma, R. Buyya;
docs/papers/parameter-sweeps.md, section 5): when a task finishes, all unfinished ancestors of its children
become more urgent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal
from weakref import WeakKeyDictionary

from weft.instance.instance import Instance
from weft.planners.ranks import upward_ranks
from weft.policies.policy import RunOrder, TaskOrder
from weft.records import dataclass

Intra = Literal["rank", "index", "priority"]

_rank_keys: WeakKeyDictionary[Instance, Sequence[float]] = WeakKeyDictionary()
"""Sort keys by upward rank, cached per instance because many runs may share an instance."""


@dataclass(frozen=True, slots=True)
class _FixedOrder:
    """An order whose sort keys do not change during a run."""

    key: Callable[[int], float]

    def remembered(self) -> Sequence[float]:
        return ()

    def remember(self, values: Sequence[float]) -> None:
        """Do nothing: the keys are constant."""

    def completed(self, task: int) -> Iterable[int]:  # noqa: ARG002
        return ()


class ByIndex:
    """Order by task index."""

    def of(self, instance: Instance) -> RunOrder:  # noqa: ARG002
        """Return the order of a run: all sort keys are equal, so that tasks are ordered by index."""
        return _FixedOrder(_no_preference)


def _no_preference(task: int) -> float:  # noqa: ARG001
    return 0.0


class ByRank:
    """Order by descending upward rank."""

    def of(self, instance: Instance) -> RunOrder:
        """Return the order of a run by descending upward rank; ranks are computed once per instance."""
        if (keys := _rank_keys.get(instance)) is None:
            keys = _rank_keys[instance] = (-upward_ranks(instance)).tolist()
        return _FixedOrder(keys.__getitem__)


class ByPriority:
    """Order by pM-S priority.

    Deviations: here pM-S is defined for any graph, not only for layers. When a task finishes, each of the
    tasks concerned becomes more urgent by one step, however many children wait for it. Finished tasks keep
    their priority, which is not read again. All their ancestors have finished too, so a finish costs
    O(unfinished ancestors of the children).
    """

    def of(self, instance: Instance) -> RunOrder:
        """Return the order of a run; all priorities are 0 at first."""
        return _PriorityOrder(instance)


class _PriorityOrder:
    """The pM-S priorities of the tasks of one run; a lower number is more urgent."""

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
        """Return the unfinished ancestors of the tasks ``children``, each once."""
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
        """Mark all descendants of ``task`` as unfinished, because the task has run again."""
        left = [task]
        while left:
            for child in self._children(left.pop()).tolist():
                if self._ended[child]:
                    self._ended[child] = 0
                    left.append(child)


ORDERS: dict[str, TaskOrder] = {"rank": ByRank(), "index": ByIndex(), "priority": ByPriority()}
"""Orders by name; the option ``intra`` uses these names."""
