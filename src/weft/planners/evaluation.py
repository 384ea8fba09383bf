"""Evaluation of schedules: linear objectives, losses, lower bounds, and the values of decoded populations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from weft.expressions import Expression, evaluate_columns, evaluate_number, parse, tree
from weft.instance.instance import Instance
from weft.planners.problem import make_schedule
from weft.schedule.bounds import Bounds, lower_bounds
from weft.schedule.costs import schedule_cost, sequential_execution
from weft.schedule.objective import (
    CHEAP_QUANTITIES,
    QUANTITIES,
    Objective,
    check_value,
    instance_constants,
)
from weft.schedule.schedule import Schedule
from weft.workflow.task_graph import COMPUTE, Floats, Indices

if TYPE_CHECKING:
    from weft.planners.decoding import DecodedPopulation


_ROUNDING = 1e-9
"""Relative excess of an amount over a limit that is tolerated, because sums have rounding errors."""
_PENALTY = 1e3
"""Least penalty of an exceeded limit, as a multiple of the objective value of the sequential plan."""
_BATCH_S = 0.05
"""Approximate seconds between two checks of the budget."""
_TASK_S, _SCHEDULE_TASK_S = 5e-6, 2e-5
"""Approximate seconds per task to decode an individual in plain Python, and to evaluate its schedule."""

_bounds_cache: WeakKeyDictionary[Instance, Bounds] = WeakKeyDictionary()


class LinearObjective(NamedTuple):
    """The objective ``base + makespan_s * per_second + node_s * per_node_s + cost * per_price``.

    Makespan, cost and most fitness functions of docs/papers/moldable.md are linear in makespan, node-seconds
    and price, so that a kernel can evaluate them without building a schedule. Limits come first: of two plans
    the one that exceeds deadline and maximal cost by less is better, whatever its objective value.
    """

    base: float
    per_second: float
    per_node_s: float
    per_price: float
    deadline_s: float
    max_cost: float
    """Infinite if there is no limit, like ``deadline_s``."""

    def value(self, makespan_s: float, node_s: float, cost: float) -> float:
        """Return the objective value for a makespan, node-seconds and a cost."""
        return self.base + makespan_s * self.per_second + node_s * self.per_node_s + cost * self.per_price

    def loss(self, instance: Instance, schedule: Schedule) -> Loss:
        """Return the loss of a schedule: its excess over the limits and its objective value."""
        makespan_s, cost = schedule.makespan_s, schedule_cost(schedule, instance)
        node_s = float(((schedule.finish_s - schedule.start_s) * schedule.nodes).sum())
        excess = _excess(makespan_s, self.deadline_s) + _excess(cost, self.max_cost)
        return Loss(excess=excess, value=self.value(makespan_s, node_s, cost))

    @property
    def is_makespan(self) -> bool:
        """Return whether objective value and limits depend on the makespan only."""
        return self.per_node_s == 0 and self.per_price == 0 and self.max_cost == math.inf


class Loss(NamedTuple):
    """How bad a schedule is; of two schedules the one with the smaller tuple is better."""

    excess: float
    """Sum of the relative excesses over deadline and maximal cost; 0 if neither is exceeded."""
    value: float
    """The objective value, negated if the objective is maximised."""


def linearise_objective(instance: Instance, objective: Objective) -> LinearObjective | None:
    """Return an objective in linear form; None if it is not linear in makespan, node-seconds and cost."""
    if (scaled := _weights(instance, objective)) is None:
        return None
    return LinearObjective(
        *scaled,
        deadline_s=math.inf if objective.deadline_s is None else objective.deadline_s,
        max_cost=math.inf if objective.max_cost is None else objective.max_cost,
    )


def _weights(instance: Instance, objective: Objective) -> tuple[float, float, float, float] | None:
    """Return the four coefficients of a linear objective (base first); None if it is not linear."""
    if objective.is_makespan:
        return 0.0, 1.0, 0.0, 0.0
    if objective.formula is not None:
        found = _linear_form(objective.formula.tree, instance_constants(instance))
        return None if found is None else (found[""], found["makespan"], found["node_seconds"], found["cost"])
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


_LINEAR = ("makespan", "node_seconds", "cost")
"""Quantities of a linear objective, in the order of ``LinearObjective``."""
_LinearForm = dict[str, float]
"""The coefficient of each quantity of ``_LINEAR``, and under "" the constant."""


def _linear_form(node: tree.ExpressionNode, constants: Mapping[str, float]) -> _LinearForm | None:
    """Return a formula as a sum of multiples of the linear quantities; None if it is no such sum."""
    nothing = dict.fromkeys(("", *_LINEAR), 0.0)
    match node:
        case tree.Name(name=name) if name in _LINEAR:
            return nothing | {name: 1.0}
        case tree.Unary(operator="+" | "-" as sign, operand=operand):
            inner = _linear_form(operand, constants)
            return None if inner is None else _scale(inner, -1.0 if sign == "-" else 1.0)
        case tree.Binary(operator="+" | "-" as sign, left=left, right=right):
            first, second = _linear_form(left, constants), _linear_form(right, constants)
            if first is None or second is None:
                return None
            signed = _scale(second, -1.0 if sign == "-" else 1.0)
            return {name: first[name] + signed[name] for name in first}
        case tree.Binary(operator="*" | "/" as sign, left=left, right=right):
            return _linear_product(sign, left, right, constants)
    names = {inner.name for inner in tree.walk(node) if isinstance(inner, tree.Name)}
    if names & (QUANTITIES.keys() - constants.keys()):
        return None
    return nothing | {"": evaluate_number(parse(tree.format_tree(node)), constants)}


def _linear_product(
    sign: str, left: tree.ExpressionNode, right: tree.ExpressionNode, constants: Mapping[str, float]
) -> _LinearForm | None:
    first, second = _linear_form(left, constants), _linear_form(right, constants)
    if first is None or second is None:
        return None
    if not any(second[name] for name in _LINEAR):
        factor = second[""]
        if sign == "/":
            return None if factor == 0 else _scale(first, 1.0 / factor)
        return _scale(first, factor)
    return _scale(second, first[""]) if sign == "*" and not any(first[name] for name in _LINEAR) else None


def _scale(form: _LinearForm, factor: float) -> _LinearForm:
    return {name: factor * value for name, value in form.items()}


def evaluate_loss(instance: Instance, objective: Objective, schedule: Schedule) -> Loss:
    """Return the loss of a schedule under an objective and its limits."""
    excess = _excess(schedule.makespan_s, objective.deadline_s)
    if objective.max_cost is not None:
        excess += _excess(schedule_cost(schedule, instance), objective.max_cost)
    value = objective.value(schedule, instance)
    return Loss(excess=excess, value=-value if objective.sense == "maximise" else value)


def _excess(amount: float, limit: float | None) -> float:
    """Return by how much an amount exceeds a limit, relative to the limit; the amount if the limit is 0."""
    if limit is None or amount <= limit * (1.0 + _ROUNDING):
        return 0.0
    return (amount - limit) / limit if limit > 0 else amount


def compute_bounds(instance: Instance) -> Bounds:
    """Return the lower bounds of an instance; they are computed once per instance and cached."""
    if instance not in _bounds_cache:
        _bounds_cache[instance] = lower_bounds(instance)
    return _bounds_cache[instance]


class PopulationEvaluator:
    """Computes the values of the individuals of a population, which a search maximises.

    The value of an individual is its negated objective value, minus a penalty if it exceeds deadline or
    maximal cost. Some objectives need a schedule per individual (``of_schedules``), which takes about a
    thousand times longer.
    """

    def __init__(self, instance: Instance, objective: Objective) -> None:
        self._instance = instance
        self._objective = objective
        self._linear = linearise_objective(instance, objective)
        self._is_makespan = (
            self._linear is not None and self._linear.is_makespan and objective.deadline_s is None
        )
        self._penalty = _PENALTY * (1.0 + _objective_scale(instance, objective))
        self._is_columnar = needs_no_schedule(objective)
        self.of_schedules = (
            self._linear is None
            and not self._is_columnar
            and objective.name not in ("local", "static-idle-fraction")
        )
        """Whether whole schedules are needed, not only the columns of decoded populations."""
        self.timed = objective.name == "local" or self.of_schedules
        """Whether start and finish of all tasks are needed."""
        self.priced = self._linear is None or not self._linear.is_makespan
        """Whether node-seconds and cost are needed."""

    @property
    def batch(self) -> int:
        """Return the number of individuals to evaluate between two checks of the budget."""
        task_s = _SCHEDULE_TASK_S if self.of_schedules else _TASK_S
        return max(1, int(_BATCH_S / (task_s * max(1, len(self._instance)))))

    def values(self, decoded: DecodedPopulation, machine: Indices, nodes: Indices) -> Floats:
        """Return the value of every individual; minus infinity if some task can never start.

        ``machine`` and ``nodes`` (individuals x tasks) are read only if ``of_schedules`` is set.
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
        """Return the objective values of all individuals, without penalties."""
        linear, instance, objective = self._linear, self._instance, self._objective
        if linear is not None:
            time, taken = decoded.makespan_s * linear.per_second, decoded.node_seconds * linear.per_node_s
            return linear.base + time + taken + decoded.cost * linear.per_price
        if objective.formula is not None:
            return evaluate_formula(objective.formula, decoded, instance)
        if objective.name == "local":
            assert decoded.finish_s is not None
            assert decoded.start_s is not None
            compute = instance.graph.kind == COMPUTE
            spent: Floats = (decoded.finish_s - decoded.start_s)[:, compute].sum(axis=1)
            return spent
        return self._idle_fraction(decoded)

    def _idle_fraction(self, decoded: DecodedPopulation) -> Floats:
        """Return the value of the objective ``static-idle-fraction`` for every individual."""
        alpha, instance = self._objective.alpha, self._instance
        nodes = float(instance.capacity.sum())
        mean = float((instance.price_per_node_s * instance.capacity).sum()) / max(1.0, nodes)
        taken = decoded.cost / mean if mean > 0 else decoded.node_seconds
        available = nodes * decoded.makespan_s
        idle = 1.0 - np.divide(taken, available, out=np.ones_like(taken), where=available > 0)
        whole_s = sequential_execution(instance).time_s
        return alpha * decoded.makespan_s / (whole_s if whole_s > 0 else 1.0) + (1.0 - alpha) * idle

    def _penalty_of(self, decoded: DecodedPopulation) -> Floats:
        limits = (
            (decoded.makespan_s, self._objective.deadline_s),
            (decoded.cost, self._objective.max_cost),
        )
        excess = np.zeros(len(decoded.makespan_s))
        for amounts, limit in limits:
            if limit is not None:
                relative = (amounts - limit) / (limit if limit > 0 else 1.0)
                excess += np.where(amounts > limit * (1.0 + _ROUNDING), relative, 0.0)
        return np.where(excess > 0, self._penalty * (1.0 + excess), 0.0)

    def _one_by_one(
        self, decoded: DecodedPopulation, machine: Indices, nodes: Indices, possible: NDArray[np.bool_]
    ) -> Floats:
        assert decoded.start_s is not None
        assert decoded.finish_s is not None
        values = np.full(len(possible), -np.inf)
        start_s, finish_s = decoded.start_s, decoded.finish_s
        for row in np.flatnonzero(possible).tolist():
            schedule = make_schedule(
                self._instance,
                machine=machine[row],
                nodes=nodes[row],
                start_s=start_s[row],
                finish_s=finish_s[row],
            )
            loss = evaluate_loss(self._instance, self._objective, schedule)
            values[row] = -loss.value - (self._penalty * (1.0 + loss.excess) if loss.excess > 0 else 0.0)
        return values


