"""MinMin, MaxMin and Sufferage: the batch-mode heuristics of Maheswaran et al."""

from __future__ import annotations

from weft.instance.instance import Instance
from weft.kernels.selection import MOST, SUFFERAGE
from weft.planners.list_planner import ListPlanner, check_evaluation_count, select_tasks
from weft.planners.planner import Unsupported
from weft.schedule.schedule import Schedule


class MinMin(ListPlanner):
    """Places the ready task with the earliest possible finish first.

    All ready tasks compete; the winner is placed where it ends first. Machines fill evenly at the beginning,
    and a long task may be left for the end. M. Maheswaran, S. Ali, H. J. Siegel, D. Hensgen, R. F. Freund,
    Dynamic Mapping of a Class of Independent Tasks onto Heterogeneous Computing Systems, JPDC 59(2), 1999,
    section 3; used on the ready tasks of a workflow by J. Blythe et al., Task Scheduling Strategies for
    Workflow-based Applications in Grids, CCGrid 2005.

    Deviations: the paper assumes independent tasks; here the tasks whose predecessors are placed compete, and
    transfer times count. A moldable task is selected by its earliest finish and takes the smallest node count
    that ends within 5 % of it. Complexity O(v log v + s (d l + k)).
    """

    name = "minmin"
    title = "MinMin, the ready task that ends first (Maheswaran et al. 1999)"
    label = "MinMin"

    def schedule(self, instance: Instance) -> Schedule:
        """Place tasks one by one, each time the ready task that ends first."""
        return select_tasks(instance)


class MaxMin(ListPlanner):
    """Places first the ready task whose earliest possible finish is the latest; short tasks come last.

    Reference and deviations are those of MinMin. Complexity O(v r + s (d l + k)) for r ready tasks at a time;
    s is v r if all tasks prefer the same machine. Instances that would take many minutes are refused.
    """

    name = "maxmin"
    title = "MaxMin, the ready task that ends last (Maheswaran et al. 1999)"
    label = "MaxMin"

    def check(self, instance: Instance) -> Unsupported | None:
        """Refuse instances with too many tasks that are ready together."""
        return super().check(instance) or check_evaluation_count(self.label, instance)

    def schedule(self, instance: Instance) -> Schedule:
        """Place tasks one by one, each time the ready task whose earliest possible finish is the latest."""
        return select_tasks(instance, sense=MOST)


class Sufferage(ListPlanner):
    """Places first the ready task that would end much later on its second-best machine than on its best.

    The loss of a task is its earliest finish on the second-best machine minus that on the best. The reference
    is that of MinMin, the complexity that of MaxMin. Deviations: those of MinMin; in addition, the paper
    assigns one task to every machine before it recomputes the losses, whereas here the losses are recomputed
    after every task. A task that can run on only one machine comes first.
    """

    name = "sufferage"
    title = "Sufferage, the ready task that would lose most (Maheswaran et al. 1999)"
    label = "Sufferage"

    def check(self, instance: Instance) -> Unsupported | None:
        """Refuse instances with too many tasks that are ready together."""
        return super().check(instance) or check_evaluation_count(self.label, instance)

    def schedule(self, instance: Instance) -> Schedule:
        """Place tasks one by one, each time the ready task with the largest loss."""
        return select_tasks(instance, sense=SUFFERAGE)
