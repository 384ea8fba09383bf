"""ETF: earliest task first."""

from __future__ import annotations

from weft.instance.instance import Instance
from weft.kernels.placement import START
from weft.planners.list_planner import ListPlanner, select_tasks
from weft.planners.ranks import rank_by_priority, static_levels
from weft.schedule.schedule import Schedule


class Etf(ListPlanner):
    """Places ready tasks one by one, each time the task that can start first.

    Of all tasks whose predecessors are placed, the task that can start first is placed on the machine where
    it starts first; ties go to the higher static level. J.-J. Hwang, Y.-C. Chow, F. D. Anger, C.-Y. Lee,
    Scheduling Precedence Graphs in Systems with Interprocessor Communication Times, SIAM Journal on Computing
    18(2), 1989, the section on ETF.

    Deviations: the paper assumes identical processors. Here levels are sums of mean seconds, and among
    machines on which a task starts at the same time it takes the one where it ends first. The paper leaves
    the order of ties open; later papers usually take the static level without communication. A moldable task
    takes nodes that are free at its start. Complexity O(v log v + s (d l + k)).
    """

    name = "etf"
    title = "ETF, earliest start of all ready tasks (Hwang et al. 1989)"
    label = "ETF"

    def schedule(self, instance: Instance) -> Schedule:
        """Place tasks one by one, each time the ready task that can start first; ties by static level."""
        return select_tasks(instance, criterion=START, rank=rank_by_priority(static_levels(instance)))
