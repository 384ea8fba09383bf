"""Objectives: the value by which schedules are compared, and deadline and maximal cost as limits."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, field, replace
from functools import partial
from typing import Literal

from weft.errors import Infeasible, InvalidInput, nearest, shorten
from weft.expressions import (
    Expression,
    ValueKind,
    evaluate_number,
    find_unknown_names,
    infer_kind,
    parse,
)
from weft.instance.instance import Instance
from weft.records import dataclass
from weft.schedule.costs import cheapest_cost, relative_prices, schedule_cost, sequential_execution
from weft.schedule.metrics import measure_schedule
from weft.schedule.schedule import Schedule
from weft.units import format_seconds

_Measure = Callable[[Schedule, Instance, float], float]


def _local_fitness(schedule: Schedule, instance: Instance, alpha: float) -> float:  # noqa: ARG001
    """Return fitness 1: the sum of the seconds of all compute tasks, without waiting."""
    computing = schedule.nodes > 0
    return float((schedule.finish_s[computing] - schedule.start_s[computing]).sum())


def _on_demand_fitness(schedule: Schedule, instance: Instance, alpha: float) -> float:
    """Return fitness 2: ``alpha * makespan / t_max + (1 - alpha) * c / c_min``; only used nodes are paid."""
    least = sequential_execution(instance).node_seconds
    cost = _share(_priced_node_seconds(schedule, instance), least)
    return _weighed(alpha, schedule, instance, cost)


def _static_idle_fitness(schedule: Schedule, instance: Instance, alpha: float) -> float:
    """Return fitness 3 (idle): ``alpha * makespan / t_max + (1 - alpha) * (P * makespan - c) / c_max``.

    Symbols: docs/papers/moldable.md; ``_static_literal_fitness`` is the formula as printed in the paper.
    """
    nodes = float(instance.capacity.sum())
    idle = nodes * schedule.makespan_s - _priced_node_seconds(schedule, instance)
    most = sequential_execution(instance).time_s * nodes
    return _weighed(alpha, schedule, instance, _share(idle, most))


def _static_literal_fitness(schedule: Schedule, instance: Instance, alpha: float) -> float:
    """Return fitness 3 as printed: ``alpha * makespan / t_max + (1 - alpha) * (c_max - c) / c_max``."""
    most = sequential_execution(instance).time_s * float(instance.capacity.sum())
    unused = 1.0 - _share(_priced_node_seconds(schedule, instance), most)
    return _weighed(alpha, schedule, instance, unused)


def _static_idle_fraction_fitness(schedule: Schedule, instance: Instance, alpha: float) -> float:
    """Return fitness 3 by shares: ``alpha * makespan / t_max + (1 - alpha) * (1 - c / (P * makespan))``."""
    available = float(instance.capacity.sum()) * schedule.makespan_s
    idle = 1.0 - _priced_node_seconds(schedule, instance) / available if available > 0 else 0.0
    return _weighed(alpha, schedule, instance, idle)


def _weighed(alpha: float, schedule: Schedule, instance: Instance, cost: float) -> float:
    time = _share(schedule.makespan_s, sequential_execution(instance).time_s)
    return alpha * time + (1.0 - alpha) * cost


def _share(amount: float, whole: float) -> float:
    """Return ``amount / whole``; the amount itself if ``whole`` is 0, because no task takes any time."""
    return amount / whole if whole > 0 else amount


def _priced_node_seconds(schedule: Schedule, instance: Instance) -> float:
    """Return the occupied node-seconds of a schedule, weighted by the relative prices of the machines."""
    taken = (schedule.finish_s - schedule.start_s) * schedule.nodes
    return float((taken * relative_prices(instance)[schedule.machine]).sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A value of schedules to minimise or maximise, and limits that no plan may exceed.

    Objectives are the eight metrics of R. Prodan, T. Fahringer, SAC 2005 (docs/papers/dynamic-grid.md,
    section 7), cost, and the three fitness functions of M. Jaros, J. Jaros, Performance-Cost Optimization of
    Moldable Scientific Workflows (docs/papers/moldable.md, section 4): local time, pay per use, pay for the
    whole platform. ``alpha`` weighs the makespan against cost (1: time alone). The makespan includes
    queueing.

    Deviations: ``t_max`` is the time of sequential execution and ``c_min`` its node-seconds, which equals the
    paper's sum if tasks may run on one node; P is the number of nodes of all machines. A node-second counts
    by its price relative to the mean price of a node. The printed third function rewards wasted node-time for
    alpha below 1/2 (``_static_literal_fitness``); our default counts idle node-time
    (``_static_idle_fitness``), and ``_static_idle_fraction_fitness`` the share of idle node-time, which the
    paper plots.
    """

    name: str
    title: str
    measured_by: _Measure = field(repr=False, compare=False)
    """Returns the value of a schedule of an instance for an alpha."""
    sense: Literal["minimise", "maximise"] = "minimise"
    has_alpha: bool = False
    """Whether the value depends on alpha."""
    is_makespan: bool = False
    """Whether the shortest plan is the best; planners that minimise the makespan support the objective."""
    formula: Expression | None = None
    """The formula of an objective that the user wrote, over ``QUANTITIES``; None for all others."""

    alpha: float = 0.5
    """Weight of the makespan against cost, from 0 (cost alone) to 1 (time alone)."""
    deadline_s: float | None = None
    """Upper limit of the makespan; None for no deadline."""
    max_cost: float | None = None
    """Upper limit of the cost; None for no limit."""

    def value(self, schedule: Schedule, instance: Instance, alpha: float | None = None) -> float:
        """Return the value of a schedule; ``alpha``, if given, replaces the alpha of the objective."""
        return self.measured_by(schedule, instance, self.alpha if alpha is None else alpha)


