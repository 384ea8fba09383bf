"""A simulated host: how fast it computes, whether it answers, and what computes on it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from weft.simulation.scenario import RequirementChange
from weft.simulation.speed import Speed

__all__ = ["Host", "Program"]


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
    speed: Speed = field(default_factory=Speed)
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
