"""HLFET: highest level first with estimated times.

At every moment a free machine takes, of the tasks whose predecessors have ended, the one of the highest
level: the longest way to the end, its own time included. Ties go to the lower index. T. L. Adam, K. M.
Chandy, J. R. Dickson, A Comparison of List Schedules for Parallel Processing Systems, CACM 17(12), 1974.

Deviations: none on identical machines without communication, which is all the paper knows. Otherwise levels
are sums of mean seconds without communication; of the machines that are free at a moment a task takes the
one where it ends first, its data included, and holds it while they are on their way. Tasks of one abstract
machine follow the first of them that is placed; a moldable task takes nodes that are free then. Where
something else holds machines for a time, gaps are used.

Complexity O(v log v + r (d l + k)) for v tasks, d predecessors per task, l network locations, k modes per
task and r looks at a task: at least v, a few per task as a rule, v times the ready tasks at worst.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from weft.instance.instance import Instance
from weft.kernels.selection import AVAILABILITY
from weft.planners.list_planner import select
from weft.planners.planner import Budget, Plan, Unsupported, check_makespan_only
from weft.planners.ranks import rank_by_priority, static_levels
from weft.schedule.objective import Objective
from weft.search.pool import INLINE_POOL, Pool

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Hlfet"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hlfet:
    """Gives free machines what has the longest way to go."""

    name: ClassVar[str] = "hlfet"
    title: ClassVar[str] = "HLFET, highest level first (Adam et al. 1974)"

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Serve the makespan, where no budget has to be kept."""
        return check_makespan_only("HLFET", instance, objective)

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,  # noqa: ARG002
        budget: Budget,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        pool: Pool = INLINE_POOL,  # noqa: ARG002
    ) -> Plan:
        """Compute levels; at every moment start the ready task of the highest."""
        rank = rank_by_priority(static_levels(instance))
        return Plan(schedule=select(instance, criterion=AVAILABILITY, rank=rank), steps=1)
