"""The history of an execution: its attempts, migrations, failures, runs and machines, from journal entries.

``History`` is the only projection of the journal; status, reports, explanations and simulation results are
derived from it. It combines each entry with the engine's state right after that entry, so the result is the
same during a run and when the journal is read later.

Useful work (invariant I7): the attempts of one task in one iteration are examined from the last to the first.
The completed attempt did all the work after the checkpoint from which it started. The attempt that wrote this
checkpoint did the work between its own start and the checkpoint, and so on. All other work was replicated, or
was lost with a task that never completed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, field, replace
from itertools import takewhile
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from weft.engine import messages
from weft.engine.journal import JournalEntry
from weft.engine.reactions.failures import requests_rerun
from weft.engine.reference_time import TaskExecution, count_epoch, find_reference, planned_alone_s
from weft.engine.state.compiled import LoopState
from weft.engine.state.state import EngineState
from weft.engine.states import (
    FINAL,
    MANDATORY_REASONS,
    Admission,
    Cause,
    RunOutcome,
    TaskState,
    format_counters,
)
from weft.instance.instance import Instance
from weft.records import dataclass
from weft.units import format_seconds
from weft.workflow.task_graph import COMPUTE
from weft.workflow.workflow import Workflow


@dataclass(slots=True, kw_only=True)
class AttemptRecord:
    """One attempt, from assignment to end. Times are in seconds on the engine's clock."""

    number: int
    run: int
    task: str
    iteration: int
    """Iteration of the innermost loop; 1 outside of loops."""
    kind: str
    """Kind of the task (``Task.program``).

    It is the program that a trace states for the task, else the name of the task's description.
    """
    machine: int
    nodes: int
    count: int
    assigned_s: float
    counters: tuple[int, ...] = ()
    """Iterations of all loops around the task, outermost first."""
    reason: str = ""
    """The reason for which the task was assigned to this machine."""
    replaces: int | None = None
    seconds: float = 0.0
    """Estimated seconds of the whole task at the machine's nominal speed."""
    restart_from: float = 0.0
    """Share of the task's work in the restart files from which the attempt started; 0: no restart files."""
    staging_s: float | None = None
    """Time of the first data request; None: no data were requested."""
    staged_s: float | None = None
    """Time at which the last data arrived."""
    submitted_s: float | None = None
    started_s: float | None = None
    ended_s: float | None = None
    suspended_s: float = 0.0
    """Total seconds suspended by the machine's own scheduler."""
    work_done: float | None = None
    """Last known share of the task's work that is done, including work of earlier attempts; None: unknown."""
    checkpoint: float | None = None
    """Share of the task's work in the last restart files of this attempt; None: it wrote no restart files."""
    moved_bytes: float | None = None
    """Bytes copied to the machine before the start; None: no data were requested, or number unknown."""
    ending: str = ""
    """``completed``, ``failed``, ``migrated``, ``cancelled`` or ``withdrawn`` (never ran); "": not ended."""
    cause: str = ""
    """Cause of the failure; "": the attempt did not fail."""
    left_for: str = ""
    """Why the attempt was cancelled or its task left the machine; "": neither happened."""
    useful_share: float = 0.0
    """Share of the task's work that this attempt did and on which the result of the task is based."""
    exit_code: int | None = None
    """Exit code of the program.

    None: the attempt has not ended, or there is no exit code (killed, lost, or stopped to be run again).
    """
    story: str = ""
    """Message of the backend about the end of the program; "": no message."""
    strays: int = 0
    """Number of processes that the program had started and that outlived it; weft ended them."""
    problem: str = ""
    """Why staging failed; "": staging did not fail."""
    measured_s: float | None = None
    """Seconds that the program ran, measured on the machine; None: not measured."""
    speed_factor: float = 1.0
    """Estimated speed of the machine when the program ended, relative to the platform's description."""
    leaving_s: float | None = None
    """Time of the first StageOut command; None: no such command."""
    left_s: float | None = None
    """Time at which the last stage-out ended or failed; None: no stage-out has ended."""
    memory_bytes: float | None = None
    """Memory limit of the program; None: no limit."""
    time_limit_s: float | None = None
    job: str = ""
    """Number of its job in the batch system; "": it has none, or none is known."""
    begun_n: int | None = None
    """Number of the journal entry with the Start command; None: no such command (as for transfers)."""
    completed_n: int | None = None
    """Number of the journal entry in which the attempt completed its task; None: not completed."""
    task_attempt: int = 1
    """Position among the attempts of the task, from 1; attempts in earlier loop iterations count too."""
    reused_from: int | None = None
    """Number of the earlier execution whose outputs are reused; None: no outputs are reused."""
    moved_from: int | None = None
    """For a transfer, the machine from which the file is copied; None: not known yet, or not a transfer."""

    @property
    def is_transfer(self) -> bool:
        """Return whether this is an attempt of a transfer task, which takes no nodes."""
        return self.nodes == 0

    def set_run_time(self, seconds: float, until_s: float) -> None:
        """Set start and end so that they agree with the seconds measured on the machine.

        ``seconds`` is the measured run time, ``until_s`` the time at which the program ended. The clocks of
        machine and engine differ. Therefore the start is never set before the submission, or before the
        assignment if the attempt was not submitted. The end is never set after the recorded end.
        """
        reported_s = until_s if self.ended_s is None else self.ended_s
        earliest_s = self.assigned_s if self.submitted_s is None else self.submitted_s
        self.ended_s = min(reported_s, max(until_s, earliest_s + seconds))
        self.started_s = max(earliest_s, self.ended_s - seconds)

    @property
    def label(self) -> str:
        """Return the task's name and, if a loop was repeated, its iterations: ``solve#3``, ``solve#2.1``."""
        later = any(count > 1 for count in self.counters)
        return f"{self.task}#{format_counters(self.counters)}" if later else self.task

    @property
    def ran_s(self) -> float:
        """Return the seconds that the program ran or, for a transfer, that the copying took; 0: not ended."""
        if self.started_s is None or self.ended_s is None:
            return 0.0
        return self.ended_s - self.started_s

    @property
    def node_seconds(self) -> float:
        """Return the node-seconds that the program used."""
        return self.nodes * self.ran_s

    @property
    def useful_s(self) -> float:
        """Return the part of the run time that was useful work, in seconds."""
        if self.ending == "completed" and self.useful_share > 0:
            return self.ran_s
        if self.useful_share <= 0:
            return 0.0
        done = None if self.work_done is None else self.work_done - self.restart_from
        if done is not None and done > 0:
            return self.ran_s * min(1.0, self.useful_share / done)
        return min(self.ran_s, self.useful_share * self.seconds)

    def as_record(self, machines: tuple[str, ...]) -> dict[str, Any]:
        """Return the attempt as plain data, with the machine's name."""
        record = {name: getattr(self, name) for name in _ATTEMPT_KEYS}
        return record | {
            "machine": machines[self.machine],
            "useful_s": self.useful_s,
            "task_attempt": self.task_attempt,
        }


_ATTEMPT_KEYS = tuple(takewhile(lambda name: name != "exit_code", AttemptRecord.__annotations__))
"""Fields before ``exit_code``, which ``as_record`` includes; only reports show the other fields."""


def describe_strays(count: int) -> str:
    """Return a text that says how many processes of an ended program were still running and were ended."""
    return f"ended {count} {'process' if count == 1 else 'processes'} that the program left behind"


