"""The first plans of a portfolio: list planners, quick ones first, as long as they are quick."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from weft.errors import Infeasible
from weft.instance.instance import Instance
from weft.planners import PLANNERS
from weft.planners.bounding import bounds_of
from weft.planners.planner import Budget, Plan, Planner
from weft.planners.portfolio.incumbent import Incumbent
from weft.planners.problem import problem_of
from weft.planners.searches.seeding import objective_for
from weft.planners.stretch import Stretch
from weft.schedule.objective import Objective

__all__ = ["LISTS", "first_plans", "half_of"]

_ANY = 2**62
LISTS: tuple[tuple[str, int], ...] = (
    ("heft", _ANY),
    ("heft-moldable", _ANY),
    ("cheapest", _ANY),
    ("local-optimum", 1_000_000),
    ("xdcp", 20_000),
    ("cpop", 20_000),
    ("peft", 20_000),
    ("dls", 20_000),
    ("hlfet", 20_000),
    ("mct", 20_000),
    ("maxmin", 20_000),
    ("minmin", 20_000),
    ("sufferage", 20_000),
    ("etf", 20_000),
    ("cpa", 5_000),
    ("lookahead", 4_000),
)
"""Planners, and the number of modes of all tasks up to which each is quick."""
_MOST_MODES = 5_000_000
"""Up to so many modes bounds are computed at once: above, it takes seconds that a search can use."""
_SHARE = 0.25
"""Share of the time after which nothing but a search begins."""


def first_plans(
    instance: Instance, objective: Objective, budget: Budget, rng: np.random.Generator, incumbent: Incumbent
) -> None:
    """Let list planners plan, and compute the bounds. Raises Infeasible where all of them do."""
    modes = sum(len(group.tasks) * len(group.machine) for group in instance.groups)
    latest_s = None if budget.left is None else (1.0 - _SHARE) * budget.left()
    infeasible: Infeasible | None = None
    for name, most in LISTS:
        if incumbent.schedule is not None and (incumbent.is_settled or _is_late(budget, latest_s)):
            return
        if modes > most or not _adds_something(name, instance, objective):
            continue
        planner: Planner = PLANNERS.load(name)()
        aim = objective_for(planner, instance, objective)
        if aim is None or not (incumbent.schedule is None or budget.allows(incumbent.steps)):
            continue
        try:
            # Times larger than numbers can be are refused below, whatever arithmetic says of them.
            with np.errstate(over="ignore", invalid="ignore"):
                made = planner.plan(instance, objective=aim, budget=half_of(budget, incumbent.steps), rng=rng)
        except Infeasible as error:
            infeasible = infeasible or error
            continue
        if not np.isfinite(made.schedule.finish_s).all():
            raise Infeasible("the times of this plan are larger than numbers can be")
        incumbent.offer(_unproven(made), name)
        if incumbent.bound_s == 0 and modes <= _MOST_MODES:
            bounds = bounds_of(instance)
            incumbent.raise_bound(bounds.best_s, bounds.argument)
    if incumbent.schedule is None and infeasible is not None:
        raise infeasible


def _adds_something(name: str, instance: Instance, objective: Objective) -> bool:
    """Leave out those whose plan another one has made already."""
    moldable = bool(problem_of(instance).modes.moldable.any())
    costs = not objective.is_makespan or objective.max_cost is not None
    if name in ("heft-moldable", "cpa"):
        return moldable or costs
    return name != "cheapest" or costs


def _is_late(budget: Budget, latest_s: float | None) -> bool:
    return latest_s is not None and budget.left is not None and budget.left() < latest_s


def half_of(budget: Budget, taken: int) -> Budget:
    """Give half of what is left of a budget: whoever comes first leaves something for the others."""
    steps = None if budget.steps is None else max(1, (budget.steps - taken) // 2)
    if budget.left is None:
        return Budget(steps=steps)
    stretch = Stretch(left=budget.left, until_s=budget.left() / 2.0)
    return Budget(steps=steps, left=stretch.remaining_s)


def _unproven(plan: Plan) -> Plan:
    """Leave the steps and the schedule: a first plan proves nothing that the bounds do not."""
    return replace(plan, bound_s=0.0) if plan.bound_s else plan
