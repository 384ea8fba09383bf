"""The driver loop between one engine and one backend, on a real or a virtual clock.

The loop passes events of the backend, timers, arrivals, plans and user requests to the engine. It writes the
engine's decisions to the journal, all entries of a turn in one transaction, and only then executes their
commands. An engine that is killed at any moment can therefore be rebuilt from the journal; commands that were
not answered are executed again.

A transaction survives a power failure only some milliseconds later, when it has been synced to the disk. Most
commands need not wait for that. Commands that use, publish or remove files of an ended program are held until
the journal entry about the program's end is on disk (``HeldCommands``).
"""

from __future__ import annotations

import heapq
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import count
from typing import Any, Protocol

import numpy as np

from weft.backends.backend import Backend
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.engine.engine import Engine
from weft.engine.explanation import describe_stalled_run
from weft.engine.journal import JournalEntry
from weft.engine.messages import SUBMITTED, PlanReady, Replan
from weft.engine.ranking import may_recover
from weft.engine.replan.promise import Promise
from weft.engine.replan.remainder import ReplanRequest, prepare_replan
from weft.engine.state.plan import StoredPlan
from weft.engine.state.state import EngineState
from weft.engine.states import Attempt, TaskState
from weft.errors import Infeasible
from weft.planners.planner import Planner, make_planner
from weft.randomness import generator
from weft.runtime.budget import Deadline, PlanningBudget, exclude_compilation, find_deadline

_LONGEST_WAIT_S = 0.25
"""Longest interval in seconds between checks for user requests and signals."""

_CHECK_EVERY_S = 0.5
_PATIENCE_S = 2.0
"""Seconds without activity on a real clock after which an execution counts as stuck."""

_PATIENCE_EVENTS, _REPLAN_EVENTS = 10_000, 200
"""Number of idle events on a virtual clock after which an execution counts as stuck.

The second number is the number of idle events that one re-planning counts as.
"""

_IDLE_EVENTS = (
    ev.TimerFired,
    ev.ProbeAnswered,
    ev.Discovered,
    ev.Fetched,
    ev.PlanReady,
    ev.MachineChanged,
    ev.MachinesSelected,
    ev.Progressed,
)
_IDLE_COMMANDS = (
    cm.SetTimer, cm.Probe, cm.Discover, cm.Fetch, cm.SelectMachines, cm.Replan, *cm.RECORDS
)  # fmt: skip
"""Commands that do not change a task; ``_IDLE_EVENTS`` are the events that do not change a task."""

_DRIVER_COMMANDS = frozenset({cm.SetTimer, cm.Replan})
"""Commands that the driver loop executes itself; the backend does not get them."""

Listener = Callable[[JournalEntry, Engine], None]
"""Callback that is called with every journal entry after it was added to the journal."""

ScheduledArrival = tuple[float, ev.Submitted]
"""Time of a submission in seconds since the start of the execution, and the event that reports it."""


class Clock(Protocol):
    """Seconds since the start of an execution, and a queue of events that are due at given times."""

    def now(self) -> float:
        """Return the seconds since the start of the execution."""

    def schedule(self, event: ev.Event, at_s: float) -> None:
        """Insert an event that is due at the time ``at_s``."""

    def set_timer(self, name: str, at_s: float) -> None:
        """Set a timer; it replaces the timer of the same name."""

    def due(self) -> Sequence[ev.Event]:
        """Remove and return the events that are due.

        On a virtual clock the result is empty, because the backend reports these events.
        """

    def next_s(self) -> float:
        """Return the time of the next scheduled event; infinity: no event is scheduled."""


class PlanService(Protocol):
    """Interface of a service that computes the plans that the engine requests with Replan commands."""

    @property
    def busy(self) -> bool:
        """Return whether a request has not been answered yet."""

    def request(self, command: Replan) -> None:
        """Start planning; ``answers`` returns the plan when it is ready."""

    def answers(self) -> Sequence[PlanReady]:
        """Remove and return the finished answers in the order of the requests."""


class JournalSink(Protocol):
    """Interface of a destination of journal entries."""

    def append(self, entry: JournalEntry, state: EngineState) -> None:
        """Add an entry; ``state`` is the state of the engine after the entry."""

    def commit(self) -> int:
        """Write all entries since the last commit in one transaction; return their position."""

    @property
    def durable(self) -> int:
        """Return the position up to which all entries are on disk; raise StorageProblem if a sync failed."""

    def request_sync(self, position: int) -> None:
        """Make the entries up to a position durable without delay; the backend is woken when this is done."""

    def wait_until_durable(self) -> None:
        """Wait until all committed entries are on disk; raise StorageProblem if a sync failed."""


