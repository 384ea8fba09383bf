"""Read an execution from its journal and records, write its reports, and read the logs of its tasks.

Reports are written to ``.weft/reports/RUN`` when a run ends, and by ``weft report``. Logs are written by
untrusted programs: only regular files are read and links are not followed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from weft.api.project import JournalFollower, OpenProject
from weft.backends.attempt.safe_paths import StagingProblem, open_inside
from weft.backends.backend import Product
from weft.backends.layout import ProjectLayout
from weft.backends.runner.records import RecordLog, SealedRecords
from weft.engine.explanation import find_iteration, missing_iteration
from weft.engine.history import AttemptRecord, RunSummary
from weft.engine.state.compiled import WorkflowLibrary
from weft.engine.state.run import RunState as RunState
from weft.engine.states import format_counters
from weft.errors import InvalidInput, nearest
from weft.formats.files import save_text
from weft.platform.machine import Machine
from weft.platform.platform import planned_machines
from weft.private_files import make_folder
from weft.records import dataclass
from weft.redaction import redact
from weft.reports.events_jsonl import EventLines
from weft.reports.execution import ExecutedRun, build_executed_run
from weft.reports.execution_page import execution_html
from weft.reports.execution_records import ExecutionRecords, ProcessUsage
from weft.reports.trace_tsv import trace_tsv
from weft.reports.wfformat import write_wfformat
from weft.repository.journal_store import read_nonces
from weft.repository.products import ProductTable
from weft.repository.runs import RunRecord, RunTable
from weft.units import format_count


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExecutionReport:
    """Data of an execution, or of one of its runs, and methods that return reports as text."""

    executed: ExecutedRun
    events: tuple[str, ...]
    """Events of the execution, one JSON object each."""

    def html(self) -> str:
        """Return the report as an HTML page."""
        return redact(execution_html(self.executed))

    def trace(self) -> str:
        """Return the attempts in the columns of Nextflow's trace file."""
        return redact(trace_tsv(self.executed))

    def events_text(self) -> str:
        """Return the events as JSON lines."""
        return "".join(f"{line}\n" for line in self.events)

    def wfformat(self) -> str:
        """Return the run in WfFormat; raise InvalidInput if no task completed."""
        return redact(write_wfformat(self.executed))


def reports_folder(layout: ProjectLayout, run: int) -> Path:
    """Return the folder of a run's reports."""
    return layout.home / "reports" / str(run)


def read_report(
    opened: OpenProject,
    execution: int,
    run: RunRecord | None = None,
    *,
    compiled: WorkflowLibrary | None = None,
) -> ExecutionReport:
    """Read the journal and records of an execution; return its report, or that of only one ``run``.

    ``compiled``: the workflows of the execution, if they are already compiled.
    """
    followed = JournalFollower(opened, execution, compiled=compiled)
    header, history, state = followed.header, followed.history, followed.state
    runs = opened.runs.of(execution)
    numbers = {each.position: each.number for each in runs}
    writer = EventLines(history, header.started_at_s, lambda index: numbers.get(index, index))
    events = [line for entry in followed.new_entries() for line in writer.lines(entry, state)]
    machines, nonces = planned_machines(header.platform), read_nonces(opened.database, execution)
    records = ExecutionRecords(
        promises={each.position: each.promise for each in runs if each.promise is not None},
        measured=_read_usage(opened, execution, machines, nonces),
        products=_read_products(opened, execution, state.runs),
        logs=opened.logs(execution, nonces),
        numbers=numbers,
        zero_at_s=header.started_at_s,
    )
    _add_endings(history.runs, runs, header.started_at_s)
    chosen = None if run is None else [run.position]
    executed = build_executed_run(history.finish(), state, header.platform, records=records, runs=chosen)
    return ExecutionReport(executed=executed, events=tuple(events))


def _add_endings(summaries: list[RunSummary], records: list[RunRecord], zero_at_s: float) -> None:
    """Set outcome and end of the failed runs whose end the journal does not record.

    The journal has no command for the end of a run that failed because no task could continue. The values are
    taken from the database.
    """
    for record in records:
        if record.position < len(summaries) and record.state == "failed" and record.ended_at_s is not None:
            summary = summaries[record.position]
            if not summary.outcome:
                summary.outcome, summary.reason = record.state, record.reason
                summary.ended_s = max(summary.arrival_s, record.ended_at_s - zero_at_s)


def _read_usage(
    opened: OpenProject, execution: int, machines: tuple[Machine, ...], nonces: Mapping[int, str]
) -> dict[int, ProcessUsage]:
    """Return the resource usage that runners recorded, by attempt; skip records with a wrong nonce."""
    token = RunTable(opened.database).stored_value(execution, "token")
    found: dict[int, ProcessUsage] = {}
    for machine in machines if token else ():
        folder = opened.layout.runner(execution, machine)
        if token and folder.is_dir():
            records = SealedRecords(str(folder), token)
            try:
                ends: Mapping[int, Mapping[str, object]] = RecordLog.read(records, "ends")
            finally:
                records.close()
            for attempt, record in ends.items():
                if record.get("nonce", "") == nonces.get(attempt, ""):
                    found[attempt] = ProcessUsage.of_record(record)
    return found


def _read_products(opened: OpenProject, execution: int, runs: list[RunState]) -> dict[int, Product]:
    stored = ProductTable(opened.database)
    found = {}
    for run in runs:
        for task in range(len(run)):
            if (product := stored.of(execution, run.index, task)) is not None:
                found[product.attempt] = product
    return found


