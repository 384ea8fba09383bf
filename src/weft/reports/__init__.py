"""Tables, charts and pages: the shelf of reports. The contract is in ``report.py``; read it first."""

from __future__ import annotations

from weft.registry import Shelf

__all__ = ["REPORTS"]

REPORTS = Shelf(
    "weft.reports",
    "report",
    {
        "gantt-text": "weft.reports.gantt_text:TextGantt",
        "gantt-html": "weft.reports.gantt_html:HtmlGantt",
    },
)
"""To add a report: one file, one line here."""
