"""Local optimum: every task with its fastest node count, regardless of waiting tasks."""

from __future__ import annotations

import numpy as np

from weft.instance.instance import Instance
from weft.planners.list_planner import ListPlanner, place_tasks
from weft.planners.problem import restrict_to_best_modes
from weft.planners.queue_decoding import run_queue, submission_order
from weft.schedule.schedule import Schedule
from weft.workflow.task_graph import Indices


class LocalOptimum(ListPlanner):
    """Gives every task its fastest node count, even if the task has to wait longer for the nodes.

    This is the optimum of the first fitness function of M. Jaros, J. Jaros, Performance-Cost Optimization of
    Moldable Scientific Workflows (docs/papers/moldable.md, section 4), here the objective ``local``. On one
    machine the tasks are submitted to its queue breadth first, as in the paper (section 5).

    Deviations: on several machines every binding variable goes to the machine where its tasks together take
    the least time; among equal machines to the one where the first placed task ends first. With several
    machines or busy intervals, tasks are placed into gaps. Ties go to the smaller count.
    Complexity O(v k) for v tasks of k modes, plus that of the queue.
    """

    name = "local-optimum"
    title = "every task on its fastest node count (baseline, Jaros and Jaros, fitness 1)"
    label = "the local optimum"
    other_objectives = ("local",)

    def schedule(self, instance: Instance) -> Schedule:
        """Give each task its fastest node count and submit the tasks to the queue of the only machine.

        With several machines or busy intervals the tasks are placed into gaps.
        """
        # The queue models running tasks, but no reservations.
        if len(instance.machines) == 1 and not instance.busy:
            return run_queue(instance, _fastest_counts(instance))
        problem = restrict_to_best_modes(instance)
        return place_tasks(instance, submission_order(instance), problem=problem)


def _fastest_counts(instance: Instance) -> Indices:
    """Return for each task the node count of its shortest mode; of equally short modes the first."""
    counts = np.ones(len(instance), dtype=np.uint32)
    for group in instance.groups:
        for tasks, seconds in group.chunks():
            counts[tasks] = group.count[seconds.argmin(axis=1)]
    return counts
