"""Commands: what the engine tells a world to do. Each is a plain record, so that a journal can hold it.

Every command is idempotent: it names the attempt and the stage, and a world that gets it twice does it once.
``Assign``, ``Drop``, ``Return``, ``Settle``, ``Repeat``, ``Leave``, ``Finish`` and ``Note`` ask nothing of a
world: they record what was decided, so that the state can be rebuilt from a journal without deciding again.
"""

from __future__ import annotations

from weft.message import message

__all__ = [
    "Assign",
    "Cancel",
    "CleanUp",
    "Command",
    "Discover",
    "Drop",
    "Fetch",
    "Finish",
    "Leave",
    "Note",
    "Parcel",
    "Probe",
    "Repeat",
    "Replan",
    "Return",
    "SetTimer",
    "Settle",
    "Signal",
    "StageIn",
    "StageOut",
    "Start",
]


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
