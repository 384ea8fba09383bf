"""The distribution of makespan and cost of a plan under uncertain durations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from weft.instance.instance import Instance
from weft.randomness import generator
from weft.records import dataclass
from weft.schedule.costs import schedule_cost
from weft.schedule.schedule import Schedule, expected_executions, total_seconds
from weft.workflow.task_graph import COMPUTE, Floats, LoopBody

_SAMPLES = 200
_Z90 = 1.2815515655446004
"""The 90 % quantile of the standard normal distribution."""
_COMMON_SHARE = 0.5
"""Share of the variance that is common to all tasks of a machine."""
_CHUNK = 4_000_000
"""Largest number of sampled durations in memory at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanForecast:
    """The P50 and P90 of makespan and cost of a plan."""

    makespan_p50_s: float
    makespan_p90_s: float
    total_p50_s: float
    """P50 of the seconds of all expected iterations; a loop without an expected number counts once."""
    total_p90_s: float
    total_cost_p50: float
    total_cost_p90: float
    cost_p50: float
    cost_p90: float
    tasks: int
    """Number of compute tasks that take time."""
    exact: int
    """Number of compute tasks that take time and whose estimate has no P90."""


def forecast_schedule(
    schedule: Schedule, instance: Instance, *, seed: int, loops: Sequence[LoopBody] | None = None
) -> PlanForecast:
    """Return P50 and P90 of makespan and cost of a schedule.

    ``loops`` are the loops whose iterations are counted, by default those of the graph.

    Bindings, node counts and the order on every machine are kept. 200 samples of the durations are drawn, and
    the schedule is decoded with each sample. The duration of a task is log-normal. Its P50 is the duration in
    the schedule, and its ratio of P90 to P50 is the largest ratio of the task's modes. Half of the variance
    of the logarithm is one factor per machine and sample, because a machine may be slower than estimated; the
    other half is drawn per task. The tasks of one machine are therefore correlated. Within a sample all
    iterations of a loop take the same time.

    Estimates without a P90 count as exact. If all estimates are exact, nothing is drawn, and P50 and P90 are
    both the values of the schedule. Complexity O(200 (v + e)) for v tasks and e edges.
    """
    bodies = instance.graph.loops if loops is None else loops
    timed = (instance.graph.kind == COMPUTE) & (schedule.finish_s > schedule.start_s)
    spread = instance.seconds.spread
    known = timed & np.isfinite(spread)
    deviation = np.zeros(len(instance))
    # A P90 that is not above the P50 means no spread.
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
    """Return the cost per second of every task: its nodes times the price of a node of its machine."""
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
    """Return an array of four rows and a column per sample.

    The rows are makespan, cost, seconds of all iterations, and cost of all iterations.
    """
    # Imported here, because most plans have nothing to sample.
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
    """Yield random durations (samples x tasks) in chunks; values do not depend on the size of the chunks."""
    unsure = np.flatnonzero(deviation)
    middle = np.where(instance.graph.kind == COMPUTE, schedule.finish_s - schedule.start_s, 0.0)
    # Virtual machines (shares) of the same machine have a common factor.
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
