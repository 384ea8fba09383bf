"""States of tasks and attempts, the legal transitions between them, and the other enumerations of the engine.

``TRANSITIONS`` lists all legal changes of a task's state (docs/papers/unified.md, section 2); any other
change is a bug and raises IllegalTransition.
"""

from __future__ import annotations

import enum
import math

from weft.records import dataclass


class TaskState(enum.IntEnum):
    """The state of a task."""

    WAITING = 0
    """Some predecessor has not ended."""
    READY = 1
    """All predecessors have ended; the task has no machine yet."""
    SCHEDULED = 2
    """Assigned to a machine; waits for data, predecessors or nodes."""
    PROLOG = 3
    """Its files are being copied to the machine."""
    SUBMITTED = 4
    """The start command was sent to the machine; the start is not confirmed."""
    RUNNING = 5
    """Its program runs."""
    EPILOG = 6
    """Its outputs are being copied to their targets."""
    COMPLETED = 7
    """Succeeded in the current iteration of its loops."""
    MIGRATING = 8
    """Its old attempt is being ended, and a new attempt is prepared on another machine."""
    SUSPENDED = 9
    """Suspended by the machine's own scheduler."""
    HELD = 10
    """Held by the user or the policy."""
    STOPPED = 11
    """Failed; waits for the user to resume it."""
    FAILED = 12
    """Failed permanently."""
    CANCELLED = 13
    """Cancelled with its run or because a predecessor failed."""
    SKIPPED = 14
    """The task is left out, because a condition on a path to it was false."""


_S = TaskState

_RETURNED = (_S.READY, _S.WAITING, _S.HELD, _S.STOPPED, _S.FAILED, _S.CANCELLED)
"""Possible states after an attempt has ended without completing the task."""
_STARTED = (_S.EPILOG, _S.COMPLETED, _S.MIGRATING, _S.SUSPENDED, *_RETURNED)
"""Possible states after a start command was sent."""
_ASSIGNED = (_S.SUBMITTED, _S.RUNNING, _S.COMPLETED, _S.MIGRATING, _S.SKIPPED, *_RETURNED)
"""Possible states after an assignment."""

TRANSITIONS: dict[int, frozenset[TaskState]] = {
    state: frozenset(following)
    for state, following in {
        _S.WAITING: (_S.READY, _S.SCHEDULED, _S.COMPLETED, _S.SKIPPED, _S.HELD, _S.CANCELLED),
        _S.READY: (_S.WAITING, _S.SCHEDULED, _S.COMPLETED, _S.SKIPPED, _S.HELD, _S.FAILED, _S.CANCELLED),
        _S.SCHEDULED: (_S.PROLOG, *_ASSIGNED),
        _S.PROLOG: (_S.SCHEDULED, *_ASSIGNED),
        _S.SUBMITTED: (_S.RUNNING, *_STARTED),
        _S.RUNNING: (_S.SUBMITTED, *_STARTED),
        _S.EPILOG: (_S.COMPLETED, *_RETURNED),
        _S.MIGRATING: (
            *(_S.SCHEDULED, _S.PROLOG, _S.SUBMITTED, _S.RUNNING, _S.SUSPENDED, _S.EPILOG, _S.COMPLETED),
            *_RETURNED,
        ),
        _S.SUSPENDED: (_S.RUNNING, _S.MIGRATING, _S.EPILOG, _S.COMPLETED, *_RETURNED),
        _S.HELD: (_S.READY, _S.WAITING, _S.CANCELLED),
        _S.STOPPED: (_S.READY, _S.WAITING, _S.CANCELLED),
        _S.COMPLETED: (_S.WAITING, _S.READY, _S.FAILED),
        _S.SKIPPED: (_S.WAITING, _S.READY),
        _S.FAILED: (_S.READY, _S.WAITING),
        _S.CANCELLED: (),
    }.items()
}
"""The possible next states of each state.

A task leaves COMPLETED and SKIPPED when a loop starts its next iteration or the outputs of the task are
needed again, and FAILED when the user resumes the run. The last task of a loop that did not converge goes
from COMPLETED to FAILED.
"""

STATES = {state.name: state for state in TaskState}
"""Task states by name."""

FINAL = frozenset({_S.COMPLETED, _S.SKIPPED, _S.FAILED, _S.CANCELLED, _S.STOPPED})
"""States of a task that has ended; only a loop, a lost output or a user can make the task run again."""

ACTIVE = frozenset({_S.SCHEDULED, _S.PROLOG, _S.SUBMITTED, _S.RUNNING, _S.EPILOG, _S.MIGRATING, _S.SUSPENDED})
"""States of a task that has a current attempt."""


