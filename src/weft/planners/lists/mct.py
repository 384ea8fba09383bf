"""MCT: minimum completion time.

Tasks in the order in which they arrive, each where it ends first, behind all others there. M. Maheswaran, S.
Ali, H. J. Siegel, D. Hensgen, R. F. Freund, Dynamic Mapping of a Class of Independent Tasks onto
Heterogeneous Computing Systems, JPDC 59(2), 1999, section 3.

Deviations: tasks arrive in topological order, and the time data take counts. Tasks of one abstract machine
follow the first of them that is placed; a moldable task takes the smallest node count that ends within 5 %
of its earliest finish. Ties go to the machine of lower index. Where something else holds machines for a
time, gaps are used.

Complexity O(e l + v k) for v tasks, e edges, l network locations and k modes per task.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.instance.instance import Instance
from weft.planners.lists.placing import place, rule_of
from weft.planners.lists.selecting import FRUGAL, appending
from weft.planners.planner import Budget, Plan, Unsupported, makespan_only
from weft.schedule.objective import Objective
from weft.search.pool import ALONE, Pool

__all__ = ["Mct"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mct:
    """Takes tasks as they come."""

    name: ClassVar[str] = "mct"
    title: ClassVar[str] = "MCT, earliest finish in order of arrival (Maheswaran et al. 1999)"

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Serve the makespan, where no budget has to be kept."""
        return makespan_only("MCT", instance, objective)

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,  # noqa: ARG002
        budget: Budget,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        pool: Pool = ALONE,  # noqa: ARG002
    ) -> Plan:
        """Place every task where it ends first."""
        order = np.arange(len(instance), dtype=np.uint32)
        rule = rule_of(place=appending(instance), factor=FRUGAL)
        return Plan(schedule=place(instance, order, rule=rule), steps=1)
