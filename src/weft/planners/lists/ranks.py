"""Priorities of list planners: mean seconds, mean communication, upward rank."""

from __future__ import annotations

import numpy as np

from weft.instance.instance import Instance
from weft.workflow.unfolding.task_graph import TRANSFER, Floats

__all__ = ["mean_communication_s", "mean_seconds", "upward_ranks"]


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


def upward_ranks(instance: Instance) -> Floats:
    """Give ``rank_u(i) = w_i + max over successors j of (c_ij + rank_u(j))`` (HEFT, equation 8)."""
    graph = instance.graph
    seconds, communication = mean_seconds(instance).tolist(), mean_communication_s(instance).tolist()
    pointer, after = graph.successor_pointer.tolist(), graph.successor.tolist()
    edges = graph.successor_edge.tolist()
    ranks = [0.0] * len(graph)
    for task in range(len(graph) - 1, -1, -1):
        longest = 0.0
        for position in range(pointer[task], pointer[task + 1]):
            length = communication[edges[position]] + ranks[after[position]]
            if length > longest:
                longest = length
        ranks[task] = seconds[task] + longest
    return np.asarray(ranks)
