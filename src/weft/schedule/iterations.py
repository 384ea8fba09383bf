"""How long all expected iterations of the loops take, and what they cost, from the plan of one.

A loop that is expected to run n times adds (n - 1) times the span of its body in the plan; a loop inside
another one adds that once per iteration of the outer one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from weft.schedule.schedule import Schedule
from weft.workflow.unfolding.task_graph import Floats, LoopBody, TaskGraph

__all__ = ["expected_total_s", "times_each", "total_s"]


def expected_total_s(schedule: Schedule, graph: TaskGraph) -> float | None:
    """Add to the makespan the further iterations of every loop; None where a loop does not say how many."""
    if any(body.expect is None for body in graph.loops):
        return None
    return float(total_s(schedule.start_s, schedule.finish_s, graph.loops))


def total_s(start_s: Floats, finish_s: Floats, loops: Sequence[LoopBody]) -> Floats:
    """Give the time of all expected iterations; a loop that does not say how many has one.

    Times are given per task, or per sample and task.
    """
    total = np.asarray(finish_s.max(axis=-1, initial=0.0))
    for body in loops:
        if len(body.tasks):
            span = finish_s[..., body.tasks].max(axis=-1) - start_s[..., body.tasks].min(axis=-1)
            outer = math.prod(other.expect or 1 for other in loops if _contains(other, body))
            total = total + outer * ((body.expect or 1) - 1) * span
    return total


def times_each(tasks: int, loops: Sequence[LoopBody]) -> Floats:
    """Give how often each task is expected to run; a loop that does not say runs once."""
    times = np.ones(tasks)
    for body in loops:
        times[body.tasks] *= body.expect or 1
    return times


def _contains(outer: LoopBody, inner: LoopBody) -> bool:
    return len(inner.tasks) < len(outer.tasks) and bool(np.isin(inner.tasks, outer.tasks).all())
