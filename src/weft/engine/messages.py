"""Events and commands of the engine: plain records that a journal can store.

A backend reports facts as events and makes no decisions. Unknown values (an exit code that was never written,
progress that is not measured) are None. A task is identified by (run, task index), an attempt by its number.

Every command is idempotent: it names the attempt and the stage, and a backend that gets it twice executes it
once. No backend executes ``Assign`` and the commands from ``CloseAttempt`` on. They change the state or
record a decision, so that the state can be rebuilt from a journal without deciding again. ``TYPE_NAMES``
holds the names under which journals store the messages.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping
from dataclasses import field

from weft.engine.states import Admission, Cause, ProbeTarget, RequestKind, RunOutcome, SignalKind, TaskState
from weft.expressions import Value
from weft.records import message

_Message = typing.TypeVar("_Message")

TYPE_NAMES: dict[type, str] = {}
"""The name under which journals store each message. Never change a name; add a conversion instead."""


@typing.dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def stored_as(name: str) -> Callable[[type[_Message]], type[_Message]]:
    """Return a decorator that makes a class a message, which journals store under this name."""

    def register(kind: type[_Message]) -> type[_Message]:
        made = message(kind)
        TYPE_NAMES[made] = name
        return made

    return register


@message
class _OnMachine:
    attempt: int
    machine: int


@message
class _OfAttempt:
    run: int
    task: int
    attempt: int


# Events


@stored_as("Submitted")
class Submitted:
    """A workflow was submitted, which creates a new run."""

    run: int
    """Index of the run: runs are numbered 0, 1, 2, ... in order of arrival."""
    workflow: str
    """Key of the workflow in the engine's library."""
    owner: str = ""
    priority: float = 1.0
    """Weight of the run relative to other runs, for policies that order workflows."""
    results: str = ""
    """Folder of the project that gets the outputs of the run; "": the folder of the workflow."""


@stored_as("Started")
class Started:
    """The program of an attempt has started."""

    attempt: int


@stored_as("Ended")
class Ended:
    """The program of an attempt has ended, or the attempt was cancelled or lost before its program ran."""

    attempt: int
    exit_code: int | None = 0
    """Exit code of the program; None: there is no exit code (killed, cancelled, lost)."""
    cause: Cause = Cause.NONE
    """Cause of a failure that the backend has determined; NONE: the engine derives it from the exit code."""
    result: Mapping[str, Value] = field(default_factory=dict)
    """Content of the result file of the attempt."""
    work_done: float | None = None
    """Share of the whole task's work that is done; None: unknown (after success all work counts as done)."""
    story: str = ""
    """Details for the user, such as the missing output or the signal that ended the program."""
    taken_over: int | None = None
    """Number of the earlier execution whose outputs are reused; None: the program ran."""
    ran_s: float | None = None
    """Seconds that the program ran, measured on the machine; None: not measured.

    If it is None, the seconds between Started and this event are used.
    """
    late_s: float = 0.0
    """Seconds between the end of the program and this event, without an engine or a connection."""
    lasting: bool = False
    """Whether a retry is pointless, because inputs do not exist or are refused."""
    strays: int = 0
    """Number of processes that outlived the program when it ended by itself; weft ended them."""
    lost: tuple[int, ...] = ()
    """Lost machines that hold inputs of the attempt, so that its program could not be started."""


@stored_as("StagedIn")
class StagedIn:
    """The data of a StageIn command have arrived, or copying them has failed."""

    attempt: int
    part: int
    """Number of the StageIn command within the attempt, from 0."""
    problem: str = ""
    """Why copying or the prolog failed; "": success."""
    moved_bytes: float | None = None
    """Bytes that were copied, without shared files that the host already had; None: unknown."""
    lost: tuple[int, ...] = ()
    """Machines that hold requested data but do not answer."""
    lasting: bool = False
    """Whether a retry is pointless, because a file does not exist."""
    taken_over: int | None = None
    """For a transfer, the number of the earlier execution whose copy is reused; None: the file was copied."""
    module: str = ""
    """``prolog`` if ``problem`` is that the task's own prolog failed; "": the data could not be copied."""
    route: str = ""
    """How outputs on the disks of other hosts were copied: directly, or through this computer and why."""


