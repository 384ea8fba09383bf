"""ETF: earliest task first.

Of all tasks whose predecessors have a place, the one that can start first, there where it can; ties go to
the higher static level. J.-J. Hwang, Y.-C. Chow, F. D. Anger, C.-Y. Lee, Scheduling Precedence Graphs in
Systems with Interprocessor Communication Times, SIAM Journal on Computing 18(2), 1989, the section on ETF.

Deviations: written for identical processors; on unlike machines levels are sums of mean seconds, and of
machines on which a task starts at the same moment it takes the one where it ends first. The paper leaves the
order of ties open; the static level without communication is the usual one, then the lower index. Tasks of
one abstract machine follow the first of them that is placed; a moldable task takes nodes that are free then.
Where something else holds machines for a time, gaps are used.

Complexity O(v log v + r (d l + k)) for v tasks, d predecessors per task, l network locations, k modes per
task and r looks at a task: at least v, a few per task as a rule, v times the ready tasks at worst.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from weft.instance.instance import Instance
from weft.kernels.placement import START
from weft.planners.list_planner import select
from weft.planners.planner import Budget, Plan, Unsupported, check_makespan_only
from weft.planners.ranks import rank_by_priority, static_levels
from weft.schedule.objective import Objective
from weft.search.pool import INLINE_POOL, Pool

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Etf"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Etf:
    """Starts what can start first."""

    name: ClassVar[str] = "etf"
    title: ClassVar[str] = "ETF, earliest start of all ready tasks (Hwang et al. 1989)"

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Serve the makespan, where no budget has to be kept."""
        return check_makespan_only("ETF", instance, objective)

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,  # noqa: ARG002
        budget: Budget,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        pool: Pool = INLINE_POOL,  # noqa: ARG002
    ) -> Plan:
        """Place the task that starts first, one after another; ties by level."""
        rank = rank_by_priority(static_levels(instance))
        return Plan(schedule=select(instance, criterion=START, rank=rank), steps=1)
