"""Interface of the backends, and records of what completed tasks produced.

A backend executes commands of the engine on machines of its kind and reports what happens as events of the
engine. It makes no decisions. Commands are idempotent: a command repeated after a crash is executed once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import ClassVar, Protocol

from weft.backends.file_record import FileRecord
from weft.backends.layout import ProjectLayout
from weft.backends.secret_values import NO_SECRETS, SecretValues
from weft.engine.messages import Command, Event
from weft.engine.state.compiled import CompiledWorkflow
from weft.engine.states import Cause
from weft.errors import Problem, suggest
from weft.expressions import Value
from weft.instance.instance import Instance
from weft.platform.machine import Machine
from weft.records import dataclass, message
from weft.workflow.settings import DEFAULTS, RunSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The features that a backend supports."""

    runs_programs: bool
    """Whether programs run and files are staged; False: both are simulated."""
    virtual_time: bool
    """Whether ``poll`` advances a virtual clock of the backend instead of waiting."""
    reattaches: bool
    """Whether programs survive the engine, so that ``find`` can re-attach to them."""
    limits_time: bool
    limits_memory: bool
    signals: bool
    """Whether a running program can be suspended, resumed, and signalled to write its restart files."""
    own_disk: bool
    """Whether the backend's machines have file systems of their own, separate from the project's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredAttempt:
    """An attempt found in the journal of an engine that stopped or died."""

    attempt: int
    run: int
    task: int
    machine: int
    nodes: int
    count: int
    iteration: int
    counters: tuple[int, ...] = ()
    """Iterations of all loops around the task, outermost first."""
    stage: str
    """Stage of the attempt: ``assigned`` (inputs may be in transfer), ``started``, or ``ended`` (outputs may
    be in transfer).
    """
    nonce: str = ""
    """Random identity of the attempt (see ``ProjectContext.attempt_nonce``). If the tail of the journal is
    lost, attempt numbers are used again; then a record with the same number and another nonce belongs to
    another attempt.
    """
    cancelled: bool = False
    is_delayed: bool = False
    """Whether its job waited to be submitted or started."""
    tries: int = 1
    """How often the task was started in this iteration, including this attempt; 1: the first start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendContext:
    """The context passed to the constructor of every backend."""

    machines: tuple[Machine, ...]
    """All machines of the platform; commands refer to them by index. Shares are machines too."""
    instance: Instance
    """Any instance compiled for the platform; only its hosts and its network are read."""
    compiled_workflow: Callable[[int], CompiledWorkflow]
    """Returns the workflow of a run, including the tasks that growing sweeps have added so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectContext(BackendContext):
    """The context of a backend that runs programs."""

    layout: ProjectLayout
    project: str
    """Identity of the project: 32 hexadecimal digits that no other project has."""
    execution: int
    """Number of the execution."""
    attempt_nonce: Callable[[int], str]
    """Returns the nonce of an attempt of this execution: 32 random hexadecimal digits, never used again.

    "" for an attempt that an older version of weft assigned."""
    is_known: Callable[[int, int, str], bool]
    """Returns whether the journal of an execution contains an attempt with this number and this nonce."""
    check_claim: Callable[[], None] = lambda: None
    """Raises Locked if another engine has taken over the project from this engine."""
    workflow_folder: Callable[[int], str]
    """Returns the folder of a run's workflow file; relative paths of inputs start there."""
    results_folder: Callable[[int], str] = lambda _: ""
    """Returns the folder, relative to the project, into which the outputs of a run are published.

    "": the folder of the run's workflow file."""
    products: ProductStore
    token: str
    """Secret of the execution, by which its processes recognise the engine."""
    fresh: bool = False
    """Whether products and digests of inputs that earlier executions stored are ignored."""
    secrets: Mapping[str, SecretValues] = field(default_factory=dict)
    """By key of a workflow with secrets (``CompiledWorkflow.key``): the values of the secrets."""
    task_settings: Callable[[int, int], RunSettings] = lambda run, task: DEFAULTS  # noqa: ARG005
    """Returns the settings of a task of a run."""
    count_failures: Callable[[int, int, Cause], int] = lambda run, task, cause: 0  # noqa: ARG005
    """Returns how often attempts of a task of a run have failed with a cause."""

    def secrets_of(self, run: int) -> SecretValues:
        """Return the secrets of a run's workflow."""
        return self.secrets.get(self.compiled_workflow(run).key, NO_SECRETS)


