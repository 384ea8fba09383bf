"""Watching running programs: what they say through files, once a second (S3 section 2).

Finishing an attempt: what its program's end means, what it has made, and where that goes.
"""

from __future__ import annotations

import fnmatch
import signal
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from weft.backends.attempt.attempt import ActiveAttempt, AttemptRecords
from weft.backends.attempt.checkpoints import keep_checkpoint
from weft.backends.attempt.command import monitored_files
from weft.backends.attempt.external_files import publish
from weft.backends.attempt.inputs import output_names, refuse_redirection, start_values
from weft.backends.attempt.safe_paths import StagingProblem, split_name
from weft.backends.attempt.staging import collect_outputs, make_read_only
from weft.backends.attempt.substitution import JobProblem
from weft.backends.attempt.task_files import Observation, TaskFiles, read_result, read_sweep_lines
from weft.backends.attempt.trees import remove_tree
from weft.backends.backend import BackendContext, FileRecord, Product
from weft.backends.local.link import RunnerMessage
from weft.engine import messages as ev
from weft.engine.state.compiled import CompiledWorkflow
from weft.expressions import Value
from weft.workflow.templates import fill_template

__all__ = [
    "HALTED_TEXT",
    "AttemptFinisher",
    "FinishedAttempt",
    "TaskMonitor",
    "keep_restart_files",
    "with_measured_times",
    "work_done",
]


_EVERY_S = 1.0
_LEAST, _MOST = 1e-6, 0.999
"""Restart files are worth something, and never all of it."""


class TaskMonitor:
    """Looks at the files of running programs."""

    def __init__(self, circumstances: BackendContext) -> None:
        self._circumstances = circumstances
        self._watched: dict[int, ActiveAttempt] = {}
        self._next = time.monotonic() + _EVERY_S

    def begin(self, live: ActiveAttempt) -> None:
        """Watch a program that has begun."""
        self._watched[live.number] = live

    def end(self, live: ActiveAttempt) -> None:
        """Watch it no longer."""
        self._watched.pop(live.number, None)

    def next_in_s(self) -> float:
        """Give the seconds until the next look."""
        return self._next - time.monotonic()

    def look(self) -> list[ev.Event]:
        """Look at everything, and give what is new."""
        self._next = time.monotonic() + _EVERY_S
        found: list[ev.Event] = []
        for live in list(self._watched.values()):
            found += self._told(live, self._look(live))
        return found

    def progress(self, live: ActiveAttempt) -> list[ev.Event]:
        """Answer a question: how far a program is, after whatever else it has said meanwhile."""
        seen = self._look(live)
        answer = ev.Progressed(
            attempt=live.number,
            work_done=live.done,
            last_iteration_s=seen.last_iteration_s,
            iterations=seen.iterations,
            all_iterations=seen.all_iterations,
        )
        return [*self._told(live, seen), answer]

    def _look(self, live: ActiveAttempt) -> Observation:
        news = live.news
        if news is None:
            # What is there already was written by this very attempt, unless it goes on from restart files.
            from_now = live.start is not None and live.start.restart_from > 0
            known = self._circumstances.known_of(live.run)
            news = live.news = TaskFiles.of(known, live.task, live.workdir, from_now=from_now)
        seen = news.look()
        if seen.done is not None:
            live.done = min(1.0, max(0.0, seen.done))
        return seen

    def _told(self, live: ActiveAttempt, seen: Observation) -> list[ev.Event]:
        """Give what is new; nobody else sees it, since the next look finds the same files."""
        found: list[ev.Event] = []
        if seen.restart_changed and keep_restart_files(self._circumstances, live):
            found.append(ev.Checkpointed(attempt=live.number, work_done=work_done(self._circumstances, live)))
        if seen.degraded is not None:
            found.append(ev.Progressed(attempt=live.number, work_done=live.done, degraded=seen.degraded))
        if seen.requirements is not None or seen.rank is not None or seen.problems:
            found.append(
                ev.RequirementsChanged(
                    attempt=live.number,
                    requirements=seen.requirements,
                    rank=seen.rank,
                    mandatory=seen.mandatory,
                    problem="; ".join(seen.problems),
                )
            )
        return found


def keep_restart_files(circumstances: BackendContext, live: ActiveAttempt) -> bool:
    """Keep a program's restart files on our side; False: they are just being written, or cannot be had."""
    into = circumstances.layout.checkpoints(circumstances.execution, live.run, live.task)
    _, names = monitored_files(circumstances.known_of(live.run), live.task)
    try:
        return bool(names) and keep_checkpoint(live.workdir, names, into)
    except StagingProblem:
        return False