@stored_as("StagedOut")
class StagedOut:
    """The outputs of an attempt were copied to their targets, or copying them has failed."""

    attempt: int
    problem: str = ""
    lasting: bool = False
    """Whether a retry is pointless, because the name of a target is refused."""


@stored_as("CleanedUp")
class CleanedUp:
    """An attempt's directory was removed, or its removal has failed."""

    attempt: int
    problem: str = ""
    module: str = ""
    """``epilog`` if the task's own epilog failed in the clean-up; "": it did not fail."""
    run: int = -1
    task: int = -1
    """Run and task of the attempt if the task's own epilog failed; -1: not stated."""


@stored_as("Progressed")
class Progressed:
    """Progress of a running attempt: the answer to a probe, or a report of the application."""

    attempt: int
    work_done: float | None = None
    """Share of the whole task's work that is done, including the work of earlier attempts."""
    last_iteration_s: float | None = None
    """Duration of the application's last iteration (performance profile of docs/papers/adaptive-jobs.md)."""
    iterations: int | None = None
    """Number of iterations that the application has done."""
    all_iterations: int | None = None
    """Number of iterations that the application will do in total."""
    degraded: str = ""
    """Text in which the application or its evaluator reports poor performance; "": no such report."""
    age_s: float | None = None
    """Seconds since the program reported ``work_done``; None: the value is current."""
    every_s: float | None = None
    """Longest time between two reports of the program so far; None: unknown."""
    problem: str = ""
    """Why the task's evaluator program failed; "": it did not fail, or the task has no evaluator."""
    silent_s: float = 0.0
    """Seconds since the last sign of life of the host, for which nothing is known about the program."""


@stored_as("Checkpointed")
class Checkpointed:
    """An attempt has written its restart files."""

    attempt: int
    work_done: float | None
    """Share of the whole task's work that the restart files hold; None: they could not be kept."""
    problem: str = ""
    """Why the restart files could not be kept, or not copied to the store of the task; "": no problem."""


@stored_as("JobQueued")
class JobQueued:
    """A batch system has accepted the job in which the program of an attempt runs.

    After StartDelayed, the program counts as started.
    """

    attempt: int
    job: str
    """Number of the job in the batch system."""


@stored_as("StartDelayed")
class StartDelayed:
    """The program of an attempt has not started: its job waits to be submitted, or in a batch queue.

    JobQueued, Started or Ended follows when the wait is over.
    """

    attempt: int
    reason: str
    """Why the job waits, for the user; jobs that wait for the same reason have the same text."""


@stored_as("Suspended")
class Suspended:
    """The machine's own scheduler has suspended an attempt."""

    attempt: int


@stored_as("Resumed")
class Resumed:
    """The machine's own scheduler has resumed an attempt."""

    attempt: int


@stored_as("RequirementsChanged")
class RequirementsChanged:
    """An application has changed its requirements; a field that is None has not changed.

    See docs/papers/adaptive-jobs.md, section 2.
    """

    attempt: int
    requirements: str | None = None
    rank: str | None = None
    mandatory: bool = True
    """Whether the attempt must leave a machine that does not meet the requirements."""
    problem: str = ""
    """Text of the application that is ignored because it cannot be parsed; "": no such text."""


@stored_as("MachineChanged")
class MachineChanged:
    """A machine went down, came back, joined, or changed speed or admission; None: value unchanged."""

    machine: int
    up: bool | None = None
    speed_factor: float | None = None
    """Speed relative to the platform's description, for example 0.25 with three competing processes."""
    reason: str = ""
    """Why the machine went down, for the user; "joined" for a machine that joins."""
    admission: Admission | None = None
    """Whether the user lets the machine take tasks; OPEN for a machine that joins."""
    lasting: bool = False
    """Whether the machine has never worked and cannot recover by itself, for example if a path is wrong."""
    started: tuple[int, ...] | None = None
    """Of a lost machine: the attempts whose programs the backend has started. All other attempts that are on
    the machine have not started, although a Start command was sent. None: every Start command was carried
    out.
    """


