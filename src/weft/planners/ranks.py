"""Priorities of list planners: mean seconds, ranks, levels, ready orders, and classes of equal tasks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.instance.instance import Instance
from weft.kernels import compilation
from weft.kernels import priorities as kernel
from weft.kernels.problem import TABLE
from weft.planners.problem import compile_problem
from weft.workflow.task_graph import COMPUTE, TRANSFER, Floats, Indices

_EDGE_S, _READY_TASK_S = 0.2e-6, 3e-6
"""Approximate seconds in plain Python: per edge for ranks, per task for a ready order."""


def mean_seconds(instance: Instance) -> Floats:
    """Return the mean seconds of each task over its candidates, and of each transfer over all host pairs."""
    graph, network = instance.graph, instance.network
    means = np.zeros(len(graph))
    sets = instance.candidates[graph.variable]
    for index in np.unique(sets).tolist():
        members = sets == index
        means[members] = instance.seconds.means_over(instance.candidate_sets[index])[members]
    transfers = graph.kind == TRANSFER
    if transfers.any() and len(np.unique(network.host)) > 1:
        size = graph.transfer_bytes[transfers]
        means[transfers] = network.mean_latency_s + size * network.mean_inverse_bandwidth
    return np.nan_to_num(means)


def mean_communication_s(instance: Instance) -> Floats:
    """Return the mean transfer seconds of each edge over pairs of different machines; 0 on a single host."""
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
    """Return ``rank_u(i) = w_i + max over successors j of (c_ij + rank_u(j))`` (HEFT, equation 8).

    ``seconds`` is w per task and ``communication_s`` is c per edge; by default the means of this module.
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
    """Return ``rank_d(i) = max over predecessors j of (rank_d(j) + w_j + c_ji)`` (HEFT, equation 9)."""
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
    """Return the tasks by descending rank; ties by index, so that predecessors stay first."""
    return np.argsort(-ranks, kind="stable").astype(np.uint32)


def ready_order(instance: Instance, priority: Floats) -> Indices:
    """Return a topological order in which the ready task with the highest priority always comes next.

    Ties go to the lower index.
    """
    tasks = compile_problem(instance).tasks
    number = tasks.number
    order, index = np.zeros(number, dtype=np.uint32), np.arange(number, dtype=np.uint32)
    scratch = np.zeros(number, dtype=np.int64), np.zeros(number, dtype=np.uint32)
    inputs = (number, tasks.pointer, tasks.after_pointer, tasks.after, -priority, index, *scratch)
    work_s = _READY_TASK_S * (number + len(tasks.after))
    compilation.run_kernel(kernel.order_ready, inputs, (order,), work_s=work_s)
    return order


def rank_by_priority(priority: Floats) -> Indices:
    """Return the position of every task when sorted by descending priority; ties by index."""
    index = np.arange(len(priority), dtype=np.uint32)
    ranks = np.empty_like(index)
    ranks[np.lexsort((index, -priority))] = index
    return ranks


def static_levels(instance: Instance, seconds: Floats | None = None) -> Floats:
    """Return the seconds of the longest path from each task to an exit, without communication.

    The seconds of the task itself are included. ``seconds`` holds the seconds of each task; the default is
    ``mean_seconds``.
    """
    return upward_ranks(instance, seconds=seconds, communication_s=np.zeros(instance.graph.edge_count))


def median_seconds(instance: Instance) -> Floats:
    """Return for each compute task the median over its machines of its least seconds; 0 for other tasks."""
    medians = np.zeros(len(instance))
    for group in instance.groups:
        firsts = np.flatnonzero(np.diff(group.machine.astype(np.int64), prepend=-1))
        for tasks, seconds in group.chunks():
            medians[tasks] = np.median(np.minimum.reduceat(seconds, firsts, axis=1), axis=1)
    return medians


def least_seconds(instance: Instance, task: int) -> Floats:
    """Return the least seconds of a compute task on every machine; infinite where the task cannot run."""
    modes = instance.modes(task)
    least = np.full(len(instance.machines), np.inf)
    np.minimum.at(least, modes.machine, modes.seconds)
    return least


def link_equal_tasks(instance: Instance, offset: Floats, rank: Indices) -> Indices:
    """Return for each task the next task by rank that is equal to it; ``len(instance)`` if there is none.

    Equal tasks have the same predecessor or none, the same modes, seconds, amounts and offset, and each has
    its own binding variable, as the points of many sweeps do. A planner evaluates only the first of several
    equal tasks. O(v log v).
    """
    following = np.full(len(instance), len(instance), dtype=np.uint32)
    problem = compile_problem(instance)
    if problem.modes.layout == TABLE:
        return following  # every task has its own seconds
    graph = instance.graph
    pointer = graph.predecessor_pointer
    one = np.flatnonzero(np.diff(pointer) == 1)
    edges = pointer[one]
    tasks = np.flatnonzero(_is_independent(instance))
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


def _is_independent(instance: Instance) -> NDArray[np.bool_]:
    """Return a mask of the compute tasks whose placement depends on at most one other task."""
    graph = instance.graph
    degree = np.diff(graph.predecessor_pointer)
    sources = graph.source_variable[graph.kind == TRANSFER]
    users = np.bincount(np.concatenate((graph.variable, sources)), minlength=len(graph.variables))
    users[list(instance.pinned)] = 2
    marked: NDArray[np.bool_] = (graph.kind == COMPUTE) & (degree <= 1) & (users[graph.variable] == 1)
    return marked
