"""Promises: when a run that follows a plan should be through, all expected iterations of its loops included.

A plan has one iteration of a loop. Each further one that is expected adds the span of the loop's body; a loop
inside another one adds it once per iteration of the outer one.
"""

from __future__ import annotations

import math

from weft.engine.state.plans import Line, StoredPlan
from weft.workflow.unfolding.task_graph import LoopBody, TaskGraph

__all__ = ["promised_s"]


def promised_s(plan: StoredPlan, graph: TaskGraph, arrival_s: float) -> float | None:
    """Give the seconds that a run takes by its first plan; None: a loop does not say how often it runs."""
    total_s = plan.finish_s - arrival_s
    bodies = [(body, frozenset(body.tasks.tolist())) for body in graph.loops]
    for body, tasks in bodies:
        if body.expect is None:
            return None
        outer = [other.expect or 1 for other, around in bodies if tasks < around]
        total_s += math.prod(outer) * (body.expect - 1) * _span_s(plan, graph, body)
    return total_s


def _span_s(plan: StoredPlan, graph: TaskGraph, body: LoopBody) -> float:
    found: list[Line] = [
        line for task in body.tasks.tolist() if (line := plan.lines.get(graph.names[task])) is not None
    ]
    if not found:
        return 0.0
    return max(line.finish_s for line in found) - min(line.start_s for line in found)
