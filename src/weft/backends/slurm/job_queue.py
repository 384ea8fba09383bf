"""Jobs of the Slurm backend: jobs that run one program, or many as pilots, on a shared file system.

The state of a job follows from its own records first (``job.py``), then from ``squeue``, then from ``sacct``
where a site has it. While the controller does not answer, the state is unknown and nothing is reported. All
state belongs to the thread of the engine. One other thread runs the commands of Slurm, one at a time: signals
and cancellations first, then ``squeue``, then submissions.

A program starts at most once, whatever the controller forgets: the job that removes the order runs it. A job
that Slurm does not know, and whose order is still there, is therefore submitted again. If the engine has
removed the order, the job does nothing, even if Slurm starts it.

This module runs in the engine, or in a process on a login node (``login_server.py``), where weft is not
installed: it uses Python 3.8 and the standard library.
"""

from __future__ import annotations

import math
import os
import select
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from weft.backends.runner.processes import boot_id
from weft.backends.runner.records import Record, RecordLog, SealedRecords, encode_record
from weft.backends.runner.runner_link import RunnerScope
from weft.backends.slurm.commands import (
    JobPhase,
    JobState,
    JobStatus,
    NodeGroup,
    SlurmCause,
    SlurmJob,
    array_script,
    element_index,
    find_pending_cause,
    job_script,
)
from weft.backends.slurm.controller import QueueSnapshot, SlurmController, SlurmRefused, SlurmUnreachable
from weft.backends.slurm.job_files import LOG, JobFiles, JobNumber, write_bundle
from weft.backends.slurm.pilot import BEAT, EXIT, START
from weft.backends.slurm.pilots import (
    MODULE_NUMBERS,
    PILOT_NUMBERS,
    SIGNAL_BEFORE_S,
    Partition,
    Pilot,
    PilotPool,
    ProgramReport,
    ends_early,
    seconds_of,
)
from weft.errors import Problem, WeftError, nearest, shorten
from weft.records import dataclass
from weft.units import parse_bytes

_SETTLING_S = 3.0
"""Seconds for which the record of an end may be on its way after Slurm has reported the end of the job."""
_REFINING_S = 10.0
"""Seconds for which the engine waits until Slurm says why it has ended a job."""
_STALE_S = 20.0
"""Default of ``heartbeat``: seconds without a heartbeat after which a job is cancelled.

It is lost after the same time again."""
_GAP_S = 5.0
"""Seconds between two checks from which the engine itself, not a job, was late."""
_LATE_KILL_S = 5.0
"""Seconds after the grace period after which a job that does not end is cancelled by Slurm."""
_LOOKS = 300
"""Number of jobs whose records are read in one check."""
_KILLING = (signal.SIGTERM, signal.SIGKILL)
"""Signals with which Slurm ends jobs."""
_SUBMISSIONS = 3
_ARRAY_SIZE = 1000
"""Default of ``array_size``."""
_PAUSE_S = 10.0
"""Seconds after which a job is submitted again if a limit on the number of jobs was reached."""
_TURN_S = 5.0
"""Seconds in the queue of Slurm after which the task of a job counts as waiting, not as running."""
_SLOW_S = 10.0
"""Seconds without an answer to a command after which a controller counts as slow."""
_SILENT, _FULL = "the controller of Slurm does not answer", "the queue of Slurm is full"
_SLOW = "the controller of Slurm answers slowly"
_CLOSING_S = 60.0
_LEAVING_S = 3.0
"""Seconds for which the engine waits at its end until pilots have ended."""
_RESERVE_S = 60.0
"""Seconds that a job gets beyond the time limit of its program, which the job itself enforces."""
_RESERVE_BYTES = 64 << 20
"""Memory that a job gets beyond the limit of its program."""
_SETTINGS = ("partition", "account", "qos", "constraint", "gres")
_SIGNALS = {"STOP": "TSTP"}
"""Signals under another name: SIGSTOP cannot be caught, so it would stop the job instead of the program."""
_TURN = ("", "None", "Priority", "Resources")
"""Reasons of jobs that wait for other jobs only; they change from poll to poll."""
_NEVER = (
    SlurmCause.PARTITION, SlurmCause.ACCOUNT, SlurmCause.QOS, SlurmCause.TIME_LIMIT, SlurmCause.CONFIGURATION
)  # fmt: skip
"""Reasons of refused and of pending jobs that do not pass."""
_CAUSES: Mapping[JobState, tuple[str, str]] = {
    JobState.TIMEOUT: ("timeout", "its job reached the time limit of Slurm"),
    JobState.DEADLINE: ("timeout", "its job reached its deadline in Slurm"),
    JobState.OUT_OF_MEMORY: ("oom", "Slurm killed its job, which used more memory than it had requested"),
    JobState.PREEMPTED: ("preempted", "Slurm preempted its job"),
    JobState.REVOKED: ("preempted", "Slurm revoked its job"),
    JobState.CANCELLED: ("preempted", "its job was cancelled from outside (scancel, or an administrator)"),
    JobState.NODE_FAIL: ("lost", "a node of its job died"),
    JobState.BOOT_FAIL: ("lost", "a node of its job did not boot"),
}


