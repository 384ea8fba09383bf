"""The contract of the real worlds: read this first (design sections 4 and 7).

A backend carries out what the engine commands on machines of its kind and reports what happens as the
engine's own events. It never decides. Every command may come twice, and is done once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from weft.backends.layout import Layout
from weft.backends.products import Products
from weft.engine.messages.commands import Command
from weft.engine.messages.events import Event
from weft.engine.state.known import Known
from weft.platform.machine import Machine

__all__ = ["Backend", "Capabilities", "Circumstances", "Job"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a backend can do; what it cannot, weft does not promise there."""

    reattaches: bool
    """Whether jobs outlive the engine and are found again."""
    limits_time: bool
    limits_memory: bool
    signals: bool
    """Whether a running program can be told to write its restart files."""
    own_disk: bool
    """Whether its machines do not share the project's file system."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """An attempt that was begun before: what a backend needs to find it again."""

    attempt: int
    run: int
    task: int
    machine: int
    nodes: int
    count: int
    iteration: int
    stage: str
    """``assigned`` (data may be on the way), ``started``, ``ended`` (outputs may be on the way)."""
    cancelled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What a backend works with."""

    layout: Layout
    execution: int
    """Number of the execution: one journal, one engine, any number of runs."""
    machines: tuple[Machine, ...]
    """All of the platform, in the order in which commands number them."""
    known_of: Callable[[int], Known]
    """What is known of a run's workflow, as grown as it is now."""
    folder_of: Callable[[int], str]
    """Where a run's workflow was read: its files are named from there."""
    products: Products
    token: str
    """A secret of this execution: whoever shows it was started by it."""


class Backend(Protocol):
    """One way to reach machines."""

    kind: ClassVar[str]
    capabilities: ClassVar[Capabilities]

    def carry_out(self, commands: Sequence[Command]) -> None:
        """Begin what is commanded; it returns at once, and what comes of it is reported by ``poll``."""

    def poll(self, timeout_s: float) -> list[Event]:
        """Wait until there is news, at most so long, and give it."""

    def wake(self) -> None:
        """Let ``poll`` return, although there may be no news; other threads may call it."""

    @property
    def busy(self) -> bool:
        """Say whether some program still runs, or its end was not told yet."""

    def halt(self, grace_s: float) -> None:
        """End all programs, as if they had asked to be run again later; ``poll`` reports it."""

    def find(self, jobs: Sequence[Job]) -> None:
        """Take up the attempts of an engine that died; what became of them is reported by ``poll``."""

    def close(self, *, stop: bool) -> None:
        """Let go of the machines. ``stop``: nothing more will be asked of them; else programs go on."""
