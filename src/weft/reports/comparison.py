"""Comparison of planners and policies: results per workflow, standings, tables, HTML page and CSV.

In tables ``-`` means that a planner made no plan, and ``*`` marks the best result of a workflow. ASE and BDT
are the measures of T. Ma, R. Buyya (docs/papers/parameter-sweeps.md, section 6). ASE is the mean value of the
objective in percent of the baseline's value; the baseline of the paper is shuffle. BDT is the number of
workflows for which a planner is the best (wins).
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from weft.records import dataclass
from weft.reports.page import render_page
from weft.reports.text import TextTable, csv_text
from weft.units import format_count, format_seconds

POLICY_MARK = "policy:"
"""Prefix of policy names in a comparison, because a planner and a policy may have the same name."""
_MAKESPAN = "makespan"
_TIE = 1e-9
"""Relative difference below which makespans count as equal, because of rounding errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerResult:
    """Result of one planner, or of a simulated run under a policy, for one workflow."""

    planner: str
    """Name of the planner with options; for a policy, the name after ``POLICY_MARK``."""
    makespan_s: float | None
    """Makespan of the plan, or of the simulated run; None if no plan was made."""
    value: float | None = None
    """Value of the objective; None without a plan, or if the objective is the makespan."""
    planning_s: float | None = None
    """Seconds of planning, without compilation; for a policy, the seconds of the whole simulation."""
    reason: str = ""
    """Why the planner made no plan; "" if it made one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowResults:
    """Results of all planners for one workflow."""

    workflow: str
    tasks: int
    edges: int
    lower_bound_s: float
    """Lower bound of the makespan of every schedule."""
    results: tuple[PlannerResult, ...]
    """Results in the order of ``PlannerComparison.planners``."""
    baseline: str | None = None
    """The planner or policy whose value is 100 %; None: no baseline."""
    objective: str = _MAKESPAN
    maximised: bool = False
    """Whether larger values of the objective are better."""

    @property
    def best_makespan_s(self) -> float | None:
        """Return the shortest makespan of all planners; None if no planner made a plan."""
        return min(
            (found for result in self.results if (found := result.makespan_s) is not None), default=None
        )

    def score(self, result: PlannerResult) -> float | None:
        """Return the value of the objective of a result; None without a plan."""
        return result.makespan_s if self.objective == _MAKESPAN else result.value

    @property
    def best_value(self) -> float | None:
        """Return the best value of the objective; None if no planner made a plan."""
        found = [value for result in self.results if (value := self.score(result)) is not None]
        return None if not found else max(found) if self.maximised else min(found)

    def ratio(self, result: PlannerResult) -> float | None:
        """Return the factor (at least 1) by which a result is worse than the best; None without a plan.

        The factor is infinite if the better of two different values is not positive.
        """
        best, own = self.best_value, self.score(result)
        if best is None or own is None:
            return None
        if own == best:
            return 1.0
        better, worse = (own, best) if self.maximised else (best, own)
        return worse / better if better > 0 else math.inf

    def percent(self, result: PlannerResult) -> float | None:
        """Return the value of the objective in percent of the baseline's value.

        Return None if either value is missing or the baseline's value is not positive.
        """
        base = next((self.score(other) for other in self.results if other.planner == self.baseline), None)
        own = self.score(result)
        return None if base is None or base <= 0 or own is None else 100.0 * own / base

    def wins(self, result: PlannerResult) -> bool:
        """Return whether no other planner has a better plan; ties count as wins."""
        ratio = self.ratio(result)
        return ratio is not None and ratio <= 1.0 + _TIE

    def gap(self, result: PlannerResult) -> float | None:
        """Return makespan / lower bound - 1, at least 0; None without a plan.

        If the lower bound is 0, the gap of makespan 0 is 0, and the gap of other makespans is None. The gap
        is also None for objectives other than the makespan.
        """
        if result.makespan_s is None or self.objective != _MAKESPAN:
            return None
        if self.lower_bound_s <= 0:
            return 0.0 if result.makespan_s <= 0 else None
        gap = result.makespan_s / self.lower_bound_s - 1.0
        return gap if gap > _TIE else 0.0

    def as_record(self) -> dict[str, Any]:
        """Return the results as plain data for JSON."""
        return {
            "workflow": self.workflow,
            "tasks": self.tasks,
            "edges": self.edges,
            "lower_bound_s": self.lower_bound_s,
            "best_makespan_s": self.best_makespan_s,
            "best_value": self.best_value,
            "results": [
                {
                    "planner": result.planner,
                    "kind": "policy" if result.planner.startswith(POLICY_MARK) else "planner",
                    "makespan_s": result.makespan_s,
                    "value": self.score(result),
                    "baseline_percent": self.percent(result),
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
    """Wins, mean ratio and planning time of a planner over all workflows."""

    planner: str
    planned: int
    """Number of workflows for which the planner made a plan; the mean ratio is taken over these."""
    wins: int
    """Number of workflows for which no planner had a better plan."""
    mean_ratio: float | None
    """Geometric mean of ``WorkflowResults.ratio``; None if the planner made no plan."""
    planning_s: float
    ase_percent: float | None = None
    """Mean of ``WorkflowResults.percent`` (ASE); None if no workflow has a percentage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerComparison:
    """Results of several planners and policies for several workflows on one platform."""

    platform: str
    seed: int
    planners: tuple[str, ...]
    workflows: tuple[WorkflowResults, ...]
    baseline: str | None = None
    """The planner or policy whose value is 100 %; None: no baseline."""
    objective: str = _MAKESPAN
    """What is compared: the makespan, or another objective."""

    @property
    def standings(self) -> tuple[PlannerStanding, ...]:
        """Return a standing per planner: most wins first, then lowest mean ratio, then in given order."""
        found = [self._standing(index) for index in range(len(self.planners))]
        return tuple(sorted(found, key=lambda standing: (-standing.wins, _or_infinity(standing.mean_ratio))))

    def _standing(self, index: int) -> PlannerStanding:
        rows = [(row, row.results[index]) for row in self.workflows]
        ratios = [ratio for row, result in rows if (ratio := row.ratio(result)) is not None]
        percents = [percent for row, result in rows if (percent := row.percent(result)) is not None]
        return PlannerStanding(
            planner=self.planners[index],
            planned=len(ratios),
            wins=sum(row.wins(result) for row, result in rows),
            mean_ratio=math.exp(math.fsum(map(math.log, ratios)) / len(ratios)) if ratios else None,
            planning_s=math.fsum(result.planning_s or 0.0 for _, result in rows),
            ase_percent=math.fsum(percents) / len(percents) if percents else None,
        )

    @property
    def refusals(self) -> tuple[tuple[str, str, str], ...]:
        """Return (planner, workflow, reason) for every missing plan."""
        return tuple(
            (result.planner, row.workflow, result.reason)
            for row in self.workflows
            for result in row.results
            if result.makespan_s is None
        )

    def as_record(self) -> dict[str, Any]:
        """Return the object printed by ``weft compare --json``."""
        return {
            "platform": self.platform,
            "seed": self.seed,
            "baseline": self.baseline,
            "objective": self.objective,
            "planners": [asdict(standing) for standing in self.standings],
            "workflows": [row.as_record() for row in self.workflows],
        }


