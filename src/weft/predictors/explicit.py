"""Explicit seconds: the user, or a task graph of the literature, says how long a task takes on each machine.

A machine that is not named (by its own name, its host's, or ``"*"``) cannot run the task: the answer is "impossible"
and not None, so that a chain does not fall back to work for it. A machine's speed does not change explicit seconds; a
speed-up law does: they hold for the smallest allowed node count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from weft.platform.machine import Machine
from weft.predictors.laws import gain, reference_gain, speedups, widest
from weft.predictors.predictor import Estimate, Flags, Reads, Subject, impossible
from weft.predictors.relating import NO_WORK, UNKNOWN
from weft.predictors.seconds import Classes, Table
from weft.predictors.sizes import MAX_ENTRIES
from weft.predictors.tabulate import tabulate
from weft.workflow.unfolding.task_graph import COMPUTE, EVERYWHERE, Floats, TaskGraph

__all__ = ["ExplicitSeconds"]

_Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplicitSeconds:
    """Answers for every task with ``seconds:``; its estimates count as exact."""

    name: ClassVar[str] = "explicit"
    source: ClassVar[str] = "seconds"
    reads: ClassVar[Reads] = Reads(rate=False)
    final: ClassVar[bool] = True
    rated: ClassVar[bool] = False

    def applies(self, graph: TaskGraph) -> Flags:
        """Take the tasks with explicit seconds."""
        return np.asarray((graph.kind == COMPUTE) & (np.diff(graph.explicit_pointer) > 0))

    def predict(self, subject: Subject, machine: Machine, nodes: int) -> Estimate | None:
        """Look the machine up, and scale from the smallest allowed count to the asked one."""
        if not subject.explicit:
            return None
        for name in (machine.name, machine.host_name, EVERYWHERE):
            if name in subject.explicit:
                work = subject.explicit[name] * reference_gain(subject.law, subject.counts)
                seconds = work / gain(subject.law, nodes)
                found = Estimate(p50_s=seconds, source=self.source)
                return impossible(self.source) if math.isnan(seconds) else found
        return impossible(self.source)

    def works(self, graph: TaskGraph) -> Floats:
        """Give the work of tasks whose seconds are the same everywhere; nan for those with seconds per machine."""
        single = self.applies(graph) & (np.diff(graph.explicit_pointer) == 1)
        tasks = np.flatnonzero(single)
        entry = graph.explicit_pointer[tasks]
        same = np.array([name == EVERYWHERE for name in graph.explicit_names], dtype=np.bool_)
        everywhere = same[graph.explicit_machine[entry]]
        tasks, entry = tasks[everywhere], entry[everywhere]
        works = np.full(len(graph), np.nan)
        works[tasks] = graph.explicit_seconds[entry] * _reference_gains(graph)[tasks]
        return works

    def table(self, graph: TaskGraph, machines: Sequence[Machine]) -> Table | Classes:
        """Write the given seconds down as they are; where that is too much, by classes."""
        width = np.array([len(counts) for counts in graph.count_sets], dtype=np.int64)
        rows = np.repeat(np.arange(len(graph)), np.diff(graph.explicit_pointer))
        reach = _Reach.of(graph, machines)
        modes = (np.diff(reach.pointer)[graph.explicit_machine] * width[graph.counts[rows]]).sum()
        idle = int((graph.kind != COMPUTE).sum()) * len(machines)
        if int(modes) + idle > MAX_ENTRIES:
            return tabulate(self, graph, machines)
        return _write(graph, machines, reach, self.applies(graph))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Reach:
    """The machines each name in ``seconds:`` speaks of (CSR); of several names the one of least rank wins."""

    pointer: _Integers
    machine: _Integers
    rank: _Integers

    @staticmethod
    def of(graph: TaskGraph, machines: Sequence[Machine]) -> _Reach:
        found: dict[str, list[tuple[int, int]]] = {name: [] for name in graph.explicit_names}
        for index, machine in enumerate(machines):
            names = dict.fromkeys((machine.name, machine.host_name, EVERYWHERE))
            for rank, name in enumerate(names):
                if name in found:
                    found[name].append((index, rank))
        rows = list(found.values())
        pairs = np.array([pair for row in rows for pair in row], dtype=np.int64).reshape(-1, 2)
        pointer = np.cumsum([0, *(len(row) for row in rows)], dtype=np.int64)
        return _Reach(pointer=pointer, machine=pairs[:, 0], rank=pairs[:, 1])


def _reference_gains(graph: TaskGraph) -> Floats:
    """Give per task the speed-up on the count that its explicit seconds refer to."""
    sets = len(graph.count_sets)
    codes, position = np.unique(graph.template.astype(np.int64) * sets + graph.counts, return_inverse=True)
    pairs = zip(*(part.tolist() for part in divmod(codes, sets)), strict=True)
    gains = [reference_gain(graph.workflow.tasks[row].speedup, graph.count_sets[counts]) for row, counts in pairs]
    return np.array(gains, dtype=np.float64)[position]


def _write(graph: TaskGraph, machines: Sequence[Machine], reach: _Reach, applies: Flags) -> Table:
    tasks, machine, seconds = _rows(graph, reach)
    laws = speedups(graph, machines)
    mine = applies[tasks]
    tasks, machine = tasks[mine], machine[mine]
    work = (seconds * _reference_gains(graph)[np.repeat(np.arange(len(graph)), 1)][_rows(graph, reach)[0]])[mine]
    idle = np.flatnonzero(graph.kind != COMPUTE)
    tasks = np.concatenate([tasks, np.repeat(idle, len(machines))])
    machine = np.concatenate([machine, np.tile(np.arange(len(machines)), len(idle))])
    work = np.concatenate([work, np.zeros(len(idle) * len(machines))])
    raise NotImplementedError
