"""Machines that are alike: which of them a task has to look at."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from weft.engine.indexes.marks import Marks
from weft.engine.indexes.rooms import Left, Rooms
from weft.engine.indexes.waits import Load, Waits

__all__ = ["Alike", "Member"]

_MOST_ASKED = 64
"""Machines that are alike and are all asked when they will be free."""

_SOONEST = 16
"""Of more than these, those that are asked."""


class Member(Protocol):
    """A machine."""

    usable: bool
    left: Left | None
    alike: list[Alike]
    """Where it is a member."""
    waits: list[Waits]
    """Who must hear when something happens to it."""

    def load(self) -> Load | None:
        """Give what is on it; None: it may not be used."""
        ...


class Alike:
    """Machines that are alike, or those of them to which tasks of one kind may go."""

    __slots__ = ("_all", "_usable", "_waits", "members", "rooms")

    def __init__(self, machines: Sequence[Member], members: Iterable[int]) -> None:
        self.members = tuple(members)
        """Ascending."""
        self.rooms = Rooms()
        self._all = machines
        self._usable = Marks()
        self._waits: Waits | None = None
        for index in self.members:
            machine = machines[index]
            machine.alike.append(self)
            self.rooms.move(index, None, machine.left)
            if machine.usable:
                self._usable.add(index)

    def set_usable(self, index: int, usable: bool) -> None:
        """Hear that one of them may be used from now on, or may not."""
        if usable:
            self._usable.add(index)
        else:
            self._usable.remove(index)

    def first(self, but: Collection[int] = ()) -> int | None:
        """Give the first that may be used, of those besides some; None: there is none."""
        first = self._usable.first
        while but and first is not None and first in but:
            first = self._usable.next(first + 1)
        return first

    def soonest(self, now: float, but: Collection[int] = ()) -> list[int]:
        """List those that may be used, besides some, where a task might be over first if it may wait there.

        Of many: the first, the first ones with free nodes, and those that are free first behind what waits.
        """
        if len(self.members) <= _MOST_ASKED:
            return [index for index in self.members if self._all[index].usable and index not in but]
        if self._waits is None:
            self._waits = Waits(self.members, lambda index: self._all[index].load())
            for index in self.members:
                self._all[index].waits.append(self._waits)
        first, soonest = self.first(but), self._waits.first(_SOONEST + len(but), now)
        found = [] if first is None else [first]
        return [*found, *self.rooms.firsts(but), *(index for index in soonest if index not in but)]
