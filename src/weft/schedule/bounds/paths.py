"""Bounds by paths: the earliest start of a task (its head) and the least time after its finish (its tail)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from weft.instance.instance import Instance
from weft.records import dataclass
from weft.schedule.bounds.modes import BoundModes
from weft.workflow.task_graph import COMPUTE, TRANSFER, Floats, Indices, TaskGraph


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PathEdges:
    """The predecessors of each task (CSR) and the transfer seconds from them; tasks in topological order."""

    pointer: NDArray[np.int64]
    before: NDArray[np.int64]
    moving_s: Floats

    def __len__(self) -> int:
        return len(self.pointer) - 1


def forward_edges(graph: TaskGraph, moving_s: Floats) -> PathEdges:
    """Return the predecessors of each task, with transfer seconds ``moving_s`` per edge."""
    before = graph.predecessor.astype(np.int64)
    return PathEdges(pointer=graph.predecessor_pointer, before=before, moving_s=moving_s)


def backward_edges(graph: TaskGraph, moving_s: Floats) -> PathEdges:
    """Return the predecessors of each task in the reversed graph, in which tasks are numbered backwards."""
    lengths = np.diff(graph.successor_pointer)[::-1]
    pointer = np.concatenate([[0], np.cumsum(lengths)])
    first = graph.successor_pointer[:-1][::-1]
    entry = np.repeat(first - pointer[:-1], lengths) + np.arange(len(graph.successor))
    before = len(graph) - 1 - graph.successor[entry].astype(np.int64)
    return PathEdges(pointer=pointer, before=before, moving_s=moving_s[graph.successor_edge[entry]])


def heads(graph: TaskGraph, seconds_s: Floats, earliest_s: Floats, moving_s: Floats | None = None) -> Floats:
    """Return a lower bound on the start of each task (its head).

    ``seconds_s`` and ``earliest_s`` (a lower bound) are per task, ``moving_s`` (transfer times) per edge.
    """
    pointer, before = graph.predecessor_pointer.tolist(), graph.predecessor.tolist()
    seconds, found = seconds_s.tolist(), earliest_s.tolist()
    moving = [0.0] * len(before) if moving_s is None else moving_s.tolist()
    finish = [0.0] * len(graph)
    for task, head in enumerate(found):
        for position in range(pointer[task], pointer[task + 1]):
            arrival = finish[before[position]] + moving[position]
            if arrival > head:
                head = arrival
        found[task] = head
        finish[task] = head + seconds[task]
    return np.asarray(found, dtype=np.float64)


def tails(
    graph: TaskGraph, seconds_s: Floats, moving_s: Floats | None = None, least_s: Floats | None = None
) -> Floats:
    """Return the least time from the finish of each task to the end of the workflow.

    ``seconds_s`` is per task, ``moving_s`` (transfer times) per edge, ``least_s`` a lower bound per task.
    """
    pointer, after = graph.successor_pointer.tolist(), graph.successor.tolist()
    seconds = seconds_s.tolist()
    moving = [0.0] * len(after) if moving_s is None else moving_s[graph.successor_edge].tolist()
    found = [0.0] * len(graph) if least_s is None else least_s.tolist()
    whole = [0.0] * len(graph)
    for task in range(len(graph) - 1, -1, -1):
        tail = found[task]
        for position in range(pointer[task], pointer[task + 1]):
            rest = moving[position] + whole[after[position]]
            if rest > tail:
                tail = rest
        found[task] = tail
        whole[task] = tail + seconds[task]
    return np.asarray(found, dtype=np.float64)


_PAIRS = 400
"""Largest number of pairs of candidate sets; with more pairs all transfers are assumed to take 0 s."""

_Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TransferBounds:
    """Lower bounds of transfer times."""

    edge_s: Floats
    """Per edge (in the order of predecessors): least seconds of its data, whatever the machines."""
    apart_s: Floats
    """Per edge: least seconds if its two tasks are on different hosts; 0 if there is no such bound."""
    transfer_s: Floats
    """Per task: least seconds of a transfer task; 0 for other tasks."""


def bound_transfers(instance: Instance) -> TransferBounds:
    """Return the least transfer times of an instance.

    On a path every task takes at least the seconds of its fastest mode, and data take their least time. Data
    between two tasks take no time if the tasks can share a host, otherwise the time of the fastest link
    between their candidates.
    """
    graph = instance.graph
    target = np.repeat(np.arange(len(graph)), np.diff(graph.predecessor_pointer))
    reads = np.where(graph.kind == TRANSFER, graph.source_variable, graph.variable).astype(np.uint32)
    places = _CandidateSets(instance)
    latency, inverse = places.least(graph.variable[graph.predecessor], reads[target])
    files, size, fixed = graph.edge_files, graph.edge_bytes, graph.edge_seconds
    edge = np.where(np.isnan(latency), 0.0, fixed + files * latency + size * inverse)
    apart = np.zeros(len(edge))
    if len(np.unique(instance.network.host)) > 1:
        far_latency, far_inverse = places.apart()
        apart = fixed + files * far_latency + size * far_inverse
        # A transfer is on two hosts, so there is no bound for its edges.
        moving = graph.kind == TRANSFER
        apart[moving[graph.predecessor] | moving[target]] = 0.0
    transfers = np.flatnonzero(graph.kind == TRANSFER)
    moved = np.zeros(len(graph))
    if len(transfers):
        latency, inverse = places.least(graph.source_variable[transfers], graph.variable[transfers])
        least = latency + graph.transfer_bytes[transfers] * inverse
        moved[transfers] = np.where(np.isnan(latency), 0.0, least)
    return TransferBounds(edge_s=edge, apart_s=apart, transfer_s=moved)


class _CandidateSets:
    """The candidate machines of binding variables, and the links between them."""

    def __init__(self, instance: Instance) -> None:
        self.network = instance.network
        self.sets: list[_Numbers] = [found.astype(np.int64) for found in instance.candidate_sets]
        self.of_variable = instance.candidates.astype(np.int64)
        for variable, machine in instance.pinned.items():
            self.of_variable[variable] = len(self.sets)
            self.sets.append(np.array([machine]))

    def least(self, source: Indices, target: Indices) -> tuple[Floats, Floats]:
        """Return the least latency and seconds per byte for pairs of variables.

        nan means that data need not move, or that there are too many pairs to tell.
        """
        free = (np.full(len(source), np.nan), np.full(len(source), np.nan))
        first, second = self.of_variable[source], self.of_variable[target]
        codes, inverse = np.unique(first * len(self.sets) + second, return_inverse=True)
        if len(codes) > _PAIRS or self._common(codes):
            return free
        found = [self._pair(*divmod(code, len(self.sets))) for code in codes.tolist()]
        values = np.array(found).reshape(-1, 2)[inverse]
        values[source == target] = np.nan  # tasks of one variable share their machine
        return values[:, 0], values[:, 1]

    def _common(self, codes: _Numbers) -> bool:
        """Return whether some machine is in all candidate sets that occur in the coded pairs."""
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
        """Return the least latency and seconds per byte between two different hosts."""
        network = self.network
        hosts = np.unique(np.stack([network.location, network.host]), axis=1)[0]
        shared = np.flatnonzero(np.bincount(hosts, minlength=len(network.latency_s)) > 1)
        return _least_apart(network.latency_s, shared), _least_apart(network.inverse_bandwidth, shared)


def _least_apart(links: Floats, shared: NDArray[np.intp]) -> float:
    """Return the least entry between different locations, or within a location that has several hosts."""
    least, size = float(links[shared, shared].min(initial=np.inf)), len(links)
    if size > 1:
        # All entries except the last, in rows one longer: the diagonal becomes the first column.
        apart = np.ascontiguousarray(links).reshape(-1)[:-1].reshape(size - 1, size + 1)[:, 1:]
        least = min(least, float(apart.min()))
    return least


_CELLS = 3_000_000
"""Largest number of tasks x machines for ``follow_machine_paths``."""
_LINKS = 60_000_000
"""Largest number of edges x locations x locations for ``follow_machine_paths``."""
_TOGETHER = 500_000
"""Approximate number of table cells computed at a time."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MachinePaths:
    """Heads, tails and the longest path, computed with the times of every task on every machine."""

    head_s: Floats
    tail_s: Floats
    longest_s: float
    """The longest path through any task, with the task on its best machine."""


