"""Likeness: tasks that differ in nothing a planner looks at, as the points of many sweeps do.

Only the first of them has to be looked at: the others would get the same. Found are tasks with at most one
predecessor, a binding variable of their own, and the same modes, seconds and amounts. O(v log v).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.instance.instance import Instance
from weft.kernels.problem import TABLE
from weft.planners.problem import problem_of
from weft.workflow.unfolding.task_graph import COMPUTE, TRANSFER, Floats, Indices

__all__ = ["next_alike"]


def next_alike(instance: Instance, offset: Floats, rank: Indices) -> Indices:
    """Give per task the next by rank of those that are like it, also in the offset; their number: none."""
    following = np.full(len(instance), len(instance), dtype=np.uint32)
    problem = problem_of(instance)
    if problem.modes.layout == TABLE:
        return following  # every task has seconds of its own
    graph = instance.graph
    pointer = graph.predecessor_pointer
    one = np.flatnonzero(np.diff(pointer) == 1)
    edges = pointer[one]
    tasks = np.flatnonzero(_is_simple(instance))
    columns = [instance.group, problem.modes.work, instance.earliest_start_s, offset, *graph.demand.T]
    before = np.full(len(graph), len(graph), dtype=np.uint32)
    before[one] = graph.predecessor[edges]
    columns.append(before)
    for data in (graph.edge_bytes, graph.edge_files, graph.edge_seconds):
        columns.append(np.zeros(len(graph)))
        columns[-1][one] = data[edges]
    by_kind = tasks[np.lexsort((rank[tasks], *(column[tasks] for column in columns)))]
    first, second = by_kind[:-1], by_kind[1:]
    same = np.all([column[first] == column[second] for column in columns], axis=0)
    following[first[same]] = second[same]
    return following


def _is_simple(instance: Instance) -> NDArray[np.bool_]:
    """Say which tasks are looked at without regard to any other task but one predecessor."""
    graph = instance.graph
    degree = np.diff(graph.predecessor_pointer)
    sources = graph.source_variable[graph.kind == TRANSFER]
    users = np.bincount(np.concatenate((graph.variable, sources)), minlength=len(graph.variables))
    users[list(instance.pinned)] = 2
    simple: NDArray[np.bool_] = (graph.kind == COMPUTE) & (degree <= 1) & (users[graph.variable] == 1)
    return simple