@stored_as("ContactChanged")
class ContactChanged:
    """The host of a machine has stopped answering, or answers again; a repeated event updates the reason.

    While it does not answer, the state of the programs on it is unknown.
    """

    machine: int
    answers: bool
    silent_s: float = 0.0
    """Seconds since the last sign of life of the host; if it answers again: since the one before."""
    lost_in_s: float | None = None
    """Seconds after which the machine is reported as lost if the host does not answer; None: never."""
    reason: str = ""


@stored_as("Answered")
class ProbeAnswered:
    """The result of a probe; ``alive`` says whether the probe succeeded.

    See docs/papers/adaptive-jobs.md, section 5.
    """

    of: ProbeTarget
    alive: bool
    attempt: int | None = None
    machine: int | None = None


@stored_as("Discovered")
class Discovered:
    """The answer to Discover: the machines that the information service lists."""

    machines: tuple[int, ...]


@stored_as("Fetched")
class Fetched:
    """The dynamic state of a machine: an answer to Fetch. A field that is None is unknown.

    A backend that measures by itself (``RunSettings.pushes_state``) sends this event again after each
    noticeable change: if the load differs from the last reported one by a quarter of a core and a tenth of
    the cores, or free memory or disk by a tenth and 64 MB.
    """

    machine: int
    speed_factor: float | None = None
    """Estimated speed for a task, relative to the platform's description."""
    free_nodes: int | None = None
    load: float | None = None
    """Number of cores that programs other than weft's tasks keep busy or wait for."""
    free_memory_bytes: float | None = None
    free_disk_bytes: float | None = None


@stored_as("Selected")
class MachinesSelected:
    """The answer to SelectMachines."""

    run: int
    task: int
    machines: tuple[int, ...] = ()
    """The machines that the selector program accepts, best first."""
    problem: str = ""
    """Why the program gave no answer; ``machines`` then holds the candidates in the engine's own order."""


@stored_as("PlanReady")
class PlanReady:
    """The answer to Replan. Attempts that have started since the request stay on their machines."""

    plan: str
    """Content hash of the plan, which is stored with the journal; "": there is no plan."""
    run: int
    version: int
    """The version of the run (``RunState.version``) at the time of the request."""
    steps: int = 0
    problem: str = ""


@stored_as("TimerFired")
class TimerFired:
    """A timer is due."""

    timer: str
    """Name of the timer, as in SetTimer."""


@stored_as("TasksAdded")
class TasksAdded:
    """Files whose lines are the values of a sweep now exist, so tasks are added to the run's graph."""

    run: int
    lines: Mapping[str, tuple[str, ...]]
    """The lines of each file, by file name."""


@stored_as("Stalled")
class RunStalled:
    """No task of a run can continue, so the execution ends; the run is unfinished and can be resumed."""

    run: int
    reason: str
    outcome: RunOutcome = RunOutcome.FAILED


@stored_as("Asked")
class RequestReceived:
    """A request of a user."""

    what: RequestKind
    run: int
    task: int | None = None
    """Index of the task; None: the request is about the whole run."""
    machine: int | None = None


# Commands


@stored_as("Assign")
class Assign:
    """Assign a new attempt of a task to a machine."""

    attempt: int
    run: int
    task: int
    machine: int
    nodes: int
    """Number of nodes that the attempt occupies; it can exceed ``count`` on a host whose nodes are cores."""
    count: int
    """Node count of the mode."""
    reserve: bool = True
    """Whether nodes are reserved for the attempt now; otherwise it joins the machine's queue."""
    order: float | None = None
    """Sort key in the queue, lower first; None: after all attempts that have a sort key."""
    replaces: int | None = None
    """The old attempt if this assignment is a migration; None: not a migration."""
    restart_from: float = 0.0
    """Share of the task's work that is skipped because the attempt starts from restart files."""
    reason: str = ""
    """The reason of the decision, in a few words."""