def write_reports(
    opened: OpenProject, execution: int, *, compiled: WorkflowLibrary | None = None
) -> tuple[Path, ExecutionReport] | None:
    """Write all reports of an execution into the report folder of its first run.

    Return the folder and the report; None if the execution has no runs.
    """
    if not (runs := opened.runs.of(execution)):
        return None
    report = read_report(opened, execution, compiled=compiled)
    folder = reports_folder(opened.layout, runs[0].number)
    if not os.path.lexists(opened.layout.database):
        raise InvalidInput(f"'{opened.layout.home}' was moved or removed", advice="move it back")
    try:
        make_folder(folder)
    except OSError as error:
        raise InvalidInput(f"cannot create the folder '{folder}': {error.strerror}") from None
    save_text(report.html(), str(folder / "report.html"))
    save_text(report.trace(), str(folder / "trace.tsv"))
    save_text(report.events_text(), str(folder / "events.jsonl"))
    if not report.executed.several:
        with suppress(InvalidInput):  # no task completed: WfFormat has nothing to describe
            save_text(report.wfformat(), str(folder / "wfformat.json"))
    return folder, report


_AT_ONCE = 65_536


@dataclass(slots=True)
class TaskLog:
    """A growing log file, read from the beginning."""

    path: Path
    """File in the records folder of an attempt (``ProjectLayout.records``)."""
    offset: int = 0

    def more(self) -> Iterator[bytes]:
        """Yield the bytes written since the last call."""
        with self._opened() as descriptor:
            while descriptor is not None and (data := os.pread(descriptor, _AT_ONCE, self.offset)):
                self.offset += len(data)
                yield data

    def tail(self, most_bytes: int) -> bytes:
        """Return the last ``most_bytes`` bytes of the file; b"" if the file is missing."""
        with self._opened() as descriptor:
            if descriptor is None:
                return b""
            size = os.fstat(descriptor).st_size
            return os.pread(descriptor, most_bytes, max(0, size - most_bytes))

    @contextmanager
    def _opened(self) -> Iterator[int | None]:
        """Context manager with a descriptor of the file; None if it is missing or not a regular file."""
        try:
            # Resolve from the project's own directory: a task may have replaced a folder below it by a link.
            descriptor = open_inside(self.path.parents[3], "/".join(self.path.parts[-4:]))
        except StagingProblem:
            yield None
            return
        try:
            yield descriptor if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
        finally:
            os.close(descriptor)


def find_attempt(followed: JournalFollower, run: RunRecord, name: str, number: int | None) -> AttemptRecord:
    """Return the attempt ``number`` (from 1) of the task ``name``; the last attempt if ``number`` is None.

    If the run is not running, the last attempt is the last one that started. ``name`` is the name of a task,
    or of a kind of which exactly one task has attempts. ``NAME#2`` is the second iteration of a task in a
    loop; ``NAME#2.1`` is the first iteration of the inner loop within the second iteration of the outer loop.
    """
    state = followed.state.runs[run.position]
    tried = [each for each in followed.history.attempts.values() if each.run == run.position]
    own = [each for each in tried if name in (each.task, f"{each.task}#{format_counters(each.counters)}")]
    if not own:
        names = list(state.compiled.names)
        kinds = list(dict.fromkeys(state.compiled.description(task).program for task in range(len(names))))
        own = _find_by_kind(name, names, kinds, tried)
    if not own:
        raise _describe_unstarted(state, name, is_running=followed.opened.state_of(run) == "running")
    if number is None:
        return own[-1] if followed.opened.state_of(run) == "running" else _last_begun(followed, own)
    if not 1 <= number <= len(own):
        what = f"attempt {number} of {name!r}"
        attempts = format_count(len(own), "attempt")
        raise InvalidInput(what, rule=f"it had {attempts}", advice="attempts are numbered from 1")
    return own[number - 1]


def _last_begun(followed: JournalFollower, own: list[AttemptRecord]) -> AttemptRecord:
    opened, execution = followed.opened, followed.execution
    for tried in reversed(own):
        if tried.ended_s is not None or opened.records(execution, tried.number).exists():
            return tried
    return own[-1]


def _find_by_kind(
    name: str, names: list[str], kinds: list[str], tried: list[AttemptRecord]
) -> list[AttemptRecord]:
    """Return the attempts of the only task of a kind; an empty list if the named task has no attempt yet."""
    if name in kinds:
        found = list(dict.fromkeys(each.task for each in tried if each.kind == name))
        if len(found) == 1:
            return [each for each in tried if each.task == found[0]]
        if found:
            some = ", ".join(found[:5]) + (", ..." if len(found) > 5 else "")
            raise InvalidInput(f"{name!r} has {len(found)} tasks", advice=f"name one of them: {some}")
    if name in names or name in kinds or name.rpartition("#")[0] in names:
        return []
    near = nearest(name, [*kinds, *names])
    advice = f"did you mean {near!r}?" if near else f"the run has the tasks {', '.join(kinds[:8])}"
    raise InvalidInput(f"no task {name!r} in this run", advice=advice)


def _describe_unstarted(run: RunState, name: str, *, is_running: bool) -> InvalidInput:
    """Return the error which says that a task, or the named iteration of the task, has no attempt."""
    task, counters = find_iteration(run, name) or (-1, None)
    if counters is not None and counters != run.loops.counters(task):
        return missing_iteration(run, task, name)
    if is_running:
        return InvalidInput(
            f"{name!r} has not started yet", advice=f"`weft explain {name}` shows what it waits for"
        )
    return InvalidInput(f"{name!r} did not start", advice=f"`weft explain {name}` shows why")
