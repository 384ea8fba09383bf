"""Genetic search over node counts on the queue of one machine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from weft.instance.instance import Instance
from weft.planners.decoding import encode_schedule
from weft.planners.evaluation import PopulationEvaluator
from weft.planners.genetic import GeneticOptions
from weft.planners.plan_search import PreparedSearch, plan_seeds, run_search
from weft.planners.planner import BasePlanner, Plan, PlanRequest, Unsupported
from weft.planners.queue_decoding import run_queue, run_queue_population, submission_order
from weft.schedule.objective import Objective
from weft.schedule.schedule import Schedule
from weft.search import genetic as search
from weft.search.space import Floats, Points, Space, make_numeric_space, make_space
from weft.workflow.task_graph import COMPUTE, Indices

_SMALL, _LARGE, _FROM_TASKS = 25, 50, 31
"""Population sizes for few and for many tasks; from the third number on, tasks count as many.

The values are those of docs/papers/moldable.md, section 8.
"""


def recommended_settings(tasks: int) -> search.GeneticSettings:
    """Return the settings that Jaros and Jaros recommend for a number of tasks."""
    return replace(search.PRESETS["s2-recommended"], population=_SMALL if tasks < _FROM_TASKS else _LARGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoldableGeneticPlanner(GeneticOptions):
    """Searches the node counts of tasks on one machine with a genetic algorithm.

    M. Jaros, J. Jaros, Performance-Cost Optimization of Moldable Scientific Workflows
    (docs/papers/moldable.md, sections 2, 5 and 8). Genes are node counts in the order of submission, breadth
    first unless another order is given. A gene has only allowed counts as values, so that no individual needs
    repair. A simulation of the machine's queue builds the schedule. With ``preset=s2-recommended`` it is the
    published search with its recommended settings and a random first generation: 25 individuals for fewer
    than 31 tasks, else 50.

    Deviations of the default: the plans of list planners are in the first generation. Tasks are submitted in
    the order of the best of these plans if its node counts then give a better schedule than breadth first.
    The result is never worse than these plans.

    Complexity O(v log v + e) per individual for v tasks and e edges, with the ``conservative`` queue O(v^2 +
    e).
    """

    name = "moldable-genetic"
    title = "genetic search over node counts on one cluster (Jaros and Jaros)"
    label = "the genetic search over node counts"
    anytime = True
    any_objective = True

    preset: Literal["seeded", "s2-recommended"] = "seeded"
    """``seeded``: start from list planners' plans; ``s2-recommended``: from random plans, as in the paper."""
    queue: Literal["machine", "fifo", "first-fit", "easy", "conservative"] = "machine"
    """The rule by which the queue starts tasks; ``machine``: the rule given in the platform."""

    def check(self, instance: Instance) -> Unsupported | None:
        """Refuse several machines, reservations after time 0, and budgets that a plan could exceed."""
        if len(instance.machines) != 1:
            reason = f"{self.label} supports one machine, not {len(instance.machines)}"
            return Unsupported(reason=reason)
        if any(held.start_s > 0 for held in instance.busy):
            return Unsupported(reason="a queue cannot model reservations that start after time 0")
        return BasePlanner.check(self, instance)

    def prepare(self, request: PlanRequest) -> PreparedSearch:
        """Return the search, which starts from the incumbent, from plans of list planners, or randomly."""
        instance, objective = request.instance, request.objective
        queue = None if self.queue == "machine" else self.queue
        settings, seeds = recommended_settings(len(instance)), None
        encoding = NodeCountEncoding(instance, objective, queue=queue)
        if self.preset == "seeded" or request.incumbent is not None:
            seeds = plan_seeds(request)
            best = seeds.schedules[0]
            order = encode_schedule(instance, best).order
            other = NodeCountEncoding(instance, objective, queue=queue, order=order)
            values = [float(one.values(one.point(best)[None])[0]) for one in (encoding, other)]
            encoding = other if values[1] > values[0] else encoding
            seeds = seeds._replace(steps=seeds.steps + len(values))
        return PreparedSearch(encoding, self.optimiser(settings, encoding.space), seeds)

    def plan(self, request: PlanRequest) -> Plan:
        """Return the best plan found from the incumbent, from plans of list planners, or randomly."""
        return run_search(request, self.prepare(request), by=self.name)


class NodeCountEncoding:
    """The node counts of an instance with one machine as points of a search space."""

    def __init__(
        self,
        instance: Instance,
        objective: Objective,
        *,
        queue: str | None = None,
        order: Indices | None = None,
    ) -> None:
        """Prepare the encoding of an instance with one machine.

        ``queue`` is the name of a queue rule as in a platform file; if it is None, the rule of the machine is
        used. ``order`` is the order of submission; if it is None, tasks are submitted breadth first.
        """
        self._instance = instance
        self._evaluator = PopulationEvaluator(instance, objective)
        self._queue = queue
        self._order = submission_order(instance) if order is None else order
        allowed = [_allowed(instance, task) for task in range(len(instance))]
        choosing = [task for task in self._order.tolist() if len(allowed[task]) > 1]
        self._genes = np.array(choosing, dtype=np.intp)
        self._smallest = np.array([counts[0] for counts in allowed], dtype=np.uint32)
        self._values = [allowed[task] for task in choosing]
        ends = np.cumsum([len(counts) for counts in self._values], dtype=np.int64)
        self._first = np.concatenate([[0], ends])[: len(self._values)].astype(np.int64)
        self._count = np.concatenate(self._values) if self._values else np.zeros(0, dtype=np.uint32)
        self.space: Space = make_numeric_space(self._values) if self._values else make_space([1])
        """One gene per task with several node counts, in the order of submission."""

    @property
    def batch(self) -> int:
        """Return the number of points to evaluate between two checks of the budget."""
        return self._evaluator.batch

    def values(self, points: Points) -> Floats:
        """Return the value of every point; the search maximises it."""
        counts, evaluator = self.counts(points), self._evaluator
        decoded = run_queue_population(
            self._instance, counts, self._queue, order=self._order, times=evaluator.timed
        )
        if not evaluator.of_schedules:
            return evaluator.values(decoded, counts, counts)
        compute = self._instance.graph.kind == COMPUTE
        return evaluator.values(decoded, np.zeros_like(counts), np.where(compute, counts, np.uint32(0)))

    def schedule(self, point: Points) -> Schedule:
        """Return the schedule that the queue builds from the node counts of a point."""
        return run_queue(self._instance, self.counts(point[None])[0], self._queue, order=self._order)

    def counts(self, points: Points) -> Indices:
        """Return the node counts (points x tasks) that the genes of the points stand for."""
        counts = np.repeat(self._smallest[None], len(points), axis=0)
        if len(self._genes):
            counts[:, self._genes] = self._count[self._first + points]
        return counts

    def point(self, schedule: Schedule) -> Points:
        """Return the point whose genes are the node counts of a schedule."""
        modes = encode_schedule(self._instance, schedule).modes
        found = []
        for task, counts in zip(self._genes.tolist(), self._values, strict=True):
            group = self._instance.groups[int(self._instance.group[task])]
            found.append(int(np.searchsorted(counts, group.count[modes[task]])))
        return np.array(found or [0], dtype=np.uint32)


def _allowed(instance: Instance, task: int) -> Indices:
    """Return the node counts of a task, ascending; 1 for a transfer or virtual task."""
    number = int(instance.group[task])
    return instance.groups[number].count if number >= 0 else np.ones(1, dtype=np.uint32)
