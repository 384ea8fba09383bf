"""Runs the commands of Slurm for one cluster, at a limited rate.

A Slurm that does not answer says nothing about its jobs: their states are unknown, never failed. Commands are
then refused here for a time that doubles with every failure, up to a limit, so that a busy slurmctld is not
made busier.

Login nodes load this module without weft being installed there: it uses Python 3.8 and the standard library.
"""

from __future__ import annotations

import os
import signal as signals
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from weft.backends.slurm.commands import (
    EXIT_NOT_FOUND,
    EXIT_TIMEOUT,
    JobPhase,
    JobState,
    JobStatus,
    NodeGroup,
    SlurmCause,
    SlurmJob,
    config_arguments,
    describe_failure,
    find_error_cause,
    parse_array_limit,
    parse_default_memory,
    parse_job_id,
    parse_sacct,
    parse_sinfo,
    parse_squeue,
    partitions_arguments,
    sacct_arguments,
    sbatch_arguments,
    scancel_arguments,
    sinfo_arguments,
    squeue_arguments,
)
from weft.errors import Problem, WeftError
from weft.records import dataclass

if TYPE_CHECKING:
    from typing import TypeAlias

CommandResult: TypeAlias = "tuple[int, str, str]"
"""Exit code, standard output and standard error."""
RunCommand: TypeAlias = "Callable[[Sequence[str], str, float], CommandResult]"
"""Runs a command with a text as standard input, for at most some seconds. It raises nothing: the exit code of
a command that is not installed is EXIT_NOT_FOUND, of one that was killed after the timeout EXIT_TIMEOUT, and
without a connection to its host EXIT_NO_CONNECTION.
"""
EXIT_NO_CONNECTION = 255
"""Exit code without a connection to the host of a command, as of ssh."""
_SLACK = 1.05
MOST_IDS = 500
"""Number of jobs that one scancel or sacct names, within the limit of a command line."""


class SlurmRefused(WeftError):
    """A command that Slurm answered with an error; ``cause`` says what kind of error."""

    def __init__(self, problem: Problem, cause: SlurmCause) -> None:
        super().__init__(str(problem))
        self.problem = problem
        self.cause = cause


class SlurmUnreachable(WeftError):
    """A command without an answer. A job may have been submitted: look for its name before another try.

    ``cause`` is QUEUE_FULL if sbatch was still waiting for a place in the queue when its time was over.
    """

    def __init__(
        self, problem: Problem, retry_in_s: float, cause: SlurmCause = SlurmCause.UNREACHABLE
    ) -> None:
        super().__init__(str(problem))
        self.problem = problem
        self.retry_in_s = retry_in_s
        self.cause = cause


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSnapshot:
    """The jobs of this user at one moment."""

    jobs: Mapping[str, JobStatus] = field(default_factory=dict)
    """By id. Without an answer: as last seen, with the state UNKNOWN unless it was final."""
    taken_s: float | None = None
    """Time of the clock before the last squeue that was answered; None: none was."""
    problem: Problem | None = None
    """Why the states are unknown now; None: the controller answered."""
    malformed: tuple[str, ...] = ()
    """Lines that could not be read: jobs that are not in ``jobs`` may be in them."""

    def lacks(self, job: str, submitted_s: float) -> bool:
        """Return whether Slurm has certainly no record (any more) of a job submitted at a time of the clock.

        Slurm forgets ended jobs after some minutes (MinJobAge), and jobs of the last seconds if slurmctld
        is killed.
        """
        answered = self.problem is None and not self.malformed
        return answered and job not in self.jobs and self.taken_s is not None and self.taken_s > submitted_s


def run_locally(
    arguments: Sequence[str], text: str, timeout_s: float, environment: Mapping[str, str] | None = None
) -> CommandResult:
    """Run a command on this host; see RunCommand."""
    try:
        process = subprocess.Popen(  # noqa: S603 -- the commands of Slurm
            arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            encoding="utf-8",
            errors="surrogateescape",
            start_new_session=True,
        )
    except OSError as error:
        return EXIT_NOT_FOUND, "", f"{arguments[0]}: {error.strerror}"
    with process:
        try:
            output, errors = process.communicate(text, timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signals.SIGKILL)  # with its children, which hold the pipes open
            output, errors = process.communicate()
            return EXIT_TIMEOUT, output, errors
    return process.returncode, output, errors


