"""A Gantt chart as one self-contained page: no network, opens from a file, light or dark.

The schedule is embedded as JSON columns (``gantt_data.py``) and drawn on canvases by the script in
``gantt_script.py``; what is packed and escaped here is only looked at there.
"""

from __future__ import annotations

from html import escape

from weft.reports.gantt_data import packed_plan
from weft.reports.gantt_page import PAGE, STYLE
from weft.reports.gantt_script import SCRIPT
from weft.reports.report import PlanView
from weft.units import format_seconds

__all__ = ["HtmlGantt"]

_TABLE_ROWS = 200


class HtmlGantt:
    """The chart as a page."""

    name = "gantt-html"
    title = "Gantt chart as a self-contained page"
    extension = ".html"

    def render(self, view: PlanView, *, style: str = "", more: str = "") -> str:
        """Write the page; ``more`` is HTML to stand below the chart, with ``style`` of its own."""
        packed, data = packed_plan(view)
        parts = {
            "TITLE": escape(view.title),
            "STYLE": STYLE + style,
            "FACTS": _facts(view),
            "SUMMARY": escape(_summary(view)),
            "TABLE": _table(view),
            "PACKED": packed,
            "DATA": data,
            "MORE": more,
            "SCRIPT": SCRIPT,
        }
        # Joined piece by piece, so that a name that looks like a placeholder is never taken for one.
        pieces = PAGE.split("@@")
        return "".join(parts[piece] if index % 2 else piece for index, piece in enumerate(pieces))


def _facts(view: PlanView) -> str:
    cards = (f"<div><dt>{escape(label)}</dt><dd>{escape(text)}</dd></div>" for label, text in view.facts)
    return "".join(cards)


def _summary(view: PlanView) -> str:
    schedule = view.schedule
    return (
        f"Gantt chart of {len(schedule):,} tasks on {schedule.machines_used:,} of {len(schedule.machines):,} "
        f"machines, {format_seconds(schedule.makespan_s)} long"
    )


def _table(view: PlanView) -> str:
    """Write the first tasks by start as a table, for readers without script or sight of the chart."""
    schedule = view.schedule
    rows = []
    for task in schedule.start_s.argsort(kind="stable")[:_TABLE_ROWS].tolist():
        cells = [
            schedule.tasks[task],
            view.kinds[task],
            schedule.machines[schedule.machine[task]],
            str(schedule.nodes[task]),
            format_seconds(float(schedule.start_s[task])),
            format_seconds(float(schedule.finish_s[task])),
        ]
        rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    return "\n".join(rows)
