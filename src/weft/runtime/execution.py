"""An execution in this process: lock, database, engine, backend, and the driver loop between them.

``Execution.begin`` starts an execution. ``Execution.resume`` continues an execution whose engine has stopped
or died: the engine is rebuilt from the journal, the backend re-attaches to running programs, and pending
commands are executed again. Commands are idempotent, so that repeating one has no effect.
"""

from __future__ import annotations

import functools
import gc
import json
import logging
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from weft.backends import BACKENDS
from weft.backends.backend import Backend, ProjectContext, RecoveredAttempt
from weft.backends.layout import ProjectLayout, check_sandboxes, describe_shared_project
from weft.backends.secret_values import SecretValues, read_secrets
from weft.documents import from_python
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.engine.engine import Engine
from weft.engine.explanation import describe_standstill
from weft.engine.history import History
from weft.engine.journal import JournalEntry
from weft.engine.messages import Refuse, RequestReceived
from weft.engine.reactions.dispatch import describe_selection
from weft.engine.replan.promise import Promise
from weft.engine.replay import apply_entry
from weft.engine.state.compiled import WorkflowLibrary
from weft.engine.state.machines import MachineState
from weft.engine.state.plan import StoredPlan
from weft.engine.state.run import RunState
from weft.engine.state.state import EngineState
from weft.engine.states import Admission, Cause, ProbeTarget, RequestKind, Stage
from weft.errors import InvalidInput, WeftError, nearest
from weft.platform.file_format import read_platform
from weft.platform.machine import Machine
from weft.platform.platform import Platform, planned_machines
from weft.records import dataclass
from weft.repository.database import Database, StateMoved, open_database
from weft.repository.journal import Journal, JournalHeader
from weft.repository.journal_store import JournalStore
from weft.repository.products import ProductTable
from weft.repository.requests import RequestTable, UserRequest
from weft.repository.runs import RunTable
from weft.runtime.budget import PlanningBudget
from weft.runtime.driver import DriverLoop, ExecutionClock, Listener, PlannerThread, ScheduledArrival
from weft.runtime.lock import Lock

JOINING = "joining"
"""State of an outcome: machines join, so the execution must be opened again (``Execution.reopen``)."""
_ALLOWED_WHEN_STOPPED = (RequestKind.RELEASE, RequestKind.RESUME)
"""Requests that are allowed for a run that has stopped and waits for the user."""


_WITH_PROGRAM = (Stage.SUBMITTED, Stage.RUNNING)
"""Stages of an attempt in which its program runs or is being started."""
_ADMISSIONS = {"drain": Admission.DRAINED, "open": Admission.OPEN, "remove": Admission.REMOVED}
"""By kind of a request about a machine: the admission that the machine gets."""
_GRANTED = {"hold": "are held", "release": "are released", "migrate": "are being moved"}
"""By kind of a request about tasks: what happens to the tasks for which it is granted."""
JOIN = "join"
"""Kind of a request to add machines; its ``machine`` is the larger platform as JSON."""


class _RequestRefused(Exception):
    """The request is invalid; the text is the answer to the user."""


class _RequestPostponed(Exception):
    """A lost machine must be reported to the engine before the request can be decided."""


