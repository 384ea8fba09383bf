"""Finishing an attempt: what its program's end means, what it has made, and where that goes."""

from __future__ import annotations

import fnmatch
import signal
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from weft.backends.backend import Circumstances
from weft.backends.inputs import late_names, outputs_of
from weft.backends.jobs.problem import JobProblem
from weft.backends.local.attempt_records import AttemptRecords
from weft.backends.local.live import Live
from weft.backends.local.runners import Record
from weft.backends.local.watching import kept, share_done
from weft.backends.products import MadeFile, Product
from weft.backends.said import refuse_astray
from weft.backends.staging.made import collect, protect
from weft.backends.staging.problem import StagingProblem
from weft.backends.staging.publishing import publish
from weft.backends.staging.removing import remove_tree
from weft.backends.staging.safe_paths import parts_of
from weft.backends.traces.results import growth_lines, read_result
from weft.engine.messages import events as ev
from weft.engine.state.known import Known
from weft.expressions import Value
from weft.workflow.templates import fill

__all__ = ["Finished", "Finishing", "as_measured"]

_REQUEUE, _AGAIN = 99, 85
_HALTED = "the engine was stopped"
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
"""Signals that programs do not send themselves: whoever sent one wanted the program off the machine."""


@dataclass(slots=True)
class Finished:
    """What is to be told of an end."""

    ended: ev.Ended
    product: Product | None = None
    checkpoint: float | None = None
    """The share of the work that its last restart files spare; None: there are no new ones."""
    lines: dict[str, tuple[str, ...]] = field(default_factory=dict)


class Finishing:
    """Looks at what programs leave; staging threads call it."""

    def __init__(self, circumstances: Circumstances, records: AttemptRecords) -> None:
        self._circumstances = circumstances
        self._records = records

    def is_plain(self, live: Live) -> bool:
        """Say whether there is nothing to look at but the end itself."""
        known = self._circumstances.known_of(live.run)
        description = known.description(live.task)
        return not description.outputs and description.recovery.checkpoint is None

    def finish(self, live: Live, record: Record) -> Finished:
        """Judge an end, and take in what was made."""
        known = self._circumstances.known_of(live.run)
        self._write_exit_code(live, record)
        if live.unrecorded:
            return Finished(
                ev.Ended(attempt=live.number, exit_code=None, cause="staging", story=live.unrecorded)
            )
        ended = _judged(live, record)
        finished = Finished(ended)
        if not ended.cause and ended.exit_code is not None and ended.exit_code not in (_REQUEUE, _AGAIN):
            self._take_in(live, record, known, finished)
        elif known.description(live.task).recovery.checkpoint and kept(self._circumstances, live):
            finished.checkpoint = share_done(self._circumstances, live, over=True)
        return finished

    def _take_in(self, live: Live, record: Record, known: Known, finished: Finished) -> None:
        """Take in the outputs and the result of a program that ended by itself."""
        ended = finished.ended
        good = ended.exit_code == 0 or ended.exit_code in known.outcomes(live.task)
        if not good:
            return
        try:
            files = self._files(live, known, all_of_them=ended.exit_code == 0)
            silent = not live.launched or self._records.has_no_result(live.workdir_path)
            result = {} if silent else read_result(live.workdir)
            finished.lines = dict(growth_lines(known, live.task, live.workdir_path, live.iteration))
        except (StagingProblem, JobProblem) as problem:
            finished.ended = ev.Ended(attempt=live.number, exit_code=None, cause="error", story=str(problem))
            return
        if result or live.stale:
            finished.ended = ev.Ended(
                attempt=live.number, exit_code=ended.exit_code, result=result, work_done=1.0, story=live.stale
            )
        finished.product = self._product(live, record, known, files, result)

    def _files(self, live: Live, known: Known, *, all_of_them: bool) -> tuple[MadeFile, ...]:
        names = outputs_of(known, live.task, live.iteration)
        if not names:
            return ()
        files = collect(live.workdir, names, missing_ok=not all_of_them)
        protect(live.workdir, files)
        return files

    def _product(
        self,
        live: Live,
        record: Record,
        known: Known,
        files: tuple[MadeFile, ...],
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

    def stage_out(self, live: Live, product: Product | None) -> ev.StagedOut:
        """Bring outputs to where the user wants them, and give what is to be told of it."""
        if product is None:
            return ev.StagedOut(attempt=live.number, problem="what it has made is not known any more")
        known = self._circumstances.known_of(live.run)
        folder = Path(self._circumstances.folder_of(live.run))
        names = late_names(known, live.task, live.iteration)
        description = known.description(live.task)
        targets = {
            fill(item.file, names): item.target for item in description.outputs if item.target is not None
        }
        results = {fill(name, names) for name in known.results(live.task)}
        try:
            for file in product.files:
                target = targets.get(file.name)
                if target is not None:
                    refuse_astray(description, target, names)
                    publish(Path(product.directory), file, fill(target, names), folder=folder)
                elif _is_result(file.name, results):
                    _refuse_own(file.name)
                    publish(Path(product.directory), file, file.name, folder=folder)
        except StagingProblem as problem:
            return ev.StagedOut(attempt=live.number, problem=str(problem), lasting=problem.lasting)
        return ev.StagedOut(attempt=live.number)

    def clean_up(self, live: Live) -> str:
        """Remove an attempt's directory; give the problem, or ""."""
        try:
            remove_tree(live.workdir.parent, live.workdir.name)
        except StagingProblem as problem:
            return str(problem)
        return ""

    def _write_exit_code(self, live: Live, record: Record) -> None:
        if live.launched:
            code = record.get("code")
            text = f"{code}\n" if code is not None else f"signal {record.get('signal')}\n"
            # Without it too: the journal knows.
            self._records.add_later(live.records_path, "exitcode", text.encode, lambda _: None)


def as_measured(live: Live, ended: ev.Ended) -> ev.Ended:
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


def _refuse_own(name: str) -> None:
    """Refuse a result that would take the place of what weft keeps."""
    if parts_of(name)[0] == ".weft":
        why = "weft keeps its own state there"
        raise StagingProblem("is not brought to the project", name, why, lasting=True)


def _judged(live: Live, record: Record) -> ev.Ended:
    """Say how a program ended, in the engine's words."""
    code, by, cause = record.get("code"), record.get("signal"), record.get("cause") or ""
    text = str(record.get("text") or "")
    by_itself = code is not None and not cause
    # Cancelled, and not by the engine: it was halted by one that did not live to hear of it.
    halted = live.halted or cause == "cancelled"
    if halted and not live.cancelled and not by_itself:
        return ev.Ended(attempt=live.number, exit_code=_REQUEUE, story=_HALTED)
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
