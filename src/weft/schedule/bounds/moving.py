"""Moving: how long data must at least take, per edge and per transfer, wherever tasks are placed.

Nothing where two tasks can share a host; else the quickest link between any two places they can be. The same
for two tasks that are known to be apart: then only links between different hosts count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.instance.instance import Instance
from weft.workflow.unfolding.task_graph import TRANSFER, Floats, Indices

__all__ = ["Moving", "moving_of"]

_PAIRS = 400
"""Pairs of candidate sets that are looked at; with more of them data count as free."""

_Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moving:
    """Least seconds of data."""

    edge_s: Floats
    """Per edge (in the order of predecessors)."""
    apart_s: Floats
    """Per edge, if its two tasks are on different hosts; 0 where that cannot be, or says nothing."""
    transfer_s: Floats
    """Per task: of a transfer; 0 for all others."""


def moving_of(instance: Instance) -> Moving:
    """Find the least seconds."""
    graph = instance.graph
    target = np.repeat(np.arange(len(graph)), np.diff(graph.predecessor_pointer))
    reads = np.where(graph.kind == TRANSFER, graph.source_variable, graph.variable).astype(np.uint32)
    places = _Places(instance)
    latency, inverse = places.least(graph.variable[graph.predecessor], reads[target])
    files, size, fixed = graph.edge_files, graph.edge_bytes, graph.edge_seconds
    edge = np.where(np.isnan(latency), 0.0, fixed + files * latency + size * inverse)
    apart = np.zeros(len(edge))
    if len(np.unique(instance.network.host)) > 1:
        far_latency, far_inverse = places.apart()
        apart = fixed + files * far_latency + size * far_inverse
        # A transfer is at both its ends: what it is apart from says nothing.
        moving = graph.kind == TRANSFER
        apart[moving[graph.predecessor] | moving[target]] = 0.0
    transfers = np.flatnonzero(graph.kind == TRANSFER)
    moved = np.zeros(len(graph))
    if len(transfers):
        latency, inverse = places.least(graph.source_variable[transfers], graph.variable[transfers])
        least = latency + graph.transfer_bytes[transfers] * inverse
        moved[transfers] = np.where(np.isnan(latency), 0.0, least)
    return Moving(edge_s=edge, apart_s=apart, transfer_s=moved)


class _Places:
    """The machines of every binding variable, and the links between them."""

    def __init__(self, instance: Instance) -> None:
        self.network = instance.network
        self.sets: list[_Numbers] = [found.astype(np.int64) for found in instance.candidate_sets]
        self.of_variable = instance.candidates.astype(np.int64)
        for variable, machine in instance.pinned.items():
            self.of_variable[variable] = len(self.sets)
            self.sets.append(np.array([machine]))

    def least(self, source: Indices, target: Indices) -> tuple[Floats, Floats]:
        """Give latency and seconds per byte of the quickest link per pair of variables; nan: can be free."""
        free = (np.full(len(source), np.nan), np.full(len(source), np.nan))
        first, second = self.of_variable[source], self.of_variable[target]
        codes, inverse = np.unique(first * len(self.sets) + second, return_inverse=True)
        if len(codes) > _PAIRS or self._common(codes):
            return free
        found = [self._pair(*divmod(code, len(self.sets))) for code in codes.tolist()]
        values = np.array(found).reshape(-1, 2)[inverse]
        values[source == target] = np.nan  # members of one variable share their machine
        return values[:, 0], values[:, 1]

    def _common(self, codes: _Numbers) -> bool:
        """Tell whether some machine is in every set that occurs."""
        occurring = np.unique(np.concatenate(np.divmod(codes, len(self.sets))))
        counts = np.zeros(len(self.network.host), dtype=np.int64)
        for index in occurring.tolist():
            counts[self.sets[index]] += 1
        return bool((counts == len(occurring)).any())

    def _pair(self, first: int, second: int) -> tuple[float, float]:
        network, here, there = self.network, self.sets[first], self.sets[second]
        if np.isin(network.host[here], network.host[there]).any():
            return np.nan, np.nan
        links = np.ix_(np.unique(network.location[here]), np.unique(network.location[there]))
        return float(network.latency_s[links].min()), float(network.inverse_bandwidth[links].min())

    def apart(self) -> tuple[float, float]:
        """Give the least latency and seconds per byte between two different hosts."""
        network = self.network
        hosts = np.unique(np.stack([network.location, network.host]), axis=1)[0]
        shared = np.flatnonzero(np.bincount(hosts, minlength=len(network.latency_s)) > 1)
        return _least_apart(network.latency_s, shared), _least_apart(network.inverse_bandwidth, shared)


def _least_apart(links: Floats, shared: NDArray[np.intp]) -> float:
    """Give the least entry off the diagonal, or on it where a location has several hosts."""
    least, size = float(links[shared, shared].min(initial=np.inf)), len(links)
    if size > 1:
        # All entries but the last in rows of one more: the diagonal is the first column then.
        apart = np.ascontiguousarray(links).reshape(-1)[:-1].reshape(size - 1, size + 1)[:, 1:]
        least = min(least, float(apart.min()))
    return least
