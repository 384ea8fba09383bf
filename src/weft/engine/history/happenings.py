"""What a history is made of: runs, tries of tasks, moves, failures. Times are on the engine's clock."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["Failed", "Moved", "RunStory", "Tried"]


@dataclass(slots=True, kw_only=True)
class Tried:
    """One attempt, from its assignment to its end."""

    number: int
    run: int
    task: str
    iteration: int
    kind: str
    """What tasks have in common: the description that points of a sweep share, or the program it names."""
    machine: int
    nodes: int
    count: int
    assigned_s: float
    reason: str = ""
    """Who sent it there and why, as the journal says."""
    replaces: int | None = None
    seconds: float = 0.0
    """Estimated for the whole task at the machine's stated speed."""
    restart_from: float = 0.0
    """The share of the work that a checkpoint spares it."""
    staging_s: float | None = None
    """When data were first sent for; None: nothing had to move."""
    staged_s: float | None = None
    """When the last of them had come."""
    submitted_s: float | None = None
    started_s: float | None = None
    ended_s: float | None = None
    suspended_s: float = 0.0
    """How long the remote side had stopped it, in all."""
    work_done: float | None = None
    """The share of the task's work that was done at its end; None: unknown."""
    checkpoint: float | None = None
    """The share that its last restart files kept; None: it wrote none."""
    ending: str = ""
    """``completed``, ``failed``, ``migrated``, ``cancelled``, ``withdrawn`` (it never ran); "": not over."""
    cause: str = ""
    """Of a failure."""
    left_for: str = ""
    """Why it had to leave its machine; "": it did not have to."""
    useful_share: float = 0.0
    """The share of the task's work that it did and that nobody did again."""

    def ran(self, seconds: float, until_s: float) -> None:
        """Correct its times by what was measured where its program ran.

        Clocks differ: it did not begin before it was to, nor end after that was told.
        """
        told_s = until_s if self.ended_s is None else self.ended_s
        earliest_s = self.assigned_s if self.submitted_s is None else self.submitted_s
        self.ended_s = min(told_s, max(until_s, earliest_s + seconds))
        self.started_s = max(earliest_s, self.ended_s - seconds)

    @property
    def ran_s(self) -> float:
        """Give how long its program ran (of a transfer: how long data moved)."""
        if self.started_s is None or self.ended_s is None:
            return 0.0
        return self.ended_s - self.started_s

    @property
    def node_seconds(self) -> float:
        """Give the node-seconds its program took."""
        return self.nodes * self.ran_s

    @property
    def useful_s(self) -> float:
        """Give how much of the time it ran served the task in the end."""
        if self.ending == "completed" and self.useful_share > 0:
            return self.ran_s
        if self.useful_share <= 0:
            return 0.0
        done = None if self.work_done is None else self.work_done - self.restart_from
        if done is not None and done > 0:
            return self.ran_s * min(1.0, self.useful_share / done)
        return min(self.ran_s, self.useful_share * self.seconds)

    def as_record(self, machines: tuple[str, ...]) -> dict[str, Any]:
        """Give it as plain data, with the machine's name."""
        return asdict(self) | {"machine": machines[self.machine], "useful_s": self.useful_s}


@dataclass(slots=True, kw_only=True)
class Moved:
    """A task went on elsewhere: a migration, for one of the reasons of S3 section 1 or by a plan."""

    at_s: float
    """When it was decided (for ``failure``: when the task got its new machine)."""
    run: int
    task: str
    iteration: int
    source: int
    target: int
    reason: str
    """``better-machine``, ``performance``, ``suspension``, ``self-migration``, ``failure``, ``user``, ..."""
    old: int
    new: int
    """The attempts."""
    restart_from: float = 0.0
    off: bool = False
    """Whether it came to nothing: the task ended before it could be cancelled."""

    def as_record(self, machines: tuple[str, ...]) -> dict[str, Any]:
        """Give it as plain data, with the machines' names."""
        return asdict(self) | {"source": machines[self.source], "target": machines[self.target]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """An attempt failed, or a task did for good."""

    at_s: float
    run: int
    task: str
    cause: str
    reason: str
    attempt: int
    """-1: none (a loop that did not converge)."""
    for_good: bool


@dataclass(slots=True, kw_only=True)
class RunStory:
    """One run, from arrival to end."""

    index: int
    workflow: str
    owner: str
    arrival_s: float
    alone_s: float = 0.0
    """Estimated makespan alone on the empty platform (S5 section 3: mk)."""
    tasks: int = 0
    ended_s: float | None = None
    outcome: str = ""
    """``completed``, ``failed``, ``stopped``, ``cancelled``; "": it has not ended."""
    reason: str = ""
    iterations: dict[str, int] = field(default_factory=dict)
    """How often each loop ran; of a loop with several bodies, the most."""
    plans: int = 0
    """How many plans it adopted."""

    @property
    def response_s(self) -> float | None:
        """Give the time from arrival to end; None: it has not ended."""
        return None if self.ended_s is None else self.ended_s - self.arrival_s

    @property
    def slowdown(self) -> float | None:
        """Give (C - r) / mk of S5; None: it has not completed, or takes no time alone."""
        if self.outcome != "completed" or self.response_s is None or self.alone_s <= 0:
            return None
        return self.response_s / self.alone_s

    def as_record(self) -> dict[str, Any]:
        """Give it as plain data."""
        return asdict(self) | {"response_s": self.response_s, "slowdown": self.slowdown}
