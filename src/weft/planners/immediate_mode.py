"""MCT, OLB and the fastest machine (MET): heuristics that place tasks in the order of their index."""

from __future__ import annotations

from weft.instance.instance import Instance
from weft.kernels.placement import START
from weft.planners.list_planner import FRUGAL, ListPlanner, append_rule, index_order, make_rule, place_tasks
from weft.planners.problem import best_machines
from weft.schedule.schedule import Schedule


class Mct(ListPlanner):
    """Minimum completion time: places every task on the machine where it finishes first, without using gaps.

    M. Maheswaran, S. Ali, H. J. Siegel, D. Hensgen, R. F. Freund, Dynamic Mapping of a Class of Independent
    Tasks onto Heterogeneous Computing Systems, JPDC 59(2), 1999, section 3. Deviations: tasks may depend on
    each other, and transfer times count. A moldable task takes the smallest node count that ends within 5 %
    of its earliest finish. Complexity O(e l + v k).
    """

    name = "mct"
    title = "MCT, earliest finish in order of arrival (Maheswaran et al. 1999)"
    label = "MCT"

    def schedule(self, instance: Instance) -> Schedule:
        """Place the tasks in the order of their indices, each where it ends first."""
        rule = make_rule(place=append_rule(instance), factor=FRUGAL)
        return place_tasks(instance, index_order(instance), rule=rule)


class Olb(ListPlanner):
    """Opportunistic load balancing: places every task on the machine that is free first.

    R. F. Freund et al., Scheduling Resources in Multi-User, Heterogeneous, Computing Environments with
    SmartNet, HCW 1998. Deviations: tasks may depend on each other; a machine is free for a task only when the
    data of the task have arrived there. Among machines that are free at the same time the task takes the one
    where it ends first. A moldable task takes nodes that are free at its start. Complexity O(e l + v k).
    """

    name = "olb"
    title = "OLB, the machine that is free first (Freund et al. 1998)"
    label = "OLB"

    def schedule(self, instance: Instance) -> Schedule:
        """Place the tasks in the order of their indices, each where it starts first."""
        rule = make_rule(criterion=START, place=append_rule(instance))
        return place_tasks(instance, index_order(instance), rule=rule)


class Fastest(ListPlanner):
    """Minimum execution time: places every task on its fastest machine, even if that machine is busy.

    T. D. Braun et al., A Comparison of Eleven Static Heuristics for Mapping a Class of Independent Tasks onto
    Heterogeneous Distributed Computing Systems, JPDC 61(6), 2001, section 2 (MET). Deviations: tasks may
    depend on each other; the tasks of one abstract machine go where the sum of their times is least. The
    machine of a moldable task is chosen by its fastest node count; on that machine the task takes the count
    that ends first. Complexity O(v k + e).
    """

    name = "fastest"
    title = "every task on its fastest machine (baseline, MET of Braun et al. 2001)"
    label = "the fastest machine"

    def schedule(self, instance: Instance) -> Schedule:
        """Bind every variable to its fastest machine, then place the tasks in the order of their indices."""
        return place_tasks(instance, index_order(instance), bound=best_machines(instance))
