"""The tasks of a run that may go, in an order that its plan gives, and a turn through them."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heapreplace

from weft.engine.indexes.marks import Marks
from weft.engine.state.known import Known
from weft.engine.state.plans import RunPlan, places_in

__all__ = ["PlannedTasks", "PlannedTurn"]

_MOST_WAITING = 16
"""Tasks of one class that are looked at in one turn though those before them rather wait."""

_Kind = tuple[float, ...]


class PlannedTasks:
    """Tasks by planned start, then index, those that are not planned last; or by rank, then in this order.

    They are kept apart by what they share: their kind (``ReadyTasks``), their seconds, and the machine and
    count that are planned for them. Adding and removing cost O(1).
    """

    def __init__(self, plan: RunPlan, known: Known, *, by_rank: bool = False) -> None:
        self.plan = plan
        self.by_rank = by_rank
        self.ordered, self.place = plan.places
        if by_rank:
            self.ordered = sorted(self.ordered, key=lambda task: -known.ranks[task])
            self.place = places_in(self.ordered)
        self._seconds_kind = known.seconds_kinds
        self.alike = self._seconds_kind is not None and known.simple
        """Whether tasks of one class would end at the same time wherever they were sent."""
        self.marks: dict[_Kind, Marks] = {}
        self.kind: dict[int, _Kind] = {}
        """Per task: its class."""
        self.since: dict[int, int] = {}
        """Per task: how many had come before it."""
        self.came = 0
        self.moved = 0
        """How often a task has changed its class."""

    def add(self, task: int, kind: tuple[int, ...]) -> None:
        """Take in a task that may go from now on, or whose kind has changed."""
        line, seconds = self.plan.line.get(task), self._seconds_kind
        planned = (-1, -1) if line is None else (line.machine, line.count)
        whole: _Kind = (-1 if seconds is None else seconds[task], *planned, *kind)
        before = self.kind.get(task)
        if before is None:
            self.since[task] = self.came
            self.came += 1
        elif before != whole:
            self._take_out(task, before)
            self.moved += 1
        self.kind[task] = whole
        marks = self.marks.get(whole)
        if marks is None:
            marks = self.marks[whole] = Marks()
        marks.add(self.place[task])

    def remove(self, task: int) -> None:
        """Forget a task."""
        kind = self.kind.pop(task, None)
        if kind is not None:
            del self.since[task]
            self._take_out(task, kind)

    def _take_out(self, task: int, kind: _Kind) -> None:
        marks = self.marks[kind]
        marks.remove(self.place[task])
        if not marks:
            del self.marks[kind]


class PlannedTurn:
    """Goes once through the tasks that may go now, in their order.

    It begins in O(classes) and finds the next in O(log classes) as a rule.
    """

    def __init__(self, tasks: PlannedTasks, belongs: Callable[[int], bool] | None = None) -> None:
        """Begin with the first; ``belongs`` says of a class by any of its tasks whether it counts."""
        self._tasks = tasks
        self._belongs = belongs
        self._came = tasks.came
        self._moved = tasks.moved
        self._place = 0
        self._left_out: set[_Kind] = set()
        self._waiting: dict[_Kind, int] = {}
        """Per class: how many of it rather wait."""
        self.alike = tasks.alike
        self._heap = self._firsts()
        """(first place, class) of the classes that were not left out; what is out of date goes when it comes
        to the top."""

    def head(self) -> int | None:
        """Give the first task that was not passed, be it left out or not; None: there is none."""
        places = (self._first(kind) for kind in self._tasks.marks)
        first = min((place for place in places if place is not None), default=None)
        return None if first is None else self._tasks.ordered[first]

    def next(self) -> int | None:
        """Give the first task that was neither passed nor left out; None: there is none."""
        if self._moved != self._tasks.moved:
            self._moved, self._heap = self._tasks.moved, self._firsts()
        heap = self._heap
        while heap:
            place, kind = heap[0]
            first = None if kind in self._left_out else self._first(kind)
            if first is None:
                heappop(heap)
            elif first == place:
                return self._tasks.ordered[place]
            else:
                heapreplace(heap, (first, kind))
        return None

    def pass_by(self, task: int) -> None:
        """Go on behind a task."""
        self._place = self._tasks.place[task] + 1

    def let_wait(self, task: int) -> None:
        """Go on behind a task that rather waits; where many of its class do, leave out the others."""
        self.pass_by(task)
        kind = self._tasks.kind[task]
        self._waiting[kind] = self._waiting.get(kind, 0) + 1
        if self._waiting[kind] >= _MOST_WAITING:
            self._left_out.add(kind)

    def leave_out(self, task: int) -> None:
        """Go on behind a task that was not placed, and leave out all others of its class."""
        self.pass_by(task)
        self._left_out.add(self._tasks.kind[task])

    def _firsts(self) -> list[tuple[int, _Kind]]:
        found = [(place, kind) for kind in self._tasks.marks if (place := self._first(kind)) is not None]
        heapify(found)
        return found

    def _first(self, kind: _Kind) -> int | None:
        """Give the first place of a class that was not passed and was there when the turn began."""
        marks = self._tasks.marks.get(kind)
        place = None if marks is None else marks.next(self._place)
        while marks is not None and place is not None:
            task = self._tasks.ordered[place]
            if self._belongs is not None and not self._belongs(task):
                return None
            if self._tasks.since[task] < self._came:
                return place
            place = marks.next(place + 1)
        return None
