"""Paths that choose machines: every task of a path is somewhere, and data between two places take time.

A task can have ended on a machine at the earliest if each of its predecessors is wherever that is best for
this one task: machines are never busy, and a task may be in several places for several successors. Both only
make times smaller, so they are bounds: for unlike machines much better ones than fastest ways with free
data. The same backwards gives tails.

Complexity O(e (p + l^2)) for e edges, p machines and l network locations; larger instances are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.instance.instance import Instance
from weft.schedule.bounds.ways import Ways
from weft.workflow.unfolding.task_graph import COMPUTE, TRANSFER, Floats, TaskGraph

__all__ = ["MachinePaths", "machine_paths"]

_CELLS = 3_000_000
"""The most tasks x machines."""
_LINKS = 60_000_000
"""The most edges x locations x locations."""
_TOGETHER = 500_000
"""Cells worked on at a time."""

_Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MachinePaths:
    """What follows from the paths."""

    head_s: Floats
    tail_s: Floats
    longest_s: float
    """The longest path through any task, with the task on the machine that is best for both sides."""


def machine_paths(instance: Instance, ways: list[Ways]) -> MachinePaths | None:
    """Follow all paths; None where that is too much work or cannot tell more than fastest ways do."""
    graph, locations = instance.graph, len(instance.network.latency_s)
    cells = len(graph) * len(instance.machines)
    if cells > _CELLS or graph.edge_count * locations**2 > _LINKS or _one_place_is_best(instance, ways):
        return None
    walk = _Walk(instance, ways)
    ahead, back = walk.follow(forwards=True), walk.follow(forwards=False)
    through = (ahead.out + back.ready).min(axis=1)
    return MachinePaths(
        head_s=ahead.ready.min(axis=1), tail_s=back.ready.min(axis=1), longest_s=float(through.max())
    )


def _one_place_is_best(instance: Instance, ways: list[Ways]) -> bool:
    """Tell whether some machine is the fastest for every task: there all paths are shortest, data free."""
    graph, best = instance.graph, np.ones(len(instance.machines), dtype=bool)
    for found in ways:
        machine, unit_s = found.least_by(np.arange(len(best)), found.unit_s)
        fastest = np.zeros(len(best), dtype=bool)
        fastest[machine] = (unit_s == unit_s.min(axis=1, keepdims=True)).all(axis=0)
        best &= fastest
    moving = graph.kind == TRANSFER
    without = np.concatenate([graph.variable[graph.kind != COMPUTE], graph.source_variable[moving]])
    for variable in np.unique(without).tolist():
        best &= _allowed(instance, variable)
    return bool(best.any())


def _allowed(instance: Instance, variable: int) -> NDArray[np.bool_]:
    allowed = np.zeros(len(instance.machines), dtype=bool)
    allowed[instance.pinned.get(variable, instance.candidates_of(variable))] = True
    return allowed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Direction:
    """The edges as one meets them forwards or backwards."""

    forwards: bool
    pointer: _Numbers
    near: _Numbers
    edge: _Numbers
    arrives: _Numbers
    """Per task: the binding variable where it takes its data."""
    leaves: _Numbers
    """Per task: the binding variable where it leaves them."""


def _direction(graph: TaskGraph, *, forwards: bool) -> _Direction:
    start = np.where(graph.kind == TRANSFER, graph.source_variable, graph.variable).astype(np.int64)
    end = graph.variable.astype(np.int64)
    if forwards:
        return _Direction(
            forwards=True,
            pointer=graph.predecessor_pointer,
            near=graph.predecessor.astype(np.int64),
            edge=np.arange(graph.edge_count),
            arrives=start,
            leaves=end,
        )
    return _Direction(
        forwards=False,
        pointer=graph.successor_pointer,
        near=graph.successor.astype(np.int64),
        edge=graph.successor_edge.astype(np.int64),
        arrives=end,
        leaves=start,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Followed:
    """Tasks x machines, infinite where a task cannot be."""

    ready: Floats
    """Forwards: when everything has arrived; backwards: what follows after the end."""
    out: Floats
    """The same beyond the task: when it has ended; what follows after its start."""


class _Walk:
    """Follows paths in either direction."""

    def __init__(self, instance: Instance, ways: list[Ways]) -> None:
        self.instance, self.network = instance, instance.network
        self.graph = graph = instance.graph
        self.location, self.host = self.network.location.astype(np.intp), self.network.host.astype(np.intp)
        self.hosts = int(self.host.max()) + 1
        self.seconds = np.full((len(graph), len(instance.machines)), np.inf)
        for found in ways:
            machine, unit_s = found.least_by(np.arange(len(instance.machines)), found.unit_s)
            self.seconds[np.ix_(found.tasks, machine)] = found.scale[:, None] * unit_s[found.row]
        for task in np.flatnonzero(graph.kind != COMPUTE).tolist():
            self.seconds[task, _allowed(instance, int(graph.variable[task]))] = 0.0

    def follow(self, *, forwards: bool) -> _Followed:
        """Take the tasks level by level, each after everything that leads to it."""
        direction = _direction(self.graph, forwards=forwards)
        found = _Followed(ready=np.zeros_like(self.seconds), out=np.zeros_like(self.seconds))
        if forwards:
            found.ready[:] = self.instance.earliest_start_s[:, None]
        cells = self.seconds.shape[1] + self.network.latency_s.size
        for tasks in _levels(direction, cells):
            waiting = tasks[direction.pointer[tasks] < direction.pointer[tasks + 1]]
            if len(waiting):
                self._arrive(found, direction, waiting)
            self._pass(found, direction, tasks)
        return found

    def _arrive(self, found: _Followed, direction: _Direction, tasks: _Numbers) -> None:
        """Let some tasks wait for everything that leads to them."""
        first = direction.pointer[tasks]
        counts = direction.pointer[tasks + 1] - first
        starts = np.cumsum(counts) - counts
        entry = np.arange(counts.sum()) + np.repeat(first - starts, counts)
        before, edge, graph = direction.near[entry], direction.edge[entry], self.graph
        data = (graph.edge_seconds[edge], graph.edge_files[edge], graph.edge_bytes[edge])
        times = self._moved(found.out[before], *data)
        same = direction.leaves[before] == np.repeat(direction.arrives[tasks], counts)
        times[same] = found.out[before[same]]
        found.ready[tasks] = np.maximum(found.ready[tasks], np.maximum.reduceat(times, starts, axis=0))

    def _moved(self, out: Floats, fixed_s: Floats, files: Floats, size: Floats) -> Floats:
        """Give when data that leave each machine at some time are on each machine at the earliest."""
        network = self.network
        there = _least_by(out, self.location, len(network.latency_s))
        cost = files[:, None, None] * network.latency_s + size[:, None, None] * network.inverse_bandwidth
        arrival = fixed_s[:, None] + (there[:, :, None] + cost).min(axis=1)
        home = out if self.hosts == out.shape[1] else _least_by(out, self.host, self.hosts)[:, self.host]
        return np.asarray(np.minimum(home, arrival[:, self.location]), dtype=np.float64)

    def _pass(self, found: _Followed, direction: _Direction, tasks: _Numbers) -> None:
        """Get beyond some tasks."""
        moving = self.graph.kind[tasks] == TRANSFER
        plain = tasks[~moving]
        found.ready[plain] = np.where(np.isfinite(self.seconds[plain]), found.ready[plain], np.inf)
        found.out[plain] = found.ready[plain] + self.seconds[plain]
        for task in tasks[moving].tolist():
            here, there = int(direction.arrives[task]), int(direction.leaves[task])
            found.ready[task, ~_allowed(self.instance, here)] = np.inf
            out = found.ready[task]
            if here != there:
                size = self.graph.transfer_bytes[task : task + 1]
                out = self._moved(out[None], np.zeros(1), np.ones(1), size)[0]
            found.out[task] = np.where(_allowed(self.instance, there), out, np.inf)


def _least_by(values: Floats, group: NDArray[np.intp], groups: int) -> Floats:
    """Give the least of every row within each group of columns."""
    if groups == 1:
        return np.asarray(values.min(axis=1, keepdims=True), dtype=np.float64)
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(groups))
    return np.minimum.reduceat(values[:, order], starts, axis=1)


def _levels(direction: _Direction, cells: int) -> Iterator[_Numbers]:
    """Give tasks such that all that leads to them came before, few enough to be worked on at once."""
    starts, near = direction.pointer.tolist(), direction.near.tolist()
    tasks = len(starts) - 1
    level = [0] * tasks
    for task in range(tasks) if direction.forwards else range(tasks - 1, -1, -1):
        for other in near[starts[task] : starts[task + 1]]:
            if level[other] >= level[task]:
                level[task] = level[other] + 1
    order = np.argsort(level, kind="stable")
    part = np.cumsum(cells * np.maximum(1, np.diff(direction.pointer))[order]) // _TOGETHER
    yield from np.split(order, np.flatnonzero(np.diff(np.asarray(level)[order]) | np.diff(part)) + 1)
