"""DLS: dynamic level scheduling, generalised for heterogeneous machines."""

from __future__ import annotations

from weft.instance.instance import Instance
from weft.planners.list_planner import ListPlanner, select_tasks
from weft.planners.ranks import median_seconds, static_levels
from weft.schedule.schedule import Schedule


class Dls(ListPlanner):
    """Places ready tasks one by one, each time the task and machine with the highest dynamic level.

    The dynamic level is the static level of the task, minus its earliest start on the machine, plus the
    advantage of the machine over the median. G. C. Sih, E. A. Lee, A Compile-Time Scheduling Heuristic for
    Interconnection-Constrained Heterogeneous Processor Architectures, IEEE TPDS 4(2), 1993, sections on DL1.

    Deviations: there is no contention for links, and neither the descendant consideration (DL2) nor the cost
    of leaving a processor to other tasks is computed. The static level and ``E*`` are medians over the
    machines that can run a task. As start and seconds add up to the finish, the level is ``SL + E* -
    finish``: the machine is always the one where the task ends first. A moldable task takes the smallest node
    count that ends within 5 % of its earliest finish. Complexity O(v k + v log v + s (d l + k)).
    """

    name = "dls"
    title = "DLS, highest dynamic level on heterogeneous machines (Sih and Lee 1993)"
    label = "DLS"

    def schedule(self, instance: Instance) -> Schedule:
        """Place tasks one by one, each time the ready task and machine with the highest dynamic level."""
        medians = median_seconds(instance)
        return select_tasks(instance, offset=static_levels(instance, medians) + medians)