@message
class Parcel:
    """Data to copy to an attempt's machine."""

    source: int
    """The machine that has the data; -1: the user's storage."""
    size_bytes: float = 0.0
    files: float = 0.0
    fixed_s: float = 0.0
    """Transfer time between any two machines, for task graphs that state seconds instead of bytes."""
    task: int = -1
    """The task that produced the data; -1: no task produced them."""
    name: str = ""
    shared: bool = False
    """Whether the file stays on the host for later attempts."""


@stored_as("StageIn")
class StageIn:
    """Copy data to an attempt's machine (prolog)."""

    attempt: int
    part: int
    machine: int
    parcels: tuple[Parcel, ...]
    iteration: int = 1
    counters: tuple[int, ...] = ()
    """Iterations of all loops around the task, outermost first; (): the task is in one loop at most."""
    prolog: int = 0
    """Number of the start (``Start.tries``) for which the task's own prolog runs after the data have arrived.

    0: the prolog does not run. This command runs the prolog only for the new attempt of a migration, because
    the old attempt is cleaned up after the prolog. For other attempts Start runs it.
    """
    restart_from: float = 0.0
    """If the prolog runs: share of the work in the restart files, which are copied first; 0: no files."""


@stored_as("Start")
class Start:
    """Run the program of an attempt."""

    attempt: int
    run: int
    task: int
    machine: int
    nodes: int
    count: int
    iteration: int = 1
    """Iteration of the innermost loop."""
    counters: tuple[int, ...] = ()
    """Iterations of all loops around the task, outermost first; (): the task is in one loop at most."""
    tries: int = 1
    """Number of this start among the starts of the task in this iteration, from 1."""
    restart_from: float = 0.0
    time_limit_s: float | None = None
    memory_bytes: float | None = None


@stored_as("Signal")
class Signal:
    """Send a signal to the program of an attempt."""

    attempt: int
    what: SignalKind


@stored_as("Cancel")
class Cancel(_OnMachine):
    """End an attempt in any stage. The backend answers with Ended and cause CANCELLED."""

    reason: str = ""


SUBMITTED = "submitted"
"""The reason in the first Replan command of a run."""

STOPPED = "stopped"
"""The reason in a Cancel command for an attempt of a stopped run.

The outputs of the attempt are not needed.
"""


@stored_as("StageOut")
class StageOut(_OnMachine):
    """Copy an attempt's outputs to their targets (epilog)."""


@stored_as("CleanUp")
class CleanUp(_OnMachine):
    """Remove an attempt's files from its machine; no output is copied."""


@stored_as("Probe")
class Probe:
    """Query an attempt or a machine. The answer is Progressed or ProbeAnswered."""

    of: ProbeTarget
    attempt: int | None = None
    machine: int | None = None


@stored_as("Discover")
class Discover:
    """Ask the information service which machines it lists. The answer is Discovered."""


@stored_as("Fetch")
class Fetch:
    """Query the dynamic state of a machine. The answer is Fetched."""

    machine: int
    every_s: float | None = None
    """Interval in seconds at which the backend repeats the measurement by itself; None: it measures once."""


@message
class SelectionCandidate:
    """A machine that a selector program may choose, with the estimates for the task on this machine."""

    machine: int
    count: int
    """The node count with the earliest estimated end of the task."""
    seconds: float
    ready_s: float
    """Estimated seconds until the input data of the task are on the machine."""
    wait_s: float
    """Estimated seconds until nodes are free."""
    free_nodes: int
    speed_factor: float
    rank: float | None = None


