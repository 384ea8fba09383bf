"""Events: what a world reports to the engine. Each is a plain record, so that a journal can hold it.

A world reports facts and never decides. What it cannot know (an exit code that was never written, progress
that nobody measures) is None. Tasks are named by (run, task index), attempts by their number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from weft.expressions import Value
from weft.message import message

__all__ = [
    "Answered",
    "Asked",
    "Checkpointed",
    "CleanedUp",
    "Discovered",
    "Ended",
    "Event",
    "Fetched",
    "MachineChanged",
    "PlanReady",
    "Progressed",
    "RequirementsChanged",
    "Resumed",
    "StagedIn",
    "StagedOut",
    "Started",
    "Submitted",
    "Suspended",
    "TasksAdded",
    "TimerFired",
]


@message
class Submitted:
    """A workflow arrives: a new run begins."""

    run: int
    """Runs are numbered 0, 1, 2, ... in the order of arrival."""
    workflow: str
    """Key of the workflow in the engine's library."""
    owner: str = ""


@message
class Started:
    """The program of an attempt has begun."""

    attempt: int


@message
class Ended:
    """The program of an attempt is over, or its transfer is done."""

    attempt: int
    exit_code: int | None = 0
    """None: it ended without leaving one (killed, cancelled, lost)."""
    cause: str = ""
    """One of ``workflow.records.recovery.CAUSES`` where it did not end by itself; "": judge by the exit
    code."""
    result: Mapping[str, Value] = field(default_factory=dict)
    """What it wrote to its result file."""
    work_done: float | None = None
    """The share of the whole task's work that is done; None: unknown (all of it after success)."""
    story: str = ""
    """What a reader should know of its end: the output that is missing, the signal that ended it."""
    taken_over: int | None = None
    """The execution that had done this task before, of whose outputs use is made; None: it ran."""
    ran_s: float | None = None
    """How long its program ran, if that was measured where it ran; None: from its start until this."""
    late_s: float = 0.0
    """How long it was over before this was told: no engine was there to hear of it."""
    lasting: bool = False
    """Whether it would fail in the same way again: its inputs do not exist, or are refused."""


@message
class StagedIn:
    """A StageIn is done, or has failed."""

    attempt: int
    part: int
    """The StageIn's number within the attempt."""
    problem: str = ""
    """Why it failed; "": it did not."""
    moved_bytes: float | None = None
    """What was really moved: less than was asked for if shared files were there; None: unknown."""
    lost: tuple[int, ...] = ()
    """Machines that do not answer, and whose data so cannot be had."""
    lasting: bool = False
    """Whether it would fail in the same way again: there is no such file."""


@message
class StagedOut:
    """The outputs of an attempt are where they were asked for, or could not be brought there."""

    attempt: int
    problem: str = ""
    lasting: bool = False
    """Whether it would fail in the same way again: a name is refused."""


@message
class CleanedUp:
    """An attempt's directory on its machine is gone, or could not be removed."""

    attempt: int
    problem: str = ""


@message
class Progressed:
    """News of a running attempt: an answer to a probe, or a progress step it wrote."""

    attempt: int
    work_done: float | None = None
    """The share of the whole task's work that is done, checkpoints of earlier attempts included."""
    last_iteration_s: float | None = None
    """What the application's last iteration took (S3's performance profile)."""
    iterations: int | None = None
    """How many it has done."""
    all_iterations: int | None = None
    """How many it has in all."""
    degraded: str = ""
    """What the application itself says of its bad performance; "": nothing."""


@message
class Checkpointed:
    """An attempt has written its restart files."""

    attempt: int
    work_done: float
    """The share of the whole task's work from which a restart goes on."""


@message
class Suspended:
    """The machine's own system has stopped an attempt for a while."""

    attempt: int


@message
class Resumed:
    """The machine's own system lets an attempt go on."""

    attempt: int


@message
class RequirementsChanged:
    """A running application has rewritten what it demands of machines (S3 section 2); None: unchanged."""

    attempt: int
    requirements: str | None = None
    rank: str | None = None
    mandatory: bool = True
    """Whether it must leave a machine that does not meet them."""
    problem: str = ""
    """What else it wrote that cannot be understood, and so changes nothing."""


@message
class MachineChanged:
    """A machine appears, goes, comes back, or works faster or slower than was believed; None: unchanged."""

    machine: int
    up: bool | None = None
    speed_factor: float | None = None
    """Its speed relative to what the platform says: 0.25 with three competing processes."""


@message
class Answered:
    """The answer to a probe of the polling ladder (S3 section 5); silence is an answer too."""

    of: str
    """``job`` (the job manager of an attempt), ``machine`` (the gatekeeper), ``access`` (authorisation)."""
    alive: bool
    attempt: int | None = None
    machine: int | None = None


@message
class Discovered:
    """The answer to Discover: the machines that the information service lists."""

    machines: tuple[int, ...]


@message
class Fetched:
    """The dynamic state of a machine, as asked for."""

    machine: int
    speed_factor: float
    free_nodes: int | None = None


@message
class PlanReady:
    """The answer to Replan. It carries what it was computed on; what started meanwhile is kept."""

    plan: str
    """Content hash of the plan, which is stored beside the journal; "": no plan could be made."""
    run: int
    version: int
    """The run's version when the re-planning was asked for."""
    steps: int = 0
    problem: str = ""


@message
class TimerFired:
    """A timer that was set is due."""

    timer: str


@message
class TasksAdded:
    """A file that a sweep is unfolded over exists now: the run's graph grows."""

    run: int
    lines: Mapping[str, tuple[str, ...]]
    """Lines by file name."""


@message
class Asked:
    """A user asks for something."""

    what: str
    """``cancel``, ``hold``, ``release``, ``migrate``, ``resume``."""
    run: int
    task: int | None = None
    """None: the whole run."""
    machine: int | None = None


Event = (
    Submitted
    | Started
    | Ended
    | StagedIn
    | StagedOut
    | CleanedUp
    | Progressed
    | Checkpointed
    | Suspended
    | Resumed
    | RequirementsChanged
    | MachineChanged
    | Answered
    | Discovered
    | Fetched
    | PlanReady
    | TimerFired
    | TasksAdded
    | Asked
)
