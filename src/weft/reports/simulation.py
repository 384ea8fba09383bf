"""Reports of a simulation: Gantt chart, tables, HTML page and CSV.

The page shows active workflows and ready tasks over time, slowdowns, runs, machines, migrations and failures.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from weft.engine.history import AttemptRecord, History, MachineUse, MigrationRecord, RunSummary
from weft.engine.states import UNKNOWN_SHARE, format_counters
from weft.papers.statistics import Summary
from weft.records import dataclass
from weft.reports.charts import box_plots, steps_chart
from weft.reports.gantt_html import HtmlGantt
from weft.reports.report import GanttView
from weft.reports.text import TextTable
from weft.schedule.schedule import Schedule
from weft.units import format_bytes, format_seconds

_MARKS = {"migrated": "→", "failed": "✗", "cancelled": "✗", "": "…"}
"""Maps the ending of an attempt to the suffix of its name in the chart; completed attempts have none."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SimulationView:
    """Data of the page of a simulation."""

    title: str
    history: History
    machines: tuple[tuple[str, int], ...]
    """(name, nodes) of each machine."""
    sites: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    uses: tuple[MachineUse, ...]
    slowdowns: tuple[tuple[str, Summary], ...]
    """Statistics of the slowdowns by workflow."""
    lower_bound_s: float
    notes: tuple[str, ...] = ()


def simulation_chart(view: SimulationView) -> GanttView:
    """Return the data of a Gantt chart of all attempts that started."""
    history = view.history
    ran = [attempt for attempt in history.attempts.values() if attempt.started_s is not None]
    return replace(
        attempts_chart(view.title, ran, history, view.machines, several=len(history.runs) > 1),
        machine_sites=view.sites,
        facts=view.facts,
        lower_bound_s=view.lower_bound_s or None,
    )


def attempts_chart(
    title: str,
    ran: Sequence[AttemptRecord],
    history: History,
    machines: Sequence[tuple[str, int]],
    *,
    several: bool,
    origin_s: float = 0.0,
    number: Callable[[int], int] = int,
) -> GanttView:
    """Return the data of a Gantt chart of attempts, with times relative to ``origin_s``.

    ``machines`` lists (name, nodes); ``several``: whether the attempts belong to several runs. ``number``
    maps the index of a run to the number shown to users.
    """
    looping = {run.index for run in history.runs if any(count > 1 for count in run.iterations.values())}
    schedule = Schedule(
        tasks=tuple(
            _label(attempt, number(attempt.run) if several else None, looping=attempt.run in looping)
            for attempt in ran
        ),
        machines=tuple(name for name, _ in machines),
        machine=np.array([attempt.machine for attempt in ran], dtype=np.uint32),
        nodes=np.array([attempt.nodes for attempt in ran], dtype=np.uint32),
        start_s=np.array([attempt.started_s for attempt in ran], dtype=np.float64) - origin_s,
        finish_s=np.array([_end_s(attempt, history) for attempt in ran], dtype=np.float64) - origin_s,
    )
    return GanttView(
        title=title,
        schedule=schedule,
        kinds=tuple(
            [
                _ending(attempt) or (history.runs[attempt.run].workflow if several else attempt.kind)
                for attempt in ran
            ]
        ),
        machine_nodes=tuple((nodes for _, nodes in machines)),
    )


def _end_s(attempt: AttemptRecord, history: History) -> float:
    return history.end_s if attempt.ended_s is None else attempt.ended_s


def _label(attempt: AttemptRecord, run: int | None, *, looping: bool) -> str:
    """Return the name of an attempt in the chart: its task, with run, iteration and mark where needed."""
    name = attempt.task if run is None else f"{run}:{attempt.task}"
    if looping:
        name += f"#{format_counters(attempt.counters)}"
    return f"{name} {_MARKS[attempt.ending]}" if attempt.ending in _MARKS else name


