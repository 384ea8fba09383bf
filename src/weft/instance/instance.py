"""The instance: tasks, machines and estimated seconds compiled into arrays, the whole input of a planner."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import Infeasible
from weft.instance.candidates import Candidates, Shapes, amounts_taken, node_memory, nodes_taken
from weft.platform.arrays import Network
from weft.platform.machine import Machine
from weft.platform.platform import Platform
from weft.predictors.seconds import ClassSeconds, RelatedSeconds, Seconds
from weft.predictors.work import AssumedWork
from weft.workflow.task_graph import COMPUTE, Floats, Indices, TaskGraph

_CHUNK = 1_000_000
"""Approximate number of durations (tasks x modes) that are computed at a time."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaskModes:
    """The modes of one task: machine, node count as in the workflow, nodes allocated, seconds."""

    machine: Indices
    count: Indices
    nodes: NDArray[np.int64]
    seconds: Floats

    def __len__(self) -> int:
        return len(self.machine)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModeGroup:
    """Compute tasks with the same modes, which are ordered by machine, then count.

    Most tasks of a workflow can run in the same modes and differ only by their seconds. A group of such tasks
    stores machine, count and nodes of its modes once; ``seconds_of`` computes the seconds of a task.
    """

    tasks: Indices
    machine: Indices
    count: Indices
    nodes: NDArray[np.int64]
    seconds_of: Callable[[int | Indices], Floats]
    """Returns the seconds of all modes of a task; for an array of tasks, tasks x modes."""
    demand: Floats | None = None
    """Modes x resources: the amounts, equal for all tasks; None if ``graph.demand`` applies to every mode."""
    consumption: Floats | None = None
    """Modes x budgets: the consumption, equal for all tasks; None if ``graph.consumption`` applies to every
    mode.
    """

    def __len__(self) -> int:
        return len(self.machine)

    def chunks(self) -> Iterator[tuple[Indices, Floats]]:
        """Yield pairs: some tasks, and their seconds (tasks x modes); both arrays have a bounded size."""
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
    machines: Sequence[Machine],
) -> tuple[tuple[ModeGroup, ...], NDArray[np.int64]]:
    """Return the mode groups, and the index of each task's group (-1 for transfers and virtual tasks)."""
    of_task = np.full(len(graph), -1, dtype=np.int64)
    compute = np.flatnonzero(graph.kind == COMPUTE)
    chosen = candidates.of_variable[graph.variable]
    node_is_core = np.array([machine.node_is_core for machine in machines], dtype=np.bool_)
    cores = np.ceil(graph.cores) if node_is_core.any() else np.zeros(len(graph))
    columns: list[NDArray[Any]] = [shapes, chosen, cores, _amount_patterns(graph)]
    memory, per_node = None, node_memory(machines)
    if "memory" in graph.resource_names and np.isfinite(per_node).any():
        memory = graph.resource_names.index("memory")
        columns.append(graph.demand[:, memory])
    of_task[compute] = numbers = number_rows(*(column[compute] for column in columns))
    by_group = compute[np.argsort(numbers, kind="stable")]
    groups = []
    for tasks in np.split(by_group, np.cumsum(np.bincount(numbers))[:-1]) if len(compute) else ():
        example = int(tasks[0])
        machine, count, _ = seconds.modes(example)
        nodes = nodes_taken(float(graph.cores[example]), count, node_is_core[machine])
        allowed = candidates.sets[int(chosen[example])]
        fits = (nodes <= capacity[machine]) & np.isin(machine, allowed)
        # Candidates have the smallest amounts that a task can need; a node count may need more.
        taken = amounts_taken(graph, graph.demand_by_count, example, count)
        if taken is not None:
            fits &= (taken <= amounts[machine]).all(axis=1)
        if memory is not None:
            needed = graph.demand[example, memory] if taken is None else taken[:, memory]
            fits &= needed <= per_node[machine] * nodes
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
    """Return a number per task, equal for tasks with the same amounts by node count.

    The number is 0 if the amounts of a task do not depend on the node count.
    """
    tables = (graph.demand_by_count, graph.consumption_by_count)
    varied = sum(np.diff(table.pointer) for table in tables) > 0
    patterns = np.zeros(len(graph), dtype=np.int64)
    known: dict[object, int] = {}
    for task in np.flatnonzero(varied).tolist():
        key = (int(graph.counts[task]), *(table.of(task).tobytes() for table in tables))
        patterns[task] = known.setdefault(key, len(known) + 1)
    return patterns


