"""Aims: an objective as searches read it, one number that is to be small.

Makespan, cost and most fitness functions of S2 are sums of makespan, node-seconds and price, so that a kernel
can weigh them without making a schedule. Limits come first: of two plans the one that misses deadline and
maximal cost by less is better, whatever the objective says.

The lower bounds of an instance, computed once, however many ask: a portfolio and whoever called it.

Judging: what the individuals of a population are worth, as searches maximise it.

The value of a plan is minus the objective's number (plus, where that is to be large). A plan that misses
deadline or maximal cost is worth less than any that keeps them, the less the more it misses. Objectives that
need a whole schedule are asked schedule by schedule, which takes about a thousand times longer.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from weft.instance.instance import Instance
from weft.planners.genome import DecodedPopulation
from weft.schedule.bounds import Bounds, lower_bounds
from weft.schedule.costs import schedule_cost, sequential_execution
from weft.schedule.objective import Objective
from weft.schedule.schedule import Schedule
from weft.workflow.task_graph import COMPUTE, Floats, Indices

__all__ = [
    "LinearObjective",
    "Loss",
    "PopulationEvaluator",
    "compute_bounds",
    "evaluate_loss",
    "linearise_objective",
]


_ROUNDING = 1e-9
"""Share by which a limit may be exceeded by rounding (as ``schedule.limits`` counts)."""


class LinearObjective(NamedTuple):
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


class Loss(NamedTuple):
    """What a schedule is worth; the smaller of two is better."""

    missed: float
    """By which shares the limits are missed, together; 0: they are kept."""
    value: float
    """The objective's number; its negative where it is to be large."""