def _or_infinity(number: float | None) -> float:
    return math.inf if number is None else number


_NOTHING = "-"


def comparison_title(comparison: PlannerComparison) -> str:
    """Return a title: the numbers of workflows, planners and policies, and the platform."""
    workflows = format_count(len(comparison.workflows), "workflow")
    policies = sum(name.startswith(POLICY_MARK) for name in comparison.planners)
    planners = len(comparison.planners) - policies
    shown = [format_count(planners, "planner")] if planners else []
    shown += [f"{policies} {'policy' if policies == 1 else 'policies'}"] if policies else []
    by = "" if comparison.objective == _MAKESPAN else f", by {comparison.objective}"
    return f"{workflows} on {comparison.platform}, {' and '.join(shown)}{by}"


def result_table(comparison: PlannerComparison) -> TextTable:
    """Return a table with a row per workflow and planner; only the first row of a workflow has its name."""
    rows = []
    for row in comparison.workflows:
        size = f"{row.workflow} ({format_count(row.tasks, 'task')})"
        for index, result in enumerate(row.results):
            rows.append((size if index == 0 else "", result.planner, *_cells(row, result)))
    base = () if comparison.baseline is None else (f"of {comparison.baseline}",)
    gap = "gap" if comparison.objective == _MAKESPAN else "objective"
    heading = ("workflow", "planner", "makespan", "", gap, "ratio", *base, "time")
    return TextTable(heading=heading, rows=tuple(rows), texts=2)


