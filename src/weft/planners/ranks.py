"""Priorities of list planners: mean seconds, mean communication, upward and downward ranks.

Orders of list planners beyond ranks: a ready queue by priority, medians, levels without communication.

Likeness: tasks that differ in nothing a planner looks at, as the points of many sweeps do.

Only the first of them has to be looked at: the others would get the same. Found are tasks with at most one
predecessor, a binding variable of their own, and the same modes, seconds and amounts. O(v log v).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.instance.instance import Instance
from weft.kernels import compilation
from weft.kernels import priorities as kernel
from weft.kernels.priorities import order_ready
from weft.kernels.problem import TABLE
from weft.planners.problem import compile_problem
from weft.workflow.task_graph import COMPUTE, TRANSFER, Floats, Indices

__all__ = [
    "downward_ranks",
    "least_seconds",
    "link_equal_tasks",
    "mean_communication_s",
    "mean_seconds",
    "median_seconds",
    "order_by_rank",
    "rank_by_priority",
    "ready_order",
    "static_levels",
    "upward_ranks",
]


_EDGE_S = 0.2e-6
"""What one edge takes in plain Python, about."""


def mean_seconds(instance: Instance) -> Floats:
    """Give every task's mean over its candidates of the fastest count there; a transfer's over all pairs."""
    graph, network = instance.graph, instance.network
    means = np.zeros(len(graph))
    sets = instance.candidates[graph.variable]
    for index in np.unique(sets).tolist():
        members = sets == index
        means[members] = instance.seconds.means_over(instance.candidate_sets[index])[members]
    moving = graph.kind == TRANSFER
    if moving.any() and len(np.unique(network.host)) > 1:
        means[moving] = network.mean_latency_s + graph.transfer_bytes[moving] * network.mean_inverse_bandwidth
    return np.nan_to_num(means)


def mean_communication_s(instance: Instance) -> Floats:
    """Give every edge's mean over ordered pairs of different machines; 0 when there is only one host."""
    graph, network = instance.graph, instance.network
    if len(np.unique(network.host)) == 1:
        return np.zeros(graph.edge_count)
    return (
        graph.edge_files * network.mean_latency_s
        + graph.edge_bytes * network.mean_inverse_bandwidth
        + graph.edge_seconds
    )


def upward_ranks(
    instance: Instance, *, seconds: Floats | None = None, communication_s: Floats | None = None
) -> Floats:
    """Give ``rank_u(i) = w_i + max over successors j of (c_ij + rank_u(j))`` (HEFT, equation 8).

    ``seconds`` gives w per task, by default the means; ``communication_s`` gives c per edge, by default the
    means over pairs of different machines.
    """
    graph = instance.graph
    spent = mean_seconds(instance) if seconds is None else seconds
    communication = mean_communication_s(instance) if communication_s is None else communication_s
    ranks = np.zeros(len(graph))
    tasks = compile_problem(instance).tasks
    compilation.run_kernel(
        kernel.fill_upward_ranks,
        (len(graph), tasks.after_pointer, tasks.after, tasks.after_edge, spent, communication),
        (ranks,),
        work_s=_EDGE_S * (len(graph) + graph.edge_count),
    )
    return ranks


def downward_ranks(instance: Instance) -> Floats:
    """Give ``rank_d(i) = max over predecessors j of (rank_d(j) + w_j + c_ji)`` (HEFT, equation 9)."""
    graph = instance.graph
    ranks = np.zeros(len(graph))
    tasks = compile_problem(instance).tasks
    compilation.run_kernel(
        kernel.fill_downward_ranks,
        (len(graph), tasks.pointer, tasks.before, mean_seconds(instance), mean_communication_s(instance)),
        (ranks,),
        work_s=_EDGE_S * (len(graph) + graph.edge_count),
    )
    return ranks


def order_by_rank(ranks: Floats) -> Indices:
    """Order tasks by descending rank; ties go to the lower index, which is never after a successor."""
    return np.argsort(-ranks, kind="stable").astype(np.uint32)


_READY_TASK_S = 3e-6
"""What one task takes in plain Python, about."""


def ready_order(instance: Instance, priority: Floats) -> Indices:
    """Order tasks as a ready queue would: the highest priority first, ties by the lower index."""
    tasks = compile_problem(instance).tasks
    number = tasks.number
    order = np.zeros(number, dtype=np.uint32)
    scratch = np.zeros(number, dtype=np.int64), np.zeros(number, dtype=np.uint32)
    inputs = (number, tasks.pointer, tasks.after_pointer, tasks.after, -priority, _indices(number), *scratch)
    compilation.run_kernel(order_ready, inputs, (order,), work_s=_READY_TASK_S * (number + len(tasks.after)))
    return order


def rank_by_priority(priority: Floats) -> Indices:
    """Give the rank of every task among all, the highest priority first; ties by the lower index."""
    ranks = np.empty(len(priority), dtype=np.uint32)
    ranks[np.lexsort((np.arange(len(priority)), -priority))] = _indices(len(priority))
    return ranks


def static_levels(instance: Instance, seconds: Floats | None = None) -> Floats:
    """Give every task's longest way to the end, itself included, without communication.

    ``seconds`` gives the length of every task; by default its mean.
    """
    nothing = np.zeros(instance.graph.edge_count)
    return upward_ranks(instance, seconds=seconds, communication_s=nothing)


def median_seconds(instance: Instance) -> Floats:
    """Give every task's median over its machines of the fastest count there; 0 for what is no computation."""
    medians = np.zeros(len(instance))
    for group in instance.groups:
        firsts = np.flatnonzero(np.diff(group.machine.astype(np.int64), prepend=-1))
        for tasks, seconds in group.chunks():
            medians[tasks] = np.median(np.minimum.reduceat(seconds, firsts, axis=1), axis=1)
    return medians


def least_seconds(instance: Instance, task: int) -> Floats:
    """Give a compute task's least seconds on every machine; infinite where it cannot run."""
    modes = instance.modes(task)
    least = np.full(len(instance.machines), np.inf)
    np.minimum.at(least, modes.machine, modes.seconds)
    return least


def _indices(number: int) -> Indices:
    return np.arange(number, dtype=np.uint32)


def link_equal_tasks(instance: Instance, offset: Floats, rank: Indices) -> Indices:
    """Give per task the next by rank of those that are like it, also in the offset; their number: none."""
    following = np.full(len(instance), len(instance), dtype=np.uint32)
    problem = compile_problem(instance)
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