class RequestSource(Protocol):
    """Interface to the requests that users send from other processes."""

    def take(self) -> Sequence[ev.Event]:
        """Return the events of the requests that have arrived since the last call."""

    def decided(self, entry: JournalEntry) -> None:
        """Answer the request whose event this entry contains; the answer is committed with the entry."""


class StandstillRule:
    """Detects that an execution cannot continue although runs are unfinished.

    An execution stands still if no submission or request is scheduled, no plan is being computed and no
    attempt makes progress for a certain time. On a real clock, this time is a number of seconds. On a virtual
    clock, where waiting takes no time, it is a number of idle events, because timers and probes go on without
    end. The number is large, because a failed machine may still come back. One re-planning counts as
    ``_REPLAN_EVENTS`` events, because it takes long.
    """

    def __init__(self, engine: Engine, backend: Backend, clock: Clock, plans: PlanService) -> None:
        self._state = engine.state
        self._backend = backend
        self._clock = clock
        self._plans = plans
        self._check_at_s = -math.inf
        self._quiet_since_s = math.inf
        self._events_left = _PATIENCE_EVENTS

    def count_event(self, commands: Sequence[cm.Command]) -> bool:
        """Count an idle event of a virtual clock; return whether the limit is reached.

        ``commands`` are the commands that the event caused. The count starts again if the first command
        changes a task, or if the backend is busy.
        """
        if (commands and type(commands[0]) not in _IDLE_COMMANDS) or self._backend.busy:
            self._events_left = _PATIENCE_EVENTS
            return False
        self._events_left -= _REPLAN_EVENTS if any(type(each) is Replan for each in commands) else 1
        return self._events_left <= 0

    def check_time(self, *, expected: bool) -> bool:
        """Return whether a real clock has passed the standstill timeout without any activity.

        ``expected`` says whether a submission or request is scheduled; this counts as activity. A task that a
        user holds, or whose selector program has not answered yet, counts as activity too.
        """
        if (now := self._clock.now()) < self._check_at_s:
            return False
        self._check_at_s = now + _CHECK_EVERY_S
        state = self._state
        if (
            expected
            or self._plans.busy
            or any(not self._is_idle(attempt) for attempt in state.attempts.values())
            or any(int(TaskState.HELD) in run.state for run in state.active.values())
            or any(run.is_selecting for run in state.active.values())
        ):
            self._quiet_since_s = math.inf
            return False
        self._quiet_since_s = min(self._quiet_since_s, now)
        return now - self._quiet_since_s >= self._patience_s()

    def _is_idle(self, attempt: Attempt) -> bool:
        """Return whether an attempt only waits, or is kept only because the next attempt needs its files."""
        left_behind = self._state.runs[attempt.run].left_behind.get(attempt.task)
        return left_behind == attempt.number or self._state.is_early(attempt)

    def _patience_s(self) -> float:
        """Return the standstill timeout in seconds.

        It is longer if machines may come back or may meet requirements later.
        """
        if not may_recover(self._state):
            return _PATIENCE_S
        timeout_s = self._state.settings.machine_timeout_s
        return math.inf if timeout_s is None else max(_PATIENCE_S, timeout_s)


_REQUESTED = (ev.RequestReceived, ev.MachineChanged)
"""Types of the events into which user requests are turned."""
_OWN_END = (cm.StageOut, cm.CleanUp)
_INPUTS = (cm.StageIn, cm.Start)
_ORDERED = frozenset({cm.Assign, cm.Settle, cm.Signal, cm.Cancel, cm.CloseAttempt, *_OWN_END, *_INPUTS})
"""Commands that a backend must get in the order of the journal if they concern the same task."""

_TaskKey = tuple[int, int]
"""Index of a run and of a task in it."""
_Subject = tuple[int | None, _TaskKey | None]
"""The attempt and the task that a command concerns; None: it names no attempt, or its task is unknown."""


