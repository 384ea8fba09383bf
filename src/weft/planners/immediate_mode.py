"""MCT: minimum completion time.

Tasks in the order in which they arrive, each where it ends first, behind all others there. M. Maheswaran, S.
Ali, H. J. Siegel, D. Hensgen, R. F. Freund, Dynamic Mapping of a Class of Independent Tasks onto
Heterogeneous Computing Systems, JPDC 59(2), 1999, section 3.

Deviations: tasks arrive in topological order, and the time data take counts. Tasks of one abstract machine
follow the first of them that is placed; a moldable task takes the smallest node count that ends within 5 %
of its earliest finish. Ties go to the machine of lower index. Where something else holds machines for a
time, gaps are used.

Complexity O(e l + v k) for v tasks, e edges, l network locations and k modes per task.

OLB: opportunistic load balancing.

Tasks in the order in which they arrive, each on the machine that is free for it first, however long it takes
there: it keeps machines busy and nothing else. R. F. Freund et al., Scheduling Resources in Multi-User,
Heterogeneous, Computing Environments with SmartNet, HCW 1998; M. Maheswaran et al., JPDC 59(2), 1999.

Deviations: tasks arrive in topological order; a machine is free for a task when its data are there, too. Of
machines that are free at the same moment it takes the one where it ends first, then the one of lower index.
Tasks of one abstract machine follow the first of them that is placed; a moldable task takes nodes that are
free then. Where something else holds machines for a time, gaps are used.

Complexity O(e l + v k) for v tasks, e edges, l network locations and k modes per task.

Fastest machine: every task where it takes least, whoever waits there already.

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
from weft.kernels.placement import START
from weft.planners.list_planner import FRUGAL, append_rule, make_rule, place
from weft.planners.planner import Budget, Plan, Unsupported, check_makespan_only
from weft.planners.problem import best_machines, seconds_weight
from weft.schedule.objective import Objective
from weft.search.pool import INLINE_POOL, Pool

__all__ = ["Fastest", "Mct", "Olb"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mct:
    """Takes tasks as they come."""

    name: ClassVar[str] = "mct"
    title: ClassVar[str] = "MCT, earliest finish in order of arrival (Maheswaran et al. 1999)"

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Serve the makespan, where no budget has to be kept."""
        return check_makespan_only("MCT", instance, objective)

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,  # noqa: ARG002
        budget: Budget,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        pool: Pool = INLINE_POOL,  # noqa: ARG002
    ) -> Plan:
        """Place every task where it ends first."""
        order = np.arange(len(instance), dtype=np.uint32)
        rule = make_rule(place=append_rule(instance), factor=FRUGAL)
        return Plan(schedule=place(instance, order, rule=rule), steps=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Olb:
    """Keeps machines busy."""

    name: ClassVar[str] = "olb"
    title: ClassVar[str] = "OLB, the machine that is free first (Freund et al. 1998)"

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Serve the makespan, where no budget has to be kept."""
        return check_makespan_only("OLB", instance, objective)

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,  # noqa: ARG002
        budget: Budget,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        pool: Pool = INLINE_POOL,  # noqa: ARG002
    ) -> Plan:
        """Place every task where it starts first."""
        order = np.arange(len(instance), dtype=np.uint32)
        rule = make_rule(criterion=START, place=append_rule(instance))
        return Plan(schedule=place(instance, order, rule=rule), steps=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fastest:
    """Shows what is lost when nobody looks at queues."""

    name: ClassVar[str] = "fastest"
    title: ClassVar[str] = "every task on its fastest machine (baseline, MET of Braun et al. 2001)"

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Serve the makespan, where no budget has to be kept."""
        return check_makespan_only("the fastest machine", instance, objective)

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,  # noqa: ARG002
        budget: Budget,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        pool: Pool = INLINE_POOL,  # noqa: ARG002
    ) -> Plan:
        """Bind every variable, then place by index."""
        order = np.arange(len(instance), dtype=np.uint32)
        bound = best_machines(instance, seconds_weight)
        return Plan(schedule=place(instance, order, bound=bound), steps=1)
