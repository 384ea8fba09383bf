"""A comparison of planners: what each made of each workflow, and how they stand after all of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

__all__ = ["Comparison", "Result", "Standing", "WorkflowResults"]

_TIE = 1e-9
"""Makespans that differ by less than this share are the same plan, added up in another order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
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
    results: tuple[Result, ...]
    """In the order of the planners."""

    @property
    def best_makespan_s(self) -> float | None:
        """Give the shortest makespan; None where nobody made a plan."""
        return min(
            (found for result in self.results if (found := result.makespan_s) is not None), default=None
        )

    def ratio(self, result: Result) -> float | None:
        """Say how many times the best makespan a result is; None where there is no plan."""
        best = self.best_makespan_s
        if result.makespan_s is None or best is None:
            return None
        if best <= 0:
            return 1.0 if result.makespan_s <= 0 else math.inf
        return result.makespan_s / best

    def wins(self, result: Result) -> bool:
        """Say whether no other plan is shorter; all that tie win."""
        ratio = self.ratio(result)
        return ratio is not None and ratio <= 1.0 + _TIE

    def gap(self, result: Result) -> float | None:
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
class Standing:
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
class Comparison:
    """What several planners made of several workflows on one platform."""

    platform: str
    seed: int
    planners: tuple[str, ...]
    workflows: tuple[WorkflowResults, ...]

    @property
    def standings(self) -> tuple[Standing, ...]:
        """Give the standing of each planner: most wins first, then the smallest ratio, then as asked for."""
        found = [self._standing(index) for index in range(len(self.planners))]
        return tuple(sorted(found, key=lambda standing: (-standing.wins, _or_last(standing.mean_ratio))))

    def _standing(self, index: int) -> Standing:
        rows = [(row, row.results[index]) for row in self.workflows]
        ratios = [ratio for row, result in rows if (ratio := row.ratio(result)) is not None]
        return Standing(
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


def _or_last(number: float | None) -> float:
    return math.inf if number is None else number
