"""Observation of running programs, and completion of attempts whose program has ended.

While a program runs, weft reads once a second the files through which the program reports
(docs/papers/adaptive-jobs.md, section 2). After its end the cause of the end is determined, and outputs and
result are collected and published.
"""

from __future__ import annotations

import errno
import fnmatch
import math
import os
import re
import signal
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from weft.backends.attempt.attempt import ActiveAttempt, AttemptRecords, ProgramReport
from weft.backends.attempt.checkpoints import CheckpointKeeper
from weft.backends.attempt.command import EXIT_FILE, monitored_files
from weft.backends.attempt.content import Interrupted, check_interruption, interruptible
from weft.backends.attempt.digests import boot_id
from weft.backends.attempt.external_files import publish, publish_as
from weft.backends.attempt.file_sync import sync_files
from weft.backends.attempt.fingerprint import WRITER
from weft.backends.attempt.inputs import (
    fill_secrets,
    find_carriers,
    output_names,
    placed_values,
    refuse_redirection,
    stated_folder,
)
from weft.backends.attempt.remote_disk import RemoteDisk
from weft.backends.attempt.safe_paths import StagingProblem
from weft.backends.attempt.staging import collect_outputs
from weft.backends.attempt.substitution import JobProblem, machine_values
from weft.backends.attempt.task_files import (
    Observation,
    TaskFiles,
    has_sweep_files,
    read_result,
    read_sweep_lines,
    read_task_file,
)
from weft.backends.attempt.trees import remove_tree
from weft.backends.backend import Product, ProjectContext
from weft.backends.file_record import FileRecord
from weft.engine import messages as ev
from weft.engine.state.compiled import CompiledWorkflow
from weft.engine.states import UNKNOWN_SHARE, Cause
from weft.expressions import Value
from weft.records import dataclass
from weft.units import format_bytes
from weft.urls import is_url
from weft.workflow.quantity import evaluate_quantity
from weft.workflow.templates import fill_template

