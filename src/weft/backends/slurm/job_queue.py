"""Transport of the Slurm backend: jobs that run one program, or many as pilots, on a shared file system.

The state of a job follows from its own records first (``job.py``), then from ``squeue``, then from ``sacct``
where a site has it. While the controller does not answer, the state is unknown and nothing is reported. All
state belongs to the thread of the engine. One other thread runs the commands of Slurm, one at a time: signals
and cancellations first, then ``squeue``, then submissions.

A program starts at most once, whatever the controller forgets: the job that removes the order runs it. A job
that Slurm does not know, and whose order is still there, is therefore submitted again. If the engine has
removed the order, the job does nothing, even if Slurm starts it.
"""

from __future__ import annotations

import math
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from weft.backends.attempt.attempt import ProgramReport
from weft.backends.attempt.backend import SurvivingPrograms
from weft.backends.attempt.digests import boot_id
from weft.backends.backend import ProjectContext, RecoveredAttempt
from weft.backends.local.link import MachineHealth
from weft.backends.local.records import Record, RecordLog, SealedRecords, encode_record
from weft.backends.local.runner_link import RunnerScope
from weft.backends.slurm.commands import (
    JobPhase,
    JobState,
    JobStatus,
    NodeGroup,
    SlurmCause,
    SlurmJob,
    find_pending_cause,
    job_script,
)
from weft.backends.slurm.controller import QueueSnapshot, SlurmController, SlurmRefused, SlurmUnreachable
from weft.backends.slurm.job_files import LOG, JobFiles, write_bundle
from weft.backends.slurm.pilot import BEAT, EXIT, START
from weft.backends.slurm.pilots import (
    MODULE_NUMBERS,
    PILOT_NUMBERS,
    SIGNAL_BEFORE_S,
    Pilot,
    PilotPool,
    ends_early,
)
from weft.errors import WeftError
from weft.platform.machine import Machine
from weft.records import dataclass
from weft.units import parse_bytes

_SETTLING_S = 3.0
"""Seconds for which the record of an end may be on its way after Slurm has reported the end of the job."""
_REFINING_S = 10.0
"""Seconds for which the engine waits until Slurm says why it has ended a job."""
_STALE_S = 20.0
"""Seconds without a heartbeat after which a job is cancelled; it is lost after the same time again."""
_GAP_S = 5.0
"""Seconds between two checks from which the engine itself, not a job, was late."""
_LATE_KILL_S = 5.0
"""Seconds after the grace period after which a job that does not end is cancelled by Slurm."""
_LOOKS = 300
"""Number of jobs whose records are read in one check."""
_SUBMISSIONS = 3
_PAUSE_S = 10.0
"""Seconds after which a job is submitted again if a limit on the number of jobs was reached."""
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