def _seconds_reader(
    seconds: Seconds, example: int, machine: Indices, count: Indices, kept: NDArray[np.intp]
) -> Callable[[int | Indices], Floats]:
    """Return the function ``seconds_of`` of a group, as a ``partial`` because instances are pickled."""
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
"""Relative tolerance with which a sum of amounts is compared with a budget."""


def find_exceeded(graph: TaskGraph, consumed: Floats) -> NDArray[np.bool_]:
    """Return a mask of the budgets that the consumption exceeds by more than rounding errors."""
    return np.asarray(consumed > graph.budgets * (1 + _ROUNDING))


def largest_consumption(graph: TaskGraph, groups: Iterable[ModeGroup]) -> Floats:
    """Return the consumption of each budget if every task runs in its mode with the largest consumption."""
    return _consumption(graph, groups, lambda modes: modes.max(axis=0))


def check_budgets(graph: TaskGraph, groups: Iterable[ModeGroup]) -> None:
    """Raise Infeasible if a budget is exceeded even if every task consumes as little of it as possible."""
    least = _consumption(graph, groups, lambda modes: modes.min(axis=0))
    over = [
        f"{least[budget]:g} {graph.budget_names[budget]}, but the budget is {graph.budgets[budget]:g}"
        for budget in np.flatnonzero(find_exceeded(graph, least)).tolist()
    ]
    if over:
        raise Infeasible(f"the tasks consume at least {'; '.join(over)}")


