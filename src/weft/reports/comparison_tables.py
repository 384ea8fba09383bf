"""The tables of a comparison as texts, for the terminal and for pages: what stands in which cell.

``-`` stands where a planner made no plan, ``*`` marks the best makespan of a workflow.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.reports.comparison import Comparison, Result, WorkflowResults
from weft.units import counted, format_seconds

__all__ = ["Table", "refusal_lines", "result_table", "standing_table", "title_of"]

_NOTHING = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A heading and rows of texts."""

    heading: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    texts: int
    """How many columns from the left are texts; the others are numbers, aligned on the right."""

    def lines(self) -> list[str]:
        """Write the table in columns, two blanks between them."""
        widths = [max(map(len, column)) for column in zip(self.heading, *self.rows, strict=True)]
        return [self._line(row, widths) for row in (self.heading, *self.rows)]

    def _line(self, row: tuple[str, ...], widths: list[int]) -> str:
        cells = [
            cell.ljust(width) if column < self.texts else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()


def title_of(comparison: Comparison) -> str:
    """Say in a line what was compared."""
    workflows = counted(len(comparison.workflows), "workflow")
    return f"{workflows} on {comparison.platform}, {counted(len(comparison.planners), 'planner')}"


def result_table(comparison: Comparison) -> Table:
    """Give a row for each workflow and planner; the workflow is named where it begins."""
    rows = []
    for row in comparison.workflows:
        size = f"{row.workflow} ({counted(row.tasks, 'task')})"
        for index, result in enumerate(row.results):
            rows.append((size if index == 0 else "", result.planner, *_cells(row, result)))
    heading = ("workflow", "planner", "makespan", "", "gap", "ratio", "time")
    return Table(heading=heading, rows=tuple(rows), texts=2)


def _cells(row: WorkflowResults, result: Result) -> tuple[str, ...]:
    makespan_s, ratio, gap = result.makespan_s, row.ratio(result), row.gap(result)
    if makespan_s is None or ratio is None:
        return (_NOTHING, "", _NOTHING, _NOTHING, _NOTHING)
    return (
        f"{makespan_s:.6g} s",
        "*" if row.wins(result) else "",
        "unknown" if gap is None else f"{gap:.1%}",
        f"{ratio:.3f}",
        _time(result.planning_s),
    )


def _time(seconds: float | None) -> str:
    return _NOTHING if seconds is None else format_seconds(seconds)


def standing_table(comparison: Comparison) -> Table:
    """Give a row for each planner: wins, geometric mean of the ratios to the best, plans made, time."""
    total = len(comparison.workflows)
    rows = tuple(
        (
            standing.planner,
            str(standing.wins),
            _NOTHING if standing.mean_ratio is None else f"{standing.mean_ratio:.3f}",
            f"{standing.planned} of {total}",
            _time(standing.planning_s if standing.planned else None),
        )
        for standing in comparison.standings
    )
    return Table(heading=("planner", "wins", "mean ratio", "planned", "time"), rows=rows, texts=1)


def refusal_lines(comparison: Comparison) -> list[str]:
    """Say why there is no plan, once for each planner and reason."""
    workflows: dict[tuple[str, str], list[str]] = {}
    for planner, workflow, reason in comparison.refusals:
        workflows.setdefault((planner, reason), []).append(workflow)
    return [f"{planner}, {_names(names)}: {reason}" for (planner, reason), names in workflows.items()]


def _names(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1} others"