class HeldCommands:
    """Commands that wait until the journal entries about the ends of certain programs are on disk.

    StageOut and CleanUp publish and remove files of an ended program, so they rely on its end. StageIn and
    Start rely on the ends of the task's direct predecessors, whose products they use, and on the ends of the
    task's earlier attempts. In later iterations of a loop they rely on all ends of the run. All other
    commands may be executed at once, unless a command for the same task is held. Held commands are released
    in the order of the journal.
    """

    def __init__(self, state: EngineState) -> None:
        self._state = state
        self._ends: deque[tuple[int, int, _TaskKey | None]] = deque()
        """Ends that are not on disk yet, oldest first: position in the journal, attempt, task if known."""
        self._position_of: dict[_TaskKey, int] = {}
        """By task: the position of its last end that is not on disk yet."""
        self._queue: deque[tuple[int, cm.Command, _Subject]] = deque()
        """Held commands, each with the position that must be on disk before it; positions never decrease."""
        self._held: Counter[int | _TaskKey | None] = Counter()
        """Number of held commands by attempt and by task."""

    @property
    def position(self) -> int:
        """Return the position that must be on disk before all held commands run; 0: none is held."""
        return self._queue[-1][0] if self._queue else 0

    def add_end(self, position: int, attempt: int, task: _TaskKey | None) -> None:
        """Add the end of a program, which was written to the journal at this position."""
        self._ends.append((position, attempt, task))
        if task is not None:
            self._position_of[task] = position

    def pass_on(self, commands: Sequence[cm.Command]) -> Sequence[cm.Command]:
        """Return the commands that may be executed now; the others are held."""
        if not self._ends and not self._queue:
            return commands
        return [command for command in commands if not self._hold(command)]

    def release(self, durable: int) -> list[cm.Command]:
        """Remove and return the held commands that rely only on entries up to the position ``durable``."""
        found: list[cm.Command] = []
        while self._queue and self._queue[0][0] <= durable:
            _, command, subject = self._queue.popleft()
            self._held.subtract(each for each in subject if each is not None)
            found.append(command)
        if not self._queue:
            self._held.clear()
        return found

    def confirmed(self, durable: int) -> list[int]:
        """Remove the ends up to the position ``durable``, which is on disk; return their attempts."""
        found: list[int] = []
        while self._ends and self._ends[0][0] <= durable:
            position, attempt, task = self._ends.popleft()
            found.append(attempt)
            if task is not None and self._position_of.get(task) == position:
                del self._position_of[task]
        return found

    def _hold(self, command: cm.Command) -> bool:
        if type(command) not in _ORDERED:
            return False
        subject = self._subject(command)
        needed = self._needed(command, subject[1])
        if not needed and not self._held[subject[0]] and not self._held[subject[1]]:
            return False
        self._queue.append((max(needed, self.position), command, subject))
        self._held.update(each for each in subject if each is not None)
        return True

    def _needed(self, command: cm.Command, task: _TaskKey | None) -> int:
        """Return the position that must be on disk before a command runs; 0: the command relies on no end."""
        if not isinstance(command, (*_OWN_END, *_INPUTS)) or not self._ends:
            return 0
        if task is None:
            return self._ends[-1][0]
        tasks = {task}
        if isinstance(command, _INPUTS):
            run = task[0]
            tasks |= {(run, each) for each in self._state.runs[run].compiled.before(task[1])}
            if command.iteration > 1 or any(count > 1 for count in command.counters):
                tasks |= {each for each in self._position_of if each[0] == run}
        return max(self._position_of.get(each, 0) for each in tasks)

    def _subject(self, command: Any) -> _Subject:
        if isinstance(command, cm.Settle):
            return None, (command.run, command.task)
        if isinstance(command, cm.Start | cm.Assign):
            return command.attempt, (command.run, command.task)
        if (attempt := self._state.attempts.get(command.attempt)) is not None:
            return attempt.number, (attempt.run, attempt.task)
        closed = (task for _, number, task in self._ends if number == command.attempt)
        return command.attempt, next(closed, None)


