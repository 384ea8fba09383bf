"""DLS: dynamic level scheduling, generalised for unlike machines.

Of all ready tasks and machines the pair of the highest dynamic level: the static level of the task, less the
moment it could start there, plus what the machine is faster than the median. G. C. Sih, E. A. Lee, A
Compile-Time Scheduling Heuristic for Interconnection-Constrained Heterogeneous Processor Architectures, IEEE
TPDS 4(2), 1993, sections on DL1.

Deviations: links are not contended for, and neither the descendant consideration (DL2) nor the cost of
leaving a processor to others is computed. The static level and ``E*`` are medians over the machines that can
run a task. As start and seconds add up to the finish, the level is ``SL + E* - finish``: the machine is
always the one where the task ends first. Tasks of one abstract machine follow the first of them that is
placed; a moldable task is selected by its earliest finish and takes the smallest node count that ends within
5 % of it. Ties go to the lower index. Where something else holds machines for a time, gaps are used.

Complexity O(v k + v log v + r (d l + k)) for v tasks, d predecessors per task, l network locations, k modes
per task and r looks at a task: at least v, a few per task as a rule, v times the ready tasks at worst.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from weft.instance.instance import Instance
from weft.planners.list_planner import select
from weft.planners.planner import Budget, Plan, Unsupported, check_makespan_only
from weft.planners.ranks import median_seconds, static_levels
from weft.schedule.objective import Objective
from weft.search.pool import INLINE_POOL, Pool

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Dls"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dls:
    """Weighs how long the way to the end is against how late a task could start."""

    name: ClassVar[str] = "dls"
    title: ClassVar[str] = "DLS, highest dynamic level on unlike machines (Sih and Lee 1993)"

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Serve the makespan, where no budget has to be kept."""
        return check_makespan_only("DLS", instance, objective)

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,  # noqa: ARG002
        budget: Budget,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        pool: Pool = INLINE_POOL,  # noqa: ARG002
    ) -> Plan:
        """Place the pair of the highest dynamic level, one after another."""
        medians = median_seconds(instance)
        offset = static_levels(instance, medians) + medians
        return Plan(schedule=select(instance, offset=offset), steps=1)