@dataclass(slots=True, kw_only=True)
class MigrationRecord:
    """One migration of a task to another machine (docs/papers/adaptive-jobs.md, section 1).

    A task that has not started (``ran`` is false) is only assigned to another machine.
    """

    at_s: float
    """Time of the decision to migrate; if ``reason`` is ``failure``, the time of the new assignment."""
    run: int
    task: str
    iteration: int
    label: str
    """Name of the task, with its iterations (see ``AttemptRecord.label``)."""
    source: int
    target: int
    reason: str
    """``better-machine``, ``performance``, ``suspension``, ``self-migration``, ``failure``, ``user``, ..."""
    old: int
    new: int
    """Numbers of the attempts before (``old``) and after (``new``) the migration."""
    ran: bool = True
    """Whether the program had started on ``source``."""
    restart_from: float = 0.0
    begun: bool = False
    """Whether a running program is ended because nodes of the target are reserved, or was started there.

    Until then the task only waits for the target, even if files are copied there: a new plan or a loss may
    choose another machine.
    """
    off: bool = False
    """Whether the migration was cancelled: the task ended first, or did not start on the target."""
    off_reason: str = ""
    """Why the migration was cancelled; "" if it was not cancelled."""

    @property
    def happened(self) -> bool:
        """Return whether the task has left for the target, and the migration was not cancelled."""
        return self.begun and not self.off

    def as_record(self, machines: tuple[str, ...]) -> dict[str, Any]:
        """Return the migration as plain data, with the machines' names."""
        return asdict(self) | {"source": machines[self.source], "target": machines[self.target]}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleFailure:
    """A failure of a task's module that does not make the task fail.

    The module is the evaluator, the selector or the epilog; ``checkpoint`` stands for the copying of restart
    files to the store of the task, ``file`` for a file of the program that is ignored because it is invalid.
    """

    run: int
    label: str
    """Name of the task, with its iterations."""
    module: str
    reason: str

    @property
    def text(self) -> str:
        """Return a line about the failure."""
        if self.module == "file":
            return f"{self.label} wrote a file that is {self.reason}"
        what = "store of restart files" if self.module == "checkpoint" else self.module
        return f"{what} of {self.label} failed, the task goes on: {self.reason or 'without a reason'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRetry:
    """The outputs of an attempt could not be copied; the copying is tried again, but not the program."""

    at_s: float
    run: int
    label: str
    """Name of the task, with its iterations."""
    attempt: int
    problem: str
    """Why the outputs could not be copied."""
    reason: str
    """A text that states the problem, the number of the retry and the pause before it."""

    @property
    def text(self) -> str:
        """Return a line about the retry."""
        return f"{self.label}: {self.reason}"

    def as_record(self) -> dict[str, Any]:
        """Return the retry as plain data."""
        record = {key: getattr(self, key) for key in ("at_s", "run", "attempt")}
        return record | {"task": self.label, "problem": self.problem, "text": self.reason}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationRecord:
    """A migration that the user requested begins to wait for nodes of a busy machine, or is called off."""

    at_s: float
    run: int
    label: str
    """Name of the task, with its iterations."""
    attempt: int
    reason: str
    """For which nodes the migration waits, or why it was called off."""
    off: bool
    """Whether the migration was called off."""

    @property
    def text(self) -> str:
        """Return a line about the migration."""
        return f"{self.label}: {self.reason}"

    def as_record(self) -> dict[str, Any]:
        """Return the record as plain data."""
        record = {key: getattr(self, key) for key in ("at_s", "run", "attempt")}
        return record | {"task": self.label, "text": self.reason}


@dataclass(slots=True, kw_only=True)
class StopRecord:
    """A task had to leave its machine while no other machine was free: it waits without a machine."""

    at_s: float
    run: int
    label: str
    """Name of the task, with its iterations."""
    attempt: int
    machine: str
    reason: str
    ran: bool
    """Whether its program had started on the machine."""
    over: bool = False
    """Whether nodes of another machine are the task's, or it has ended; it may be in a queue before."""

    @property
    def text(self) -> str:
        """Return a line about the task."""
        what = "is stopped on" if self.ran else "is withdrawn from"
        return f"{self.label} {what} {self.machine} ({self.reason}) and waits for another machine"


@dataclass(slots=True, kw_only=True)
class HostOutage:
    """A time for which the host of a machine did not answer."""

    since_s: float
    reason: str
    """The last reason that was reported; "": none."""
    until_s: float | None = None
    """Time at which the host answered or the machine was lost; None: the outage continues."""
    is_loss: bool = False
    """Whether the machine was lost by it."""

    def describe(self, now_s: float) -> str:
        """Return for how long the host did not answer, to follow the name of the machine."""
        why = f" ({self.reason})" if self.reason else ""
        passed_s = max(0.0, (now_s if self.until_s is None else self.until_s) - self.since_s)
        then = " and was lost" if self.is_loss else ""
        return f"did not answer for {format_seconds(round(passed_s, 1))}{why}{then}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineChange:
    """A machine did not answer, was lost, came back, joined, or was drained, removed or opened."""

    at_s: float
    machine: int
    text: str
    """What happened, to be shown after the name of the machine: "joined", "is lost: ..."."""
    lost_at_s: float | None = None
    """Time at which the machine counts as lost unless its host answers; None: not announced."""
    outage: HostOutage | None = None
    """The outage that began, has another reason or ended by this; one has several changes."""


@dataclass(slots=True, kw_only=True)
class StartDelay:
    """A time during which jobs on a machine were not submitted, or not started, for one reason."""

    machine: int
    reason: str
    since_s: float
    until_s: float | None = None
    """Time at which the last of the jobs no longer waited; None: some still wait."""
    waiting: set[int] = field(default_factory=set)
    """Attempts whose jobs still wait."""
    attempts: dict[int, int] = field(default_factory=dict)
    """By number of an attempt whose job waits or has waited: its run."""

    def describe(self, machine: str, now_s: float) -> str:
        """Return a text about the jobs that wait, or have waited, on the machine of this name."""
        count = len(self.attempts if self.until_s is not None else self.waiting)
        tasks = "1 task" if count == 1 else f"{count} tasks"
        verb = "waited" if self.until_s is not None else "waits" if count == 1 else "wait"
        until_s = now_s if self.until_s is None else self.until_s
        passed_s = round(until_s - self.since_s)
        passed = f" for {format_seconds(passed_s)}" if passed_s > 0 else ""
        return f"{tasks} {verb} on {machine}{passed}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRecord:
    """The failure of an attempt, or the final failure of a task."""

    at_s: float
    run: int
    task: str
    cause: str
    reason: str
    attempt: int
    """Number of the failed attempt; -1: no attempt failed (for example, a loop did not converge)."""
    for_good: bool
    label: str = ""
    """Name of the task, with its iterations if it is in loops."""
    waits: bool = False
    """Whether the task waits for ``weft resume`` or ``weft release``."""
    reported_by: int = -1
    """Attempt named in the event that reported the failure; -1: the event names no attempt (lost machine)."""
    text: str = ""
    """Message of the backend about the failure; the engine's reason if the event names no attempt."""

    def as_record(self) -> dict[str, Any]:
        """Return the failure as plain data."""
        keys = ("at_s", "run", "task", "cause", "reason", "attempt", "for_good")
        return {key: getattr(self, key) for key in keys}


