"""A turn through the tasks of a run that may go, in the order of its plan."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from heapq import heappop, heappush

from weft.engine.indexes.marks import Marks
from weft.engine.indexes.parts import Parts
from weft.engine.indexes.planned import Class, PlannedTasks, kind_of

__all__ = ["PlannedTurn"]

_MOST_WAITING = 16
"""Tasks of one class that are looked at in one turn though those before them rather wait."""


_Out = tuple[object, Container[object]]


@dataclass(frozen=True, slots=True)
class _Stream:
    """Places that are gone through, from the first on: of a shelf, in this of kinds, in these of classes."""

    marks: Marks
    opens: Callable[[Class], None] | None = None
    """Opens that of which a place is the first; None: a place is that of a task."""
    outs: tuple[_Out, ...] = ()
    """What its tasks share, each with what is left out of its like: the stream is over if it is there."""

    def is_over(self) -> bool:
        """Say whether nothing of it is to be looked at any more."""
        return any(shared in out for shared, out in self.outs)


class _Busy:
    """The machines that are not free, as something that can be left out."""

    def __init__(self, is_free: Callable[[int], bool]) -> None:
        self.is_free = is_free

    def __contains__(self, home: object) -> bool:
        return isinstance(home, int) and not self.is_free(home)


class PlannedTurn:
    """Goes once through the tasks that may go now, in their order.

    It begins in O(1) and changes nothing of the tasks, so several may be under way. It opens shelves, in
    these kinds, in these classes, each when its first task is reached: the next is found in O(log of what was
    looked at). When tasks come or change their class meanwhile, all is opened again.
    """

    def __init__(self, tasks: PlannedTasks, *, strict: bool = False) -> None:
        """Begin with the first; ``strict``: without those whose planned machine cannot be used."""
        self._tasks = tasks
        self._strict = strict
        self._came = tasks.came
        self._place = 0
        self._left_out: set[Class] = set()
        self._kinds_out: set[Class] = set()
        self._waiting: dict[Class, int] = {}
        """Per class: how many of it rather wait."""
        self._busy: _Busy | None = None
        self._open_homes: list[int] = []
        """In a hurry: the machines that were free when it began, at ``_stirs`` of the tasks."""
        self._stirs = 0
        self.alike = tasks.alike
        self.even = tasks.even
        self._begin()

    @property
    def waiting(self) -> int:
        """Count the classes of which some task rather waits."""
        return len(self._waiting)

    @property
    def hurried(self) -> bool:
        """Say whether those that are planned on busy machines are not looked at."""
        return self._busy is not None

    def head(self) -> int | None:
        """Give the first task that was not passed, be it left out or not; None: there is none."""
        place = self._tasks.places.next(self._place)
        while place is not None and not self._was_there(place):
            place = self._tasks.places.next(place + 1)
        return None if place is None else self._tasks.ordered[place]

    def next(self) -> int | None:
        """Give the first task that was neither passed nor left out; None: there is none."""
        if self._added != self._tasks.added:
            self._begin()
        heap = self._heap
        while heap:
            place, number, stream = heap[0]
            found = None if stream.is_over() else stream.marks.next(place)
            if found == place and stream.opens is None:
                if place >= self._place and self._was_there(place):
                    return self._tasks.ordered[place]
                found = stream.marks.next(max(place + 1, self._place))
            elif found == place and stream.opens is not None:
                stream.opens(self._tasks.kind[self._tasks.ordered[place]])
                found = stream.marks.next(place + 1)
            heappop(heap)  # what was opened stands behind it: its first place is the same
            if found is not None:
                heappush(heap, (found, number, stream))
        self._tasks.settle(self._open_homes, self._stirs)
        return None

    def pass_by(self, task: int) -> None:
        """Go on behind a task."""
        self._place = self._tasks.place[task] + 1

    def let_wait(self, task: int) -> None:
        """Go on behind a task that rather waits; where many of its class do, leave out the others."""
        self.pass_by(task)
        whole = self._tasks.kind[task]
        self._waiting[whole] = self._waiting.get(whole, 0) + 1
        if self._waiting[whole] >= _MOST_WAITING:
            self._left_out.add(whole)

    def leave_out(self, task: int) -> None:
        """Go on behind a task that rather waits, as all others of its class do: leave them out."""
        self.pass_by(task)
        whole = self._tasks.kind[task]
        self._waiting.setdefault(whole, 1)
        self._left_out.add(whole)

    def leave_out_kind(self, task: int) -> None:
        """Go on behind a task that nothing can take, and leave out all others of its kind."""
        self.pass_by(task)
        whole = self._tasks.kind[task]
        self._left_out.add(whole)
        self._kinds_out.add(kind_of(whole))

    def hurry(self, is_free: Callable[[int], bool]) -> None:
        """From now on look at a task that is planned on a machine only while that is free."""
        self._busy = _Busy(is_free)
        self._begin()

    def _was_there(self, place: int) -> bool:
        """Say whether a task was there when the turn began."""
        return self._tasks.since[self._tasks.ordered[place]] < self._came

    def _begin(self) -> None:
        """Open the shelves; what was passed or left out before stays so."""
        tasks = self._tasks
        self._added = tasks.added
        self._heap: list[tuple[int, int, _Stream]] = []
        """(place, number, stream): where each stream has got to, or a place before that."""
        self._opened: set[Marks] = set()
        shelves = [tasks.unplanned] if self._strict else [tasks.unplanned, tasks.stranded]
        if self._busy is None:
            shelves.append(tasks.standing)
        else:
            self._stirs = tasks.stirs
            self._open_homes = tasks.open_homes(self._busy.is_free)
            for home in self._open_homes:
                for whole in tasks.homes.get(home, ()):
                    self._open_class(whole, (home, self._busy))
        for shelf in shelves:
            if shelf.firsts:
                self._open_shelf(shelf)

    def _open_shelf(self, shelf: Parts) -> None:
        def open_class(whole: Class) -> None:
            self._open_class(whole, (kind_of(whole), self._kinds_out))

        def open_kind(whole: Class) -> None:
            kind = kind_of(whole)
            self._open(_Stream(shelf.of[kind], open_class, ((kind, self._kinds_out),)))

        self._open(_Stream(shelf.firsts, open_kind))

    def _open_class(self, whole: Class, out: _Out) -> None:
        self._open(_Stream(self._tasks.classes[whole], None, ((whole, self._left_out), out)))

    def _open(self, stream: _Stream) -> None:
        """Begin to go through a stream, unless this was done before."""
        place = stream.marks.next(self._place) if stream.opens is None else stream.marks.first
        if place is not None and stream.marks not in self._opened:
            self._opened.add(stream.marks)
            heappush(self._heap, (place, len(self._opened), stream))