class RequestHandler:
    """Turns the user requests in the database into events, and writes their answers.

    Machines join in two steps. First the execution is opened again with the larger platform, in which the new
    machines are marked as absent. Then the request, which is still unanswered, is turned into events that
    admit these machines.
    """

    def __init__(
        self,
        requests: RequestTable,
        engine: Engine,
        header: JournalHeader,
        execution: int,
        inspect: Callable[[int], str] = lambda _: "",
    ) -> None:
        """Create the handler.

        ``inspect`` returns why a machine cannot run programs now, or "" (see ``Backend``).
        """
        self._requests = requests
        self._engine = engine
        self._header = header
        self._execution = execution
        self._inspect = inspect
        self._taken: deque[tuple[int, ev.Event]] = deque()
        """(number of the request, event) of the events that the engine has not handled yet."""
        self._handled: dict[int, int] = {}
        """By number of a request that is not answered yet: how many of its events were handled."""
        self._refusals: dict[int, list[Refuse]] = {}
        """By number of a request that is not answered yet: the first refusal of each refused event."""
        self.joining: JournalHeader | None = None
        """A header with machines that join; the execution must be opened again with it."""
        self.compiled: WorkflowLibrary | None = None
        """The workflows of ``joining``."""

    def take(self) -> Sequence[ev.Event]:
        """Return the events of new requests; invalid requests are answered at once."""
        found: list[ev.Event] = []
        for request in list(self._requests.pending()) if self.joining is None else ():
            if request.execution != self._execution or any(
                number == request.number for number, _ in self._taken
            ):
                continue
            try:
                events = self._events(request)
            except _RequestRefused as refusal:
                self._requests.done(request.number, str(refusal), granted=False)
                continue
            except _RequestPostponed:
                continue
            if self.joining is not None:
                break
            self._taken.extend((request.number, event) for event in events)
            found += events
        return found

    def decided(self, entry: JournalEntry) -> None:
        """Write the answer to a request if the entry contains the last event of the request."""
        if not self._taken or self._taken[0][1] is not entry.event:
            return  # requests of ``Execution.request`` are not in the database and get no answer
        number, _ = self._taken.popleft()
        self._handled[number] = self._handled.get(number, 0) + 1
        refusals = [command for command in entry.commands if isinstance(command, Refuse)]
        if refusals:
            self._refusals.setdefault(number, []).append(refusals[0])
        if not self._taken or self._taken[0][0] != number:
            handled, refused = self._handled.pop(number), self._refusals.pop(number, [])
            waits = [command.reason for command in entry.commands if isinstance(command, cm.AwaitMachine)]
            text = waits[0] if waits else "done"
            if refused:
                text = (
                    refused[0].reason
                    if len(refused) == handled
                    else self._describe_partial_refusal(refused, handled)
                )
            self._requests.done(number, text, granted=len(refused) < handled)

    def _describe_partial_refusal(self, refused: Sequence[Refuse], handled: int) -> str:
        """Return the answer to a request for several tasks that was granted for only some of them."""
        first = refused[0]
        what, _, why = first.reason.partition(": ")
        named = self._engine.state.runs[first.run].name(first.task)
        done = f"{handled - len(refused)} of {handled} tasks {_GRANTED.get(what, 'done')}"
        more = f" and {len(refused) - 1} more" if len(refused) > 1 else ""
        return f"{done}; not {named} ({why}){more}"

    def _events(self, request: UserRequest) -> Sequence[ev.Event]:
        if request.what in _ADMISSIONS:
            return [self._admit(request.machine or "", _ADMISSIONS[request.what])]
        if request.what == JOIN:
            return self._join(request.machine or "")
        if request.what not in RequestKind.__members__.values():
            raise _RequestRefused(f"unknown request {request.what!r}; known: {', '.join(RequestKind)}")
        runs = self._engine.state.runs
        if request.run is not None:
            if not 0 <= request.run < len(runs):
                raise _RequestRefused(
                    f"there is no run {request.run} in this execution; list the runs with `weft status`"
                )
            return self._events_of(request, runs[request.run])
        accepting = [run for run in runs if self._accepts(request, run)]
        if not accepting:
            raise _RequestRefused("all runs have ended")
        return [event for run in accepting for event in self._events_of(request, run)]

    def _admit(self, name: str, admission: Admission) -> ev.MachineChanged:
        """Return the event that changes the admission of the machine with this name."""
        machines = self._engine.state.machines
        names = [each.name for each in machines]
        if name not in names:
            raise _RequestRefused(_describe_unknown("machine", name, names))
        machine = machines[names.index(name)]
        if machine.admission == admission:
            raise _RequestRefused(f"{name} is {admission} already")
        if admission == Admission.REMOVED:
            self._keep_last(machine)
        return ev.MachineChanged(machine=machine.index, admission=admission, reason="by the user")

    def _keep_last(self, machine: MachineState) -> None:
        """Refuse to remove a machine on which programs run if no other machine can be used."""
        state = self._engine.state
        runs = any(
            each.machine == machine.index and each.stage in _WITH_PROGRAM for each in state.attempts.values()
        )
        others = [each for each in state.machines if each is not machine]
        if runs and not any(each.up and each.admission == Admission.OPEN for each in others):
            raise _RequestRefused(
                f"{machine.name} is the only machine that can be used, and programs run there; add another "
                f"one first (`weft machines add`), let them end (`weft machines drain {machine.name}`), or "
                "end them with `weft stop` (`weft resume` continues) or `weft cancel`"
            )

    def _join(self, text: str) -> Sequence[ev.Event]:
        """Return the events that admit machines; if the platform must grow first, set ``joining``.

        ``text`` is the larger platform as JSON.
        """
        platform = read_platform(from_python(json.loads(text)))
        known = {each.name: each for each in self._engine.state.machines}
        names = [each.name for each in planned_machines(platform)]
        if new := [name for name in names if name not in known]:
            if names[: len(known)] != list(known):
                raise _RequestRefused("the machines of the run have changed meanwhile; try again")
            header = replace(self._header, platform=platform, absent=(*self._header.absent, *new))
            try:
                check_backend(platform)
                self.compiled = Journal(header=header, plans={}, entries=()).library
            except WeftError as error:
                raise _RequestRefused(str(error)) from None
            self.joining = header
            return ()
        joins = [known[name] for name in names if known[name].admission == Admission.ABSENT]
        if not joins:
            raise _RequestRefused("the machines have joined already")
        return [
            ev.MachineChanged(machine=each.index, admission=Admission.OPEN, reason="joined") for each in joins
        ]

    def _accepts(self, request: UserRequest, run: RunState) -> bool:
        return not run.ending or (run.ending == "stopped" and request.what in _ALLOWED_WHEN_STOPPED)

    def _events_of(self, request: UserRequest, run: RunState) -> list[RequestReceived]:
        if not self._accepts(request, run):
            raise _RequestRefused(f"the run has ended ({run.ending})")
        machine = None
        if request.machine is not None:
            machines = [each.name for each in self._engine.state.machines]
            if request.machine not in machines:
                raise _RequestRefused(_describe_unknown("machine", request.machine, machines))
            machine = machines.index(request.machine)
        if request.task is None:
            return [RequestReceived(what=RequestKind(request.what), run=run.index, machine=machine)]
        what, tasks = RequestKind(request.what), _find_tasks(run, request.task)
        if what == RequestKind.MIGRATE:
            self._inspect_targets(run, tasks, machine)
        return [RequestReceived(what=what, run=run.index, task=task, machine=machine) for task in tasks]

    def _inspect_targets(self, run: RunState, tasks: Sequence[int], target: int | None) -> None:
        """Check the machines to which tasks may move, before the programs of the tasks are ended.

        If ``target`` is None, tasks may move to all other machines. A machine on which programs run is not
        checked: it works, or its loss is found without this check.
        """
        state = self._engine.state
        moving = [each for each in state.attempts.values() if each.run == run.index and each.task in tasks]
        left = {each.machine for each in moving if each.stage <= Stage.RUNNING}
        if not left:
            return  # the engine refuses the request
        others = [each for each in state.machines if left != {each.index} and target in (None, each.index)]
        busy = {each.machine for each in state.attempts.values() if each.stage in _WITH_PROGRAM}
        usable = [each for each in others if each.up and each.admission == Admission.OPEN]
        lost = [each for each in usable if each.index not in busy and self._inspect(each.index)]
        if lost and target is not None:
            raise _RequestRefused(f"migrate: {lost[0].name} is lost: {self._inspect(lost[0].index)}")
        if lost:
            raise _RequestPostponed
        if others and not usable and (down := [each for each in others if not each.up and each.reason]):
            reasons = "; ".join(f"{each.name} is lost: {each.reason}" for each in down)
            what = "" if target is not None else "no other machine can run it now: "
            raise _RequestRefused(f"migrate: {what}{reasons}")