def needs_no_schedule(objective: Objective) -> bool:
    """Return whether an objective is a formula over quantities that a decoded population has.

    Such a formula is evaluated without building the schedules of the individuals.
    """
    expensive = QUANTITIES.keys() - {*CHEAP_QUANTITIES, "t_max", "c_min", "nodes"}
    return objective.formula is not None and not set(objective.formula.names) & expensive


def evaluate_formula(formula: Expression, decoded: DecodedPopulation, instance: Instance) -> Floats:
    """Return the value of a formula for every individual; infinity if some task can never start.

    Raises InvalidInput if the formula gives no finite number for a schedule.
    """
    possible = np.isfinite(decoded.makespan_s)
    columns = {
        "makespan": decoded.makespan_s[possible],
        "cost": decoded.cost[possible],
        "node_seconds": decoded.node_seconds[possible],
    }
    found = evaluate_columns(formula, columns, int(possible.sum()), instance_constants(instance))
    for value in found[~np.isfinite(found.astype(np.float64))][:1].tolist() if len(found) else ():
        check_value(formula.text, value)
    values = np.full(len(possible), np.inf)
    values[possible] = found
    return values


def _objective_scale(instance: Instance, objective: Objective) -> float:
    """Return the scale of penalties: the absolute objective value of running all tasks one after another.

    If the objective is not linear, return the seconds of running all tasks one after another instead.
    """
    whole, linear = sequential_execution(instance), linearise_objective(instance, objective)
    if linear is None:
        return whole.time_s
    cost = whole.node_seconds * float(instance.price_per_node_s.max(initial=0.0))
    return abs(linear.value(whole.time_s, whole.node_seconds, cost))