def work_done(circumstances: BackendContext, live: ActiveAttempt, *, over: bool = False) -> float:
    """Give the share of the work that is done: what the program says, else what the time suggests.

    ``over``: the program has ended, and what it said last has not been looked at yet.
    """
    if over and live.news is not None:
        said = live.news.look().done
        live.done = live.done if said is None else min(1.0, max(0.0, said))
    if live.done is not None:
        return max(_LEAST, live.done)
    start = live.start
    assert start is not None
    whole_s = circumstances.known_of(live.run).seconds(live.task, live.machine, live.count)
    until = time.time() if live.record is None else float(live.record.get("at", time.time()))
    passed = (until - live.began_at) / whole_s if whole_s > 0 else 0.5
    return min(_MOST, max(_LEAST, start.restart_from + passed))


RERUN_CODE, CHECKPOINTED_CODE = 99, 85
HALTED_TEXT = "the engine was stopped"
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
"""Signals that programs do not send themselves: whoever sent one wanted the program off the machine."""


@dataclass(slots=True)
class FinishedAttempt:
    """What is to be told of an end."""

    ended: ev.Ended
    product: Product | None = None
    checkpoint: float | None = None
    """The share of the work that its last restart files spare; None: there are no new ones."""
    lines: dict[str, tuple[str, ...]] = field(default_factory=dict)


class AttemptFinisher:
    """Looks at what programs leave; staging threads call it."""

    def __init__(self, circumstances: BackendContext, records: AttemptRecords) -> None:
        self._circumstances = circumstances
        self._records = records

    def is_plain(self, live: ActiveAttempt) -> bool:
        """Say whether there is nothing to look at but the end itself."""
        known = self._circumstances.known_of(live.run)
        description = known.description(live.task)
        return not description.outputs and description.recovery.checkpoint is None

    def finish(self, live: ActiveAttempt, record: RunnerMessage) -> FinishedAttempt:
        """Judge an end, and take in what was made."""
        known = self._circumstances.known_of(live.run)
        self._write_exit_code(live, record)
        if live.unrecorded:
            return FinishedAttempt(
                ev.Ended(attempt=live.number, exit_code=None, cause="staging", story=live.unrecorded)
            )
        ended = _classify_end(live, record)
        finished = FinishedAttempt(ended)
        if (
            not ended.cause
            and ended.exit_code is not None
            and ended.exit_code not in (RERUN_CODE, CHECKPOINTED_CODE)
        ):
            self._take_in(live, record, known, finished)
        elif known.description(live.task).recovery.checkpoint and keep_restart_files(
            self._circumstances, live
        ):
            finished.checkpoint = work_done(self._circumstances, live, over=True)
        return finished

    def _take_in(
        self, live: ActiveAttempt, record: RunnerMessage, known: CompiledWorkflow, finished: FinishedAttempt
    ) -> None:
        """Take in the outputs and the result of a program that ended by itself."""
        ended = finished.ended
        good = ended.exit_code == 0 or ended.exit_code in known.outcomes(live.task)
        if not good:
            return
        try:
            files = self._files(live, known, all_of_them=ended.exit_code == 0)
            silent = not live.launched or self._records.has_no_result(live.workdir_path)
            result = {} if silent else read_result(live.workdir)
            finished.lines = dict(read_sweep_lines(known, live.task, live.workdir_path, live.iteration))
        except (StagingProblem, JobProblem) as problem:
            finished.ended = ev.Ended(attempt=live.number, exit_code=None, cause="error", story=str(problem))
            return
        if result or live.stale:
            finished.ended = ev.Ended(
                attempt=live.number, exit_code=ended.exit_code, result=result, work_done=1.0, story=live.stale
            )
        finished.product = self._product(live, record, known, files, result)

    def _files(
        self, live: ActiveAttempt, known: CompiledWorkflow, *, all_of_them: bool
    ) -> tuple[FileRecord, ...]:
        names = output_names(known, live.task, live.iteration)
        if not names:
            return ()
        files = collect_outputs(live.workdir, names, missing_ok=not all_of_them)
        make_read_only(live.workdir, files)
        return files

    def _product(
        self,
        live: ActiveAttempt,
        record: RunnerMessage,
        known: CompiledWorkflow,
        files: tuple[FileRecord, ...],
        result: dict[str, Value],
    ) -> Product:
        circumstances, start = self._circumstances, live.start
        assert start is not None
        return Product(
            execution=circumstances.execution,
            run=live.run,
            task=live.task,
            name=known.names[live.task],
            kind=known.description(live.task).name,
            workflow=known.key,
            attempt=live.number,
            iteration=start.iteration,
            machine=circumstances.machines[live.machine].name,
            directory=live.workdir_path,
            files=files,
            exit_code=int(record.get("code") or 0),
            result=result,
            fingerprint=live.fingerprint,
            parts=live.fingerprint_parts,
            seconds=float(record.get("seconds", 0.0)),
        )

    def stage_out(self, live: ActiveAttempt, product: Product | None) -> ev.StagedOut:
        """Bring outputs to where the user wants them, and give what is to be told of it."""
        if product is None:
            return ev.StagedOut(attempt=live.number, problem="what it has made is not known any more")
        known = self._circumstances.known_of(live.run)
        folder = Path(self._circumstances.folder_of(live.run))
        names = start_values(known, live.task, live.iteration)
        description = known.description(live.task)
        targets = {
            fill_template(item.file, names): item.target
            for item in description.outputs
            if item.target is not None
        }
        results = {fill_template(name, names) for name in known.results(live.task)}
        try:
            for file in product.files:
                target = targets.get(file.name)
                if target is not None:
                    refuse_redirection(description, target, names)
                    publish(Path(product.directory), file, fill_template(target, names), folder=folder)
                elif _is_result(file.name, results):
                    _refuse_state_folder(file.name)
                    publish(Path(product.directory), file, file.name, folder=folder)
        except StagingProblem as problem:
            return ev.StagedOut(attempt=live.number, problem=str(problem), lasting=problem.lasting)
        return ev.StagedOut(attempt=live.number)

    def clean_up(self, live: ActiveAttempt) -> str:
        """Remove an attempt's directory; give the problem, or ""."""
        try:
            remove_tree(live.workdir.parent, live.workdir.name)
        except StagingProblem as problem:
            return str(problem)
        return ""

    def _write_exit_code(self, live: ActiveAttempt, record: RunnerMessage) -> None:
        if live.launched:
            code = record.get("code")
            text = f"{code}\n" if code is not None else f"signal {record.get('signal')}\n"
            # Without it too: the journal knows.
            self._records.add_later(live.records_path, "exitcode", text.encode, lambda _: None)