def _makespan(schedule: Schedule, instance: Instance, alpha: float) -> float:  # noqa: ARG001
    return schedule.makespan_s


def _cost(schedule: Schedule, instance: Instance, alpha: float) -> float:  # noqa: ARG001
    return schedule_cost(schedule, instance)


def _metric(schedule: Schedule, instance: Instance, alpha: float, *, key: str) -> float:  # noqa: ARG001
    return float(getattr(measure_schedule(schedule, instance), key))


def _fitness(name: str, title: str, measured_by: _Measure) -> Objective:
    return Objective(name=name, title=title, measured_by=measured_by, has_alpha=True)


def _grid_metric(
    name: str, title: str, key: str, sense: Literal["minimise", "maximise"] = "minimise"
) -> Objective:
    return Objective(
        name=name,
        title=title,
        measured_by=partial(_metric, key=key),
        sense=sense,
    )


_ALL = (
    Objective(name="makespan", title="finish of the last task", measured_by=_makespan, is_makespan=True),
    Objective(name="cost", title="price of all occupied node-hours", measured_by=_cost),
    Objective(name="local", title="sum of the tasks' times without waiting", measured_by=_local_fitness),
    _fitness("on-demand", "makespan and cost of nodes in use", _on_demand_fitness),
    _fitness("static", "makespan and idle node-time", _static_idle_fitness),
    _fitness("static-literal", "makespan and unused node-time", _static_literal_fitness),
    _fitness("static-idle-fraction", "makespan and share of idle node-time", _static_idle_fraction_fitness),
    _grid_metric("speedup", "sequential time over makespan", "speedup", "maximise"),
    _grid_metric("efficiency", "sequential over occupied node-time", "efficiency", "maximise"),
    _grid_metric("communication", "transfers on the critical path", "communication_s"),
    _grid_metric("synchronisation", "waiting on the critical path", "synchronisation_s"),
    _grid_metric("overhead", "makespan minus the sequential node-time per node", "overhead_s"),
    _grid_metric("lost-parallelism", "overhead minus transfers and waiting", "lost_parallelism_s"),
    _grid_metric("throughput", "efficiency and time combined", "throughput", "maximise"),
)
OBJECTIVES = {objective.name: objective for objective in _ALL}
"""All objectives by name, without limits and with the default alpha."""

