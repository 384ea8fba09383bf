"""Reports of an execution: what its journal and its records tell, as texts, pages and files.

They are written in ``.weft/reports/RUN`` when a run ends, and by ``weft report`` whenever somebody asks.

The logs of a task: which attempts it had, and what the program of one of them wrote.

What lies there was written by programs that nobody trusts: only regular files are read, no link is followed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from weft.api.project import JournalFollower, OpenProject
from weft.backends.attempt.safe_paths import StagingProblem, open_inside
from weft.backends.backend import Product
from weft.backends.layout import ProjectLayout
from weft.backends.local.records import RecordLog, SealedRecords
from weft.engine.history import AttemptRecord
from weft.engine.state.run import RunState as RunState
from weft.errors import InvalidInput, Problem, nearest
from weft.formats.files import save_text
from weft.platform.machine import Machine
from weft.platform.platform import planned_machines
from weft.reports.events_jsonl import EventLines
from weft.reports.execution import ExecutedRun, build_executed_run
from weft.reports.execution_history import AttemptLogs, ExecutionHistory, ExecutionRecords, ProcessUsage
from weft.reports.execution_page import execution_html
from weft.reports.trace_tsv import trace_tsv
from weft.reports.wfformat import write_wfformat
from weft.repository.journal import Journal
from weft.repository.journal_store import JournalStore
from weft.repository.products import ProductTable
from weft.repository.runs import RunRecord, RunTable

__all__ = ["ExecutionReport", "TaskLog", "find_attempt", "read_report", "reports_folder", "write_reports"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExecutionReport:
    """What is to be told of an execution, or of one run of it."""

    executed: ExecutedRun
    events: tuple[str, ...]
    """One line of JSON for each happening."""

    def html(self) -> str:
        """Give the page."""
        return execution_html(self.executed)

    def trace(self) -> str:
        """Give the attempts in Nextflow's columns."""
        return trace_tsv(self.executed)

    def events_text(self) -> str:
        """Give the happenings."""
        return "".join(f"{line}\n" for line in self.events)

    def wfformat(self) -> str:
        """Give the executed run as WfFormat; raises InvalidInput where nothing completed."""
        return write_wfformat(self.executed)


def reports_folder(layout: ProjectLayout, run: int) -> Path:
    """Give the folder of a run's reports."""
    return layout.home / "reports" / str(run)


def read_report(place: OpenProject, execution: int, run: RunRecord | None = None) -> ExecutionReport:
    """Read an execution from its journal; ``run``: tell of this run of it only."""
    store = JournalStore(place.database)
    header = store.header(execution)
    entries = store.read(execution)
    engine = Journal(header=header, plans={}, entries=()).engine()
    engine.state.plans.update(entries.plans)
    runs = place.runs.of(execution)
    numbers = {each.position: each.number for each in runs}
    chronicle, lines = (
        ExecutionHistory(),
        EventLines(header.started_at_s, lambda index: numbers.get(index, index)),
    )
    events: list[str] = []
    for entry in entries.entries:
        engine.apply(entry.event, entry.now, entry.commands)
        chronicle.take(entry, engine.state)
        events.extend(lines.take(entry, engine.state))
    chronicle.finish(engine.state)
    machines = planned_machines(header.platform)
    evidence = ExecutionRecords(
        promises={each.position: each.promise for each in runs if each.promise is not None},
        measured=_read_usage(place, execution, machines),
        products=_read_products(place, execution, engine.state.runs),
        logs=AttemptLogs(layout=place.layout, execution=execution),
        numbers=numbers,
        zero_at_s=header.started_at_s,
    )
    chosen = None if run is None else [run.position]
    executed = build_executed_run(chronicle, header.platform, evidence=evidence, runs=chosen)
    return ExecutionReport(executed=executed, events=tuple(events))


def _read_usage(place: OpenProject, execution: int, machines: tuple[Machine, ...]) -> dict[int, ProcessUsage]:
    """Read what the runners have written of programs' ends; what others wrote is not believed."""
    token = RunTable(place.database).remembered(execution, "token")
    found: dict[int, ProcessUsage] = {}
    for machine in machines if token else ():
        folder = place.layout.runner(execution, machine)
        if token and folder.is_dir():
            records = SealedRecords(str(folder), token)
            try:
                ends: Mapping[int, Mapping[str, object]] = RecordLog.read(records, "ends")
            finally:
                records.close()
            found |= {attempt: ProcessUsage.of_record(record) for attempt, record in ends.items()}
    return found


