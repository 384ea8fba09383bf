"""A comparison of planners: what each made of each workflow, and how they stand after all of them.

The tables of a comparison as texts, for the terminal and for pages: what stands in which cell.

``-`` stands where a planner made no plan, ``*`` marks the best makespan of a workflow.

A comparison as one self-contained page: the standings and every result.

A comparison as comma-separated values: one line per workflow and planner.
"""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from html import escape
from typing import Any

from weft.units import format_count, format_seconds

__all__ = [
    "PlannerComparison",
    "PlannerResult",
    "PlannerStanding",
    "TextTable",
    "WorkflowResults",
    "comparison_csv",
    "comparison_html",
    "comparison_title",
    "refusal_lines",
    "result_table",
    "standing_table",
]


_TIE = 1e-9
"""Makespans that differ by less than this share are the same plan, added up in another order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerResult:
    """What one planner made of one workflow."""

    planner: str
    makespan_s: float | None
    """None: it made no plan."""
    planning_s: float | None = None
    """Seconds it took, on an instance compiled beforehand."""
    reason: str = ""
    """Why there is no plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowResults:
    """What all planners made of one workflow."""

    workflow: str
    tasks: int
    edges: int
    lower_bound_s: float
    """No schedule can be shorter."""
    results: tuple[PlannerResult, ...]
    """In the order of the planners."""

    @property
    def best_makespan_s(self) -> float | None:
        """Give the shortest makespan; None where nobody made a plan."""
        return min(
            (found for result in self.results if (found := result.makespan_s) is not None), default=None
        )

    def ratio(self, result: PlannerResult) -> float | None:
        """Say how many times the best makespan a result is; None where there is no plan."""
        best = self.best_makespan_s
        if result.makespan_s is None or best is None:
            return None
        if best <= 0:
            return 1.0 if result.makespan_s <= 0 else math.inf
        return result.makespan_s / best

    def wins(self, result: PlannerResult) -> bool:
        """Say whether no other plan is shorter; all that tie win."""
        ratio = self.ratio(result)
        return ratio is not None and ratio <= 1.0 + _TIE

    def gap(self, result: PlannerResult) -> float | None:
        """Say by which share a plan is above the optimum at most; None where that is unknown."""
        if result.makespan_s is None:
            return None
        if self.lower_bound_s <= 0:
            return 0.0 if result.makespan_s <= 0 else None
        gap = result.makespan_s / self.lower_bound_s - 1.0
        return gap if gap > _TIE else 0.0

    def as_record(self) -> dict[str, Any]:
        """Give everything as plain data."""
        return {
            "workflow": self.workflow,
            "tasks": self.tasks,
            "edges": self.edges,
            "lower_bound_s": self.lower_bound_s,
            "best_makespan_s": self.best_makespan_s,
            "results": [
                {
                    "planner": result.planner,
                    "makespan_s": result.makespan_s,
                    "gap": self.gap(result),
                    "ratio": self.ratio(result),
                    "wins": self.wins(result),
                    "planning_s": result.planning_s,
                    "reason": result.reason,
                }
                for result in self.results
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerStanding:
    """How a planner did over all workflows."""

    planner: str
    planned: int
    """Workflows it made a plan for; the other numbers are over these."""
    wins: int
    """Workflows for which nobody had a shorter plan."""
    mean_ratio: float | None
    """Geometric mean of makespan over best makespan; None: no plan at all."""
    planning_s: float

    def as_record(self) -> dict[str, Any]:
        """Give everything as plain data."""
        return {
            "planner": self.planner,
            "planned": self.planned,
            "wins": self.wins,
            "mean_ratio": self.mean_ratio,
            "planning_s": self.planning_s,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerComparison:
    """What several planners made of several workflows on one platform."""

    platform: str
    seed: int
    planners: tuple[str, ...]
    workflows: tuple[WorkflowResults, ...]

    @property
    def standings(self) -> tuple[PlannerStanding, ...]:
        """Give the standing of each planner: most wins first, then the smallest ratio, then as asked for."""
        found = [self._standing(index) for index in range(len(self.planners))]
        return tuple(sorted(found, key=lambda standing: (-standing.wins, _or_infinity(standing.mean_ratio))))

    def _standing(self, index: int) -> PlannerStanding:
        rows = [(row, row.results[index]) for row in self.workflows]
        ratios = [ratio for row, result in rows if (ratio := row.ratio(result)) is not None]
        return PlannerStanding(
            planner=self.planners[index],
            planned=len(ratios),
            wins=sum(row.wins(result) for row, result in rows),
            mean_ratio=math.exp(math.fsum(map(math.log, ratios)) / len(ratios)) if ratios else None,
            planning_s=math.fsum(result.planning_s or 0.0 for _, result in rows),
        )

    @property
    def refusals(self) -> tuple[tuple[str, str, str], ...]:
        """List planner, workflow and reason wherever there is no plan."""
        return tuple(
            (result.planner, row.workflow, result.reason)
            for row in self.workflows
            for result in row.results
            if result.makespan_s is None
        )

    def as_record(self) -> dict[str, Any]:
        """Give everything as plain data: the object ``weft compare --json`` prints."""
        return {
            "platform": self.platform,
            "seed": self.seed,
            "planners": [standing.as_record() for standing in self.standings],
            "workflows": [row.as_record() for row in self.workflows],
        }


def _or_infinity(number: float | None) -> float:
    return math.inf if number is None else number


_NOTHING = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTable:
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


def comparison_title(comparison: PlannerComparison) -> str:
    """Say in a line what was compared."""
    workflows = format_count(len(comparison.workflows), "workflow")
    return f"{workflows} on {comparison.platform}, {format_count(len(comparison.planners), 'planner')}"


def result_table(comparison: PlannerComparison) -> TextTable:
    """Give a row for each workflow and planner; the workflow is named where it begins."""
    rows = []
    for row in comparison.workflows:
        size = f"{row.workflow} ({format_count(row.tasks, 'task')})"
        for index, result in enumerate(row.results):
            rows.append((size if index == 0 else "", result.planner, *_cells(row, result)))
    heading = ("workflow", "planner", "makespan", "", "gap", "ratio", "time")
    return TextTable(heading=heading, rows=tuple(rows), texts=2)


def _cells(row: WorkflowResults, result: PlannerResult) -> tuple[str, ...]:
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


def standing_table(comparison: PlannerComparison) -> TextTable:
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
    return TextTable(heading=("planner", "wins", "mean ratio", "planned", "time"), rows=rows, texts=1)


def refusal_lines(comparison: PlannerComparison) -> list[str]:
    """Say why there is no plan, once for each planner and reason."""
    workflows: dict[tuple[str, str], list[str]] = {}
    for planner, workflow, reason in comparison.refusals:
        workflows.setdefault((planner, reason), []).append(workflow)
    return [f"{planner}, {_names(names)}: {reason}" for (planner, reason), names in workflows.items()]


def _names(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1} others"


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }}
h1 {{ font-size: 1.3rem; }}
h2 {{ font-size: 1.1rem; margin-top: 2rem; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ border-bottom: 1px solid color-mix(in srgb, currentcolor 20%, transparent); padding: .2rem .8rem; }}
th {{ text-align: left; position: sticky; top: 0; background: Canvas; }}
.number {{ text-align: right; }}
</style>
</head>
<body>
<h1>{title}</h1>
<h2>Standings</h2>
{standings}
<p>Wins: workflows for which nobody had a shorter plan; all that tie win. Mean ratio: geometric mean of
makespan over best makespan. Time: of the planner alone, on an instance compiled beforehand.</p>
<h2>Results</h2>
{results}
<p>Gap: the plan is at most this much above the optimum. An asterisk marks the best makespan.</p>
{refusals}
</body>
</html>
"""


def comparison_html(comparison: PlannerComparison) -> str:
    """Render the page."""
    lines = refusal_lines(comparison)
    listed = "".join(f"<li>{escape(line)}</li>\n" for line in lines)
    return _PAGE.format(
        title=escape(comparison_title(comparison)),
        standings=_table(standing_table(comparison)),
        results=_table(result_table(comparison)),
        refusals=f"<h2>Without a plan</h2>\n<ul>\n{listed}</ul>" if lines else "",
    )


def _table(table: TextTable) -> str:
    head = _row("th", table.heading, table.texts)
    body = "\n".join(_row("td", row, table.texts) for row in table.rows)
    return f"<table>\n<thead>{head}</thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def _row(tag: str, cells: tuple[str, ...], texts: int) -> str:
    written = "".join(
        f"<{tag}>{escape(cell)}</{tag}>"
        if column < texts
        else f'<{tag} class="number">{escape(cell)}</{tag}>'
        for column, cell in enumerate(cells)
    )
    return f"<tr>{written}</tr>"


_COLUMNS = ("planner", "makespan_s", "gap", "ratio", "wins", "planning_s", "reason")


def comparison_csv(comparison: PlannerComparison) -> str:
    """Write workflow, tasks, edges, platform, seed, lower_bound_s and what each planner made of it."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["workflow", "tasks", "edges", "platform", "seed", "lower_bound_s", *_COLUMNS])
    for row in comparison.workflows:
        head = [row.workflow, row.tasks, row.edges, comparison.platform, comparison.seed]
        for result in row.as_record()["results"]:
            cells = [_cell(result[column]) for column in _COLUMNS]
            writer.writerow([*head, repr(row.lower_bound_s), *cells])
    return text.getvalue()


def _cell(value: object) -> object:
    """Write numbers whole, what is not there as nothing, true and false as 1 and 0."""
    if isinstance(value, bool):
        return int(value)
    return "" if value is None else repr(value) if isinstance(value, float) else value
