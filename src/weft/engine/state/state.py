"""The whole state of the engine. It changes only by events and commands (``transitions``).

``MachineInquiries`` holds the answers of the information service and the machines
(docs/papers/adaptive-jobs.md, section 3). A machine is usable if it is up and, where the settings require it,
it is listed, access is granted, and its dynamic state is known. A state is valid for two query intervals, so
that it covers the time between a query and its answer.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import heappop, heappush

from weft.engine.state.compiled import BoundExpression, CompiledWorkflow, WorkflowLibrary
from weft.engine.state.indexes import ChangeLog, SharedFileCopies
from weft.engine.state.machines import MachineStates
from weft.engine.state.plan import StoredPlan
from weft.engine.state.run import RunState, RunTerms
from weft.engine.states import Admission, Attempt, Stage
from weft.instance.instance import Instance
from weft.instance.preferences import MachinePreference
from weft.policies.policy import TaskOrder
from weft.workflow.settings import RunSettings, SettingsLayers, WorkflowSettings


class InquiryAgenda:
    """The machines to query next: those that have changed and those whose next query is due.

    To note or return a machine costs O(log changes); a new or ended run costs O(machines that it can use).
    The agenda avoids a scan of all machines. After a restore every machine counts as changed.
    """

    def __init__(self, machines: Iterable[int]) -> None:
        self.access, self.fetch = _DueTimes(), _DueTimes()
        """Time of the next access test, and of the next state query, of each machine."""
        self._news = dict.fromkeys(machines)
        """Machines that have changed since the last call of ``pop_due``."""
        self._wanted_by: dict[int, Collection[int]] = {}
        """By active run: the machines on which some of its tasks can run."""
        self._wanting: dict[int, int] = {}
        """By machine: the number of active runs that can use it."""

    def note(self, machine: int) -> None:
        """Mark a machine as changed."""
        self._news[machine] = None

    def is_wanted(self, machine: int) -> bool:
        """Return whether some active run can use a machine."""
        return self._wanting.get(machine, 0) > 0

    def set_wanted(self, runs: Mapping[int, Collection[int]]) -> None:
        """Set the active runs and the machines that each of them can use."""
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

    def pop_due(self, now: float) -> list[int]:
        """Return the machines to query now, by index, and remove them from the agenda."""
        due = [*self.access.passed(now), *self.fetch.passed(now)]
        found, self._news = self._news | dict.fromkeys(due), {}
        return sorted(found)


class _DueTimes:
    """The next due time of each machine, and a heap to find the first one."""

    def __init__(self) -> None:
        self._at_s: dict[int, float] = {}
        self._heap: list[tuple[float, int]] = []
        """Heap of (due time, machine); an entry whose time differs from the time in ``_at_s`` is stale."""

    def put(self, machine: int, at_s: float) -> None:
        """Set the due time of a machine; if ``at_s`` is infinite, the machine is never due."""
        if at_s == math.inf:
            self._at_s.pop(machine, None)
        elif self._at_s.get(machine) != at_s:
            self._at_s[machine] = at_s
            heappush(self._heap, (at_s, machine))

    def first(self) -> float:
        """Return the first due time; infinite: no machine is due."""
        while self._heap:
            at_s, machine = self._heap[0]
            if self._at_s.get(machine) == at_s:
                return at_s
            heappop(self._heap)
        return math.inf

    def passed(self, now: float) -> list[int]:
        """Remove and return the machines that are due."""
        found = []
        while self.first() <= now:
            found.append(heappop(self._heap)[1])
            del self._at_s[found[-1]]
        return found


STATE_UNKNOWN = "its state is not known"
"""Text of ``MachineInquiries.obstacle`` for a machine whose dynamic state is unknown or out of date."""

_CLOSED = {
    Admission.DRAINED: "it is drained",
    Admission.REMOVED: "it was removed",
    Admission.ABSENT: "it has not joined yet",
}
"""By admission: why a machine that is not open for tasks is not usable."""

_VALID_INTERVALS = 2
"""Number of query intervals for which an answer is valid."""

MEASURE_EVERY_S = 10.0
"""Seconds between measurements of machines if an expression needs them and no setting states an interval."""

_PATIENCE_S = 30.0
"""Seconds to wait for the first answers of machines if the settings state no query interval."""


class MachineInquiries:
    """Queries to the information service and the machines, and their answers."""

    def __init__(self, settings: RunSettings, machines: MachineStates, changes: ChangeLog) -> None:
        self._settings = settings
        self._machines = machines
        self.measures_every_s: float | None = None
        """Seconds between measurements of the machines' states; None: they are not measured."""
        self.needed = False
        """Whether queries are required before a machine is used."""
        self.set_interval(settings.fetch_every_s)
        self.discovered_s: float | None = None
        """Time of the last query of the information service."""
        self.listed: frozenset[int] | None = None
        """The machines that the information service listed; None: no answer yet."""
        self.first_asked_s: dict[int, float] = {}
        """Time of the first query of each machine."""
        self.access_asked_s: dict[int, float] = {}
        """Time of the last access test of each machine."""
        self.access: dict[int, bool] = {}
        """By machine: the result of the last access test."""
        self.fetch_asked_s: dict[int, float] = {}
        """Time of the last state query of each machine."""
        self.fetched_s: dict[int, float] = {}
        """By machine: the time of its last answer to a state query."""
        self.agenda = InquiryAgenda(range(len(machines)))
        """Machines to query next."""
        self._changes = changes
        self._unanswered: dict[int, None] = {}
        """Machines that were queried and have not answered yet; placement waits for them for a while."""
        self._validity: deque[tuple[float, int]] = deque()
        """(end of validity, machine) for every answer to a state query, ascending."""
        self.rebuild(0.0)

    def obstacle(self, machine: int, now: float) -> str:
        """Return why a machine is not usable; "": it is usable."""
        settings = self._settings
        if (admission := self._machines[machine].admission) != Admission.OPEN:
            return _CLOSED[admission]
        if not self._machines[machine].up:
            return "it is down"
        if settings.discover_every_s is not None:
            if self.listed is None:
                return "the information service has not answered yet"
            if machine not in self.listed:
                return "it is not listed"
        if settings.authorise and not self.access.get(machine, False):
            return "access is refused" if machine in self.access else "access was not granted yet"
        if self.measures_every_s is not None and now >= self._valid_until_s(machine):
            return STATE_UNKNOWN
        return ""

    def _valid_until_s(self, machine: int) -> float:
        """Return until when the last answer to a state query is valid; -infinity: there was no answer.

        A backend that measures by itself reports every change, so its last report is valid until the next
        report.
        """
        if (fetched_s := self.fetched_s.get(machine)) is None:
            return -math.inf
        if self._settings.pushes_state or self.measures_every_s is None:
            return math.inf
        return fetched_s + _VALID_INTERVALS * self.measures_every_s

    def set_interval(self, every_s: float | None) -> None:
        """Set the seconds between measurements of the machines' states."""
        settings, self.measures_every_s = self._settings, every_s
        self.needed = settings.authorise or settings.discover_every_s is not None or every_s is not None
        self._machines.measured_within_s = math.inf if every_s is None else _VALID_INTERVALS * every_s

    def start_measuring(self, now: float) -> None:
        """Measure the machines from now on, because an expression of an application uses measured values."""
        if self.measures_every_s is None:
            self.set_interval(MEASURE_EVERY_S)
            self.rebuild(now)

    def is_ruled_out(self, machine: int) -> bool:
        """Return whether a machine is down, closed by the user, not listed, or refuses access.

        Plans omit such machines. Plans may use a machine that has not answered yet.
        """
        state = self._machines[machine]
        closed = not state.up or state.admission != Admission.OPEN
        unlisted = self.listed is not None and machine not in self.listed
        return closed or unlisted or self.access.get(machine) is False

    def is_settling(self, now: float) -> bool:
        """Return whether placement should wait for the first answers of machines.

        Placement does not wait for a machine that has not answered within one query interval.
        """
        settings = self._settings
        if settings.discover_every_s is not None and self.listed is None:
            return True
        patience_s = self.measures_every_s if self.measures_every_s is not None else _PATIENCE_S
        while self._unanswered:
            machine = next(iter(self._unanswered))
            if now < self.first_asked_s[machine] + patience_s:
                return True
            del self._unanswered[machine]
        return False

    def set_up(self, machine: int, up: bool, now: float) -> None:
        """Set whether a machine is up."""
        self._machines.set_up(machine, up)
        self._changes.note(machine)
        if self._settings.pushes_state and not up:
            # Its sensor is lost with it; it is started again when the machine is back.
            self.fetch_asked_s.pop(machine, None)
            self.fetched_s.pop(machine, None)
        self._update(machine, now)

    def set_admission(self, machine: int, admission: Admission, now: float) -> None:
        """Set whether the user lets tasks start on a machine."""
        self._machines[machine].admission = admission
        self._changes.note(machine)
        self._update(machine, now)

    def set_listed(self, machines: Iterable[int], now: float) -> None:
        """Set the machines that the information service lists."""
        before = self.listed or frozenset()
        self.listed = frozenset(machines)
        for machine in sorted(before ^ self.listed):
            self._update(machine, now)

    def ask_for_access(self, machine: int, now: float) -> None:
        """Record that access to a machine is being tested."""
        self.first_asked_s.setdefault(machine, now)
        self.access_asked_s[machine] = now
        self._update(machine, now)

    def answer_access(self, machine: int, granted: bool, now: float) -> None:
        """Record the result of an access test."""
        self.access[machine] = granted
        self._update(machine, now)

    def ask_for_state(self, machine: int, now: float) -> None:
        """Record that a machine was queried for its dynamic state."""
        self.first_asked_s.setdefault(machine, now)
        self.fetch_asked_s[machine] = now
        self._update(machine, now)

    def answer_state(self, machine: int, now: float) -> None:
        """Record that a machine has answered with its dynamic state."""
        self.fetched_s[machine] = now
        self._extend_validity(machine)
        self._update(machine, now)

    def pass_time(self, now: float) -> None:
        """Mark machines whose dynamic state is no longer valid as unusable."""
        while self._validity and self._validity[0][0] <= now:
            self._update(self._validity.popleft()[1], now)

    def rebuild(self, now: float) -> None:
        """Recompute validity, usability and outstanding answers, after a state was restored."""
        self._validity.clear()
        for _, machine in sorted((at_s, machine) for machine, at_s in self.fetched_s.items()):
            self._extend_validity(machine)
        for machine in range(len(self._machines)):
            self._update(machine, now)

    def _extend_validity(self, machine: int) -> None:
        if (until_s := self._valid_until_s(machine)) < math.inf:
            self._validity.append((until_s, machine))

    def _update(self, machine: int, now: float) -> None:
        """Update whether a machine is usable and whether its first answer is outstanding."""
        usable = not self.obstacle(machine, now)
        if usable != self._machines[machine].usable:
            self._machines.set_usable(machine, usable)
            self._changes.note(machine)
        if not self.needed:
            return
        self.agenda.note(machine)
        if machine in self.first_asked_s and not self._has_answered(machine):
            self._unanswered[machine] = None
        else:
            self._unanswered.pop(machine, None)

    def _has_answered(self, machine: int) -> bool:
        if self._settings.authorise and not self.access.get(machine, False):
            return machine in self.access
        return self.measures_every_s is None or machine in self.fetched_s


