"""OLB: opportunistic load balancing.

Tasks in the order in which they arrive, each on the machine that is free for it first, however long it takes
there: it keeps machines busy and nothing else. R. F. Freund et al., Scheduling Resources in Multi-User,
Heterogeneous, Computing Environments with SmartNet, HCW 1998; M. Maheswaran et al., JPDC 59(2), 1999.

Deviations: tasks arrive in topological order; a machine is free for a task when its data are there, too. Of
machines that are free at the same moment it takes the one where it ends first, then the one of lower index.
Tasks of one abstract machine follow the first of them that is placed; a moldable task takes nodes that are
free then. Where something else holds machines for a time, gaps are used.

Complexity O(e l + v k) for v tasks, e edges, l network locations and k modes per task.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.instance.instance import Instance
from weft.kernels.choices import START
from weft.planners.lists.placing import place, rule_of
from weft.planners.lists.selecting import appending
from weft.planners.planner import Budget, Plan, Unsupported, makespan_only
from weft.schedule.objective import Objective
from weft.search.pool import ALONE, Pool

__all__ = ["Olb"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Olb:
    """Keeps machines busy."""

    name: ClassVar[str] = "olb"
    title: ClassVar[str] = "OLB, the machine that is free first (Freund et al. 1998)"

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Serve the makespan, where no budget has to be kept."""
        return makespan_only("OLB", instance, objective)

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,  # noqa: ARG002
        budget: Budget,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        pool: Pool = ALONE,  # noqa: ARG002
    ) -> Plan:
        """Place every task where it starts first."""
        order = np.arange(len(instance), dtype=np.uint32)
        rule = rule_of(criterion=START, place=appending(instance))
        return Plan(schedule=place(instance, order, rule=rule), steps=1)
