"""How sure a plan is: its makespan and cost when tasks take as long as their estimates say they might.

Bindings, node counts and the order on every machine are kept; 200 times the tasks get other durations, and
the schedule is decoded again. A task's duration is log-normal through its estimate's P50 and P90 (the widest
ratio of its modes). What makes tasks late is partly common to a machine (it is slower than believed) and
partly their own: half of the variance of a task's logarithm is one factor per machine and sample, half is
drawn for the task. Each task alone then keeps its P50 and P90, and tasks of one machine are late together.
Within a sample all iterations of a loop take the same.

Estimates without a P90 count as exact. Where all do, nothing is drawn: P50 and P90 are the plan's own
numbers. Complexity O(200 (v + e)) for v tasks and e edges.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from weft.instance.instance import Instance
from weft.randomness import generator
from weft.schedule.costs import schedule_cost
from weft.schedule.schedule import Schedule, expected_executions, total_seconds
from weft.workflow.task_graph import COMPUTE, Floats, LoopBody

__all__ = ["PlanForecast", "forecast_schedule"]


_SAMPLES = 200
_Z90 = 1.2815515655446004
"""A normal number exceeds this many standard deviations one time in ten."""
_COMMON_SHARE = 0.5
"""Share of the variance that all tasks of one machine have in common."""
_CHUNK = 4_000_000
"""How many durations are kept at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanForecast:
    """What makespan and cost will hardly exceed (P90), and exceed half of the time (P50)."""

    makespan_p50_s: float
    makespan_p90_s: float
    total_p50_s: float
    """With all expected iterations, as the next three; a loop that does not say how many has one."""
    total_p90_s: float
    total_cost_p50: float
    total_cost_p90: float
    cost_p50: float
    cost_p90: float
    tasks: int
    """Compute tasks that take time."""
    exact: int
    """Those of them whose estimate has no P90."""


def forecast_schedule(
    schedule: Schedule, instance: Instance, *, seed: int, loops: Sequence[LoopBody] | None = None
) -> PlanForecast:
    """Give P50 and P90 of makespan and cost of a schedule; ``loops``: those of the graph, if not given."""
    bodies = instance.graph.loops if loops is None else loops
    timed = (instance.graph.kind == COMPUTE) & (schedule.finish_s > schedule.start_s)
    spread = instance.seconds.spread
    known = timed & np.isfinite(spread)
    deviation = np.zeros(len(instance))
    # P90 below P50 is no spread, and neither is P90 = P50.
    deviation[known] = np.log(np.maximum(spread[known], 1.0)) / _Z90
    weight = _price_per_s(schedule, instance) * expected_executions(len(instance), bodies)
    if deviation.any():
        found = _sample(schedule, instance, deviation, bodies, weight, generator(seed, "outlook"))
    else:
        total = total_seconds(schedule.start_s, schedule.finish_s, bodies)
        total_cost = (schedule.finish_s - schedule.start_s) @ weight
        found = np.array([[schedule.makespan_s], [schedule_cost(schedule, instance)], [total], [total_cost]])
    (p50, cost_p50, total_p50, total_cost_p50), (p90, cost_p90, total_p90, total_cost_p90) = np.quantile(
        found, [0.5, 0.9], axis=1
    ).tolist()
    return PlanForecast(
        makespan_p50_s=p50,
        makespan_p90_s=p90,
        total_p50_s=total_p50,
        total_p90_s=total_p90,
        total_cost_p50=total_cost_p50,
        total_cost_p90=total_cost_p90,
        cost_p50=cost_p50,
        cost_p90=cost_p90,
        tasks=int(timed.sum()),
        exact=int((timed & ~known).sum()),
    )


def _price_per_s(schedule: Schedule, instance: Instance) -> Floats:
    """Give what a second of every task costs."""
    price: Floats = schedule.nodes * instance.price_per_node_s[schedule.machine]
    return price


def _sample(
    schedule: Schedule,
    instance: Instance,
    deviation: Floats,
    loops: Sequence[LoopBody],
    weight: Floats,
    rng: np.random.Generator,
) -> Floats:
    """Give makespan, cost, time and cost of all iterations (rows) of every sample."""
    # Most plans have nothing to sample, and need no decoder.
    from weft.planners.decoding import APPEND, decode_population, encode_schedule

    genome = encode_schedule(instance, schedule)
    found = []
    for seconds in _durations(schedule, instance, deviation, rng):
        decoded = decode_population(instance, *genome, seconds=seconds, rule=APPEND, times=bool(loops))
        total = decoded.makespan_s
        if decoded.start_s is not None and decoded.finish_s is not None:
            total = total_seconds(decoded.start_s, decoded.finish_s, loops)
        found.append(np.stack([decoded.makespan_s, decoded.cost, total, seconds @ weight]))
    return np.concatenate(found, axis=1)


def _durations(
    schedule: Schedule, instance: Instance, deviation: Floats, rng: np.random.Generator
) -> Iterator[Floats]:
    """Give durations (samples x tasks), some samples at a time; the numbers do not depend on how many."""
    unsure = np.flatnonzero(deviation)
    middle = np.where(instance.graph.kind == COMPUTE, schedule.finish_s - schedule.start_s, 0.0)
    # Shares of one machine are slow together.
    host = instance.network.host[schedule.machine[unsure]]
    common = rng.standard_normal((_SAMPLES, int(instance.network.host.max(initial=0)) + 1))
    rows = max(1, _CHUNK // max(1, len(instance)))
    for first in range(0, _SAMPLES, rows):
        shared = common[first : first + rows]
        own = rng.standard_normal((len(shared), len(unsure)))
        late = math.sqrt(_COMMON_SHARE) * shared[:, host] + math.sqrt(1.0 - _COMMON_SHARE) * own
        seconds = np.tile(middle, (len(shared), 1))
        seconds[:, unsure] *= np.exp(deviation[unsure] * late)
        yield seconds
