"""The unfinished tasks of a run: their mean seconds together, and the first of them by upward rank.

Made at the first question, in O(n), and kept from then on: an end, or a task that runs again, costs O(1).
"""

from __future__ import annotations

from collections.abc import Iterable

from weft.engine.indexes.marks import Marks
from weft.engine.indexes.totals import as_seconds, as_units
from weft.engine.state.known import Known
from weft.workflow.unfolding.task_graph import COMPUTE

__all__ = ["Unfinished"]


class Unfinished:
    """Counts tasks in and out."""

    __slots__ = ("_computing", "_first", "_known", "_moving", "_places")

    def __init__(self, known: Known, tasks: Iterable[int]) -> None:
        self._known = known
        self._computing = self._moving = 0
        """The mean seconds, in units, of the tasks that take nodes and of the others."""
        self._places = Marks()
        """The places of the tasks in the order of the ranks."""
        self._first: tuple[int, tuple[int, ...]] = (0, ())
        """The answer that was given last, and how many were asked for."""
        for task in tasks:
            self.count(task, 1)

    def count(self, task: int, change: int) -> None:
        """Take in a task (1), or take it out (-1)."""
        known = self._known
        units = change * as_units(known.mean_seconds[task])
        if known.kind[task] == COMPUTE:
            self._computing += units
        else:
            self._moving += units
        place = known.rank_place[task]
        if change > 0:
            self._places.add(place)
        else:
            self._places.remove(place)
        self._first = (0, ())

    @property
    def seconds(self) -> float:
        """Give the mean seconds of all of them together."""
        return as_seconds(self._computing + self._moving)

    @property
    def computing_s(self) -> float:
        """Give the mean seconds of those that take nodes."""
        return as_seconds(self._computing)

    def first(self, most: int) -> tuple[int, ...]:
        """Give the first so many by descending upward rank, then index: O(most)."""
        if self._first[0] != most:
            found: list[int] = []
            place = self._places.next(0)
            while place is not None and len(found) < most:
                found.append(self._known.rank_order[place])
                place = self._places.next(place + 1)
            self._first = (most, tuple(found))
        return self._first[1]