class PendingWork:
    """Work that remains to be done for the current event; empty between events and not in snapshots."""

    __slots__ = (
        "admitted", "attempts", "due_queues", "policy", "queues", "runs", "successors", "usable",
    )  # fmt: skip

    def __init__(self) -> None:
        self.policy = False
        """Whether something changed that a policy may act on."""
        self.runs: dict[int, None] = {}
        """Runs with virtual tasks to complete, or with nothing left to do."""
        self.attempts: dict[int, None] = {}
        """Attempts with reserved nodes that may be able to start."""
        self.queues: dict[int, None] = {}
        """Machines whose queues may have an attempt that can start."""
        self.due_queues: dict[int, None] = {}
        """Machines whose SERVE timer has fired: attempts are started from their queues now."""
        self.usable: dict[int, None] = {}
        """Machines that an answer to a query has made usable."""
        self.admitted: dict[int, None] = {}
        """Machines that an answer to a query lets plans use again."""
        self.successors: dict[int, None] = {}
        """Attempts whose earlier attempt was closed."""

    def __bool__(self) -> bool:
        return self.policy or bool(self.attempts or self.queues or self.runs)

    def start_decision(self) -> None:
        """Clear the flag ``policy``, because the policy is called now."""
        self.policy = False

    def pop_due_queue(self, machine: int) -> bool:
        """Return whether a machine is in ``due_queues``, and remove it from there."""
        if machine not in self.due_queues:
            return False
        del self.due_queues[machine]
        return True

    def take_new(self) -> tuple[list[int], list[int], list[int]]:
        """Return and clear ``usable``, ``admitted`` and ``successors``."""
        found = list(self.usable), list(self.admitted), list(self.successors)
        for each in (self.usable, self.admitted, self.successors):
            each.clear()
        return found

    def clear(self) -> None:
        """Forget all pending work, because the event has been handled."""
        self.policy = False
        self.take_new()
        for work in (self.runs, self.attempts, self.queues, self.due_queues):
            work.clear()