class SlurmController:
    """Submits, lists, signals and cancels jobs of one cluster.

    ``run`` executes a command, on this host or on a login node. At most ``commands_per_s`` commands start in
    any second (below 1: one in ``1 / commands_per_s`` seconds); a call waits for its turn. ``earlier``
    commands count as started just now: this process has issued them by another object. All methods may be
    called from several threads. Times are those of ``clock``.
    """

    def __init__(
        self,
        run: RunCommand = run_locally,
        *,
        commands_per_s: float = 4.0,
        earlier: int = 0,
        poll_every_s: float = 2.0,
        timeout_s: float = 30.0,
        first_backoff_s: float = 1.0,
        most_backoff_s: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.commands = 0
        """Number of commands that were started."""
        self._run = run
        self._poll_every_s = poll_every_s
        self._timeout_s = timeout_s
        self._first_backoff_s = first_backoff_s
        self._most_backoff_s = most_backoff_s
        self._clock = clock
        self._sleep = sleep
        burst = max(1, int(commands_per_s))
        # A little longer: a process starts some time after the clock was read.
        self._window_s = _SLACK * burst / commands_per_s
        self._starts: deque[float] = deque([clock()] * earlier, maxlen=burst)
        self._lock = threading.Lock()
        """Guards the fields of this object; never held for long."""
        self._turn_lock = threading.Lock()
        """Held by the call whose command starts next, while it waits."""
        self._poll_lock = threading.Lock()
        """Held while squeue runs, so that callers share one answer."""
        self._failures = 0
        self._retry_s = 0.0
        self._problem: Problem | None = None
        self._snapshot = QueueSnapshot()
        self._polled_s: float | None = None
        self._accounting = True

    def submit(self, job: SlurmJob, script: str) -> str:
        """Submit a job or an array and return its number; the elements of an array are ``NUMBER_INDEX``.

        Raise SlurmRefused, or SlurmUnreachable if the job may or may not have been submitted: ``find`` its
        name before another try.
        """
        arguments = sbatch_arguments(job)
        code, output, errors = self._execute(arguments, script)
        number = parse_job_id(output)
        if code == 0 and number is not None:
            return number
        if code == 0:
            raise self._fail(Problem(what=f"sbatch printed no job number but {output[:200]!r}"))
        raise SlurmRefused(describe_failure(arguments, code, errors), find_error_cause(code, errors))

    def find(self, names: Iterable[str]) -> dict[str, tuple[JobStatus, ...]]:
        """Return the jobs whose name or comment is one of ``names``, from a fresh answer of squeue.

        Names without a job are left out: Slurm has no record of them. Raise SlurmUnreachable if that is not
        certain. A ``sbatch`` that was killed less than its timeout ago may still add a job.
        """
        wanted = set(names)
        snapshot = self._refresh()
        found: dict[str, list[JobStatus]] = {}
        for status in snapshot.jobs.values():
            for name in {status.name, status.comment} & wanted:
                found.setdefault(name, []).append(status)
        if snapshot.malformed and len(found) < len(wanted):
            raise SlurmUnreachable(_malformed(snapshot.malformed), self._poll_every_s)
        return {name: tuple(found[name]) for name in sorted(found)}

    def poll(self) -> QueueSnapshot:
        """Return the jobs of this user: one squeue for all callers in an interval. It raises nothing."""
        with self._poll_lock:
            now = self._clock()
            if self._polled_s is None or now >= self._polled_s + self._poll_every_s:
                try:
                    self._ask_queue()
                except SlurmUnreachable as error:
                    return self._outdated(error.problem)
                except SlurmRefused as error:
                    self._polled_s = now
                    return self._outdated(error.problem)
            with self._lock:
                problem = self._problem
            return self._snapshot if problem is None else self._outdated(problem)

    def ask_accounting(self, jobs: Iterable[str]) -> dict[str, JobStatus]:
        """Return what the accounting database says about jobs; nothing where a site has none."""
        found: dict[str, JobStatus] = {}
        for some in _split(jobs):
            if not self._accounting:
                break
            code, output, errors = self._execute(sacct_arguments(some))
            if code != 0:
                cause = find_error_cause(code, errors)
                self._accounting = cause not in {SlurmCause.NO_ACCOUNTING, SlurmCause.NOT_INSTALLED}
                continue
            found.update({status.id: status for status in parse_sacct(output).rows})
        return found

    def cancel(self, jobs: Iterable[str]) -> tuple[str, ...]:
        """End jobs with one scancel for many; return its messages about jobs that it could not cancel."""
        return self._run_for_jobs(jobs, lambda some: scancel_arguments(some))

    def signal(self, jobs: Iterable[str], name: str, *, batch_only: bool = True) -> tuple[str, ...]:
        """Send a signal such as ``USR1``, by default only to the programs that the job scripts started."""
        return self._run_for_jobs(
            jobs, lambda some: scancel_arguments(some, signal=name, batch_only=batch_only)
        )

    def list_partitions(self) -> tuple[NodeGroup, ...]:
        """Return the partitions with their nodes; raise SlurmUnreachable if an answer cannot be read."""
        arguments = sinfo_arguments()
        try:
            code, output, errors = self._execute(arguments)
        except SlurmUnreachable as error:
            rule = "the controller of Slurm must answer before its partitions can be listed"
            raise SlurmUnreachable(
                replace(error.problem, rule=rule), error.retry_in_s, error.cause
            ) from error
        if code != 0:
            raise SlurmRefused(describe_failure(arguments, code, errors), find_error_cause(code, errors))
        parsed = parse_sinfo(output)
        if parsed.malformed:
            raise SlurmUnreachable(_malformed(parsed.malformed), self._poll_every_s)
        return parsed.rows

    def find_default_memory(self, partition: str, cores: int) -> int | None:
        """Return the bytes on each node of a job that requests no memory; None: no limit, or not known."""
        texts = []
        for arguments in (config_arguments(), partitions_arguments()):
            code, output, _ = self._execute(arguments)
            texts.append(output if code == 0 else "")
        return parse_default_memory(texts[0], texts[1], partition, cores)

    def find_array_limit(self) -> int:
        """Return the largest number of elements of an array; 1 if the site permits none or does not say."""
        code, output, _ = self._execute(config_arguments())
        return max(1, parse_array_limit(output) or 1) if code == 0 else 1

    def _refresh(self) -> QueueSnapshot:
        with self._poll_lock:
            self._ask_queue()
            return self._snapshot

    def _ask_queue(self) -> None:
        """Replace the snapshot; the poll lock is held."""
        arguments = squeue_arguments()
        before = self._wait_for_turn()
        self._polled_s = before
        code, output, errors = self._finish(arguments, self._run(arguments, "", self._timeout_s))
        if code != 0:
            raise SlurmRefused(describe_failure(arguments, code, errors), find_error_cause(code, errors))
        parsed = parse_squeue(output)
        self._snapshot = QueueSnapshot(
            jobs={status.id: status for status in parsed.rows}, taken_s=before, malformed=parsed.malformed
        )

    def _outdated(self, problem: Problem) -> QueueSnapshot:
        jobs = {
            number: status
            if status.state.phase is JobPhase.FINAL
            else replace(status, state=JobState.UNKNOWN)
            for number, status in self._snapshot.jobs.items()
        }
        return replace(self._snapshot, jobs=jobs, problem=problem)

    def _run_for_jobs(
        self, jobs: Iterable[str], arguments: Callable[[list[str]], list[str]]
    ) -> tuple[str, ...]:
        messages: list[str] = []
        for some in _split(jobs):
            command = arguments(some)
            code, _, errors = self._execute(command)
            if (cause := find_error_cause(code, errors)) is SlurmCause.NOT_INSTALLED:
                raise SlurmRefused(describe_failure(command, code, errors), cause)
            messages += (line.strip() for line in errors.splitlines() if line.strip())
        return tuple(messages)

    def _execute(self, arguments: Sequence[str], text: str = "") -> CommandResult:
        """Run a command in its turn and return its answer; raise SlurmUnreachable if there is none."""
        self._wait_for_turn()
        return self._finish(arguments, self._run(arguments, text, self._timeout_s))

    def _wait_for_turn(self) -> float:
        """Wait until a command may start, and return the time; raise SlurmUnreachable during a back-off."""
        with self._turn_lock:
            with self._lock:
                if self._problem is not None and (left := self._retry_s - self._clock()) > 0:
                    raise SlurmUnreachable(self._problem, left)
            if len(self._starts) == self._starts.maxlen:
                while (left := self._starts[0] + self._window_s - self._clock()) > 0:
                    self._sleep(left)
            # Not the time that was waited for: a late start moves the window.
            start = self._clock()
            self._starts.append(start)
            self.commands += 1
            return start

    def _finish(self, arguments: Sequence[str], result: CommandResult) -> CommandResult:
        code, _, errors = result
        if code != 0:
            lost, cause = code in {EXIT_TIMEOUT, EXIT_NO_CONNECTION}, find_error_cause(code, errors)
            if lost or cause is SlurmCause.UNREACHABLE:
                raise self._fail(describe_failure(arguments, code, errors), cause)
        with self._lock:
            self._failures, self._problem = 0, None
        return result

    def _fail(self, problem: Problem, cause: SlurmCause = SlurmCause.UNREACHABLE) -> SlurmUnreachable:
        with self._lock:
            self._failures += 1
            wait_s = min(self._most_backoff_s, self._first_backoff_s * 2.0 ** min(self._failures - 1, 60))
            self._retry_s = self._clock() + wait_s
            self._problem = problem
            return SlurmUnreachable(problem, wait_s, cause)


def _split(jobs: Iterable[str]) -> list[list[str]]:
    ids = list(jobs)
    return [ids[start : start + MOST_IDS] for start in range(0, len(ids), MOST_IDS)]


def _malformed(lines: Sequence[str]) -> Problem:
    return Problem(
        what=f"unreadable output of Slurm: {lines[0]!r}"
        + (f" and {len(lines) - 1} more" if lines[1:] else ""),
        rule="the columns are those of Slurm 20.11 or newer",
        advice="look for a wrapper around squeue or sinfo on the PATH that changes what they print",
    )
