"""Bounds by co-location: some tasks must share a host, because their data would arrive too late otherwise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.instance.instance import Instance
from weft.records import dataclass
from weft.schedule.bounds.area import SLACK
from weft.schedule.bounds.modes import BoundModes
from weft.schedule.bounds.paths import TransferBounds, heads, tails
from weft.workflow.task_graph import COMPUTE, Floats

_ROUNDS = 4
_CELLS = 500_000
"""Largest number of tasks x hosts; for larger instances only the best host of each task is considered."""
_MOST_RAISED = 2_000
"""Largest number of tasks for which heads and tails are raised."""
_MOST_SETS = 64
"""Largest number of clusters whose subsets are evaluated, the largest clusters first."""

_Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColocationBound:
    """The bound by co-location of one instance; a place is a host or a machine.

    Let T be a makespan to test. If the head of a task, its seconds, the transfer to a successor on another
    host, and seconds and tail of the successor together exceed T, both tasks must be on one host. Tasks
    connected in this way form a cluster, which must run on one host; if no host can run it by T, T is
    refuted. If no host can run two clusters together, the data between them must be transferred. This raises
    heads and tails, so that more tasks may have to share a host. The test is repeated a few times.

    The idea is from bounds for communication delays (C. Papadimitriou, M. Yannakakis, Towards an
    Architecture-Independent Analysis of Parallel Algorithms, SIAM J. Computing 19(2), 1990). Deviations:
    hosts of any capacity and speed; a task runs once; makespans are tried instead of every start. O(e h + v
    h) per T and round for v tasks, e edges and h hosts.
    """

    instance: Instance
    source: _Numbers
    target: _Numbers
    """Per edge: ``source`` is the task at its start, ``target`` the task at its end."""
    moving: TransferBounds
    shortest_s: Floats
    tied: tuple[_Numbers, _Numbers]
    """Pairs of tasks that always share a machine."""
    seconds_s: Floats
    """Tasks x places: the seconds of the fastest mode; infinity if there is none."""
    share_s: Floats
    """Tasks x places: the least node-seconds divided by the nodes of the place."""

    def refutes(self, limit_s: float, head_s: Floats, tail_s: Floats) -> bool:
        """Return whether it is impossible that all tasks finish by ``limit_s``, given heads and tails."""
        limit_s *= 1 + SLACK
        for turn in range(_ROUNDS):
            if (head_s + self.shortest_s + tail_s > limit_s).any():
                return True
            if (clusters := self._clusters(limit_s, head_s, tail_s)) is None:
                return False
            if clusters.overloaded(limit_s, head_s, tail_s):
                return True
            if turn == _ROUNDS - 1 or len(head_s) > _MOST_RAISED:
                return False
            raised = self._raised(clusters, limit_s, head_s, tail_s)
            if (raised[0] <= head_s).all() and (raised[1] <= tail_s).all():
                return False
            head_s, tail_s = raised
        return False

    def _clusters(self, limit_s: float, head_s: Floats, tail_s: Floats) -> _TaskClusters | None:
        """Return clusters of tasks that must share a place to finish by ``limit_s``; None if none must."""
        whole = self.shortest_s + tail_s
        arrival = (head_s + self.shortest_s)[self.source] + self.moving.apart_s
        late = (arrival + whole[self.target] > limit_s) & (self.moving.apart_s > 0)
        pairs = (
            np.concatenate([self.tied[0], self.source[late]]),
            np.concatenate([self.tied[1], self.target[late]]),
        )
        if not len(pairs[0]):
            return None
        label = _label_components(len(head_s), *pairs)
        possible = self.seconds_s + (head_s + tail_s)[:, None] <= limit_s
        return _TaskClusters.of(label, np.where(possible, self.share_s, np.inf), head_s, tail_s)

    def _raised(
        self, clusters: _TaskClusters, limit_s: float, head_s: Floats, tail_s: Floats
    ) -> tuple[Floats, Floats]:
        """Return heads and tails raised by necessary transfers, slow hosts and tasks on the same host."""
        first, second = clusters.label[self.source], clusters.label[self.target]
        same = first == second
        around = np.minimum(clusters.head_s[first], clusters.head_s[second])
        around += np.minimum(clusters.tail_s[first], clusters.tail_s[second])
        # Edges x places is the largest table here, so it is summed in place.
        both_s = clusters.share_s[first]
        both_s += around[:, None]
        both_s += clusters.share_s[second]
        apart_s = np.where((both_s <= limit_s).any(axis=1) | same, 0.0, self.moving.apart_s)
        moving_s = np.maximum(self.moving.edge_s, apart_s)
        possible = np.isfinite(clusters.share_s)[clusters.label]
        seconds_s = np.maximum(np.where(possible, self.seconds_s, np.inf).min(axis=1), self.shortest_s)
        share_s = np.where(possible, self.share_s, np.inf).min(axis=1)
        source, target, graph = self.source[same], self.target[same], self.instance.graph
        head_s = np.maximum(head_s, _one_after_another(source, target, share_s, head_s))
        tail_s = np.maximum(tail_s, _one_after_another(target, source, share_s, tail_s))
        return heads(graph, seconds_s, head_s, moving_s), tails(graph, seconds_s, moving_s, tail_s)


def _one_after_another(near: _Numbers, task: _Numbers, share_s: Floats, base_s: Floats) -> Floats:
    """Return for each task the earliest time at which all its predecessors on its host have finished.

    ``near`` and ``task`` are pairs of a predecessor and its successor.
    """
    least = np.full(len(base_s), np.inf)
    np.minimum.at(least, task, base_s[near])
    total = np.bincount(task, share_s[near], len(base_s))
    return np.where(np.isfinite(least), least + total, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _TaskClusters:
    label: _Numbers
    """Per task: its cluster."""
    order: _Numbers
    first: _Numbers
    """The tasks of cluster c are in ``order`` from ``first[c]``."""
    size: _Numbers
    needs_s: Floats
    """Tasks x places: seconds of the whole place that a task needs; infinity if it cannot run on it."""
    share_s: Floats
    """Clusters x places: sum of ``needs_s`` over the tasks of the cluster."""
    head_s: Floats
    tail_s: Floats
    """Per cluster: the minimum over its tasks."""

    @classmethod
    def of(cls, label: _Numbers, needs_s: Floats, head_s: Floats, tail_s: Floats) -> _TaskClusters:
        """Return the clusters of tasks.

        ``label`` is the cluster of each task, ``needs_s`` a table (tasks x places) as in the field of this
        name; ``head_s`` and ``tail_s`` are per task.
        """
        order, size = np.argsort(label, kind="stable"), np.bincount(label)
        first = np.cumsum(size) - size
        return cls(
            label=label,
            order=order,
            first=first,
            size=size,
            needs_s=needs_s,
            share_s=np.add.reduceat(needs_s[order], first, axis=0),
            head_s=np.minimum.reduceat(head_s[order], first),
            tail_s=np.minimum.reduceat(tail_s[order], first),
        )

    def overloaded(self, limit_s: float, head_s: Floats, tail_s: Floats) -> bool:
        """Return whether some cluster fits at no place.

        Sets ``share_s`` to infinity where a cluster does not fit.
        """
        self.share_s[(self.head_s + self.tail_s)[:, None] + self.share_s > limit_s] = np.inf
        if np.isinf(self.share_s).all(axis=1).any():
            return True
        several = np.flatnonzero(self.size > 2)
        for cluster in several[np.argsort(-self.size[several], kind="stable")[:_MOST_SETS]].tolist():
            tasks = self.order[self.first[cluster] : self.first[cluster] + self.size[cluster]]
            late = self._latest_s(tasks, head_s, tail_s) > limit_s
            if late.all():
                return True
            self.share_s[cluster, late] = np.inf
        return False

    def _latest_s(self, tasks: _Numbers, head_s: Floats, tail_s: Floats) -> Floats:
        """Return for each place a lower bound on the makespan if all given tasks run at that place."""
        head_s, tail_s, needs_s = head_s[tasks], tail_s[tasks], self.needs_s[tasks]
        late, far = np.argsort(-head_s, kind="stable"), np.argsort(-tail_s, kind="stable")
        after = (head_s[late] + np.minimum.accumulate(tail_s[late]))[:, None] + needs_s[late].cumsum(axis=0)
        before = (np.minimum.accumulate(head_s[far]) + tail_s[far])[:, None] + needs_s[far].cumsum(axis=0)
        return np.asarray(np.maximum(after.max(axis=0), before.max(axis=0)), dtype=np.float64)


def _label_components(tasks: int, first: _Numbers, second: _Numbers) -> _Numbers:
    """Return the number of each task's connected component in the graph of the pairs (first, second)."""
    label = np.arange(tasks)
    while True:
        least = np.minimum(label[first], label[second])
        lower = label.copy()
        np.minimum.at(lower, first, least)
        np.minimum.at(lower, second, least)
        lower = lower[lower]
        if (lower == label).all():
            return np.unique(label, return_inverse=True)[1]
        label = lower


