"""Explicit seconds: the workflow states the seconds of a task on each machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from weft.platform.machine import Machine
from weft.predictors.predictor import Estimate, Flags, PredictorInputs, TaskFeatures, impossible
from weft.predictors.seconds import MAX_ENTRIES, ClassSeconds, TableSeconds
from weft.predictors.speedups import (
    NO_WORK,
    UNKNOWN,
    Speedups,
    evaluate_law,
    evaluate_laws,
    reference_speedup,
)
from weft.predictors.tabulation import Integers, concatenate_ranges, row_pointers, tabulate
from weft.records import dataclass
from weft.workflow.task_graph import COMPUTE, EVERYWHERE, Floats, TaskGraph


def _explicit_table(graph: TaskGraph, machines: Sequence[Machine], source: str) -> TableSeconds | None:
    """Return the seconds of all modes as a table, built without a loop over tasks.

    Return None if the table might exceed ``MAX_ENTRIES``.
    """
    named_machines = _NamedMachines.of(graph, machines)
    idle = np.flatnonzero(graph.kind != COMPUTE)
    lengths = np.array([len(counts) for counts in graph.count_sets], dtype=np.int64)
    owner = np.repeat(np.arange(len(graph)), np.diff(graph.explicit_pointer))
    named = named_machines.lengths[graph.explicit_machine] * lengths[graph.counts[owner]]
    if int(named.sum()) + len(idle) * len(machines) > MAX_ENTRIES:
        return None
    rows = _named_rows(graph, named_machines, owner).append(_idle_rows(idle, len(machines)))
    return _expand(graph, rows, evaluate_laws(graph, machines), source)


def _reference_speedups(graph: TaskGraph) -> Floats:
    """Return for each task the speed-up on the node count to which its explicit seconds refer."""
    sets = max(len(graph.count_sets), 1)
    codes, position = np.unique(graph.template.astype(np.int64) * sets + graph.counts, return_inverse=True)
    speedups = [
        reference_speedup(graph.workflow.tasks[template].speedup, graph.count_sets[counts])
        for template, counts in np.stack(divmod(codes, sets), axis=1).tolist()
    ]
    return np.array(speedups, dtype=np.float64)[position]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _NamedMachines:
    """The machines that each name in ``seconds:`` matches, in CSR form.

    The rank of a match is 0 for the machine's name, then follow the name of its host and ``*``. If several
    names match a machine, the one with the lowest rank is used.
    """

    starts: Integers
    lengths: Integers
    machine: Integers
    rank: Integers

    @classmethod
    def of(cls, graph: TaskGraph, machines: Sequence[Machine]) -> _NamedMachines:
        found: dict[str, list[tuple[int, int]]] = {name: [] for name in graph.explicit_names}
        for index, machine in enumerate(machines):
            for rank, name in enumerate(dict.fromkeys((machine.name, machine.host_name, EVERYWHERE))):
                if name in found:
                    found[name].append((index, rank))
        lengths = np.array([len(row) for row in found.values()], dtype=np.int64)
        pairs = np.array([pair for row in found.values() for pair in row], dtype=np.int64).reshape(-1, 2)
        return cls(starts=row_pointers(lengths)[:-1], lengths=lengths, machine=pairs[:, 0], rank=pairs[:, 1])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _ModeRows:
    """The work of each pair of task and machine.

    The seconds on n nodes are the work divided by the speed-up on n nodes.
    """

    task: Integers
    machine: Integers
    work: Floats

    def append(self, other: _ModeRows) -> _ModeRows:
        return _ModeRows(
            task=np.concatenate([self.task, other.task]),
            machine=np.concatenate([self.machine, other.machine]),
            work=np.concatenate([self.work, other.work]),
        )


def _named_rows(graph: TaskGraph, named_machines: _NamedMachines, owner: Integers) -> _ModeRows:
    work = graph.explicit_seconds * _reference_speedups(graph)[owner]
    entries = np.flatnonzero(graph.kind[owner] == COMPUTE)
    names = graph.explicit_machine[entries]
    lengths = named_machines.lengths[names]
    found = concatenate_ranges(named_machines.starts[names], lengths)
    entry = np.repeat(entries, lengths)
    task, machine, rank = owner[entry], named_machines.machine[found], named_machines.rank[found]
    order = np.lexsort((rank, machine, task))
    task, machine, entry = task[order], machine[order], entry[order]
    first = (np.diff(task, prepend=-1) != 0) | (np.diff(machine, prepend=-1) != 0)
    return _ModeRows(task=task[first], machine=machine[first], work=work[entry[first]])


def _idle_rows(idle: Integers, machines: int) -> _ModeRows:
    everywhere = np.tile(np.arange(machines, dtype=np.int64), len(idle))
    return _ModeRows(task=np.repeat(idle, machines), machine=everywhere, work=np.zeros(len(everywhere)))


def _expand(graph: TaskGraph, rows: _ModeRows, laws: Speedups, source: str) -> TableSeconds:
    """Return a table with an entry for each row and each node count that the law and the machine allow."""
    lengths = np.array([len(counts) for counts in laws.count_sets], dtype=np.int64)
    flat = np.array([count for counts in laws.count_sets for count in counts], dtype=np.int64)
    sets = laws.counts[rows.task]
    count = flat[concatenate_ranges(row_pointers(lengths)[sets], lengths[sets])]
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
    return TableSeconds(
        sources=(source, NO_WORK, UNKNOWN),
        source=kinds,
        spread=np.full(len(graph), np.nan),
        pointer=row_pointers(np.bincount(task[order], minlength=len(graph))),
        machine=machine[order].astype(np.uint32),
        count=count[order].astype(np.uint32),
        seconds=seconds[order],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplicitSeconds:
    """Estimates every task with ``seconds:``; the estimates count as exact.

    A machine that is not named (by its own name, that of its host, or ``"*"``) cannot run the task: the
    estimate is "impossible", not None, so that a chain does not fall back to work. Explicit seconds do not
    depend on the speed of the machine. They hold for the smallest allowed node count, and a speed-up law
    scales them.
    """

    name: ClassVar[str] = "explicit"
    source: ClassVar[str] = "seconds"
    reads: ClassVar[PredictorInputs] = PredictorInputs(rate=False)
    final: ClassVar[bool] = True
    rated: ClassVar[bool] = False

    def applies(self, graph: TaskGraph) -> Flags:
        """Return a mask of the tasks with explicit seconds."""
        return np.asarray((graph.kind == COMPUTE) & (np.diff(graph.explicit_pointer) > 0))

    def predict(self, features: TaskFeatures, machine: Machine, nodes: int) -> Estimate | None:
        """Return the stated seconds on the machine, scaled from the smallest allowed count to ``nodes``.

        None if the task has no explicit seconds; "impossible" if the machine is not named.
        """
        if not features.explicit:
            return None
        for name in (machine.name, machine.host_name, EVERYWHERE):
            if name in features.explicit:
                work = features.explicit[name] * reference_speedup(features.law, features.counts)
                seconds = work / evaluate_law(features.law, nodes)
                found = Estimate(p50_s=seconds, source=self.source)
                return impossible(self.source) if math.isnan(seconds) else found
        return impossible(self.source)

    def works(self, graph: TaskGraph) -> Floats:
        """Return the work of tasks whose seconds are the same on every machine; nan for all others."""
        single = self.applies(graph) & (np.diff(graph.explicit_pointer) == 1)
        tasks = np.flatnonzero(single)
        entry = graph.explicit_pointer[tasks]
        same = np.array([name == EVERYWHERE for name in graph.explicit_names], dtype=np.bool_)
        everywhere = same[graph.explicit_machine[entry]]
        tasks, entry = tasks[everywhere], entry[everywhere]
        works = np.full(len(graph), np.nan)
        works[tasks] = graph.explicit_seconds[entry] * _reference_speedups(graph)[tasks]
        return works

    def table(self, graph: TaskGraph, machines: Sequence[Machine]) -> TableSeconds | ClassSeconds:
        """Return the explicit seconds of all modes as a table, or as ``ClassSeconds`` if it is too large."""
        written = _explicit_table(graph, machines, self.source)
        return tabulate(self, graph, machines) if written is None else written