class DriverLoop:
    """Loop that connects one engine and one backend until all runs have ended or none can continue."""

    def __init__(
        self,
        engine: Engine,
        backend: Backend,
        clock: Clock,
        plans: PlanService,
        *,
        journal: JournalSink | None = None,
        sequence: int = 0,
        requests: RequestSource | None = None,
        listeners: Sequence[Listener] = (),
    ) -> None:
        """Create a loop; ``sequence`` is the number of the next journal entry."""
        self.engine = engine
        self._backend = backend
        self._virtual = backend.capabilities.virtual_time
        self._clock = clock
        self._plans = plans
        self._journal = journal
        self._requests = requests
        self._listeners = list(listeners)
        self._sequence = sequence
        self._expected: dict[int, ev.Event] = {}
        """By ``id(event)``: a scheduled submission or request that is not processed yet."""
        self._requested_s = -math.inf
        # On a virtual clock all events come from the backend, one per poll; no event means a standstill.
        self._poll = backend.poll if self._virtual else self._collect_events
        self._standstill = StandstillRule(engine, backend, clock, plans)
        self._held = HeldCommands(engine.state)
        self._ends: list[tuple[int, _TaskKey | None]] = []
        """Attempt and task of each end that the next commit contains.

        The task is None if the attempt was closed before.
        """
        self.stuck = False
        """Whether the execution stands still."""
        self.halting = False
        """Whether commands are recorded in the journal but no longer executed."""

    def listen(self, listeners: Iterable[Listener]) -> None:
        """Add listeners; they are called with every journal entry."""
        self._listeners += listeners

    def expect(
        self, events: Iterable[tuple[float, ev.Submitted | ev.RequestReceived | ev.ContactChanged]]
    ) -> None:
        """Schedule submissions and requests; the execution is not over before they are processed."""
        for at_s, event in events:
            self._expected[id(event)] = event
            self._clock.schedule(event, at_s)

    def resume(self, commands: Sequence[cm.Command]) -> None:
        """Restore the timers of a rebuilt engine and execute its unanswered commands again."""
        for name, at_s in self.engine.state.timers.items():
            self._clock.set_timer(name, at_s)
        self._execute(commands)

    @property
    def over(self) -> bool:
        """Return whether all runs have ended and no submission or request is scheduled."""
        return not self._expected and not self.engine.state.active

    def run(self, stop: Callable[[], bool] | None = None) -> None:
        """Repeat ``turn`` until the execution is over, stands still, or ``stop`` returns True."""
        while (self._expected or self.engine.state.active) and not self.stuck:
            if stop is not None and stop():
                return
            self.turn(0.0 if self._virtual else self._wait_s())
        if self.stuck:
            self._record_standstill()

    def _record_standstill(self) -> None:
        """Record in the journal that each unfinished run cannot continue, and what its tasks wait for."""
        state = self.engine.state
        for run in list(state.active.values()):
            self._decide(ev.RunStalled(run=run.index, reason="; ".join(describe_stalled_run(state, run))))
        if self._journal is not None:
            self._journal.commit()

    def turn(self, wait_s: float) -> None:
        """Wait at most ``wait_s`` for events, handle them, commit the journal, and execute the commands."""
        events = self._poll(wait_s)
        commands: Sequence[cm.Command]
        commands = [command for event in events for command in self._decide(event)]
        ready = commands if self._journal is None else self._record(self._journal, commands)
        if not self.halting:
            self._execute(ready)
        if not self._virtual:
            self.stuck = self._standstill.check_time(expected=bool(self._expected))
        elif not events or (not self._expected and type(events[0]) in _IDLE_EVENTS):
            self.stuck = not events or self._standstill.count_event(commands)

    def _record(self, journal: JournalSink, commands: Sequence[cm.Command]) -> Sequence[cm.Command]:
        """Commit the entries of a turn; return the commands to execute now.

        Commands that were held and are now released come first.
        """
        position = journal.commit()  # even without an event: the answer to an invalid request is written
        for attempt, task in self._ends:
            self._held.add_end(position, attempt, task)
        self._ends.clear()
        released = self._release(journal.durable)
        passed = self._held.pass_on(commands)
        if self._held.position:
            journal.request_sync(self._held.position)
        return [*released, *passed] if released else passed

    def _release(self, durable: int) -> list[cm.Command]:
        if confirmed := self._held.confirmed(durable):
            self._backend.confirm_ends(confirmed)
        return self._held.release(durable)

    def finish(self) -> None:
        """Wait until the journal is on disk, then execute the commands that were held."""
        if self._journal is not None:
            self._journal.wait_until_durable()
            released = self._release(self._journal.durable)
            if not self.halting:
                self._execute(released)

    def _collect_events(self, wait_s: float) -> list[ev.Event]:
        events = [*self._clock.due(), *self._take_requests(), *self._plans.answers()]
        return events + self._backend.poll(0.0 if events else wait_s)

    def _take_requests(self) -> Sequence[ev.Event]:
        if self._requests is None:
            return ()
        now = self._clock.now()
        if now - self._requested_s < _LONGEST_WAIT_S:
            return ()
        self._requested_s = now
        return self._requests.take()

    def _decide(self, event: ev.Event) -> list[cm.Command]:
        engine = self.engine
        if (now := self._clock.now()) < engine.state.now:
            now = engine.state.now  # events of one turn share their time
        if type(event) is ev.Ended and self._journal is not None:
            ended = engine.state.attempts.get(event.attempt)
            self._ends.append((event.attempt, None if ended is None else (ended.run, ended.task)))
        commands = engine.handle(event, now)
        if self._expected:
            self._expected.pop(id(event), None)
        if self._journal is not None or self._listeners:
            entry = JournalEntry(sequence=self._sequence, now=now, event=event, commands=tuple(commands))
            if self._journal is not None:
                self._journal.append(entry, engine.state)
            if self._requests is not None and type(event) in _REQUESTED:
                self._requests.decided(entry)
            for listener in self._listeners:
                listener(entry, engine)
        self._sequence += 1
        return commands

    def _wait_s(self) -> float:
        return max(0.0, min(_LONGEST_WAIT_S, self._clock.next_s() - self._clock.now()))

    def _execute(self, commands: Sequence[cm.Command]) -> None:
        """Execute commands in order: timers and plans here, all others in the backend.

        The order matters on a virtual clock, because events at equal times happen in the order of their
        causes.
        """
        if _DRIVER_COMMANDS.isdisjoint(map(type, commands)):
            if commands:
                self._backend.execute(commands)
            return
        rest: list[cm.Command] = []
        for command in commands:
            if not isinstance(command, cm.SetTimer | Replan):
                rest.append(command)
                continue
            if rest:
                self._backend.execute(rest)
                rest = []
            if isinstance(command, Replan):
                self._plans.request(command)
            else:
                self._clock.set_timer(command.timer, command.at_s)
        if rest:
            self._backend.execute(rest)


