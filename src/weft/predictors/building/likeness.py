"""Which tasks and which machines are alike to a predictor, so that it is asked about one of them only."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from weft.platform.machine import Machine
from weft.predictors.building.csr import Integers
from weft.predictors.building.laws import law_key, widest
from weft.predictors.predictor import Flags, Reads
from weft.workflow.unfolding.task_graph import COMPUTE, TaskGraph

__all__ = ["Grouping", "machine_classes", "task_classes"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grouping:
    """A partition of things into numbered groups."""

    group: Integers
    """Per thing."""
    first: Integers
    """Per group: its first member."""
    sizes: Integers
    """Per group: how many members."""


def task_classes(graph: TaskGraph, reads: Reads, applies: Flags) -> Grouping:
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


def machine_classes(graph: TaskGraph, machines: Sequence[Machine], reads: Reads) -> Grouping:
    """Group machines that agree in what is read; explicit seconds tell those they name apart."""
    if reads.machine:
        return _grouping(np.arange(len(machines), dtype=np.int64))
    services = list(dict.fromkeys(task.service for task in graph.workflow.tasks)) if reads.rate else []
    named = set(graph.explicit_names)
    most = widest(graph, machines)

    def key(machine: Machine) -> Hashable:
        names = tuple(name for name in (machine.name, machine.host_name) if name in named)
        return names, min(machine.nodes, most), *(machine.rate(service) for service in services)

    return _grouping(_numbered(key(machine) for machine in machines))


def _grouping(code: Integers) -> Grouping:
    _, first, group = np.unique(code, return_index=True, return_inverse=True)
    return Grouping(group=group, first=first, sizes=np.bincount(group, minlength=len(first)))


def _numbered(keys: Iterable[Hashable]) -> Integers:
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def _descriptions(graph: TaskGraph, reads: Reads) -> Integers:
    return _numbered(
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
    found[tasks] = _numbered(keys) + 1
    return found


def _parameter(graph: TaskGraph, name: str) -> Integers:
    """Number the different values of a parameter; values are compared as they are written."""
    positions = [
        task.sweep.names.index(name) if task.sweep is not None and name in task.sweep.names else None
        for task in graph.workflow.tasks
    ]
    shared = repr(graph.params.get(name))
    templates = zip(graph.template.tolist(), graph.points, strict=True)
    return _numbered(
        shared if (position := positions[template]) is None else repr(point[position])
        for template, point in templates
    )
