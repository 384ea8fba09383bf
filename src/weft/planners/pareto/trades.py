"""Trades: what is given for time on a front, and the linear objectives that lead along it.

S2: M. Jaros, J. Jaros, Performance-Cost Optimization of Moldable Scientific Workflows (spec s2 sections 4 and
9) draws makespan against cost and makespan against the share of idle node-time, found under five weights.
Here weights follow from what is known: those under which two neighbours of a front are worth the same lead
to whatever lies below the line between them (Y. P. Aneja, K. P. K. Nair, Management Science 25, 1979).

Cost is the price of all node-seconds taken; where no machine has a price, node-seconds themselves. The idle
share ``1 - c / (P * makespan)`` is no sum, but it is smallest where ``makespan - s * c / P`` is, with ``s``
one over the largest used share (W. Dinkelbach, Management Science 13, 1967); this is ``static-literal`` with
``s = (1 - alpha) / alpha``. Idle nodes count alike, whatever their price.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, Protocol

import numpy as np

from weft.instance.instance import Instance
from weft.planners.aims import aim_of
from weft.planners.decoding import Decoded
from weft.planners.pareto.fronts import Entry
from weft.schedule.costs import cost_of
from weft.schedule.objective import Objective, objective_named
from weft.schedule.schedule import Schedule
from weft.workflow.unfolding.task_graph import Floats

__all__ = ["Against", "CostTrade", "IdleTrade", "Trade", "Unit", "trade_named"]

Against = Literal["cost", "idle"]
Unit = Literal["price", "node-seconds", "share"]
"""What amounts are counted in."""

_LEAST_ALPHA = 1e-4
"""Weight of time where cost comes first, so that of equally cheap plans the shorter one wins."""


class Trade(Protocol):
    """Something that is to be small beside the makespan."""

    against: Against
    unit: Unit
    searched: Instance
    """The instance in which searches look for it."""

    def amount(self, schedule: Schedule) -> float:
        """Give how much of it a schedule takes."""
        ...

    def amounts(self, decoded: Decoded) -> Floats:
        """Give how much of it each of a decoded population takes."""
        ...

    def between(self, fast: Entry, slow: Entry) -> Objective:
        """Give the objective under which two entries are worth the same."""
        ...

    def least(self, amount: float) -> Objective:
        """Give the objective under which schedules that take less than an amount are better."""
        ...


def trade_named(against: Against, instance: Instance, *, max_cost: float | None) -> Trade:
    """Make a trade by its name."""
    return CostTrade(instance) if against == "cost" else IdleTrade(instance, max_cost=max_cost)


class CostTrade:
    """Time against the price of all node-seconds, or against node-seconds where nothing has a price."""

    against: Against = "cost"

    def __init__(self, instance: Instance) -> None:
        price = instance.price_per_node_s
        priced = bool(price.any())
        self.unit: Unit = "price" if priced else "node-seconds"
        # At a price of 1 node-seconds are the cost, also for planners that look for cheap plans.
        self.searched = instance if priced else replace(instance, price_per_node_s=np.ones(len(price)))
        time, cost = (aim_of(self.searched, objective_named("on-demand", alpha)) for alpha in (1.0, 0.0))
        assert time is not None
        assert cost is not None
        self._per_second, self._per_amount = time.per_second, cost.per_price

    def amount(self, schedule: Schedule) -> float:
        """Give price or node-seconds."""
        return cost_of(schedule, self.searched)

    def amounts(self, decoded: Decoded) -> Floats:
        """Give prices or node-seconds."""
        return decoded.cost

    def between(self, fast: Entry, slow: Entry) -> Objective:
        """Weigh by the line through both."""
        time = self._per_second * (slow.makespan_s - fast.makespan_s)
        cost = self._per_amount * (fast.amount - slow.amount)
        return objective_named("on-demand", cost / (time + cost))

    def least(self, amount: float) -> Objective:  # noqa: ARG002
        """Let cost come first."""
        return objective_named("on-demand", _LEAST_ALPHA)


class IdleTrade:
    """Time against the share of node-time in which nodes are idle."""

    against: Against = "idle"
    unit: Unit = "share"

    def __init__(self, instance: Instance, *, max_cost: float | None) -> None:
        price = instance.price_per_node_s
        unlike = bool((price != price[:1]).any())
        # Objectives weigh node-seconds by their price, where there are prices; here they weigh the same.
        free = unlike and max_cost is None
        self.searched = replace(instance, price_per_node_s=np.zeros(len(price))) if free else instance
        self._nodes = float(instance.capacity.sum())

    def amount(self, schedule: Schedule) -> float:
        """Give the idle share."""
        available = self._nodes * schedule.makespan_s
        return 1.0 - _node_s(schedule) / available if available > 0 else 0.0

    def amounts(self, decoded: Decoded) -> Floats:
        """Give the idle shares."""
        available = self._nodes * decoded.makespan_s
        used = np.divide(decoded.node_seconds, available, out=np.ones_like(available), where=available > 0)
        shares: Floats = 1.0 - used
        return shares

    def between(self, fast: Entry, slow: Entry) -> Objective:
        """Weigh by the line through both, in makespan and node-seconds."""
        used = slow.makespan_s * (1.0 - slow.amount) - fast.makespan_s * (1.0 - fast.amount)
        return _literal((slow.makespan_s - fast.makespan_s) / used)

    def least(self, amount: float) -> Objective:
        """Let every schedule with a larger used share be worth more."""
        return _literal(1.0 / (1.0 - amount) if amount < 1.0 else 1.0)


def _literal(slope: float) -> Objective:
    return objective_named("static-literal", 1.0 / (1.0 + slope))


def _node_s(schedule: Schedule) -> float:
    return float(((schedule.finish_s - schedule.start_s) * schedule.nodes).sum())