def _ending(attempt: AttemptRecord) -> str:
    """Return how an attempt ended that did not complete; "" if it completed."""
    match attempt.ending:
        case "migrated":
            return f"left: {attempt.left_for}"
        case "failed":
            return f"failed: {attempt.cause}"
        case "cancelled":
            return "cancelled"
        case "":
            return "did not end"
        case _:
            return ""


_NOTHING = "-"


def run_table(runs: Iterable[RunSummary]) -> TextTable:
    """Return a table with a row per run: arrival, end, outcome and slowdown; priorities if they differ."""
    runs = list(runs)
    weighed = len({run.priority for run in runs}) > 1
    rows = [
        (
            str(run.index),
            run.workflow,
            run.owner or _NOTHING,
            *((f"{run.priority:g}",) if weighed else ()),
            run.outcome or "not ended",
            _loops(run.iterations),
            str(run.tasks),
            format_seconds(run.arrival_s),
            _NOTHING if run.ended_s is None else format_seconds(run.ended_s),
            format_seconds(run.alone_s),
            _NOTHING if run.slowdown is None else f"{run.slowdown:.2f}",
        )
        for run in runs
    ]
    priority = ("priority",) if weighed else ()
    heading = (
        "run", "workflow", "owner", *priority, "outcome", "loops", "tasks", "arrival", "end", "alone",
        "slowdown",
    )  # fmt: skip
    return TextTable(heading=heading, rows=tuple(rows), texts=5 + len(priority))


def _loops(iterations: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}x" for name, count in iterations.items()) or _NOTHING


def fairness_facts(found: Summary | None) -> list[tuple[str, str]]:
    """Return (label, text) pairs about the slowdowns of runs: mean, dispersion and quartiles.

    Dispersion is a measure of fairness (docs/papers/many-workflows.md, section 7).
    """
    if found is None:
        return [("slowdown", _NOTHING)]
    if found.number == 1:
        return [("slowdown", f"{found.mean:.3g}")]
    spread = (
        f"standard deviation {found.standard_deviation:.3g}, mean absolute deviation "
        f"{found.mean_absolute_deviation:.3g}, quartiles {found.lower_quartile:.3g}, {found.median:.3g}, "
        f"{found.upper_quartile:.3g}"
    )
    mean = f"{found.mean:.3g} on average, {found.least:.3g} to {found.most:.3g}"
    return [("slowdown", mean), ("fairness", spread)]


def slowdown_table(slowdowns: Iterable[tuple[str, Summary]]) -> TextTable:
    """Return a table with a row per workflow: statistics of its slowdowns."""
    rows = [
        (
            name,
            str(found.number),
            *(
                f"{value:.2f}"
                for value in (
                    found.least,
                    found.lower_quartile,
                    found.median,
                    found.upper_quartile,
                    found.most,
                    found.mean,
                    found.standard_deviation,
                    found.mean_absolute_deviation,
                )
            ),
        )
        for name, found in slowdowns
    ]
    heading = (
        "application", "runs", "least", "1st quartile", "median", "3rd quartile", "most", "mean", "deviation",
        "mean deviation",
    )  # fmt: skip
    return TextTable(heading=heading, rows=tuple(rows), texts=1)


def use_table(uses: Iterable[MachineUse]) -> TextTable:
    """Return a table with a row per machine: use, attempts, replicated work and time down.

    If there are shares, a column states their physical machines.
    """
    uses = list(uses)
    shared = any(use.part_of is not None for use in uses)
    rows = [
        (
            use.machine,
            *((use.part_of or _NOTHING,) if shared else ()),
            f"{use.share:.1%}",
            str(use.attempts),
            f"{use.busy_node_s:,.6g}",
            f"{use.replicated_node_s:,.6g}",
            format_seconds(use.down_s) if use.down_s else _NOTHING,
        )
        for use in uses
    ]
    parts = ("part of",) if shared else ()
    heading = ("machine", *parts, "used", "attempts", "node-seconds", "replicated", "down")
    return TextTable(heading=heading, rows=tuple(rows), texts=1 + len(parts))


