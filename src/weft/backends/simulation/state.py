"""State of a simulated platform: hosts with their speed and programs, and the event queue with the clock."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from weft.backends.simulation.scenario import RequirementChange
from weft.engine.messages import Event, TimerFired
from weft.errors import InvalidInput

_LEAST_SHARE = 1e-100
"""If less than this share of its speed is available, a machine never completes anything."""
_MOST_SLOWDOWNS = 1000


class HostSpeed:
    """The speed of a host as a piecewise constant function of time, integrated by a local clock.

    The local clock advances at the available share of the host's speed: in 9 s at a third of the speed it
    advances by 3 s. Work of w undisturbed seconds that starts when the local clock reads c ends when it reads
    c + w, whatever happens in between. A change of speed therefore costs O(1), and only the next end is
    recomputed. Without disturbances the local clock equals the simulated time bit for bit.
    """

    __slots__ = ("_clock_s", "_contention", "_processes", "_share", "_since_s", "_slowdowns")

    def __init__(self) -> None:
        self._slowdowns: list[float] = []
        self._processes = 0
        self._contention = 1.0
        self._share = 1.0
        self._since_s = 0.0
        self._clock_s = 0.0

    @property
    def share(self) -> float:
        """Return the available share of the speed: the product of all 1/slowdown and 1/(processes + 1).

        On a time-shared host this share is divided among the simulated programs.
        """
        return self._share

    @property
    def processes(self) -> int:
        """Return the number of competing processes."""
        return self._processes

    @property
    def outside_share(self) -> float:
        """Return the available share of the speed before it is divided among the simulated programs."""
        return self._share * self._contention

    def clock_s(self, now: float) -> float:
        """Return the reading of the local clock at time ``now``, which must not be before the last change."""
        return self._clock_s + (now - self._since_s) * self._share

    def time_of(self, clock_s: float) -> float:
        """Return the time at which the local clock will read ``clock_s`` if the speed does not change."""
        return self._since_s + (clock_s - self._clock_s) / self._share

    def finish_s(self, work_s: float, now: float) -> float:
        """Return the time at which work that starts now ends if the speed does not change.

        ``work_s`` is the duration of the work on the undisturbed host.
        """
        return self.time_of(self.clock_s(now) + work_s)

    def slow(self, slowdown: float, now: float) -> None:
        """Add a slowdown by this factor; slowdowns multiply. Raises InvalidInput if no speed is left."""
        self._slowdowns.append(slowdown)
        self._change(now)
        if self._share < _LEAST_SHARE or len(self._slowdowns) > _MOST_SLOWDOWNS:
            what = f"slowdowns of a machine ({len(self._slowdowns)} at {now:g} s) leave it no speed"
            rule = f"at most {_MOST_SLOWDOWNS} slowdowns overlap, by a factor below {1 / _LEAST_SHARE:g}"
            raise InvalidInput(what, rule=rule, advice="shorten `lasting`, or lengthen `every`")

    def relieve(self, slowdown: float, now: float) -> None:
        """Remove one slowdown by this factor, which must have been added before."""
        self._slowdowns.remove(slowdown)
        self._change(now)

    def load(self, processes: int, now: float) -> None:
        """Add competing processes."""
        self._processes += processes
        self._change(now)

    def unload(self, processes: int, now: float) -> None:
        """Remove competing processes."""
        if processes > self._processes:
            raise ValueError(f"{processes} competing processes end, but only {self._processes} run")
        self._processes -= processes
        self._change(now)

    def set_contention(self, factor: float, now: float) -> bool:
        """Set the factor by which simulated programs slow each other down; return whether it has changed."""
        if factor == self._contention:
            return False
        self._contention = factor
        self._change(now)
        return True

    def _change(self, now: float) -> None:
        self._clock_s, self._since_s = self.clock_s(now), now
        share = 1.0 / (self._processes + 1) / self._contention
        # Recomputed from scratch, so that rounding errors do not accumulate.
        for slowdown in self._slowdowns:
            share /= slowdown
        self._share = share


@dataclass(slots=True)
class Program:
    """The running program of an attempt."""

    attempt: int
    run: int
    task: int
    host: int
    iteration: int
    work_s: float
    """Duration of the program on the undisturbed host, from the restart point on."""
    restart_from: float
    began_s: float
    clock_s: float
    """Reading of the host's local clock at the start of the program."""
    limit_s: float | None = None
    """Time limit of the program in seconds; None: no limit."""
    nodes: int = 1
    version: int = 0
    """Number that is incremented when the expected end changes; ends with an older version are stale."""
    suspended_s: float | None = None
    """Seconds of work that were left at the suspension; None: the program is not suspended."""
    checkpoint: float = 0.0
    """Share of the task's work that the last checkpoint saved."""
    deferred_changes: tuple[RequirementChange, ...] = ()
    """Requirement changes that became due during a suspension."""

    @property
    def end_clock_s(self) -> float:
        """Return the reading of the host's local clock at the end of the program."""
        return self.clock_s + self.work_s

    def done(self, clock_s: float) -> float:
        """Return the completed share of the task's work, including the work of earlier attempts."""
        left = self.end_clock_s - clock_s if self.suspended_s is None else self.suspended_s
        passed = self.work_s - left
        share = min(1.0, passed / self.work_s) if self.work_s > 0 else 1.0
        return self.restart_from + (1.0 - self.restart_from) * max(0.0, share)