_RERUN_CODE, _CHECKPOINTED_CODE = 99, 85
_SANDBOX_DEPTH = 6
"""Number of directories above a working directory that weft may have created."""
_INTERVAL_S = 1.0
_NOTICEABLE = 0.02
"""Smallest share of a task's work whose completion is reported to an engine that does not poll the task."""
_ANSWER_S = 0.5
"""Seconds between a request for restart files and their copy, in which the program writes the files."""
_EXTERNAL_SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
"""Signals that programs do not send to themselves; their sender removed the program from the machine."""
_SHELL_NAME = r"(?:/bin/sh|sh|\S*/command\.sh): (?:(?:line )?\d+: )?"
_FORK_FAILURES = {
    2: re.compile(_SHELL_NAME + r"(?:Cannot fork|can't fork: .+)"),
    254: re.compile(_SHELL_NAME + r"fork: (?!retry).+"),
}
"""By exit code: pattern of the last message of a shell that could not start a process.

Dash and busybox exit with code 2, bash with code 254.
"""
_MOST_MESSAGE_BYTES = 4096
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0
"""First and longest pause before a task is tried again if the host lacked a resource; the pause doubles."""
_LACKS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)
"""Error numbers that mean that the host has no free descriptors or memory; a retry may succeed."""
_COLLECT_PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Pauses between tries to read outputs that could not be opened for lack of a resource of the host."""
_DISK_ERRORS = (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.ESTALE, errno.EROFS)


class TaskMonitor:
    """Observes the files of running programs and reports changes as events.

    The callback ``request`` signals the program of an attempt to write its restart files; the callback
    ``copy`` copies them in a thread.
    """

    def __init__(
        self,
        context: ProjectContext,
        request: Callable[[ActiveAttempt], None],
        copy: Callable[[ActiveAttempt], None],
    ) -> None:
        self._context = context
        self._request = request
        self._copy = copy
        self._attempts: dict[int, ActiveAttempt] = {}
        self._next = time.monotonic() + _INTERVAL_S
        self._due_s = math.inf
        """Earliest time of a request for restart files, over all attempts."""

    def add(self, attempt: ActiveAttempt) -> None:
        """Start observing an attempt."""
        self._attempts[attempt.number] = attempt
        every_s = self._copy_interval_s(attempt)
        attempt.copies_at_s = math.inf if every_s is None else time.monotonic() + every_s
        self._due_s = min(self._due_s, attempt.copies_at_s)

    def remove(self, attempt: ActiveAttempt) -> None:
        """Stop observing an attempt."""
        self._attempts.pop(attempt.number, None)

    def remaining_s(self) -> float:
        """Return the seconds until the next observation."""
        return min(self._next, self._due_s) - time.monotonic()

    def check(self) -> list[ev.Event]:
        """Observe the files of all attempts that are due; return the changes as events.

        All attempts are observed once a second; in between only those whose restart files are due.
        """
        now_s = time.monotonic()
        observed = list(self._attempts.values())
        if now_s < self._next:
            observed = [attempt for attempt in observed if attempt.copies_at_s <= now_s]
        else:
            self._next = now_s + _INTERVAL_S
        found: list[ev.Event] = []
        for attempt in observed:
            seen = self._observe(attempt)
            found += self._events(attempt, seen)
            if self._has_noticeable_progress(attempt):
                found.append(self._describe_progress(attempt, seen))
        self._due_s = min((attempt.copies_at_s for attempt in self._attempts.values()), default=math.inf)
        return found

    def report_progress(self, attempt: ActiveAttempt, silent_s: float = 0.0) -> list[ev.Event]:
        """Observe one attempt; return events for its changes, then one for its progress.

        ``silent_s``: seconds since the last sign of life of the attempt's host.
        """
        seen = self._observe(attempt)
        return [*self._events(attempt, seen), self._describe_progress(attempt, seen, silent_s)]

    def _has_noticeable_progress(self, attempt: ActiveAttempt) -> bool:
        """Return whether an attempt that the engine does not poll has reported progress for the time left."""
        if attempt.done is None or attempt.done < (attempt.sent_done or 0.0) + _NOTICEABLE:
            return False
        settings = self._context.task_settings(attempt.run, attempt.task)
        untimed = self._context.compiled_workflow(attempt.run).is_untimed(attempt.task)
        return not settings.polls_progress(untimed=untimed)

    def _describe_progress(
        self, attempt: ActiveAttempt, seen: Observation, silent_s: float = 0.0
    ) -> ev.Progressed:
        attempt.sent_done = attempt.done
        return ev.Progressed(
            attempt=attempt.number,
            work_done=attempt.done,
            last_iteration_s=seen.last_iteration_s,
            iterations=seen.iterations,
            all_iterations=seen.all_iterations,
            age_s=None if attempt.reported_at is None else max(0.0, time.time() - attempt.reported_at),
            every_s=attempt.reports_every_s,
            silent_s=silent_s,
        )

    def describe(self, attempt: ActiveAttempt) -> dict[str, Any]:
        """Return the data about an attempt for an evaluator program (docs/reference/programs.md)."""
        context, start = self._context, attempt.start
        assert start is not None
        compiled = context.compiled_workflow(attempt.run)
        machine = context.machines[attempt.machine]
        seen = attempt.seen
        return {
            "task": compiled.names[attempt.task],
            "attempt": start.tries,
            "iteration": attempt.iteration,
            "running_s": max(0.0, time.time() - attempt.began_at),
            "estimated_s": compiled.seconds(attempt.task, attempt.machine, attempt.count),
            "restart_from": start.restart_from,
            "done": attempt.done,
            "iterations": seen.iterations,
            "all_iterations": seen.all_iterations,
            "last_iteration_s": seen.last_iteration_s,
            "nodes": attempt.count,
            "machine": {key: value for key, value in machine_values(machine).items() if value is not None},
        }

    def _observe(self, attempt: ActiveAttempt) -> Observation:
        files = attempt.files
        if files is None:
            # Restart files that exist now were written by this attempt, unless it restarted from them.
            from_now = attempt.start is not None and attempt.start.restart_from > 0
            compiled = self._context.compiled_workflow(attempt.run)
            if attempt.disk is not None:
                files = attempt.disk.watch(attempt, *monitored_files(compiled, attempt.task))
            else:
                files = TaskFiles.of(compiled, attempt.task, attempt.workdir, from_now=from_now)
            attempt.files = files
        seen = attempt.seen = files.observe()
        if seen.done is not None:
            attempt.done = min(1.0, max(0.0, seen.done))
        if seen.reported_at is not None:
            attempt.note_report(min(seen.reported_at, time.time()))
        return seen

    def _save_restart_files(self, attempt: ActiveAttempt) -> None:
        """Copy the restart files of an attempt if it is time to do so.

        If the task states an interval, the files are requested at the end of each interval and copied when
        they have changed; otherwise they are copied whenever they have changed. The next interval begins at
        the planned end of the last one, so that the time of a copy does not delay later copies. Only while a
        copy is being made, no files are requested: the program would change them, so no copy would succeed.
        """
        every_s, now_s = self._copy_interval_s(attempt), time.monotonic()
        answered = every_s is None or (
            attempt.requested_at_s is not None and now_s >= attempt.requested_at_s + _ANSWER_S
        )
        if answered and attempt.unsaved and not attempt.copying:
            attempt.unsaved, attempt.requested_at_s = False, None
            attempt.copying = True
            self._copy(attempt)
        if every_s is None or now_s < attempt.copies_at_s:
            return
        if attempt.copying:
            attempt.copies_at_s = now_s + _ANSWER_S
        else:
            due_s = attempt.copies_at_s + every_s
            attempt.copies_at_s = due_s if due_s > now_s else now_s + every_s
            # A request without an answer is repeated: the program may not have handled the signal yet.
            if attempt.requested_at_s is None or not attempt.unsaved:
                attempt.requested_at_s = now_s
                self._request(attempt)

    def _copy_interval_s(self, attempt: ActiveAttempt) -> float | None:
        """Return the seconds between two copies of an attempt's restart files, at least ``_INTERVAL_S``.

        The result is None if the files are copied whenever they change.
        """
        compiled = self._context.compiled_workflow(attempt.run)
        checkpoint = compiled.description(attempt.task).recovery.checkpoint
        if checkpoint is None or checkpoint.every is None:
            return None
        every_s = float(evaluate_quantity(checkpoint.every, compiled.graph.context(attempt.task)))
        return max(_INTERVAL_S, every_s)

    def _events(self, attempt: ActiveAttempt, seen: Observation) -> list[ev.Event]:
        found: list[ev.Event] = []
        attempt.unsaved |= seen.restart_changed
        self._save_restart_files(attempt)
        if seen.requirements is not None or seen.rank is not None or seen.problems:
            found.append(
                ev.RequirementsChanged(
                    attempt=attempt.number,
                    requirements=seen.requirements,
                    rank=seen.rank,
                    mandatory=seen.mandatory,
                    problem="; ".join(seen.problems),
                )
            )
        if seen.degraded is not None:  # after the new requirement or rank, which selects the next machine
            degraded = seen.degraded
            found.append(ev.Progressed(attempt=attempt.number, work_done=attempt.done, degraded=degraded))
        return found


def _work_done(attempt: ActiveAttempt, *, ended: bool = False) -> float:
    """Return the completed share of the work as reported by the program, at least UNKNOWN_SHARE.

    Without a report, it is the share at which the attempt restarted. If ``ended`` is True, the program has
    ended, and its last progress report is read first.
    """
    if ended and attempt.files is not None:
        reported = attempt.files.observe().done
        attempt.done = attempt.done if reported is None else min(1.0, max(0.0, reported))
    if attempt.done is not None:
        return max(UNKNOWN_SHARE, attempt.done)
    return max(UNKNOWN_SHARE, attempt.start.restart_from) if attempt.start is not None else UNKNOWN_SHARE


@dataclass(slots=True)
class FinishedAttempt:
    """Everything to report about the end of an attempt."""

    ended: ev.Ended
    product: Product | None = None
    checkpoint: ev.Checkpointed | None = None
    """The event about the last copy of the restart files; None: there is nothing new to report."""
    lines: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By file name: the lines of a file that defines a sweep."""
    interrupted: bool = False
    """Whether the attempt was abandoned before its files were collected."""
    pause_s: float = 0.0
    """Seconds by which the report of the end is delayed, so that the host can recover."""