class ExecutionClock:
    """The clock of a real execution, with a heap of scheduled events.

    Within a process it follows the monotonic clock, so that setting the wall clock has no effect. From one
    process to the next only the wall clock is available; if it was set back, the time continues from the last
    entry of the journal.
    """

    def __init__(self, began_at: float, last_s: float = 0.0) -> None:
        """Create a clock for an execution that started at the wall time ``began_at``.

        ``last_s`` is the time of the last journal entry, in seconds since the start.
        """
        self.began_at = began_at
        self._base_s = max(last_s, time.time() - began_at)
        self._since = time.monotonic()
        self._heap: list[tuple[float, int, ev.Event, str]] = []
        self._timers: dict[str, int] = {}
        """By name: the number of the current timer; other heap entries with this name are stale."""
        self._numbers = count()

    def now(self) -> float:
        """Return the seconds since the start of the execution."""
        return self._base_s + (time.monotonic() - self._since)

    def wall(self, now_s: float) -> float:
        """Return the wall time that corresponds to a time in seconds since the start of the execution."""
        return self.began_at + now_s

    def schedule(self, event: ev.Event, at_s: float) -> None:
        """Insert an event that is due at the time ``at_s``."""
        heapq.heappush(self._heap, (at_s, next(self._numbers), event, ""))

    def set_timer(self, name: str, at_s: float) -> None:
        """Set a timer; it replaces the timer of the same name."""
        self._timers[name] = number = next(self._numbers)
        heapq.heappush(self._heap, (at_s, number, ev.TimerFired(timer=name), name))

    def next_s(self) -> float:
        """Return the time of the next event; infinity: no event is scheduled."""
        heap = self._heap
        while heap and heap[0][3] and self._timers.get(heap[0][3]) != heap[0][1]:
            heapq.heappop(heap)
        return heap[0][0] if heap else math.inf

    def due(self) -> list[ev.Event]:
        """Remove and return the events that are due, the earliest first."""
        now, found = self.now(), list[ev.Event]()
        while self.next_s() <= now:
            _, _, event, name = heapq.heappop(self._heap)
            self._timers.pop(name, None)
            found.append(event)
        return found


def planner_name(engine: Engine, default: str, command: Replan) -> str:
    """Return the name of the planner for a request.

    It is ``default`` if the settings of the run name no planner.
    """
    settings = engine.state.runs[command.run].settings
    first = settings.planner or default
    return first if command.reason == SUBMITTED else settings.replan_planner or first


