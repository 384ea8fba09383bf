"""MCT, OLB and the fastest machine (MET): tasks are placed in the order of their index.

MCT (minimum completion time) places each task where it ends first, after all other tasks there. OLB
(opportunistic load balancing) places it on the machine that is free first, however long it takes there. MET
(minimum execution time, registered as ``fastest``) places it where it takes least, whatever waits there.

M. Maheswaran, S. Ali, H. J. Siegel, D. Hensgen, R. F. Freund, Dynamic Mapping of a Class of Independent Tasks
onto Heterogeneous Computing Systems, JPDC 59(2), 1999, section 3; R. F. Freund et al., Scheduling Resources
in Multi-User, Heterogeneous, Computing Environments with SmartNet, HCW 1998 (OLB); T. D. Braun et al., A
Comparison of Eleven Static Heuristics for Mapping a Class of Independent Tasks onto Heterogeneous Distributed
Computing Systems, JPDC 61(6), 2001, section 2 (MET).

Deviations: tasks may depend on each other, and transfer times count. Tasks of one abstract machine follow the
first of them that is placed; with MET they go where they take least together. With MCT a moldable task takes
the smallest node count that ends within 5 % of its earliest finish, with OLB nodes that are free at its
start, with MET the node count that ends first. Among machines that are free at the same time OLB takes the
one where the task ends first. Ties go to the machine of lower index. MCT and OLB use gaps if machines are
busy beforehand, MET always.

Complexity O(e l + v k) for v tasks, e edges, l network locations and k modes per task.
"""

from __future__ import annotations

from weft.instance.instance import Instance
from weft.kernels.placement import START
from weft.planners.list_planner import FRUGAL, ListPlanner, append_rule, index_order, make_rule, place_tasks
from weft.planners.problem import best_machines
from weft.schedule.schedule import Schedule

__all__ = ["Fastest", "Mct", "Olb"]


class Mct(ListPlanner):
    """Every task where it ends first, by index."""

    name = "mct"
    title = "MCT, earliest finish in order of arrival (Maheswaran et al. 1999)"
    label = "MCT"

    def schedule(self, instance: Instance) -> Schedule:
        """Place every task where it ends first."""
        rule = make_rule(place=append_rule(instance), factor=FRUGAL)
        return place_tasks(instance, index_order(instance), rule=rule)


class Olb(ListPlanner):
    """Every task on the machine that is free first, by index."""

    name = "olb"
    title = "OLB, the machine that is free first (Freund et al. 1998)"
    label = "OLB"

    def schedule(self, instance: Instance) -> Schedule:
        """Place every task where it starts first."""
        rule = make_rule(criterion=START, place=append_rule(instance))
        return place_tasks(instance, index_order(instance), rule=rule)


class Fastest(ListPlanner):
    """Every task on its fastest machine; shows the cost of ignoring queues."""

    name = "fastest"
    title = "every task on its fastest machine (baseline, MET of Braun et al. 2001)"
    label = "the fastest machine"

    def schedule(self, instance: Instance) -> Schedule:
        """Bind every variable to its fastest machine, then place by index."""
        return place_tasks(instance, index_order(instance), bound=best_machines(instance))