class AttemptFinisher:
    """Collects and publishes the outputs of ended programs; called by staging threads."""

    def __init__(
        self,
        context: ProjectContext,
        records: AttemptRecords,
        disk_of: Callable[[Product], RemoteDisk | None] = lambda _: None,
    ) -> None:
        """Create the finisher; ``disk_of`` returns the disk of a product, None: a disk of this host."""
        self._context = context
        self._records = records
        self._disk_of = disk_of
        self.checkpoints = CheckpointKeeper(context)
        self._carriers: dict[int, tuple[CompiledWorkflow, frozenset[int]]] = {}
        """By run: its workflow, and the tasks with outputs that a later iteration reads."""
        self._synced: set[Path] = set()
        """Directories above working directories whose entries were synced to the disk."""

    def needs_no_files(self, attempt: ActiveAttempt) -> bool:
        """Return whether an attempt has no outputs and no restart files."""
        description = self._context.compiled_workflow(attempt.run).description(attempt.task)
        return attempt.disk is None and not description.outputs and description.recovery.checkpoint is None

    def finish(
        self, attempt: ActiveAttempt, report: ProgramReport, epilog_problem: str = ""
    ) -> FinishedAttempt:
        """Return the end of an attempt and its cause, after collecting outputs, result or restart files.

        ``epilog_problem`` says why the task's own epilog failed; it is "" if the epilog succeeded or does not
        exist.
        """
        try:
            with interruptible(lambda: attempt.abandoned):
                if attempt.disk is not None and attempt.launched and report.get("cause") != Cause.LOST:
                    # An epilog may have written more since.
                    left = None if self._has_epilog(attempt) else report.get("left")
                    attempt.disk.pull_reports(attempt, left=left)
                return self._finish(attempt, report, epilog_problem)
        except Interrupted:
            ended = ev.Ended(attempt=attempt.number, exit_code=None, cause=Cause.CANCELLED)
            return FinishedAttempt(ended, interrupted=True)
        except StagingProblem as problem:
            if attempt.disk is None:
                raise
            ended = ev.Ended(attempt=attempt.number, exit_code=None, cause=Cause.STAGING, story=str(problem))
            return FinishedAttempt(ended)

    def _has_epilog(self, attempt: ActiveAttempt) -> bool:
        job = self._context.compiled_workflow(attempt.run).description(attempt.task).job
        return job is not None and bool(job.epilog)

    def _finish(self, attempt: ActiveAttempt, report: ProgramReport, epilog_problem: str) -> FinishedAttempt:
        compiled = self._context.compiled_workflow(attempt.run)
        self._write_exit_code(attempt, report)
        if attempt.record_problem:
            story = attempt.record_problem
            return FinishedAttempt(
                ev.Ended(attempt=attempt.number, exit_code=None, cause=Cause.STAGING, story=story)
            )
        ended = self._judge_wrapper(attempt, compiled, _classify_end(attempt, report))
        ended = _add_epilog_problem(ended, epilog_problem, compiled.outcomes(attempt.task))
        finished = FinishedAttempt(ended)
        if not ended.cause and (message := self._read_fork_failure(attempt, compiled, ended.exit_code)):
            story = f"the host could not start a process of its shell: {message!r}"
            finished = _lack_of_host(attempt, story)
            ended = finished.ended
        completed = not ended.cause and ended.exit_code not in (None, _RERUN_CODE, _CHECKPOINTED_CODE)
        if completed:
            finished = self._collect_patiently(attempt, report, compiled, ended)
            if finished.product is not None:
                self.checkpoints.drop(attempt)
        elif compiled.description(attempt.task).recovery.checkpoint and not attempt.rebooted:
            self._save(attempt, ended=True)
            finished.checkpoint = take_saved(attempt)
        if full := self._find_full_disk(attempt, report, compiled, finished.ended):
            code = finished.ended.exit_code
            first = finished.ended.story or ("no exit code" if code is None else f"exit code {code}")
            finished.ended = replace(finished.ended, story=f"{first}; {full}")
        elif described := _describe_shell_code(finished.ended, compiled.outcomes(attempt.task)):
            finished.ended = replace(finished.ended, story=described)
        if strays := report.get("strays"):
            finished.ended = replace(finished.ended, strays=strays)
        return finished

    def _find_full_disk(
        self, attempt: ActiveAttempt, report: ProgramReport, compiled: CompiledWorkflow, ended: ev.Ended
    ) -> str:
        """Return a text about the full disk that a failed program wrote to.

        The text is "" if no disk is full, or if the program did not fail.
        """
        accepted = (*compiled.outcomes(attempt.task), _RERUN_CODE, _CHECKPOINTED_CODE)
        failed = ended.cause == Cause.ERROR or (not ended.cause and ended.exit_code not in accepted)
        if not failed or not attempt.launched:
            return ""
        try:
            records = Path(attempt.records_path)
            text = read_task_file(records, "err", tail=True, max_bytes=_MOST_MESSAGE_BYTES)
        except JobProblem:
            text = ""
        return describe_full_disk(report.get("disk"), text or "", attempt.workdir_path)

    def _read_fork_failure(self, attempt: ActiveAttempt, compiled: CompiledWorkflow, code: int | None) -> str:
        """Return the message of a command's shell if the shell could not start a process; otherwise "".

        Only a shell command whose standard error is not redirected to a file is considered, because other
        programs may print the same message.
        """
        job = compiled.description(attempt.task).job
        if code not in _FORK_FAILURES or job is None or not isinstance(job.command, str) or job.stderr:
            return ""
        try:
            records = Path(attempt.records_path)
            text = read_task_file(records, "err", tail=True, max_bytes=_MOST_MESSAGE_BYTES)
        except JobProblem:
            return ""
        return find_fork_failure(code, text or "")

    def save_restart_files(self, attempt: ActiveAttempt) -> None:
        """Copy the restart files of a running program; ``take_saved`` returns the event about the copy."""
        with suppress(Interrupted), interruptible(lambda: attempt.abandoned):
            self._save(attempt)

    def _save(self, attempt: ActiveAttempt, *, ended: bool = False) -> None:
        with attempt.copy_lock:
            # Determined before the copy, which may take long.
            share = _work_done(attempt, ended=ended)
            kept, attempt.copy_problem = self.checkpoints.keep(attempt)
            if kept:
                attempt.saved_share = share

    def _judge_wrapper(self, attempt: ActiveAttempt, compiled: CompiledWorkflow, ended: ev.Ended) -> ev.Ended:
        """Return the end of a program, with another cause if the wrapper failed and not the command.

        Under a wrapper the exit code of the command is recorded in ``EXIT_FILE``. Without this record the
        command has not ended, whatever the wrapper returns.
        """
        job = compiled.description(attempt.task).job
        if job is None or not job.wrapper or not attempt.launched or ended.cause:
            return ended
        if ended.exit_code in (None, _RERUN_CODE, _CHECKPOINTED_CODE):
            return ended
        try:
            recorded = read_task_file(attempt.workdir, EXIT_FILE)
        except JobProblem as problem:
            recorded = str(problem)
        if recorded is None:
            how = "ended" if ended.exit_code == 0 else f"failed with exit code {ended.exit_code}"
            story = f"the wrapper {how} before the command had run to its end"
        elif ended.exit_code != 0 and recorded.strip() == "0":
            story = f"the wrapper failed with exit code {ended.exit_code} after the command had succeeded"
        else:
            return ended
        return ev.Ended(attempt=attempt.number, exit_code=None, cause=Cause.WRAPPER, story=story)

    def _collect_patiently(
        self, attempt: ActiveAttempt, report: ProgramReport, compiled: CompiledWorkflow, ended: ev.Ended
    ) -> FinishedAttempt:
        """Collect outputs and result; retry for about 1.5 s if the host has no free descriptors or memory."""
        for pause_s in (*_COLLECT_PAUSES_S, 0.0):
            finished = FinishedAttempt(ended)
            try:
                self._collect(attempt, report, compiled, finished)
            except (StagingProblem, JobProblem) as problem:
                finished = _lack_of_host(attempt, f"the host could not read its outputs: {problem}")
                check_interruption()
                time.sleep(pause_s)
                continue
            break
        return finished

    def _collect(
        self,
        attempt: ActiveAttempt,
        report: ProgramReport,
        compiled: CompiledWorkflow,
        finished: FinishedAttempt,
    ) -> None:
        """Collect outputs and result into ``finished`` if the program exited with an accepted code.

        Raises StagingProblem or JobProblem if the host has no free descriptors or memory.
        """
        ended = finished.ended
        if ended.exit_code != 0 and ended.exit_code not in compiled.outcomes(attempt.task):
            return
        try:
            machine = self._context.machines[attempt.machine]
            names = output_names(compiled, attempt.task, machine, attempt.iteration)
            files = self._collect_files(attempt, names, all_required=ended.exit_code == 0)
            if attempt.disk is not None and files and self._is_needed_here(attempt, compiled):
                attempt.disk.pull_reports(attempt, [file.name for file in files])
            silent = not attempt.launched or self._records.has_no_result(attempt.workdir_path)
            result = {} if silent else read_result(attempt.workdir)
            finished.lines = dict(read_sweep_lines(compiled, attempt.task, attempt.workdir_path, names))
        except Interrupted:
            raise
        except (StagingProblem, JobProblem) as problem:
            if problem.number in _LACKS:
                raise
            cause = Cause.STAGING if problem.number in _DISK_ERRORS else Cause.ERROR
            story = str(problem)
            finished.ended = ev.Ended(attempt=attempt.number, exit_code=None, cause=cause, story=story)
            return
        try:
            self._sync(attempt, files)
        except StagingProblem as problem:
            if problem.number in _LACKS:
                raise
            finished.ended = ev.Ended(
                attempt=attempt.number, exit_code=None, cause=Cause.STAGING, story=str(problem)
            )
            return
        if result or attempt.staleness:
            finished.ended = ev.Ended(
                attempt=attempt.number,
                exit_code=ended.exit_code,
                result=result,
                work_done=1.0,
                story=attempt.staleness,
            )
        finished.product = self._product(attempt, report, compiled, files, result)

    def _is_needed_here(self, attempt: ActiveAttempt, compiled: CompiledWorkflow) -> bool:
        """Return whether outputs on a host are copied to the project as soon as their task has ended.

        The engine reads the files that define sweeps. What a later iteration of a loop reads must outlive the
        host, because no task can make it again.
        """
        if (found := self._carriers.get(attempt.run)) is None or found[0] is not compiled:
            found = self._carriers[attempt.run] = compiled, find_carriers(compiled)
        return attempt.task in found[1] or has_sweep_files(compiled)

    def _collect_files(
        self, attempt: ActiveAttempt, names: Sequence[str], *, all_required: bool
    ) -> tuple[FileRecord, ...]:
        if not names:
            return ()
        if attempt.disk is not None:
            return attempt.disk.collect(attempt, names, missing_ok=not all_required)
        return collect_outputs(attempt.workdir, names, missing_ok=not all_required, read_only=True)

    def finish_transfer(self, attempt: ActiveAttempt) -> Product:
        """Return the product of a transfer whose files were copied; raises StagingProblem."""
        with interruptible(lambda: attempt.abandoned):
            files = self._collect_files(attempt, list(attempt.input_digests), all_required=True)
            self._sync(attempt, files)
        compiled = self._context.compiled_workflow(attempt.run)
        return self._product(attempt, {}, compiled, files, {})

    def _sync(self, attempt: ActiveAttempt, files: tuple[FileRecord, ...]) -> None:
        """Sync the outputs of an attempt to the disk before its end is reported; raises StagingProblem."""
        if not files or attempt.disk is not None:
            return
        parent, *higher = attempt.workdir.parents[:_SANDBOX_DEPTH]
        new = [each for each in higher if each not in self._synced]
        sync_files(attempt.workdir, [file.name for file in files], above=[parent, *new])
        self._synced.update(new)

    def _product(
        self,
        attempt: ActiveAttempt,
        report: ProgramReport,
        compiled: CompiledWorkflow,
        files: tuple[FileRecord, ...],
        result: dict[str, Value],
    ) -> Product:
        return Product(
            execution=self._context.execution,
            run=attempt.run,
            task=attempt.task,
            name=compiled.names[attempt.task],
            kind=compiled.description(attempt.task).name,
            workflow=compiled.key,
            attempt=attempt.number,
            iteration=attempt.iteration,
            counters=attempt.counters,
            machine=self._context.machines[attempt.machine].name,
            directory=attempt.workdir_path if attempt.disk is None else attempt.disk.directory(attempt),
            files=files,
            exit_code=int(report.get("code") or 0),
            result=result,
            fingerprint=attempt.fingerprint,
            # Kept when a later run reuses the product: a pickle is read only with the nonce of its writer.
            parts={**attempt.fingerprint_parts, WRITER: attempt.nonce},
            seconds=float(report.get("seconds", 0.0)),
            boot=boot_id() if attempt.disk is None else attempt.disk.boot,
        )

    def stage_out(self, attempt: ActiveAttempt, product: Product | None) -> ev.StagedOut | None:
        """Publish the outputs of an attempt that have a target or are results of the workflow.

        Return the event that reports success or a problem. The result is None if the engine stops; then the
        next engine publishes the outputs again.
        """
        if product is None:
            return ev.StagedOut(attempt=attempt.number, problem="the record of its outputs is missing")
        compiled = self._context.compiled_workflow(attempt.run)
        stated, directory = self._context.results_folder(attempt.run).rstrip("/"), Path(product.directory)
        folder = self._context.layout.project if stated else Path(self._context.workflow_folder(attempt.run))
        machine = self._context.machines[attempt.machine]
        values = placed_values(compiled, attempt.task, machine, attempt.iteration)
        secrets = self._context.secrets_of(attempt.run).values
        description = compiled.description(attempt.task)
        targets = {
            fill_template(item.file, values).rstrip("/"): item.target
            for item in description.outputs
            if item.target is not None
        }
        results = {fill_template(name, values) for name in compiled.results(attempt.task)}
        disk = self._disk_of(product)
        try:
            with interruptible(lambda: attempt.abandoned):
                for file in product.files:
                    if disk is not None and (file.name in targets or _is_result(file.name, results)):
                        directory = disk.pull(product, file)
                    if (target := targets.get(file.name)) is not None:
                        refuse_redirection(description, target, values)
                        shown = fill_template(target, values)
                        goal = fill_secrets(target, values, secrets) or shown
                        below = stated_folder(description, target, {**values, **secrets})
                        if stated and not is_url(goal) and not goal.startswith("/"):
                            goal = f"{stated}/{goal}"
                        publish(directory, file, goal, folder=folder, below=below, shown=shown)
                    elif _is_result(file.name, results):
                        name = f"{stated}/{file.name}" if stated else file.name
                        publish_as(directory, file, name, folder=folder)
        except Interrupted:
            story = "the run was cancelled while its outputs were copied"
            cancelled = ev.StagedOut(attempt=attempt.number, problem=story, lasting=True)
            return cancelled if attempt.cancelled else None
        except StagingProblem as problem:
            return ev.StagedOut(attempt=attempt.number, problem=str(problem), lasting=problem.lasting)
        return ev.StagedOut(attempt=attempt.number)

    def clean_up(self, attempt: ActiveAttempt) -> str:
        """Remove the working directory of an attempt; return why this failed, or ""."""
        try:
            if attempt.disk is not None:
                attempt.disk.remove(attempt)
            remove_tree(attempt.workdir.parent, attempt.workdir.name)
        except StagingProblem as problem:
            return str(problem)
        return ""

    def _write_exit_code(self, attempt: ActiveAttempt, report: ProgramReport) -> None:
        if attempt.launched:
            code = report.get("code")
            text = f"{code}\n" if code is not None else f"signal {report.get('signal')}\n"
            # A failure to write is ignored: the journal has the exit code too.
            self._records.write_later(attempt.records_path, "exitcode", text.encode, lambda _: None)


