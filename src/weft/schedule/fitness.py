"""The three fitness functions of S2, all minimised: time, pay per use, pay for everything.

M. Jaros, J. Jaros, Performance-Cost Optimization of Moldable Scientific Workflows (spec s2 section 4).
``alpha`` weighs the makespan against cost (1: time alone). The makespan is that of the schedule, queueing
included.

Deviations: ``t_max`` is the time of ``sequential`` (the smallest allowed counts, on several machines the
fastest one) and ``c_min`` its node-seconds, which is the paper's sum where tasks may run on one node; P is
the nodes of all machines. Where machines have prices, a node-second counts by its price over the price of a
mean node, so that equal prices change nothing. The printed third function rewards wasted node-time for alpha
below 1/2 (``static_literal``); our default counts idle node-time instead (``static_idle``);
``static_idle_fraction`` counts the share of idle node-time, the quantity the paper plots.
"""

from __future__ import annotations

from weft.instance.instance import Instance
from weft.schedule.costs import relative_prices
from weft.schedule.schedule import Schedule
from weft.schedule.sequential import sequential

__all__ = ["local", "on_demand", "static_idle", "static_idle_fraction", "static_literal"]


def local(schedule: Schedule, instance: Instance, alpha: float) -> float:  # noqa: ARG001
    """Fitness 1: the sum of all compute tasks' seconds, whatever waits for whatever."""
    computing = schedule.nodes > 0
    return float((schedule.finish_s[computing] - schedule.start_s[computing]).sum())


def on_demand(schedule: Schedule, instance: Instance, alpha: float) -> float:
    """Fitness 2: ``alpha * makespan / t_max + (1 - alpha) * c / c_min``; only nodes in use are paid for."""
    least = sequential(instance).node_seconds
    return _weighed(alpha, _time_share(schedule, instance), _share(_taken(schedule, instance), least))


def static_idle(schedule: Schedule, instance: Instance, alpha: float) -> float:
    """Fitness 3, our reading: ``alpha * makespan / t_max + (1 - alpha) * (P * makespan - c) / c_max``."""
    nodes = float(instance.capacity.sum())
    idle = nodes * schedule.makespan_s - _taken(schedule, instance)
    most = sequential(instance).time_s * nodes
    return _weighed(alpha, _time_share(schedule, instance), _share(idle, most))


def static_literal(schedule: Schedule, instance: Instance, alpha: float) -> float:
    """Fitness 3 as printed: ``alpha * makespan / t_max + (1 - alpha) * (c_max - c) / c_max``."""
    most = sequential(instance).time_s * float(instance.capacity.sum())
    unused = 1.0 - _share(_taken(schedule, instance), most)
    return _weighed(alpha, _time_share(schedule, instance), unused)


def static_idle_fraction(schedule: Schedule, instance: Instance, alpha: float) -> float:
    """Fitness 3 by shares: ``alpha * makespan / t_max + (1 - alpha) * (1 - c / (P * makespan))``."""
    available = float(instance.capacity.sum()) * schedule.makespan_s
    idle = 1.0 - _taken(schedule, instance) / available if available > 0 else 0.0
    return _weighed(alpha, _time_share(schedule, instance), idle)


def _weighed(alpha: float, time: float, cost: float) -> float:
    return alpha * time + (1.0 - alpha) * cost


def _time_share(schedule: Schedule, instance: Instance) -> float:
    return _share(schedule.makespan_s, sequential(instance).time_s)


def _share(amount: float, whole: float) -> float:
    """Divide; where no task takes any time there is nothing to scale by, and the amount stays as it is."""
    return amount / whole if whole > 0 else amount


def _taken(schedule: Schedule, instance: Instance) -> float:
    """Give the node-seconds taken, by their relative price."""
    taken = (schedule.finish_s - schedule.start_s) * schedule.nodes
    return float((taken * relative_prices(instance)[schedule.machine]).sum())
