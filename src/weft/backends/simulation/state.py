"""How fast a machine computes while slowdowns and competing processes come and go: piecewise constant.

A machine keeps a clock of its own that runs at the share of its speed that is ours: in 9 s at a third of it
the clock moves by 3 s. Work that takes w seconds undisturbed, begun when the clock stands at c, is done when
it stands at c + w, whatever happens in between. So a change of speed costs nothing per running task, and only
the next end has to be looked up again. Undisturbed, the clock is the time of the run, bit for bit.

A simulated host: how fast it computes, whether it answers, and what computes on it.

The agenda of a simulated world: what happens next, in the order of time, then of cause.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from weft.backends.simulation.scenario import RequirementChange
from weft.engine.messages import Event

__all__ = ["Action", "EventQueue", "Host", "HostSpeed", "Program"]


class HostSpeed:
    """The share of a machine's speed that is ours, and the machine's own clock."""

    __slots__ = ("_clock_s", "_processes", "_share", "_since_s", "_slowdowns")

    def __init__(self) -> None:
        self._slowdowns: list[float] = []
        self._processes = 0
        self._share = 1.0
        self._since_s = 0.0
        self._clock_s = 0.0

    @property
    def share(self) -> float:
        """Give the current share: 1 undisturbed, the product of all slowdowns and 1/(processes + 1)."""
        return self._share

    def clock_s(self, now: float) -> float:
        """Give the time of the machine's own clock; ``now`` is not before the last change."""
        return self._clock_s + (now - self._since_s) * self._share

    def time_of(self, clock_s: float) -> float:
        """Give the time at which the clock will stand there if nothing changes any more."""
        return self._since_s + (clock_s - self._clock_s) / self._share

    def finish_s(self, work_s: float, now: float) -> float:
        """Give the time at which work begun now will be done if nothing changes any more.

        ``work_s``: what it takes undisturbed.
        """
        return self.time_of(self.clock_s(now) + work_s)

    def slow(self, slowdown: float, now: float) -> None:
        """Make the machine so many times slower, on top of what slows it already."""
        self._slowdowns.append(slowdown)
        self._change(now)

    def relieve(self, slowdown: float, now: float) -> None:
        """End one slowdown by this factor; it must have begun."""
        self._slowdowns.remove(slowdown)
        self._change(now)

    def load(self, processes: int, now: float) -> None:
        """Let so many more processes compete."""
        self._processes += processes
        self._change(now)

    def unload(self, processes: int, now: float) -> None:
        """Let so many processes fewer compete."""
        if processes > self._processes:
            raise ValueError(f"{processes} processes end where {self._processes} compete")
        self._processes -= processes
        self._change(now)

    def _change(self, now: float) -> None:
        self._clock_s, self._since_s = self.clock_s(now), now
        share = 1.0 / (self._processes + 1)
        # Multiplied anew each time: what comes and goes leaves no rounding behind.
        for slowdown in self._slowdowns:
            share /= slowdown
        self._share = share


@dataclass(slots=True)
class Program:
    """The program of an attempt while it runs."""

    attempt: int
    run: int
    task: int
    host: int
    iteration: int
    work_s: float
    """What it takes undisturbed, from where it restarts."""
    restart_from: float
    began_s: float
    clock_s: float
    """The host's clock when it began."""
    limit_s: float | None = None
    """Seconds after which it is ended; None: no limit."""
    version: int = 0
    """Grows with every change of its expected end: ends that were expected before are void."""
    suspended_s: float | None = None
    """The work it had left when it was suspended; None: it is not."""
    checkpoint: float = 0.0
    """The share of the task's work that its last restart files keep."""
    put_off: list[RequirementChange] = field(default_factory=list)
    """Changes of its requirements that were due while it was suspended."""

    @property
    def end_clock_s(self) -> float:
        """Give the time of the host's clock at which it is done."""
        return self.clock_s + self.work_s

    def done(self, clock_s: float) -> float:
        """Give the share of the whole task's work that is done."""
        left = self.end_clock_s - clock_s if self.suspended_s is None else self.suspended_s
        passed = self.work_s - left
        share = min(1.0, passed / self.work_s) if self.work_s > 0 else 1.0
        return self.restart_from + (1.0 - self.restart_from) * max(0.0, share)


@dataclass(slots=True)
class Host:
    """One physical machine."""

    index: int
    speed: HostSpeed = field(default_factory=HostSpeed)
    failures: int = 0
    """How many failures have not been repaired yet."""
    silent: dict[str, int] = field(default_factory=lambda: {"job-manager": 0, "gatekeeper": 0})
    programs: dict[int, Program] = field(default_factory=dict)
    """By attempt, in the order in which they began."""
    cache: dict[str, float] = field(default_factory=dict)
    """Shared input files, with the time from which they are there."""
    _changes: list[tuple[float, float, float]] = field(default_factory=lambda: [(0.0, 0.0, 1.0)])
    """(time, clock, share) at every change of speed."""

    @property
    def up(self) -> bool:
        """Say whether it works."""
        return self.failures == 0

    def answers(self, what: str) -> bool:
        """Say whether its job manager or its gatekeeper answers."""
        return self.up and self.silent[what] == 0

    def changed(self, now: float) -> None:
        """Remember a change of speed."""
        self._changes.append((now, self.speed.clock_s(now), self.speed.share))

    def time_at(self, clock_s: float) -> float:
        """Give the time at which the clock stood, or will stand, at a value."""
        position = bisect_right(self._changes, clock_s, key=lambda change: change[1]) - 1
        at_s, clock_then, share = self._changes[max(0, position)]
        return at_s + (clock_s - clock_then) / share


Action = Callable[[], Event | None]
"""Something that happens at its time; it may give an event to report."""


class EventQueue:
    """A clock and what is to happen."""

    def __init__(self) -> None:
        self.now = 0.0
        self._queue: list[tuple[float, int, Event | None, Action | None]] = []
        self._sequence = count()

    def report(self, event: Event, at_s: float | None = None) -> None:
        """Report an event, now or later."""
        heapq.heappush(self._queue, (self.now if at_s is None else at_s, next(self._sequence), event, None))

    def put(self, at_s: float, action: Action) -> None:
        """Let something happen at a time."""
        heapq.heappush(self._queue, (at_s, next(self._sequence), None, action))

    def next_s(self) -> float:
        """Give the time of the next thing; inf: there is none."""
        return self._queue[0][0] if self._queue else math.inf

    def take(self) -> Event | None:
        """Let the next thing happen; give the event to report, if there is one."""
        at_s, _, event, action = heapq.heappop(self._queue)
        self.now = max(self.now, at_s)
        return action() if action is not None else event