def _find_tasks(run: RunState, name: str) -> list[int]:
    """Return the task with this name, or all tasks of the description or program with this name."""
    names = run.compiled.names
    if name in names:
        return [names.index(name)]
    kinds = [run.compiled.description(task) for task in range(len(names))]
    found = [task for task, kind in enumerate(kinds) if name in (kind.name, kind.program)]
    if not found:
        described = dict.fromkeys(kind.program for kind in kinds)
        raise _RequestRefused(_describe_unknown("task", name, [*described, *names]))
    return found


def _describe_unknown(what: str, name: str, names: Sequence[str]) -> str:
    near = nearest(name, names)
    return f"there is no {what} {name!r}" + (f"; did you mean {near!r}?" if near else "")


_ANSWERS: Mapping[type, tuple[type, ...]] = {
    ev.StagedIn: (cm.StageIn,),
    ev.Ended: (cm.Start, cm.Cancel),
    ev.StagedOut: (cm.StageOut,),
    ev.CleanedUp: (cm.CleanUp,),
}
"""By type of event: the types of commands that it answers."""
_ANSWERED = frozenset(kind for kinds in _ANSWERS.values() for kind in kinds)


class PendingCommands:
    """Collects the commands of a journal that no event has answered yet."""

    def __init__(self) -> None:
        self._open: dict[tuple[type, int, int], cm.Command] = {}
        """By type, attempt number and part: the commands that no event has answered yet."""
        self.assigned: dict[int, cm.Assign] = {}
        """By attempt number: its Assign command."""

    def add(self, entry: JournalEntry) -> None:
        """Update the pending commands by the next journal entry."""
        for kind in _ANSWERS.get(type(entry.event), ()):
            self._open.pop(self._key(kind, entry.event), None)
        for command in entry.commands:
            if isinstance(command, cm.Assign):
                self.assigned[command.attempt] = command
            elif type(command) in _ANSWERED:
                self._open[self._key(type(command), command)] = command

    def _key(self, kind: type, message: Any) -> tuple[type, int, int]:
        return kind, message.attempt, getattr(message, "part", 0)

    def commands(self, engine: Engine) -> list[cm.Command]:
        """Return the pending commands in their original order, after the Assign commands of live attempts."""
        live = engine.state.attempts
        for number in [number for number in self.assigned if number not in live]:
            del self.assigned[number]
        kept = [command for (_, attempt, _), command in self._open.items() if attempt in live]
        return [*self.assigned.values(), *kept]


