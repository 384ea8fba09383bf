"""Local optimum: every task on the node count with which it takes least, whoever must wait for it.

The first fitness function of M. Jaros, J. Jaros, Performance-Cost Optimization of Moldable Scientific
Workflows (S2 section 4), whose optimum is known: the fastest count of each task. On one machine the tasks
are submitted to its queue breadth first, as the paper does (section 5). Optimal for the objective
``local``.

Deviations: on several machines every binding variable goes to the machine where its tasks together take
least, and of machines that are equally good to the one where a task ends first; there, and beside what is
busy, tasks are placed into gaps. Ties go to the smaller count. Complexity O(v k) and that of the queue.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.instance.instance import Instance
from weft.planners.list_planner import place
from weft.planners.planner import Budget, Plan, Unsupported, check_makespan_only, check_no_budgets
from weft.planners.problem import restrict_to_best_modes, seconds_weight
from weft.planners.queue_decoding import run_queue, submission_order
from weft.schedule.objective import Objective
from weft.schedule.schedule import Schedule
from weft.search.pool import INLINE_POOL, Pool
from weft.workflow.task_graph import Indices

__all__ = ["LocalOptimum"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalOptimum:
    """What users do who look at one task at a time."""

    name: ClassVar[str] = "local-optimum"
    title: ClassVar[str] = "every task on its fastest node count (baseline, Jaros and Jaros, fitness 1)"

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Serve the sum of all times, and as a baseline the makespan, where no budget has to be kept."""
        if objective.name == "local":
            return check_no_budgets("the local optimum", instance)
        return check_makespan_only("the local optimum", instance, objective)

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,  # noqa: ARG002
        budget: Budget,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        pool: Pool = INLINE_POOL,  # noqa: ARG002
    ) -> Plan:
        """Choose the counts, then submit."""
        return Plan(schedule=_submitted(instance), steps=1)


def _submitted(instance: Instance) -> Schedule:
    # A queue knows what runs now, but no reservations.
    if len(instance.machines) == 1 and not instance.busy:
        return run_queue(instance, _fastest_counts(instance))
    return place(
        instance, submission_order(instance), problem=restrict_to_best_modes(instance, seconds_weight)
    )


def _fastest_counts(instance: Instance) -> Indices:
    """Give per task the count of its shortest mode, the smallest if several."""
    counts = np.ones(len(instance), dtype=np.uint32)
    for group in instance.groups:
        for tasks, seconds in group.chunks():
            counts[tasks] = group.count[seconds.argmin(axis=1)]
    return counts
