"""Rows of unequal length stored one after the other: the index arithmetic they need.

Which tasks and which machines are alike to a predictor, so that it is asked about one of them only.

A predictor's answers per class of tasks and class of machines, and the layout of seconds they become.

The generic route from a predictor to seconds: ask once per class of tasks, class of machines, and count.

Tasks are alike when they agree in everything the predictor reads (``Predictor.reads``), machines likewise;
the answers become the layout ``classes`` where many tasks share a class, else ``table``. Complexity:
O(task classes x machine classes x counts) questions, O(v + p) array work beside them.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from weft.platform.machine import Machine
from weft.predictors.predictor import Flags, Predictor, PredictorInputs, task_features
from weft.predictors.seconds import MAX_ENTRIES, ClassSeconds, TableSeconds, check_entries
from weft.predictors.speedups import NO_WORK, UNKNOWN, largest_count, law_key
from weft.workflow.task_graph import COMPUTE, Floats, TaskGraph

__all__ = [
    "SMALL",
    "Grouping",
    "Integers",
    "SecondsBuilder",
    "concatenate_ranges",
    "machine_classes",
    "row_pointers",
    "tabulate",
    "task_classes",
]


Integers = NDArray[np.int64]


def row_pointers(lengths: Integers) -> Integers:
    """Give where each row starts, and behind the last one where it ends."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths, dtype=np.int64)])