def follow_machine_paths(instance: Instance, modes: list[BoundModes]) -> MachinePaths | None:
    """Return bounds by paths with the times of tasks on every machine.

    Return None if the instance is too large, or if simpler bounds are as good. The bounds are higher for
    heterogeneous machines. They use the earliest finish of every task on every machine, where each
    predecessor is on the machine that is best for this task alone. Machines count as never busy, and a task
    may be on different machines for different successors; both only decrease times. The same computation
    backwards gives tails. O(e (p + l^2)) for e edges, p machines and l network locations.
    """
    graph, locations = instance.graph, len(instance.network.latency_s)
    cells = len(graph) * len(instance.machines)
    if cells > _CELLS or graph.edge_count * locations**2 > _LINKS or _one_place_is_best(instance, modes):
        return None
    walk = _MachinePathWalk(instance, modes)
    ahead, back = walk.follow(forwards=True), walk.follow(forwards=False)
    through = (ahead.out + back.ready).min(axis=1)
    return MachinePaths(
        head_s=ahead.ready.min(axis=1), tail_s=back.ready.min(axis=1), longest_s=float(through.max())
    )


def _one_place_is_best(instance: Instance, modes: list[BoundModes]) -> bool:
    """Return whether one machine is the fastest for every task, so that bounds by machine are not better."""
    graph, best = instance.graph, np.ones(len(instance.machines), dtype=bool)
    for found in modes:
        machine, unit_s = found.least_by(np.arange(len(best)), found.unit_s)
        fastest = np.zeros(len(best), dtype=bool)
        fastest[machine] = (unit_s == unit_s.min(axis=1, keepdims=True)).all(axis=0)
        best &= fastest
    moving = graph.kind == TRANSFER
    without = np.concatenate([graph.variable[graph.kind != COMPUTE], graph.source_variable[moving]])
    for variable in np.unique(without).tolist():
        best &= _allowed_machines(instance, variable)
    return bool(best.any())