CHEAP_QUANTITIES = ("makespan", "cost", "node_seconds")
"""Quantities that planners compute without building a schedule."""
QUANTITIES: Mapping[str, str] = {
    "makespan": "finish of the last task, in seconds",
    "cost": "price of all occupied node-hours",
    "node_seconds": "occupied node-seconds",
    "local": "sum of the tasks' seconds, without waiting",
    "used_share": "occupied share of the node-time of the platform, from 0 to 1",
    "idle_share": "idle share of the node-time of the platform, from 0 to 1",
    "machines_used": "machines with at least one task",
    "nodes_used": "nodes held at once, summed over machines",
    "speedup": "sequential time over makespan",
    "efficiency": "sequential over occupied node-time",
    "communication": "transfers on the critical path, in seconds",
    "synchronisation": "waiting on the critical path, in seconds",
    "overhead": "makespan minus the sequential node-time per node, in seconds",
    "lost_parallelism": "overhead minus transfers and waiting, in seconds",
    "throughput": "efficiency and time combined",
    "length_ratio": "makespan over the critical path of fastest modes",
    "t_max": "time of sequential execution on the best machine, in seconds",
    "c_min": "node-seconds of sequential execution on the best machine",
    "nodes": "nodes of all machines",
}
"""The names that a formula may use, with their meaning; ``t_max``, ``c_min`` and ``nodes`` are constants."""

Formula = Callable[[Schedule, Instance], float]
"""A function of the user that returns the value of a schedule, which is minimised."""
_WORD, _NAME = re.compile(r"[\w-]+"), re.compile(r"[^\W\d]\w*")


def instance_constants(instance: Instance) -> dict[str, float]:
    """Return the quantities that are equal for all schedules of an instance."""
    whole = sequential_execution(instance)
    nodes = float(instance.capacity.sum())
    return {"t_max": whole.time_s, "c_min": whole.node_seconds, "nodes": nodes}


def measure_quantities(schedule: Schedule, instance: Instance, names: tuple[str, ...]) -> dict[str, float]:
    """Return the quantities of a schedule by name, at least those in ``names``."""
    found = instance_constants(instance)
    if set(names) <= {*CHEAP_QUANTITIES, *found}:
        taken = (schedule.finish_s - schedule.start_s) * schedule.nodes
        cost, node_seconds = schedule_cost(schedule, instance), float(taken.sum())
        return found | {"makespan": schedule.makespan_s, "cost": cost, "node_seconds": node_seconds}
    measured = asdict(measure_schedule(schedule, instance))
    found |= {key.removesuffix("_s"): float(value) for key, value in measured.items()}
    return found | {"local": _local_fitness(schedule, instance, 0.0)}


def _formula_value(schedule: Schedule, instance: Instance, alpha: float, *, formula: Expression) -> float:  # noqa: ARG001
    value = evaluate_number(formula, measure_quantities(schedule, instance, formula.names))
    return check_value(formula.text, value)


def _function_value(schedule: Schedule, instance: Instance, alpha: float, *, function: Formula) -> float:  # noqa: ARG001
    return check_value(_function_name(function), function(schedule, instance))


