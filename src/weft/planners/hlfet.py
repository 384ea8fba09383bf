"""HLFET: highest level first with estimated times."""

from __future__ import annotations

from weft.instance.instance import Instance
from weft.kernels.selection import AVAILABILITY
from weft.planners.list_planner import ListPlanner, select_tasks
from weft.planners.ranks import rank_by_priority, static_levels
from weft.schedule.schedule import Schedule


class Hlfet(ListPlanner):
    """Places the ready task of the highest level on the machine that is free first.

    Whenever a machine is free, it starts the task of the highest level among the tasks whose predecessors
    have ended. The level is the longest path from a task to an exit task, including the time of the task
    itself. T. L. Adam, K. M. Chandy, J. R. Dickson, A Comparison of List Schedules for Parallel Processing
    Systems, CACM 17(12), 1974.

    Deviations: none on identical machines without communication, the model of the paper. Otherwise levels are
    sums of mean seconds without communication. Of the machines that are free at a time, a task takes the one
    where it ends first, including the transfer of its data, and occupies the machine during the transfer. A
    moldable task takes nodes that are free at that time. Complexity O(v log v + s (d l + k)).
    """

    name = "hlfet"
    title = "HLFET, highest level first (Adam et al. 1974)"
    label = "HLFET"

    def schedule(self, instance: Instance) -> Schedule:
        """Whenever a machine is free, start the ready task of the highest static level on it."""
        return select_tasks(instance, criterion=AVAILABILITY, rank=rank_by_priority(static_levels(instance)))