def _lack_of_host(attempt: ActiveAttempt, story: str) -> FinishedAttempt:
    """Return the end of an attempt that failed because the host lacked a resource.

    The report of this end is delayed by a pause, which grows with the number of tries.
    """
    ended = ev.Ended(attempt=attempt.number, exit_code=None, cause=Cause.LOST, story=story)
    tries = attempt.start.tries if attempt.start is not None else 1
    pause_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(tries - 1, 10))
    return FinishedAttempt(ended, pause_s=pause_s)


def find_fork_failure(code: int, text: str) -> str:
    """Return the last line of a shell's standard error if the shell could not start a process; else "".

    >>> find_fork_failure(2, "/bin/sh: 1: Cannot fork"), find_fork_failure(1, "/bin/sh: 1: Cannot fork")
    ('/bin/sh: 1: Cannot fork', '')
    """
    line = text.rstrip("\n").rpartition("\n")[2]
    pattern = _FORK_FAILURES.get(code)
    return line if pattern is not None and pattern.fullmatch(line) else ""


def take_saved(attempt: ActiveAttempt) -> ev.Checkpointed | None:
    """Return the event about copies of an attempt's restart files since the last call.

    The result is None if there is nothing to report.
    """
    with attempt.copy_lock:
        share, attempt.saved_share = attempt.saved_share, None
        problem = attempt.copy_problem if attempt.copy_problem != attempt.copy_problem_reported else ""
        attempt.copy_problem_reported = attempt.copy_problem
    if share is None and not problem:
        return None
    return ev.Checkpointed(attempt=attempt.number, work_done=share, problem=problem)


