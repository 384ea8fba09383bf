"""Timers that the engine has set: the earliest first, one per name.

The clock of an execution: seconds since it began, which never run backwards.

Inside a process the monotonic clock counts, so that a clock that is set changes nothing. Between two
processes only the wall clock is left; if it was set back meanwhile, time goes on where the journal ends.

Re-planning beside the loop: what remains is read off the state at once, and planned in a thread.

Tasks go on while a plan is made; the answer is an event like any other, and the engine keeps what has started
meanwhile (design section 6). With the first plan of a run goes what it promises.

The loop: events in, decisions into the journal, then commands out (design section 6).

Whatever a command sets going, the journal knew of it before: entries are committed in one transaction per
turn, and only then are their commands carried out. So an engine that is killed at any moment is rebuilt from
the journal, and the world is told again what it had not answered.
"""

from __future__ import annotations

import heapq
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Protocol

from weft.backends.backend import Backend
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.engine.engine import Engine
from weft.engine.journal import JournalEntry
from weft.engine.messages import PlanReady, Replan
from weft.engine.replan.promise import Promise
from weft.engine.replan.remainder import ReplanRequest, prepare_replan
from weft.engine.state.plan import StoredPlan
from weft.engine.state.state import EngineState
from weft.engine.states import TaskState
from weft.errors import Infeasible
from weft.planners.planner import make_planner
from weft.randomness import generator
from weft.runtime.budget import Deadline, PlanningBudget, exclude_compilation, find_deadline

__all__ = [
    "DriverLoop",
    "ExecutionClock",
    "JournalSink",
    "Listener",
    "PlannerThread",
    "RequestSource",
    "ScheduledArrival",
    "ScheduledEvent",
    "Timers",
]


class Timers:
    """Named times; setting a name again replaces it."""

    def __init__(self) -> None:
        self._at: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def set(self, name: str, at_s: float) -> None:
        """Set or replace a timer."""
        self._at[name] = at_s
        heapq.heappush(self._heap, (at_s, name))

    def next_s(self) -> float:
        """Give when the next one is due; infinity: never."""
        while self._heap and self._at.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else math.inf

    def due(self, now_s: float) -> list[str]:
        """Take the timers that are due, the earliest first."""
        found = []
        while self.next_s() <= now_s:
            _, name = heapq.heappop(self._heap)
            del self._at[name]
            found.append(name)
        return found


class ExecutionClock:
    """Seconds since an execution began."""

    def __init__(self, began_at: float, last_s: float = 0.0) -> None:
        """Begin, or go on: ``began_at`` is the wall time of the beginning, ``last_s`` the journal's end."""
        self.began_at = began_at
        self._base_s = max(last_s, time.time() - began_at)
        self._since = time.monotonic()

    def now(self) -> float:
        """Give the time."""
        return self._base_s + (time.monotonic() - self._since)

    def wall(self, now_s: float) -> float:
        """Give the wall time of a moment of the execution."""
        return self.began_at + now_s


_PlanAnswer = tuple[StoredPlan, Promise | None]


