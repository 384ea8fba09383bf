"""Modes: the ways to run a task, kept once for all tasks that have the same ones.

Most tasks of a workflow can run in the same modes and differ only by their seconds. Each group of such
tasks knows machine, count and nodes of its modes; the seconds of some or all of its tasks are read from
the predictor's layout.

Budgets: what the tasks of an instance consume at least and at most, whatever modes they run in.

The instance: tasks, machines and seconds compiled into arrays. It is all a planner reads.

Rows of numbers, given by columns: which of them are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import Infeasible
from weft.instance.candidates import Candidates, Shapes, amounts_taken, nodes_taken
from weft.platform.arrays import Network
from weft.platform.machine import Machine
from weft.platform.platform import Platform
from weft.predictors.seconds import ClassSeconds, RelatedSeconds, Seconds
from weft.workflow.task_graph import COMPUTE, Floats, Indices, TaskGraph

__all__ = [
    "BusyInterval",
    "Instance",
    "ModeGroup",
    "TaskModes",
    "check_budgets",
    "find_exceeded",
    "group_modes",
    "largest_consumption",
    "number_rows",
]


_CHUNK = 1_000_000
"""How many seconds are expanded at a time."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaskModes:
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
    of_task[compute] = numbers = _number_columns(
        shapes[compute], chosen[compute], cores[compute], _amount_patterns(graph)[compute]
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
                seconds_of=_seconds_reader(seconds, example, machine[kept], count[kept], kept),
                demand=None if taken is None else taken[kept],
                consumption=amounts_taken(graph, graph.consumption_by_count, example, count[kept]),
            )
        )
    return tuple(groups), of_task


def _amount_patterns(graph: TaskGraph) -> NDArray[np.int64]:
    """Number the tasks so that amounts depend on the count in the same way; 0: in no way."""
    tables = (graph.demand_by_count, graph.consumption_by_count)
    varied = sum(np.diff(table.pointer) for table in tables) > 0
    patterns = np.zeros(len(graph), dtype=np.int64)
    known: dict[object, int] = {}
    for task in np.flatnonzero(varied).tolist():
        key = (int(graph.counts[task]), *(table.of(task).tobytes() for table in tables))
        patterns[task] = known.setdefault(key, len(known) + 1)
    return patterns


def _number_columns(*columns: NDArray[Any]) -> NDArray[np.int64]:
    """Number the distinct rows of some columns."""
    code = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        values, number = np.unique(column, return_inverse=True)
        code = np.unique(code * len(values) + number, return_inverse=True)[1]
    return code


def _seconds_reader(
    seconds: Seconds, example: int, machine: Indices, count: Indices, kept: NDArray[np.intp]
) -> Callable[[int | Indices], Floats]:
    """Give what reads the seconds of a group: a partial, so that instances can travel to other processes."""
    if isinstance(seconds, RelatedSeconds):
        rate = seconds.rate[seconds.service[example], machine]
        gain = seconds.speedup[seconds.law[example], count]
        return partial(_related_s, seconds.work, rate, gain)
    if isinstance(seconds, ClassSeconds):
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


_ROUNDING = 1e-9
"""By which share sums of amounts may exceed a budget."""


def find_exceeded(graph: TaskGraph, consumed: Floats) -> NDArray[np.bool_]:
    """Say of which budgets more is consumed than there is, beyond the rounding of a sum."""
    return np.asarray(consumed > graph.budgets * (1 + _ROUNDING))


def largest_consumption(graph: TaskGraph, groups: Iterable[ModeGroup]) -> Floats:
    """Give what is consumed of each budget if every task takes the mode that consumes most of it."""
    return _consumption(graph, groups, lambda modes: modes.max(axis=0))


def check_budgets(graph: TaskGraph, groups: Iterable[ModeGroup]) -> None:
    """Raise Infeasible if a budget is exceeded even by the modes that consume least of it."""
    least = _consumption(graph, groups, lambda modes: modes.min(axis=0))
    over = [
        f"{least[budget]:g} {graph.budget_names[budget]}, but the budget is {graph.budgets[budget]:g}"
        for budget in np.flatnonzero(find_exceeded(graph, least)).tolist()
    ]
    if over:
        raise Infeasible(f"the tasks consume at least {'; '.join(over)}")


