"""Trials: schedules that a planner tries within its budget, judged by the objective and its limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from weft.errors import Infeasible
from weft.instance.instance import Instance
from weft.planners.planner import Budget, Plan
from weft.schedule.costs import cost_of
from weft.schedule.objective import Objective
from weft.schedule.schedule import Schedule

__all__ = ["Trial", "Trials"]

_ROUNDING = 1e-9
"""Share by which a sum may exceed a limit that it equals."""


class Trial(NamedTuple):
    """A schedule and how good it is."""

    badness: tuple[float, float]
    """By how much limits are exceeded, then the objective's value; the lower, the better."""
    schedule: Schedule


class Trials:
    """What was tried so far."""

    def __init__(self, instance: Instance, objective: Objective, budget: Budget) -> None:
        self.instance = instance
        self.objective = objective
        self.budget = budget
        self.steps = 0
        self.found: list[Trial] = []
        """In the order in which they were made."""

    def attempt(self, make: Callable[[], Schedule]) -> Trial | None:
        """Make a schedule, at least the first; None: the budget is spent, or this one fits nowhere."""
        if self.found and not self.budget.allows(self.steps):
            return None
        self.steps += 1
        try:
            schedule = make()
        except Infeasible:
            if not self.found:
                raise
            return None
        trial = Trial(badness=self._badness(schedule), schedule=schedule)
        self.found.append(trial)
        return trial

    @property
    def best(self) -> Trial:
        """Give the best trial, the earliest if several."""
        return min(self.found, key=lambda trial: trial.badness)

    def plan(self) -> Plan:
        """Give the best schedule as a plan."""
        spent = not self.budget.allows(self.steps)
        by_clock = spent and (self.budget.steps is None or self.steps < self.budget.steps)
        return Plan(schedule=self.best.schedule, steps=self.steps, cut=by_clock)

    def _badness(self, schedule: Schedule) -> tuple[float, float]:
        objective, excess = self.objective, 0.0
        if objective.deadline_s is not None:
            excess += _excess(schedule.makespan_s, objective.deadline_s)
        if objective.max_cost is not None:
            excess += _excess(cost_of(schedule, self.instance), objective.max_cost)
        value = objective.value(schedule, self.instance)
        return excess, value if objective.sense == "minimise" else -value


def _excess(amount: float, limit: float) -> float:
    """Give which share of an amount is too much."""
    return 0.0 if amount <= limit * (1 + _ROUNDING) else 1.0 - limit / amount
