"""M-S and pM-S without an engine: dynamic assignment of the subtasks of layered parameter sweeps.

T. Ma, R. Buyya, Critical-Path and Priority based Algorithms for Scheduling Workflows with Parameter Sweep
Tasks on Global Grids, sections on M-S and pM-S. Every layer has a master that gives its first ready subtask
to an idle machine of the layer. In M-S the first subtask has the lowest index. In pM-S a finished subtask
makes all unfinished ancestors of its children more urgent.

Deviations: a subtask is ready when its parents have finished (as printed: when none is unscheduled), and the
run ends when all have finished. After a finish, all ancestors of all children gain one step of priority, each
once. Subtasks that finish at the same time are processed in the order in which they were dispatched; machines
are assigned after each. Benchmarks compare with these simulations. O(v (v + e)).
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from weft.workflow.generators.sweep_graphs import SweepLayers

__all__ = ["MasterRun", "run_masters"]

_NOT_READY = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterRun:
    """Machine, start and finish per layer and subtask."""

    machine: tuple[tuple[int, ...], ...]
    """Index (from 0) among the machines of the layer."""
    start_s: tuple[tuple[float, ...], ...]
    finish_s: tuple[tuple[float, ...], ...]

    @property
    def makespan_s(self) -> float:
        """Return the finish of the last subtask."""
        return max(map(max, self.finish_s))


def run_masters(layers: SweepLayers, *, priorities: bool) -> MasterRun:
    """Simulate pM-S, or M-S without priorities."""
    masters = _Masters(layers)
    urgent = _urgent_after(masters.parents, masters.children) if priorities else None
    masters.dispatch(0.0)
    while masters.running:
        now_s, _, task, machine = heapq.heappop(masters.running)
        if urgent is not None:
            masters.priority -= urgent[task]
        masters.finish(task, machine)
        masters.dispatch(now_s)
    return masters.result()


@dataclass(slots=True)
class _Masters:
    """The queues of all layers; subtasks are numbered layer by layer."""

    layers: SweepLayers
    first: list[int] = field(init=False)
    """Per layer: its first subtask; one more entry holds the total."""
    parents: list[list[int]] = field(init=False)
    children: list[list[int]] = field(init=False)
    waits_for: list[int] = field(init=False)
    """Per subtask: number of unfinished parents."""
    ready: NDArray[np.bool_] = field(init=False)
    priority: NDArray[np.int64] = field(init=False)
    """Lower is more urgent."""
    idle: list[list[int]] = field(init=False)
    """Per layer: a heap of its idle machines."""
    running: list[tuple[float, int, int, int]] = field(init=False, default_factory=list)
    """A heap of finish, number of the dispatch, subtask, machine."""
    line: dict[int, tuple[int, float, float]] = field(init=False, default_factory=dict)
    """Per subtask: machine, start, finish."""

    def __post_init__(self) -> None:
        layers = self.layers
        self.first = [0, *itertools.accumulate(map(len, layers.lengths))]
        number = self.first[-1]
        before = [0, *self.first]
        self.parents = [
            [before[index] + parent for parent in of]
            for index, layer in enumerate(layers.parents)
            for of in layer
        ]
        self.children = [[] for _ in range(number)]
        for task, parents in enumerate(self.parents):
            for parent in parents:
                self.children[parent].append(task)
        self.waits_for = list(map(len, self.parents))
        self.ready = np.array(self.waits_for) == 0
        self.priority = np.zeros(number, dtype=np.int64)
        self.idle = [list(range(len(throughputs))) for throughputs in layers.throughputs]

    def finish(self, task: int, machine: int) -> None:
        """Free the machine and update the children of a subtask."""
        layer = next(index for index, first in enumerate(self.first[1:]) if task < first)
        heapq.heappush(self.idle[layer], machine)
        for child in self.children[task]:
            self.waits_for[child] -= 1
            self.ready[child] = self.waits_for[child] == 0

    def dispatch(self, now_s: float) -> None:
        """Give ready subtasks to idle machines, layer by layer, by machine index."""
        for layer, (begin, end) in enumerate(itertools.pairwise(self.first)):
            ready = self.ready[begin:end]
            for _ in range(min(len(self.idle[layer]), int(np.count_nonzero(ready)))):
                # Ties: lowest index.
                position = int(np.argmin(np.where(ready, self.priority[begin:end], _NOT_READY)))
                ready[position] = False
                machine = heapq.heappop(self.idle[layer])
                finish_s = (
                    now_s + self.layers.lengths[layer][position] / self.layers.throughputs[layer][machine]
                )
                task = begin + position
                heapq.heappush(self.running, (finish_s, len(self.line), task, machine))
                self.line[task] = (machine, now_s, finish_s)

    def result(self) -> MasterRun:
        """Return the result layer by layer."""
        lines = [
            [self.line[task] for task in range(begin, end)] for begin, end in itertools.pairwise(self.first)
        ]
        return MasterRun(
            machine=tuple(tuple(line[0] for line in layer) for layer in lines),
            start_s=tuple(tuple(line[1] for line in layer) for layer in lines),
            finish_s=tuple(tuple(line[2] for line in layer) for layer in lines),
        )


def _urgent_after(parents: list[list[int]], children: list[list[int]]) -> NDArray[np.bool_]:
    """Return, per subtask, a mask of the ancestors of its children."""
    number = len(parents)
    ancestors = np.zeros((number, number), dtype=np.bool_)
    for task, of in enumerate(parents):
        ancestors[task] = ancestors[of].any(axis=0)
        ancestors[task, of] = True
    return np.stack([ancestors[of].any(axis=0) for of in children])
