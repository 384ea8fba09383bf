"""Which machines may have to be asked something: those of which there is news, and those whose time has come.

It only saves going through all machines: what is asked follows from the inquiries. Of a state that was
rebuilt there is news of every machine.

What the information service and the machines were asked, what they answered, and what follows from it.

A machine may be used if it is up and, where the settings ask for it: the information service lists it, it has
let us in, and its dynamic state is known (S3 section 3). A state counts until the machine has missed a second
query: between a query and its answer the old one is believed. What follows is noted with the machines when it
changes, so nobody has to go through all of them to find one that may be used.

Everything the engine knows. It changes only by events that are absorbed and commands that are enacted.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import heappop, heappush

from weft.engine.settings import EngineSettings
from weft.engine.state.compiled import WorkflowLibrary
from weft.engine.state.indexes import ChangeLog, SharedFileCopies
from weft.engine.state.machines import MachineStates
from weft.engine.state.plan import StoredPlan
from weft.engine.state.run import RunState
from weft.engine.states import Attempt, Stage
from weft.instance.instance import Instance
from weft.policies.policy import TaskOrder

__all__ = ["STATE_UNKNOWN", "EngineState", "InquiryAgenda", "MachineInquiries"]


class InquiryAgenda:
    """Costs O(log changes) for each machine that is noted or found, and a run O(its machines) in all."""

    def __init__(self, machines: Iterable[int]) -> None:
        self.access, self.fetch = _DueTimes(), _DueTimes()
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


class _DueTimes:
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


STATE_UNKNOWN = "its state is not known"
"""The obstacle of a machine that has not been heard of for too long."""

_BELIEVED_INTERVALS = 2
"""Intervals for which an answer is believed."""

_PATIENCE_S = 30.0
"""How long first answers are waited for where no interval says it."""


class MachineInquiries:
    """An answer costs O(1), a new list O(machines)."""

    def __init__(self, settings: EngineSettings, machines: MachineStates, changes: ChangeLog) -> None:
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
        self.agenda = InquiryAgenda(range(len(machines)))
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
            if fetched_s is None or now >= fetched_s + _BELIEVED_INTERVALS * settings.fetch_every_s:
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
            self._believed.append((fetched_s + _BELIEVED_INTERVALS * self._settings.fetch_every_s, machine))

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


class EngineState:
    """All runs, machines and attempts at one moment."""

    def __init__(
        self,
        library: WorkflowLibrary,
        instance: Instance,
        order: TaskOrder,
        *,
        planned: bool,
        settings: EngineSettings | None = None,
    ) -> None:
        self.settings = settings or EngineSettings()
        """What was agreed before the first event; it never changes."""
        self.library = library
        self.order = order
        self.planned = planned
        """Whether runs follow plans."""
        self.plans: dict[str, StoredPlan] = {}
        """Plans by content hash, put here before the event that names them is handled."""
        self.now = 0.0
        self.machines = MachineStates(instance)
        self.changes = ChangeLog()
        """On which machines tasks may find room that had none there before."""
        self.runs: list[RunState] = []
        self.roster = 0
        """Grows whenever the active runs change."""
        self.active: dict[int, RunState] = {}
        """Runs that are not over, by arrival."""
        self.attempts: dict[int, Attempt] = {}
        """Attempts that are not over."""
        self.next_attempt = 0
        self.unknown: dict[int, dict[int, None]] = {}
        """By machine that fell silent: attempts that were given up and may still run there."""
        self.timers: dict[str, float] = {}
        self.dirty = False
        """Whether something has changed that a policy may act on."""
        self.to_tidy: dict[int, None] = {}
        """Runs with virtual tasks to complete, or with nothing left to do."""
        self.touched: dict[int, None] = {}
        """Machines where something that waits may be able to start."""
        self.to_serve: dict[int, None] = {}
        """Machines whose queues are to be served now."""
        self.arrived: dict[int, None] = {}
        """Attempts that keep their nodes and may be able to start."""
        self.copies = SharedFileCopies()
        """Which shared files were sent to which hosts."""
        self.evaluated: dict[tuple[str, tuple[tuple[str, str], ...]], Sequence[object] | None] = {}
        """Requirements and ranks by text and what their names mean, with their value for each machine; None:
        they make no sense."""
        self.inquiries = MachineInquiries(self.settings, self.machines, self.changes)
        """What is known of the machines beyond their description."""

    @property
    def unsettled(self) -> bool:
        """Say whether something may follow from the last changes."""
        return self.dirty or bool(self.arrived or self.touched or self.to_tidy)

    def run_of(self, attempt: Attempt) -> RunState:
        """Give the run an attempt belongs to."""
        return self.runs[attempt.run]

    def was_sent_ahead(self, attempt: Attempt) -> bool:
        """Say whether an attempt has gone to its machine early and waits there for others to complete."""
        idle = attempt.stage == Stage.ASSIGNED and not (attempt.staging or attempt.cancelled)
        return idle and attempt.replaces is None and self.runs[attempt.run].missing[attempt.task] > 0

    def obstacle(self, machine: int) -> str:
        """Say why a machine may not be used now; "": it may."""
        return self.inquiries.obstacle(machine, self.now)

    def touch(self, machine: int) -> None:
        """Remember that something on a machine has changed, if anybody waits there."""
        if self.machines.all[machine].queue:
            self.touched[machine] = None

    def give_back(self, attempt: Attempt) -> None:
        """Free what an attempt took."""
        self.machines.give_back(attempt)
        self.changes.note(attempt.machine)

    def close(self, attempt: Attempt) -> None:
        """Forget an attempt that is over."""
        self.give_back(attempt)
        self.unqueue(attempt)
        self.attempts.pop(attempt.number, None)
        run = self.runs[attempt.run]
        if run.attempt_of.get(attempt.task) == attempt.number:
            run.let_go(attempt.task)
        if run.unfinished == 0:
            self.to_tidy[run.index] = None
        self.touch(attempt.machine)
        self.dirty = True

    def unqueue(self, attempt: Attempt) -> None:
        """Take an attempt out of its machine's queue, if it waits there."""
        if attempt.queued:
            self.machines[attempt.machine].dequeue(attempt)
