"""HEFT: heterogeneous earliest finish time.

Tasks in order of descending upward rank; each goes where it finishes first, into a gap between tasks if
one is long enough. H. Topcuoglu, S. Hariri, M.-Y. Wu, Performance-Effective and Low-Complexity Task
Scheduling for Heterogeneous Computing, IEEE TPDS 13(3), 2002, section 4.1.

Deviations: communication is averaged over pairs of *different* machines; tasks of one abstract machine
follow the first of them that is placed; an explicit transfer is placed together with the first task at
its destination; a moldable task takes the smallest node count that ends within 5 % of its earliest
finish; machines that cannot win are skipped (the schedule is the same). With one node count, no resources
and no abstract machines it is the published algorithm.

Complexity O(v log v + e l + v k g) for v tasks, e edges, l network locations, k modes and g gaps looked
at per mode.
"""

from __future__ import annotations

import numpy as np

from weft.instance.instance import Instance
from weft.planners.lists.placement import Placement
from weft.planners.lists.ranks import upward_ranks
from weft.planners.planner import Budget, Plan, Unsupported
from weft.schedule.objective import Objective

__all__ = ["Heft"]

_TOLERANCE = 0.05
"""A moldable task gives up nodes as long as it ends within this share of its earliest finish."""


class Heft:
    """The list planner every other one is measured by."""

    name = "heft"
    title = "HEFT, earliest finish with insertion (Topcuoglu et al. 2002)"

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:  # noqa: ARG002
        """Serve every instance, but only the makespan."""
        if objective.name != "makespan":
            return Unsupported(reason=f"HEFT minimises the makespan, not the {objective.name}")
        return None

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,  # noqa: ARG002
        budget: Budget,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
    ) -> Plan:
        """Steps 1 to 3 of the paper: compute ranks, sort, place."""
        ranks = upward_ranks(instance)
        # Ties go to the lower index, which is never after a successor: tasks stand in topological order.
        order = np.lexsort((np.arange(len(ranks)), -ranks))
        placement = Placement(instance, tolerance=_TOLERANCE)
        for task in order.tolist():
            placement.place(task)
        return Plan(schedule=placement.schedule(), steps=1)