@stored_as("Select")
class SelectMachines:
    """Ask the selector program of a task for the order of its candidate machines."""

    run: int
    task: int
    candidates: tuple[SelectionCandidate, ...] = ()
    """The candidate machines, sorted by rank, then by estimated end."""


@stored_as("Replan")
class Replan:
    """Plan the rest of a run. The answer is PlanReady."""

    run: int
    version: int
    """The version of the run (``RunState.version``) on which the plan is based."""
    reason: str = ""


@stored_as("SetTimer")
class SetTimer:
    """Request a TimerFired event at time ``at_s``; a timer of the same name is replaced."""

    timer: str
    """Name of the timer: a TimerKind, such as ``watch``.

    If timers of this kind exist per machine, run or attempt, a colon and its number follow.
    """
    at_s: float


@stored_as("Drop")
class CloseAttempt:
    """Close a replaced attempt that left no files."""

    attempt: int


@stored_as("Return")
class RevertMigration:
    """Cancel a migration: the old attempt becomes the current one again, and the new attempt is closed."""

    attempt: int
    """The old attempt."""


@stored_as("Settle")
class Settle:
    """Set the state of a task if no other command or event implies the new state."""

    run: int
    task: int
    state: TaskState
    cause: Cause = Cause.NONE
    reason: str = ""
    again: bool = False
    """Whether the task runs again for another reason than a failure (loop, lost output, new plan)."""
    keep: bool = False
    """Whether the files of the task's current attempt are kept until its next attempt is prepared."""
    growth: float | None = None
    """New factor for the memory or time limit that the attempt exceeded; None: the factors are unchanged."""
    avoid: bool = False
    """Whether the task avoids the machine of this attempt from now on, whatever the cause of the failure.

    The task uses the machine again only if no other machine is possible.
    """
    fresh: bool = False
    """Whether the next attempt does not use the restart files."""


@stored_as("Repeat")
class RepeatLoop:
    """Start the next iteration of a loop body."""

    run: int
    body: int
    """Number of the body within the run."""
    iteration: int


@stored_as("Leave")
class EndLoop:
    """End a loop; the tasks after it may then start."""

    run: int
    body: int
    reason: str = ""


@stored_as("Finish")
class FinishRun:
    """End a run."""

    run: int
    outcome: RunOutcome
    reason: str = ""


@stored_as("StopRun")
class StopRun:
    """Start no further tasks of a run."""

    run: int
    reason: str = ""


@stored_as("EstimateSpeed")
class EstimateSpeed:
    """Set the estimated speed of a machine, either from the progress of an attempt or back to nominal."""

    machine: int
    speed_factor: float
    attempt: int = -1
    reason: str = ""


@stored_as("MarkMachine")
class MarkMachine:
    """Set whether a machine is up, as probes have shown."""

    machine: int
    up: bool
    reason: str = ""


@stored_as("AbandonAttempt")
class AbandonAttempt(_OnMachine):
    """Record an attempt on a machine that no longer answers; it is cancelled when the machine is back."""


@stored_as("LoseAttempt")
class LoseAttempt(_OnMachine):
    """End an attempt whose machine was lost while its task migrated to another machine."""


@stored_as("CountRequeue")
class CountRequeue(_OfAttempt):
    """Set how often in a row a task has requested to be run again without making progress."""

    times: int


@stored_as("MarkViolating")
class MarkViolating(_OfAttempt):
    """Set whether an attempt violates its contract."""

    violating: bool = True
    ratio: float | None = None
    """Projected time / predicted time - 1; None: not measured."""


@stored_as("Unbind")
class Unbind:
    """Remove the binding of a task's abstract machine to a machine."""

    run: int
    task: int
    machine: int
    reason: str = ""


@stored_as("AdoptPlan")
class AdoptPlan:
    """Record that a run follows a new plan."""

    run: int
    plan: str
    finish_s: float
    """Planned end of the run, on the engine's clock."""


