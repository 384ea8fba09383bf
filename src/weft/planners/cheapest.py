"""Cheapest: every binding variable where it costs least, in the node counts that cost least there.

Waiting costs nothing, so no plan is cheaper: it is optimal for the objective ``cost``, and shows whether
any plan can keep a maximal cost. Machines and node counts that cost the same are chosen by the earliest
finish, in the order of HEFT, so that the plan is not longer than it must be; without prices that is all
that counts.

Deviations: none, it is ours. Complexity as HEFT, and O(v k) for the costs of v tasks in k modes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.instance.instance import Instance
from weft.planners.list_planner import place
from weft.planners.planner import Budget, Plan, Unsupported, check_makespan_only, check_no_budgets
from weft.planners.problem import price_weight, restrict_to_best_modes
from weft.planners.ranks import order_by_rank, upward_ranks
from weft.schedule.objective import Objective
from weft.search.pool import INLINE_POOL, Pool

__all__ = ["Cheapest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cheapest:
    """The plan to compare costs with."""

    name: ClassVar[str] = "cheapest"
    title: ClassVar[str] = "every task where it costs least (optimal for cost; baseline)"

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Serve cost, and as a baseline the makespan, where no budget has to be kept."""
        if objective.name == "cost":
            return check_no_budgets("the cheapest plan", instance)
        return check_makespan_only("the cheapest plan", instance, objective)

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,  # noqa: ARG002
        budget: Budget,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        pool: Pool = INLINE_POOL,  # noqa: ARG002
    ) -> Plan:
        """Keep the cheapest modes alone, then place as HEFT does."""
        order = order_by_rank(upward_ranks(instance))
        schedule = place(instance, order, problem=restrict_to_best_modes(instance, price_weight))
        return Plan(schedule=schedule, steps=1)