class PlannerThread:
    """Answers Replan, one after the other."""

    def __init__(
        self, engine: Engine, *, planner: str, spending: PlanningBudget, seed: int, wake: Callable[[], None]
    ) -> None:
        """Begin. ``wake`` is called, from another thread, when an answer is there."""
        self._engine = engine
        self._planner = planner
        self._spending = spending
        self._seed = seed
        self._asked = 0
        self._wake = wake
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="planning")
        self._open: list[tuple[Replan, Future[_PlanAnswer]]] = []
        self._clock: Deadline | None = None
        """Of the search that is under way."""
        self._closed = False
        self._closing = threading.Lock()
        self.promises: dict[int, Promise] = {}
        """By run: what its first plan promises."""

    def ask(self, command: Replan) -> None:
        """Begin to plan."""
        rule = self._engine.settings.replanning
        name = self._planner if rule is None or command.reason == "submitted" else rule.planner
        try:
            question = prepare_replan(self._engine.state, command.run)
        except Infeasible as error:
            failed: Future[_PlanAnswer] = Future()
            failed.set_exception(error)
            self._open.append((command, failed))
            self._wake()
            return
        self._asked += 1
        arrival_s = self._engine.state.runs[command.run].arrival_s
        future = self._pool.submit(self._answer, question, name, command, self._asked, arrival_s)
        future.add_done_callback(lambda _: self._tell())
        self._open.append((command, future))

    def _answer(
        self, question: ReplanRequest, name: str, command: Replan, number: int, arrival_s: float
    ) -> _PlanAnswer:
        planner = make_planner(name)
        rng = generator(self._seed, "planner", str(command.run), str(number))
        budget = self._spending.budget(planner, first=command.reason == "submitted")
        self._clock = find_deadline(budget)
        self._hurry()
        with exclude_compilation(budget):
            made = question.planned(planner, budget, rng)
        first = command.version == 0
        promise = question.promise(made, arrival_s=arrival_s, seed=self._seed) if first else None
        return question.kept(planner, made), promise

    def _tell(self) -> None:
        """Wake whoever waits; after the end nobody is there, and what woke them may be another's file."""
        with self._closing:
            if not self._closed:
                self._wake()

    @property
    def busy(self) -> bool:
        """Say whether an answer is still to come."""
        return bool(self._open)

    @property
    def searching(self) -> bool:
        """Say whether a planner is at work."""
        return any(not future.done() for _, future in self._open)

    def answers(self) -> list[PlanReady]:
        """Take the answers that are there, in the order of the questions; plans are put where they belong."""
        found = []
        while self._open and self._open[0][1].done():
            command, future = self._open.pop(0)
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
        """Wait for nobody: a search by the clock that is under way ends soon."""
        with self._closing:
            self._closed = True
        self._hurry()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _hurry(self) -> None:
        """End a search that nobody waits for any more; both threads look, so that none misses it."""
        clock = self._clock
        if self._closed and clock is not None:
            clock.end()


_LONGEST_WAIT_S = 0.25
"""Users' requests and signals are looked at so often."""

_LOOK_EVERY_S = 0.5
_PATIENCE_S = 2.0
"""So long nothing must go on before it is believed that nothing will."""

Listener = Callable[[JournalEntry, Engine], None]
"""Hears of every entry, after it is in the journal."""

ScheduledArrival = tuple[float, ev.Submitted]
"""When a workflow arrives, in seconds of the execution, and the event that says so."""

ScheduledEvent = tuple[float, ev.Submitted | ev.Asked]
"""When a workflow arrives, or a user who started the engine asks for something."""


class JournalSink(Protocol):
    """Where entries are kept."""

    def append(self, entry: JournalEntry, state: EngineState) -> None:
        """Take an entry; ``state`` is the engine's after it."""

    def commit(self) -> None:
        """Bring everything taken since the last time to disk, or nothing of it."""


class RequestSource(Protocol):
    """What users ask for from other shells."""

    def take(self) -> Sequence[ev.Asked]:
        """Take what was asked since the last time."""

    def decided(self, entry: JournalEntry) -> None:
        """Hear what came of the next event that was taken; its answer is written with the entry."""