@dataclass(slots=True, eq=False)
class QueuedJob:
    """A job from its submission until its end is reported."""

    machine: int
    files: JobFiles
    name: str
    order: Mapping[str, Any] | None
    """The order; None: an earlier engine has written it."""
    number: str = ""
    """Number in Slurm; "": not submitted, or unknown."""
    submitted_s: float = 0.0
    """Time on the monotonic clock after the submission."""
    is_doubtful: bool = False
    """Whether a job with this name may exist, although no submission was confirmed."""
    submissions: int = 0
    is_cancelled: bool = False
    silence: str = ""
    """Why it was cancelled although the run needs it: it had no heartbeat; "": it was not."""
    kill_at_s: float = math.inf
    """Time on the monotonic clock at which Slurm cancels the job if it has not ended by then."""
    has_started: bool = False
    nodes: int = 1
    """Number of nodes; with cores as nodes, the number of cores."""
    signals: list[str] = field(default_factory=list)
    """Signals for the program that were not sent yet."""
    is_stopped: bool = False
    beat: Record | None = None
    beat_at_s: float = 0.0
    """Time on the monotonic clock at which the last heartbeat was seen, or the start."""
    state: JobState = JobState.UNKNOWN
    status: JobStatus | None = None
    """The final status in Slurm; None: it has not ended there, or Slurm does not know it any more."""
    ended_at_s: float | None = None
    """Time on the monotonic clock at which Slurm first reported the end; None: it has not."""
    asked_accounting: bool = False
    exit_at_s: float | None = None
    """Time at which the record of an end by Slurm was first seen; None: there is none."""
    pilot: Pilot | None = None
    """The pilot that this job is; None: it runs one program."""
    limit_s: float = math.inf
    """Time limit that was requested; infinity: that of the partition."""
    index: int = -1
    """Index of the element in the array ``name``; -1: a job of its own."""

    def note_number(self) -> None:
        """Record how Slurm identifies the job."""
        array = self.name if self.index >= 0 else ""
        self.files.note_number(
            JobNumber(number=self.number, limit_s=self.limit_s, array=array, index=self.index)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _DescribedJob:
    """What sbatch needs for a job."""

    job: QueuedJob
    described: Mapping[str, Any]
    """The arguments of ``SlurmJob`` that are equal for all elements of an array."""
    program: tuple[str, ...]
    """The program of the job, without the folder of its files."""
    limit_s: float
    """Time limit to request; infinity: that of the partition."""
    doublings: int = 0
    """How often the time limit of the partition is doubled, because earlier jobs of the task reached it."""
    memory_doublings: int = 0
    """How often the default memory of the site is doubled, because earlier jobs of the task exceeded it."""

    def fits(self, other: _DescribedJob) -> bool:
        """Return whether two jobs can be elements of one array."""
        ours = [
            (
                each.described,
                each.program,
                each.limit_s,
                each.doublings,
                each.memory_doublings,
                each.job.machine,
                each.job.pilot is None,
            )
            for each in (self, other)
        ]
        return ours[0] == ours[1]


class CommandThread:
    """Runs one function at a time beside the engine; its result arrives through a descriptor."""

    def __init__(self) -> None:
        self.descriptor, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._work: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._results: SimpleQueue[Any] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._then: Callable[[Any], None] | None = None
        self.since_s = 0.0
        """Time on the monotonic clock at which the last function was called."""

    @property
    def busy(self) -> bool:
        """Return whether a function runs, or its result was not delivered."""
        return self._then is not None

    def run(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """Call ``work`` in the thread; ``deliver`` passes its result, or its WeftError, to ``then``."""
        self._then, self.since_s = then, time.monotonic()
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="slurm", daemon=True)
            self._thread.start()
        self._work.put(work)

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                self._results.put(work())
            except BaseException as error:  # raised again by ``deliver``
                self._results.put(error)
            self.wake()

    def wake(self) -> None:
        """Make the descriptor readable."""
        with suppress(BlockingIOError):
            os.write(self._waker, b"x")

    def deliver(self) -> None:
        """Pass the result to its callback if there is one."""
        with suppress(BlockingIOError):
            while os.read(self.descriptor, 4096):
                pass
        if self._results.empty() or self._then is None:
            return
        result, then, self._then = self._results.get(), self._then, None
        if isinstance(result, BaseException) and not isinstance(result, WeftError):
            raise result
        then(result)

    def close(self) -> None:
        """End the thread after its function."""
        self._work.put(None)
        if self._thread is not None:
            self._thread.join(_CLOSING_S)
        if self._thread is None or not self._thread.is_alive():
            os.close(self.descriptor)
            os.close(self._waker)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueContext:
    """The execution to which jobs belong, and where its files are."""

    machines: Mapping[int, Partition]
    folders: Mapping[int, Path]
    """By machine: the folder of its jobs, on the file system of the cluster."""
    scope: RunnerScope
    token: str
    """Secret of the execution."""
    is_known: Callable[[int, int, str], bool]
    """Returns whether the journal of an execution contains an attempt with this number and this nonce."""
    bundle: Callable[[], bytes]
    """Returns the content of the file that jobs run."""
    earlier: int = 1
    """Number of commands of Slurm that were started just before."""


@dataclass(slots=True)
class FoundPrograms:
    """Programs that an earlier engine started; see ``SurvivingPrograms``."""

    running: set[int] = field(default_factory=set)
    ends: dict[int, ProgramReport] = field(default_factory=dict)
    starts: dict[int, Mapping[str, Any]] = field(default_factory=dict)


class JobQueue:
    """Runs programs as jobs of Slurm: the methods of a ``Transport`` without those about the host."""

    def __init__(self, context: QueueContext, poller: select.poll) -> None:
        """Create the queue; ``poller`` gets the descriptor that announces reports."""
        self._context = context
        self._scope = context.scope
        self._thread = CommandThread()
        poller.register(self._thread.descriptor, select.POLLIN)
        described = list(context.machines.values())
        rates = [_number(machine, "commands_per_s", 4.0) for machine in described]
        polls = [_number(machine, "poll_every", 2.0) for machine in described]
        self._poll_every_s = min(polls)
        self._controller = SlurmController(
            commands_per_s=min(rates),
            earlier=context.earlier,
            poll_every_s=self._poll_every_s,
        )
        self._jobs: dict[int, QueuedJob] = {}
        """By attempt: the jobs whose ends were not reported."""
        self._files: dict[int, JobFiles] = {}
        """By attempt whose end is not confirmed: the files of its job."""
        self._waiting: deque[int] = deque()
        """Attempts whose jobs are to be submitted."""
        self._cancels: set[str] = set()
        """Numbers of jobs that Slurm must cancel."""
        self._signals: list[tuple[str, str]] = []
        self._lookups: list[QueuedJob] = []
        """Jobs about which the accounting database is asked."""
        self._strange: list[JobFiles] = []
        """Files of jobs that are not in the journal; removed after these jobs have ended."""
        self._is_clear = False
        """Whether no job of an attempt that is not in the journal exists any more."""
        self._stale_s = {
            machine: seconds_of(each.backend, "heartbeat", _STALE_S)
            for machine, each in context.machines.items()
        }
        """By machine: seconds without a heartbeat after which a job is cancelled."""
        self._retry_s = 0.0
        """Time on the monotonic clock before which no command is tried, because Slurm does not answer."""
        self._submit_s = 0.0
        """Time before which no job is submitted, because a limit on jobs was reached."""
        self._silence = self._refusal = ""
        """Why no job can be submitted: Slurm does not answer, or a limit on jobs is reached; "": none."""
        self._delayed: dict[int, str] = {}
        """By attempt: the reported reason for which its job waits."""
        self._slow_s = _SLOW_S + 2.0 / min(rates)
        """Seconds without an answer to a command, which may have to wait for its turn, that are reported."""
        self._polled_s = -math.inf
        self._checked_s = time.monotonic()
        self._partitions: tuple[NodeGroup, ...] | None = None
        self._array_limit: int | None = None
        """Largest number of elements of an array at this site; None: not asked yet."""
        stated = [int(each.backend.get("array_size") or _ARRAY_SIZE) for each in described]
        self._stated_elements = self._most_elements = min(stated)
        """Number of jobs that are submitted as one array at most: as stated, and now, after refusals."""
        self._bundles: dict[int, Path] = {}
        self._ledgers: dict[int, RecordLog] = {}
        self._backlog: list[ProgramReport] = []
        self._boot = boot_id()
        self._pilots = PilotPool(
            context.machines, context.folders.__getitem__, context.token, self._thread.wake
        )

    # Requests of the engine.

    def start(self, machine: int, order: Mapping[str, Any]) -> str:
        """Write the order of a job and queue its submission; return why this failed, or ""."""
        attempt, nonce = int(order["attempt"]), str(order["nonce"])
        if self._pilots.takes(machine, order):
            self._pilots.add(machine, order)
            return ""
        try:
            files = JobFiles.of(self._folder(machine), attempt, nonce, self._context.token)
            # Another scope than that of local programs, whose transport kills what it does not know.
            files.write(order, f"slurm-{self._scope}")
        except OSError as error:
            return f"the order of its job cannot be written: {error}"
        name, nodes = self._name(attempt, nonce), int(order.get("nodes") or 1)
        self._jobs[attempt] = QueuedJob(machine, files, name, order, nodes=nodes)
        self._waiting.append(attempt)
        return ""

    def cancel(self, machine: int, attempt: int, grace_s: float) -> None:  # noqa: ARG002
        """End a program; a job that waits in the queue is cancelled without starting it."""
        if attempt in self._pilots:
            self._deliver(self._pilots.cancel(attempt, grace_s))
            return
        if (job := self._jobs.get(attempt)) is None:
            return
        job.is_cancelled = True
        if job.files.take_order() is not None:
            self._report(job, {"cause": "cancelled", "text": "it was cancelled before it started"})
            return
        job.files.request_end(grace_s)
        job.kill_at_s = min(job.kill_at_s, time.monotonic() + min(grace_s, 1e9) + _LATE_KILL_S)
        if job.number:
            self._signals.append((job.number, "TERM"))

    def signal(self, machine: int, attempt: int, name: str) -> None:  # noqa: ARG002
        """Send a signal to a program through its job."""
        if attempt in self._pilots:
            self._pilots.signal(attempt, name)
        elif (job := self._jobs.get(attempt)) is not None:
            job.signals.append(_SIGNALS.get(name, name))
            self._pass_signals(job)

    def _pass_signals(self, job: QueuedJob) -> None:
        """Send the signals of a job; before its start was seen, they are kept."""
        if job.number and job.has_started:
            self._signals += [(job.number, name) for name in job.signals]
            job.signals.clear()

    def forget(self, machine: int, attempt: int) -> None:  # noqa: ARG002
        """Remove the files of an ended job."""
        if not self._pilots.forget(attempt) and (files := self._files.pop(attempt, None)) is not None:
            files.remove()

    def measure(self, machine: int, every_s: float) -> None:  # noqa: ARG002
        """Report that load, memory and disk of a partition are unknown."""
        self._backlog.append({"is": "measured", "machine": machine})
        self._thread.wake()

    def has_jobs(self, machine: int) -> bool:
        """Return whether a machine has jobs whose ends were not reported."""
        return any(job.machine == machine for job in self._jobs.values())

    def flush(self) -> None:
        """Send messages to pilots; run the next command of Slurm, if none is running."""
        if self._is_clear and self._pilots.is_clear:
            self._dispatch()
        self._pilots.flush()
        if self._thread.busy or (now_s := time.monotonic()) < self._retry_s:
            return
        if self._signals:
            self._send_signals()
        elif self._cancels:
            numbers = sorted(self._cancels)
            self._thread.run(lambda: self._controller.cancel(numbers), lambda end: self._sent(numbers, end))
        elif not self._is_clear and (self._jobs or self._strange or self._pilots.has_waiting):
            self._thread.run(self._ask_queue, self._clear)
        elif self._lookups:
            asked, self._lookups = self._lookups, []
            numbers = [job.number for job in asked]
            self._thread.run(
                lambda: self._controller.ask_accounting(numbers), lambda found: self._looked_up(asked, found)
            )
        elif self._jobs and now_s >= self._polled_s + self._poll_every_s:
            self._polled_s = now_s
            self._thread.run(self._controller.poll, self._polled)
        elif self._waiting and now_s >= self._submit_s:
            self._submit_next()

    def receive(self, descriptor: int) -> list[ProgramReport]:  # noqa: ARG002
        """Return the reports that follow from the result of a command."""
        self._thread.deliver()
        self._deliver(self._pilots.collect())
        self.flush()
        return self._take_backlog()

    def _dispatch(self) -> None:
        """Let pilots run the programs that wait for them, and queue the jobs of new pilots."""
        used: dict[int, int] = {}
        for job in self._jobs.values():
            if job.pilot is None:
                used[job.machine] = used.get(job.machine, 0) + job.nodes
        for pilot in self._pilots.dispatch(used):
            files, order = pilot.files, self._pilots.describe(pilot)
            job = QueuedJob(pilot.machine, files, self._name(files.attempt, files.nonce), order, pilot=pilot)
            self._jobs[files.attempt] = job
            try:
                files.write(order, f"slurm-{self._scope}")
            except OSError as error:
                self._report(
                    job, {"cause": "lost", "text": f"the order of its job cannot be written: {error}"}
                )
                continue
            self._waiting.append(files.attempt)

    def _deliver(self, reports: Sequence[ProgramReport]) -> None:
        """Pass reports on programs of pilots to the engine."""
        for each in reports:
            self._delayed.pop(each["attempt"], None)
            report = {key: value for key, value in each.items() if key not in {"machine_index", "n"}}
            if report["is"] == "ended":
                report["boot"] = self._boot
                self._add_to_ledger(each["machine_index"], report)
            self._backlog.append(report)
        if reports:
            self._thread.wake()

    def check(self) -> list[ProgramReport]:
        """Read the records of jobs; return reports on programs."""
        self._deliver(self._pilots.collect())
        now_s = time.monotonic()
        if (gap_s := now_s - self._checked_s) > _GAP_S:
            for job in self._jobs.values():
                job.beat_at_s += gap_s
        self._checked_s = now_s
        for attempt in list(self._jobs)[:_LOOKS]:
            job = self._jobs.pop(attempt)
            self._jobs[attempt] = job  # read after all others the next time
            self._look(job, now_s)
        self.flush()
        self._report_delays(now_s)
        return self._take_backlog()

    def _report_delays(self, now_s: float) -> None:
        """Report the programs whose jobs cannot be submitted now, and why."""
        is_slow = self._thread.busy and now_s - self._thread.since_s > self._slow_s
        jobs = [job for job in self._jobs.values() if not job.number and not job.is_cancelled]
        if not jobs and not self._pilots.has_waiting:
            self._refusal = ""
        obstacle = self._silence or self._refusal
        if not obstacle and not is_slow:
            return
        waiting = [_identity(job) for job in jobs if job.pilot is None and job.order is not None]
        for each in (*waiting, *self._pilots.list_waiting()):
            if obstacle or each["attempt"] not in self._delayed:
                self._report_delay(each, obstacle or _describe_obstacle(_SLOW))

    def _report_delay(self, identity: Mapping[str, Any], reason: str) -> None:
        if self._delayed.get(identity["attempt"]) != reason:
            self._delayed[identity["attempt"]] = reason
            self._backlog.append({"is": "delayed", "text": reason, **identity})

    def report_first(self, report: ProgramReport) -> None:
        """Return a report at the next check, before all others."""
        self._backlog.insert(0, report)

    def _take_backlog(self) -> list[ProgramReport]:
        found, self._backlog = self._backlog, []
        return found

    def find_jobs(self, known: Mapping[int, str]) -> FoundPrograms:
        """Find the jobs of an earlier engine by their files; jobs of attempts not in ``known`` are ended.

        ``known`` has the nonces of attempts by number.
        """
        found = FoundPrograms()
        for machine in self._context.machines:
            for files in JobFiles.find(self._folder(machine), self._context.token):
                if files.attempt >= PILOT_NUMBERS:
                    self._recover_pilot(machine, files, known, found)
                    continue
                if known.get(files.attempt) != files.nonce:
                    files.take_order()
                    files.request_end(0.0)
                    self._strange.append(files)
                    continue
                self._recover(machine, files, found)
        return found

    def _recover(self, machine: int, files: JobFiles, found: FoundPrograms) -> None:
        end, start = files.read(EXIT, START)
        given = files.read_order()
        if start is None and given is not None:
            start = {"at": time.time(), "reminder": given["order"].get("reminder")}
        if start is not None:
            found.starts[files.attempt] = start
        noted = files.read_number()
        if end is not None and not (noted.number and _is_ended_from_outside(end)):
            self._files[files.attempt] = files
            found.ends[files.attempt] = {**end, "boot": self._boot}
            return
        number, name = noted.number, noted.array or self._name(files.attempt, files.nonce)
        job = QueuedJob(machine, files, name, None if given is None else given["order"], number)
        job.limit_s, job.index = noted.limit_s, noted.index
        job.submitted_s = job.beat_at_s = time.monotonic()
        job.is_doubtful = not number
        self._jobs[files.attempt] = job
        if not number:
            self._waiting.append(files.attempt)
        else:
            self._backlog.append({"is": "queued", "job": number, "again": True, **_identity(job)})
        found.running.add(files.attempt)

    def _recover_pilot(
        self, machine: int, files: JobFiles, known: Mapping[int, str], found: FoundPrograms
    ) -> None:
        end = files.read(EXIT)[0]
        pilot, starts, ends = self._pilots.recover(machine, files, known, is_over=end is not None)
        found.starts.update(starts)
        found.ends.update({attempt: {**each, "boot": self._boot} for attempt, each in ends.items()})
        found.running |= starts.keys() - ends.keys()
        if end is None:
            given = files.read_order()
            noted = files.read_number()
            number, name = noted.number, noted.array or self._name(files.attempt, files.nonce)
            job = QueuedJob(machine, files, name, None if given is None else given["order"], number)
            job.pilot, job.limit_s, job.is_doubtful = pilot, noted.limit_s, not number
            job.index = noted.index
            pilot.number = number
            job.submitted_s = job.beat_at_s = time.monotonic()
            self._jobs[files.attempt] = job
            if not number:
                self._waiting.append(files.attempt)
            accepted = [task for task in pilot.tasks.values() if task.order is None and number]
            for task in accepted:
                report = {"is": "queued", "job": number, "again": True}
                self._backlog.append({**report, "attempt": task.attempt, "nonce": task.nonce})

    def close(self, *, stop: bool) -> None:
        """End the thread; with ``stop``, jobs that must be cancelled are cancelled first."""
        pilots = [job for job in self._jobs.values() if job.pilot is not None] if stop else []
        for job in pilots:
            del self._jobs[job.files.attempt]
            job.files.take_order()
            job.files.request_end(0.0)
            if job.number:
                self._cancels.add(job.number)
        end_s = time.monotonic() + (_CLOSING_S if stop else 0.0)
        while time.monotonic() < end_s and (self._cancels or self._thread.busy):
            self._signals.clear()
            self._waiting.clear()
            self.flush()
            select.select([self._thread.descriptor], [], [], 0.2)
            self._thread.deliver()
        self._thread.close()
        self._pilots.close()
        end_s = time.monotonic() + _LEAVING_S
        for job in pilots:
            while job.has_started and job.files.read(EXIT)[0] is None and time.monotonic() < end_s:
                time.sleep(0.05)
            if not job.has_started or job.files.read(EXIT)[0] is not None:
                job.files.remove()

    # Commands of Slurm.

    def _send_signals(self) -> None:
        name = self._signals[0][1]
        numbers = [number for number, each in self._signals if each == name]
        self._signals = [each for each in self._signals if each[1] != name]
        # A failed signal is not repeated: a job reads requests to end from its files, too.
        self._thread.run(lambda: self._controller.signal(numbers, name), self._handle_signal_answer)

    def _handle_signal_answer(self, answer: object) -> None:
        self._note_answer(answer)

    def _note_answer(self, answer: object) -> bool:
        """Return whether Slurm answered; if not, no command is tried for a while."""
        if isinstance(answer, SlurmUnreachable):
            self._retry_s = time.monotonic() + min(answer.retry_in_s, self._poll_every_s)
            what = _FULL if answer.cause is SlurmCause.QUEUE_FULL else _SILENT
            self._silence = _describe_obstacle(what, answer.problem)
        elif not isinstance(answer, WeftError):
            self._silence = ""
        return not isinstance(answer, WeftError)

    def _sent(self, numbers: Sequence[str], answer: object) -> None:
        if self._note_answer(answer) or isinstance(answer, SlurmRefused):
            self._cancels.difference_update(numbers)

    def _ask_queue(self) -> QueueSnapshot:
        self._controller.find(())
        return self._controller.poll()

    def _clear(self, answer: QueueSnapshot | WeftError) -> None:
        """Cancel the jobs of this project that are not in the journal, before any job is submitted."""
        if isinstance(answer, WeftError):
            self._note_answer(answer)
            if isinstance(answer, SlurmRefused):
                self._silence = _describe_obstacle("Slurm does not list its jobs", answer.problem)
            self._retry_s = max(self._retry_s, time.monotonic() + self._poll_every_s)
            return
        self._silence = ""
        names = {(job.name, job.index) for job in self._jobs.values()}
        left = {
            job.id
            for job in answer.jobs.values()
            if job.state.phase is not JobPhase.FINAL and self._is_strange(job, names)
        }
        self._cancels |= left
        self._is_clear = not left and answer.problem is None
        if self._is_clear:
            for files in self._strange:
                files.remove()
            self._strange.clear()
            self._polled(answer)
        else:
            self._retry_s = time.monotonic() + (0.5 if not self._cancels else 0.0)

    def _is_strange(self, job: JobStatus, known: set[tuple[str, int]]) -> bool:
        prefix, home, execution = [*job.comment.split("-"), "", ""][:3]
        if prefix != "weft" or home != self._scope.home or not execution.isdecimal():
            return False
        if int(execution) == self._scope.execution:
            return (job.name, element_index(job.id)) not in known
        attempt, nonce = [*job.name.split("-"), "", "", ""][2:4]
        if not attempt.isdecimal() or int(attempt) >= MODULE_NUMBERS:
            return False
        return not self._context.is_known(int(execution), int(attempt), nonce)

    def _submit_next(self) -> None:
        """Submit the next job, with equal ones as an array, or look for jobs that may have been submitted."""
        waiting = [job for job in map(self._jobs.get, self._waiting) if job is not None and not job.number]
        self._waiting = deque(job.files.attempt for job in waiting)
        if not waiting:
            return
        first = waiting[0]
        if first.order is None or first.is_doubtful:
            group = [
                job for job in waiting if job.name == first.name and (job.order is None or job.is_doubtful)
            ]
            self._take(group)
            self._thread.run(lambda: self._find(first.name), lambda found: self._located(group, found))
            return
        batch = self._list_equal(waiting)
        if len(batch) > 1 and self._array_limit is None:
            self._thread.run(self._controller.find_array_limit, self._note_array_limit)
            return
        batch = batch[: min(self._most_elements, self._array_limit or 1)]
        jobs = [each.job for each in batch]
        self._take(jobs)
        if len(batch) > 1:
            for index, job in enumerate(jobs):
                job.name, job.index = jobs[0].name, index
                job.note_number()  # so that the element is found if its submission is not confirmed
        if batch:
            self._thread.run(lambda: self._submit(batch), lambda answer: self._submitted(jobs, answer))

    def _take(self, jobs: Sequence[QueuedJob]) -> None:
        """Remove jobs from those that wait for their submission."""
        taken = {job.files.attempt for job in jobs}
        self._waiting = deque(attempt for attempt in self._waiting if attempt not in taken)

    def _list_equal(self, waiting: Sequence[QueuedJob]) -> list[_DescribedJob]:
        """Return the first of the waiting jobs and others that can be elements of one array with it."""
        found: list[_DescribedJob] = []
        settings = self._context.machines[waiting[0].machine].backend
        most = 1 if settings.get("mode") == "job" else self._most_elements
        for job in waiting:
            if job.order is None or job.is_doubtful or (found and job.machine != found[0].job.machine):
                continue
            try:
                described = self._describe(job, job.order)
            except OSError as error:
                self._report(job, {"cause": "lost", "text": f"its job cannot be written: {error}"})
                continue
            if not found or found[0].fits(described):
                found.append(described)
            if len(found) >= most:
                break
        return found

    def _note_array_limit(self, answer: int | WeftError) -> None:
        if isinstance(answer, int):
            self._array_limit = answer
        else:
            self._note_answer(answer)

    def _find(self, name: str) -> dict[int, str]:
        """Return the numbers of the jobs with a name, by index of the element."""
        numbers: dict[int, str] = {}
        found = self._controller.find([name]).get(name, ())
        for each in sorted(found, key=lambda each: each.state.phase is not JobPhase.FINAL):
            numbers[element_index(each.id)] = each.id  # living ones last
        return numbers

    def _located(self, jobs: Sequence[QueuedJob], answer: Mapping[int, str] | WeftError) -> None:
        """Note the numbers of jobs that had been submitted; the others are submitted again."""
        if isinstance(answer, WeftError):
            self._note_answer(answer)
            self._waiting.extendleft(job.files.attempt for job in reversed(jobs))
            return
        for job in jobs:
            if number := answer.get(job.index):
                self._note_submission(job, number)
            elif job.order is None:  # Slurm does not know the job of a program that has started
                job.ended_at_s = job.ended_at_s or time.monotonic()
            else:
                job.name, job.index = self._name(job.files.attempt, job.files.nonce), -1
                job.is_doubtful = False
                self._waiting.append(job.files.attempt)

    def _submit(self, batch: Sequence[_DescribedJob]) -> str:
        """Submit a job, or an array of several, in the other thread; return its number."""
        first = batch[0]
        described = {**first.described, "name": first.job.name}
        limit_s = self._find_limit_s(first, described["partition"])
        if math.isfinite(limit_s):
            described["limit_s"] = limit_s
            if first.job.pilot is not None and not ends_early(limit_s):
                described["signal"] = ""
            for each in batch:
                each.job.limit_s = limit_s
        if first.memory_doublings:
            described["memory_per_node_bytes"] = self._find_memory(first, described["partition"])
        folder = str(first.job.files.folder)
        if len(batch) > 1:
            names = [each.job.files.folder.name for each in batch]
            root = str(first.job.files.folder.parent)
            job = SlurmJob(**described, output="/dev/null", error="/dev/null", array_size=len(batch))
            return self._controller.submit(job, array_script(first.program, root, names, LOG))
        log = f"{folder}/{LOG}".replace("%", "%%")
        return self._controller.submit(
            SlurmJob(**described, output=log, error=log), job_script([*first.program, folder], "/")
        )

    def _find_memory(self, first: _DescribedJob, partition: str) -> int | None:
        """Return the bytes to request on each node, at most its memory; None: the site has no default."""
        own = self._list_own(partition)
        is_exclusive = first.described["exclusive"] and own
        cores = max(each.cores for each in own) if is_exclusive else int(first.described["cores"] or 1)
        if (default := self._controller.find_default_memory(partition, cores)) is None:
            return None
        return min([default << first.memory_doublings, *(each.memory_per_node_bytes for each in own)])

    def _list_own(self, partition: str) -> list[NodeGroup]:
        """Return the nodes of a partition; "" is the default one."""
        if self._partitions is None:
            self._partitions = self._controller.list_partitions()
        every = self._partitions
        return [each for each in every if each.partition == partition or (not partition and each.default)]

    def _find_limit_s(self, first: _DescribedJob, partition: str) -> float:
        """Return the time limit to request, at most that of the partition; infinity: its default."""
        limit_s = first.limit_s
        if not math.isfinite(limit_s) and not first.doublings:
            return limit_s
        own = self._list_own(partition)
        if not math.isfinite(limit_s):
            defaults = [each.default_limit_s for each in own if each.default_limit_s is not None]
            limit_s = min(defaults, default=math.inf) * 2.0**first.doublings
        return min([limit_s, *(each.limit_s for each in own)])

    def _submitted(self, jobs: Sequence[QueuedJob], answer: str | WeftError) -> None:
        if isinstance(answer, str):
            self._most_elements = min(2 * self._most_elements, self._stated_elements)
            for job in jobs:
                self._note_submission(job, answer if job.index < 0 else f"{answer}_{job.index}")
            return
        # A job that is over may be in the queue, but without an order it does nothing.
        left = [job for job in jobs if self._jobs.get(job.files.attempt) is job]
        if isinstance(answer, SlurmRefused):
            self._handle_refusal(left, answer)
            return
        self._note_answer(answer)
        for job in left:
            job.is_doubtful = True
        self._waiting.extendleft(job.files.attempt for job in reversed(left))

    def _handle_refusal(self, jobs: Sequence[QueuedJob], answer: SlurmRefused) -> None:
        """Report jobs that Slurm refuses; a smaller array or a single job may be accepted."""
        is_full = answer.cause is SlurmCause.QUEUE_FULL
        self._silence = ""
        if len(jobs) > 1 and answer.cause not in _NEVER:
            self._most_elements = len(jobs) // 2
        elif is_full:
            self._submit_s = time.monotonic() + _PAUSE_S
            self._refusal = _describe_obstacle(_FULL, answer.problem)
        for job in jobs:
            job.name, job.index = self._name(job.files.attempt, job.files.nonce), -1
        if is_full or (len(jobs) > 1 and answer.cause not in _NEVER):
            self._waiting.extendleft(job.files.attempt for job in reversed(jobs))
            return
        for job in jobs:
            if job.files.take_order() is not None:
                lasting = answer.cause in _NEVER
                self._report(job, {"cause": "error", "text": str(answer.problem), "lasting": lasting})

    def _note_submission(self, job: QueuedJob, number: str) -> None:
        self._silence = self._refusal = ""
        self._delayed.pop(job.files.attempt, None)
        job.number, job.is_doubtful = number, False
        job.submitted_s, job.submissions = time.monotonic(), job.submissions + 1
        if self._jobs.get(job.files.attempt) is not job:
            self._cancels.add(number)
            return
        job.note_number()
        if job.pilot is None:
            self._backlog.append({"is": "queued", "job": number, **_identity(job)})
        else:
            job.pilot.number = number
        if job.is_cancelled:
            self._signals.append((number, "TERM"))

    def _describe(self, job: QueuedJob, order: Mapping[str, Any]) -> _DescribedJob:
        """Return what a job needs; raises OSError if its program cannot be written."""
        machine = self._context.machines[job.machine]
        stated = machine.backend
        nodes, cores = int(order.get("nodes") or 1), machine.cores
        if machine.node_is_core:
            nodes, cores = 1, int(order.get("slots") or nodes)
        time_s, expected_s = order.get("time_s"), order.get("requested_s")
        limit_s = math.inf
        if job.pilot is not None:
            limit_s = self._pilots.limit_s(job.pilot)
        elif time_s is not None:
            limit_s = float(time_s) + min(2.0 * float(order.get("grace_s") or 0.0), 600.0) + _RESERVE_S
        elif expected_s is not None:
            limit_s = float(expected_s) + _RESERVE_S
        described = {
            "comment": f"weft-{self._scope}", "nodes": nodes, "cores": cores,
            "exclusive": stated.get("exclusive") is True,
            "memory_per_node_bytes": _memory(stated.get("memory_per_node"), order.get("memory_bytes"), nodes),
            "signal": "USR1" if order.get("restart") and time_s is None else "",
            **{key: str(stated.get(key) or "") for key in _SETTINGS},
        }  # fmt: skip
        if job.pilot is not None:
            described.update({"signal": "TERM", "signal_before_s": SIGNAL_BEFORE_S})
        python = str(stated.get("python") or "python3")
        if job.machine not in self._bundles:
            self._bundles[job.machine] = write_bundle(self._folder(job.machine), self._context.bundle())
        program = (python, "-I", "-S", str(self._bundles[job.machine]), "job")
        doublings = 0 if math.isfinite(limit_s) else min(int(order.get("timeouts") or 0), 20)
        is_default = described["memory_per_node_bytes"] is None
        memory_doublings = min(int(order.get("ooms") or 0), 20) if is_default else 0
        return _DescribedJob(
            job=job, described=described, program=program, limit_s=limit_s, doublings=doublings,
            memory_doublings=memory_doublings,
        )  # fmt: skip

    # States of jobs.

    def _polled(self, answer: QueueSnapshot) -> None:
        if answer.problem is not None:
            self._silence = _describe_obstacle(_SILENT, answer.problem)
            return  # unknown
        self._silence = ""
        now_s = time.monotonic()
        for job in list(self._jobs.values()):
            if not job.number:
                continue
            status = answer.jobs.get(job.number)
            if status is None:
                if answer.lacks(job.number, job.submitted_s):
                    job.ended_at_s = job.ended_at_s or now_s
                continue
            job.state = status.state
            if status.state.phase is JobPhase.FINAL:
                job.status, job.ended_at_s = status, job.ended_at_s or now_s
            elif status.state.phase is JobPhase.PENDING:
                self._check_pending(job, status)

    def _check_pending(self, job: QueuedJob, status: JobStatus) -> None:
        """Report a job that can never start, and the programs that wait for a job in the queue."""
        if job.has_started:
            return  # after the answer of Slurm
        cause = find_pending_cause(status.reason)
        if cause in _NEVER and job.files.take_order() is not None:
            text = f"its job can never start: {status.reason}"
            self._report(job, {"cause": "error", "text": text, "lasting": True})
            return
        if cause is SlurmCause.QUEUE_FULL:
            reason = f"a limit on running jobs keeps jobs in the queue of Slurm ({status.reason})"
        elif time.monotonic() < job.submitted_s + _TURN_S:
            return  # most jobs start at once
        else:
            reason = "jobs wait in the queue of Slurm"
            if status.reason not in _TURN:
                reason += f" ({status.reason})"
        programs = [_identity(job)] if job.pilot is None else self._pilots.list_waiting(job.machine)
        for each in programs:
            self._report_delay(each, reason)

    def _look(self, job: QueuedJob, now_s: float) -> None:
        """Read the records of a job and report what has changed."""
        end, start, beat = job.files.read(EXIT, START, BEAT)
        if end is not None and end.get("nonce") == job.files.nonce:
            self._look_at_end(job, end, now_s)
            return
        if start is not None and not job.has_started:
            job.has_started, job.beat_at_s = True, now_s
            job.order = None  # it may contain secrets
            if self._delayed.pop(job.files.attempt, None) is not None:
                self._backlog.append({"is": "started", **_identity(job)})
        if start is not None and job.pilot is not None and not job.pilot.has_started:
            self._pilots.note_start(job.pilot, start, job.limit_s)
        self._pass_signals(job)
        if beat is not None and beat != job.beat:
            job.beat, job.beat_at_s = beat, now_s
            if (stopped := beat.get("stopped") is True) != job.is_stopped:
                job.is_stopped = stopped
                self._backlog.append({"is": "stopped" if stopped else "continued", **_identity(job)})
        if now_s >= job.kill_at_s and job.number:
            self._cancels.add(job.number)
            job.kill_at_s = now_s + self._stale_s[job.machine]
        if job.ended_at_s is not None:
            # A heartbeat is believed more than a Slurm that has lost its state.
            if now_s >= max(job.ended_at_s, job.beat_at_s) + _SETTLING_S:
                self._resolve(job)
        elif job.has_started:
            self._check_beat(job, now_s)

    def _look_at_end(self, job: QueuedJob, end: Record, now_s: float) -> None:
        """Report an end that the job has recorded; Slurm says why it has ended a job."""
        if job.pilot is not None:
            self._report(job, end)
            return
        if _is_ended_from_outside(end) and not job.is_cancelled:
            job.exit_at_s = job.exit_at_s or now_s
            if job.status is None and now_s < job.exit_at_s + _REFINING_S:
                return
            cause, text = _explain(job)
            if cause:
                end = {**end, "cause": cause, "text": text}
        elif end.get("cause") == "preempted":
            end = {**end, "cause": "cancelled"}
        self._report(job, end)

    def _check_beat(self, job: QueuedJob, now_s: float) -> None:
        """Cancel a job without a heartbeat, and report it as lost if this does not help."""
        if job.state in {JobState.SUSPENDED, JobState.STOPPED}:
            job.beat_at_s = now_s
            return
        silent_s, stale_s = now_s - job.beat_at_s, self._stale_s[job.machine]
        text = f"no heartbeat of its job for {silent_s:.0f} s"
        if silent_s > 2.0 * stale_s:
            self._report(job, {"cause": "lost", "text": text})
        elif silent_s > stale_s and job.number:
            job.silence = job.silence or f"{text}, so weft cancelled it"
            self._cancels.add(job.number)

    def _resolve(self, job: QueuedJob) -> None:
        """Report a job that has ended in Slurm without a record of the program's end."""
        if job.status is None and job.number and not job.asked_accounting:
            job.asked_accounting = True
            self._lookups.append(job)
            return
        if job in self._lookups:
            return
        state = job.status.state if job.status is not None else None
        log = job.files.read_log()
        if (given := job.files.take_order()) is not None and state is None and job.submissions < _SUBMISSIONS:
            # Slurm has forgotten the job before it started.
            job.files.restore(given)
            job.order, job.number, job.is_doubtful = given.get("order"), "", True
            job.ended_at_s, job.asked_accounting = None, False
            self._waiting.append(job.files.attempt)
            return
        cause, text = _explain(job)
        has_nodes = job.status is not None and bool(job.status.nodes)
        if given is not None and has_nodes and state is JobState.CANCELLED and not job.silence:
            # Slurm also calls a job cancelled whose script a node could not start.
            cause, text = "lost", "its job was cancelled on its nodes before the program started"
        if not cause:
            how = f"ended as {state.value}" if state is not None else "disappeared from Slurm"
            cause = "error" if given is not None and state is JobState.FAILED else "lost"
            what = "before it started the program" if given is not None else "without a record of its end"
            text = f"its job {job.number} {how} {what}"
        if job.status is not None and job.status.nodes and cause == "lost":
            text += f" (nodes: {', '.join(job.status.nodes)})"
        if job.is_cancelled:
            cause = "cancelled"
        self._report(job, {"cause": cause, "text": f"{text}: {log}" if log else text})

    def _looked_up(self, asked: Sequence[QueuedJob], answer: Mapping[str, JobStatus] | WeftError) -> None:
        if isinstance(answer, WeftError):
            self._note_answer(answer)
            self._lookups += asked
            return
        for job in asked:
            found = answer.get(job.number)
            if found is not None and found.name == job.name and found.state.phase is JobPhase.FINAL:
                job.status = found

    def _report(self, job: QueuedJob, end: Mapping[str, Any]) -> None:
        """Report the end of a program; its job is cancelled unless Slurm has reported its end."""
        attempt = job.files.attempt
        del self._jobs[attempt]
        self._delayed.pop(attempt, None)
        if job.number and job.ended_at_s is None and "seconds" not in end:
            self._cancels.add(job.number)
        if job.pilot is not None:
            is_certain = job.status is not None or not (job.number or job.is_doubtful)
            if not is_certain:
                job.files.request_end(0.0)
            self._deliver(self._pilots.note_end(job.pilot, end, is_certain=is_certain))
            return
        self._files[attempt] = job.files
        now = time.time()
        none = {"is": "ended", "code": None, "signal": None, "at": now, "began": now, "seconds": 0.0}
        report = {**none, **end, **_identity(job), "boot": self._boot}
        self._add_to_ledger(job.machine, report)
        self._backlog.append(report)
        self._thread.wake()

    def _add_to_ledger(self, machine: int, report: Mapping[str, Any]) -> None:
        with suppress(OSError):  # only reports of resource usage read it
            self._ledger(machine).add(encode_record(dict(report)))

    def _ledger(self, machine: int) -> RecordLog:
        if (found := self._ledgers.get(machine)) is None:
            records = SealedRecords(str(self._folder(machine)), self._context.token)
            found = self._ledgers[machine] = RecordLog(records, "ends")
        return found

    def _folder(self, machine: int) -> Path:
        return self._context.folders[machine]

    def _name(self, attempt: int, nonce: str) -> str:
        return f"weft-{self._scope.execution}-{attempt}-{nonce}"


def _explain(job: QueuedJob) -> tuple[str, str]:
    """Return the cause and the text of an end for which Slurm has a reason; empty: it has none."""
    state = job.status.state if job.status is not None else None
    if job.silence and state is JobState.CANCELLED:
        return "lost", job.silence
    return _CAUSES.get(state, ("", "")) if state is not None else ("", "")


def _describe_obstacle(what: str, problem: Problem | None = None) -> str:
    """Return the text for users about jobs that cannot be submitted now."""
    return f"no job can be submitted: {what}" + (f" ({shorten(problem.what, 160)})" if problem else "")


def _identity(job: QueuedJob) -> dict[str, Any]:
    return {"attempt": job.files.attempt, "nonce": job.files.nonce}


def _is_ended_from_outside(end: Record) -> bool:
    """Return whether a recorded end may have a cause that only Slurm can state.

    Slurm sends its signals to the program, too, which may end before the job has noticed them.
    """
    is_killed = not end.get("cause") and end.get("signal") in _KILLING
    return end.get("cause") == "preempted" or is_killed


def _number(machine: Partition, key: str, default: float) -> float:
    value = machine.backend.get(key, default)
    return float(value) if isinstance(value, (int, float)) else default


def _memory(stated: object, wanted_bytes: float | None, nodes: int) -> int | None:
    """Return the memory to request on each node; None: the default of the site."""
    per_node = parse_bytes(str(stated)) if stated is not None else None
    if wanted_bytes is None:
        return None if per_node is None else int(per_node)
    needed = math.ceil(wanted_bytes / nodes) + _RESERVE_BYTES
    return needed if per_node is None else min(needed, int(per_node))


def find_wrong_partition(machine: Partition, groups: Sequence[NodeGroup]) -> Iterator[Problem]:
    """Yield why the partition of a machine cannot be used; ``groups`` are the nodes of the cluster."""
    if not groups:
        return
    where = f"machine {machine.name!r}: backend"
    wanted = machine.backend.get("partition")
    names = sorted({group.partition for group in groups})
    own = [group for group in groups if group.partition == wanted or (wanted is None and group.default)]
    if not own and wanted is None:
        yield Problem(
            what=f"{where}: no partition, and this Slurm has no default",
            advice=f"set `partition`: {', '.join(names)}",
        )
    elif not own:
        near = nearest(str(wanted), names)
        advice = f"did you mean {near!r}?" if near else f"partitions here: {', '.join(names)}"
        yield Problem(what=f"{where}: there is no partition {wanted!r}", advice=advice)
        return
    per_node = [group.cores if machine.node_is_core else 1 for group in own]
    count = sum(group.count * size for group, size in zip(own, per_node))
    word = "cores" if machine.node_is_core else "nodes"
    if own and machine.nodes > count:
        yield Problem(
            what=f"machine {machine.name!r}: {machine.nodes} {word}",
            rule=f"partition {own[0].partition!r} has {count} {word}",
            advice="correct `nodes` of the machine",
        )
