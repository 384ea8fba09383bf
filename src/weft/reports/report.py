"""The contract of the registry ``reports``: read it first.

A report turns a plan into one text: a chart for the terminal, a page for the browser. It reads the view and
nothing else, so the same report serves plans, simulations and runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from weft.schedule.schedule import Schedule

__all__ = ["GanttView", "Report"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GanttView:
    """What a report may show of a plan."""

    title: str
    schedule: Schedule
    kinds: tuple[str, ...]
    """Per task: the name of what it has in common with others, for colours and legends."""
    machine_nodes: tuple[int, ...]
    """Per machine of the schedule: how many nodes it has."""
    machine_sites: tuple[str, ...] = ()
    """Per machine: the name of its site, empty where it has none; no entries: sites are not known."""
    facts: tuple[tuple[str, str], ...] = ()
    """Labels and texts to show above the chart."""
    critical: tuple[int, ...] = ()
    """Tasks on the critical path, in its order."""
    lower_bound_s: float | None = None
    """No schedule can be shorter than this."""


class Report(Protocol):
    """One way to show a plan."""

    name: str
    """The word under which it stands on the registry."""
    title: str
    """What it is, in a few words, for lists."""
    extension: str
    """The ending of files it is written to (``.html``)."""

    def render(self, view: GanttView) -> str:
        """Give the whole text."""
        ...
