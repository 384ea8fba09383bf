"""Which machines may have to be asked something: those of which there is news, and those whose time has come.

It only saves going through all machines: what is asked follows from the inquiries. Of a state that was
rebuilt there is news of every machine.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from heapq import heappop, heappush

__all__ = ["Agenda"]


class Agenda:
    """Costs O(log changes) for each machine that is noted or found, and a run O(its machines) in all."""

    def __init__(self, machines: Iterable[int]) -> None:
        self.access, self.fetch = _Dues(), _Dues()
        """When machines are to be asked again whether we may use them, and for their state."""
        self._news = dict.fromkeys(machines)
        """Machines that something has happened to since they were looked at."""
        self._wanted_by: dict[int, Collection[int]] = {}
        """By active run: the machines on which some of its tasks can run."""
        self._wanting: dict[int, int] = {}
        """By machine: how many runs that are."""

    def note(self, machine: int) -> None:
        """Hear that something has happened to a machine."""
        self._news[machine] = None

    def is_wanted(self, machine: int) -> bool:
        """Say whether some run has a use for a machine."""
        return self._wanting.get(machine, 0) > 0

    def meet(self, runs: Mapping[int, Collection[int]]) -> None:
        """Hear which machines the active runs have a use for."""
        for run, machines in list(self._wanted_by.items()):
            if runs.get(run) is not machines:
                self._want(self._wanted_by.pop(run), -1)
        for run, machines in runs.items():
            if run not in self._wanted_by:
                self._wanted_by[run] = machines
                self._want(machines, 1)

    def _want(self, machines: Collection[int], more: int) -> None:
        for machine in machines:
            before = self._wanting.get(machine, 0)
            self._wanting[machine] = before + more
            if 0 in (before, before + more):
                self.note(machine)

    def taken(self, now: float) -> list[int]:
        """Hand over the machines that are to be looked at, by index."""
        due = [*self.access.passed(now), *self.fetch.passed(now)]
        found, self._news = self._news | dict.fromkeys(due), {}
        return sorted(found)


class _Dues:
    """The next time of each machine, with the first of all at hand."""

    def __init__(self) -> None:
        self._at_s: dict[int, float] = {}
        self._heap: list[tuple[float, int]] = []
        """Those that say something else than ``_at_s`` are out of date."""

    def put(self, machine: int, at_s: float) -> None:
        """Note the time of a machine instead of the one it had; infinite: it has none."""
        if at_s == math.inf:
            self._at_s.pop(machine, None)
        elif self._at_s.get(machine) != at_s:
            self._at_s[machine] = at_s
            heappush(self._heap, (at_s, machine))

    def first(self) -> float:
        """Give the first time; infinite: there is none."""
        while self._heap:
            at_s, machine = self._heap[0]
            if self._at_s.get(machine) == at_s:
                return at_s
            heappop(self._heap)
        return math.inf

    def passed(self, now: float) -> list[int]:
        """Take out the machines whose time has come."""
        found = []
        while self.first() <= now:
            found.append(heappop(self._heap)[1])
            del self._at_s[found[-1]]
        return found