def add_measured_times(attempt: ActiveAttempt, ended: ev.Ended) -> ev.Ended:
    """Return the end ``ended`` with the times that the transport measured.

    The attempt was started by an earlier engine, or it ended while the connection was lost. If the program
    died with its runner, its end was not measured, and ``ended`` is returned unchanged.
    """
    report = attempt.end
    if report is None:  # there was no program
        return replace(ended, ran_s=0.0)
    if report.get("cause") == "lost":
        return ended
    now = time.time()
    return replace(
        ended, ran_s=float(report.get("seconds", 0.0)), late_s=max(0.0, now - report.get("at", now))
    )


def halted_event(attempt: ActiveAttempt) -> ev.Ended:
    """Return the end of an attempt that was terminated because the engine stops."""
    return ev.Ended(attempt=attempt.number, exit_code=_RERUN_CODE, story="the engine was stopped")


def _add_epilog_problem(ended: ev.Ended, problem: str, outcomes: Collection[int]) -> ev.Ended:
    """Return the end of a program, changed if the task's own epilog failed.

    If the program succeeded, the cause becomes EPILOG. If the program failed too, the problem of the epilog
    is added to the story.
    """
    if not problem:
        return ended
    if not ended.cause and (ended.exit_code == 0 or ended.exit_code in outcomes):
        return replace(ended, exit_code=None, cause=Cause.EPILOG, work_done=None, story=problem)
    story = ended.story or (
        f"exit code {ended.exit_code}" if ended.exit_code is not None else str(ended.cause)
    )
    if not ended.cause and ended.exit_code in (_RERUN_CODE, _CHECKPOINTED_CODE):
        return ended  # a story would mean that weft has interrupted the program
    return replace(ended, story=f"{story}; {problem}")