def find_pending_plans(state: EngineState) -> Iterable[cm.Replan]:
    """Yield a Replan command for every plan that the engine is waiting for."""
    for run in state.active.values():
        if run.plan_wanted:
            yield cm.Replan(run=run.index, version=run.version, reason="" if run.plan else cm.SUBMITTED)


def find_pending_selections(state: EngineState) -> Iterable[cm.SelectMachines]:
    """Yield a SelectMachines command for every selector program whose answer the engine is waiting for."""
    for run in state.active.values():
        for task in [task for task, facts in run.facts.items() if facts.order_wanted]:
            yield describe_selection(state, run, task)


def find_sensors(state: EngineState) -> Iterable[cm.Fetch]:
    """Yield a Fetch command for every machine that the backend was asked to measure periodically."""
    inquiries = state.inquiries
    if state.settings.pushes_state and inquiries.measures_every_s is not None:
        for machine in inquiries.fetch_asked_s:
            yield cm.Fetch(machine=machine, every_s=inquiries.measures_every_s)


def find_lost_machines(state: EngineState) -> Iterable[cm.Probe]:
    """Yield a Probe command for every machine that is down, to check whether it works again."""
    for machine in state.machines:
        if not machine.up and state.settings.pushes_state:
            yield cm.Probe(of=ProbeTarget.MACHINE, machine=machine.index)


