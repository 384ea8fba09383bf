"""How long all expected iterations of the loops take, from the plan of one."""

from __future__ import annotations

import math

import numpy as np

from weft.schedule.schedule import Schedule
from weft.workflow.unfolding.task_graph import LoopBody, TaskGraph

__all__ = ["expected_total_s"]


def expected_total_s(schedule: Schedule, graph: TaskGraph) -> float | None:
    """Add to the makespan the further iterations of every loop; None where a loop does not say how many.

    A loop that is expected to run n times adds (n - 1) times the span of its body in the plan; a loop inside
    another one adds that once per iteration of the outer one.
    """
    total = schedule.makespan_s
    for body in graph.loops:
        if body.expect is None:
            return None
        outer = [other.expect or 1 for other in graph.loops if _contains(other, body)]
        total += math.prod(outer) * (body.expect - 1) * _span_s(schedule, body)
    return total


def _contains(outer: LoopBody, inner: LoopBody) -> bool:
    return len(inner.tasks) < len(outer.tasks) and bool(np.isin(inner.tasks, outer.tasks).all())


def _span_s(schedule: Schedule, body: LoopBody) -> float:
    return float(schedule.finish_s[body.tasks].max() - schedule.start_s[body.tasks].min())
