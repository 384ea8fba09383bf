"""Shapes: which tasks have the same modes, so that what depends on modes alone is found once for them.

Also what a mode takes: nodes, and amounts that depend on the node count.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from weft.predictors.seconds import Classes, Related, Seconds
from weft.workflow.unfolding.amounts import ByCount
from weft.workflow.unfolding.task_graph import Floats, Indices, TaskGraph

__all__ = ["Shapes", "amounts_taken", "mode_shapes", "nodes_taken"]

Shapes = NDArray[np.int64]
"""Per task a number; tasks with the same one have the same machines and counts in the predictor's answer."""

_MOST_CORES = 2**31
"""More cores than any machine has; what is asked beyond it fits nowhere either way."""


def nodes_taken(cores: float, count: Indices, node_is_core: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Give the nodes a count takes on each machine: where a node is a core, every core takes one."""
    each = np.int64(min(max(1, math.ceil(cores)), _MOST_CORES))
    return np.where(node_is_core, count * each, count).astype(np.int64)


def amounts_taken(graph: TaskGraph, by_count: ByCount, task: int, count: Indices) -> Floats | None:
    """Give the amounts (modes x names) of modes with these counts; None: the count does not matter."""
    rows = by_count.of(task)
    return rows[np.searchsorted(graph.count_sets[graph.counts[task]], count)] if len(rows) else None


def mode_shapes(seconds: Seconds, tasks: int) -> Shapes:
    """Number the tasks so that those with the same number have the same machines and counts."""
    if isinstance(seconds, Classes):
        return seconds.task_class.astype(np.int64)
    if not isinstance(seconds, Related):
        known: dict[tuple[bytes, bytes], int] = {}
        rows = (seconds.modes(task)[:2] for task in range(tasks))
        keys = ((machine.tobytes(), count.tobytes()) for machine, count in rows)
        return np.fromiter((known.setdefault(key, len(known)) for key in keys), np.int64, tasks)
    laws, sets = len(seconds.speedup), len(seconds.count_sets)
    shapes = (seconds.service.astype(np.int64) * laws + seconds.law) * sets + seconds.counts
    # Work so large that it takes for ever somewhere is not possible there: such a task is a shape of its own.
    least = np.fmin.reduce(seconds.speedup, None, initial=1.0)
    slowest = seconds.work / seconds.rate.min(initial=1.0) / least
    endless = np.flatnonzero(~np.isfinite(slowest))
    shapes[endless] = len(seconds.rate) * laws * sets + endless
    return shapes