_log = logging.getLogger(__name__)
_TOKEN = "token"  # noqa: S105 -- the key it is kept under
_ARRIVALS, _FRESH = "arrivals", "fresh"
_TIME, _STEPS = "plan_time_s", "plan_steps"
_PLANS = "plans"
_DEFAULT_BUDGET = PlanningBudget()
_AFTER_ENDING_S = 5.0
"""Seconds after the end of the last program that remain to copy restart files and run epilogs."""
_COLLECTION_THRESHOLD = 50_000
"""Number of allocations between two runs of Python's garbage collector."""
_STAGES = {Stage.ASSIGNED: "assigned", Stage.SUBMITTED: "started", Stage.RUNNING: "started"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionOutcome:
    """How ``Execution.run`` ended."""

    state: str
    """``completed``, ``failed``, ``stopped``, ``cancelled``, ``interrupted``, or ``joining`` (machines join,
    and the execution continues after ``reopen``).
    """
    stuck: tuple[str, ...] = ()
    """What the tasks wait for if the execution stands still; empty: it does not stand still."""


def find_backend_kinds(platform: Platform) -> dict[str, str]:
    """Return the name of the first machine of each backend kind, by kind.

    Raises InvalidInput if a machine has no backend.
    """
    kinds: dict[str, str] = {}
    for machine in platform.machines:
        kinds.setdefault(str(machine.backend.get("kind", "")), machine.name)
    if "" in kinds:
        raise InvalidInput(
            f"machine {kinds['']!r} has no backend",
            advice="give it `backend: {kind: local}` to run on this computer, or use `weft simulate`",
        )
    return kinds


def check_backend(platform: Platform, *, connect: bool = False) -> None:
    """Raise InvalidInput if the machines of a platform cannot be used by their backends.

    ``connect``: also connect to distant sites that can be asked; a site that does not answer is no problem.
    """
    problems = list(platform.find_unknown_backends(BACKENDS))
    kinds: dict[str, list[Machine]] = {}
    for machine in platform.machines:
        kinds.setdefault(str(machine.backend.get("kind", "")), []).append(machine)
    for kind, machines in kinds.items():
        if kind and kind not in BACKENDS:
            continue
        try:
            if not kind:
                find_backend_kinds(platform)  # raises an error
            _check_kind(kind, machines, is_mixed=len(kinds) > 1, connect=connect)
        except InvalidInput as error:
            problems += error.problems
    if problems:
        raise InvalidInput(problems)


def _check_kind(kind: str, machines: Sequence[Machine], *, is_mixed: bool, connect: bool) -> None:
    """Raise InvalidInput if the backend of one kind cannot use its machines."""
    backend: type[Backend] = BACKENDS.load(kind)
    name = machines[0].name
    if not backend.capabilities.runs_programs:
        what = f"machine {name!r}: backend kind {kind!r} runs no programs"
        advice = "use `weft simulate`, or `backend: {kind: local}` to run on this computer"
        raise InvalidInput(what, advice=advice)
    if is_mixed and not hasattr(backend, "part"):
        what = f"machine {name!r}: machines of the backend kind {kind!r} cannot be mixed with others"
        raise InvalidInput(what, rule="all machines of such a run must have the same backend kind")
    backend.check_machines(machines)
    if connect and (check_sites := getattr(backend, "check_sites", None)) is not None:
        check_sites(machines)


def _load_backend(platform: Platform) -> Any:
    """Return the class of the backend for the machines of a platform."""
    kinds = list(find_backend_kinds(platform))
    if len({machine.backend_group for machine in platform.machines}) == 1:
        return BACKENDS.load(kinds[0])
    from weft.backends.mixed import MixedBackend  # most platforms do not need it

    return MixedBackend


class Execution:
    """An execution that this process drives."""

    def __init__(
        self,
        layout: ProjectLayout,
        lock: Lock,
        database: Database,
        store: JournalStore,
        header: JournalHeader,
        engine: Engine,
        *,
        sequence: int,
        token: str,
        budget: PlanningBudget,
        secrets: Mapping[str, SecretValues],
        plans: Mapping[int, StoredPlan] | None = None,
        history: History | None = None,
        fresh: bool = False,
        listeners: Sequence[Listener] = (),
    ) -> None:
        """Initialise an execution; ``begin`` and ``resume`` call this."""
        self.layout = layout
        self.history = history or History()
        """History of the execution so far; every entry is added before the other listeners are called."""
        self.header = header
        self.engine = engine
        self.number = store.execution
        self.runs = RunTable(database)
        self.promises: dict[int, Promise] = {
            run.position: run.promise for run in self.runs.of(self.number) if run.promise is not None
        }
        """By run: the promise of its first plan."""
        states = engine.state.runs
        self._repeated = Counter(
            {
                run.position: run.tasks - len(states[run.position])
                for run in self.runs.of(self.number)
                if run.position < len(states)
            }
        )
        """By run: the number of tasks in finished loop iterations."""
        self.products = ProductTable(database, only=self.number if fresh else None)
        self._lock = lock
        self._database = database
        self._store = store
        self.attempt_nonce = store.attempt_nonce
        """Returns the nonce of an attempt by its number (see ``ProjectContext``)."""
        self.clock = ExecutionClock(header.started_at_s, engine.state.now)
        self._ended_regularly = False
        """Whether the outcome is recorded; ``close`` then stops the runners too."""
        self.backend = self._make_backend(token, secrets, fresh=fresh)
        self._planning = PlannerThread(
            engine, planner=header.planner, budget=budget, seed=header.seed, wake=self.backend.wake,
            given=plans,
        )  # fmt: skip
        self._requests = RequestHandler(
            RequestTable(database), engine, header, self.number, self.backend.inspect
        )
        self.loop = DriverLoop(
            engine,
            self.backend,
            self.clock,
            self._planning,
            journal=store,
            sequence=sequence,
            requests=self._requests,
            listeners=[self._record_runs, *listeners],
        )
        database.start_group_commit(self.backend.wake)

    @classmethod
    def begin(
        cls,
        layout: ProjectLayout,
        lock: Lock,
        database: Database,
        header: JournalHeader,
        arrivals: Sequence[ScheduledArrival],
        *,
        compiled: WorkflowLibrary | None = None,
        budget: PlanningBudget = _DEFAULT_BUDGET,
        plans: Mapping[int, StoredPlan] | None = None,
        fresh: bool = False,
        listeners: Sequence[Listener] = (),
    ) -> Self:
        """Create a new execution and store it in the database; ``run`` then drives it.

        ``plans`` maps a run to its first plan, if this plan exists already; the times of the plan count from
        the arrival of the run. If ``fresh`` is True, results of earlier executions are not reused, and all
        inputs are read again. Raises InvalidInput, before anything is stored, if a secret of a workflow is
        missing.
        """
        secrets = read_secrets(layout, header.workflows, header.folders)
        store = JournalStore(database)
        token = os.urandom(32).hex()
        kept = {_TOKEN: token, _ARRIVALS: _arrivals_to_json(arrivals), _FRESH: str(int(fresh))}
        spent = {_TIME: str(budget.time_s or ""), _STEPS: str(budget.steps or "")}
        if plans:
            kept[_PLANS] = json.dumps({str(run): plan.as_record() for run, plan in plans.items()})
        store.begin(header, {**kept, **spent})
        engine = Journal(header=header, plans={}, entries=(), compiled=compiled).engine()
        made = cls(
            layout, lock, database, store, header, engine,
            sequence=0, token=token, budget=budget, secrets=secrets, plans=plans, fresh=fresh,
            listeners=listeners,
        )  # fmt: skip
        made.loop.expect(arrivals)
        return made

    @classmethod
    def resume(
        cls,
        layout: ProjectLayout,
        lock: Lock,
        database: Database,
        number: int,
        *,
        compiled: WorkflowLibrary | None = None,
        listeners: Sequence[Listener] = (),
    ) -> Self:
        """Rebuild the execution with this number from its journal; ``run`` then continues it."""
        store = JournalStore(database)
        rebuilt = store.resume(number, compiled)
        check_sandboxes(layout, rebuilt.header.platform.machines)
        _refuse_shared_sandboxes(layout, database, number, rebuilt.header.platform)
        runs = RunTable(database)
        secrets = read_secrets(layout, rebuilt.header.workflows, rebuilt.header.folders)
        token = read_token(runs, number) or os.urandom(32).hex()
        runs.set_execution_state(number, "running")
        made = cls(
            layout, lock, database, store, rebuilt.header, rebuilt.engine,
            sequence=rebuilt.entries, token=token, secrets=secrets, listeners=listeners,
            budget=_read_budget(runs.stored_value(number, _TIME), runs.stored_value(number, _STEPS)),
            plans=_read_plans(runs.stored_value(number, _PLANS)),
            history=_read_history(store, number, rebuilt.engine.state.library),
            fresh=runs.stored_value(number, _FRESH) == "1",
        )  # fmt: skip
        begun = len(rebuilt.engine.state.runs)
        arrivals = [
            (at_s, ev.Submitted(run=run, workflow=workflow, owner=owner, **dict(*more)))
            for at_s, run, workflow, owner, *more in json.loads(runs.stored_value(number, _ARRIVALS) or "[]")
        ]
        made.loop.expect([each for each in arrivals if each[1].run >= begun])
        pending = PendingCommands()
        for entry in store.all_after(number):
            pending.add(entry)
        for run in made.engine.state.active.values():
            runs.set_state(number, run.index, "running")
        made._reattach(pending)
        return made

    def _reattach(self, pending: PendingCommands) -> None:
        commands = pending.commands(self.engine)
        started = {command.attempt for command in commands if isinstance(command, cm.Start)}
        self.backend.find([self._job(number, number in started) for number in self.engine.state.attempts])
        state = self.engine.state
        more = (find_pending_plans, find_pending_selections, find_sensors, find_lost_machines)
        self.loop.resume([*commands, *(command for find in more for command in find(state))])
        # The new backend reports a host that still does not answer.
        silent = [machine.index for machine in state.machines if machine.silence is not None]
        contact = [ev.ContactChanged(machine=each, answers=True, reason="resumed") for each in silent]
        self.loop.expect([(state.now, event) for event in contact])

    def request(self, what: str, runs: Sequence[int]) -> None:
        """Schedule a request about these runs; the engine handles it when the loop starts."""
        for index in runs:
            self.runs.set_state(self.number, index, "running")
        now_s = self.engine.state.now
        self.loop.expect([(now_s, ev.RequestReceived(what=RequestKind(what), run=index)) for index in runs])

    def _job(self, number: int, started: bool) -> RecoveredAttempt:
        attempt = self.engine.state.attempts[number]
        stage = "started" if started else _STAGES.get(attempt.stage, "ended")
        return RecoveredAttempt(
            attempt=number,
            run=attempt.run,
            task=attempt.task,
            machine=attempt.machine,
            nodes=attempt.nodes,
            count=attempt.count,
            iteration=attempt.iteration,
            counters=attempt.counters,
            stage=stage,
            nonce=self.attempt_nonce(number),
            cancelled=bool(attempt.cancelled),
            is_delayed=attempt.stage == Stage.SUBMITTED,
            tries=max(1, attempt.tries),
        )

    def run(self, interrupted: Callable[[], bool] = lambda: False) -> ExecutionOutcome:
        """Drive the execution until all runs have ended, none can continue, or ``interrupted()`` is True.

        Raises StateMoved, after all programs were ended, if the state was moved or removed meanwhile.
        """
        try:
            return self._drive(interrupted)
        except (WeftError, OSError):
            # Whatever failed, it may have failed because the state is not there.
            try:
                self._database.check_place()
            except StateMoved:
                self._end_unrecorded()
                raise
            raise

    def _drive(self, interrupted: Callable[[], bool]) -> ExecutionOutcome:
        with _infrequent_collection():
            self.loop.run(lambda: self._requests.joining is not None or interrupted())
        if self._requests.joining is not None and not interrupted():
            return ExecutionOutcome(state=JOINING)
        while self.loop.over and self.backend.busy and not interrupted():
            self.loop.turn(0.1)  # epilogs of attempts that have left their machines
        if self.loop.over:
            return self._record_outcome(ExecutionOutcome(state=self._worst_ending()))
        if interrupted():
            self._halt()
            return self._record_outcome(ExecutionOutcome(state="interrupted"))
        numbers = {run.position: run.number for run in self.runs.of(self.number)}
        return self._record_outcome(
            ExecutionOutcome(state="failed", stuck=tuple(describe_standstill(self.engine.state, numbers)))
        )

    def reopen(self) -> Execution:
        """Return the execution with the machines that join, rebuilt from its journal; programs keep running.

        The old object must not be used any more.
        """
        header, requests = self._requests.joining, self._requests
        assert header is not None
        self._detach()
        self._store.extend(self.number, header)
        return type(self).resume(
            self.layout, self._lock, self._database, self.number, compiled=requests.compiled
        )

    def end_programs(self) -> float:
        """Terminate all programs and start no others; return the seconds until the last one must have ended.

        Repeated calls have no further effect.
        """
        self.loop.halting = True
        return self.backend.halt()

    def _halt(self) -> None:
        """Terminate all programs and wait for their ends; new commands are recorded, not executed."""
        loop = self.loop
        until = time.monotonic() + self.end_programs() + _AFTER_ENDING_S
        while self.backend.busy and time.monotonic() < until:
            loop.turn(0.1)

    def _end_unrecorded(self) -> None:
        """Terminate all programs and wait for their ends, which cannot be recorded."""
        until = time.monotonic() + self.end_programs() + _AFTER_ENDING_S
        while self.backend.has_programs and time.monotonic() < until:
            with suppress(WeftError, OSError):  # such as an output whose directory is missing
                self.backend.poll(0.1)

    def _worst_ending(self) -> str:
        found = {run.ending for run in self.engine.state.runs}
        return next((word for word in ("failed", "stopped", "cancelled") if word in found), "completed")

    def _record_outcome(self, ending: ExecutionOutcome) -> ExecutionOutcome:
        self._ended_regularly = True
        now = time.time()
        at_s = None if ending.state == "interrupted" else now
        self.runs.set_execution_state(self.number, ending.state, at_s=at_s)
        for run in self.engine.state.active.values():
            reason = "; ".join(ending.stuck)
            self.runs.set_state(self.number, run.index, ending.state, at_s=at_s, reason=reason)
        self._database.commit()
        self.loop.finish()
        return ending

    def _record_size(self, run: int) -> None:
        self.runs.grow(self.number, run, len(self.engine.state.runs[run]) + self._repeated[run])

    def _record_runs(self, entry: JournalEntry, engine: Engine) -> None:
        """Update the history and the table of runs after a journal entry, in the same transaction."""
        self.history.take(entry, engine.state)
        event = entry.event
        if type(event) is ev.Submitted:
            run = engine.state.runs[event.run]
            self.runs.add(
                execution=self.number,
                position=event.run,
                workflow=event.workflow,
                owner=event.owner,
                tasks=len(run),
                at_s=self.clock.wall(entry.now),
            )
        elif type(event) is ev.TasksAdded:
            self._record_size(event.run)
        elif type(event) is ev.PlanReady and event.plan:
            self._record_promise(event)
        for command in entry.commands:
            if type(command) is cm.RepeatLoop:
                body = engine.state.runs[command.run].loops.bodies[command.body]
                self._repeated[command.run] += len(body.tasks)
                self._record_size(command.run)
            elif type(command) is cm.FinishRun:
                self.runs.set_state(
                    self.number,
                    command.run,
                    command.outcome,
                    at_s=self.clock.wall(entry.now),
                    reason=command.reason,
                )
                if (summary := self.history.runs[command.run]).outcome == "completed":
                    self.runs.set_alone(self.number, command.run, summary.alone_s)

    def _record_promise(self, event: ev.PlanReady) -> None:
        """Store the promise of the first plan of a run."""
        promise = self._planning.promises.get(event.run)
        if event.version == 0 and promise is not None:
            self.promises[event.run] = promise
            self.runs.promise(self.number, event.run, promise)

    @property
    def searching(self) -> bool:
        """Return whether a planner is running; ``close`` does not wait for it."""
        return self._planning.searching

    def close(self) -> None:
        """Release all resources; programs that still run continue, and ``resume`` finds them again."""
        self._detach()
        self._database.close()
        self._lock.release()

    def _detach(self) -> None:
        """Disconnect from planner, journal and machines."""
        self._planning.close()
        self._database.stop_group_commit()
        self.backend.close(stop=self._ended_regularly)

    def _make_backend(self, token: str, secrets: Mapping[str, SecretValues], *, fresh: bool) -> Backend:
        made: Callable[[ProjectContext], Backend] = _load_backend(self.header.platform)
        return made(
            ProjectContext(
                layout=self.layout,
                project=self._database.identity_of(self.number),
                execution=self.number,
                attempt_nonce=self.attempt_nonce,
                is_known=self._store.is_known,
                check_claim=self._database.check_claim,
                machines=self.engine.instance.machines,
                instance=self.engine.instance,
                compiled_workflow=lambda run: self.engine.state.runs[run].compiled,
                workflow_folder=functools.cache(self._folder_of),
                results_folder=lambda run: self.engine.state.runs[run].terms.results,
                products=self.products,
                token=token,
                fresh=fresh,
                secrets=secrets,
                task_settings=lambda run, task: self.engine.state.runs[run].settings_of(task),
                count_failures=self._count_failures,
            )
        )

    def _count_failures(self, run: int, task: int, cause: Cause) -> int:
        return self.engine.state.runs[run].facts_of(task).failures.get(cause, 0)

    def _folder_of(self, run: int) -> str:
        key = self.engine.state.runs[run].compiled.key
        return str(self.layout.project / self.header.folders.get(key, "."))


@contextmanager
def _infrequent_collection() -> Iterator[None]:
    """Context manager in which the garbage collector runs less often, because it slows the loop down."""
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], _COLLECTION_THRESHOLD), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _read_history(store: JournalStore, number: int, compiled: WorkflowLibrary) -> History:
    """Return the history of an execution from its journal."""
    engine = Journal(header=store.header(number), plans={}, entries=(), compiled=compiled).engine()
    engine.state.plans.update(store.plans(number))
    history = History()
    for entry in store.all_after(number):
        apply_entry(engine, entry, history.take)
    return history