def migration_table(moves: Iterable[MigrationRecord], machines: tuple[str, ...]) -> TextTable:
    """Return a table with a row per migration, in the order of ``moves``."""
    rows = [
        (
            str(move.run),
            move.label,
            machines[move.source],
            machines[move.target],
            _reason_text(move),
            format_seconds(move.at_s),
            f"{move.restart_from:.0%}" if move.restart_from > UNKNOWN_SHARE else _NOTHING,
        )
        for move in moves
    ]
    return TextTable(
        heading=("run", "task", "from", "to", "reason", "at", "restored"), rows=tuple(rows), texts=5
    )


def _reason_text(move: MigrationRecord) -> str:
    """Return the reason of a migration, and whether the migration was called off or has not begun."""
    if move.off:
        return (
            f"{move.reason} (called off: {move.off_reason})"
            if move.off_reason
            else f"{move.reason} (called off)"
        )
    return move.reason if move.begun else f"{move.reason} (not begun)"


def transfer_table(
    attempts: Iterable[AttemptRecord], machines: tuple[str, ...], label: Callable[[AttemptRecord], str]
) -> TextTable:
    """Return a table with a row per completed explicit transfer; ``label`` returns the name of an attempt."""
    rows = [
        (
            label(each),
            machines[each.machine if each.moved_from is None else each.moved_from],
            machines[each.machine],
            format_bytes(each.moved_bytes or 0.0),
            "reused" if each.started_s is None else format_seconds(each.ran_s),
        )
        for each in attempts
        if each.is_transfer and each.ending == "completed"
    ]
    return TextTable(heading=("transfer", "from", "to", "copied", "took"), rows=tuple(rows), texts=3)


def transfers_text(attempts: Iterable[AttemptRecord]) -> str:
    """Return the number, bytes and seconds of all completed explicit transfers; "" if there are none."""
    done = [each for each in attempts if each.is_transfer and each.ending == "completed"]
    if not done:
        return ""
    moved = sum(each.moved_bytes or 0.0 for each in done)
    taken_s = sum(each.ran_s for each in done)
    reused = sum(each.started_s is None for each in done)
    again = f", {reused} of them reused" if reused else ""
    return f"{len(done)}{again}; {format_bytes(moved)} copied in {format_seconds(taken_s)}"


def failure_table(history: History) -> TextTable:
    """Return a table with a row per failure: task, cause, retry and reason."""
    rows = [
        (
            str(failure.run),
            failure.task,
            failure.cause,
            "not retried" if failure.for_good else "retried",
            failure.reason,
            format_seconds(failure.at_s),
        )
        for failure in history.failures
    ]
    return TextTable(heading=("run", "task", "cause", "then", "why", "at"), rows=tuple(rows), texts=5)


def simulation_html(view: SimulationView) -> str:
    """Return the simulation as a self-contained HTML page."""
    history, end_s = view.history, view.history.end_s
    names = tuple(name for name, _ in view.machines)

    def label(attempt: AttemptRecord) -> str:
        return f"{attempt.run}:{attempt.task}" if len(history.runs) > 1 else attempt.task

    return HtmlGantt().render(
        simulation_chart(view),
        "simulation.html",
        active_chart=steps_chart("Active workflows", history.active, end_s),
        ready_chart=steps_chart("Ready tasks", history.ready, end_s),
        slowdown_chart=box_plots("By application", view.slowdowns),
        slowdowns=slowdown_table(view.slowdowns),
        runs=run_table(history.runs),
        machines=use_table(view.uses),
        migrations=migration_table(history.moves, names),
        transfers=transfer_table(history.attempts.values(), names, label),
        failures=failure_table(history),
        notes=view.notes,
    )


def attempts_csv(history: History, machines: tuple[str, ...]) -> str:
    """Return all attempts as CSV, by number; "" if there are none."""
    text = io.StringIO()
    rows = [attempt.as_record(machines) for attempt in history.attempts.values()]
    if rows:
        writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return text.getvalue()
