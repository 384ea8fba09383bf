"""CPA: critical path and area.

First every task gets the node count with which the critical path is as long as all node-seconds take on the
whole platform; then tasks are placed in order of descending bottom level. A. Radulescu, A. J. C. van
Gemund, A Low-Cost Approach towards Mixed Task and Data Parallel Scheduling, ICPP 2001, section 3.

Deviations: a task takes its next allowed count that is faster, where the paper adds one node; on several
machines counts are found on the platform as a whole (``allotments``) and each task goes where it ends first
with its count; placement uses gaps. Communication counts with its mean. On one machine whose tasks may take
any count the allotment is the published one.

Complexity: that of the allotment (``weft.kernels.moldable.allotment``), then as HEFT with one count per
task.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.errors import Infeasible
from weft.instance.instance import Instance
from weft.planners.lists.placing import place
from weft.planners.lists.ranks import by_rank
from weft.planners.moldable.allotments import allotted, with_counts
from weft.planners.planner import Budget, Plan, Unsupported, makespan_only
from weft.schedule.objective import Objective
from weft.search.pool import ALONE, Pool

__all__ = ["Cpa"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cpa:
    """Balances the longest path against the room there is."""

    name: ClassVar[str] = "cpa"
    title: ClassVar[str] = "CPA, node counts by critical path and area (Radulescu and van Gemund 2001)"

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Serve the makespan, where no budget has to be kept."""
        return makespan_only("CPA", instance, objective)

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,  # noqa: ARG002
        budget: Budget,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        pool: Pool = ALONE,  # noqa: ARG002
    ) -> Plan:
        """Allot, then place."""
        allotment = allotted(instance)
        order = by_rank(allotment.bottom_s)
        try:
            schedule = place(instance, order, problem=with_counts(instance, allotment.counts))
        except Infeasible:
            # Beside what is busy for ever only a smaller count may fit.
            return Plan(schedule=place(instance, order), steps=2)
        return Plan(schedule=schedule, steps=1)
