"""Layouts of seconds from any predictor, queried once per class of tasks and class of machines."""

from __future__ import annotations

import math
from array import array
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from weft.platform.machine import Machine
from weft.predictions import INPUT_BYTES
from weft.predictors.predictor import Flags, Predictor, PredictorInputs, measure_inputs, task_features
from weft.predictors.seconds import MAX_ENTRIES, ClassSeconds, TableSeconds, check_entries
from weft.predictors.speedups import NO_WORK, UNKNOWN, largest_count, law_key
from weft.records import dataclass
from weft.workflow.task_graph import COMPUTE, Floats, TaskGraph

Integers = NDArray[np.int64]


def row_pointers(lengths: Integers) -> Integers:
    """Return the start of each row of a CSR array, and the end of the last row."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths, dtype=np.int64)])


def concatenate_ranges(starts: Integers, lengths: Integers) -> Integers:
    """Return the concatenation of the ranges of ``lengths[i]`` integers that begin at ``starts[i]``."""
    shift = np.repeat(starts - row_pointers(lengths)[:-1], lengths)
    return shift + np.arange(len(shift), dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Grouping:
    """A partition of tasks or machines into numbered groups."""

    group: Integers
    """Per element: its group."""
    first: Integers
    """Per group: its first member."""
    sizes: Integers
    """Per group: its number of members."""


def _task_classes(graph: TaskGraph, reads: PredictorInputs, applies: Flags) -> _Grouping:
    """Return groups of equivalent tasks.

    Tasks without work form one group, compute tasks without an estimate another.
    """
    estimated = applies & (graph.kind == COMPUTE)
    columns = [
        np.unique(graph.work, return_inverse=True)[1],
        graph.counts.astype(np.int64),
        _descriptions(graph, reads)[graph.template],
        _explicit_rows(graph),
        *(_parameter(graph, name) for name in reads.parameters),
    ]
    code = np.where(graph.kind == COMPUTE, np.where(estimated, 2, 1), 0)
    for column in columns:
        pairs = code * (int(column.max(initial=0)) + 1) + np.where(estimated, column, 0)
        code = np.unique(pairs, return_inverse=True)[1]
    return _grouping(code)


def _machine_classes(graph: TaskGraph, machines: Sequence[Machine], reads: PredictorInputs) -> _Grouping:
    """Return groups of equivalent machines; machines that explicit seconds distinguish are separate."""
    if reads.machine:
        return _grouping(np.arange(len(machines), dtype=np.int64))
    services = list(dict.fromkeys(task.service for task in graph.workflow.tasks)) if reads.rate else []
    named = set(graph.explicit_names)
    most = largest_count(graph, machines)

    def key(machine: Machine) -> Hashable:
        names = tuple(name for name in (machine.name, machine.host_name) if name in named)
        return names, min(machine.nodes, most), *(machine.rate(service) for service in services)

    return _grouping(_number_keys(key(machine) for machine in machines))


def _grouping(code: Integers) -> _Grouping:
    _, first, group = np.unique(code, return_index=True, return_inverse=True)
    return _Grouping(group=group, first=first, sizes=np.bincount(group, minlength=len(first)))


def _number_keys(keys: Iterable[Hashable]) -> Integers:
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def _descriptions(graph: TaskGraph, reads: PredictorInputs) -> Integers:
    return _number_keys(
        (
            law_key(task.speedup),
            task.service if reads.rate else None,
            task.name if reads.kind else None,
        )
        for task in graph.workflow.tasks
    )


def _explicit_rows(graph: TaskGraph) -> Integers:
    """Return for each task a number from 1, equal for equal explicit seconds; 0 if the task has none."""
    found = np.zeros(len(graph), dtype=np.int64)
    tasks = np.flatnonzero(np.diff(graph.explicit_pointer))
    pointer = graph.explicit_pointer.tolist()
    rows = (slice(pointer[task], pointer[task + 1]) for task in tasks.tolist())
    keys = ((graph.explicit_machine[row].tobytes(), graph.explicit_seconds[row].tobytes()) for row in rows)
    found[tasks] = _number_keys(keys) + 1
    return found


def _parameter(graph: TaskGraph, name: str) -> Integers:
    """Return for each task a number that is equal for equal values (by ``repr``) of a parameter."""
    if name == INPUT_BYTES and name not in graph.params:
        return np.unique(measure_inputs(graph), return_inverse=True)[1].astype(np.int64)
    positions = [
        task.sweep.names.index(name) if task.sweep is not None and name in task.sweep.names else None
        for task in graph.workflow.tasks
    ]
    shared = repr(graph.params.get(name))
    templates = zip(graph.template.tolist(), graph.points, strict=True)
    return _number_keys(
        shared if (position := positions[template]) is None else repr(point[position])
        for template, point in templates
    )


SMALL = 10_000
"""With at most this many entries the layout is ``classes`` even if few tasks share a class."""


@dataclass(slots=True)
class _SecondsBuilder:
    """Collects the possible modes, one task class after the other, in compact arrays."""

    starts: array[int] = field(default_factory=lambda: array("q"))
    group: array[int] = field(default_factory=lambda: array("I"))
    count: array[int] = field(default_factory=lambda: array("I"))
    seconds: array[float] = field(default_factory=lambda: array("d"))
    source: list[str] = field(default_factory=list)
    spread: list[float] = field(default_factory=list)

    def open_row(self) -> None:
        """Start the row of the next task class."""
        self.starts.append(len(self.seconds))
        self.source.append(UNKNOWN)
        self.spread.append(math.nan)

    def record_source(self, source: str, spread: float) -> None:
        """Store source and spread of an estimate if its spread is the largest of the row so far."""
        before = self.spread[-1]
        wider = spread > before or (math.isnan(before) and not math.isnan(spread))
        if wider or self.source[-1] == UNKNOWN:
            self.source[-1], self.spread[-1] = source, spread

    def add(self, group: int, count: int, seconds: float) -> None:
        """Add a possible mode on the machines of class ``group`` to the row."""
        self.group.append(group)
        self.count.append(count)
        self.seconds.append(seconds)

    def add_idle(self, groups: int) -> None:
        """Fill the row of tasks without work: 0 seconds on one node of every machine."""
        self.record_source(NO_WORK, math.nan)
        for group in range(groups):
            self.add(group, 1, 0.0)

    def build(self, tasks: _Grouping, machines: _Grouping) -> ClassSeconds | TableSeconds:
        """Return the layout ``classes`` if many tasks share a class, else ``table``.

        Raises InvalidInput if both are too large.
        """
        pointer = np.array([*self.starts, len(self.seconds)], dtype=np.int64)
        group = np.array(self.group, dtype=np.int64)
        width = max(self.count, default=1) + 1
        dense = len(self.starts) * len(machines.first) * width
        modes = np.bincount(
            np.repeat(np.arange(len(self.starts)), np.diff(pointer)), machines.sizes[group], len(self.starts)
        )
        listed = int((modes * tasks.sizes).sum())
        shared = len(self.starts) * 2 <= len(tasks.group) or dense <= SMALL
        if dense <= MAX_ENTRIES and (shared or listed > MAX_ENTRIES):
            return self._classes(tasks, machines, pointer, group, width)
        check_entries(
            min(listed, dense),
            f"{len(tasks.group):,} tasks x {len(machines.group):,} machines x up to {width - 1:,} nodes",
        )
        return self._table(tasks, machines, pointer, group)

    def _sources(self, tasks: _Grouping) -> tuple[tuple[str, ...], NDArray[np.uint8], Floats]:
        index = {source: position for position, source in enumerate(dict.fromkeys(self.source))}
        source = np.array([index[source] for source in self.source], dtype=np.uint8)
        return tuple(index), source[tasks.group], np.array(self.spread, dtype=np.float64)[tasks.group]

    def _classes(
        self, tasks: _Grouping, machines: _Grouping, pointer: Integers, group: Integers, width: int
    ) -> ClassSeconds:
        seconds = np.full((len(self.starts), len(machines.first), width), np.nan)
        row = np.repeat(np.arange(len(self.starts)), np.diff(pointer))
        seconds[row, group, np.array(self.count, dtype=np.int64)] = np.array(self.seconds)
        sources, source, spread = self._sources(tasks)
        return ClassSeconds(
            sources=sources,
            source=source,
            spread=spread,
            task_class=tasks.group.astype(np.uint32),
            machine_class=machines.group.astype(np.uint32),
            seconds=seconds,
        )

    def _table(
        self, tasks: _Grouping, machines: _Grouping, pointer: Integers, group: Integers
    ) -> TableSeconds:
        # Expand the row of every task class to single machines, then copy it for every task.
        members = np.argsort(machines.group, kind="stable")
        lengths = machines.sizes[group]
        machine = members[concatenate_ranges(row_pointers(machines.sizes)[group], lengths)]
        row = np.repeat(np.repeat(np.arange(len(self.starts)), np.diff(pointer)), lengths)
        count = np.repeat(np.array(self.count, dtype=np.uint32), lengths)
        order = np.lexsort((count, machine, row))
        modes = np.bincount(row, minlength=len(self.starts))
        chosen = order[concatenate_ranges(row_pointers(modes)[tasks.group], modes[tasks.group])]
        sources, source, spread = self._sources(tasks)
        return TableSeconds(
            sources=sources,
            source=source,
            spread=spread,
            pointer=row_pointers(modes[tasks.group]),
            machine=machine[chosen].astype(np.uint32),
            count=count[chosen],
            seconds=np.repeat(np.array(self.seconds, dtype=np.float64), lengths)[chosen],
        )


def tabulate(
    predictor: Predictor, graph: TaskGraph, machines: Sequence[Machine]
) -> ClassSeconds | TableSeconds:
    """Return the estimates of a predictor for all modes of all tasks.

    Two tasks, or two machines, are equivalent if they agree in everything that the predictor reads
    (``Predictor.reads``). The layout is ``classes`` if many tasks share a class, else ``table``.
    Complexity: O(task classes x machine classes x counts) queries and O(v + p) array operations.
    """
    applies = predictor.applies(graph)
    tasks = _task_classes(graph, predictor.reads, applies)
    groups = _machine_classes(graph, machines, predictor.reads)
    _check_queries(graph, tasks, groups)
    builder = _SecondsBuilder()
    examples = [machines[index] for index in groups.first.tolist()]
    for task in tasks.first.tolist():
        builder.open_row()
        if graph.kind[task] != COMPUTE:
            builder.add_idle(len(examples))
        elif applies[task]:
            _query_predictor(predictor, graph, task, examples, builder)
    return builder.build(tasks, groups)


def _check_queries(graph: TaskGraph, tasks: _Grouping, groups: _Grouping) -> None:
    lengths = np.array([len(counts) for counts in graph.count_sets], dtype=np.int64)
    queries = int(lengths[graph.counts[tasks.first]].sum()) * len(groups.first)
    check_entries(
        queries,
        f"{len(tasks.first):,} different tasks x {len(groups.first):,} different machines x node counts",
    )


def _query_predictor(
    predictor: Predictor, graph: TaskGraph, task: int, machines: Sequence[Machine], builder: _SecondsBuilder
) -> None:
    features = task_features(graph, task, predictor.reads)
    for index, machine in enumerate(machines):
        for count in features.counts:
            if count > machine.nodes:
                break
            if (estimate := predictor.predict(features, machine, count)) is not None:
                builder.record_source(estimate.source, estimate.spread)
                if estimate.possible:
                    builder.add(index, count, estimate.p50_s)
