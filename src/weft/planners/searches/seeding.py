"""Seeding: what list planners find, for searches to start from."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from weft.errors import Infeasible
from weft.instance.instance import Instance
from weft.planners import PLANNERS
from weft.planners.aims import worth_of
from weft.planners.planner import Budget, Planner
from weft.planners.problem import problem_of
from weft.schedule.objective import OBJECTIVES, Objective
from weft.schedule.schedule import Schedule

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Seeds", "objective_for", "seeds_of"]

_FOR_ALL = ("heft", "cpop", "peft", "cheapest")
_FOR_MOLDABLE = ("heft-moldable", "cpa", "local-optimum")
_MOST_LOOKS = 5_000_000
"""Tasks x machines above which only the first planner is asked."""


class Seeds(NamedTuple):
    """Schedules to start from."""

    schedules: tuple[Schedule, ...]
    """The best first, by the objective and its limits; at least one."""
    steps: int
    """Schedules that were built for it."""


def seeds_of(instance: Instance, objective: Objective, budget: Budget, rng: np.random.Generator) -> Seeds:
    """Ask the list planners that are quick enough, as long as the budget lasts.

    One that does not serve the objective is asked for a short plan.
    """
    moldable = bool(problem_of(instance).modes.moldable.any())
    names = [*(_FOR_MOLDABLE if moldable else ()), *_FOR_ALL]
    if len(instance) * len(instance.machines) > _MOST_LOOKS:
        names = names[:1]
    found: list[Schedule] = []
    steps = 0
    for name in names:
        if found and not budget.allows(steps):
            break
        planner: Planner = PLANNERS.load(name)()
        goal = objective_for(planner, instance, objective)
        if goal is not None:
            allowed = Budget(steps=None if budget.steps is None else budget.steps - steps, left=budget.left)
            plan = planner.plan(instance, objective=goal, budget=allowed, rng=rng)
            found.append(plan.schedule)
            steps += plan.steps
    if not found:
        raise Infeasible("no list planner serves this, so that a search has nothing to start from")
    return Seeds(tuple(sorted(found, key=lambda one: worth_of(instance, objective, one))), steps)


def objective_for(planner: Planner, instance: Instance, objective: Objective) -> Objective | None:
    """Give what a planner is asked for: the objective, else a short plan to start from, else nothing."""
    if planner.supports(instance, objective) is None:
        return objective
    makespan = OBJECTIVES["makespan"]
    return makespan if planner.supports(instance, makespan) is None else None