def find_colocation(
    instance: Instance, modes: list[BoundModes], moving: TransferBounds, shortest_s: Floats
) -> ColocationBound | None:
    """Return the bound by co-location for an instance.

    Return None if no tasks can be forced to share a host or a machine.
    """
    graph, tied = instance.graph, _bound_pairs(instance)
    if not (glue := bool(moving.apart_s.any())) and not len(tied[0]):
        return None
    # With transfers a place is a host, otherwise a machine.
    place = (instance.network.host if glue else np.arange(len(instance.machines))).astype(np.intp)
    seconds_s, share_s = _tables(instance, modes, place)
    return ColocationBound(
        instance=instance,
        source=graph.predecessor.astype(np.int64),
        target=np.repeat(np.arange(len(graph)), np.diff(graph.predecessor_pointer)),
        moving=moving,
        shortest_s=shortest_s,
        tied=tied,
        seconds_s=seconds_s,
        share_s=share_s,
    )


def _bound_pairs(instance: Instance) -> tuple[_Numbers, _Numbers]:
    """Return pairs of consecutive tasks of the same abstract machine."""
    graph = instance.graph
    compute = np.flatnonzero(graph.kind == COMPUTE)
    order = compute[np.argsort(graph.variable[compute], kind="stable")]
    same = graph.variable[order[1:]] == graph.variable[order[:-1]]
    return order[:-1][same], order[1:][same]


def _tables(instance: Instance, modes: list[BoundModes], place: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Return two tables (tasks x places): least seconds, and least node-seconds over the nodes of the place.

    Tables that would be too large have one column, with the least values of all places.
    """
    tasks, places = len(instance), int(place.max()) + 1
    capacity = np.bincount(place, instance.capacity, places)
    capacity[place[instance.unlimited]] = np.inf
    single = tasks * places > _CELLS
    seconds_s, share_s = (np.full((tasks, 1 if single else places), np.inf) for _ in range(2))
    computing = instance.graph.kind == COMPUTE
    seconds_s[~computing], share_s[~computing] = 0.0, 0.0
    for found in modes:
        shares = found.unit_s * (found.nodes / capacity[place[found.machine]])
        if single:
            seconds_s[found.tasks, 0] = found.scale * found.unit_s.min(axis=1)[found.row]
            share_s[found.tasks, 0] = found.scale * shares.min(axis=1)[found.row]
            continue
        for table, values in ((seconds_s, found.unit_s), (share_s, shares)):
            at, least = found.least_by(place, values)
            table[np.ix_(found.tasks, at)] = found.scale[:, None] * least[found.row]
    return seconds_s, share_s
