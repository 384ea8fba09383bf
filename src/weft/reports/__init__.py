"""Tables, charts and pages: the registry of reports. The contract is in ``report.py``; read it first."""

from __future__ import annotations

from weft.registry import Registry

__all__ = ["REPORTS"]

REPORTS = Registry(
    "weft.reports",
    "report",
    {
        "gantt-text": "weft.reports.gantt_text:TextGantt",
        "gantt-html": "weft.reports.gantt_html:HtmlGantt",
    },
)
"""To add a report: one file, one line here."""
