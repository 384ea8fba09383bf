"""What a report may show of a simulation: the view, and how its attempts become the bars of a Gantt chart.

The tables of a simulation as texts, for the terminal and for pages.

A simulation as one self-contained page: the Gantt chart of its attempts, and below it everything else.

Active workflows and ready tasks over time, box plots of the slowdowns per application, the runs, how the
machines were used, and every migration and failure with its reason.

The attempts of a simulation as CSV: one line each, by number.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape

import numpy as np

from weft.engine.history import AttemptRecord, History, MachineUse, MigrationRecord, RunSummary
from weft.papers.statistics import Summary
from weft.reports.charts import box_plots, steps_chart
from weft.reports.comparison import TextTable
from weft.reports.gantt_html import HtmlGantt
from weft.reports.report import GanttView
from weft.schedule.schedule import Schedule
from weft.units import format_count, format_seconds

__all__ = [
    "STYLE",
    "SimulationView",
    "attempts_chart",
    "attempts_csv",
    "failure_table",
    "migration_table",
    "run_table",
    "section",
    "simulation_chart",
    "simulation_html",
    "slowdown_table",
    "table_html",
    "use_table",
]


_MARKS = {"migrated": "→", "failed": "✗", "cancelled": "✗", "": "…"}
"""Signs behind the names of attempts that did not complete."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SimulationView:
    """Everything a page about a simulation shows."""

    title: str
    history: History
    machines: tuple[tuple[str, int], ...]
    """Name and nodes of each machine."""
    sites: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    uses: tuple[MachineUse, ...]
    slowdowns: tuple[tuple[str, Summary], ...]
    """By application."""
    lower_bound_s: float
    notes: tuple[str, ...] = ()


def simulation_chart(view: SimulationView) -> GanttView:
    """Show every attempt whose program ran as a bar; those that did not complete have kinds of their own."""
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
) -> GanttView:
    """Show attempts whose programs ran as bars, their times counted from ``origin_s``.

    ``machines`` are given by name and nodes; ``several``: the attempts are those of several runs.
    """
    looping = {run.index for run in history.runs if any(count > 1 for count in run.iterations.values())}
    schedule = Schedule(
        tasks=tuple(_label(attempt, several=several, looping=attempt.run in looping) for attempt in ran),
        machines=tuple(name for name, _ in machines),
        machine=np.array([attempt.machine for attempt in ran], dtype=np.uint32),
        nodes=np.array([attempt.nodes for attempt in ran], dtype=np.uint32),
        start_s=np.array([attempt.started_s for attempt in ran], dtype=np.float64) - origin_s,
        finish_s=np.array([_end_s(attempt, history) for attempt in ran], dtype=np.float64) - origin_s,
    )
    return GanttView(
        title=title,
        schedule=schedule,
        kinds=tuple(_kinds(ran, history, several=several)),
        machine_nodes=tuple(nodes for _, nodes in machines),
    )


def _end_s(attempt: AttemptRecord, history: History) -> float:
    return history.end_s if attempt.ended_s is None else attempt.ended_s


def _label(attempt: AttemptRecord, *, several: bool, looping: bool) -> str:
    """Name an attempt: its run if there are several, its iteration if loops repeat, how it ended if badly."""
    name = f"{attempt.run}:{attempt.task}" if several else attempt.task
    if looping:
        name += f"#{attempt.iteration}"
    return f"{name} {_MARKS[attempt.ending]}" if attempt.ending in _MARKS else name


def _kinds(ran: Sequence[AttemptRecord], history: History, *, several: bool) -> list[str]:
    """Colour by application where there are several runs, else by description; what failed by why."""
    return [
        _ending(attempt) or (history.runs[attempt.run].workflow if several else attempt.kind)
        for attempt in ran
    ]


def _ending(attempt: AttemptRecord) -> str:
    """Say how an attempt ended that did not complete; "": it did."""
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
    """Give a row for each run: when it came, when and how it ended, and its slowdown."""
    rows = [
        (
            str(run.index),
            run.workflow,
            run.owner or _NOTHING,
            run.outcome or "not over",
            _loops(run.iterations),
            str(run.tasks),
            format_seconds(run.arrival_s),
            _NOTHING if run.ended_s is None else format_seconds(run.ended_s),
            format_seconds(run.alone_s),
            _NOTHING if run.slowdown is None else f"{run.slowdown:.2f}",
        )
        for run in runs
    ]
    heading = (
        "run", "workflow", "owner", "outcome", "loops", "tasks", "arrival", "end", "alone", "slowdown",
    )  # fmt: skip
    return TextTable(heading=heading, rows=tuple(rows), texts=5)


def _loops(iterations: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}x" for name, count in iterations.items()) or _NOTHING


def slowdown_table(slowdowns: Iterable[tuple[str, Summary]]) -> TextTable:
    """Give a row for each application: what its box plot shows."""
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
                )
            ),
        )
        for name, found in slowdowns
    ]
    heading = ("application", "runs", "least", "quarter", "median", "3 quarters", "most", "mean")
    return TextTable(heading=heading, rows=tuple(rows), texts=1)


