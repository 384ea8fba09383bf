"""The loop: events in, decisions into the journal, then commands out (design section 6).

Whatever a command sets going, the journal knew of it before: entries are committed in one transaction per
turn, and only then are their commands carried out. So an engine that is killed at any moment is rebuilt from
the journal, and the world is told again what it had not answered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from weft.backends.backend import Backend
from weft.engine.engine import Engine
from weft.engine.journal import Entry
from weft.engine.messages import commands as cm
from weft.engine.messages import events as ev
from weft.engine.state.state import State
from weft.engine.state.states import TaskState
from weft.runtime.clock import RunClock
from weft.runtime.replanning import Replanning
from weft.runtime.timers import Timers

__all__ = ["Arriving", "Expected", "JournalWriter", "Listener", "Loop", "Requests"]

_LONGEST_WAIT_S = 0.25
"""Users' requests and signals are looked at so often."""

_LOOK_EVERY_S = 0.5
_PATIENCE_S = 2.0
"""So long nothing must go on before it is believed that nothing will."""

Listener = Callable[[Entry, Engine], None]
"""Hears of every entry, after it is in the journal."""

Arriving = tuple[float, ev.Submitted]
"""When a workflow arrives, in seconds of the execution, and the event that says so."""

Expected = tuple[float, ev.Submitted | ev.Asked]
"""When a workflow arrives, or a user who started the engine asks for something."""


class JournalWriter(Protocol):
    """Where entries are kept."""

    def append(self, entry: Entry, state: State) -> None:
        """Take an entry; ``state`` is the engine's after it."""

    def commit(self) -> None:
        """Bring everything taken since the last time to disk, or nothing of it."""


class Requests(Protocol):
    """What users ask for from other shells."""

    def take(self) -> Sequence[ev.Asked]:
        """Take what was asked since the last time."""

    def decided(self, entry: Entry) -> None:
        """Hear what came of the next event that was taken; its answer is written with the entry."""


class Loop:
    """Drives one engine in one world until all runs are over, or somebody stops it."""

    def __init__(
        self,
        engine: Engine,
        backend: Backend,
        journal: JournalWriter,
        clock: RunClock,
        planning: Replanning,
        *,
        sequence: int = 0,
        requests: Requests | None = None,
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
        self._arrivals: list[Expected] = []
        self._asked_s = -math.inf
        self._quiet_since_s = math.inf
        self._look_at_s = -math.inf
        self.halting = False
        """Whether nothing more is set going: decisions are written down for whoever resumes."""

    def listen(self, listeners: Iterable[Listener]) -> None:
        """Let others hear of every entry too."""
        self._listeners += listeners

    def expect(self, arrivals: Iterable[Expected]) -> None:
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
        entry = Entry(sequence=self._sequence, now=now, event=event, commands=tuple(commands))
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
            self._backend.carry_out(commands)
