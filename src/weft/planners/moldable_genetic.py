"""Counts: a node count per task on the queue of one machine, as points of a search.

The encoding of M. Jaros, J. Jaros, Performance-Cost Optimization of Moldable Scientific Workflows (S2 section
2): genes stand in the order in which tasks are submitted, breadth first unless another order is given; only
allowed counts are values, so that nothing needs to be repaired.

Genetic search over node counts on the queue of one machine.

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
from weft.planners.evaluation import PopulationEvaluator
from weft.planners.genome import encode_schedule
from weft.planners.plan_search import PlanSearch, plan_seeds
from weft.planners.planner import Budget, Plan, Unsupported, check_no_budgets
from weft.planners.queue_decoding import run_queue, run_queue_population, submission_order
from weft.schedule.objective import Objective
from weft.schedule.schedule import Schedule
from weft.search import genetic as search
from weft.search.islands import Islands
from weft.search.optimiser import Optimiser
from weft.search.pool import INLINE_POOL, Pool
from weft.search.space import Floats, Points, Space, make_numeric_space, make_space
from weft.workflow.task_graph import COMPUTE, Indices

__all__ = ["MoldableGeneticPlanner", "NodeCountEncoding", "recommended_settings"]


class NodeCountEncoding:
    """What can be chosen in an instance with one machine, and what becomes of it."""

    def __init__(
        self,
        instance: Instance,
        objective: Objective,
        *,
        queue: str | None = None,
        order: Indices | None = None,
    ) -> None:
        """``queue`` is one of the platform's words for it, by default the machine's own."""
        self._instance = instance
        self._judge = PopulationEvaluator(instance, objective)
        self._queue = queue
        self._order = submission_order(instance) if order is None else order
        allowed = [_allowed(instance, task) for task in range(len(instance))]
        choosing = [task for task in self._order.tolist() if len(allowed[task]) > 1]
        self._genes = np.array(choosing, dtype=np.intp)
        self._usual = np.array([counts[0] for counts in allowed], dtype=np.uint32)
        self._values = [allowed[task] for task in choosing]
        ends = np.cumsum([len(counts) for counts in self._values], dtype=np.int64)
        self._first = np.concatenate([[0], ends])[: len(self._values)].astype(np.int64)
        self._count = np.concatenate(self._values) if self._values else np.zeros(0, dtype=np.uint32)
        self.space: Space = make_numeric_space(self._values) if self._values else make_space([1])
        """The genes: those tasks that have a choice, in order of submission."""

    @property
    def batch(self) -> int:
        """Say how many points may be evaluated between two looks at the budget."""
        return self._judge.batch

    def values(self, points: Points) -> Floats:
        """Give the value of every point, which is to be large."""
        counts, judge = self.counts(points), self._judge
        decoded = run_queue_population(
            self._instance, counts, self._queue, order=self._order, times=judge.timed
        )
        if not judge.of_schedules:
            return judge.values(decoded, counts, counts)
        compute = self._instance.graph.kind == COMPUTE
        return judge.values(decoded, np.zeros_like(counts), np.where(compute, counts, np.uint32(0)))

    def schedule(self, point: Points) -> Schedule:
        """Give the schedule of one point."""
        return run_queue(self._instance, self.counts(point[None])[0], self._queue, order=self._order)

    def counts(self, points: Points) -> Indices:
        """Give the node counts (individuals x tasks) of points."""
        counts = np.repeat(self._usual[None], len(points), axis=0)
        if len(self._genes):
            counts[:, self._genes] = self._count[self._first + points]
        return counts

    def point(self, schedule: Schedule) -> Points:
        """Give the point that has the node counts of a schedule."""
        modes = encode_schedule(self._instance, schedule).modes
        found = []
        for task, counts in zip(self._genes.tolist(), self._values, strict=True):
            group = self._instance.groups[int(self._instance.group[task])]
            found.append(int(np.searchsorted(counts, group.count[modes[task]])))
        return np.array(found or [0], dtype=np.uint32)


def _allowed(instance: Instance, task: int) -> Indices:
    """Give the counts of a task, ascending; a transfer or virtual task has one that means nothing."""
    number = int(instance.group[task])
    return instance.groups[number].count if number >= 0 else np.ones(1, dtype=np.uint32)


_SMALL, _LARGE, _FROM_TASKS = 25, 50, 31
"""Individuals for few and for many tasks, and what many are (S2 section 8)."""


def recommended_settings(tasks: int) -> search.GeneticSettings:
    """Give the settings S2 recommends for a number of tasks."""
    return replace(search.PRESETS["s2-recommended"], population=_SMALL if tasks < _FROM_TASKS else _LARGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoldableGeneticPlanner:
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
        return check_no_budgets("the genetic search over node counts", instance)

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,
        budget: Budget,
        rng: np.random.Generator,
        pool: Pool = INLINE_POOL,
    ) -> Plan:
        """Breed from list planners' plans, or from nothing."""
        hunt = PlanSearch(
            by=self.name, instance=instance, objective=objective, budget=budget, rng=rng, pool=pool
        )
        if self.preset == "s2-recommended":
            return hunt.search(
                NodeCountEncoding(instance, objective, queue=self._queue), self._search(len(instance))
            )
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
        """Breed from one plan."""
        hunt = PlanSearch(by=self.name, instance=instance, objective=objective, budget=budget, rng=rng)
        return self._from(hunt, (start,), 0)

    @property
    def _queue(self) -> str | None:
        return None if self.queue == "machine" else self.queue

    def _from(self, hunt: PlanSearch, known: Sequence[Schedule], steps: int) -> Plan:
        """Search from some plans, the best first, in the better of two orders."""
        orders = (None, encode_schedule(hunt.instance, known[0]).order)
        tried = [
            NodeCountEncoding(hunt.instance, hunt.objective, queue=self._queue, order=order)
            for order in orders
        ]
        values = [float(one.values(one.point(known[0])[None])[0]) for one in tried]
        encoding = tried[int(values[1] > values[0])]
        return hunt.search(encoding, self._search(len(hunt.instance)), known, steps + len(tried))

    def _search(self, tasks: int) -> Optimiser:
        settings = recommended_settings(tasks)
        if self.population:
            settings = replace(settings, population=self.population)
        if self.generations:
            settings = replace(settings, generations=self.generations)
        one = search.GeneticAlgorithm(settings=settings)
        return one if self.islands == 1 else Islands(search=one, islands=self.islands)