def _cells(row: WorkflowResults, result: PlannerResult) -> tuple[str, ...]:
    makespan_s, ratio = result.makespan_s, row.ratio(result)
    percent = () if row.baseline is None else (_percent(row.percent(result)),)
    if makespan_s is None or ratio is None:
        return (_NOTHING, "", _NOTHING, _NOTHING, *percent, _NOTHING)
    return (
        f"{makespan_s:.6g} s",
        "*" if row.wins(result) else "",
        _gap_text(row.gap(result)) if row.objective == _MAKESPAN else f"{row.score(result):.6g}",
        _NOTHING if math.isinf(ratio) else f"{ratio:.3f}",
        *percent,
        _time(result.planning_s),
    )


def _gap_text(gap: float | None) -> str:
    return "unknown" if gap is None else f"{gap:.1%}"


def _percent(percent: float | None) -> str:
    return _NOTHING if percent is None else f"{percent:.1f}%"


def _time(seconds: float | None) -> str:
    return _NOTHING if seconds is None else format_seconds(seconds)


def standing_table(comparison: PlannerComparison) -> TextTable:
    """Return a table with a row per planner: wins, mean ratio to the best, ASE, number of plans, time."""
    total = len(comparison.workflows)
    has_base = comparison.baseline is not None
    rows = tuple(
        (
            standing.planner,
            str(standing.wins),
            _NOTHING if math.isinf(_or_infinity(standing.mean_ratio)) else f"{standing.mean_ratio:.3f}",
            *([_percent(standing.ase_percent)] if has_base else []),
            f"{standing.planned} of {total}",
            _time(standing.planning_s if standing.planned else None),
        )
        for standing in comparison.standings
    )
    wins, ase = ("wins (BDT)", ("ASE",)) if has_base else ("wins", ())
    return TextTable(heading=("planner", wins, "mean ratio", *ase, "planned", "time"), rows=rows, texts=1)


def refusal_lines(comparison: PlannerComparison, *, verbose: bool = False) -> list[str]:
    """Return the reasons for missing plans, one line per planner and reason.

    A line names at most three workflows; ``verbose``: all of them.
    """
    workflows: dict[tuple[str, str], list[str]] = {}
    for planner, workflow, reason in comparison.refusals:
        workflows.setdefault((planner, reason), []).append(workflow)
    return [
        f"{planner}, {', '.join(names) if verbose else _names(names)}: {reason}"
        for (planner, reason), names in workflows.items()
    ]


def _names(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1} others"


def comparison_html(comparison: PlannerComparison) -> str:
    """Return the comparison as a self-contained HTML page."""
    return render_page(
        "comparison.html",
        title=comparison_title(comparison),
        standings=standing_table(comparison),
        results=result_table(comparison),
        refusals=refusal_lines(comparison),
        baseline=comparison.baseline,
    )


_COLUMNS = (
    "planner", "makespan_s", "gap", "ratio", "wins", "planning_s", "reason", "kind", "baseline_percent",
    "value",
)  # fmt: skip


def comparison_csv(comparison: PlannerComparison) -> str:
    """Return the results as CSV, one line per workflow and planner."""
    heading = ("workflow", "tasks", "edges", "platform", "seed", "lower_bound_s", *_COLUMNS)
    rows = []
    for row in comparison.workflows:
        head = (row.workflow, row.tasks, row.edges, comparison.platform, comparison.seed, row.lower_bound_s)
        for result in row.as_record()["results"]:
            cells = result | {"wins": int(result["wins"])}
            rows.append((*head, *(cells[column] for column in _COLUMNS)))
    return csv_text(heading, rows)