def _allowed_machines(instance: Instance, variable: int) -> NDArray[np.bool_]:
    allowed = np.zeros(len(instance.machines), dtype=bool)
    allowed[instance.pinned.get(variable, instance.candidates_of(variable))] = True
    return allowed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Direction:
    """The edges of the graph in forward or backward direction (CSR)."""

    forwards: bool
    pointer: _Numbers
    near: _Numbers
    edge: _Numbers
    arrives: _Numbers
    """Per task: the binding variable at which a path in this direction arrives."""
    leaves: _Numbers
    """Per task: the binding variable from which a path in this direction continues; differs for transfers."""


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
class _PathTimes:
    """Times of tasks x machines; infinity where a task cannot run."""

    ready: Floats
    """Forwards: when all data have arrived; backwards: the least time after the finish."""
    out: Floats
    """Forwards: the finish; backwards: the least time after the start."""


class _MachinePathWalk:
    """Computes path times of all tasks on all machines, forwards or backwards."""

    def __init__(self, instance: Instance, modes: list[BoundModes]) -> None:
        self.instance, self.network = instance, instance.network
        self.graph = graph = instance.graph
        self.location, self.host = self.network.location.astype(np.intp), self.network.host.astype(np.intp)
        self.hosts = int(self.host.max()) + 1
        self.seconds = np.full((len(graph), len(instance.machines)), np.inf)
        for found in modes:
            machine, unit_s = found.least_by(np.arange(len(instance.machines)), found.unit_s)
            self.seconds[np.ix_(found.tasks, machine)] = found.scale[:, None] * unit_s[found.row]
        for task in np.flatnonzero(graph.kind != COMPUTE).tolist():
            self.seconds[task, _allowed_machines(instance, int(graph.variable[task]))] = 0.0

    def follow(self, *, forwards: bool) -> _PathTimes:
        """Return the path times of all tasks in one direction, computed level by level."""
        direction = _direction(self.graph, forwards=forwards)
        found = _PathTimes(ready=np.zeros_like(self.seconds), out=np.zeros_like(self.seconds))
        if forwards:
            found.ready[:] = self.instance.earliest_start_s[:, None]
        cells = self.seconds.shape[1] + self.network.latency_s.size
        for tasks in _levels(direction, cells):
            waiting = tasks[direction.pointer[tasks] < direction.pointer[tasks + 1]]
            if len(waiting):
                self._arrive(found, direction, waiting)
            self._pass(found, direction, tasks)
        return found

    def _arrive(self, found: _PathTimes, direction: _Direction, tasks: _Numbers) -> None:
        """Fill ``ready`` of the given tasks from the ``out`` of their predecessors in this direction."""
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
        """Return the earliest arrival on each machine of data that leave each machine at ``out``."""
        network = self.network
        there = _least_by(out, self.location, len(network.latency_s))
        cost = files[:, None, None] * network.latency_s + size[:, None, None] * network.inverse_bandwidth
        arrival = fixed_s[:, None] + (there[:, :, None] + cost).min(axis=1)
        home = out if self.hosts == out.shape[1] else _least_by(out, self.host, self.hosts)[:, self.host]
        return np.asarray(np.minimum(home, arrival[:, self.location]), dtype=np.float64)

    def _pass(self, found: _PathTimes, direction: _Direction, tasks: _Numbers) -> None:
        """Fill ``out`` of the given tasks from their ``ready`` and their seconds."""
        moving = self.graph.kind[tasks] == TRANSFER
        plain = tasks[~moving]
        found.ready[plain] = np.where(np.isfinite(self.seconds[plain]), found.ready[plain], np.inf)
        found.out[plain] = found.ready[plain] + self.seconds[plain]
        for task in tasks[moving].tolist():
            here, there = int(direction.arrives[task]), int(direction.leaves[task])
            found.ready[task, ~_allowed_machines(self.instance, here)] = np.inf
            out = found.ready[task]
            if here != there:
                size = self.graph.transfer_bytes[task : task + 1]
                out = self._moved(out[None], np.zeros(1), np.ones(1), size)[0]
            found.out[task] = np.where(_allowed_machines(self.instance, there), out, np.inf)


def _least_by(values: Floats, group: NDArray[np.intp], groups: int) -> Floats:
    """Return the minimum of every row within each group of columns."""
    if groups == 1:
        return np.asarray(values.min(axis=1, keepdims=True), dtype=np.float64)
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(groups))
    return np.minimum.reduceat(values[:, order], starts, axis=1)


def _levels(direction: _Direction, cells: int) -> Iterator[_Numbers]:
    """Yield batches of tasks, of limited size; the predecessors of a task are in earlier batches."""
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