class CommandThread:
    """Runs one function at a time beside the engine; its result arrives through a descriptor."""

    def __init__(self) -> None:
        self.descriptor, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._work: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._results: SimpleQueue[Any] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._then: Callable[[Any], None] | None = None

    @property
    def busy(self) -> bool:
        """Return whether a function runs, or its result was not delivered."""
        return self._then is not None

    def run(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """Call ``work`` in the thread; ``deliver`` passes its result, or its WeftError, to ``then``."""
        self._then = then
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


class JobQueue:
    """Transport that runs every program as a job of Slurm."""

    def __init__(self, context: ProjectContext, poller: select.poll, machines: Sequence[int]) -> None:
        """Create the transport to ``machines`` of the platform."""
        self._context = context
        self._machines = machines
        self._scope = RunnerScope.of(context.layout.home, context.execution)
        self._thread = CommandThread()
        poller.register(self._thread.descriptor, select.POLLIN)
        described = [context.machines[machine] for machine in self._machines]
        rates = [_number(machine, "commands_per_s", 4.0) for machine in described]
        polls = [_number(machine, "poll_every", 2.0) for machine in described]
        self._poll_every_s = min(polls)
        self._controller = SlurmController(
            commands_per_s=min(rates),
            earlier=1,  # the check of the machines has asked for the partitions
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
        self._retry_s = 0.0
        """Time on the monotonic clock before which no command is tried, because Slurm does not answer."""
        self._submit_s = 0.0
        """Time before which no job is submitted, because a limit on jobs was reached."""
        self._polled_s = -math.inf
        self._checked_s = time.monotonic()
        self._partitions: tuple[NodeGroup, ...] | None = None
        self._bundles: dict[int, Path] = {}
        self._ledgers: dict[int, RecordLog] = {}
        self._backlog: list[ProgramReport] = []
        self._health = MachineHealth(context)
        self._boot = boot_id()
        self._pilots = PilotPool(context.machines, self._folder, context.token, self._thread.wake)

    # Requests of the engine.

    def start(self, machine: int, order: Mapping[str, Any]) -> str:
        """Write the order of a job and queue its submission; return why this failed, or ""."""
        if machine in self._health.lost:
            return self._health.lost[machine].problem
        attempt, nonce = int(order["attempt"]), str(order["nonce"])
        if self._pilots.takes(machine, order):
            self._health.remember(machine)
            self._pilots.add(machine, order)
            return ""
        try:
            files = JobFiles.of(self._folder(machine), attempt, nonce, self._context.token)
            # Another scope than that of local programs, whose transport kills what it does not know.
            files.write(order, f"slurm-{self._scope}")
        except OSError as error:
            return f"the order of its job cannot be written: {error}"
        self._health.remember(machine)
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

    def inspect(self, machine: int) -> str:
        """Return why the sandbox of a machine cannot be used now, or ""; such a machine is lost."""
        if machine in self._health.lost:
            return self._health.lost[machine].problem
        problem = self._health.find_problem(machine)
        if self._health.is_full(machine) and any(job.machine == machine for job in self._jobs.values()):
            return ""
        if problem and self._health.lose(machine, problem):
            facts = {"lasting": self._health.is_lasting(machine), "full": self._health.is_full(machine)}
            self._backlog.insert(0, {"is": "lost", "machine": machine, "text": problem, **facts})
        return problem

    def responds(self, machine: int) -> bool:  # noqa: ARG002
        """Return True: a Slurm that does not answer says nothing about its jobs."""
        return True

    def reattach(self, machine: int) -> None:
        """Do nothing: there is no connection to a job."""

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
            report = {key: value for key, value in each.items() if key not in {"machine_index", "n"}}
            if report["is"] == "ended":
                report["boot"] = self._boot
                self._add_to_ledger(each["machine_index"], report)
            self._backlog.append(report)
        if reports:
            self._thread.wake()

    def check(self) -> list[ProgramReport]:
        """Read the records of jobs; return reports on programs and machines."""
        returned = self._find_returned()
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
        return [*returned, *self._take_backlog()]

    def _take_backlog(self) -> list[ProgramReport]:
        found, self._backlog = self._backlog, []
        return found

    def _find_returned(self) -> list[ProgramReport]:
        found: list[ProgramReport] = []
        for machine in self._health.due():
            if problem := self._health.restore(machine):
                self._health.postpone(machine, problem)
            else:
                self._health.lost.pop(machine)
                found.append({"is": "back", "machine": machine})
        return found

    def recover(self, attempts: Sequence[RecoveredAttempt]) -> SurvivingPrograms:
        """Find the jobs of an earlier engine by their files; jobs of other attempts are ended."""
        known = {each.attempt: each.nonce for each in attempts}
        found = SurvivingPrograms()
        for machine in self._machines:
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

    def _recover(self, machine: int, files: JobFiles, found: SurvivingPrograms) -> None:
        end, start = files.read(EXIT, START)
        given = files.read_order()
        if start is None and given is not None:
            start = {"at": time.time(), "reminder": given["order"].get("reminder")}
        if start is not None:
            found.starts[files.attempt] = start
        if end is not None:
            self._files[files.attempt] = files
            found.ends[files.attempt] = {**end, "boot": self._boot}
            return
        number, limit_s = files.read_number()
        name = self._name(files.attempt, files.nonce)
        job = QueuedJob(machine, files, name, None if given is None else given["order"], number)
        job.limit_s = limit_s
        job.submitted_s = job.beat_at_s = time.monotonic()
        job.is_doubtful = not number
        self._jobs[files.attempt] = job
        if not number:
            self._waiting.append(files.attempt)
        found.running.add(files.attempt)

    def _recover_pilot(
        self, machine: int, files: JobFiles, known: Mapping[int, str], found: SurvivingPrograms
    ) -> None:
        end = files.read(EXIT)[0]
        pilot, starts, ends = self._pilots.recover(machine, files, known, is_over=end is not None)
        found.starts |= starts
        found.ends |= {attempt: {**each, "boot": self._boot} for attempt, each in ends.items()}
        found.running |= starts.keys() - ends.keys()
        if end is None:
            given = files.read_order()
            number, limit_s = files.read_number()
            order = None if given is None else given["order"]
            job = QueuedJob(machine, files, self._name(files.attempt, files.nonce), order, number)
            job.pilot, job.limit_s, job.is_doubtful = pilot, limit_s, not number
            pilot.number = number
            job.submitted_s = job.beat_at_s = time.monotonic()
            self._jobs[files.attempt] = job
            if not number:
                self._waiting.append(files.attempt)

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
            self._retry_s = max(self._retry_s, time.monotonic() + self._poll_every_s)
            return
        names = {job.name for job in self._jobs.values()}
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

    def _is_strange(self, job: JobStatus, known: set[str]) -> bool:
        prefix, home, execution = [*job.comment.split("-"), "", ""][:3]
        if prefix != "weft" or home != self._scope.home or not execution.isdecimal():
            return False
        if int(execution) == self._context.execution:
            return job.name not in known
        attempt, nonce = [*job.name.split("-"), "", "", ""][2:4]
        if not attempt.isdecimal() or int(attempt) >= MODULE_NUMBERS:
            return False
        return not self._context.is_known(int(execution), int(attempt), nonce)

    def _submit_next(self) -> None:
        job = self._jobs.get(self._waiting.popleft())
        while (job is None or job.number) and self._waiting:
            job = self._jobs.get(self._waiting.popleft())
        if job is None or job.number:
            return
        if job.order is None:  # it was started, and only its number is unknown
            work: Callable[[], str] = lambda: self._find(job)  # noqa: E731
        else:
            try:
                described, script, limit_s = self._describe(job, job.order)
            except OSError as error:
                self._report(job, {"cause": "lost", "text": f"its job cannot be written: {error}"})
                return
            work = lambda: self._submit(job, described, script, limit_s)  # noqa: E731
        self._thread.run(work, lambda answer: self._submitted(job, answer))

    def _find(self, job: QueuedJob) -> str:
        """Return the number of the job with this name; "" if Slurm has none."""
        found = self._controller.find([job.name]).get(job.name, ())
        living = [each.id for each in found if each.state.phase is not JobPhase.FINAL]
        return [*(each.id for each in found), *living][-1] if found else ""

    def _submit(self, job: QueuedJob, described: Mapping[str, Any], script: str, limit_s: float) -> str:
        """Submit a job in the other thread; return its number."""
        if job.is_doubtful and (number := self._find(job)):
            return number
        if math.isfinite(limit_s):
            if self._partitions is None:
                self._partitions = self._controller.list_partitions()
            wanted = described["partition"]
            limits = [
                each.limit_s
                for each in self._partitions
                if each.partition == wanted or (not wanted and each.default)
            ]
            job.limit_s = min(limit_s, *limits) if limits else limit_s
            described = {**described, "limit_s": job.limit_s}
            if job.pilot is not None and not ends_early(job.limit_s):
                described["signal"] = ""
        return self._controller.submit(SlurmJob(**described), script)

    def _submitted(self, job: QueuedJob, answer: str | WeftError) -> None:
        attempt = job.files.attempt
        is_over = self._jobs.get(attempt) is not job
        if isinstance(answer, str) and answer:
            job.number, job.is_doubtful = answer, False
            job.submitted_s, job.submissions = time.monotonic(), job.submissions + 1
            if is_over:
                self._cancels.add(answer)
            else:
                job.files.note_number(answer, job.limit_s)
                if job.pilot is None:
                    self._backlog.append({"is": "queued", "job": answer, **_identity(job)})
                else:
                    job.pilot.number = answer
                if job.is_cancelled:
                    self._signals.append((answer, "TERM"))
        elif is_over:
            # It may be in the queue, but without an order it does nothing.
            self._note_answer(answer)
        elif isinstance(answer, SlurmRefused):
            if answer.cause is SlurmCause.QUEUE_FULL:
                self._waiting.appendleft(attempt)
                self._submit_s = time.monotonic() + _PAUSE_S
            elif job.files.take_order() is not None:
                lasting = answer.cause in _NEVER
                self._report(job, {"cause": "error", "text": str(answer.problem), "lasting": lasting})
        elif isinstance(answer, WeftError):
            self._note_answer(answer)
            job.is_doubtful = True
            self._waiting.appendleft(attempt)
        else:  # Slurm does not know the job of a program that has started
            job.ended_at_s = job.ended_at_s or time.monotonic()

    def _describe(self, job: QueuedJob, order: Mapping[str, Any]) -> tuple[dict[str, Any], str, float]:
        """Return what a job needs, its script, and its time limit (infinity: that of the partition)."""
        machine = self._context.machines[job.machine]
        stated = machine.backend
        nodes, cores = int(order.get("nodes") or 1), machine.cores
        if machine.node_is_core:
            nodes, cores = 1, int(order.get("slots") or nodes)
        folder = str(job.files.folder)
        time_s, expected_s = order.get("time_s"), order.get("requested_s")
        limit_s = math.inf
        if job.pilot is not None:
            limit_s = self._pilots.limit_s(job.pilot)
        elif time_s is not None:
            limit_s = float(time_s) + min(2.0 * float(order.get("grace_s") or 0.0), 600.0) + _RESERVE_S
        elif expected_s is not None:
            limit_s = float(expected_s) + _RESERVE_S
        log = f"{folder}/{LOG}".replace("%", "%%")
        described = {
            "name": job.name, "comment": f"weft-{self._scope}", "output": log, "error": log,
            "nodes": nodes, "cores": cores, "exclusive": stated.get("exclusive") is True,
            "memory_per_node_bytes": _memory(stated.get("memory_per_node"), order.get("memory_bytes"), nodes),
            "signal": "USR1" if order.get("restart") and time_s is None else "",
            **{key: str(stated.get(key) or "") for key in _SETTINGS},
        }  # fmt: skip
        if job.pilot is not None:
            described |= {"signal": "TERM", "signal_before_s": SIGNAL_BEFORE_S}
        if job.machine not in self._bundles:
            self._bundles[job.machine] = write_bundle(self._folder(job.machine))
        return (
            described,
            job_script(["python3", "-I", "-S", str(self._bundles[job.machine]), folder], "/"),
            limit_s,
        )

    # States of jobs.

    def _polled(self, answer: QueueSnapshot) -> None:
        if answer.problem is not None:
            return  # unknown
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
        """Report a job that can never start."""
        if find_pending_cause(status.reason) in _NEVER and job.files.take_order() is not None:
            text = f"its job can never start: {status.reason}"
            self._report(job, {"cause": "error", "text": text, "lasting": True})

    def _look(self, job: QueuedJob, now_s: float) -> None:
        """Read the records of a job and report what has changed."""
        end, start, beat = job.files.read(EXIT, START, BEAT)
        if end is not None and end.get("nonce") == job.files.nonce:
            self._look_at_end(job, end, now_s)
            return
        if start is not None and not job.has_started:
            job.has_started, job.beat_at_s = True, now_s
            job.order = None  # it may contain secrets
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
            job.kill_at_s = now_s + _STALE_S
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
        if end.get("cause") == "preempted" and not job.is_cancelled:
            job.exit_at_s = job.exit_at_s or now_s
            if job.status is None and now_s < job.exit_at_s + _REFINING_S:
                return
            if job.status is not None and job.status.state in _CAUSES:
                cause, text = _CAUSES[job.status.state]
                end = {**end, "cause": cause, "text": text}
        elif end.get("cause") == "preempted":
            end = {**end, "cause": "cancelled"}
        self._report(job, end)

    def _check_beat(self, job: QueuedJob, now_s: float) -> None:
        """Cancel a job without a heartbeat, and report it as lost if this does not help."""
        if job.state in {JobState.SUSPENDED, JobState.STOPPED}:
            job.beat_at_s = now_s
            return
        silent_s = now_s - job.beat_at_s
        if silent_s > 2.0 * _STALE_S:
            self._report(job, {"cause": "lost", "text": f"no heartbeat of its job for {silent_s:.0f} s"})
        elif silent_s > _STALE_S and job.number:
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
        cause, text = _CAUSES.get(state, ("", "")) if state is not None else ("", "")
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
        return self._context.layout.runner(self._context.execution, self._context.machines[machine])

    def _name(self, attempt: int, nonce: str) -> str:
        return f"weft-{self._context.execution}-{attempt}-{nonce}"


def _identity(job: QueuedJob) -> dict[str, Any]:
    return {"attempt": job.files.attempt, "nonce": job.files.nonce}


def _number(machine: Machine, key: str, default: float) -> float:
    value = machine.backend.get(key, default)
    return float(value) if isinstance(value, int | float) else default


def _memory(stated: object, wanted_bytes: float | None, nodes: int) -> int | None:
    """Return the memory to request on each node; None: the default of the site."""
    per_node = parse_bytes(str(stated)) if stated is not None else None
    if wanted_bytes is None:
        return None if per_node is None else int(per_node)
    needed = math.ceil(wanted_bytes / nodes) + _RESERVE_BYTES
    return needed if per_node is None else min(needed, int(per_node))
