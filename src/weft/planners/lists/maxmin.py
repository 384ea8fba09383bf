"""MaxMin: of all ready tasks, the one whose earliest finish is the latest, there where it ends first.

Long tasks first, so that short ones fill what is left at the end. M. Maheswaran, S. Ali, H. J. Siegel, D.
Hensgen, R. F. Freund, Dynamic Mapping of a Class of Independent Tasks onto Heterogeneous Computing Systems,
JPDC 59(2), 1999, section 3.

Deviations: those of ``minmin``.

Complexity O(v r + s (d l + k)) for v tasks, r of them ready at a time, d predecessors per task, l network
locations, k modes per task and s looks at a task: v r at worst, where all want the same machine. Instances
that would take many minutes are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from weft.instance.instance import Instance
from weft.kernels.lists.selection import MOST
from weft.planners.lists.selecting import looks_at_all, select
from weft.planners.planner import Budget, Plan, Unsupported, makespan_only
from weft.schedule.objective import Objective
from weft.search.pool import ALONE, Pool

if TYPE_CHECKING:
    import numpy as np

__all__ = ["MaxMin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxMin:
    """Places what will take longest."""

    name: ClassVar[str] = "maxmin"
    title: ClassVar[str] = "MaxMin, the ready task that ends last (Maheswaran et al. 1999)"

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Serve the makespan, where no budget has to be kept and not too many tasks are ready together."""
        return makespan_only("MaxMin", instance, objective) or looks_at_all("MaxMin", instance)

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,  # noqa: ARG002
        budget: Budget,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        pool: Pool = ALONE,  # noqa: ARG002
    ) -> Plan:
        """Place the task whose earliest finish is the latest, one after another."""
        return Plan(schedule=select(instance, sense=MOST), steps=1)