@dataclass(slots=True, kw_only=True)
class RunSummary:
    """One run, from arrival to end."""

    index: int
    workflow: str
    owner: str
    arrival_s: float
    alone_s: float = 0.0
    """Estimated makespan on the empty platform: mk in docs/papers/many-workflows.md, section 3.

    After the end of a run it is computed for the tasks that were executed (``reference_time``), and is at
    most the time of the run's own first plan if no other run was active; 0: all outputs were reused.
    """
    tasks: int = 0
    """Number of tasks; a task in a loop counts once for every iteration that has begun."""
    ended_s: float | None = None
    outcome: str = ""
    """``completed``, ``failed``, ``stopped`` or ``cancelled``; "": not ended."""
    reason: str = ""
    iterations: dict[str, int] = field(default_factory=dict)
    """Number of iterations of each loop; for a loop with several bodies, the maximum."""
    plans: int = 0
    """Number of adopted plans."""
    priority: float = 1.0
    """Weight of the run relative to other runs."""
    results: str = ""
    """Folder of the project with the outputs; "": the folder of the workflow."""
    application: str = ""
    """Name of the workflow without its parameters, by which runs are grouped for comparison."""

    @property
    def response_s(self) -> float | None:
        """Return the seconds from arrival to end; None: not ended."""
        return None if self.ended_s is None else self.ended_s - self.arrival_s

    @property
    def slowdown(self) -> float | None:
        """Return ``response_s`` divided by ``alone_s``; None: not completed, or ``alone_s`` is 0."""
        if self.outcome != "completed" or self.response_s is None or self.alone_s <= 0:
            return None
        return self.response_s / self.alone_s

    def as_record(self) -> dict[str, Any]:
        """Return the run as plain data."""
        return asdict(self) | {"response_s": self.response_s, "slowdown": self.slowdown}