def _is_result(name: str, results: set[str]) -> bool:
    if name in results or f"{name}/" in results:  # a directory is declared with a trailing slash
        return True
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in results)


_FULL_BYTES, _FULL_SHARE = 1 << 20, 0.05
"""A disk counts as full if its free space is below both this number of bytes and this share of its size."""
_SPACE_ERRORS = tuple(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT))


def describe_full_disk(disk: Mapping[str, Any] | None, stderr: str, workdir: str) -> str:
    """Return a text that says which disk is full and what to do; "": no disk is full.

    ``disk`` is the fullest file system that the program wrote to, at the end of the program (see
    ``ProgramReport``), or None if it is unknown. ``stderr`` contains the last lines that the program wrote to
    standard error. ``workdir`` is the working directory of the program.
    """
    folder, helps = workdir, "after the run `weft clean` removes directories of failed attempts"
    advice = f"free space there ({helps}), or set `sandbox` to a larger disk"
    full = ""
    if disk is not None:
        folder, free, size = disk["folder"], disk["free_bytes"], disk["size_bytes"]
        if free < min(_FULL_BYTES, _FULL_SHARE * size):
            full = f"is nearly full: {format_bytes(free)} of {format_bytes(size)} were free at its end"
        elif disk["free_files"] == 0:
            full = f"has no free inode for another file, but {format_bytes(free)} free"
    if full:
        return f"the disk of {folder} {full}; {advice}"
    said = next((text for text in _SPACE_ERRORS if text in stderr), "")
    if not said:
        return ""
    free_text = "" if disk is None else f"; {folder} had {format_bytes(disk['free_bytes'])} free"
    return f"its program reports {said!r}{free_text}; free space where it writes, or let it write elsewhere"


