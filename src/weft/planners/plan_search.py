"""Searching: an optimiser of ``weft.search`` at work on the plans of an instance.

An encoding says which points there are and which schedule each stands for. What is found is never worse than
the schedules that were known before.

Seeding: what list planners find, for searches to start from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from weft.errors import Infeasible
from weft.instance.instance import Instance
from weft.planners import PLANNERS
from weft.planners.evaluation import evaluate_loss
from weft.planners.planner import Budget, Plan, Planner, PlanProgress
from weft.planners.problem import compile_problem
from weft.schedule.objective import OBJECTIVES, Objective
from weft.schedule.schedule import Schedule
from weft.search.optimiser import SearchState
from weft.search.pool import INLINE_POOL, Pool

if TYPE_CHECKING:
    from weft.search.optimiser import Optimiser
    from weft.search.space import Floats, Points, Space

__all__ = ["Encoding", "PlanSearch", "Seeds", "plan_seeds", "supported_objective"]


class Encoding(Protocol):
    """Plans as points of a space."""

    @property
    def space(self) -> Space:
        """Give all points."""
        ...

    @property
    def batch(self) -> int:
        """Say how many points may be evaluated between two looks at the budget."""
        ...

    def values(self, points: Points) -> Floats:
        """Give the value of every point, which is to be large; minus infinity: no plan."""
        ...

    def schedule(self, point: Points) -> Schedule:
        """Give the schedule of one point."""
        ...

    def point(self, schedule: Schedule) -> Points:
        """Give the point that chooses as a schedule did."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _RemainingBudget:
    """What others have left of a budget."""

    budget: Budget
    taken: int

    def allows(self, steps_taken: int) -> bool:
        return self.budget.allows(self.taken + steps_taken)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlanSearch:
    """A search for a better plan, and who asked for it."""

    by: str
    """The name of the planner."""
    instance: Instance
    objective: Objective
    budget: Budget
    rng: np.random.Generator
    pool: Pool = INLINE_POOL

    def search(
        self, encoding: Encoding, optimiser: Optimiser, known: Sequence[Schedule] = (), steps: int = 0
    ) -> Plan:
        """Search from what is known, for which some steps were taken, and give the best of everything."""
        found = optimiser.optimise(
            encoding.space,
            encoding.values,
            rng=self.rng,
            limit=_RemainingBudget(budget=self.budget, taken=steps),
            starts=[encoding.point(schedule) for schedule in known],
            tell=None if self.budget.tell is None else self._teller(encoding, steps),
            pool=self.pool,
            batch=encoding.batch,
        )
        schedules = list(known)
        if np.isfinite(found.value) or not known:
            schedules.append(encoding.schedule(found.best))
        steps += found.visited
        used_up = self.budget.steps is not None and steps >= self.budget.steps
        return Plan(
            # Among equals the one that was known first.
            schedule=min(schedules, key=lambda one: evaluate_loss(self.instance, self.objective, one)),
            steps=steps,
            cut=found.cut and not used_up,
        )

    def _teller(self, encoding: Encoding, steps: int) -> _ProgressReporter:
        return _ProgressReporter(self, encoding, steps)


class _ProgressReporter:
    """Passes on what is better than before."""

    def __init__(self, hunt: PlanSearch, encoding: Encoding, steps: int) -> None:
        self._hunt = hunt
        self._encoding = encoding
        self._steps = steps
        self._value = -np.inf

    def __call__(self, standing: SearchState) -> None:
        hunt = self._hunt
        if hunt.budget.tell is None or not standing.value > self._value:
            return
        self._value = standing.value
        schedule = self._encoding.schedule(standing.best)
        steps = self._steps + standing.visited
        hunt.budget.tell(PlanProgress.of(schedule, hunt.instance, hunt.objective, by=hunt.by, steps=steps))


_FOR_ALL = ("heft", "cpop", "peft", "cheapest")
_FOR_MOLDABLE = ("heft-moldable", "cpa", "local-optimum")
_MAX_CELLS = 5_000_000
"""Tasks x machines above which only the first planner is asked."""


class Seeds(NamedTuple):
    """Schedules to start from."""

    schedules: tuple[Schedule, ...]
    """The best first, by the objective and its limits; at least one."""
    steps: int
    """Schedules that were built for it."""


def plan_seeds(instance: Instance, objective: Objective, budget: Budget, rng: np.random.Generator) -> Seeds:
    """Ask the list planners that are quick enough, as long as the budget lasts.

    One that does not serve the objective is asked for a short plan.
    """
    moldable = bool(compile_problem(instance).modes.moldable.any())
    names = [*(_FOR_MOLDABLE if moldable else ()), *_FOR_ALL]
    if len(instance) * len(instance.machines) > _MAX_CELLS:
        names = names[:1]
    found: list[Schedule] = []
    steps = 0
    for name in names:
        if found and not budget.allows(steps):
            break
        planner: Planner = PLANNERS.load(name)()
        goal = supported_objective(planner, instance, objective)
        if goal is not None:
            allowed = Budget(steps=None if budget.steps is None else budget.steps - steps, left=budget.left)
            plan = planner.plan(instance, objective=goal, budget=allowed, rng=rng)
            found.append(plan.schedule)
            steps += plan.steps
    if not found:
        raise Infeasible("no list planner serves this, so that a search has nothing to start from")
    return Seeds(tuple(sorted(found, key=lambda one: evaluate_loss(instance, objective, one))), steps)


def supported_objective(planner: Planner, instance: Instance, objective: Objective) -> Objective | None:
    """Give what a planner is asked for: the objective, else a short plan to start from, else nothing."""
    if planner.supports(instance, objective) is None:
        return objective
    makespan = OBJECTIVES["makespan"]
    return makespan if planner.supports(instance, makespan) is None else None
