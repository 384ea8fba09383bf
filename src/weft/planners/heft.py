"""HEFT: heterogeneous earliest finish time.

Tasks in order of descending upward rank; each goes where it finishes first, into a gap between tasks if
one is long enough. H. Topcuoglu, S. Hariri, M.-Y. Wu, Performance-Effective and Low-Complexity Task
Scheduling for Heterogeneous Computing, IEEE TPDS 13(3), 2002, section 4.1.

Deviations: communication is averaged over pairs of *different* machines; tasks of one abstract machine
follow the first of them that is placed; an explicit transfer is placed together with the first task at
its destination; a moldable task takes the smallest node count that ends within 5 % of its earliest
finish; machines that cannot win are skipped (the schedule is the same). With one node count, no resources
and no abstract machines it is the published algorithm.

Complexity O(v log v + e l + v k log g) for v tasks, e edges, l network locations, k modes that are looked at
per task and g gaps per machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from weft.errors import InvalidInput, Problem
from weft.instance.instance import Instance
from weft.planners.list_planner import make_rule, place
from weft.planners.planner import Budget, Plan, Unsupported, check_makespan_only
from weft.planners.ranks import mean_communication_s, order_by_rank, upward_ranks
from weft.schedule.objective import Objective
from weft.search.pool import INLINE_POOL, Pool

__all__ = ["Heft"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heft:
    """The list planner every other one is measured by."""

    name: ClassVar[str] = "heft"
    title: ClassVar[str] = "HEFT, earliest finish with insertion (Topcuoglu et al. 2002)"

    averaging: Literal["pairs", "self-loops"] = "pairs"
    """Mean communication over pairs of different machines, or over each machine with itself too (as SAGA)."""
    tolerance: float = 0.05
    """A moldable task gives up nodes as long as it ends within this share of its earliest finish."""

    def __post_init__(self) -> None:
        if not self.tolerance >= 0:
            raise InvalidInput(Problem(what=f"tolerance {self.tolerance}", rule="must be at least 0"))

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Serve the makespan, where no budget has to be kept."""
        return check_makespan_only("HEFT", instance, objective)

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,  # noqa: ARG002
        budget: Budget,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        pool: Pool = INLINE_POOL,  # noqa: ARG002
    ) -> Plan:
        """Steps 1 to 3 of the paper: compute ranks, sort, place."""
        communication = mean_communication_s(instance)
        if self.averaging == "self-loops":
            machines = len(instance.machines)
            communication = communication * ((machines - 1) / (machines + 1))
        order = order_by_rank(upward_ranks(instance, communication_s=communication))
        schedule = place(instance, order, rule=make_rule(factor=1.0 + self.tolerance))
        return Plan(schedule=schedule, steps=1)
