"""Genetic search over bindings: which machine every binding variable gets.

R. Prodan, T. Fahringer, Dynamic Scheduling of Scientific Workflow Applications on the Grid: A Case Study, SAC
2005 (S1 sections 4 and 12). Genes are binding variables, so a workflow that names abstract machines has fewer
(``weft.planners.searches.bindings``). With ``preset=s1-tuned`` it is the published search, with the settings
the paper ended with: a first generation drawn at random, tasks by index, and what it finds is returned.

Deviations of the default: what list planners find is in the first generation, and tasks go in the order of
the best of these plans, so that it is never worse; settings are ours; the plan found is put into gaps. A
moldable task also has a gene for its node count.

Complexity O(v + e) per individual for v tasks and e edges, more where nodes are counted or gaps are filled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from weft.errors import InvalidInput, Problem
from weft.instance.instance import Instance
from weft.planners.aims import worth_of
from weft.planners.decoding import APPEND, EXCLUSIVE, INSERTION, UNLIMITED, decode
from weft.planners.genomes import genome_of
from weft.planners.planner import Budget, Plan, Unsupported, without_budgets
from weft.planners.searches.bindings import Bindings, too_many_counts
from weft.planners.searches.searching import Hunt
from weft.planners.searches.seeding import seeds_of
from weft.schedule.objective import Objective
from weft.schedule.schedule import Schedule
from weft.search import genetic as search
from weft.search.islands import Islands
from weft.search.optimiser import Optimiser
from weft.search.pool import ALONE, Pool

__all__ = ["Genetic", "Occupancy", "in_gaps", "rule_named", "serves_bindings"]

Occupancy = Literal["append", "insertion", "exclusive", "none"]
_RULES = {"append": APPEND, "insertion": INSERTION, "exclusive": EXCLUSIVE, "none": UNLIMITED}
_SEEDED = search.Settings(
    population=60,
    generations=1000,
    selection="tournament",
    parent_share=1.0,
    crossover="uniform",
    crossover_rate=0.7,
    mutation_rate=0.01,
    elite_share=0.05,
    steady_share=0.3,
)
"""Ours: whoever starts from good plans must not lose them, nor follow them alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Genetic:
    """Breeds bindings."""

    name: ClassVar[str] = "genetic"
    title: ClassVar[str] = "genetic search over machines (Prodan and Fahringer 2005)"

    preset: Literal["seeded", "s1-tuned"] = "seeded"
    """Our settings from what list planners find, or the paper's from nothing."""
    occupancy: Occupancy = "append"
    """When a machine lets a task start; none: as if tasks did not disturb each other."""
    population: int = 0
    """Individuals; 0: as the preset says."""
    generations: int = 0
    """The most generations; 0: as the preset says."""
    islands: int = 1
    """Searches side by side that exchange their best."""

    def __post_init__(self) -> None:
        for option in ("population", "generations"):
            if getattr(self, option) < 0:
                what = f"genetic:{option}={getattr(self, option)}"
                raise InvalidInput(Problem(what=what, rule="must be at least 0 (as the preset says)"))
        if self.islands < 1:
            raise InvalidInput(Problem(what=f"genetic:islands={self.islands}", rule="must be at least 1"))

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:  # noqa: ARG002
        """Serve every objective, where no budget has to be kept."""
        return serves_bindings("the genetic search", instance)

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
        if self.preset == "s1-tuned":
            encoding = Bindings(instance, objective, rule=rule_named(self.occupancy))
            return hunt.search(encoding, self._search())
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

    def _from(self, hunt: Hunt, known: Sequence[Schedule], steps: int) -> Plan:
        """Search from some plans, the best first, in the order of the best."""
        instance, objective = hunt.instance, hunt.objective
        order = genome_of(instance, known[0]).order
        encoding = Bindings(instance, objective, rule=rule_named(self.occupancy), order=order)
        return in_gaps(hunt, hunt.search(encoding, self._search(), known, steps))

    def _search(self) -> Optimiser:
        settings = search.PRESETS["s1-tuned"] if self.preset == "s1-tuned" else _SEEDED
        if self.population:
            settings = replace(settings, population=self.population)
        if self.generations:
            settings = replace(settings, generations=self.generations)
        if self.islands == 1:
            return search.Genetic(settings=settings)
        return Islands(search=search.Genetic(settings=settings), islands=self.islands)


def rule_named(occupancy: str) -> int:
    """Give the rule of the decoder for an occupancy."""
    return _RULES[occupancy]


def serves_bindings(title: str, instance: Instance) -> Unsupported | None:
    """Refuse what cannot be searched by bindings: budgets to be kept, and too many node counts."""
    if too_many_counts(instance):
        return Unsupported(reason=f"{title} would need a table of too many node counts on too many machines")
    return without_budgets(title, instance)


def in_gaps(hunt: Hunt, plan: Plan) -> Plan:
    """Put the tasks of a plan into the first gaps, in order of their starts, if that is better."""
    genome = genome_of(hunt.instance, plan.schedule)
    closer = decode(hunt.instance, genome.order, genome.bound, genome.modes, rule=INSERTION)
    judged = [worth_of(hunt.instance, hunt.objective, one) for one in (plan.schedule, closer)]
    return replace(plan, schedule=closer if judged[1] < judged[0] else plan.schedule, steps=plan.steps + 1)
