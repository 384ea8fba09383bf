"""Priorities of list planners: mean seconds, mean communication, upward and downward ranks."""

from __future__ import annotations

import numpy as np

from weft.instance.instance import Instance
from weft.kernels import forms
from weft.kernels import ranks as kernel
from weft.planners.problem import problem_of
from weft.workflow.unfolding.task_graph import TRANSFER, Floats, Indices

__all__ = ["by_rank", "downward_ranks", "mean_communication_s", "mean_seconds", "upward_ranks"]

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
    tasks = problem_of(instance).tasks
    forms.run(
        kernel.upward_ranks,
        (len(graph), tasks.after_pointer, tasks.after, tasks.after_edge, spent, communication),
        (ranks,),
        work_s=_EDGE_S * (len(graph) + graph.edge_count),
    )
    return ranks


def downward_ranks(instance: Instance) -> Floats:
    """Give ``rank_d(i) = max over predecessors j of (rank_d(j) + w_j + c_ji)`` (HEFT, equation 9)."""
    graph = instance.graph
    ranks = np.zeros(len(graph))
    tasks = problem_of(instance).tasks
    forms.run(
        kernel.downward_ranks,
        (len(graph), tasks.pointer, tasks.before, mean_seconds(instance), mean_communication_s(instance)),
        (ranks,),
        work_s=_EDGE_S * (len(graph) + graph.edge_count),
    )
    return ranks


def by_rank(ranks: Floats) -> Indices:
    """Order tasks by descending rank; ties go to the lower index, which is never after a successor."""
    return np.argsort(-ranks, kind="stable").astype(np.uint32)