def planning_generator(seed: int, planner: Planner, command: Replan, number: int) -> np.random.Generator:
    """Return the random generator for a plan.

    For the first plan of a run it is the generator that ``weft plan`` uses. ``number`` is the number of the
    request, which distinguishes the generators of later plans.
    """
    if command.reason == SUBMITTED:
        return generator(seed, "planner", planner.name)
    return generator(seed, "planner", str(command.run), str(number))


_PlanAnswer = tuple[StoredPlan, Promise | None]


class PlannerThread:
    """Plan service that handles one request after the other in a thread while tasks continue to run.

    What remains of the run is read from the state at the time of the request. For the first plan of a run,
    the thread also computes the promise: the predicted makespan with its spread.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        planner: str,
        budget: PlanningBudget,
        seed: int,
        wake: Callable[[], None],
        given: Mapping[int, StoredPlan] | None = None,
    ) -> None:
        """Create the service; its thread calls ``wake`` when an answer is ready.

        ``given`` maps a run to its first plan, if this plan exists already and need not be computed.
        """
        self._engine = engine
        self._planner = planner
        self._budget = budget
        self._seed = seed
        self._requested = 0
        self._given = given or {}
        self._wake = wake
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="planning")
        self._pending: list[tuple[Replan, Future[_PlanAnswer]]] = []
        self._deadline: Deadline | None = None
        """Deadline of the current search."""
        self._closed = False
        self._closing = threading.Lock()
        self.promises: dict[int, Promise] = {}
        """By run: the promise of its first plan."""

    def request(self, command: Replan) -> None:
        """Start planning; ``answers`` returns the plan when it is ready."""
        try:
            request = prepare_replan(self._engine.state, command.run)
        except Infeasible as error:
            failed: Future[_PlanAnswer] = Future()
            failed.set_exception(error)
            self._pending.append((command, failed))
            self._wake()
            return
        self._requested += 1
        arrival_s = self._engine.state.runs[command.run].arrival_s
        future = self._pool.submit(self._plan, request, command, self._requested, arrival_s)
        future.add_done_callback(lambda _: self._report())
        self._pending.append((command, future))

    def _plan(self, request: ReplanRequest, command: Replan, number: int, arrival_s: float) -> _PlanAnswer:
        first = command.version == 0
        if first and (given := self._given.get(command.run)) is not None:
            plan = request.given_plan(given)
            return request.adopted(given), request.promise(plan, arrival_s=arrival_s, seed=self._seed)
        planner = make_planner(planner_name(self._engine, self._planner, command))
        rng = planning_generator(self._seed, planner, command, number)
        budget = self._budget.budget(planner, first=command.reason == SUBMITTED)
        self._deadline = find_deadline(budget)
        self._end_search()
        with exclude_compilation(budget):
            plan = request.planned(planner, budget, rng)
        promise = request.promise(plan, arrival_s=arrival_s, seed=self._seed) if first else None
        return request.kept(planner, plan), promise

    def _report(self) -> None:
        """Call ``wake`` unless the service is closed.

        After the service was closed, the descriptor that ``wake`` writes to may be used for something else.
        """
        with self._closing:
            if not self._closed:
                self._wake()

    @property
    def busy(self) -> bool:
        """Return whether a request has not been answered yet."""
        return bool(self._pending)

    @property
    def searching(self) -> bool:
        """Return whether a planner is running or a request waits for the planner."""
        return any(not future.done() for _, future in self._pending)

    def answers(self) -> list[PlanReady]:
        """Remove and return the finished answers in the order of the requests, and store their plans."""
        found = []
        while self._pending and self._pending[0][1].done():
            command, future = self._pending.pop(0)
            found.append(self._event(command, future))
        return found

    def _event(self, command: Replan, future: Future[_PlanAnswer]) -> PlanReady:
        answer = partial(PlanReady, run=command.run, version=command.version)
        try:
            stored, promise = future.result()
        except Infeasible as error:
            return answer(plan="", problem=str(error))
        self._engine.state.plans[stored.key] = stored
        if promise is not None:
            self.promises[command.run] = promise
        return answer(plan=stored.key, steps=stored.steps)

    def close(self) -> None:
        """Cancel pending requests and end the current search without waiting for it."""
        with self._closing:
            self._closed = True
        self._end_search()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _end_search(self) -> None:
        """End the current search if the service is closed. Both threads call this method to avoid a race."""
        deadline = self._deadline
        if self._closed and deadline is not None:
            deadline.end()