class Stage(enum.IntEnum):
    """The stage of an attempt."""

    ASSIGNED = 0
    """It has a machine and waits for data, predecessors or nodes."""
    SUBMITTED = 1
    """The start command was sent to the machine."""
    RUNNING = 2
    """Its program runs."""
    ENDED = 3
    """Its program has ended; the engine has not evaluated the result yet."""
    STAGING_OUT = 4
    """Its outputs are being copied to their targets."""
    CLEANING = 5
    """Its files are being removed."""
    OVER = 6
    """Nothing is left to do for it."""


class Cause(enum.StrEnum):
    """The cause of a failure (``weft.workflow.task.CAUSES``); the retry rules depend on it."""

    NONE = ""
    """Not a failure, or to be determined from the exit code."""
    ERROR = "error"
    OUT_OF_MEMORY = "oom"
    TIMEOUT = "timeout"
    PREEMPTED = "preempted"
    LOST = "lost"
    STAGING = "staging"
    CONTRACT = "contract"
    CANCELLED = "cancelled"
    PROLOG = "prolog"
    """The task's own prolog failed, so its program did not start."""
    WRAPPER = "wrapper"
    """The task's own wrapper failed, or ended without running the command."""
    EPILOG = "epilog"
    """The task's own epilog failed after its program had succeeded."""


class RunOutcome(enum.StrEnum):
    """How a run ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"
    """It waits for the user to resume failed tasks."""
    CANCELLED = "cancelled"


class MigrationReason(enum.StrEnum):
    """Why an attempt leaves its machine (adaptive-jobs.md, section 1); a policy may state another reason."""

    PERFORMANCE = "performance"
    BETTER_MACHINE = "better-machine"
    SUSPENSION = "suspension"
    WAITING = "waiting"
    SELF_MIGRATION = "self-migration"
    FAILURE = "failure"
    USER = "user"


MANDATORY_REASONS = frozenset(
    {
        MigrationReason.SELF_MIGRATION,
        MigrationReason.SUSPENSION,
        MigrationReason.WAITING,
        MigrationReason.USER,
    }
)
"""Reasons for which an attempt leaves its machine even if no other machine is free.

``performance`` and ``better-machine`` are optional reasons; ``failure`` and ``preempted`` are handled in
``reactions/failures``.
"""


UNKNOWN_SHARE = 1e-6
"""Share of the work in restart files if the program has not reported its progress.

It marks that restart files exist. The work that they save is unknown, so the whole estimate applies to the
next attempt.
"""


def describe_restart(share: float) -> str:
    """Return a text that says from where an attempt continues; "": it starts from the beginning.

    ``share``: share of the work in the restart files.
    """
    if share > UNKNOWN_SHARE:
        return f"from {share:.0%} of its work"
    return "from its restart files" if share > 0.0 else ""


class ProbeTarget(enum.StrEnum):
    """The subject of a probe."""

    PROGRESS = "progress"
    """The progress of an attempt."""
    JOB = "job"
    """Whether the job manager of an attempt (on real machines: its runner) answers."""
    MACHINE = "machine"
    """Whether a machine answers (the gatekeeper of docs/papers/adaptive-jobs.md)."""
    ACCESS = "access"
    """Whether a machine grants access."""
    REATTACH = "reattach"
    """Attach a new job manager to an attempt; if the job does not exist, the answer is Ended."""


class RequestKind(enum.StrEnum):
    """What a user requests for a task or a run."""

    CANCEL = "cancel"
    HOLD = "hold"
    RELEASE = "release"
    MIGRATE = "migrate"
    RESUME = "resume"


class Admission(enum.StrEnum):
    """Whether the user lets tasks start on a machine."""

    OPEN = "open"
    DRAINED = "drained"
    """No task starts on the machine; running tasks end there."""
    REMOVED = "removed"
    """No task starts on the machine, and running tasks move to other machines."""
    ABSENT = "absent"
    """The machine joins later: it is part of the journal's platform, but not yet of the execution."""


class SignalKind(enum.StrEnum):
    """A signal to the program of an attempt."""

    CHECKPOINT = "checkpoint"
    SUSPEND = "suspend"
    RESUME = "resume"


