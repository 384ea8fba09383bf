"""Simulated annealing over bindings and node counts: the genes of ``genetic``, another way to search.

S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi, Science 220, 1983 (``weft.search.annealing``); R. Prodan,
T. Fahringer, SAC 2005 name it as a method for their search engine (S1 section 4).

Deviations: it starts from what list planners find, in the order of the best of these plans. Complexity as
``genetic`` per individual.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.errors import InvalidInput, Problem
from weft.instance.instance import Instance
from weft.planners.genetic import (
    BindingEncoding,
    OccupancyName,
    check_bindings_support,
    decoder_rule,
    fill_gaps,
)
from weft.planners.genome import encode_schedule
from weft.planners.plan_search import PlanSearch, plan_seeds
from weft.planners.planner import Budget, Plan, Unsupported
from weft.schedule.objective import Objective
from weft.schedule.schedule import Schedule
from weft.search import annealing as search
from weft.search.pool import INLINE_POOL, Pool

__all__ = ["AnnealingPlanner"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnealingPlanner:
    """Moves one task at a time, ever more choosy."""

    name: ClassVar[str] = "annealing"
    title: ClassVar[str] = "simulated annealing over machines and node counts (Kirkpatrick et al. 1983)"

    occupancy: OccupancyName = "append"
    """When a machine lets a task start; none: as if tasks did not disturb each other."""
    steps: int = 100_000
    """Schedules over which it cools; fewer where the budget of steps says so."""
    walkers: int = 16
    """Plans that change side by side."""

    def __post_init__(self) -> None:
        for option in ("steps", "walkers"):
            if getattr(self, option) < 1:
                what = f"annealing:{option}={getattr(self, option)}"
                raise InvalidInput(Problem(what=what, rule="must be at least 1"))

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:  # noqa: ARG002
        """Serve every objective, where no budget has to be kept."""
        return check_bindings_support("annealing", instance)

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,
        budget: Budget,
        rng: np.random.Generator,
        pool: Pool = INLINE_POOL,  # noqa: ARG002
    ) -> Plan:
        """Walk from the best plan of the list planners."""
        hunt = PlanSearch(by=self.name, instance=instance, objective=objective, budget=budget, rng=rng)
        seeds = plan_seeds(instance, objective, budget, rng)
        return self._from(hunt, seeds.schedules, seeds.steps)

    def improve(
        self,
        instance: Instance,
        *,
        objective: Objective,
        start: Schedule,
        budget: Budget,
        rng: np.random.Generator,
    ) -> Plan:
        """Walk from one plan."""
        hunt = PlanSearch(by=self.name, instance=instance, objective=objective, budget=budget, rng=rng)
        return self._from(hunt, (start,), 0)

    def _from(self, hunt: PlanSearch, known: Sequence[Schedule], steps: int) -> Plan:
        order = encode_schedule(hunt.instance, known[0]).order
        encoding = BindingEncoding(
            hunt.instance, hunt.objective, rule=decoder_rule(self.occupancy), order=order
        )
        limit = self.steps if hunt.budget.steps is None else min(self.steps, hunt.budget.steps - steps)
        settings = search.AnnealingSettings(steps=max(1, limit), walkers=self.walkers)
        return fill_gaps(
            hunt, hunt.search(encoding, search.SimulatedAnnealing(settings=settings), known, steps)
        )
