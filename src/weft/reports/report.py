"""Interface of the reports and the data of a Gantt chart.

A report turns a ``GanttView`` into text. It uses no other input, so the same report can show plans,
simulations and runs.
"""

from __future__ import annotations

from typing import Protocol

from weft.records import dataclass
from weft.schedule.schedule import Schedule


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GanttView:
    """Data of a Gantt chart."""

    title: str
    schedule: Schedule
    kinds: tuple[str, ...]
    """Kind of each task, for colours and legend."""
    machine_nodes: tuple[int, ...]
    """Number of nodes of each machine of the schedule."""
    machine_sites: tuple[str, ...] = ()
    """Site of each machine ("": unknown); empty if all sites are unknown."""
    facts: tuple[tuple[str, str], ...] = ()
    """(label, text) pairs above the chart."""
    critical: tuple[int, ...] = ()
    """Tasks on the critical path, in order."""
    lower_bound_s: float | None = None
    """Lower bound of the makespan; None: not shown."""


class Report(Protocol):
    """Interface of a report: it renders a Gantt chart as text."""

    name: str
    """Name in the registry."""
    title: str
    """Short description for lists."""
    extension: str
    """File suffix (``.html``)."""

    def render(self, view: GanttView) -> str:
        """Return the whole report as text."""
        ...
