"""Registry of reports: tables, charts and pages. ``report.py`` defines the interface."""

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
    interface=("title", "extension", "render"),
)
"""Reports by name. To add a report, add a module and an entry here."""
