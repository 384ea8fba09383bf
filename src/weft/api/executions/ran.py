"""What became of an execution: what ``weft.run`` gives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path

from weft.api.observing.following import Place
from weft.api.observing.reporting import Told, reports_folder, tell, write_reports
from weft.backends.layout import Layout
from weft.reports.comparison_tables import Table
from weft.reports.execution_facts import facts_of
from weft.reports.execution_tables import kind_table
from weft.reports.execution_text import execution_lines
from weft.repository.runs import Run
from weft.runtime.execution import Ending

__all__ = ["Ran"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Ran:
    """What became of an execution; printed, it sums it up, and so it does in a notebook."""

    layout: Layout
    execution: int
    ending: Ending
    resumed: bool
    """Whether it went on with one that was not finished."""

    @property
    def outcome(self) -> str:
        """Say how it ended: ``completed``, ``failed``, ``stopped``, ``cancelled``, ``interrupted``."""
        return self.ending.state

    @property
    def completed(self) -> bool:
        """Say whether all went well."""
        return self.outcome == "completed"

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """List its runs, with the numbers that ``weft ls`` shows."""
        with Place.at(str(self.layout.project)) as place:
            return tuple(place.runs.of(self.execution))

    @cached_property
    def told(self) -> Told:
        """Give everything that reports show."""
        with Place.at(str(self.layout.project)) as place:
            return tell(place, self.execution)

    def write_reports(self) -> Path:
        """Write page, trace, events and WfFormat; give the folder in which they are."""
        with Place.at(str(self.layout.project)) as place:
            write_reports(place, self.execution)
        return self.reports

    @property
    def reports(self) -> Path:
        """Give the folder of its reports."""
        return reports_folder(self.layout, self.runs[0].number if self.runs else 0)

    def __str__(self) -> str:
        return "\n".join([*execution_lines(self.told.executed), *self.ending.stuck])

    def __repr__(self) -> str:
        return f"Ran(execution={self.execution}, outcome={self.outcome!r})"

    def _repr_html_(self) -> str:
        executed = self.told.executed
        facts = "".join(
            f"<tr><th style='text-align:left'>{escape(label)}</th>"
            f"<td style='text-align:left'>{escape(text)}</td></tr>"
            for label, text in facts_of(executed)
        )
        failures = "".join(f"<pre>{escape(each.headline)}</pre>" for each in executed.failures[:_FAILURES])
        return f"<b>{escape(executed.title)}</b><table>{facts}</table>{_html(kind_table(executed))}{failures}"


_FAILURES = 5


def _html(table: Table) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.heading)
    rows = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in table.rows[:50]
    )
    return f"<table><tr>{head}</tr>{rows}</table>"