@stored_as("Refuse")
class Refuse:
    """Record that a request or a plan was refused."""

    run: int
    reason: str = ""
    task: int = -1
    machine: int = -1


@stored_as("ReportCondition")
class ReportCondition:
    """Record that a condition cannot be evaluated and therefore counts as false."""

    run: int
    reason: str = ""


@stored_as("ReportViolation")
class ReportViolation(_OfAttempt):
    """Record a violated contract."""

    machine: int
    ratio: float | None = None
    """Projected time / predicted time - 1; None: the application reported the violation."""
    reason: str = ""


@stored_as("AwaitMachine")
class AwaitMachine(_OfAttempt):
    """Keep the nodes that become free on a machine for a running attempt, which then migrates there."""

    machine: int | None = None
    """The machine; None: the attempt waits no longer."""
    count: int = 1
    """Node count of the mode on that machine."""
    reason: str = ""


@stored_as("KeepAttempt")
class KeepAttempt(_OfAttempt):
    """Record why an attempt does not migrate."""

    reason: str = ""


@stored_as("PostponeStaging")
class PostponeStaging(_OfAttempt):
    """Record that the outputs of an attempt could not be copied and that the copy will be tried again."""

    reason: str = ""


@stored_as("PostponeReplan")
class PostponeReplan:
    """Request another plan as soon as the plan that is being made, which lacks a change, has arrived."""

    run: int
    reason: str = ""


@stored_as("IgnoreRequirement")
class IgnoreRequirement:
    """Record that a requirement of an application is ignored because it cannot be evaluated."""

    run: int
    task: int
    reason: str = ""


@stored_as("ReportModule")
class ReportModule(_OfAttempt):
    """Record that a task's own module failed without consequences for the task."""

    module: str
    """``evaluator``, ``selector``, ``epilog``, or ``checkpoint`` for the copies of restart files."""
    reason: str = ""


@stored_as("ReattachJob")
class ReattachJob(_OnMachine):
    """Record that a new job manager (on real machines: the runner) is attached to an attempt."""


@stored_as("ReportTargetLoss")
class ReportTargetLoss(_OfAttempt):
    """Record that the new machine of a migration was lost; ``attempt`` is the old attempt."""

    machine: int
    reason: str = ""


@stored_as("ReportLateCancel")
class ReportLateCancel(_OfAttempt):
    """Record that a migration came too late, because the task had already ended."""

    reason: str = ""


Event = (
    Submitted
    | Started
    | Ended
    | StagedIn
    | StagedOut
    | CleanedUp
    | Progressed
    | Checkpointed
    | JobQueued
    | StartDelayed
    | Suspended
    | Resumed
    | RequirementsChanged
    | MachineChanged
    | ContactChanged
    | ProbeAnswered
    | Discovered
    | Fetched
    | MachinesSelected
    | PlanReady
    | TimerFired
    | TasksAdded
    | RunStalled
    | RequestReceived
)

Record = (
    StopRun
    | EstimateSpeed
    | MarkMachine
    | AbandonAttempt
    | LoseAttempt
    | CountRequeue
    | MarkViolating
    | Unbind
    | AdoptPlan
    | Refuse
    | ReportCondition
    | ReportViolation
    | AwaitMachine
    | KeepAttempt
    | PostponeStaging
    | PostponeReplan
    | IgnoreRequirement
    | ReportModule
    | ReattachJob
    | ReportTargetLoss
    | ReportLateCancel
)
"""Commands that no backend executes.

They record an observation or a decision, or change only the engine's state.
"""

RECORDS: frozenset[type] = frozenset(typing.get_args(Record))

Command = (
    Assign
    | StageIn
    | Start
    | Signal
    | Cancel
    | StageOut
    | CleanUp
    | Probe
    | Discover
    | Fetch
    | SelectMachines
    | Replan
    | SetTimer
    | CloseAttempt
    | RevertMigration
    | Settle
    | RepeatLoop
    | EndLoop
    | FinishRun
    | Record
)