def _consumption(graph: TaskGraph, groups: Iterable[ModeGroup], chosen: Callable[[Floats], Floats]) -> Floats:
    """Add up what tasks consume, in one chosen mode where it depends on the mode."""
    consumed = graph.consumption.copy()
    for group in groups if len(graph.consumption_by_count.rows) else ():
        if group.consumption is not None:
            consumed[group.tasks] = chosen(group.consumption)
    total: Floats = consumed.sum(axis=0)
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class BusyInterval:
    """Nodes and amounts that something else holds for a time: the start of a profile when re-planning."""

    machine: int
    start_s: float
    finish_s: float
    nodes: int
    amounts: tuple[float, ...] = ()
    """In the order of the graph's ``resource_names``; empty: none."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class Instance:
    """A task graph on a platform, with estimates, candidates and what is already decided."""

    graph: TaskGraph
    platform: Platform
    machines: tuple[Machine, ...]
    """As planners see them: virtual shares are machines."""
    network: Network
    seconds: Seconds

    capacity: NDArray[np.int64]
    """Per machine: nodes."""
    unlimited: NDArray[np.bool_]
    """Per machine: whether tasks on it do not disturb each other (S1 section 6, occupancy none)."""
    price_per_node_s: Floats
    amounts: Floats
    """Machines x resources: totals; inf where a machine does not state its memory."""

    candidate_sets: tuple[Indices, ...]
    """Distinct sets of machines, ascending."""
    candidates: Indices
    """Per binding variable: index into ``candidate_sets``."""
    groups: tuple[ModeGroup, ...]
    """Compute tasks by the modes they can run in."""
    group: NDArray[np.int64]
    """Per task: index into ``groups``; -1 for transfers and virtual tasks."""

    pinned: Mapping[int, int]
    """Binding variables that are already bound to a machine, one of their candidates."""
    earliest_start_s: Floats
    """Per task."""
    busy: tuple[BusyInterval, ...]

    def __len__(self) -> int:
        return len(self.graph)

    def candidates_of(self, variable: int) -> Indices:
        """Give the machines a binding variable may be bound to."""
        return self.candidate_sets[int(self.candidates[variable])]

    def modes(self, task: int) -> TaskModes:
        """Give every way to run a compute task on its candidates, by machine, then count."""
        group = self.groups[int(self.group[task])]
        seconds = group.seconds_of(task)
        return TaskModes(machine=group.machine, count=group.count, nodes=group.nodes, seconds=seconds)

    def binding_budgets(self) -> tuple[str, ...]:
        """Name the budgets that some choice of modes exceeds; a planner need not care about the others."""
        if not self.graph.budget_names:
            return ()
        over = find_exceeded(self.graph, largest_consumption(self.graph, self.groups))
        return tuple(name for name, binds in zip(self.graph.budget_names, over, strict=True) if binds)

    def shortest_s(self) -> Floats:
        """Give per task the seconds of its fastest mode; 0 for transfers and virtual tasks."""
        shortest = np.zeros(len(self))
        for group in self.groups:
            for tasks, seconds in group.chunks():
                shortest[tasks] = seconds.min(axis=1)
        return shortest

    def transfer_s(self, task: int, source: int, target: int) -> float:
        """Give the seconds of a transfer task between two machines; nothing on one host."""
        return self.link_s(source, target, float(self.graph.transfer_bytes[task]), 1.0, 0.0)

    def edge_s(self, edge: int, source: int, target: int) -> float:
        """Give the seconds the data of an edge take between two machines; nothing on one host."""
        graph = self.graph
        size, files = float(graph.edge_bytes[edge]), float(graph.edge_files[edge])
        return self.link_s(source, target, size, files, float(graph.edge_seconds[edge]))

    def link_s(self, source: int, target: int, size: float, files: float, fixed_s: float) -> float:
        """Give the seconds data take between two machines; nothing on one host."""
        network = self.network
        if network.host[source] == network.host[target]:
            return 0.0
        here, there = network.location[source], network.location[target]
        latency = float(network.latency_s[here, there])
        return fixed_s + files * latency + size * float(network.inverse_bandwidth[here, there])


def number_rows(first: NDArray[Any], *others: NDArray[Any]) -> NDArray[np.int64]:
    """Number the rows from 0 in ascending order, equal ones alike.

    A column at a time: sorting a million whole rows takes a second, ten times as long.
    """
    found = np.unique(first, return_inverse=True)[1].astype(np.int64)
    for column in others:
        kinds, number = np.unique(column, return_inverse=True)
        found = np.unique(found * len(kinds) + number, return_inverse=True)[1].astype(np.int64)
    return found