class DriverLoop:
    """Drives one engine in one world until all runs are over, or somebody stops it."""

    def __init__(
        self,
        engine: Engine,
        backend: Backend,
        journal: JournalSink,
        clock: ExecutionClock,
        planning: PlannerThread,
        *,
        sequence: int = 0,
        requests: RequestSource | None = None,
        listeners: Sequence[Listener] = (),
    ) -> None:
        """Begin. ``sequence`` is the number of the next entry."""
        self.engine = engine
        self._backend = backend
        self._journal = journal
        self._clock = clock
        self._planning = planning
        self._requests = requests
        self._listeners = list(listeners)
        self._sequence = sequence
        self._timers = Timers()
        self._arrivals: list[ScheduledEvent] = []
        self._asked_s = -math.inf
        self._quiet_since_s = math.inf
        self._look_at_s = -math.inf
        self.halting = False
        """Whether nothing more is set going: decisions are written down for whoever resumes."""

    def listen(self, listeners: Iterable[Listener]) -> None:
        """Let others hear of every entry too."""
        self._listeners += listeners

    def expect(self, arrivals: Iterable[ScheduledEvent]) -> None:
        """Let workflows arrive, each at its time."""
        self._arrivals = sorted([*self._arrivals, *arrivals], key=lambda each: each[0])

    def take_over(self, commands: Sequence[cm.Command]) -> None:
        """Go on where an engine stopped: its timers, and what it commanded and nobody answered."""
        for name, at_s in self.engine.state.timers.items():
            self._timers.set(name, at_s)
        self._carry_out(commands)

    @property
    def over(self) -> bool:
        """Say whether nothing is left to do."""
        return not self._arrivals and not self.engine.state.active

    def run(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Go round until all is over, nothing can go on, or ``stop`` says so."""
        while not self.over and not self.stuck and not stop():
            self.turn(self._wait_s())

    @property
    def stuck(self) -> bool:
        """Say whether nothing goes on any more, nothing will by itself, and no user has asked to wait."""
        now = self._clock.now()
        if now < self._look_at_s:
            return False
        self._look_at_s = now + _LOOK_EVERY_S
        state = self.engine.state
        going = any(not state.was_sent_ahead(attempt) for attempt in state.attempts.values())
        if going or self._arrivals or self._planning.busy or self._any_held():
            self._quiet_since_s = math.inf
            return False
        self._quiet_since_s = min(self._quiet_since_s, now)
        return now - self._quiet_since_s >= _PATIENCE_S

    def _any_held(self) -> bool:
        held = int(TaskState.HELD)
        return any(held in run.state for run in self.engine.state.active.values())

    def turn(self, wait_s: float) -> None:
        """Wait for news, decide about all of it, write it down, and only then act on it."""
        events = self._due()
        found: list[ev.Event] = [*self._backend.poll(0.0 if events else wait_s), *self._planning.answers()]
        commands: list[cm.Command] = []
        for event in (*events, *found):
            commands += self._decide(event)
        # Also without an event: a request that makes no sense has an answer, and nothing else.
        self._journal.commit()
        if not self.halting:
            self._carry_out(commands)

    def _decide(self, event: ev.Event) -> Sequence[cm.Command]:
        engine = self.engine
        now = max(engine.state.now, self._clock.now())
        commands = engine.handle(event, now)
        entry = JournalEntry(sequence=self._sequence, now=now, event=event, commands=tuple(commands))
        self._sequence += 1
        self._journal.append(entry, engine.state)
        if type(event) is ev.Asked and self._requests is not None:
            self._requests.decided(entry)
        for listener in self._listeners:
            listener(entry, engine)
        return commands

    def _due(self) -> list[ev.Event]:
        """List what is due by the clock: arrivals, timers, requests of users."""
        now = self._clock.now()
        found: list[ev.Event] = []
        while self._arrivals and self._arrivals[0][0] <= now:
            found.append(self._arrivals.pop(0)[1])
        found += [ev.TimerFired(timer=name) for name in self._timers.due(now)]
        if self._requests is not None and now - self._asked_s >= _LONGEST_WAIT_S:
            self._asked_s = now
            found += self._requests.take()
        return found

    def _wait_s(self) -> float:
        next_s = self._timers.next_s()
        if self._arrivals:
            next_s = min(next_s, self._arrivals[0][0])
        return max(0.0, min(_LONGEST_WAIT_S, next_s - self._clock.now()))

    def _carry_out(self, commands: Sequence[cm.Command]) -> None:
        for command in commands:
            if type(command) is cm.SetTimer:
                self._timers.set(command.timer, command.at_s)
            elif type(command) is cm.Replan:
                self._planning.ask(command)
        if commands:
            self._backend.execute(commands)
