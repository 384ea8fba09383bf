"""Objectives: the value by which schedules are compared, and deadline and maximal cost as limits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field, replace
from functools import partial
from typing import Literal

from weft.errors import Infeasible, InvalidInput, nearest
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


def make_objective(
    name: str,
    alpha: float | None = None,
    *,
    deadline_s: float | None = None,
    max_cost: float | None = None,
) -> Objective:
    """Return the objective with a name, alpha and limits; raises InvalidInput if one of them is invalid."""
    if name not in OBJECTIVES:
        close = nearest(name, OBJECTIVES)
        advice = f"did you mean {close!r}?" if close else f"use one of {', '.join(OBJECTIVES)}"
        raise InvalidInput(f"unknown objective {name!r}", advice=advice)
    found = OBJECTIVES[name]
    _check_limit("deadline", deadline_s, "seconds")
    _check_limit("maximal cost", max_cost, "a price")
    if alpha is not None:
        _check_alpha(found, alpha)
        found = replace(found, alpha=float(alpha))
    return replace(found, deadline_s=deadline_s, max_cost=max_cost)


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
    """Raise Infeasible if a lower bound of makespan or cost exceeds its limit: no plan can keep it."""
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

    A lower bound above a limit proves that no plan keeps it. A plan above a limit proves nothing about other
    plans; the message says so.
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
        advice = "another plan may keep it: try another planner (`weft planners` lists them)"
        raise Infeasible(f"the plan of {planner} {' and '.join(found)}; {advice}")


def _exceeds(amount: float, limit: float) -> bool:
    return amount > limit * (1.0 + _ROUNDING)
