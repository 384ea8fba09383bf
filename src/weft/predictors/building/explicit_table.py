"""Explicit seconds straight from their columns into the layout ``table``, without a loop over tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.platform.machine import Machine
from weft.predictors.building.csr import Integers, pointers, ranges
from weft.predictors.building.laws import Speedups, reference_gain, speedups
from weft.predictors.building.relating import NO_WORK, UNKNOWN
from weft.predictors.layouts.sizes import MAX_ENTRIES
from weft.predictors.seconds import Table
from weft.workflow.unfolding.task_graph import COMPUTE, EVERYWHERE, Floats, TaskGraph

__all__ = ["explicit_table", "reference_gains"]


def explicit_table(graph: TaskGraph, machines: Sequence[Machine], source: str) -> Table | None:
    """Write every mode down; None where that would be too many."""
    reach = _Reach.of(graph, machines)
    idle = np.flatnonzero(graph.kind != COMPUTE)
    lengths = np.array([len(counts) for counts in graph.count_sets], dtype=np.int64)
    owner = np.repeat(np.arange(len(graph)), np.diff(graph.explicit_pointer))
    named = reach.lengths[graph.explicit_machine] * lengths[graph.counts[owner]]
    if int(named.sum()) + len(idle) * len(machines) > MAX_ENTRIES:
        return None
    rows = _named_rows(graph, reach, owner).followed_by(_idle_rows(idle, len(machines)))
    return _expand(graph, rows, speedups(graph, machines), source)


def reference_gains(graph: TaskGraph) -> Floats:
    """Give per task the speed-up on the count that its explicit seconds refer to."""
    sets = max(len(graph.count_sets), 1)
    codes, position = np.unique(graph.template.astype(np.int64) * sets + graph.counts, return_inverse=True)
    gains = [
        reference_gain(graph.workflow.tasks[template].speedup, graph.count_sets[counts])
        for template, counts in np.stack(divmod(codes, sets), axis=1).tolist()
    ]
    return np.array(gains, dtype=np.float64)[position]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Reach:
    """The machines that each name in ``seconds:`` speaks of; of several names the one of least rank wins."""

    starts: Integers
    lengths: Integers
    machine: Integers
    rank: Integers

    @classmethod
    def of(cls, graph: TaskGraph, machines: Sequence[Machine]) -> _Reach:
        found: dict[str, list[tuple[int, int]]] = {name: [] for name in graph.explicit_names}
        for index, machine in enumerate(machines):
            for rank, name in enumerate(dict.fromkeys((machine.name, machine.host_name, EVERYWHERE))):
                if name in found:
                    found[name].append((index, rank))
        lengths = np.array([len(row) for row in found.values()], dtype=np.int64)
        pairs = np.array([pair for row in found.values() for pair in row], dtype=np.int64).reshape(-1, 2)
        return cls(starts=pointers(lengths)[:-1], lengths=lengths, machine=pairs[:, 0], rank=pairs[:, 1])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Rows:
    """Tasks on machines, with the work that is divided by the speed-up of each count."""

    task: Integers
    machine: Integers
    work: Floats

    def followed_by(self, other: _Rows) -> _Rows:
        return _Rows(
            task=np.concatenate([self.task, other.task]),
            machine=np.concatenate([self.machine, other.machine]),
            work=np.concatenate([self.work, other.work]),
        )


def _named_rows(graph: TaskGraph, reach: _Reach, owner: Integers) -> _Rows:
    work = graph.explicit_seconds * reference_gains(graph)[owner]
    entries = np.flatnonzero(graph.kind[owner] == COMPUTE)
    names = graph.explicit_machine[entries]
    lengths = reach.lengths[names]
    found = ranges(reach.starts[names], lengths)
    entry = np.repeat(entries, lengths)
    task, machine, rank = owner[entry], reach.machine[found], reach.rank[found]
    order = np.lexsort((rank, machine, task))
    task, machine, entry = task[order], machine[order], entry[order]
    first = (np.diff(task, prepend=-1) != 0) | (np.diff(machine, prepend=-1) != 0)
    return _Rows(task=task[first], machine=machine[first], work=work[entry[first]])


def _idle_rows(idle: Integers, machines: int) -> _Rows:
    everywhere = np.tile(np.arange(machines, dtype=np.int64), len(idle))
    return _Rows(task=np.repeat(idle, machines), machine=everywhere, work=np.zeros(len(everywhere)))


def _expand(graph: TaskGraph, rows: _Rows, laws: Speedups, source: str) -> Table:
    """Give each row one entry per node count that its law knows and its machine has."""
    lengths = np.array([len(counts) for counts in laws.count_sets], dtype=np.int64)
    flat = np.array([count for counts in laws.count_sets for count in counts], dtype=np.int64)
    sets = laws.counts[rows.task]
    count = flat[ranges(pointers(lengths)[sets], lengths[sets])]
    task, machine, work = (
        np.repeat(column, lengths[sets]) for column in (rows.task, rows.machine, rows.work)
    )
    fits = count <= laws.capacity[machine]
    task, machine, work, count = task[fits], machine[fits], work[fits], count[fits]
    seconds = work / laws.speedup[laws.law[task], count]
    order = np.lexsort((count, machine, task))
    order = order[~np.isnan(seconds[order])]
    explicit = np.diff(graph.explicit_pointer) > 0
    kinds = np.where(graph.kind != COMPUTE, 1, np.where(explicit, 0, 2)).astype(np.uint8)
    return Table(
        sources=(source, NO_WORK, UNKNOWN),
        source=kinds,
        spread=np.full(len(graph), np.nan),
        pointer=pointers(np.bincount(task[order], minlength=len(graph))),
        machine=machine[order].astype(np.uint32),
        count=count[order].astype(np.uint32),
        seconds=seconds[order],
    )