class TimerKind(enum.StrEnum):
    """The purpose of a timer; some kinds exist once per machine, run or attempt."""

    WATCH = "watch"
    """Poll the progress of attempts with a contract."""
    BETTER = "better"
    """Search for better machines for running attempts."""
    LADDER = "ladder"
    """Probe whether jobs and machines answer."""
    SELECT = "select"
    """Send the next queries to machines."""
    REPLAN = "replan"
    """Request a plan; per run."""
    TURN = "turn"
    """Start attempts from the queue of a machine after a planned start has passed; per machine."""
    SERVE = "serve"
    """Start attempts from the queue of a machine after all events of this time are handled; per machine."""
    SUSPENDED = "suspended"
    """Migrate an attempt that was suspended for too long; per attempt."""
    STAGE_OUT = "stage-out"
    """Copy the outputs of an attempt again; per attempt."""
    WAITING = "waiting"
    """Migrate an attempt that was in a machine's own queue for too long; per attempt."""
    ASK = "ask"
    """Run those selector programs again that have accepted no machine."""

    def name_of(self, number: int) -> str:
        """Return the name of the timer of this kind for a machine, run or attempt number."""
        return f"{self}:{number}"

    @classmethod
    def parse(cls, name: str) -> tuple[TimerKind, int]:
        """Return the kind and the number in the name of a timer; the number is -1 if the name has none."""
        kind, _, number = name.partition(":")
        return cls(kind), int(number) if number else -1


# Until Python 3.12 reading a member from its class takes much longer than reading a global name.
_ENDED = Stage.ENDED

Demand = tuple[tuple[str, float], ...]
"""Names and amounts of countable resources; the order of the names may differ between workflows."""


def format_counters(counters: tuple[int, ...]) -> str:
    """Return the iterations of nested loops, outermost first, as text: ``2.1``."""
    return ".".join(map(str, counters))


@dataclass(slots=True)
class Attempt:
    """One attempt to run a task on a machine: its placement, stage, estimates and times."""

    number: int
    run: int
    task: int
    iteration: int
    machine: int
    nodes: int
    count: int
    reserve: bool
    order: float | None
    replaces: int | None
    restart_from: float
    seconds: float
    """Estimated seconds of the remaining work at nominal speed."""
    assigned_s: float
    demand: Demand = ()
    counters: tuple[int, ...] = ()
    """Iterations of all loops around its task, outermost first."""
    stage: Stage = Stage.ASSIGNED
    holds: bool = False
    """Whether it holds nodes of the machine."""
    queued: bool = False
    """Whether it is in its machine's queue."""
    parts: int = 0
    """Number of its data requests (StageIn commands)."""
    staging: int = 0
    """Number of its data requests that are not answered yet."""
    sent_for: frozenset[int] = frozenset()
    """The predecessors whose data were requested."""
    staged_in: bool = False
    """Whether data were requested for the attempt, so that its files must be removed in the end."""
    tries: int = 0
    """Number of the attempt's start among the starts of the task in this iteration, from 1; 0: no start."""
    started_s: float | None = None
    ended_s: float | None = None
    expected_end_s: float = 0.0
    service_from_s: float = 0.0
    """On a time-shared machine: ``MachineState.service_s`` when the program started."""
    work_done: float | None = None
    checkpoint: float = 0.0
    """Share of the work in its last restart files."""
    last_iteration_s: float | None = None
    all_iterations: int | None = None
    """Total iterations of its application; None: unknown."""
    reported_s: float | None = None
    """Time of the last progress report; if the report has no age, the time of the event that reported it."""
    reports_every_s: float | None = None
    """Longest time between two progress reports of the program; None: unknown."""
    dated: bool = False
    """Whether ``reported_s`` is the time at which the program reported, not the time of the event."""
    probed_s: float | None = None
    """Time of the last probe."""
    stage_failures: int = 0
    """How often its outputs could not be copied."""
    suspended_since_s: float | None = None
    silent_s: float = 0.0
    """Seconds since its start for which its host did not answer, without a silence that continues."""
    ratio: float | None = None
    violating: bool = False
    """Whether it violates its contract."""
    cancelled: str = ""
    """Why it was cancelled; "": it was not."""
    left_for: str = ""
    """Why the task leaves the machine while the files of this attempt are kept; "": no files are kept."""
    replaced_by: int | None = None
    awaited_machine: int | None = None
    """Machine to which it migrates when ``awaited_count`` nodes are free there; None: it does not wait."""
    awaited_count: int = 1
    reason: str = ""
    slow_machine: int | None = None
    """Machine that its task left because it was too slow there; None: it did not."""

    @property
    def turn(self) -> tuple[float, int]:
        """Return the attempt's sort key in the machine's queue: (order, number)."""
        return (math.inf if self.order is None else self.order, self.number)

    @property
    def live(self) -> bool:
        """Return whether events about its program may still arrive."""
        return self.stage < _ENDED
