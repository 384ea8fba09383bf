"""The ready tasks of one run, in priority heaps by kind.

Tasks of one kind can run in the same modes on the same machines: if the first of them cannot be placed, none
can. So a policy looks at one task per kind, however many wait. Entries that are out of date (the task was
placed, or its key has changed) are dropped when they come to the top: every operation costs O(log n),
amortised.

Who follows a plan may ask for them by planned start as well (``indexes.planned``): that is kept from the
first question on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from heapq import heapify, heappop, heappush

from weft.engine.indexes.planned import PlannedTasks, Suits
from weft.engine.state.known import Known
from weft.engine.state.plans import RunPlan

__all__ = ["ReadyTasks"]

_Kind = tuple[int, ...]

_MOVING, _OPEN = -2, -1
"""Where kinds of transfers are listed, and those that are bound to no machine; the others by machine."""


class ReadyTasks:
    """Heaps of (key, task) by kind (mode group, machine it is bound to or -1)."""

    __slots__ = ("_heaps", "_kept", "_key_of", "_keys", "_kind_of", "_kinds", "_listed")

    def __init__(self, key_of: Callable[[int], float], kind_of: Callable[[int], _Kind]) -> None:
        self._key_of = key_of
        self._kind_of = kind_of
        self._heaps: dict[_Kind, list[tuple[float, int]]] = {}
        self._listed: dict[int, dict[_Kind, None]] = {}
        """The kinds by where their tasks may go."""
        self._keys: dict[int, float] = {}
        """The key of every ready task; an entry with another key is out of date."""
        self._kinds: dict[int, _Kind] = {}
        """The kind of every ready task; an entry among those of another is out of date. Its key may be the
        same: a task that was lost is ready again as before, but for the machine it must not go to."""
        self._kept: list[PlannedTasks] = []
        """What somebody has asked for: it hears of every task that comes and goes."""

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, task: int) -> bool:
        return task in self._keys

    def __iter__(self) -> Iterator[int]:
        return iter([task for _, task in sorted((key, task) for task, key in self._keys.items())])

    def add(self, task: int) -> None:
        """Take in a task that has become ready."""
        key = self._keys[task] = self._key_of(task)
        kind = self._kinds[task] = self._kind_of(task)
        for index in self._kept:
            index.add(task, kind)
        heap = self._heaps.get(kind)
        if heap is None:
            self._heaps[kind] = [(key, task)]
            self._listed.setdefault(_place_of(kind), {})[kind] = None
        else:
            heappush(heap, (key, task))

    def add_all(self, tasks: list[int]) -> None:
        """Take in many tasks at once, as at the start of a run: O(n)."""
        self._kept = []
        touched: dict[int, list[tuple[float, int]]] = {}
        for task in tasks:
            key = self._keys[task] = self._key_of(task)
            kind = self._kinds[task] = self._kind_of(task)
            heap = self._heaps.setdefault(kind, [])
            self._listed.setdefault(_place_of(kind), {})[kind] = None
            heap.append((key, task))
            touched[id(heap)] = heap
        for heap in touched.values():
            heapify(heap)

    def remove(self, task: int) -> None:
        """Forget a task; its entry goes when it comes to the top."""
        self._keys.pop(task, None)
        self._kinds.pop(task, None)
        for index in self._kept:
            index.remove(task)

    def changed(self, task: int) -> None:
        """Put a ready task in its new place: its key or its kind has changed."""
        if task in self._keys:
            self.add(task)

    def by_plan(
        self,
        plan: RunPlan,
        known: Known,
        suits: Suits | None = None,
        *,
        by_rank: bool = False,
        selector: str = "",
    ) -> PlannedTasks:
        """Give those with a selector in the order of a plan, or by rank first; O(n log n) if it is new."""
        self._kept = [each for each in self._kept if each.plan is plan]
        for index in self._kept:
            if (index.by_rank, index.selector) == (by_rank, selector):
                return index
        index = PlannedTasks(plan, known, suits, by_rank=by_rank, selector=selector)
        for task in self._keys:
            index.add(task, self._kinds[task])
        self._kept.append(index)
        return index

    def heads(self, machines: Collection[int] | None = None) -> list[int]:
        """Give the first task of each kind, best first.

        ``machines``: no transfers, and of tasks that are bound to a machine only those bound to one of these.
        """
        if machines is None or (len(self._listed) == 1 and _OPEN in self._listed):
            return self._firsts(list(self._heaps))
        some, others = (
            (machines, self._listed) if len(machines) < len(self._listed) else (self._listed, machines)
        )
        places = [_OPEN, *(place for place in some if place >= 0 and place in others)]
        return self._firsts([kind for place in places for kind in self._listed.get(place, ())])

    def transfers(self) -> list[int]:
        """Give the first transfer of each kind, best first."""
        return self._firsts(list(self._listed.get(_MOVING, ())))

    def _firsts(self, kinds: Iterable[_Kind]) -> list[int]:
        found = []
        for kind in kinds:
            heap = self._heaps[kind]
            self._clean(kind, heap)
            if heap:
                found.append(heap[0])
        if len(found) > 1:
            found.sort()
        return [task for _, task in found]

    def _clean(self, kind: _Kind, heap: list[tuple[float, int]]) -> None:
        keys, kinds = self._keys, self._kinds
        while heap:
            key, task = heap[0]
            if keys.get(task) == key and kinds[task] == kind:
                return
            heappop(heap)
        del self._heaps[kind]
        place = _place_of(kind)
        del self._listed[place][kind]
        if not self._listed[place]:
            del self._listed[place]


def _place_of(kind: _Kind) -> int:
    """Say where a kind is listed: only those of transfers have no mode group."""
    return _MOVING if kind[0] == -1 else kind[1]