def use_table(uses: Iterable[MachineUse]) -> TextTable:
    """Give a row for each machine."""
    rows = [
        (
            use.machine,
            f"{use.share:.1%}",
            str(use.attempts),
            f"{use.busy_node_s:,.6g}",
            f"{use.replicated_node_s:,.6g}",
            format_seconds(use.down_s) if use.down_s else _NOTHING,
        )
        for use in uses
    ]
    heading = ("machine", "used", "attempts", "node-seconds", "replicated", "down")
    return TextTable(heading=heading, rows=tuple(rows), texts=1)


def migration_table(moves: Iterable[MigrationRecord], machines: tuple[str, ...]) -> TextTable:
    """Give a row for each migration, in the order in which they were decided."""
    rows = [
        (
            str(move.run),
            move.task if move.iteration == 1 else f"{move.task}#{move.iteration}",
            machines[move.source],
            machines[move.target],
            f"{move.reason} (called off)" if move.off else move.reason,
            format_seconds(move.at_s),
            f"{move.restart_from:.0%}" if move.restart_from else _NOTHING,
        )
        for move in moves
    ]
    return TextTable(
        heading=("run", "task", "from", "to", "reason", "at", "spared"), rows=tuple(rows), texts=5
    )


def failure_table(history: History) -> TextTable:
    """Give a row for each failure."""
    rows = [
        (
            str(failure.run),
            failure.task,
            failure.cause,
            "for good" if failure.for_good else "tried again",
            failure.reason,
            format_seconds(failure.at_s),
        )
        for failure in history.failures
    ]
    return TextTable(heading=("run", "task", "cause", "then", "why", "at"), rows=tuple(rows), texts=5)


STYLE = """
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 14px;
  margin-top: 16px; overflow-x: auto; }
section h2 { font-size: 16px; margin: 0 0 8px; }
section h3 { font-size: 13px; font-weight: 600; color: var(--soft); margin: 12px 0 2px; }
section svg { width: 100%; max-width: 1100px; height: auto; display: block; }
section svg text { font-size: 12px; fill: currentcolor; }
.grid { stroke: var(--line); }
.area { fill: #4c8dd6; fill-opacity: .35; stroke: #4c8dd6; stroke-width: 1.2; }
.box rect { fill: #4c8dd6; fill-opacity: .35; stroke: #4c8dd6; }
.box path { stroke: #4c8dd6; stroke-width: 1.5; fill: none; }
.box .median { stroke: var(--mark); stroke-width: 2.5; }
td.number, th.number { text-align: right; }
"""
"""How the sections below a chart look."""

_MOST_ROWS = 500
"""Rows of a table beyond which the rest is only counted."""


def simulation_html(view: SimulationView) -> str:
    """Render the page."""
    return HtmlGantt().render(simulation_chart(view), style=STYLE, more="\n".join(_sections(view)))


def _sections(view: SimulationView) -> list[str]:
    history, end_s = view.history, view.history.end_s
    names = tuple(name for name, _ in view.machines)
    sections = [
        section(
            "Over time",
            steps_chart("Active workflows", history.active, end_s),
            steps_chart("Ready tasks", history.ready, end_s),
        ),
        section(
            "Slowdown",
            "<p>Time from arrival to end over the estimated time alone on the empty platform.</p>",
            box_plots("By application", view.slowdowns),
            table_html(slowdown_table(view.slowdowns)),
        ),
        section("Runs", table_html(run_table(history.runs))),
        section("Machines", table_html(use_table(view.uses))),
    ]
    if history.moves:
        sections.append(section("Migrations", table_html(migration_table(history.moves, names))))
    if history.failures:
        sections.append(section("Failures", table_html(failure_table(history))))
    if view.notes:
        listed = "".join(f"<li>{escape(note)}</li>\n" for note in view.notes)
        sections.append(section("Notes", f"<ul>\n{listed}</ul>"))
    return sections


def section(title: str, *parts: str) -> str:
    """Put parts of a page under a heading."""
    return f"<section>\n<h2>{escape(title)}</h2>\n" + "\n".join(parts) + "\n</section>"


def table_html(table: TextTable) -> str:
    """Write a table; of a very long one the first rows."""
    head = _row("th", table.heading, table.texts)
    body = "\n".join(_row("td", row, table.texts) for row in table.rows[:_MOST_ROWS])
    rest = len(table.rows) - _MOST_ROWS
    more = f"<p>… and {format_count(rest, 'more row')}</p>" if rest > 0 else ""
    return f"<table>\n<thead>{head}</thead>\n<tbody>\n{body}\n</tbody>\n</table>{more}"


def _row(tag: str, cells: tuple[str, ...], texts: int) -> str:
    written = "".join(
        f"<{tag}>{escape(cell)}</{tag}>"
        if column < texts
        else f'<{tag} class="number">{escape(cell)}</{tag}>'
        for column, cell in enumerate(cells)
    )
    return f"<tr>{written}</tr>"


def attempts_csv(history: History, machines: tuple[str, ...]) -> str:
    """Write the table."""
    text = io.StringIO()
    rows = [attempt.as_record(machines) for attempt in history.attempts.values()]
    if rows:
        writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return text.getvalue()
