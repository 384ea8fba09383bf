"""What the information service and the machines were asked, what they answered, and what follows from it.

A machine may be used if it is up and, where the settings ask for it: the information service lists it, it has
let us in, and its dynamic state is known (S3 section 3). A state counts until the machine has missed a second
query: between a query and its answer the old one is believed. What follows is noted with the machines when it
changes, so nobody has to go through all of them to find one that may be used.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from weft.engine.indexes.changes import Changes
from weft.engine.selection.agenda import Agenda
from weft.engine.settings import Settings
from weft.engine.state.machines import Machines

__all__ = ["STATE_UNKNOWN", "Inquiries"]

STATE_UNKNOWN = "its state is not known"
"""The obstacle of a machine that has not been heard of for too long."""

_QUERIES = 2
"""Intervals for which an answer is believed."""

_PATIENCE_S = 30.0
"""How long first answers are waited for where no interval says it."""


class Inquiries:
    """An answer costs O(1), a new list O(machines)."""

    def __init__(self, settings: Settings, machines: Machines, changes: Changes) -> None:
        self.needed = (
            settings.authorise or settings.discover_every_s is not None or settings.fetch_every_s is not None
        )
        """Whether machines have to be found out about before they are used."""
        self.discovered_s: float | None = None
        """When the information service was asked last."""
        self.listed: frozenset[int] | None = None
        """The machines it listed; None: it has not answered yet."""
        self.first_asked_s: dict[int, float] = {}
        """When each machine was asked anything for the first time."""
        self.access_asked_s: dict[int, float] = {}
        """When each machine was asked last whether we may use it."""
        self.access: dict[int, bool] = {}
        """What it answered."""
        self.fetch_asked_s: dict[int, float] = {}
        """When each machine was asked for its state last."""
        self.fetched_s: dict[int, float] = {}
        """When it answered last."""
        self.agenda = Agenda(range(len(machines)))
        """Which machines may have to be asked something next."""
        self._settings = settings
        self._machines = machines
        self._changes = changes
        self._unanswered: dict[int, None] = {}
        """Machines whose first answer is to come, as far as that was not waited for too long."""
        self._believed: deque[tuple[float, int]] = deque()
        """Until when the state of a machine is believed, for every answer, ascending."""
        self.look_again(0.0)

    def obstacle(self, machine: int, now: float) -> str:
        """Say why a machine may not be used; "": it may."""
        settings = self._settings
        if not self._machines[machine].up:
            return "it is down"
        if settings.discover_every_s is not None:
            if self.listed is None:
                return "the information service has not answered yet"
            if machine not in self.listed:
                return "it is not listed"
        if settings.authorise and not self.access.get(machine, False):
            return "access is refused" if machine in self.access else "access was not granted yet"
        if settings.fetch_every_s is not None:
            fetched_s = self.fetched_s.get(machine)
            if fetched_s is None or now >= fetched_s + _QUERIES * settings.fetch_every_s:
                return STATE_UNKNOWN
        return ""

    def is_ruled_out(self, machine: int) -> bool:
        """Say whether a machine is known to be of no use: down, not listed, or access is refused.

        A plan may count on one that has only not answered yet.
        """
        unlisted = self.listed is not None and machine not in self.listed
        return not self._machines[machine].up or unlisted or self.access.get(machine) is False

    def is_settling(self, now: float) -> bool:
        """Say whether the first answer of some machine is still to come: a better machine may be among them.

        Who has not answered within an interval is not waited for.
        """
        settings = self._settings
        if settings.discover_every_s is not None and self.listed is None:
            return True
        patience_s = settings.fetch_every_s if settings.fetch_every_s is not None else _PATIENCE_S
        while self._unanswered:
            machine = next(iter(self._unanswered))
            if now < self.first_asked_s[machine] + patience_s:
                return True
            del self._unanswered[machine]
        return False

    def set_up(self, machine: int, up: bool, now: float) -> None:
        """Note that a machine went or came back."""
        self._machines.set_up(machine, up)
        self._changes.note(machine)
        self._look_at(machine, now)

    def list_anew(self, machines: Iterable[int], now: float) -> None:
        """Note the machines that the information service lists from now on."""
        before = self.listed or frozenset()
        self.listed = frozenset(machines)
        for machine in sorted(before ^ self.listed):
            self._look_at(machine, now)

    def ask_for_access(self, machine: int, now: float) -> None:
        """Note that a machine is asked whether we may use it."""
        self.first_asked_s.setdefault(machine, now)
        self.access_asked_s[machine] = now
        self._look_at(machine, now)

    def answer_access(self, machine: int, granted: bool, now: float) -> None:
        """Note its answer."""
        self.access[machine] = granted
        self._look_at(machine, now)

    def ask_for_state(self, machine: int, now: float) -> None:
        """Note that a machine is asked for its state."""
        self.first_asked_s.setdefault(machine, now)
        self.fetch_asked_s[machine] = now
        self._look_at(machine, now)

    def answer_state(self, machine: int, now: float) -> None:
        """Note that it has answered."""
        self.fetched_s[machine] = now
        self._believe(machine, now)
        self._look_at(machine, now)

    def pass_time(self, now: float) -> None:
        """Forget the states of machines that have not been heard of for too long."""
        while self._believed and self._believed[0][0] <= now:
            self._look_at(self._believed.popleft()[1], now)

    def look_again(self, now: float) -> None:
        """Look at every machine anew, whatever has been noted."""
        self._believed.clear()
        for fetched_s, machine in sorted((at_s, machine) for machine, at_s in self.fetched_s.items()):
            self._believe(machine, fetched_s)
        for machine in range(len(self._machines)):
            self._look_at(machine, now)

    def _believe(self, machine: int, fetched_s: float) -> None:
        if self._settings.fetch_every_s is not None:
            self._believed.append((fetched_s + _QUERIES * self._settings.fetch_every_s, machine))

    def _look_at(self, machine: int, now: float) -> None:
        """Note what follows from what is known of a machine by now."""
        if not self.needed:
            return
        self.agenda.note(machine)
        usable = not self.obstacle(machine, now)
        if usable != self._machines[machine].usable:
            self._machines.set_usable(machine, usable)
            self._changes.note(machine)
        if machine in self.first_asked_s and not self._has_answered(machine):
            self._unanswered[machine] = None
        else:
            self._unanswered.pop(machine, None)

    def _has_answered(self, machine: int) -> bool:
        if self._settings.authorise and not self.access.get(machine, False):
            return machine in self.access
        return self._settings.fetch_every_s is None or machine in self.fetched_s
