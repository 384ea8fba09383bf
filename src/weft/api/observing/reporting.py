"""Reports of an execution: what its journal and its records tell, as texts, pages and files.

They are written in ``.weft/reports/RUN`` when a run ends, and by ``weft report`` whenever somebody asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from weft.api.observing.following import Place
from weft.backends.layout import Layout
from weft.backends.products import Product
from weft.backends.runner.records import Ledger, Records
from weft.engine.state.run import Run as RunState
from weft.errors import InvalidInput
from weft.formats.files import save_text
from weft.platform.machine import Machine
from weft.platform.platform import planned_machines
from weft.reports.events_jsonl import EventLines
from weft.reports.execution import ExecutedRun, executed_run
from weft.reports.execution_chronicle import Chronicle
from weft.reports.execution_evidence import Evidence, Measured
from weft.reports.execution_html import execution_html
from weft.reports.execution_logs import Logs
from weft.reports.trace_tsv import trace_tsv
from weft.reports.wfformat_execution import wfformat_of
from weft.repository.journal import Journal
from weft.repository.journal_store import JournalStore
from weft.repository.products import StoredProducts
from weft.repository.runs import Run, Runs

__all__ = ["Told", "reports_folder", "tell", "write_reports"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Told:
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
        return wfformat_of(self.executed)


def reports_folder(layout: Layout, run: int) -> Path:
    """Give the folder of a run's reports."""
    return layout.home / "reports" / str(run)


def tell(place: Place, execution: int, run: Run | None = None) -> Told:
    """Read an execution from its journal; ``run``: tell of this run of it only."""
    store = JournalStore(place.database)
    header = store.header(execution)
    entries = store.read(execution)
    engine = Journal(header=header, plans={}, entries=()).engine()
    engine.state.plans.update(entries.plans)
    runs = place.runs.of(execution)
    numbers = {each.position: each.number for each in runs}
    chronicle, lines = Chronicle(), EventLines(header.started_at_s, lambda index: numbers.get(index, index))
    events: list[str] = []
    for entry in entries.entries:
        engine.apply(entry.event, entry.now, entry.commands)
        chronicle.take(entry, engine.state)
        events.extend(lines.take(entry, engine.state))
    chronicle.finish(engine.state)
    machines = planned_machines(header.platform)
    evidence = Evidence(
        promises={each.position: each.promise for each in runs if each.promise is not None},
        measured=_measured(place, execution, machines),
        products=_products(place, execution, engine.state.runs),
        logs=Logs(layout=place.layout, execution=execution),
        numbers=numbers,
        zero_at_s=header.started_at_s,
    )
    chosen = None if run is None else [run.position]
    executed = executed_run(chronicle, header.platform, evidence=evidence, runs=chosen)
    return Told(executed=executed, events=tuple(events))


def _measured(place: Place, execution: int, machines: tuple[Machine, ...]) -> dict[int, Measured]:
    """Read what the runners have written of programs' ends; what others wrote is not believed."""
    token = Runs(place.database).remembered(execution, "token")
    found: dict[int, Measured] = {}
    for machine in machines if token else ():
        folder = place.layout.runner(execution, machine)
        if token and folder.is_dir():
            records = Records(str(folder), token)
            try:
                ends: Mapping[int, Mapping[str, object]] = Ledger.read(records, "ends")
            finally:
                records.close()
            found |= {attempt: Measured.of_record(record) for attempt, record in ends.items()}
    return found


def _products(place: Place, execution: int, runs: list[RunState]) -> dict[int, Product]:
    stored = StoredProducts(place.database)
    found = {}
    for run in runs:
        for task in range(len(run)):
            product = stored.of(execution, run.index, task)
            if product is not None:
                found[product.attempt] = product
    return found


def write_reports(place: Place, execution: int) -> tuple[Path, Told] | None:
    """Write all reports of an execution into the folder of its first run; give that, and them.

    None: it was ended before any run had begun.
    """
    runs = place.runs.of(execution)
    if not runs:
        return None
    told = tell(place, execution)
    folder = reports_folder(place.layout, runs[0].number)
    folder.mkdir(parents=True, exist_ok=True)
    save_text(told.html(), str(folder / "report.html"))
    save_text(told.trace(), str(folder / "trace.tsv"))
    save_text(told.events_text(), str(folder / "events.jsonl"))
    if not told.executed.several:
        with suppress(InvalidInput):  # nothing completed: there is no such file then
            save_text(told.wfformat(), str(folder / "wfformat.json"))
    return folder, told
