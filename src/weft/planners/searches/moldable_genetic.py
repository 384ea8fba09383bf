"""Genetic search over node counts on the queue of one machine.

M. Jaros, J. Jaros, Performance-Cost Optimization of Moldable Scientific Workflows (S2 sections 2, 5 and 8):
genes are node counts in the order of submission, breadth first; the queue of the cluster makes the schedule.
With ``preset=s2-recommended`` it is the published search with the settings recommended there, from a first
generation drawn at random: 25 individuals below 31 tasks, else 50.

Deviations of the default: what list planners find is in the first generation, and tasks are submitted in the
order of the best of these plans where that gives a better plan with its counts. What is found is never worse
than what is known.

Complexity O(v log v + e) per individual for v tasks and e edges, under ``conservative`` O(v^2 + e).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from weft.errors import InvalidInput, Problem
from weft.instance.instance import Instance
from weft.planners.genomes import genome_of
from weft.planners.planner import Budget, Plan, Unsupported, without_budgets
from weft.planners.searches.counts import Counts
from weft.planners.searches.searching import Hunt
from weft.planners.searches.seeding import seeds_of
from weft.schedule.objective import Objective
from weft.schedule.schedule import Schedule
from weft.search import genetic as search
from weft.search.islands import Islands
from weft.search.optimiser import Optimiser
from weft.search.pool import ALONE, Pool

__all__ = ["MoldableGenetic", "recommended"]

_SMALL, _LARGE, _FROM_TASKS = 25, 50, 31
"""Individuals for few and for many tasks, and what many are (S2 section 8)."""


def recommended(tasks: int) -> search.Settings:
    """Give the settings S2 recommends for a number of tasks."""
    return replace(search.PRESETS["s2-recommended"], population=_SMALL if tasks < _FROM_TASKS else _LARGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoldableGenetic:
    """Breeds node counts."""

    name: ClassVar[str] = "moldable-genetic"
    title: ClassVar[str] = "genetic search over node counts on one cluster (Jaros and Jaros)"

    preset: Literal["seeded", "s2-recommended"] = "seeded"
    """From what list planners find, or from nothing as in the paper; settings are the paper's in both."""
    queue: Literal["machine", "fifo", "first-fit", "easy", "conservative"] = "machine"
    """How the queue lets tasks start; machine: as the platform says."""
    population: int = 0
    """Individuals; 0: 25 below 31 tasks, else 50."""
    generations: int = 0
    """The most generations; 0: 500."""
    islands: int = 1
    """Searches side by side that exchange their best."""

    def __post_init__(self) -> None:
        for option in ("population", "generations"):
            if getattr(self, option) < 0:
                what = f"moldable-genetic:{option}={getattr(self, option)}"
                raise InvalidInput(Problem(what=what, rule="must be at least 0 (as recommended)"))
        if self.islands < 1:
            what = f"moldable-genetic:islands={self.islands}"
            raise InvalidInput(Problem(what=what, rule="must be at least 1"))

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:  # noqa: ARG002
        """Serve every objective on one machine that nobody has reserved, where no budget has to be kept."""
        if len(instance.machines) != 1:
            reason = f"it searches node counts on the queue of one machine, not of {len(instance.machines)}"
            return Unsupported(reason=reason)
        if any(held.start_s > 0 for held in instance.busy):
            return Unsupported(reason="a queue knows what runs now, but no reservations")
        return without_budgets("the genetic search over node counts", instance)

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,
        budget: Budget,
        rng: np.random.Generator,
        pool: Pool = ALONE,
    ) -> Plan:
        """Breed from list planners' plans, or from nothing."""
        hunt = Hunt(by=self.name, instance=instance, objective=objective, budget=budget, rng=rng, pool=pool)
        if self.preset == "s2-recommended":
            return hunt.search(Counts(instance, objective, queue=self._queue), self._search(len(instance)))
        seeds = seeds_of(instance, objective, budget, rng)
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
        """Breed from one plan."""
        hunt = Hunt(by=self.name, instance=instance, objective=objective, budget=budget, rng=rng)
        return self._from(hunt, (start,), 0)

    @property
    def _queue(self) -> str | None:
        return None if self.queue == "machine" else self.queue

    def _from(self, hunt: Hunt, known: Sequence[Schedule], steps: int) -> Plan:
        """Search from some plans, the best first, in the better of two orders."""
        orders = (None, genome_of(hunt.instance, known[0]).order)
        tried = [Counts(hunt.instance, hunt.objective, queue=self._queue, order=order) for order in orders]
        values = [float(one.values(one.point(known[0])[None])[0]) for one in tried]
        encoding = tried[int(values[1] > values[0])]
        return hunt.search(encoding, self._search(len(hunt.instance)), known, steps + len(tried))

    def _search(self, tasks: int) -> Optimiser:
        settings = recommended(tasks)
        if self.population:
            settings = replace(settings, population=self.population)
        if self.generations:
            settings = replace(settings, generations=self.generations)
        one = search.Genetic(settings=settings)
        return one if self.islands == 1 else Islands(search=one, islands=self.islands)