def _consumption(graph: TaskGraph, groups: Iterable[ModeGroup], chosen: Callable[[Floats], Floats]) -> Floats:
    """Return the total consumption of each budget; ``chosen`` reduces (modes x budgets) to one row."""
    consumed = graph.consumption.copy()
    for group in groups if len(graph.consumption_by_count.rows) else ():
        if group.consumption is not None:
            consumed[group.tasks] = chosen(group.consumption)
    total: Floats = consumed.sum(axis=0)
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class BusyInterval:
    """Nodes and resource amounts of a machine that are not available to the plan for some time."""

    machine: int
    start_s: float
    finish_s: float
    nodes: int
    amounts: tuple[float, ...] = ()
    """Amounts in the order of the graph's ``resource_names``; empty if none are allocated."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class Instance:
    """A task graph on a platform, with estimates, candidates and decisions already made."""

    graph: TaskGraph
    platform: Platform
    machines: tuple[Machine, ...]
    """All machines that a plan can use; a virtual share counts as a machine."""
    network: Network
    seconds: Seconds

    capacity: NDArray[np.int64]
    """Per machine: its number of nodes."""
    unlimited: NDArray[np.bool_]
    """Per machine: whether it runs any number of tasks at once (docs/papers/dynamic-grid.md, section 6)."""
    price_per_node_s: Floats
    amounts: Floats
    """Machines x resources: total amounts; infinity for memory that a machine does not state."""

    candidate_sets: tuple[Indices, ...]
    """Distinct sets of machines, each ascending."""
    candidates: Indices
    """Index into ``candidate_sets`` per binding variable."""
    groups: tuple[ModeGroup, ...]
    """Compute tasks grouped by their modes."""
    group: NDArray[np.int64]
    """Index into ``groups`` per task; -1 for transfers and virtual tasks."""

    pinned: Mapping[int, int]
    """Machine of each binding variable that is already bound."""
    earliest_start_s: Floats
    """Per task: the earliest time at which it may start, in seconds."""
    busy: tuple[BusyInterval, ...]

    def __len__(self) -> int:
        return len(self.graph)

    @property
    def is_time_shared(self) -> bool:
        """Return whether programs time-share the nodes of some machine; planners assume exclusive nodes."""
        return any(machine.is_time_shared for machine in self.machines)

    def candidates_of(self, variable: int) -> Indices:
        """Return the machines to which a binding variable can be bound."""
        return self.candidate_sets[int(self.candidates[variable])]

    def bind_variables(self, machine: Indices) -> Indices:
        """Return the machine of each binding variable, given the machine of each task.

        A variable without tasks (the source of a transfer whose producer has ended) has the machine it is
        pinned to, or else its first candidate.
        """
        first = np.array([found[0] for found in self.candidate_sets], dtype=np.uint32)
        bound: Indices = first[self.candidates]
        for variable, pin in self.pinned.items():
            bound[variable] = pin
        bound[self.graph.variable] = machine
        return bound

    def modes(self, task: int) -> TaskModes:
        """Return the modes of a compute task on its candidates, ordered by machine, then count."""
        group = self.groups[int(self.group[task])]
        seconds = group.seconds_of(task)
        return TaskModes(machine=group.machine, count=group.count, nodes=group.nodes, seconds=seconds)

    def binding_budgets(self) -> tuple[str, ...]:
        """Return the names of the budgets that some choice of modes exceeds; others never matter."""
        if not self.graph.budget_names:
            return ()
        over = find_exceeded(self.graph, largest_consumption(self.graph, self.groups))
        return tuple(name for name, binds in zip(self.graph.budget_names, over, strict=True) if binds)

    def shortest_s(self) -> Floats:
        """Return for each task the seconds of its fastest mode; 0 for transfers and virtual tasks."""
        shortest = np.zeros(len(self))
        for group in self.groups:
            for tasks, seconds in group.chunks():
                shortest[tasks] = seconds.min(axis=1)
        return shortest

    def transfer_s(self, task: int, source: int, target: int) -> float:
        """Return the seconds of a transfer task between two machines; 0 on the same host."""
        return self.link_s(source, target, float(self.graph.transfer_bytes[task]), 1.0, 0.0)

    def edge_s(self, edge: int, source: int, target: int) -> float:
        """Return the seconds that the data of an edge take between two machines; 0 on the same host."""
        graph = self.graph
        size, files = float(graph.edge_bytes[edge]), float(graph.edge_files[edge])
        return self.link_s(source, target, size, files, float(graph.edge_seconds[edge]))

    def link_s(self, source: int, target: int, size: float, files: float, fixed_s: float) -> float:
        """Return the seconds to transfer files between two machines; 0 on the same host.

        ``size`` is the bytes of all files, ``files`` their number, ``fixed_s`` additional seconds.
        """
        network = self.network
        if network.host[source] == network.host[target]:
            return 0.0
        here, there = network.location[source], network.location[target]
        latency = float(network.latency_s[here, there])
        return fixed_s + files * latency + size * float(network.inverse_bandwidth[here, there])


def number_rows(first: NDArray[Any], *others: NDArray[Any]) -> NDArray[np.int64]:
    """Return a number for each row of a table that is given by its columns.

    Equal rows have equal numbers; distinct rows are numbered from 0 in sorted order. One column is sorted at
    a time, which is ten times as fast as sorting whole rows.
    """
    found = np.unique(first, return_inverse=True)[1].astype(np.int64)
    for column in others:
        kinds, number = np.unique(column, return_inverse=True)
        found = np.unique(found * len(kinds) + number, return_inverse=True)[1].astype(np.int64)
    return found


def mark_untimed_tasks(instance: Instance) -> NDArray[np.bool_]:
    """Return, for each task, whether it is a compute task whose seconds follow from assumed work."""
    seconds = instance.seconds
    if AssumedWork.source not in seconds.sources:
        return np.zeros(len(instance), dtype=np.bool_)
    guessed = seconds.source == seconds.sources.index(AssumedWork.source)
    return np.asarray(guessed & (instance.graph.kind == COMPUTE))
