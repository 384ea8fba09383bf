"""Aims: an objective as searches read it, one number that is to be small.

Makespan, cost and most fitness functions of S2 are sums of makespan, node-seconds and price, so that a kernel
can weigh them without making a schedule. Limits come first: of two plans the one that misses deadline and
maximal cost by less is better, whatever the objective says.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from weft.instance.instance import Instance
from weft.schedule.costs import cost_of
from weft.schedule.objective import Objective
from weft.schedule.schedule import Schedule
from weft.schedule.sequential import sequential

__all__ = ["Aim", "Worth", "aim_of", "worth_of"]

_ROUNDING = 1e-9
"""Share by which a limit may be exceeded by rounding (as ``schedule.limits`` counts)."""


class Aim(NamedTuple):
    """A linear objective: ``base + makespan_s * per_second + node_s * per_node_s + cost * per_price``."""

    base: float
    per_second: float
    per_node_s: float
    per_price: float
    deadline_s: float
    max_cost: float
    """Infinite: no limit."""

    def value(self, makespan_s: float, node_s: float, cost: float) -> float:
        """Give the objective's number."""
        return self.base + makespan_s * self.per_second + node_s * self.per_node_s + cost * self.per_price

    @property
    def is_makespan(self) -> bool:
        """Say whether only the makespan counts, limits included."""
        return self.per_node_s == 0 and self.per_price == 0 and self.max_cost == math.inf


class Worth(NamedTuple):
    """What a schedule is worth; the smaller of two is better."""

    missed: float
    """By which shares the limits are missed, together; 0: they are kept."""
    value: float
    """The objective's number; its negative where it is to be large."""


def aim_of(instance: Instance, objective: Objective) -> Aim | None:
    """Give a linear objective; None: it takes a whole schedule to tell its number."""
    scaled = _weights(instance, objective)
    if scaled is None:
        return None
    return Aim(
        *scaled,
        deadline_s=math.inf if objective.deadline_s is None else objective.deadline_s,
        max_cost=math.inf if objective.max_cost is None else objective.max_cost,
    )


def _weights(instance: Instance, objective: Objective) -> tuple[float, float, float, float] | None:
    """Give base and weights per second, node-second and price (the formulas are those of ``fitness``)."""
    if objective.is_makespan:
        return 0.0, 1.0, 0.0, 0.0
    if objective.name == "cost":
        return 0.0, 0.0, 0.0, 1.0
    if objective.name not in ("on-demand", "static", "static-literal"):
        return None
    alpha, whole = objective.alpha, sequential(instance)
    nodes = float(instance.capacity.sum())
    time, least, most = (amount if amount > 0 else 1.0 for amount in
                         (whole.time_s, whole.node_seconds, whole.time_s * nodes))  # fmt: skip
    price = instance.price_per_node_s
    mean = float((price * instance.capacity).sum()) / max(1.0, nodes)
    if objective.name == "on-demand":
        base, per_second, taken = 0.0, alpha / time, (1.0 - alpha) / least
    elif objective.name == "static":
        base, per_second, taken = 0.0, alpha / time + (1.0 - alpha) * nodes / most, -(1.0 - alpha) / most
    else:
        base, per_second, taken = 1.0 - alpha, alpha / time, -(1.0 - alpha) / most
    return (base, per_second, 0.0, taken / mean) if mean > 0 else (base, per_second, taken, 0.0)


def worth_of(instance: Instance, objective: Objective, schedule: Schedule) -> Worth:
    """Say what a schedule is worth."""
    missed = _excess(schedule.makespan_s, objective.deadline_s)
    if objective.max_cost is not None:
        missed += _excess(cost_of(schedule, instance), objective.max_cost)
    value = objective.value(schedule, instance)
    return Worth(missed=missed, value=-value if objective.sense == "maximise" else value)


def _excess(amount: float, limit: float | None) -> float:
    if limit is None or amount <= limit * (1.0 + _ROUNDING):
        return 0.0
    return (amount - limit) / limit if limit > 0 else amount
