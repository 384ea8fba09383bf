"""Modes: the ways to run a task, kept once for all tasks that have the same ones.

Most tasks of a workflow can run in the same modes and differ only by their seconds. Each group of such
tasks knows machine, count and nodes of its modes; the seconds of some or all of its tasks are read from
the predictor's layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.instance.candidates import Candidates
from weft.instance.shapes import Shapes, amounts_taken, nodes_taken
from weft.predictors.seconds import Classes, Related, Seconds
from weft.workflow.unfolding.task_graph import COMPUTE, Floats, Indices, TaskGraph

__all__ = ["ModeGroup", "Modes", "group_modes"]

_CHUNK = 1_000_000
"""How many seconds are expanded at a time."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Modes:
    """The ways to run one task: machine, count as the user knows it, nodes taken there, seconds."""

    machine: Indices
    count: Indices
    nodes: NDArray[np.int64]
    seconds: Floats

    def __len__(self) -> int:
        return len(self.machine)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModeGroup:
    """Compute tasks that can run in the same modes, listed by machine, then count."""

    tasks: Indices
    machine: Indices
    count: Indices
    nodes: NDArray[np.int64]
    seconds_of: Callable[[int | Indices], Floats]
    """Give the seconds of all modes of one task, or tasks x modes of several."""
    demand: Floats | None = None
    """Modes x resources, the same for all its tasks; None: the graph's ``demand``, whatever the mode."""
    consumption: Floats | None = None
    """Modes x budgets, the same for all its tasks; None: the graph's ``consumption``, whatever the mode."""

    def __len__(self) -> int:
        return len(self.machine)

    def chunks(self) -> Iterator[tuple[Indices, Floats]]:
        """Give tasks and their seconds (tasks x modes), never too many at once."""
        rows = max(1, _CHUNK // max(1, len(self)))
        for first in range(0, len(self.tasks), rows):
            tasks = self.tasks[first : first + rows]
            yield tasks, self.seconds_of(tasks)


def group_modes(
    graph: TaskGraph,
    seconds: Seconds,
    shapes: Shapes,
    candidates: Candidates,
    capacity: NDArray[np.int64],
    amounts: Floats,
    node_is_core: NDArray[np.bool_],
) -> tuple[tuple[ModeGroup, ...], NDArray[np.int64]]:
    """Give the groups and every task's group (-1: no compute task)."""
    of_task = np.full(len(graph), -1, dtype=np.int64)
    compute = np.flatnonzero(graph.kind == COMPUTE)
    chosen = candidates.of_variable[graph.variable]
    cores = np.ceil(graph.cores) if node_is_core.any() else np.zeros(len(graph))
    of_task[compute] = numbers = _number(
        shapes[compute], chosen[compute], cores[compute], _patterns(graph)[compute]
    )
    by_group = compute[np.argsort(numbers, kind="stable")]
    groups = []
    for tasks in np.split(by_group, np.cumsum(np.bincount(numbers))[:-1]) if len(compute) else ():
        example = int(tasks[0])
        machine, count, _ = seconds.modes(example)
        nodes = nodes_taken(float(graph.cores[example]), count, node_is_core[machine])
        allowed = candidates.sets[int(chosen[example])]
        fits = (nodes <= capacity[machine]) & np.isin(machine, allowed)
        # The totals were compared with the least amounts beforehand; those of a count may be larger.
        taken = amounts_taken(graph, graph.demand_by_count, example, count)
        if taken is not None:
            fits &= (taken <= amounts[machine]).all(axis=1)
        kept = np.flatnonzero(fits)
        groups.append(
            ModeGroup(
                tasks=tasks.astype(np.uint32),
                machine=machine[kept],
                count=count[kept],
                nodes=nodes[kept],
                seconds_of=_reader(seconds, example, machine[kept], count[kept], kept),
                demand=None if taken is None else taken[kept],
                consumption=amounts_taken(graph, graph.consumption_by_count, example, count[kept]),
            )
        )
    return tuple(groups), of_task


def _patterns(graph: TaskGraph) -> NDArray[np.int64]:
    """Number the tasks so that amounts depend on the count in the same way; 0: in no way."""
    tables = (graph.demand_by_count, graph.consumption_by_count)
    varied = sum(np.diff(table.pointer) for table in tables) > 0
    patterns = np.zeros(len(graph), dtype=np.int64)
    known: dict[object, int] = {}
    for task in np.flatnonzero(varied).tolist():
        key = (int(graph.counts[task]), *(table.of(task).tobytes() for table in tables))
        patterns[task] = known.setdefault(key, len(known) + 1)
    return patterns


def _number(*columns: NDArray[Any]) -> NDArray[np.int64]:
    """Number the distinct rows of some columns."""
    code = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        values, number = np.unique(column, return_inverse=True)
        code = np.unique(code * len(values) + number, return_inverse=True)[1]
    return code


def _reader(
    seconds: Seconds, example: int, machine: Indices, count: Indices, kept: NDArray[np.intp]
) -> Callable[[int | Indices], Floats]:
    """Give what reads the seconds of a group: a partial, so that instances can travel to other processes."""
    if isinstance(seconds, Related):
        rate = seconds.rate[seconds.service[example], machine]
        gain = seconds.speedup[seconds.law[example], count]
        return partial(_related_s, seconds.work, rate, gain)
    if isinstance(seconds, Classes):
        row = seconds.seconds[seconds.task_class[example], seconds.machine_class[machine], count]
        return partial(_class_s, row)
    return partial(_listed_s, seconds, kept)


def _related_s(work: Floats, rate: Floats, gain: Floats, tasks: int | Indices) -> Floats:
    seconds: Floats = work[tasks][..., None] / rate / gain
    return seconds


def _class_s(row: Floats, tasks: int | Indices) -> Floats:
    return row if isinstance(tasks, int) else np.broadcast_to(row, (len(tasks), len(row)))


def _listed_s(seconds: Seconds, kept: NDArray[np.intp], tasks: int | Indices) -> Floats:
    if isinstance(tasks, int):
        return seconds.modes(tasks)[2][kept]
    return np.array([seconds.modes(task)[2][kept] for task in tasks.tolist()])
