"""Fastest machine: every task where it takes least, whoever waits there already.

Known as minimum execution time: T. D. Braun et al., A Comparison of Eleven Static Heuristics for Mapping a
Class of Independent Tasks onto Heterogeneous Distributed Computing Systems, JPDC 61(6), 2001, section 2
(MET).

Deviations: tasks may depend on each other and are placed by index; tasks of one abstract machine go where
they take least together; a moldable task counts with its fastest node count, and takes the one that ends
first. Ties go to the machine of lower index. Complexity O(v k + e) for v tasks of k modes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.instance.instance import Instance
from weft.planners.least import least_machines, seconds_weight
from weft.planners.lists.placing import place
from weft.planners.planner import Budget, Plan, Unsupported, makespan_only
from weft.schedule.objective import Objective
from weft.search.pool import ALONE, Pool

__all__ = ["Fastest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fastest:
    """Shows what is lost when nobody looks at queues."""

    name: ClassVar[str] = "fastest"
    title: ClassVar[str] = "every task on its fastest machine (baseline, MET of Braun et al. 2001)"

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Serve the makespan, where no budget has to be kept."""
        return makespan_only("the fastest machine", instance, objective)

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,  # noqa: ARG002
        budget: Budget,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        pool: Pool = ALONE,  # noqa: ARG002
    ) -> Plan:
        """Bind every variable, then place by index."""
        order = np.arange(len(instance), dtype=np.uint32)
        bound = least_machines(instance, seconds_weight)
        return Plan(schedule=place(instance, order, bound=bound), steps=1)
