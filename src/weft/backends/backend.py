"""Products: what completed tasks have made, where it lies and what it was made from.

The record of a task outlives its run: a later run takes a task over if its fingerprint is the same and its
files are still there (design section 7). The repository keeps them; this is the contract.

The contract of the real worlds: read this first (design sections 4 and 7).

A backend carries out what the engine commands on machines of its kind and reports what happens as the
engine's own events. It never decides. Every command may come twice, and is done once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from weft.backends.layout import ProjectLayout
from weft.engine.messages import Command, Event
from weft.engine.state.compiled import CompiledWorkflow
from weft.expressions import Value
from weft.message import message
from weft.platform.machine import Machine

__all__ = [
    "Backend",
    "BackendContext",
    "Capabilities",
    "FileRecord",
    "Product",
    "ProductStore",
    "RecoveredAttempt",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord:
    """One file (or directory) that a task has made."""

    name: str
    """As it lies in the task's directory, wildcards resolved."""
    size_bytes: int
    digest: str
    """BLAKE2b of its content, in hexadecimal; of a directory: of its sorted names and contents."""
    modified_ns: int = 0
    """When it was last changed: another time says that somebody has touched it since."""


@message
class Product:
    """What one completed task has left."""

    execution: int
    run: int
    task: int
    name: str
    """The task's name, such as ``lapw1[k=3]``."""
    kind: str
    """The name of its description, such as ``lapw1``."""
    workflow: str
    attempt: int
    iteration: int = 1
    machine: str = ""
    directory: str = ""
    """Where the files lie."""
    files: tuple[FileRecord, ...] = ()
    exit_code: int = 0
    result: Mapping[str, Value] = field(default_factory=dict)
    fingerprint: str = ""
    """What it was made from, in one word; "": unknown, and so never taken over."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """The fingerprint by part (``command``, ``environment``, ``inputs``, ``scripts``, ``version``)."""
    seconds: float = 0.0
    """How long its program ran."""


class ProductStore(Protocol):
    """Where products are remembered."""

    def add(self, product: Product) -> None:
        """Remember a product; it is on disk before the next event is."""

    def of(self, execution: int, run: int, task: int) -> Product | None:
        """Give the last product of a task of a run."""

    def find_by_fingerprint(self, fingerprint: str, besides: int | None = None) -> Product | None:
        """Give the newest product of a fingerprint; ``besides``: that another execution has made."""

    def find_by_name(self, workflow: str, name: str) -> Product | None:
        """Give the newest product of a task by its name, whatever it was made from."""


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
class RecoveredAttempt:
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
class BackendContext:
    """What a backend works with."""

    layout: ProjectLayout
    execution: int
    """Number of the execution: one journal, one engine, any number of runs."""
    machines: tuple[Machine, ...]
    """All of the platform, in the order in which commands number them."""
    known_of: Callable[[int], CompiledWorkflow]
    """What is known of a run's workflow, as grown as it is now."""
    folder_of: Callable[[int], str]
    """Where a run's workflow was read: its files are named from there."""
    products: ProductStore
    token: str
    """A secret of this execution: whoever shows it was started by it."""


class Backend(Protocol):
    """One way to reach machines."""

    kind: ClassVar[str]
    capabilities: ClassVar[Capabilities]

    def execute(self, commands: Sequence[Command]) -> None:
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

    def find(self, jobs: Sequence[RecoveredAttempt]) -> None:
        """Take up the attempts of an engine that died; what became of them is reported by ``poll``."""

    def close(self, *, stop: bool) -> None:
        """Let go of the machines. ``stop``: nothing more will be asked of them; else programs go on."""
