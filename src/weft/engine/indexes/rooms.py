"""Machines that are alike and have free nodes, kept apart by what is left of them.

Where as much is left of two machines that are alike, a task does not care which it gets: the first is enough.
"""

from __future__ import annotations

from collections.abc import Collection

from weft.engine.indexes.marks import Marks

__all__ = ["Left", "Rooms"]

Left = int | tuple[float, ...]
"""What is left of a machine: its free nodes, its believed speed, its amounts."""


class Rooms:
    """Moving a machine costs O(1), finding the first ones O(how many kinds of left-overs there are)."""

    __slots__ = ("_marks",)

    def __init__(self) -> None:
        self._marks: dict[Left, Marks] = {}

    def move(self, machine: int, before: Left | None, after: Left | None) -> None:
        """Hear that something else is left of a machine; None: it has no free node, or may not be used."""
        if before is not None:
            marks = self._marks[before]
            marks.remove(machine)
            if marks.first is None and type(before) is tuple:  # of plain numbers of nodes there are few
                del self._marks[before]
        if after is not None:
            found = self._marks.get(after)
            if found is None:
                found = self._marks[after] = Marks()
            found.add(machine)

    def firsts(self, but: Collection[int] = ()) -> list[int]:
        """Give the first machine of each kind of left-overs, of those besides some."""
        found = []
        for marks in self._marks.values():
            first = marks.first
            while but and first is not None and first in but:
                first = marks.next(first + 1)
            if first is not None:
                found.append(first)
        return found
