"""Many machines that are alike, in the order in which they will be free behind what waits there.

Who takes nodes of a machine is expected to end at some time, and what waits there takes so many seconds after
that: until the time has come the sum stays as it is. From then on the machine is late, nobody knows when it
will be free, and it counts as from now: late machines stand in the order of what waits there. So a machine
changes its place only when something happens to it, and once when it becomes late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush

__all__ = ["Load", "Waits"]

Load = tuple[float, float]
"""When the last who takes nodes of a machine is expected to end, and the seconds of what waits behind."""

_Entry = tuple[float, int, int]
"""A time, a machine, and the how manieth look at this machine gave it."""


class Waits:
    """A change costs O(log machines), as does each machine that is asked for."""

    __slots__ = ("_behind_s", "_changed", "_due", "_ends", "_late", "_late_since", "_load", "_look")

    def __init__(self, machines: Iterable[int], load: Callable[[int], Load | None]) -> None:
        """Take in machines; ``load`` says what is on one of them, None: it may not be used."""
        self._load = load
        self._changed = dict.fromkeys(machines)
        self._look: dict[int, int] = {}
        """Per machine: how often it was looked at; an entry of an earlier look is out of date."""
        self._behind_s: dict[int, float] = {}
        self._ends: list[_Entry] = []
        """A heap of those that are not late yet, by when they will be."""
        self._due: list[_Entry] = []
        """A heap of the same, by when they will be free."""
        self._late: list[_Entry] = []
        """A heap of the others, by what waits there."""
        self._late_since: dict[int, int] = {}
        """Per machine: the look after which it has become late."""

    def changed(self, machine: int) -> None:
        """Hear that something has happened to a machine."""
        self._changed[machine] = None

    def first(self, most: int, now: float) -> list[int]:
        """Give so many machines that are free first, ties by index."""
        self._look_again()
        self._grow_late(now)
        taken: list[tuple[list[_Entry], _Entry]] = []
        while len(taken) < most:
            due, late = self._top(self._due), self._top(self._late)
            if due is None and late is None:
                break
            by_due = due is not None and (late is None or due[:2] <= (now + late[0], late[1]))
            heap = self._due if by_due else self._late
            taken.append((heap, heappop(heap)))
        for heap, entry in taken:
            heappush(heap, entry)
        return [machine for _, (_, machine, _) in taken]

    def _look_again(self) -> None:
        """Look at the machines to which something has happened."""
        for machine in self._changed:
            look = self._look[machine] = self._look.get(machine, 0) + 1
            found = self._load(machine)
            if found is not None:
                end_s, behind_s = found
                self._behind_s[machine] = behind_s
                heappush(self._ends, (end_s, machine, look))
                heappush(self._due, (end_s + behind_s, machine, look))
        self._changed.clear()

    def _grow_late(self, now: float) -> None:
        """Put those whose time has come among the late ones."""
        while self._ends and self._ends[0][0] <= now:
            _, machine, look = heappop(self._ends)
            if self._look[machine] == look:
                self._late_since[machine] = look
                heappush(self._late, (self._behind_s[machine], machine, look))

    def _top(self, heap: list[_Entry]) -> _Entry | None:
        """Give the first entry of a heap that holds; those before it go."""
        while heap:
            _, machine, look = heap[0]
            is_late = self._late_since.get(machine) == look
            if self._look[machine] == look and is_late == (heap is self._late):
                return heap[0]
            heappop(heap)
        return None