def _read_products(place: OpenProject, execution: int, runs: list[RunState]) -> dict[int, Product]:
    stored = ProductTable(place.database)
    found = {}
    for run in runs:
        for task in range(len(run)):
            product = stored.of(execution, run.index, task)
            if product is not None:
                found[product.attempt] = product
    return found


def write_reports(place: OpenProject, execution: int) -> tuple[Path, ExecutionReport] | None:
    """Write all reports of an execution into the folder of its first run; give that, and them.

    None: it was ended before any run had begun.
    """
    runs = place.runs.of(execution)
    if not runs:
        return None
    told = read_report(place, execution)
    folder = reports_folder(place.layout, runs[0].number)
    folder.mkdir(parents=True, exist_ok=True)
    save_text(told.html(), str(folder / "report.html"))
    save_text(told.trace(), str(folder / "trace.tsv"))
    save_text(told.events_text(), str(folder / "events.jsonl"))
    if not told.executed.several:
        with suppress(InvalidInput):  # nothing completed: there is no such file then
            save_text(told.wfformat(), str(folder / "wfformat.json"))
    return folder, told


_AT_ONCE = 65_536


@dataclass(slots=True)
class TaskLog:
    """A log that is read from its beginning, as far as it is written."""

    path: Path
    """In the records of an attempt (``Layout.records``)."""
    place: int = 0

    def more(self) -> Iterator[bytes]:
        """Give what was written since the last time."""
        try:
            # From weft's own directory on: a task may have put a link in the place of any below it.
            descriptor = open_inside(self.path.parents[3], "/".join(self.path.parts[-4:]))
        except StagingProblem:
            return
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return
            while data := os.pread(descriptor, _AT_ONCE, self.place):
                self.place += len(data)
                yield data
        finally:
            os.close(descriptor)


def find_attempt(followed: JournalFollower, run: RunRecord, name: str, number: int | None) -> AttemptRecord:
    """Find an attempt of a task: the one of this number (1 is the task's first), or the last.

    Of a run that does not go on, the last that has begun: what was only decided has nothing to show. The name
    of a description means its only task; of a task in a loop, ``NAME#2`` means its second iteration.
    """
    state = followed.state.runs[run.position]
    tried = [each for each in followed.history.attempts.values() if each.run == run.position]
    own = [each for each in tried if name in (each.task, f"{each.task}#{each.iteration}")]
    if not own:
        names = list(state.compiled.names)
        kinds = list(dict.fromkeys(state.compiled.description(task).program for task in range(len(names))))
        own = _find_by_kind(name, names, kinds, tried)
    if number is None:
        return own[-1] if followed.place.state_of(run) == "running" else _last_begun(followed, own)
    if not 1 <= number <= len(own):
        what = f"attempt {number} of {name!r}"
        raise InvalidInput(Problem(what=what, rule=f"it had {len(own)}", advice="they count from 1"))
    return own[number - 1]


def _last_begun(followed: JournalFollower, own: list[AttemptRecord]) -> AttemptRecord:
    layout, execution = followed.place.layout, followed.execution
    for tried in reversed(own):
        if tried.ended_s is not None or layout.records(execution, tried.number).exists():
            return tried
    return own[-1]


def _find_by_kind(
    name: str, names: list[str], kinds: list[str], tried: list[AttemptRecord]
) -> list[AttemptRecord]:
    bare = name.rpartition("#")[0] or name
    if name in kinds:
        found = list(dict.fromkeys(each.task for each in tried if each.kind == name))
        if len(found) == 1:
            return [each for each in tried if each.task == found[0]]
        if found:
            some = ", ".join(found[:5]) + (", ..." if len(found) > 5 else "")
            raise InvalidInput(Problem(what=f"{name!r} has {len(found)} tasks", advice=f"name one: {some}"))
    if name in names or name in kinds or bare in names:
        raise InvalidInput(
            Problem(
                what=f"{name!r} has not begun yet", advice=f"`weft explain {name}` says what it waits for"
            )
        )
    near = nearest(name, [*kinds, *names])
    advice = f"did you mean {near!r}?" if near else f"it has {', '.join(kinds[:8])}"
    raise InvalidInput(Problem(what=f"no task {name!r} in this run", advice=advice))