@dataclass(slots=True)
class Host:
    """One physical machine of the platform; several machines of the engine may be shares of it."""

    index: int
    speed: HostSpeed = field(default_factory=HostSpeed)
    failures: int = 0
    """Number of failures that have not been repaired yet."""
    silent: dict[str, int] = field(default_factory=lambda: {"job-manager": 0, "gatekeeper": 0})
    programs: dict[int, Program] = field(default_factory=dict)
    """By attempt: the running programs, in order of start."""
    shared_nodes: int = 0
    """Number of nodes that all programs of a time-shared host share; 0: each node runs one program."""
    cache: dict[str, float] = field(default_factory=dict)
    """By shared input file: the time at which its copy on the host is complete."""
    _changes: list[tuple[float, float, float]] = field(default_factory=lambda: [(0.0, 0.0, 1.0)])
    """Time, reading of the local clock, and available share of the speed at every change of speed."""

    @property
    def up(self) -> bool:
        """Return whether all failures of the host are repaired."""
        return self.failures == 0

    def count_programs(self, now: float) -> bool:
        """Share the nodes of a time-shared host among its programs; return whether the speed has changed."""
        if not self.shared_nodes:
            return False
        taken = sum(program.nodes for program in self.programs.values() if program.suspended_s is None)
        return self.speed.set_contention(max(1.0, taken / self.shared_nodes), now)

    def answers(self, what: str) -> bool:
        """Return whether the host is up and its service ``what`` (job manager or gatekeeper) answers."""
        return self.up and self.silent[what] == 0

    def changed(self, now: float) -> None:
        """Record that the speed has changed now; ``time_at`` uses this record."""
        self._changes.append((now, self.speed.clock_s(now), self.speed.share))

    def time_at(self, clock_s: float) -> float:
        """Return the past or future time at which the local clock reads ``clock_s``."""
        position = bisect_right(self._changes, clock_s, key=lambda change: change[1]) - 1
        at_s, clock_then, share = self._changes[max(0, position)]
        return at_s + (clock_s - clock_then) / share


Action = Callable[[], Event | None]
"""Callback that is called at a point in time; it may return an event to report."""


class EventQueue:
    """The virtual clock and a heap of events and callbacks, ordered by time, then by insertion."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._timers: dict[str, float] = {}
        self.heap: list[tuple[float, int, Event | None, Action | None]] = []
        self._sequence = count()

    def now(self) -> float:
        """Return the simulated time in seconds."""
        return self.now_s

    def schedule(self, event: Event, at_s: float | None = None) -> None:
        """Insert an event that is due at ``at_s``, or now if ``at_s`` is None."""
        heapq.heappush(self.heap, (self.now_s if at_s is None else at_s, next(self._sequence), event, None))

    def set_timer(self, name: str, at_s: float) -> None:
        """Set a timer; it replaces the timer of the same name."""
        self._timers[name] = at_s
        self.put(max(self.now_s, at_s), partial(self._fire, name, at_s))

    def _fire(self, name: str, at_s: float) -> Event | None:
        if self._timers.get(name) != at_s:
            return None
        del self._timers[name]
        return TimerFired(timer=name)

    def due(self) -> tuple[Event, ...]:
        """Return an empty tuple, because the backend advances the clock and reports all events itself."""
        return ()

    def put(self, at_s: float, action: Action) -> None:
        """Insert a callback that is called at ``at_s``."""
        heapq.heappush(self.heap, (at_s, next(self._sequence), None, action))

    def next_s(self) -> float:
        """Return the time of the next entry; infinity: the queue is empty."""
        return self.heap[0][0] if self.heap else math.inf

    def take(self) -> Event | None:
        """Remove the next entry and advance the clock to its time; return its event, or None."""
        at_s, _, event, action = heapq.heappop(self.heap)
        if at_s > self.now_s:
            self.now_s = at_s
        return event if action is None else action()
