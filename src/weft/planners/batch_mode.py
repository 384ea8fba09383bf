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

MaxMin: of all ready tasks, the one whose earliest finish is the latest, there where it ends first.

Long tasks first, so that short ones fill what is left at the end. M. Maheswaran, S. Ali, H. J. Siegel, D.
Hensgen, R. F. Freund, Dynamic Mapping of a Class of Independent Tasks onto Heterogeneous Computing Systems,
JPDC 59(2), 1999, section 3.

Deviations: those of ``minmin``.

Complexity O(v r + s (d l + k)) for v tasks, r of them ready at a time, d predecessors per task, l network
locations, k modes per task and s looks at a task: v r at worst, where all want the same machine. Instances
that would take many minutes are refused.

Sufferage: of all ready tasks, the one that would lose most if it did not get its best machine.

The loss is the difference of its earliest finish on the next best machine and on the best one. M.
Maheswaran, S. Ali, H. J. Siegel, D. Hensgen, R. F. Freund, Dynamic Mapping of a Class of Independent Tasks
onto Heterogeneous Computing Systems, JPDC 59(2), 1999, section 3.

Deviations: those of ``minmin``. The paper gives every machine one task before it computes all losses anew;
here they are always up to date. A task that can run on one machine only loses without limit and comes first.

Complexity O(v r + s (d l + k)) for v tasks, r of them ready at a time, d predecessors per task, l network
locations, k modes per task and s looks at a task: v r at worst, where all want the same machine. Instances
that would take many minutes are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from weft.instance.instance import Instance
from weft.kernels.selection import MOST, SUFFERAGE
from weft.planners.list_planner import check_evaluation_count, select
from weft.planners.planner import Budget, Plan, Unsupported, check_makespan_only
from weft.schedule.objective import Objective
from weft.search.pool import INLINE_POOL, Pool

if TYPE_CHECKING:
    import numpy as np

if TYPE_CHECKING:
    import numpy as np

if TYPE_CHECKING:
    import numpy as np

__all__ = ["MaxMin", "MinMin", "Sufferage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MinMin:
    """Places what can end first."""

    name: ClassVar[str] = "minmin"
    title: ClassVar[str] = "MinMin, the ready task that ends first (Maheswaran et al. 1999)"

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Serve the makespan, where no budget has to be kept."""
        return check_makespan_only("MinMin", instance, objective)

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,  # noqa: ARG002
        budget: Budget,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        pool: Pool = INLINE_POOL,  # noqa: ARG002
    ) -> Plan:
        """Place the task that ends first, one after another."""
        return Plan(schedule=select(instance), steps=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxMin:
    """Places what will take longest."""

    name: ClassVar[str] = "maxmin"
    title: ClassVar[str] = "MaxMin, the ready task that ends last (Maheswaran et al. 1999)"

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Serve the makespan, where no budget has to be kept and not too many tasks are ready together."""
        return check_makespan_only("MaxMin", instance, objective) or check_evaluation_count(
            "MaxMin", instance
        )

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,  # noqa: ARG002
        budget: Budget,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        pool: Pool = INLINE_POOL,  # noqa: ARG002
    ) -> Plan:
        """Place the task whose earliest finish is the latest, one after another."""
        return Plan(schedule=select(instance, sense=MOST), steps=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sufferage:
    """Places what suffers most elsewhere."""

    name: ClassVar[str] = "sufferage"
    title: ClassVar[str] = "Sufferage, the ready task that would lose most (Maheswaran et al. 1999)"

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Serve the makespan, where no budget has to be kept and not too many tasks are ready together."""
        return check_makespan_only("Sufferage", instance, objective) or check_evaluation_count(
            "Sufferage", instance
        )

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,  # noqa: ARG002
        budget: Budget,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        pool: Pool = INLINE_POOL,  # noqa: ARG002
    ) -> Plan:
        """Place the task of the largest loss, one after another."""
        return Plan(schedule=select(instance, sense=SUFFERAGE), steps=1)