def concatenate_ranges(starts: Integers, lengths: Integers) -> Integers:
    """Give ``starts[i], starts[i] + 1, ...`` for ``lengths[i]`` steps, for one row after the other."""
    shift = np.repeat(starts - row_pointers(lengths)[:-1], lengths)
    return shift + np.arange(len(shift), dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grouping:
    """A partition of things into numbered groups."""

    group: Integers
    """Per thing."""
    first: Integers
    """Per group: its first member."""
    sizes: Integers
    """Per group: how many members."""


def task_classes(graph: TaskGraph, reads: PredictorInputs, applies: Flags) -> Grouping:
    """Group tasks that agree in what is read; all without work are alike, and all not applied to."""
    asked = applies & (graph.kind == COMPUTE)
    columns = [
        np.unique(graph.work, return_inverse=True)[1],
        graph.counts.astype(np.int64),
        _descriptions(graph, reads)[graph.template],
        _explicit_rows(graph),
        *(_parameter(graph, name) for name in reads.parameters),
    ]
    code = np.where(graph.kind == COMPUTE, np.where(asked, 2, 1), 0)
    for column in columns:
        pairs = code * (int(column.max(initial=0)) + 1) + np.where(asked, column, 0)
        code = np.unique(pairs, return_inverse=True)[1]
    return _grouping(code)


def machine_classes(graph: TaskGraph, machines: Sequence[Machine], reads: PredictorInputs) -> Grouping:
    """Group machines that agree in what is read; explicit seconds tell those they name apart."""
    if reads.machine:
        return _grouping(np.arange(len(machines), dtype=np.int64))
    services = list(dict.fromkeys(task.service for task in graph.workflow.tasks)) if reads.rate else []
    named = set(graph.explicit_names)
    most = largest_count(graph, machines)

    def key(machine: Machine) -> Hashable:
        names = tuple(name for name in (machine.name, machine.host_name) if name in named)
        return names, min(machine.nodes, most), *(machine.rate(service) for service in services)

    return _grouping(_number_keys(key(machine) for machine in machines))


def _grouping(code: Integers) -> Grouping:
    _, first, group = np.unique(code, return_index=True, return_inverse=True)
    return Grouping(group=group, first=first, sizes=np.bincount(group, minlength=len(first)))


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
    """Number the different rows of explicit seconds; 0: none."""
    found = np.zeros(len(graph), dtype=np.int64)
    tasks = np.flatnonzero(np.diff(graph.explicit_pointer))
    pointer = graph.explicit_pointer.tolist()
    rows = (slice(pointer[task], pointer[task + 1]) for task in tasks.tolist())
    keys = ((graph.explicit_machine[row].tobytes(), graph.explicit_seconds[row].tobytes()) for row in rows)
    found[tasks] = _number_keys(keys) + 1
    return found


def _parameter(graph: TaskGraph, name: str) -> Integers:
    """Number the different values of a parameter; values are compared as they are written."""
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
"""So few entries are kept by classes even if hardly any tasks share one."""


@dataclass(slots=True)
class SecondsBuilder:
    """Collects the possible modes, one task class after the other; ``array`` keeps millions of them small."""

    starts: array[int] = field(default_factory=lambda: array("q"))
    group: array[int] = field(default_factory=lambda: array("I"))
    count: array[int] = field(default_factory=lambda: array("I"))
    seconds: array[float] = field(default_factory=lambda: array("d"))
    source: list[str] = field(default_factory=list)
    spread: list[float] = field(default_factory=list)

    def open_row(self) -> None:
        """Begin the next task class."""
        self.starts.append(len(self.seconds))
        self.source.append(UNKNOWN)
        self.spread.append(math.nan)

    def note(self, source: str, spread: float) -> None:
        """Keep the widest spread of the row and its source; of equals the first."""
        before = self.spread[-1]
        wider = spread > before or (math.isnan(before) and not math.isnan(spread))
        if wider or self.source[-1] == UNKNOWN:
            self.source[-1], self.spread[-1] = source, spread

    def add(self, group: int, count: int, seconds: float) -> None:
        """Add a possible mode: on every machine of a class, with so many nodes."""
        self.group.append(group)
        self.count.append(count)
        self.seconds.append(seconds)

    def add_idle(self, groups: int) -> None:
        """Make the row one of a task without work: no time, on one node, everywhere."""
        self.note(NO_WORK, math.nan)
        for group in range(groups):
            self.add(group, 1, 0.0)

    def laid_out(self, tasks: Grouping, machines: Grouping) -> ClassSeconds | TableSeconds:
        """Choose the layout: classes where many tasks share one, else a table; neither if it is too large."""
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

    def _sources(self, tasks: Grouping) -> tuple[tuple[str, ...], NDArray[np.uint8], Floats]:
        index = {source: position for position, source in enumerate(dict.fromkeys(self.source))}
        source = np.array([index[source] for source in self.source], dtype=np.uint8)
        return tuple(index), source[tasks.group], np.array(self.spread, dtype=np.float64)[tasks.group]

    def _classes(
        self, tasks: Grouping, machines: Grouping, pointer: Integers, group: Integers, width: int
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

    def _table(self, tasks: Grouping, machines: Grouping, pointer: Integers, group: Integers) -> TableSeconds:
        # First the row of every task class with its machines written out, then one copy per task.
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
    """Ask a predictor about all modes of all tasks."""
    applies = predictor.applies(graph)
    tasks = task_classes(graph, predictor.reads, applies)
    groups = machine_classes(graph, machines, predictor.reads)
    _check_questions(graph, tasks, groups)
    answers = SecondsBuilder()
    asked = [machines[index] for index in groups.first.tolist()]
    for task in tasks.first.tolist():
        answers.open_row()
        if graph.kind[task] != COMPUTE:
            answers.add_idle(len(asked))
        elif applies[task]:
            _query_predictor(predictor, graph, task, asked, answers)
    return answers.laid_out(tasks, groups)


def _check_questions(graph: TaskGraph, tasks: Grouping, groups: Grouping) -> None:
    lengths = np.array([len(counts) for counts in graph.count_sets], dtype=np.int64)
    questions = int(lengths[graph.counts[tasks.first]].sum()) * len(groups.first)
    check_entries(
        questions,
        f"{len(tasks.first):,} unlike tasks x {len(groups.first):,} unlike machines x their node counts",
    )


def _query_predictor(
    predictor: Predictor, graph: TaskGraph, task: int, machines: Sequence[Machine], answers: SecondsBuilder
) -> None:
    asked = task_features(graph, task)
    for index, machine in enumerate(machines):
        for count in asked.counts:
            if count > machine.nodes:
                break
            estimate = predictor.predict(asked, machine, count)
            if estimate is not None:
                answers.note(estimate.source, estimate.spread)
                if estimate.possible:
                    answers.add(index, count, estimate.p50_s)