def pop_first(items: dict[int, None]) -> int:
    """Remove and return the first item of a work list."""
    first = next(iter(items))
    del items[first]
    return first


class EngineState:
    """All runs, machines and attempts at one time."""

    def __init__(
        self,
        library: WorkflowLibrary,
        instance: Instance,
        order: TaskOrder,
        *,
        planned: bool,
        layers: SettingsLayers,
        absent: Collection[str] = (),
    ) -> None:
        """Create a state without runs; ``absent`` holds the names of machines that join later."""
        self.layers = layers
        """The settings of the execution; never changed after creation."""
        workflows = [library[key].graph.workflow for key in library]
        self.settings = layers.of_execution(workflows)
        """The settings that all runs share."""
        self._settings_of: dict[str, WorkflowSettings] = {}
        """By workflow: its settings, resolved on first use."""
        self.library = library
        self.order = order
        self.planned = planned
        """Whether runs follow plans."""
        self.plans: dict[str, StoredPlan] = {}
        """Plans by content hash; added before the event that names them is handled."""
        self.now = 0.0
        self.machines = MachineStates(instance)
        for machine in self.machines:
            if machine.name in absent:
                machine.admission = Admission.ABSENT
        self.prices: list[float] = instance.price_per_node_s.tolist()
        """By machine: the price of a node-second."""
        self.priced = any(self.prices)
        self.changes = ChangeLog()
        """Machines whose free capacity has increased, or that went down or came back."""
        self.runs: list[RunState] = []
        self.roster = 0
        """Incremented when the active runs change."""
        self.active: dict[int, RunState] = {}
        """Unfinished runs by number, in order of arrival."""
        self.attempts: dict[int, Attempt] = {}
        """Attempts that are not over, by number."""
        self.next_attempt = 0
        self.unknown: dict[int, dict[int, None]] = {}
        """By machine that stopped answering: the abandoned attempts that may still run on it."""
        self.timers: dict[str, float] = {}
        self.pending = PendingWork()
        """Work that follows from the last changes and was not done yet."""
        self.copies = SharedFileCopies()
        """Which hosts have which shared input files."""
        self.preferences: dict[BoundExpression, MachinePreference | None] = {}
        """Requirements and ranks in use, prepared for evaluation; None: cannot be parsed."""
        self.evaluated: dict[MachinePreference, Sequence[object]] = {}
        """By requirement or rank without live names: its value for each machine."""
        self.inquiries = MachineInquiries(self.settings, self.machines, self.changes)
        """Queries and answers about the machines."""

    def create_run(
        self, index: int, compiled: CompiledWorkflow, *, terms: RunTerms, now: float, planned: bool
    ) -> RunState:
        """Return a new run, which is not part of the state yet."""
        return RunState(
            index, compiled, self.order, terms=terms, now=now, planned=planned,
            settings=self._workflow_settings(compiled), promise=self.machines.promise,
        )  # fmt: skip

    def _workflow_settings(self, compiled: CompiledWorkflow) -> WorkflowSettings:
        if compiled.key not in self._settings_of:
            self._settings_of[compiled.key] = WorkflowSettings(self.layers, compiled.graph.workflow)
        return self._settings_of[compiled.key]

    @property
    def search_interval_s(self) -> float | None:
        """Return the shortest interval of searches for a better machine; None: no task has an interval."""
        intervals = (run.search_interval_s for run in self.active.values())
        return min((each_s for each_s in intervals if each_s is not None), default=None)

    def find_attempt(self, number: int | None) -> Attempt | None:
        """Return the attempt with this number; None: it is over, or ``number`` is None."""
        return None if number is None else self.attempts.get(number)

    def attempt_of(self, run: RunState, task: int) -> Attempt | None:
        """Return the current attempt of a task; None: the task has no attempt."""
        return self.attempts.get(run.attempt_of.get(task, -1))

    def is_early(self, attempt: Attempt) -> bool:
        """Return whether an attempt was assigned before its predecessors ended and waits only for them."""
        idle = attempt.stage == Stage.ASSIGNED and not (attempt.staging or attempt.cancelled)
        return idle and attempt.replaces is None and self.runs[attempt.run].missing[attempt.task] > 0

    def obstacle(self, machine: int) -> str:
        """Return why a machine is not usable now; "": it is usable."""
        return self.inquiries.obstacle(machine, self.now)

    def touch(self, machine: int) -> None:
        """Add a machine to ``pending.queues`` if attempts wait for it."""
        if self.machines.all[machine].queue or self.machines.all[machine].awaited_by:
            self.pending.queues[machine] = None

    def release_nodes(self, attempt: Attempt) -> None:
        """Free the nodes and resource amounts of an attempt."""
        self.machines.release_nodes(attempt)
        self.changes.note(attempt.machine)

    def stop_waiting(self, attempt: Attempt) -> None:
        """Stop reserving nodes of another machine for an attempt."""
        if (machine := attempt.awaited_machine) is not None:
            self.machines.await_nodes(attempt, None)
            self.changes.note(machine)
            self.touch(machine)

    def close(self, attempt: Attempt) -> None:
        """Remove an attempt that is over."""
        self.stop_waiting(attempt)
        if attempt.holds:
            self.release_nodes(attempt)
        if attempt.queued:
            self.unqueue(attempt)
        self.attempts.pop(attempt.number, None)
        run = self.runs[attempt.run]
        if attempt.tries:
            run.remember_tries(attempt)
        if run.attempt_of.get(attempt.task) == attempt.number:
            run.drop_current(attempt.task)
        if run.unfinished == 0:
            self.pending.runs[run.index] = None
        self.touch(attempt.machine)
        self.pending.policy = True

    def unqueue(self, attempt: Attempt) -> None:
        """Remove an attempt from its machine's queue, if it is there."""
        if attempt.queued:
            self.machines[attempt.machine].dequeue(attempt)