@dataclass(slots=True)
class StepFunction:
    """A step function of time: each value holds until the time of the next one; before the first it is 0."""

    times_s: list[float] = field(default_factory=list)
    values: list[int] = field(default_factory=list)

    def at(self, now_s: float, value: int) -> None:
        """Set the value from time ``now_s`` on; a later call with the same time replaces the value."""
        if self.times_s and self.times_s[-1] == now_s:
            self.values[-1] = value
            if len(self.values) > 1 and self.values[-2] == value:
                del self.times_s[-1], self.values[-1]
        elif not self.values or self.values[-1] != value:
            self.times_s.append(now_s)
            self.values.append(value)

    def add(self, now_s: float, change: int) -> None:
        """Add ``change`` to the last value, from time ``now_s`` on."""
        self.at(now_s, (self.values[-1] if self.values else 0) + change)

    @property
    def most(self) -> int:
        """Return the largest value; 0 if no value was set."""
        return max(self.values, default=0)

    def mean(self, end_s: float) -> float:
        """Return the mean value between time 0 and ``end_s``."""
        if end_s <= 0:
            return 0.0
        borders = [*self.times_s[1:], end_s]
        area = sum(
            value * max(0.0, min(after, end_s) - min(start, end_s))
            for start, after, value in zip(self.times_s, borders, self.values, strict=False)
        )
        return area / end_s

    def shifted(self, origin_s: float) -> StepFunction:
        """Return the function with times relative to ``origin_s``; earlier steps are merged into time 0."""
        moved = StepFunction()
        for at_s, value in zip(self.times_s, self.values, strict=True):
            moved.at(max(0.0, at_s - origin_s), value)
        return moved

    def thinned(self, most: int) -> list[tuple[float, int]]:
        """Return about ``most`` steps as (time, value); merged steps get the largest of their values."""
        pairs = list(zip(self.times_s, self.values, strict=True))
        each = -(-len(pairs) // most) if pairs else 1
        if each <= 1:
            return pairs
        joined = [
            (pairs[first][0], max(value for _, value in pairs[first : first + each]))
            for first in range(0, len(pairs) - 1, each)
        ]
        return [*joined, pairs[-1]]


def _assign_useful_shares(attempts: Iterable[AttemptRecord]) -> None:
    """Set ``useful_share`` of every attempt; the shares of all attempts of a completed task add up to 1."""
    first: dict[tuple[int, str, tuple[int, ...]], AttemptRecord] = {}
    repeated: dict[tuple[int, str, tuple[int, ...]], list[AttemptRecord]] = {}  # few tasks need a list
    for attempt in attempts:
        key = attempt.run, attempt.task, attempt.counters
        if (before := first.setdefault(key, attempt)) is not attempt:
            repeated.setdefault(key, [before]).append(attempt)
    for key, attempt in first.items():
        _assign_shares(repeated.get(key, (attempt,)))


def _assign_shares(tries: Sequence[AttemptRecord]) -> None:
    level: float | None = None
    for attempt in reversed(tries):
        attempt.useful_share = 0.0
        if level is None:
            if attempt.ending == "completed":
                attempt.useful_share = 1.0 - attempt.restart_from
                level = attempt.restart_from
        elif attempt.checkpoint is not None and attempt.restart_from < level <= attempt.checkpoint:
            attempt.useful_share = level - attempt.restart_from
            level = attempt.restart_from


class Subject(NamedTuple):
    """The run, task, attempt and machine that a message is about; None: not applicable."""

    run: int | None
    task: str | None
    iteration: int | None
    attempt: int | None
    machine: int | None


class History:
    """Attempts, migrations, failures, runs and outages of an execution, collected from journal entries."""

    def __init__(self) -> None:
        self.now = 0.0
        self.acted_s = 0.0
        """Time of the last event or command that concerns a task."""
        self.entries = 0
        self.runs: list[RunSummary] = []
        self.attempts: dict[int, AttemptRecord] = {}
        """All attempts by number."""
        self.running: dict[int, AttemptRecord] = {}
        """Attempts that were started and whose end is not reported yet, in order of their start."""
        self.succeeded: list[AttemptRecord] = []
        """Attempts whose programs ran and ended with exit code 0 or an outcome of the task, in this order."""
        self.taken_over: Counter[tuple[int, str]] = Counter()
        """By (run, kind): the number of tasks that reuse the outputs of an earlier execution."""
        self.past_iterations: defaultdict[int, Counter[tuple[str, TaskState]]] = defaultdict(Counter)
        """By run: the number of tasks in finished loop iterations, by kind and final state."""
        self.moves: list[MigrationRecord] = []
        """All migrations in the order of their decisions; some have not begun, some were cancelled."""
        self.begun_moves: list[MigrationRecord] = []
        """Migrations that have begun, in this order; some were cancelled later."""
        self.cancelled_moves: list[MigrationRecord] = []
        """Migrations that were cancelled after they had begun, in this order."""
        self.reservations: list[ReservationRecord] = []
        """Requested migrations that had to wait for a busy machine, and those that were called off then."""
        self.stops: list[StopRecord] = []
        """Tasks that had to leave their machines while no other machine was free, in this order."""
        self.failures: list[FailureRecord] = []
        self.first_plans: dict[int, str] = {}
        """By run: the content hash of its first plan."""
        self.violations = 0
        """Number of recorded contract violations."""
        self.open_loop: LoopState | None = None
        """Of the loop bodies without a maximal number of iterations: the one that was repeated most often.

        None: no such body was repeated.
        """
        self.active = StepFunction()
        """Number of active workflows over time."""
        self.ready = StepFunction()
        """Number of ready tasks over time."""
        self.references: dict[int, Instance] = {}
        """By run: an instance that consists of the tasks that were executed.

        Only runs whose executed tasks differ from the tasks of their workflow have an entry (loops, reuse,
        branches).
        """
        self.down: list[tuple[int, float, float | None]] = []
        """(machine, start, end) of every outage; end None: still down."""
        self.machine_changes: list[MachineChange] = []
        """Machines that did not answer, were lost, came back, joined, or were drained, removed or opened."""
        self._up_text: dict[int, str] = {}
        """By machine: the last recorded text that says that the machine was lost or came back."""
        self._outages: dict[int, HostOutage] = {}
        """By machine whose host does not answer: the outage."""
        self.delays: list[StartDelay] = []
        """Times during which jobs waited to be submitted or started, by their begin."""
        self._delay_of: dict[int, StartDelay] = {}
        """By attempt: the delay of its job, which waits."""
        self.module_failures: Counter[ModuleFailure] = Counter()
        self._ignored_files: dict[tuple[int, str], ModuleFailure] = {}
        """Number of occurrences of each module failure, ordered by the first occurrence."""
        self.stage_retries: list[StageRetry] = []
        self._stopped: dict[tuple[int, str], StopRecord] = {}
        """By run and task name: the stop of a task that has no machine yet."""
        self._move_to: dict[int, MigrationRecord] = {}
        """By attempt: the migration with which its task came to its machine."""
        self._stranded: set[int] = set()
        """Attempts that ended for a migration that was cancelled afterwards."""
        self._off_reasons: dict[int, str] = {}
        """By old attempt: why its migration is about to be reverted."""
        self._saved: dict[tuple[int, str], dict[int, float]] = {}
        """By run and task name: the time at which each attempt last wrote restart files."""
        self._last: defaultdict[int, dict[str, AttemptRecord]] = defaultdict(dict)
        """By run and task name: the last attempt; after a cancelled migration, the old attempt again."""
        self._newest: dict[tuple[int, str], int] = {}
        """By run and task name: ``task_attempt`` of the new attempt of the last cancelled migration."""
        self._settled: dict[tuple[int, str], TaskState] = {}
        """By run and task name, only for tasks in loops: the last state set in the current iteration."""
        self._problems: dict[int, str] = {}
        """By attempt: the message of the backend about a failure that has no FailureRecord yet."""
        self._shared: set[int] = set()
        """Runs that were active at the same time as another run."""
        self._executions: defaultdict[int, dict[tuple[int, int], TaskExecution]] = defaultdict(dict)
        """By run, only for runs with loops: completed executions by (task index, ``count_epoch``)."""
        self._repeated: defaultdict[int, Counter[int]] = defaultdict(Counter)
        """By run: how often each loop body was repeated."""
        self._suspended: dict[int, float] = {}
        self._ready_of: dict[int, int] = {}
        self._ready_total = 0
        self._applications: dict[str, Workflow] = {}
        """By name of the application: one of its workflows, without parameters."""
        self._application_of: dict[str, str] = {}
        """By key of a workflow: the name of its application (``RunSummary.application``)."""
        self._entry: JournalEntry
        self._state: EngineState

    def take(self, entry: JournalEntry, state: EngineState) -> None:
        """Add an entry; ``state`` is the engine's state after the entry."""
        self._entry, self._state = entry, state
        now, event, handlers = entry.now, entry.event, self._handlers
        self.now = now
        self.entries += 1
        kind: type = type(event)
        if (handle := handlers.get(kind)) is not None:
            handle(self, event)
            if kind not in _PASSIVE:
                self.acted_s = now
        touched = {getattr(event, "run", -1)}
        for command in entry.commands:
            kind = type(command)
            if (handle := handlers.get(kind)) is not None:
                handle(self, command)
                if kind not in _PASSIVE:
                    self.acted_s = now
            elif kind not in messages.RECORDS:
                continue
            touched.add(getattr(command, "run", -1))
        self._count_ready(touched)

    def finish(self) -> History:
        """Compute the useful shares, release the engine's state, and return the history."""
        self.measure_useful_work()
        # The history of a simulation is kept longer than its engine.
        vars(self).pop("_entry", None)
        vars(self).pop("_state", None)
        self._applications.clear()
        return self

    def measure_useful_work(self) -> None:
        """Compute the useful share of every attempt from all entries up to now."""
        _assign_useful_shares(self.attempts.values())

    def find_subject(self, message: messages.Event | messages.Command) -> Subject:
        """Return the run, task, attempt and machine that a message of the last entry is about."""
        number = _number(message, "attempt")
        if number is not None and (attempt := self.attempts.get(number)) is not None:
            return Subject(attempt.run, attempt.task, attempt.iteration, number, attempt.machine)
        index, task, machine = (_number(message, key) for key in ("run", "task", "machine"))
        if index is None or task is None or index >= len(self._state.runs):
            return Subject(index, None, None, number, machine)
        run = self._state.runs[index]
        return Subject(index, run.compiled.names[task], run.loops.iteration(task), number, machine)

    @property
    def end_s(self) -> float:
        """Return the end of the last run; while a run is unfinished, the time of the last activity."""
        if any(run.ended_s is None for run in self.runs):
            return self.acted_s
        return max((run.ended_s for run in self.runs if run.ended_s is not None), default=0.0)

    def _count_ready(self, touched: set[int]) -> None:
        state = self._state
        for index in touched:
            if 0 <= index < len(state.runs):
                ready = len(state.runs[index].ready) if index in state.active else 0
                self._ready_total += ready - self._ready_of.get(index, 0)
                self._ready_of[index] = ready
        self.ready.at(self.now, self._ready_total)

    # Events

    def _submitted(self, event: messages.Submitted) -> None:
        compiled = self._state.runs[event.run].compiled
        if others := [run.index for run in self.runs if not run.outcome]:
            self._shared.update((*others, event.run))
        self.runs.append(
            RunSummary(
                index=event.run,
                workflow=event.workflow,
                application=self._name_application(event.workflow, compiled.graph.workflow),
                owner=event.owner,
                priority=event.priority,
                results=event.results,
                arrival_s=self.now,
                alone_s=compiled.alone_s,
                tasks=len(compiled),
                iterations={body.loop.name: 1 for body in self._state.runs[event.run].loops.bodies},
            )
        )
        self.active.add(self.now, 1)

    def _name_application(self, key: str, workflow: Workflow) -> str:
        """Return the name of a workflow's application; workflows that differ only in parameters share it."""
        if key in self._application_of:
            return self._application_of[key]
        # The key of a workflow with other parameters ends with them: `flow.yaml (x=7)`.
        name = key.partition(" (")[0] if workflow.params else key
        plain = replace(workflow, params={})
        found = name if self._applications.setdefault(name, plain) == plain else key
        self._application_of[key] = found
        return found

    def _started(self, event: messages.Started | messages.JobQueued) -> None:
        attempt = self.attempts.get(event.attempt)
        if attempt is not None and attempt.started_s is None and not attempt.ending:
            attempt.started_s = self.now
            self._begin_move(attempt)
            if self._end_delay(attempt.number):
                self.running[attempt.number] = attempt

    def _start_delayed(self, event: messages.StartDelayed) -> None:
        attempt = self.attempts.get(event.attempt)
        if attempt is None or attempt.ended_s is not None:
            return
        self._end_delay(attempt.number)
        self.running.pop(attempt.number, None)
        attempt.started_s = None
        known = reversed(self.delays)
        found = next((each for each in known if each.machine == attempt.machine and each.waiting), None)
        if found is None or found.reason != event.reason:
            found = StartDelay(machine=attempt.machine, reason=event.reason, since_s=self.now)
            self.delays.append(found)
        found.waiting.add(attempt.number)
        found.attempts[attempt.number] = attempt.run
        self._delay_of[attempt.number] = found

    def _end_delay(self, number: int) -> bool:
        """Record that the job of an attempt no longer waits; return whether it did."""
        if (delay := self._delay_of.pop(number, None)) is None:
            return False
        delay.waiting.discard(number)
        if not delay.waiting:
            delay.until_s = self.now
        return True

    def _ended(self, event: messages.Ended) -> None:
        attempt = self.attempts.get(event.attempt)
        was_running = self.running.pop(event.attempt, None) is not None
        if self._end_delay(event.attempt):
            was_running = True
            if attempt is not None and event.exit_code is not None:
                attempt.started_s = self.now  # its start was not reported
        if event.cause or event.exit_code is None or (event.exit_code and not requests_rerun(event)):
            self._problems[event.attempt] = event.story
        if attempt is None:
            return
        attempt.exit_code, attempt.story, attempt.strays = event.exit_code, event.story, event.strays
        attempt.reused_from = event.taken_over
        if was_running:
            attempt.speed_factor = self._state.machines[attempt.machine].speed_factor
        if was_running and event.exit_code == 0 and not event.cause and event.taken_over is None:
            self.succeeded.append(attempt)
        elif event.story and requests_rerun(event):
            attempt.exit_code = None  # the backend stopped the program, which is to be run again
        attempt.measured_s = event.ran_s
        if attempt.ended_s is not None:
            return
        attempt.ended_s = self.now
        if event.taken_over is not None:
            attempt.started_s = None  # no program ran
        elif event.ran_s is not None and attempt.started_s is not None:
            attempt.set_run_time(event.ran_s, self.now - event.late_s)
        self._end_suspension(attempt)
        if event.work_done is not None:
            attempt.work_done = event.work_done

    def _staged_in(self, event: messages.StagedIn) -> None:
        if (attempt := self.attempts.get(event.attempt)) is not None:
            attempt.staged_s = self.now
            if event.moved_bytes is not None:
                attempt.moved_bytes = (attempt.moved_bytes or 0.0) + event.moved_bytes
            if event.taken_over is not None:
                attempt.reused_from = event.taken_over
        self._note_problem(event)

    def _staged_out(self, event: messages.StagedOut) -> None:
        if (attempt := self.attempts.get(event.attempt)) is not None:
            attempt.left_s = self.now
        self._note_problem(event)

    def _note_problem(self, event: messages.StagedIn | messages.StagedOut) -> None:
        if event.problem:
            self._problems[event.attempt] = event.problem
            if (attempt := self.attempts.get(event.attempt)) is not None:
                attempt.problem = event.problem

    def _plan_ready(self, event: messages.PlanReady) -> None:
        if event.plan:
            self.first_plans.setdefault(event.run, event.plan)

    def _progressed(self, event: messages.Progressed) -> None:
        attempt = self.attempts.get(event.attempt)
        if attempt is not None and event.work_done is not None and attempt.ended_s is None:
            attempt.work_done = event.work_done

    def _checkpointed(self, event: messages.Checkpointed) -> None:
        if event.work_done is None:
            return
        if (attempt := self.attempts.get(event.attempt)) is not None:
            attempt.checkpoint = event.work_done
            self._saved.setdefault((attempt.run, attempt.task), {})[attempt.number] = self.now

    def _job_queued(self, event: messages.JobQueued) -> None:
        if (attempt := self.attempts.get(event.attempt)) is not None:
            attempt.job = event.job
            if attempt.number in self._delay_of:
                self._started(event)

    def _suspend(self, event: messages.Suspended) -> None:
        self._suspended.setdefault(event.attempt, self.now)

    def _resumed(self, event: messages.Resumed) -> None:
        if (attempt := self.attempts.get(event.attempt)) is not None:
            self._end_suspension(attempt)

    def _end_suspension(self, attempt: AttemptRecord) -> None:
        if (since := self._suspended.pop(attempt.number, None)) is not None:
            until_s = self.now if attempt.ended_s is None else attempt.ended_s
            attempt.suspended_s += max(0.0, until_s - since)

    def _machine_changed(self, event: messages.MachineChanged) -> None:
        if event.up is False and event.started is not None:
            for attempt in list(self.running.values()):
                if attempt.machine == event.machine and attempt.number not in event.started:
                    attempt.started_s = None
                    del self.running[attempt.number]
        if event.up is not None:
            self._set_up(event.machine, event.up, event.reason)
        if event.admission is not None:
            joined = event.reason == "joined"
            self._note_machine(event.machine, "joined" if joined else f"is {event.admission}")

    def _contact_changed(self, event: messages.ContactChanged) -> None:
        if event.answers:
            if (ended := self._end_outage(event.machine)) is not None and not event.reason:
                self._note_machine(event.machine, "answers again", outage=ended)
            return
        outage = self._outages.get(event.machine)
        if outage is None:
            outage = HostOutage(since_s=self.now - event.silent_s, reason=event.reason)
            self._outages[event.machine] = outage
        elif outage.reason == event.reason:
            return
        outage.reason = event.reason
        why = f" ({event.reason})" if event.reason else ""
        lost_at_s = None if event.lost_in_s is None else self.now + event.lost_in_s
        text = f"does not answer{why}: its tasks are unknown"
        self._note_machine(event.machine, text, lost_at_s=lost_at_s, outage=outage)

    def _end_outage(self, machine: int) -> HostOutage | None:
        """Return the outage of a machine, which ends now; None: its host has answered."""
        if (outage := self._outages.pop(machine, None)) is not None:
            outage.until_s = self.now
        return outage

    def _note_machine(
        self, machine: int, text: str, *, lost_at_s: float | None = None, outage: HostOutage | None = None
    ) -> None:
        self.machine_changes.append(
            MachineChange(at_s=self.now, machine=machine, text=text, lost_at_s=lost_at_s, outage=outage)
        )

    def _set_up(self, machine: int, up: bool, reason: str) -> None:
        if (outage := self._end_outage(machine)) is not None and not up:
            outage.is_loss, outage.reason = True, reason or outage.reason
        text = "is back" if up else f"is lost: {reason}" if reason else "is lost"
        if self._up_text.get(machine) != text:  # a loss is reported again when the execution is reopened
            self._note_machine(machine, text, outage=outage)
            self._up_text[machine] = text
        last = next((row for row in reversed(self.down) if row[0] == machine), None)
        is_down = last is not None and last[2] is None
        if up and is_down and last is not None:
            self.down[self.down.index(last)] = (machine, last[1], self.now)
        elif not up and not is_down:
            self.down.append((machine, self.now, None))

    # Commands

    def _assign(self, command: messages.Assign) -> None:
        run = self._state.runs[command.run]
        compiled, task = run.compiled, command.task
        name, iteration = compiled.names[task], run.loops.iteration(task)
        last = self._last[command.run]
        before = last.get(name)
        compute = compiled.kind[task] == COMPUTE
        tried = AttemptRecord(
            number=command.attempt,
            run=command.run,
            task=name,
            iteration=iteration,
            counters=run.loops.counters(task),
            kind=compiled.graph.description(task).program,
            machine=command.machine,
            nodes=command.nodes,
            count=command.count,
            assigned_s=self.now,
            reason=command.reason,
            replaces=command.replaces,
            seconds=compiled.seconds(task, command.machine, command.count) if compute else 0.0,
            restart_from=command.restart_from,
        )
        if before is not None:
            tried.task_attempt = max(before.task_attempt, self._newest.get((command.run, name), 0)) + 1
        self.attempts[command.attempt] = last[name] = tried
        if command.reserve:
            self._end_stop(command.run, name)
        if before is not None and before.counters == tried.counters:
            self._note_move(before, tried, command)

    def _note_move(self, before: AttemptRecord, tried: AttemptRecord, command: messages.Assign) -> None:
        """Record a migration if the task has migrated from attempt ``before`` to attempt ``tried``.

        A task has migrated if ``tried`` replaces ``before``, or if ``before`` failed or was to migrate and
        ``tried`` is on another machine.
        """
        if command.replaces is not None:
            if before.started_s is None and before.number in self._move_to:
                before = self._redirect_move(before, tried)
            before.left_for = reason = before.left_for or command.reason
            if before.ending in ("", "cancelled"):
                before.ending = "migrated" if before.started_s is not None else "withdrawn"
            if (before.machine, before.count) == (tried.machine, tried.count):
                return  # it starts again where it was, after its machine was lost and came back
        elif before.started_s is None or before.machine == tried.machine:
            return
        elif before.cause:
            reason = "failure"
        elif before.number in self._stranded:
            reason = before.left_for
        else:
            return
        move = MigrationRecord(
            at_s=self.now,
            run=tried.run,
            task=tried.task,
            iteration=tried.iteration,
            label=tried.label,
            source=before.machine,
            target=tried.machine,
            reason=reason,
            old=before.number,
            new=tried.number,
            ran=before.started_s is not None,
            restart_from=tried.restart_from,
        )
        self.moves.append(move)
        self._move_to[tried.number] = move
        if command.reserve and command.replaces is not None and not before.cause:
            self._begin_move(tried)

    def find_move(self, attempt: int) -> MigrationRecord | None:
        """Return the migration that led to an attempt; None: the task was not on another machine before."""
        return self._move_to.get(attempt)

    def _redirect_move(self, before: AttemptRecord, tried: AttemptRecord) -> AttemptRecord:
        """Cancel the migration to attempt ``before``, which did not start, in favour of attempt ``tried``.

        Return the attempt that the task leaves.
        """
        before.ending = "withdrawn"
        name = self._state.machines[tried.machine].name
        self._withdraw_move(before, f"it moves to {name} instead")
        old = self.attempts[self._move_to[before.number].old]
        self._last[tried.run][tried.task] = tried
        return old

    def _begin_move(self, new: AttemptRecord) -> None:
        """Record that the migration to an attempt is under way, if a migration led to the attempt."""
        if (move := self._move_to.get(new.number)) is not None and not move.begun:
            move.begun = True
            self.begun_moves.append(move)

    def _stage_in(self, command: messages.StageIn) -> None:
        attempt = self.attempts[command.attempt]
        self._end_stop(attempt.run, attempt.task)
        if attempt.staging_s is None:
            attempt.staging_s = self.now
        if attempt.is_transfer:
            self._begin_move(attempt)
            attempt.moved_from = command.parcels[0].source

    def _start(self, command: messages.Start) -> None:
        attempt = self.attempts[command.attempt]
        self._end_stop(attempt.run, attempt.task)
        attempt.submitted_s = self.now
        attempt.restart_from = command.restart_from
        attempt.memory_bytes, attempt.time_limit_s = command.memory_bytes, command.time_limit_s
        if attempt.begun_n is None:
            attempt.begun_n = self._entry.sequence
        self.running[command.attempt] = attempt
        if self._state.settings.begins_at_once and attempt.started_s is None:
            attempt.started_s = self.now
            self._begin_move(attempt)

    def _stage_out(self, command: messages.StageOut) -> None:
        attempt = self.attempts[command.attempt]
        if attempt.leaving_s is None:
            attempt.leaving_s = self.now

    def _cancel(self, command: messages.Cancel) -> None:
        attempt = self.attempts.get(command.attempt)
        if attempt is None:
            return
        if not attempt.left_for:
            attempt.left_for = command.reason
        now = self._state.find_attempt(command.attempt)
        known = self._stopped.get((attempt.run, attempt.task))
        if known is not None and known.attempt == attempt.number:
            return  # the command is repeated
        if command.reason in MANDATORY_REASONS and now is not None and now.replaced_by is None:
            machine = self._state.machines[attempt.machine]
            removed = machine.admission == Admission.REMOVED
            stop = StopRecord(
                at_s=self.now,
                run=attempt.run,
                label=attempt.label,
                attempt=attempt.number,
                machine=machine.name,
                reason=f"{machine.name} was removed" if removed else command.reason,
                ran=attempt.started_s is not None,
            )
            self.stops.append(stop)
            self._stopped[attempt.run, attempt.task] = stop

    def _end_stop(self, run: int, task: str) -> None:
        """Record that a stopped task has nodes of a machine again, or has ended."""
        if (stop := self._stopped.pop((run, task), None)) is not None:
            stop.over = True

    def _revert_migration(self, command: messages.RevertMigration) -> None:
        """Record that a migration was cancelled."""
        old = self.attempts[command.attempt]
        new = self._last[old.run][old.task]
        if new.number != old.number:
            new.ending = "withdrawn"
            if not old.cause:  # otherwise it has failed, and still counts as failed
                old.ending = old.left_for = ""
            self._return_to(old, new, self._off_reasons.pop(old.number, ""))

    def _note_revert(self, command: messages.ReportTargetLoss | messages.ReportLateCancel) -> None:
        self._off_reasons[command.attempt] = command.reason

    def _return_to(self, old: AttemptRecord, new: AttemptRecord, reason: str) -> None:
        """Record that a task stays with attempt ``old``, because attempt ``new`` did not start."""
        self._newest[old.run, old.task] = new.task_attempt
        self._last[old.run][old.task] = old
        if (move := self._move_to.get(new.number)) is not None and not move.off:
            move.off, move.off_reason = True, reason
            if move.begun:
                self.cancelled_moves.append(move)

    def _withdraw_move(self, new: AttemptRecord, reason: str) -> None:
        """Record that the migration to an attempt that did not start was cancelled, if there was one."""
        if (move := self._move_to.get(new.number)) is None:
            return
        old = self.attempts[move.old]
        if old.ending == "migrated":
            old.ending = "cancelled"
            self._stranded.add(old.number)
        self._return_to(old, new, reason)

    def _settle(self, command: messages.Settle) -> None:
        run = self._state.runs[command.run]
        name = run.compiled.names[command.task]
        if command.task in run.loops.around:
            self._settled[command.run, name] = command.state
        if command.state in FINAL or command.state == TaskState.HELD:
            self._end_stop(command.run, name)
        attempt = self._last[command.run].get(name)
        if attempt is not None and attempt.ending:
            attempt = None  # it had ended before; the command is about the task
        if attempt is not None and self._has_only_waited(attempt, command):
            self.running.pop(attempt.number, None)
            attempt.ending, attempt.left_for = "withdrawn", attempt.left_for or command.reason
            self._withdraw_move(attempt, command.reason)
            return
        if command.cause:
            self._add_failure(command, attempt)
        if attempt is not None:
            self._settle_attempt(attempt, command)
        if command.state == TaskState.COMPLETED and run.loops.bodies:
            epoch = count_epoch(run, command.task, self._repeated[command.run])
            done = self._execution(command.task, epoch, attempt)
            self._executions[command.run][command.task, epoch] = done

    def _has_only_waited(self, attempt: AttemptRecord, command: messages.Settle) -> bool:
        """Return whether an attempt failed only because its machine was lost before the program started.

        Such an attempt is not recorded as a failure.
        """
        reported = getattr(self._entry.event, "attempt", None) == attempt.number
        for_good = command.state in (TaskState.FAILED, TaskState.STOPPED)
        return command.cause == Cause.LOST and attempt.started_s is None and not (reported or for_good)

    def _execution(self, task: int, epoch: int, attempt: AttemptRecord | None) -> TaskExecution:
        now_n = self._entry.sequence
        if attempt is None:
            return TaskExecution(task, epoch, now_n, now_n)
        begun_n = now_n if attempt.begun_n is None else attempt.begun_n
        reused = attempt.reused_from is not None
        return TaskExecution(task, epoch, begun_n, now_n, reused, attempt.seconds, self._worked_s(attempt))

    def _list_executions(self, run: int) -> Iterable[TaskExecution]:
        """Return the executions of those tasks of a run that have completed."""
        state = self._state.runs[run]
        if state.loops.bodies:
            return self._executions.pop(run, {}).values()
        last, names = self._last[run], state.compiled.names
        completed = (task for task, place in enumerate(state.state) if place == TaskState.COMPLETED)
        # Without loops every task is executed once, so the order of the tasks is that of the graph.
        return [self._execution_of(task, last.get(names[task])) for task in completed]

    def _execution_of(self, task: int, attempt: AttemptRecord | None) -> TaskExecution:
        if attempt is None:
            return TaskExecution(task, 0, task, task)
        reused = attempt.reused_from is not None
        return TaskExecution(task, 0, task, task, reused, attempt.seconds, self._worked_s(attempt))

    def _worked_s(self, attempt: AttemptRecord) -> float:
        """Return how many seconds the whole task takes on the machine of its completed attempt.

        If the attempt continued from restart files of an earlier attempt, the seconds in which the earlier
        attempt did that work are added. They are scaled by the ratio of the estimates for the two machines.
        """
        total_s, share = attempt.ran_s, attempt.restart_from
        for number, saved_s in reversed(self._saved.get((attempt.run, attempt.task), {}).items()):
            if share <= 0.0:
                break
            earlier = self.attempts[number]
            same = earlier.counters == attempt.counters and number < attempt.number
            if same and earlier.started_s is not None and earlier.seconds > 0.0:
                until_s = saved_s if earlier.ended_s is None else min(saved_s, earlier.ended_s)
                total_s += (until_s - earlier.started_s) * attempt.seconds / earlier.seconds
                share = earlier.restart_from
        return total_s

    def _add_failure(self, command: messages.Settle, attempt: AttemptRecord | None) -> None:
        run = self._state.runs[command.run]
        reporter = getattr(self._entry.event, "attempt", None)
        self.failures.append(
            FailureRecord(
                at_s=self.now,
                run=command.run,
                task=run.compiled.names[command.task],
                label=run.name(command.task),
                cause=command.cause,
                reason=command.reason,
                attempt=-1 if attempt is None else attempt.number,
                for_good=command.state in (TaskState.FAILED, TaskState.STOPPED),
                waits=command.state == TaskState.STOPPED,
                reported_by=-1 if reporter is None else reporter,
                text=command.reason
                if reporter is None or attempt is None
                else self._problems.pop(reporter, ""),
            )
        )

    def _settle_attempt(self, attempt: AttemptRecord, command: messages.Settle) -> None:
        if attempt.reused_from is None and attempt.is_transfer and command.state == TaskState.COMPLETED:
            # A transfer has no program: it runs from the request of its data until they have arrived.
            attempt.started_s = attempt.staging_s if attempt.staging_s is not None else self.now
        if attempt.started_s is not None and attempt.ended_s is None:
            attempt.ended_s = self.now
            self._end_suspension(attempt)
        attempt.cause = command.cause
        self.running.pop(attempt.number, None)  # of a lost machine: no event will report its end
        self._end_delay(attempt.number)
        if command.cause or command.state == TaskState.COMPLETED:
            self._begin_move(attempt)  # it was on the target, even if no program started there
        if command.state == TaskState.COMPLETED:
            attempt.ending, attempt.work_done = "completed", 1.0
            attempt.completed_n = self._entry.sequence
            if attempt.reused_from is not None:
                self.taken_over[attempt.run, attempt.kind] += 1
            elif attempt.exit_code:  # an outcome
                self.succeeded.append(attempt)
        elif command.cause:
            attempt.ending = "failed"
        else:
            attempt.ending = "cancelled" if attempt.started_s is not None else "withdrawn"
            attempt.left_for = attempt.left_for or command.reason
            if attempt.ending == "withdrawn":
                self._withdraw_move(attempt, command.reason)

    def _close_attempt(self, command: messages.CloseAttempt) -> None:
        attempt = self.attempts.get(command.attempt)
        if attempt is not None and attempt.started_s is not None and attempt.ended_s is None:
            attempt.ended_s = self.now
            self._end_suspension(attempt)

    def _repeat(self, command: messages.RepeatLoop) -> None:
        run, summary = self._state.runs[command.run], self.runs[command.run]
        body = run.loops.bodies[command.body]
        self._repeated[command.run][command.body] += 1
        name, past = body.loop.name, self.past_iterations[command.run]
        summary.iterations[name] = max(summary.iterations.get(name, 1), command.iteration)
        summary.tasks += len(body.tasks)
        for task in body.tasks:
            final = self._settled.pop((command.run, run.compiled.names[task]), TaskState.COMPLETED)
            past[run.compiled.description(task).program, final] += 1
        if body.most is None and (self.open_loop is None or body.iteration > self.open_loop.iteration):
            self.open_loop = body

    def _finish(self, command: messages.FinishRun) -> None:
        summary = self.runs[command.run]
        summary.ended_s, summary.outcome, summary.reason = self.now, command.outcome, command.reason
        summary.tasks = len(self._state.runs[command.run]) + self.past_iterations[command.run].total()
        if command.outcome == RunOutcome.COMPLETED:
            run, executions = self._state.runs[command.run], list(self._list_executions(command.run))
            summary.alone_s, reference = find_reference(run, executions)
            if reference is not None:
                self.references[command.run] = reference
            plan = self._state.plans.get(self.first_plans.get(command.run, ""))
            if plan is not None and command.run not in self._shared:
                planned_s = planned_alone_s(run, executions, plan, summary.arrival_s)
                summary.alone_s = min(summary.alone_s, planned_s)
        self.active.add(self.now, -1)

    def _report_violation(self, _: messages.ReportViolation) -> None:
        self.violations += 1

    def _report_module(self, command: messages.ReportModule) -> None:
        label = self._state.runs[command.run].name(command.task)
        self.module_failures[
            ModuleFailure(run=command.run, label=label, module=command.module, reason=command.reason)
        ] += 1

    def _ignore_requirement(self, command: messages.IgnoreRequirement) -> None:
        # A program may write a different invalid line at every poll: the first one stands for all.
        label = self._state.runs[command.run].name(command.task)
        first = ModuleFailure(run=command.run, label=label, module="file", reason=command.reason)
        self.module_failures[self._ignored_files.setdefault((command.run, label), first)] += 1

    def _postpone_staging(self, command: messages.PostponeStaging) -> None:
        self.stage_retries.append(
            StageRetry(
                at_s=self.now,
                run=command.run,
                label=self._state.runs[command.run].name(command.task),
                attempt=command.attempt,
                problem=self._problems.get(command.attempt, ""),
                reason=command.reason,
            )
        )

    def _await_machine(self, command: messages.AwaitMachine) -> None:
        self.reservations.append(
            ReservationRecord(
                at_s=self.now,
                run=command.run,
                label=self._state.runs[command.run].name(command.task),
                attempt=command.attempt,
                reason=command.reason,
                off=command.machine is None,
            )
        )

    def _adopt_plan(self, command: messages.AdoptPlan) -> None:
        self.runs[command.run].plans += 1

    def _mark_machine(self, command: messages.MarkMachine) -> None:
        self._set_up(command.machine, command.up, "" if command.up else command.reason)

    def _lose_attempt(self, command: messages.LoseAttempt) -> None:
        attempt = self.attempts.get(command.attempt)
        self.running.pop(command.attempt, None)
        self._end_delay(command.attempt)
        if attempt is not None and attempt.started_s is not None and attempt.ended_s is None:
            attempt.ended_s = self.now

    _handlers: ClassVar[dict[type, Callable[[History, Any], None]]] = {
        messages.Submitted: _submitted,
        messages.Started: _started,
        messages.Ended: _ended,
        messages.StagedIn: _staged_in,
        messages.StagedOut: _staged_out,
        messages.Progressed: _progressed,
        messages.Checkpointed: _checkpointed,
        messages.JobQueued: _job_queued,
        messages.StartDelayed: _start_delayed,
        messages.Suspended: _suspend,
        messages.Resumed: _resumed,
        messages.MachineChanged: _machine_changed,
        messages.ContactChanged: _contact_changed,
        messages.PlanReady: _plan_ready,
        messages.Assign: _assign,
        messages.StageIn: _stage_in,
        messages.Start: _start,
        messages.StageOut: _stage_out,
        messages.Cancel: _cancel,
        messages.ReportTargetLoss: _note_revert,
        messages.ReportLateCancel: _note_revert,
        messages.RevertMigration: _revert_migration,
        messages.Settle: _settle,
        messages.CloseAttempt: _close_attempt,
        messages.RepeatLoop: _repeat,
        messages.FinishRun: _finish,
        messages.LoseAttempt: _lose_attempt,
        messages.ReportViolation: _report_violation,
        messages.ReportModule: _report_module,
        messages.IgnoreRequirement: _ignore_requirement,
        messages.PostponeStaging: _postpone_staging,
        messages.AwaitMachine: _await_machine,
        messages.AdoptPlan: _adopt_plan,
        messages.MarkMachine: _mark_machine,
    }


_PASSIVE = messages.RECORDS | {
    messages.PlanReady,
    messages.StageOut,
    messages.StagedOut,
    messages.RunStalled,
}
"""Messages that do not change ``acted_s``, the time of the last activity."""


def _number(message: Any, key: str) -> int | None:
    value = getattr(message, key, None)
    return value if isinstance(value, int) and value >= 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineUse:
    """Use of one machine from time 0 to the end of the history."""

    machine: str
    attempts: int
    busy_node_s: float
    replicated_node_s: float
    """Part of ``busy_node_s`` that was not useful: the work was repeated, or lost."""
    down_s: float
    share: float
    """Busy node-seconds divided by all node-seconds; a node that programs share counts once."""
    part_of: str | None = None
    """Name of the physical machine if this machine is a share of its nodes; None: it is not a share."""


def measure_machines(
    history: History,
    machines: Sequence[tuple[str, int]],
    shares: Mapping[str, str] = MappingProxyType({}),
    crowded: Collection[str] = (),
) -> list[MachineUse]:
    """Return the use of every machine; ``machines`` holds (name, number of nodes).

    ``shares`` maps the name of a share to the name of its physical machine. ``crowded`` holds the names of
    the machines on which programs may share nodes.
    """
    end_s = history.end_s
    busy, waste, number = ([0.0] * len(machines) for _ in range(3))
    for attempt in history.attempts.values():
        if attempt.started_s is not None:
            ended_s = end_s if attempt.ended_s is None else attempt.ended_s
            node_s = attempt.nodes * max(0.0, ended_s - attempt.started_s)
            busy[attempt.machine] += node_s
            waste[attempt.machine] += node_s - attempt.nodes * attempt.useful_s
            number[attempt.machine] += 1
    down = [0.0] * len(machines)
    for machine, since_s, until_s in history.down:
        down[machine] += max(0.0, min(end_s if until_s is None else until_s, end_s) - since_s)
    return [
        MachineUse(
            machine=name,
            attempts=int(number[index]),
            busy_node_s=busy[index],
            replicated_node_s=waste[index],
            down_s=down[index],
            share=(_busy_node_s(history, index, nodes) if name in crowded else busy[index]) / (nodes * end_s)
            if nodes * end_s > 0
            else 0.0,
            part_of=shares.get(name),
        )
        for index, (name, nodes) in enumerate(machines)
    ]


def _busy_node_s(history: History, machine: int, nodes: int) -> float:
    """Return the busy node-seconds of a machine; at any time at most ``nodes`` nodes count as busy."""
    end_s, taken = history.end_s, StepFunction()
    ran = [
        each for each in history.attempts.values() if each.machine == machine and each.started_s is not None
    ]
    changes = [(each.started_s or 0.0, each.nodes) for each in ran]
    changes += [(end_s if each.ended_s is None else each.ended_s, -each.nodes) for each in ran]
    for at_s, change in sorted(changes):
        taken.add(at_s, change)
    limited = StepFunction(taken.times_s, [min(value, nodes) for value in taken.values])
    return limited.mean(end_s) * end_s


def replicated_share(found: Sequence[MachineUse]) -> float:
    """Return the share of busy node-seconds that was not useful ("replicated work" in dynamic-grid.md)."""
    busy = sum(use.busy_node_s for use in found)
    return sum(use.replicated_node_s for use in found) / busy if busy > 0 else 0.0


def count_migration_reasons(history: History) -> dict[str, int]:
    """Return the number of migrations that happened by reason, most frequent first."""
    return dict(Counter(move.reason for move in history.moves if move.happened).most_common())


def count_causes(history: History) -> dict[str, int]:
    """Return the number of failures by cause, most frequent first."""
    return dict(Counter(failure.cause for failure in history.failures).most_common())


def list_slowdowns(runs: Iterable[RunSummary]) -> dict[str, list[float]]:
    """Return the slowdowns of the completed runs by application, in order of arrival."""
    found: dict[str, list[float]] = {}
    for run in runs:
        if run.slowdown is not None:
            found.setdefault(run.application, []).append(run.slowdown)
    return found