_SHELL_SIGNALS = 128
"""A shell whose last program was ended by a signal returns this number plus the number of the signal."""


def _describe_shell_code(ended: ev.Ended, outcomes: Collection[int]) -> str:
    """Return a text about a failure with the exit code of a signal below a shell; "" for other ends.

    The cause stays an error of the program: a program may also return such a code itself.
    """
    code = ended.exit_code
    if ended.cause or ended.story or code is None or code in outcomes:
        return ""
    number = code - _SHELL_SIGNALS
    if not 0 < number < signal.SIGRTMIN or number not in signal.valid_signals():
        return ""
    name = signal.Signals(number).name
    return f"exit code {code}: its shell reports a program that was ended by signal {number} ({name})"


def _classify_end(attempt: ActiveAttempt, report: ProgramReport) -> ev.Ended:
    number, code, by = attempt.number, report.get("code"), report.get("signal")
    cause = report.get("cause") or ""
    text = str(report.get("text") or "")
    # A program cancelled without a command of this engine was halted by an earlier engine.
    halted = attempt.halted or cause == "cancelled"
    if halted and not attempt.cancelled and (code is None or cause):
        return halted_event(attempt)
    if cause == "error":
        lasting = report.get("lasting") is True
        return ev.Ended(attempt=number, exit_code=code, cause=Cause.ERROR, story=text, lasting=lasting)
    if cause:
        return ev.Ended(attempt=number, exit_code=None, cause=Cause(cause), story=text)
    if code is None and by is not None:
        name = signal.Signals(by).name if by in signal.valid_signals() else f"signal {by}"
        external = by in _EXTERNAL_SIGNALS
        story = f"killed from outside ({name})" if external else f"terminated by {name}"
        found = Cause.PREEMPTED if external else Cause.ERROR
        return ev.Ended(attempt=number, exit_code=None, cause=found, story=story)
    return ev.Ended(attempt=number, exit_code=code, work_done=1.0)
