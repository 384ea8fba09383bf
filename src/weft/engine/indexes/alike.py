"""Machines that are alike: which of them a task has to look at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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

    up: bool
    left: Left | None
    alike: list[Alike]
    """Where it is a member."""
    waits: list[Waits]
    """Who must hear when something happens to it."""

    def load(self) -> Load | None:
        """Give what is on it; None: it is down."""
        ...


class Alike:
    """Machines that are alike, or those of them to which tasks of one kind may go."""

    __slots__ = ("_all", "_up", "_waits", "members", "rooms")

    def __init__(self, machines: Sequence[Member], members: Iterable[int]) -> None:
        self.members = tuple(members)
        """Ascending."""
        self.rooms = Rooms()
        self._all = machines
        self._up = Marks()
        self._waits: Waits | None = None
        for index in self.members:
            machine = machines[index]
            machine.alike.append(self)
            self.rooms.move(index, None, machine.left)
            if machine.up:
                self._up.add(index)

    def set_up(self, index: int, up: bool) -> None:
        """Hear that one of them went or came back."""
        if up:
            self._up.add(index)
        else:
            self._up.remove(index)

    def first_up(self) -> int | None:
        """Give the first that is up; None: there is none."""
        return self._up.next(0)

    def soonest(self, now: float) -> list[int]:
        """List those that are up where a task might be over first, if it may wait there.

        Of many: the first, the first ones with free nodes, and those that are free first behind what waits.
        """
        if len(self.members) <= _MOST_ASKED:
            return [index for index in self.members if self._all[index].up]
        if self._waits is None:
            self._waits = Waits(self.members, lambda index: self._all[index].load())
            for index in self.members:
                self._all[index].waits.append(self._waits)
        first = self.first_up()
        return [*([] if first is None else [first]), *self.rooms.firsts(), *self._waits.first(_SOONEST, now)]
