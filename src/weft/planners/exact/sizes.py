"""Sizes: how large the exact model of an instance is, counted before anything is built."""

from __future__ import annotations

import numpy as np

from weft.instance.instance import Instance
from weft.planners.exact.alike import moves_nothing, one_way_network
from weft.planners.exact.places import places_of
from weft.workflow.unfolding.task_graph import TRANSFER

__all__ = ["MOST_TERMS", "terms_of"]

MOST_TERMS = 50_000
"""Literals and terms of rules above which no model is built: that takes seconds, and little is found."""


def terms_of(instance: Instance) -> int:
    """Count literals and terms; where they are far too many, roughly."""
    modes = sum(len(group) * len(group.tasks) for group in instance.groups)
    tasks, edges, machines = len(instance), instance.graph.edge_count, len(instance.machines)
    if tasks + edges > MOST_TERMS or modes > MOST_TERMS * 100 or machines * len(instance.groups) > MOST_TERMS:
        return modes + tasks + edges
    if moves_nothing(instance):
        merged = np.isin(np.arange(machines), [part[0] for part in places_of(instance).machines])
        kept = sum(int(merged[group.machine].sum()) * len(group.tasks) for group in instance.groups)
        return kept + tasks + edges
    links = edges + int((instance.graph.kind == TRANSFER).sum())
    hosts, locations = len(np.unique(instance.network.host)), len(instance.network.latency_s)
    return modes + tasks + links * (3 * hosts if one_way_network(instance) else locations * locations)
