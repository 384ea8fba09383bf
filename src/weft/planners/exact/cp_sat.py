"""CP-SAT: an exact model of all plans, searched by OR-Tools, with a bound of the makespan.

L. Perron, F. Didier, S. Gay, The CP-SAT-LP Solver, CP 2023. The model (``plan_model``): a start and an end
per task, one place per binding variable, one mode per task; machines of one node serve tasks in turn, of
others nodes and resources are counted; data take time between hosts; like machines without communication
count as one. It starts from a schedule that is known, and what it finds is decoded with the true seconds.

Deviations: ours but the solver. Seconds become whole numbers (``grids``): exact where they are decimal, else
rounded down, so that the bound holds. Complexity: exponential; instances with a model of more than
``MOST_TERMS`` literals and terms are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.errors import InvalidInput, Problem
from weft.instance.instance import Instance
from weft.planners.aims import aim_of
from weft.planners.exact.attempt import Attempt
from weft.planners.exact.sizes import MOST_TERMS, terms_of
from weft.planners.planner import Budget, Plan, Unsupported
from weft.planners.searches.seeding import seeds_of
from weft.schedule.objective import Objective
from weft.schedule.schedule import Schedule
from weft.search.pool import ALONE, Pool

__all__ = ["CpSat"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CpSat:
    """Searches until no better plan can exist, or the budget is spent."""

    name: ClassVar[str] = "cp-sat"
    title: ClassVar[str] = "exact model for CP-SAT (Perron et al. 2023), with a bound; small instances"

    workers: int = 0
    """Threads that search where a clock ends the search; 0: as many as there are workers."""

    def __post_init__(self) -> None:
        if self.workers < 0:
            what = f"cp-sat:workers={self.workers}"
            raise InvalidInput(Problem(what=what, rule="must be at least 0 (as many as there are workers)"))

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Serve what is a sum of makespan, node-seconds and price, with budgets, where the model is small."""
        if aim_of(instance, objective) is None:
            return Unsupported(reason=f"CP-SAT serves sums of time and cost, not the {objective.name}")
        terms = terms_of(instance)
        if terms > MOST_TERMS:
            reason = f"its model would have some {terms:,} terms, more than {MOST_TERMS:,}"
            return Unsupported(reason=f"this is too large for CP-SAT: {reason}")
        return None

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,
        budget: Budget,
        rng: np.random.Generator,
        pool: Pool = ALONE,
    ) -> Plan:
        """Search from the best plan of the list planners; from nothing where budgets have to be kept."""
        workers = self.workers or pool.workers
        if instance.binding_budgets():
            return Attempt(instance, objective, budget, workers).run(None, 0, rng)
        seeds = seeds_of(instance, objective, budget, rng)
        return Attempt(instance, objective, budget, workers).run(seeds.schedules[0], seeds.steps, rng)

    def improve(
        self,
        instance: Instance,
        *,
        objective: Objective,
        start: Schedule,
        budget: Budget,
        rng: np.random.Generator,
    ) -> Plan:
        """Search from a plan that is known."""
        return Attempt(instance, objective, budget, self.workers or 1).run(start, 0, rng)
