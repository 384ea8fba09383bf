"""Events: what a world reports to the engine. Each is a plain record, so that a journal can hold it.

A world reports facts and never decides. What it cannot know (an exit code that was never written, progress
that nobody measures) is None. Tasks are named by (run, task index), attempts by their number.

Commands: what the engine tells a world to do. Each is a plain record, so that a journal can hold it.

Every command is idempotent: it names the attempt and the stage, and a world that gets it twice does it once.
``Assign``, ``Drop``, ``Return``, ``Settle``, ``Repeat``, ``Leave``, ``Finish`` and ``Note`` ask nothing of a
world: they record what was decided, so that the state can be rebuilt from a journal without deciding again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from weft.expressions import Value
from weft.message import message

__all__ = [
    "Answered",
    "Asked",
    "Assign",
    "Cancel",
    "Checkpointed",
    "CleanUp",
    "CleanedUp",
    "Command",
    "Discover",
    "Discovered",
    "Drop",
    "Ended",
    "Event",
    "Fetch",
    "Fetched",
    "Finish",
    "Leave",
    "MachineChanged",
    "Note",
    "Parcel",
    "PlanReady",
    "Probe",
    "Progressed",
    "Repeat",
    "Replan",
    "RequirementsChanged",
    "Resumed",
    "Return",
    "SetTimer",
    "Settle",
    "Signal",
    "StageIn",
    "StageOut",
    "StagedIn",
    "StagedOut",
    "Start",
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


@message
class Assign:
    """A new attempt of a task is bound to a machine."""

    attempt: int
    run: int
    task: int
    machine: int
    nodes: int
    count: int
    """The node count as the user knows it (``nodes`` are those taken: on hosts whose nodes are cores,
    more)."""
    reserve: bool = True
    """Whether its nodes are kept for it from now on; else it waits in the machine's queue."""
    order: float | None = None
    """Its place in the machine's queue, lower first; None: behind those who came before."""
    replaces: int | None = None
    """The attempt it takes over from: a migration."""
    restart_from: float = 0.0
    """The share of the work that a checkpoint spares it."""
    reason: str = ""
    """Who decided and why, in a few words."""


@message
class Parcel:
    """Data that have to come to an attempt's machine."""

    source: int
    """The machine where they lie; -1: from where the user keeps them."""
    size_bytes: float = 0.0
    files: float = 0.0
    fixed_s: float = 0.0
    """Seconds between different machines whatever the network (task graphs of the literature)."""
    task: int = -1
    """The task that made them; -1: none."""
    name: str = ""
    shared: bool = False
    """Kept in the machine's cache for all attempts."""


@message
class StageIn:
    """Bring data to an attempt's machine (prolog)."""

    attempt: int
    part: int
    machine: int
    parcels: tuple[Parcel, ...]
    iteration: int = 1


@message
class Start:
    """Run the program of an attempt (wrapper)."""

    attempt: int
    run: int
    task: int
    machine: int
    nodes: int
    count: int
    iteration: int = 1
    tries: int = 1
    """Which try of its task this is, in this iteration."""
    restart_from: float = 0.0
    time_limit_s: float | None = None
    memory_bytes: float | None = None


@message
class Signal:
    """Send a signal to the program of an attempt: ``checkpoint``, ``suspend``, ``resume``."""

    attempt: int
    what: str


@message
class Cancel:
    """End an attempt, whatever stage it is in. The world answers with Ended, cause cancelled."""

    attempt: int
    machine: int
    reason: str = ""


@message
class StageOut:
    """Bring an attempt's outputs to where the user wants them (epilog)."""

    attempt: int
    machine: int


@message
class CleanUp:
    """Remove what an attempt left on its machine; no output is brought anywhere."""

    attempt: int
    machine: int


@message
class Drop:
    """An attempt that another has taken over from is over, and left nothing to clean up."""

    attempt: int


@message
class Return:
    """A migration is off: the task belongs to its old attempt again, the new one is given up."""

    attempt: int
    """The old one."""


@message
class Probe:
    """Ask about an attempt (``progress``, ``job``) or a machine (``machine``, ``access``).

    ``reattach``: watch an attempt's job anew because its job manager is gone (S3 section 5). If the job is
    gone too, the world answers with Ended.
    """

    of: str
    attempt: int | None = None
    machine: int | None = None


@message
class Discover:
    """Ask the information service which machines there are."""


@message
class Fetch:
    """Ask a machine for its dynamic state."""

    machine: int


@message
class Replan:
    """Plan what remains of a run again. The world answers with PlanReady when it is done."""

    run: int
    version: int
    """The run's version: what the plan will be computed on."""
    reason: str = ""


@message
class SetTimer:
    """Send TimerFired at a time; a timer of the same name is replaced."""

    timer: str
    at_s: float


@message
class Settle:
    """What became of a task: its new state where no other command says so."""

    run: int
    task: int
    state: str
    """Name of a TaskState."""
    cause: str = ""
    reason: str = ""
    again: bool = False
    """Whether it runs again because of a loop's next iteration or a lost output, not a failure."""
    keep: bool = False
    """Whether what its attempt left on the machine stays until the next one is prepared."""
    growth: float | None = None
    """After running out of memory or time: what either is multiplied with from now on."""


@message
class Repeat:
    """A loop's body begins its next iteration."""

    run: int
    body: int
    """Number of the body within the run."""
    iteration: int


@message
class Leave:
    """A loop is left: what waits for it goes on."""

    run: int
    body: int
    reason: str = ""


@message
class Finish:
    """A run is over."""

    run: int
    outcome: str
    """``completed``, ``failed``, ``stopped`` (it waits for the user) or ``cancelled``."""
    reason: str = ""


@message
class Note:
    """What was decided and why, for readers of the journal."""

    kind: str
    """``violation``, ``migration``, ``stay``, ``iteration``, ``adopted``, ``refused``, ..."""
    run: int = -1
    task: int = -1
    attempt: int = -1
    machine: int = -1
    value: float | None = None
    text: str = ""


Command = (
    Assign
    | StageIn
    | Start
    | Signal
    | Cancel
    | StageOut
    | CleanUp
    | Drop
    | Return
    | Probe
    | Discover
    | Fetch
    | Replan
    | SetTimer
    | Settle
    | Repeat
    | Leave
    | Finish
    | Note
)