def linearise_objective(instance: Instance, objective: Objective) -> LinearObjective | None:
    """Give a linear objective; None: it takes a whole schedule to tell its number."""
    scaled = _weights(instance, objective)
    if scaled is None:
        return None
    return LinearObjective(
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
    alpha, whole = objective.alpha, sequential_execution(instance)
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


def evaluate_loss(instance: Instance, objective: Objective, schedule: Schedule) -> Loss:
    """Say what a schedule is worth."""
    missed = _excess(schedule.makespan_s, objective.deadline_s)
    if objective.max_cost is not None:
        missed += _excess(schedule_cost(schedule, instance), objective.max_cost)
    value = objective.value(schedule, instance)
    return Loss(missed=missed, value=-value if objective.sense == "maximise" else value)


def _excess(amount: float, limit: float | None) -> float:
    if limit is None or amount <= limit * (1.0 + _ROUNDING):
        return 0.0
    return (amount - limit) / limit if limit > 0 else amount


_bounds_cache: WeakKeyDictionary[Instance, Bounds] = WeakKeyDictionary()


def compute_bounds(instance: Instance) -> Bounds:
    """Give the bounds of an instance."""
    if instance not in _bounds_cache:
        _bounds_cache[instance] = lower_bounds(instance)
    return _bounds_cache[instance]


_LIMIT_ROUNDING = 1e-9
"""Share by which a limit may be exceeded by rounding (as ``aims`` counts)."""
_MISSED = 1e3
"""How many times the sequential plan's number a missed limit counts, at least."""
_BATCH_S = 0.05
"""Seconds between two looks at the budget, about."""
_TASK_S, _MEASURED_TASK_S = 5e-6, 2e-5
"""What a task of one individual takes, about: decoded in plain Python, and measured in a whole schedule."""


class PopulationEvaluator:
    """Gives the values of decoded populations under an objective."""

    def __init__(self, instance: Instance, objective: Objective) -> None:
        self._instance = instance
        self._objective = objective
        self._aim = linearise_objective(instance, objective)
        self._is_makespan = self._aim is not None and self._aim.is_makespan and objective.deadline_s is None
        self._penalty = _MISSED * (1.0 + _objective_scale(instance, objective))
        self.of_schedules = self._aim is None and objective.name not in ("local", "static-idle-fraction")
        """Whether whole schedules are needed; else columns of decoded populations are enough."""
        self.timed = objective.name == "local" or self.of_schedules
        """Whether start and finish of all tasks are needed."""
        self.priced = self._aim is None or not self._aim.is_makespan
        """Whether node-seconds and cost are needed."""

    @property
    def batch(self) -> int:
        """Say how many individuals may be judged between two looks at the budget."""
        task_s = _MEASURED_TASK_S if self.of_schedules else _TASK_S
        return max(1, int(_BATCH_S / (task_s * max(1, len(self._instance)))))

    def values(self, decoded: DecodedPopulation, machine: Indices, nodes: Indices) -> Floats:
        """Give the value of every individual; minus infinity where some task never starts.

        ``machine`` and ``nodes`` (individuals x tasks) are read only for whole schedules.
        """
        if self._is_makespan:
            return -decoded.makespan_s
        possible = np.isfinite(decoded.makespan_s)
        if self.of_schedules:
            return self._one_by_one(decoded, machine, nodes, possible)
        with np.errstate(invalid="ignore"):
            losses = self._numbers(decoded) + self._penalty_of(decoded)
        return np.where(possible, -losses, -np.inf)

    def _numbers(self, decoded: DecodedPopulation) -> Floats:
        """Give the objective's numbers."""
        aim, instance, objective = self._aim, self._instance, self._objective
        if aim is not None:
            time, taken = decoded.makespan_s * aim.per_second, decoded.node_seconds * aim.per_node_s
            return aim.base + time + taken + decoded.cost * aim.per_price
        if objective.name == "local":
            assert decoded.finish_s is not None
            assert decoded.start_s is not None
            compute = instance.graph.kind == COMPUTE
            spent: Floats = (decoded.finish_s - decoded.start_s)[:, compute].sum(axis=1)
            return spent
        return self._idle_fraction(decoded)

    def _idle_fraction(self, decoded: DecodedPopulation) -> Floats:
        """Give ``fitness.static_idle_fraction`` of a population."""
        alpha, instance = self._objective.alpha, self._instance
        nodes = float(instance.capacity.sum())
        mean = float((instance.price_per_node_s * instance.capacity).sum()) / max(1.0, nodes)
        taken = decoded.cost / mean if mean > 0 else decoded.node_seconds
        available = nodes * decoded.makespan_s
        idle = 1.0 - np.divide(taken, available, out=np.ones_like(taken), where=available > 0)
        whole_s = sequential_execution(instance).time_s
        return alpha * decoded.makespan_s / (whole_s if whole_s > 0 else 1.0) + (1.0 - alpha) * idle

    def _penalty_of(self, decoded: DecodedPopulation) -> Floats:
        """Give what missing limits counts."""
        limits = (
            (decoded.makespan_s, self._objective.deadline_s),
            (decoded.cost, self._objective.max_cost),
        )
        missed = np.zeros(len(decoded.makespan_s))
        for amounts, limit in limits:
            if limit is not None:
                excess = (amounts - limit) / (limit if limit > 0 else 1.0)
                missed += np.where(amounts > limit * (1.0 + _LIMIT_ROUNDING), excess, 0.0)
        return np.where(missed > 0, self._penalty * (1.0 + missed), 0.0)

    def _one_by_one(
        self, decoded: DecodedPopulation, machine: Indices, nodes: Indices, possible: NDArray[np.bool_]
    ) -> Floats:
        assert decoded.start_s is not None
        assert decoded.finish_s is not None
        values = np.full(len(possible), -np.inf)
        example = Schedule(
            tasks=self._instance.graph.names,
            machines=tuple(found.name for found in self._instance.machines),
            machine=machine[0],
            nodes=nodes[0],
            start_s=decoded.start_s[0],
            finish_s=decoded.finish_s[0],
        )
        for row in np.flatnonzero(possible).tolist():
            schedule = replace(
                example,
                machine=machine[row],
                nodes=nodes[row],
                start_s=decoded.start_s[row],
                finish_s=decoded.finish_s[row],
            )
            worth = evaluate_loss(self._instance, self._objective, schedule)
            values[row] = -worth.value - (self._penalty * (1.0 + worth.missed) if worth.missed > 0 else 0.0)
        return values


def _objective_scale(instance: Instance, objective: Objective) -> float:
    """Give how large the objective's number is, about: that of the sequential plan."""
    whole, aim = sequential_execution(instance), linearise_objective(instance, objective)
    if aim is None:
        return whole.time_s
    cost = whole.node_seconds * float(instance.price_per_node_s.max(initial=0.0))
    return abs(aim.value(whole.time_s, whole.node_seconds, cost))
