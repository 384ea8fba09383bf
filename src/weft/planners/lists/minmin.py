"""MinMin: of all ready tasks, the one that can end first, there where it does.

Short tasks first, so that machines fill evenly at the beginning and a long one may be left for the end. M.
Maheswaran, S. Ali, H. J. Siegel, D. Hensgen, R. F. Freund, Dynamic Mapping of a Class of Independent Tasks
onto Heterogeneous Computing Systems, JPDC 59(2), 1999, section 3; used on the ready tasks of a workflow as
by J. Blythe et al., Task Scheduling Strategies for Workflow-based Applications in Grids, CCGrid 2005.

Deviations: written for independent tasks; here the tasks compete whose predecessors have a place, and the
time data take counts. Tasks of one abstract machine follow the first of them that is placed; a moldable task
is selected by its earliest finish and takes the smallest node count that ends within 5 % of it. Ties go to
the lower index. Where something else holds machines for a time, gaps are used.

Complexity O(v log v + r (d l + k)) for v tasks, d predecessors per task, l network locations, k modes per
task and r looks at a task: at least v, a few per task as a rule, v times the ready tasks at worst.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from weft.instance.instance import Instance
from weft.planners.lists.selecting import select
from weft.planners.planner import Budget, Plan, Unsupported, makespan_only
from weft.schedule.objective import Objective
from weft.search.pool import ALONE, Pool

if TYPE_CHECKING:
    import numpy as np

__all__ = ["MinMin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MinMin:
    """Places what can end first."""

    name: ClassVar[str] = "minmin"
    title: ClassVar[str] = "MinMin, the ready task that ends first (Maheswaran et al. 1999)"

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Serve the makespan, where no budget has to be kept."""
        return makespan_only("MinMin", instance, objective)

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,  # noqa: ARG002
        budget: Budget,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        pool: Pool = ALONE,  # noqa: ARG002
    ) -> Plan:
        """Place the task that ends first, one after another."""
        return Plan(schedule=select(instance), steps=1)