class Backend(Protocol):
    """Executes attempts on machines of one kind and reports what happens as events."""

    kind: ClassVar[str]
    capabilities: ClassVar[Capabilities]

    @staticmethod
    def check_machines(machines: Iterable[Machine]) -> None:
        """Raise InvalidInput if the ``backend`` of a machine has invalid or unavailable settings."""

    def execute(self, commands: Sequence[Command]) -> None:
        """Start executing commands and return at once; ``poll`` reports the outcome.

        Commands that are not meant for a backend (timers, planning, changes of state) are ignored.
        """

    def poll(self, timeout_s: float) -> list[Event]:
        """Return new events; if there are none, wait for an event, for at most ``timeout_s`` seconds."""

    def inspect(self, machine: int) -> str:
        """Return why a machine cannot run programs now; "": it can.

        If the machine cannot run programs, ``poll`` reports it as lost.
        """

    def confirm_ends(self, attempts: Sequence[int]) -> None:
        """Drop the backend's own records of these attempts' ends; the journal on disk now contains them."""

    def find(self, attempts: Sequence[RecoveredAttempt]) -> None:
        """Re-attach to the attempts of an engine that stopped or died; ``poll`` reports their state."""

    def wake(self) -> None:
        """Make ``poll`` return, even without events; other threads may call this."""

    @property
    def busy(self) -> bool:
        """Return whether a program runs, or the end of a program has not been reported yet."""

    @property
    def has_programs(self) -> bool:
        """Return whether a program runs or may run."""

    def halt(self, most_s: float = math.inf) -> float:
        """Terminate all programs; ``poll`` reports them with the exit code that requests another run.

        To write its restart files, a program has the seconds of its task's setting ``timeouts.ending``, but
        at most ``most_s``. It has the same time again to end. Return the seconds until the last program must
        have ended.
        """

    def close(self, *, stop: bool) -> None:
        """Release the machines.

        If ``stop`` is True, no more work follows; otherwise programs continue to run.
        """


def find_unknown_keys(machine: Machine, keys: Sequence[str]) -> Iterator[Problem]:
    """Yield a problem for each key of a machine's ``backend`` that is not one of ``keys``."""
    for key in machine.backend:
        if key not in keys:
            advice = suggest(key, keys, f"known: {', '.join(keys)}")
            yield Problem(what=f"machine {machine.name!r}: backend: unknown key {key!r}", advice=advice)


@message
class Product:
    """The outputs of a completed task. A later run can reuse them if the fingerprint is equal."""

    execution: int
    run: int
    task: int
    name: str
    """Name of the task that produced the files, such as ``lapw1[k=3]``."""
    kind: str
    """Name of the description of that task, such as ``lapw1``."""
    workflow: str
    attempt: int
    iteration: int = 1
    counters: tuple[int, ...] = ()
    """Iterations of all loops around the task, outermost first."""
    machine: str = ""
    directory: str = ""
    """Directory that contains the files."""
    files: tuple[FileRecord, ...] = ()
    exit_code: int = 0
    result: Mapping[str, Value] = field(default_factory=dict)
    fingerprint: str = ""
    """Hash over everything the outputs depend on; "": unknown, so the product is never reused."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """By part of the fingerprint (``task``, ``command``, ``inputs``, ``scripts``, ``environment``, ...): a
    text that differs if the part differs. It is used to explain why a product is stale.
    """
    seconds: float = 0.0
    """Run time of the program in seconds."""
    boot: str = ""
    """Identifier of the boot of the host during which the files were measured; "": unknown."""


class ProductStore(Protocol):
    """Interface of the storage of products; the repository implements it."""

    def add(self, product: Product) -> None:
        """Add a product; it is written to disk before the next event is handled."""

    def of(self, execution: int, run: int, task: int) -> Product | None:
        """Return the last product of a task of a run; None: there is none."""

    def previous(self, product: Product) -> Product | None:
        """Return the last product of the same task and run that belongs to another iteration.

        The result is None if there is no such product.
        """

    def find_by_fingerprint(self, fingerprint: str, besides: int | None = None) -> Product | None:
        """Return the newest product with a fingerprint, or None.

        Products of the execution ``besides`` are ignored; if it is None, no execution is ignored.
        """

    def find_by_iteration(
        self, workflow: str, name: str, counters: tuple[int, ...], besides: int
    ) -> Product | None:
        """Return the newest product of an iteration of the task with this name, or None.

        ``counters`` are those of the loops around the task, outermost first; ``(1,)`` for a task outside
        loops. Products of the execution ``besides`` are ignored.
        """