def with_measured_times(live: ActiveAttempt, ended: ev.Ended) -> ev.Ended:
    """Give an end with the times that the runner has measured: no engine was there all the time.

    Of a program that died with its runner nobody knows when it did.
    """
    record = live.record
    if record is None:  # there was no program
        return replace(ended, ran_s=0.0)
    if record.get("cause") == "lost":
        return ended
    now = time.time()
    return replace(
        ended, ran_s=float(record.get("seconds", 0.0)), late_s=max(0.0, now - record.get("at", now))
    )


def _is_result(name: str, results: set[str]) -> bool:
    if name in results or f"{name}/" in results:  # a directory is declared with a slash, and made without
        return True
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in results)


def _refuse_state_folder(name: str) -> None:
    """Refuse a result that would take the place of what weft keeps."""
    if split_name(name)[0] == ".weft":
        why = "weft keeps its own state there"
        raise StagingProblem("is not brought to the project", name, why, lasting=True)


def _classify_end(live: ActiveAttempt, record: RunnerMessage) -> ev.Ended:
    """Say how a program ended, in the engine's words."""
    code, by, cause = record.get("code"), record.get("signal"), record.get("cause") or ""
    text = str(record.get("text") or "")
    by_itself = code is not None and not cause
    # Cancelled, and not by the engine: it was halted by one that did not live to hear of it.
    halted = live.halted or cause == "cancelled"
    if halted and not live.cancelled and not by_itself:
        return ev.Ended(attempt=live.number, exit_code=RERUN_CODE, story=HALTED_TEXT)
    if cause == "error":
        return ev.Ended(attempt=live.number, exit_code=code, cause="error", story=text)
    if cause:
        return ev.Ended(attempt=live.number, exit_code=None, cause=cause, story=text)
    if code is None and by is not None:
        name = signal.Signals(by).name if by in signal.valid_signals() else f"signal {by}"
        outside = by in _FROM_OUTSIDE
        story = f"killed from outside ({name})" if outside else f"ended by {name}"
        cause = "preempted" if outside else "error"
        return ev.Ended(attempt=live.number, exit_code=None, cause=cause, story=story)
    return ev.Ended(attempt=live.number, exit_code=code, work_done=1.0)