def check_value(name: str, value: object) -> float:
    """Return the value of a user's objective as a finite float, or raise InvalidInput."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        what = f"the objective {shorten(name)!r} gives {shorten(value)} for a schedule"
        raise InvalidInput(what, rule="the value of an objective must be a finite number")
    return number


def _function_name(function: Formula) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def _read_formula(text: str) -> Objective:
    """Return the objective that a formula over ``QUANTITIES`` describes; raises InvalidInput."""
    formula = parse(text)
    rule = f"a formula may use {', '.join(QUANTITIES)}"
    if unknown := [name for error in find_unknown_names(formula, QUANTITIES) for name in error.problems]:
        known = (each if "did you mean" in each.advice else replace(each, advice="") for each in unknown)
        raise InvalidInput([replace(each, rule=rule) for each in known])
    kind = infer_kind(formula, dict.fromkeys(QUANTITIES, ValueKind.NUMBER))
    if kind not in (ValueKind.NUMBER, ValueKind.UNKNOWN):
        raise InvalidInput(f"the objective {shorten(text)!r} is not a number", rule=rule)
    if not set(formula.names) & (QUANTITIES.keys() - {"t_max", "c_min", "nodes"}):
        what = f"the objective {shorten(text)!r} is the same for all schedules"
        raise InvalidInput(what, rule=rule)
    return Objective(
        name=formula.text,
        title="a formula of the user",
        measured_by=partial(_formula_value, formula=formula),
        formula=formula,
    )


def make_objective(
    name: str | Formula | Objective,
    alpha: float | None = None,
    *,
    deadline_s: float | None = None,
    max_cost: float | None = None,
) -> Objective:
    """Return the objective with a name, alpha and limits; raises InvalidInput if one of them is invalid.

    Instead of a name, a formula over ``QUANTITIES`` (``makespan + 0.1*cost``) or a function of a schedule and
    its instance is minimised. A function is sent to worker processes, so it must be defined in a module.
    """
    found = name if isinstance(name, Objective) else _find_objective(name)
    _check_limit("deadline", deadline_s, "seconds")
    _check_limit("maximal cost", max_cost, "a price")
    if alpha is not None:
        _check_alpha(found, alpha)
        found = replace(found, alpha=float(alpha))
    return replace(found, deadline_s=deadline_s, max_cost=max_cost)


def _find_objective(name: object) -> Objective:
    if callable(name):
        measure = partial(_function_value, function=name)
        return Objective(name=_function_name(name), title="a function of the user", measured_by=measure)
    if not isinstance(name, str):
        rule = "must be a name, a formula or a function of a schedule and its instance"
        raise InvalidInput(f"the objective {shorten(name)}", rule=rule)
    if name in OBJECTIVES:
        return OBJECTIVES[name]
    if _WORD.fullmatch(name) and not QUANTITIES.keys() >= set(_NAME.findall(name)):
        close = nearest(name, OBJECTIVES)
        advice = f"did you mean {close!r}?" if close else f"use one of {', '.join(OBJECTIVES)}, or a formula"
        raise InvalidInput(f"unknown objective {name!r}", advice=advice)
    return _read_formula(name)


def _check_alpha(objective: Objective, alpha: float) -> None:
    if not objective.has_alpha:
        those = ", ".join(name for name, known in OBJECTIVES.items() if known.has_alpha)
        what = f"alpha is {alpha:g}, but the objective {objective.name!r} has no alpha"
        raise InvalidInput(what, advice=f"omit it, or use one of {those}")
    if not 0.0 <= alpha <= 1.0:
        raise InvalidInput(f"alpha is {alpha:g}", rule="must be from 0 (cost alone) to 1 (time alone)")


def _check_limit(noun: str, limit: float | None, unit: str) -> None:
    if limit is not None and not 0.0 <= limit < math.inf:
        raise InvalidInput(f"the {noun} is {limit:g}", rule=f"must be {unit}, at least 0")


_ROUNDING = 1e-9
"""Relative tolerance with which a sum of doubles is compared with a limit."""


def refuse_impossible_limits(objective: Objective, instance: Instance, bound_s: float) -> None:
    """Raise Infeasible if a lower bound of makespan or cost exceeds its limit: no plan can keep the limit."""
    found = []
    deadline, most = objective.deadline_s, objective.max_cost
    if deadline is not None and _exceeds(bound_s, deadline):
        found.append(
            f"no plan can meet the deadline of {format_seconds(deadline)}: every one takes at least "
            f"{format_seconds(bound_s)} (lower bound), {format_seconds(bound_s - deadline)} too long"
        )
    least = 0.0 if most is None else cheapest_cost(instance)
    if most is not None and _exceeds(least, most):
        found.append(
            f"no plan can keep to a cost of {most:.6g}: every one costs at least {least:.6g} "
            f"(cheapest machines and node counts), {least - most:.3g} too much"
        )
    if found:
        raise Infeasible("; ".join(found))


def refuse_missed_limits(
    objective: Objective, planner: str, *, makespan_s: float, cost: float, bound_s: float
) -> None:
    """Raise Infeasible if a plan exceeds the deadline or the maximal cost.

    Unlike a lower bound above a limit, a plan above a limit does not prove that no plan keeps the limit. The
    message says that another plan may keep it.
    """
    found = []
    deadline, most = objective.deadline_s, objective.max_cost
    if deadline is not None and _exceeds(makespan_s, deadline):
        found.append(
            f"takes {format_seconds(makespan_s)}, {format_seconds(makespan_s - deadline)} longer than the "
            f"deadline of {format_seconds(deadline)} (lower bound {format_seconds(bound_s)})"
        )
    if most is not None and _exceeds(cost, most):
        found.append(f"costs {cost:.6g}, {cost - most:.3g} more than the maximal cost of {most:.6g}")
    if found:
        advice = "another plan may keep the limit: try another planner (`weft planners` lists them)"
        raise Infeasible(f"the plan of {planner} {' and '.join(found)}; {advice}")


def _exceeds(amount: float, limit: float) -> bool:
    return amount > limit * (1.0 + _ROUNDING)
