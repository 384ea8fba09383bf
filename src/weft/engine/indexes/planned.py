"""The tasks of a run that may go, in an order that its plan gives (``indexes.turn`` goes through them).

They are kept apart by class: what tasks share by their kind (``ReadyTasks``), their seconds, and the machine
and count that are planned for them. There are as many classes as kinds x machines, so nothing here goes
through all of them: of each class only its first task is listed, on one of three shelves, by kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from weft.engine.indexes.changes import Changes
from weft.engine.indexes.marks import Marks
from weft.engine.indexes.parts import Parts
from weft.engine.state.known import Known
from weft.engine.state.plans import RunPlan, places_in

__all__ = ["Class", "PlannedTasks", "Suits", "kind_of"]

Class = tuple[float, ...]
"""Kind by seconds, planned machine, planned count, kind (mode group, machine it is bound to, ...)."""

Suits = Callable[[int, int, int], bool]
"""Says whether a machine and a count suit a task, by what it wants by now."""

_UNPLANNED, _NOWHERE = -1, -2
"""What stands for the home of a class whose tasks are not planned; of tasks that cannot run as planned."""


def kind_of(whole: Class) -> Class:
    """Give the kind of the tasks of a class."""
    return whole[3:]


class PlannedTasks:
    """Tasks by planned start, then index, those that are not planned last; or by rank, then in this order.

    Adding and removing cost O(1). A machine that goes or comes back costs O(classes planned there).
    """

    def __init__(
        self,
        plan: RunPlan,
        known: Known,
        suits: Suits | None = None,
        *,
        by_rank: bool = False,
        selector: str = "",
    ) -> None:
        """Begin without tasks; those with another selector are not taken in."""
        self.plan = plan
        self.by_rank = by_rank
        self.selector = selector
        self._known = known
        self._suits = suits
        self._choosing = bool(known.selectors or selector)
        self.ordered, self.place = plan.places
        if by_rank:
            self.ordered = sorted(self.ordered, key=lambda task: -known.ranks[task])
            self.place = places_in(self.ordered)
        self.alike = known.seconds_kinds is not None and known.simple
        """Whether tasks of one class would end at the same time wherever they were sent."""
        self.even = known.even
        """Whether tasks of one kind need the same to be free."""
        self.places = Marks()
        """The places of all tasks."""
        self.classes: dict[Class, Marks] = {}
        """The places of the tasks of each class."""
        self.kind: dict[int, Class] = {}
        """Per task: its class."""
        self.since: dict[int, int] = {}
        """Per task: how many had come before it."""
        self.came = 0
        self.added = 0
        """How often a task has come or changed its class, or a class its shelf."""
        self.standing, self.unplanned, self.stranded = Parts(), Parts(), Parts()
        """The first places of classes by kind: that can run as planned, without a plan, and whose planned
        machine cannot be used."""
        self.homes: dict[int, dict[Class, None]] = {}
        """The classes that are planned on each machine, or whose home something else stands for."""
        self._home: dict[Class, int] = {}
        self._lost: set[int] = set()
        """Homes that cannot be used."""
        self._unsure: list[int] = []
        """Homes of which nobody has asked yet whether they can be used."""
        self.stirs = 0
        """How often something has changed that may let a task go home."""
        self._stirred: dict[int, int] = {}
        """By home: when this was; homes that are not here have nobody who could go there."""
        self._heard = 0

    def add(self, task: int, kind: tuple[int, ...]) -> None:
        """Take in a task that may go from now on, or whose kind has changed."""
        if self._choosing and self._known.selector(task) != self.selector:
            return
        whole, before = self._class_of(task, kind), self.kind.get(task)
        if before == whole:
            return
        if before is None:
            self.since[task] = self.came
            self.came += 1
        else:
            self._take_out(task, before)
        self.kind[task] = whole
        self.added += 1
        place, marks = self.place[task], self.classes.get(whole)
        if marks is None:
            marks = self.classes[whole] = Marks()
            self._settle_in(task, whole)
        first = marks.first
        marks.add(place)
        self.places.add(place)
        self._led_anew(whole, first, marks.first)

    def remove(self, task: int) -> None:
        """Forget a task."""
        whole = self.kind.pop(task, None)
        if whole is not None:
            del self.since[task]
            self._take_out(task, whole)

    def _take_out(self, task: int, whole: Class) -> None:
        place, marks = self.place[task], self.classes[whole]
        first = marks.first
        marks.remove(place)
        self.places.remove(place)
        self._led_anew(whole, first, marks.first)
        if marks.first is None:
            self._move_out(whole)

    def _class_of(self, task: int, kind: tuple[int, ...]) -> Class:
        line, seconds = self.plan.line.get(task), self._known.seconds_kinds
        planned = (-1, -1) if line is None else (line.machine, line.count)
        return (-1 if seconds is None else seconds[task], *planned, *kind)

    def _home_of(self, task: int, whole: Class) -> int:
        """Give the machine a class is planned on, if its tasks can run there whenever it can be used."""
        machine, count, group, bound = (int(each) for each in whole[1:5])
        if machine < 0:
            return _UNPLANNED
        if group < -1:  # it wants something else than at first
            possible = self._suits is None or self._suits(task, machine, count)
        else:
            possible = group < 0 or (machine, count) in self._known.options(task).nodes
        return machine if possible and bound in (-1, machine) else _NOWHERE

    def _settle_in(self, task: int, whole: Class) -> None:
        """Find the home of a new class."""
        home = self._home[whole] = self._home_of(task, whole)
        if home not in self.homes and home >= 0:
            self._unsure.append(home)
        self.homes.setdefault(home, {})[whole] = None

    def _move_out(self, whole: Class) -> None:
        """Forget a class without tasks."""
        home = self._home.pop(whole)
        del self.classes[whole], self.homes[home][whole]
        if not self.homes[home]:
            del self.homes[home]

    def _led_anew(self, whole: Class, before: int | None, after: int | None) -> None:
        """Note that other tasks than before are in a class, and which was and is its first; None: none."""
        home = self._home[whole]
        if before != after:
            self._shelf(home).change(kind_of(whole), before, after)
        self.stirs += 1
        if home >= 0:
            self._stirred[home] = self.stirs

    def _shelf(self, home: int) -> Parts:
        if home == _UNPLANNED:
            return self.unplanned
        return self.stranded if home == _NOWHERE or home in self._lost else self.standing

    def refresh(self, changes: Changes, is_usable: Callable[[int], bool]) -> None:
        """Look at the machines on which something has changed since the last time."""
        looked_at: Iterable[int] = self._unsure
        if self._heard != changes.count:
            looked_at = [*self._unsure, *changes.since(self._heard)]
        self.stirs += 1
        for machine in looked_at:
            if machine not in self.homes:
                self._lost.discard(machine)  # it is asked about when the next task is planned there
                continue
            self._stirred[machine] = self.stirs
            if is_usable(machine) == (machine in self._lost):
                self._change_shelf(machine)
        self._unsure, self._heard = [], changes.count

    def _change_shelf(self, home: int) -> None:
        """Put all that are planned on a machine where they belong, now that it can be used, or cannot."""
        before = self._shelf(home)
        self._lost ^= {home}
        after = self._shelf(home)
        self.added += 1
        for whole in self.homes[home]:
            first = self.classes[whole].first
            before.change(kind_of(whole), first, None)
            after.change(kind_of(whole), None, first)

    def open_homes(self, is_free: Callable[[int], bool]) -> list[int]:
        """List the machines that are free, and on which somebody is planned who may be able to go there.

        O(machines that have changed since the last question, or were listed then).
        """
        found = []
        for home in list(self._stirred):
            if home in self.homes and home not in self._lost and is_free(home):
                found.append(home)
            else:
                del self._stirred[home]
        return found

    def settle(self, homes: Iterable[int], stirs: int) -> None:
        """Hear that nobody can go to some machines; this holds until something changes there.

        ``stirs``: when this was asked. Where tasks of one class take different amounts not all were asked.
        """
        for home in homes if self.even else ():
            if self._stirred.get(home, stirs + 1) <= stirs:
                del self._stirred[home]
