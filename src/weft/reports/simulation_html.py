"""A simulation as one self-contained page: the Gantt chart of its attempts, and below it everything else.

Active workflows and ready tasks over time, box plots of the slowdowns per application, the runs, how the
machines were used, and every migration and failure with its reason.
"""

from __future__ import annotations

from html import escape

from weft.reports.comparison_tables import Table
from weft.reports.gantt_html import HtmlGantt
from weft.reports.simulation import SimulationView, chart_of
from weft.reports.simulation_charts import box_plots, steps_chart
from weft.reports.simulation_tables import (
    failure_table,
    migration_table,
    run_table,
    slowdown_table,
    use_table,
)
from weft.units import counted

__all__ = ["STYLE", "section", "simulation_html", "table_html"]

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
    return HtmlGantt().render(chart_of(view), style=STYLE, more="\n".join(_sections(view)))


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


def table_html(table: Table) -> str:
    """Write a table; of a very long one the first rows."""
    head = _row("th", table.heading, table.texts)
    body = "\n".join(_row("td", row, table.texts) for row in table.rows[:_MOST_ROWS])
    rest = len(table.rows) - _MOST_ROWS
    more = f"<p>… and {counted(rest, 'more row')}</p>" if rest > 0 else ""
    return f"<table>\n<thead>{head}</thead>\n<tbody>\n{body}\n</tbody>\n</table>{more}"


def _row(tag: str, cells: tuple[str, ...], texts: int) -> str:
    written = "".join(
        f"<{tag}>{escape(cell)}</{tag}>"
        if column < texts
        else f'<{tag} class="number">{escape(cell)}</{tag}>'
        for column, cell in enumerate(cells)
    )
    return f"<tr>{written}</tr>"