def _read_budget(time_s: str | None, steps: str | None) -> PlanningBudget:
    return PlanningBudget(time_s=float(time_s) if time_s else None, steps=int(steps) if steps else None)


def _read_plans(text: str | None) -> dict[int, StoredPlan]:
    return {int(run): StoredPlan.of_record(record) for run, record in json.loads(text or "{}").items()}


def _arrivals_to_json(arrivals: Sequence[ScheduledArrival]) -> str:
    """Return arrivals as JSON.

    Arrivals written by an older version of weft lack the priority and the folder for results.
    """
    return json.dumps(
        [
            [
                at_s,
                event.run,
                event.workflow,
                event.owner,
                {"priority": event.priority, "results": event.results},
            ]
            for at_s, event in arrivals
        ]
    )


def read_token(runs: RunTable, execution: int) -> str:
    """Return the secret by which the processes of an execution recognise its engine; "": none is stored."""
    return runs.stored_value(execution, _TOKEN) or ""


def find_shared_sandbox(
    layout: ProjectLayout, database: Database, execution: int, platform: Platform
) -> tuple[str, Path] | None:
    """Return the folder of the original of a copied project, and a sandbox that both projects use.

    Return None if the execution was not copied, if the original no longer exists, or if all sandboxes are
    inside the project.
    """
    original = database.find_existing_original(execution)
    for machine in planned_machines(platform) if original else ():
        if not (sandbox := layout.sandbox(machine)).is_relative_to(layout.project):
            return original, sandbox
    return None


def _refuse_shared_sandboxes(
    layout: ProjectLayout, database: Database, execution: int, platform: Platform
) -> None:
    """Raise InvalidInput if an execution of a copied project uses directories of the original."""
    if (found := find_shared_sandbox(layout, database, execution, platform)) is not None:
        number = RunTable(database).of(execution)[0].number
        raise InvalidInput(
            f"run {number} was started in '{found[0]}', of which this project is a copy",
            rule=f"its programs work in the sandbox '{found[1]}', which both projects use",
            advice="resume or cancel it there; `weft run --fresh` starts a new run here",
        )


def open_project(layout: ProjectLayout, command: Sequence[str] = ()) -> tuple[Lock, Database]:
    """Lock a project and open or create its database; return both."""
    lock = Lock(layout.lock, command)
    try:
        if shared := describe_shared_project(layout.project):
            _log.warning("%s", shared)
        database = open_database(layout.database, create=True)
        try:
            database.claim()
            database.record_place()
        except BaseException:
            database.close()
            raise
    except BaseException:
        lock.release()
        raise
    return lock, database
