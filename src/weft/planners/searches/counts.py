"""Counts: a node count per task on the queue of one machine, as points of a search.

The encoding of M. Jaros, J. Jaros, Performance-Cost Optimization of Moldable Scientific Workflows (S2 section
2): genes stand in the order in which tasks are submitted, breadth first unless another order is given; only
allowed counts are values, so that nothing needs to be repaired.
"""

from __future__ import annotations

import numpy as np

from weft.instance.instance import Instance
from weft.planners.genomes import genome_of
from weft.planners.queueing import run_queue, run_queue_population, submission_order
from weft.planners.searches.judging import Judge
from weft.schedule.objective import Objective
from weft.schedule.schedule import Schedule
from weft.search.space import Floats, Points, Space, numeric_space, space_of
from weft.workflow.unfolding.task_graph import COMPUTE, Indices

__all__ = ["Counts"]


class Counts:
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
        self._judge = Judge(instance, objective)
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
        self.space: Space = numeric_space(self._values) if self._values else space_of([1])
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
        modes = genome_of(self._instance, schedule).modes
        found = []
        for task, counts in zip(self._genes.tolist(), self._values, strict=True):
            group = self._instance.groups[int(self._instance.group[task])]
            found.append(int(np.searchsorted(counts, group.count[modes[task]])))
        return np.array(found or [0], dtype=np.uint32)


def _allowed(instance: Instance, task: int) -> Indices:
    """Give the counts of a task, ascending; a transfer or virtual task has one that means nothing."""
    number = int(instance.group[task])
    return instance.groups[number].count if number >= 0 else np.ones(1, dtype=np.uint32)
