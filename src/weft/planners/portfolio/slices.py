"""Slices: the part of a portfolio's budget that one planner gets at a time, wherever it works."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.errors import InvalidInput
from weft.instance.instance import Instance
from weft.planners.naming import planner_named
from weft.planners.planner import Budget, Improver, Plan
from weft.planners.stretch import Stretch
from weft.schedule.objective import Objective
from weft.schedule.schedule import Schedule

__all__ = ["Outcome", "Slice", "improved"]

_MARGIN = 0.2
"""A planner whose clock stands above this share of its time was not ended by it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Slice:
    """What one planner shall do: go on from a schedule, for some steps or some time."""

    planner: str
    start: Schedule
    steps: int | None
    stretch: Stretch
    rng: np.random.Generator


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """What came of a slice."""

    plan: Plan | None
    failure: str = ""
    """Why there is no plan."""
    interrupted: bool = False
    """Whether the planner ended before its time because somebody wants the plan now."""


def improved(instance: Instance, objective: Objective, piece: Slice) -> Outcome:
    """Let a planner go on from a schedule. What breaks inside it is told, as others may still go on."""
    stretch = piece.stretch
    timed = stretch.left is not None
    before_s = stretch.remaining_s()
    budget = Budget(steps=piece.steps, left=stretch.remaining_s if timed else None, tell=stretch.hear)
    planner: Improver = planner_named(piece.planner)  # type: ignore[assignment]
    try:
        plan = planner.improve(instance, objective=objective, start=piece.start, budget=budget, rng=piece.rng)
    except InvalidInput:
        raise
    except Exception as error:
        return Outcome(plan=None, failure=f"{piece.planner} failed: {type(error).__name__}: {error}")
    early = budget.steps is None or plan.steps < budget.steps
    unspent = not timed or (not stretch.reached and stretch.remaining_s() > _MARGIN * before_s)
    return Outcome(plan=plan, interrupted=plan.cut and early and unspent)
