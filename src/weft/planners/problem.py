"""The instance as kernels read it: see ``weft.kernels.problem`` for what each array means.

Narrowing: the problem of an instance in which tasks may take only some of their modes.

Tasks of one group that keep the same modes form a group of the new problem. So a planner restricts node
counts or machines beforehand, and placement stays as it is.

The least: on which machine, and in which modes, the tasks of a binding variable take or cost least.

A weight per mode turns seconds into what is to be small: 1 leaves seconds, price times nodes makes costs.
Whoever is equally good within rounding is kept, so that placement may choose. O(v k) for v tasks of k modes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from weft.instance.instance import Instance, ModeGroup
from weft.kernels import problem as kernel
from weft.kernels.problem import TABLE, MachineArrays, ModeArrays, ProblemArrays, TaskArrays
from weft.predictors.seconds import ClassSeconds, RelatedSeconds
from weft.workflow.task_graph import COMPUTE, TRANSFER, Floats, Indices, TaskGraph

__all__ = [
    "ModeSubset",
    "ModeWeight",
    "best_machines",
    "compile_problem",
    "group_equal_rows",
    "price_weight",
    "restrict_candidates",
    "restrict_modes",
    "restrict_to_best_modes",
    "seconds_weight",
    "split_by_modes",
]


_problem_cache: WeakKeyDictionary[Instance, ProblemArrays] = WeakKeyDictionary()


def compile_problem(instance: Instance) -> ProblemArrays:
    """Give the arrays of an instance; they are made once, however many planners read them."""
    if instance not in _problem_cache:
        busy = instance.busy
        resources = len(instance.graph.resource_names)
        nothing = (0.0,) * resources
        starts = np.array([max(0.0, held.start_s) for held in busy], dtype=np.float64)
        finish = np.array([held.finish_s for held in busy], dtype=np.float64)
        amounts = [held.amounts or nothing for held in busy]
        _problem_cache[instance] = ProblemArrays(
            tasks=_tasks(instance),
            modes=_modes(instance),
            machines=_machines(instance),
            busy_machine=np.array([held.machine for held in busy], dtype=np.uint32),
            busy_start=starts,
            busy_seconds=np.maximum(0.0, finish - starts),
            busy_nodes=np.array([held.nodes for held in busy], dtype=np.int64),
            busy_amount=np.array(amounts, dtype=np.float64).reshape(-1),
        )
    return _problem_cache[instance]


def _tasks(instance: Instance) -> TaskArrays:
    graph = instance.graph
    pinned = np.full(len(graph.variables), len(instance.machines), dtype=np.uint32)
    for variable, machine in instance.pinned.items():
        pinned[variable] = machine
    choosing = graph.variable[graph.kind != TRANSFER]
    return TaskArrays(
        number=len(graph),
        variables=len(graph.variables),
        transfers=int((graph.kind == TRANSFER).sum()),
        kind=graph.kind,
        variable=graph.variable,
        source=graph.source_variable,
        pinned=pinned,
        anchors=np.bincount(choosing, minlength=len(graph.variables)).astype(np.uint32),
        candidate_pointer=_pointer([len(found) for found in instance.candidate_sets]),
        candidate=_concatenate(instance.candidate_sets),
        candidate_set=instance.candidates,
        earliest=instance.earliest_start_s,
        moved=graph.transfer_bytes,
        pointer=graph.predecessor_pointer.astype(np.uint32),
        before=graph.predecessor,
        size=graph.edge_bytes,
        files=graph.edge_files,
        fixed=graph.edge_seconds,
        after_pointer=graph.successor_pointer.astype(np.uint32),
        after=graph.successor,
        after_edge=graph.successor_edge,
        need=_first_rows(graph),
        amount=np.concatenate((graph.demand, graph.demand_by_count.rows)).reshape(-1),
    )


def _first_rows(graph: TaskGraph) -> Indices:
    """Give the first row of each task's amounts; those that depend on the count stand behind all others."""
    pointer = graph.demand_by_count.pointer
    first = np.where(np.diff(pointer) > 0, len(graph) + pointer[:-1], np.arange(len(graph)))
    return first.astype(np.uint32)


def _modes(instance: Instance) -> ModeArrays:
    groups, seconds, tasks = instance.groups, instance.seconds, len(instance)
    group = np.where(instance.group < 0, len(groups), instance.group).astype(np.uint32)
    first = _pointer([len(found) for found in groups])
    number = int(first[-1])
    rate, gain = np.ones(number), np.ones(number)
    work, row, cell = np.zeros(tasks), np.zeros(tasks, dtype=np.int64), np.zeros(0)
    if isinstance(seconds, RelatedSeconds):
        layout, work = kernel.RELATED, seconds.work
        for found, start in zip(groups, first.tolist(), strict=False):
            example = int(found.tasks[0])
            rate[start : start + len(found)] = seconds.rate[seconds.service[example], found.machine]
            gain[start : start + len(found)] = seconds.speedup[seconds.law[example], found.count]
    elif isinstance(seconds, ClassSeconds):
        layout = kernel.CLASSES
        for found, start in zip(groups, first.tolist(), strict=False):
            rate[start : start + len(found)] = found.seconds_of(int(found.tasks[0]))
    else:
        layout = kernel.TABLE
        row, cell = _cells(groups, tasks)
    machine = _concatenate([found.machine for found in groups])
    count = _concatenate([found.count for found in groups])
    return ModeArrays(
        layout=layout,
        groups=len(groups),
        group=group,
        first=first,
        machine=machine,
        count=count,
        nodes=np.concatenate([found.nodes for found in groups] or [np.zeros(0, dtype=np.int64)]),
        rate=rate,
        gain=gain,
        sorted=_by_seconds(layout, first, rate, gain),
        scaled=np.array([(gain[a:b] != 1.0).any() for a, b in pairwise(first.tolist())], dtype=np.uint8),
        moldable=np.array([len(np.unique(found.count)) > 1 for found in groups], dtype=np.uint8),
        shift=_concatenate([_shift(instance.graph, found) for found in groups]),
        work=work,
        row=row,
        cell=cell,
    )


def _shift(graph: TaskGraph, group: ModeGroup) -> Indices:
    """Give per mode which row of a task's amounts it takes: that of its count, where the count matters."""
    if group.demand is None:
        return np.zeros(len(group), dtype=np.uint32)
    counts = graph.count_sets[graph.counts[group.tasks[0]]]
    return np.searchsorted(counts, group.count).astype(np.uint32)


def _cells(groups: tuple[ModeGroup, ...], tasks: int) -> tuple[NDArray[np.int64], Floats]:
    """Write down the seconds of every mode of every task."""
    row = np.zeros(tasks, dtype=np.int64)
    cells, filled = [np.zeros(0)], 0
    for found in groups:
        for members, seconds in found.chunks():
            row[members] = filled + np.arange(len(members)) * len(found)
            cells.append(np.ascontiguousarray(seconds).reshape(-1))
            filled += seconds.size
    return row, np.concatenate(cells)


def _by_seconds(layout: int, first: Indices, rate: Floats, gain: Floats) -> Indices:
    number = int(first[-1])
    if layout == kernel.TABLE:
        return np.arange(number, dtype=np.uint32)
    slowness = 1.0 / rate / gain if layout == kernel.RELATED else rate
    lengths = first[1:].astype(np.int64) - first[:-1].astype(np.int64)
    of_group = np.repeat(np.arange(len(lengths)), lengths)
    return np.lexsort((np.arange(number), slowness, of_group)).astype(np.uint32)


def _machines(instance: Instance) -> MachineArrays:
    network, machines = instance.network, len(instance.machines)
    shared = np.zeros(machines, dtype=np.bool_)
    shared[[held.machine for held in instance.busy]] = True
    # One node, one task: its amounts were compared with the totals beforehand.
    alone = (instance.capacity == 1) & ~shared
    form = np.where(instance.unlimited, kernel.OPEN, np.where(alone, kernel.SINGLE, kernel.SHARED))
    amounts = instance.amounts
    hosts = int(network.host.max(initial=0)) + 1
    return MachineArrays(
        number=machines,
        hosts=hosts,
        locations=len(network.latency_s),
        apart=int(hosts == len(network.latency_s)),
        resources=amounts.shape[1],
        form=form.astype(np.uint8),
        capacity=instance.capacity,
        price=instance.price_per_node_s,
        amount=amounts.reshape(-1),
        slack=np.where(np.isfinite(amounts), 1e-9 * amounts, 0.0).reshape(-1),
        location=network.location,
        host=network.host,
        on_host_pointer=_pointer(np.bincount(network.host, minlength=hosts).tolist()),
        on_host=np.argsort(network.host, kind="stable").astype(np.uint32),
        latency=network.latency_s.reshape(-1),
        inverse=network.inverse_bandwidth.reshape(-1),
    )


def _pointer(lengths: list[int]) -> Indices:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.uint32)


def _concatenate(parts: list[Indices] | tuple[Indices, ...]) -> Indices:
    return np.concatenate(parts or [np.zeros(0, dtype=np.uint32)]).astype(np.uint32)


class ModeSubset(NamedTuple):
    """Tasks of one group and the modes they keep."""

    group: int
    tasks: Indices
    modes: NDArray[np.int64]
    """Positions among the modes of the group, ascending; at least one."""


def group_equal_rows(flags: NDArray[np.bool_]) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Divide rows that are alike; give the rows of each kind, and the columns that are set in them."""
    if not len(flags):
        return []
    packed = np.ascontiguousarray(np.packbits(flags, axis=1))
    keys = packed.view(np.dtype((np.void, packed.shape[1]))).reshape(-1)
    _, example, number = np.unique(keys, return_index=True, return_inverse=True)
    rows = np.split(np.argsort(number, kind="stable"), np.cumsum(np.bincount(number))[:-1])
    return [(own, np.flatnonzero(flags[row])) for row, own in zip(example.tolist(), rows, strict=True)]


def split_by_modes(group: int, tasks: Indices, kept: NDArray[np.bool_]) -> list[ModeSubset]:
    """Divide tasks of a group by the modes they keep (tasks x modes)."""
    return [ModeSubset(group=group, tasks=tasks[rows], modes=modes) for rows, modes in group_equal_rows(kept)]


def restrict_candidates(
    problem: ProblemArrays, sets: Sequence[tuple[Indices, NDArray[np.intp]]]
) -> ProblemArrays:
    """Give the problem in which some variables may be bound only to some machines, given ascending.

    Where tasks lose all modes of a machine, nothing else may bind their variable to it.
    """
    tasks = problem.tasks
    of_variable = tasks.candidate_set.copy()
    known = len(tasks.candidate_pointer) - 1
    for number, (variables, _) in enumerate(sets, start=known):
        of_variable[variables] = number
    lengths = [len(machines) for _, machines in sets]
    pointer = np.concatenate([tasks.candidate_pointer, len(tasks.candidate) + np.cumsum(lengths)])
    found = np.concatenate([tasks.candidate, *(machines for _, machines in sets)])
    return problem._replace(
        tasks=tasks._replace(
            candidate_pointer=pointer.astype(np.uint32),
            candidate=found.astype(np.uint32),
            candidate_set=of_variable,
        )
    )


def restrict_modes(problem: ProblemArrays, parts: Sequence[ModeSubset]) -> ProblemArrays:
    """Give the problem of these parts, in which every compute task must stand once."""
    modes = problem.modes
    of_task = np.full(len(modes.group), len(parts), dtype=np.uint32)
    for number, part in enumerate(parts):
        of_task[part.tasks] = number
    chosen = [modes.first[part.group] + part.modes for part in parts]
    lengths = [len(own) for own in chosen]
    taken = np.concatenate([*chosen, np.zeros(0, dtype=np.int64)]).astype(np.int64)
    row, cell = _subset_cells(modes, parts) if modes.layout == TABLE else (modes.row, modes.cell)
    # Every field is named: one that is new must be thought of here.
    return problem._replace(
        modes=ModeArrays(
            layout=modes.layout,
            groups=len(parts),
            group=of_task,
            first=np.cumsum([0, *lengths]).astype(np.uint32),
            machine=modes.machine[taken],
            count=modes.count[taken],
            nodes=modes.nodes[taken],
            rate=modes.rate[taken],
            gain=modes.gain[taken],
            sorted=_sorted_subsets(modes, taken, np.repeat(np.arange(len(parts)), lengths)),
            moldable=np.array([len(np.unique(modes.count[own])) > 1 for own in chosen], dtype=np.uint8),
            scaled=np.array([(modes.gain[own] != 1.0).any() for own in chosen], dtype=np.uint8),
            shift=modes.shift[taken],
            work=modes.work,
            row=row,
            cell=cell,
        )
    )


def _sorted_subsets(modes: ModeArrays, taken: NDArray[np.int64], part: NDArray[np.int64]) -> Indices:
    """Keep the modes of every part in the order in which they were sorted."""
    place = np.empty(len(modes.sorted), dtype=np.int64)
    place[modes.sorted] = np.arange(len(modes.sorted))
    return np.lexsort((place[taken], part)).astype(np.uint32)


def _subset_cells(modes: ModeArrays, parts: Sequence[ModeSubset]) -> tuple[NDArray[np.int64], Floats]:
    """Write down the seconds of the modes that are kept."""
    row, cells, filled = modes.row.copy(), [np.zeros(0)], 0
    for part in parts:
        own = modes.cell[modes.row[part.tasks][:, None] + part.modes]
        row[part.tasks] = filled + np.arange(len(part.tasks)) * len(part.modes)
        cells.append(own.reshape(-1))
        filled += own.size
    return row, np.concatenate(cells)


ModeWeight = Callable[[Instance, ModeGroup], Floats]
"""Gives what a second of each mode of a group weighs."""

_CHUNK = 1_000_000
"""How many modes (variables x modes) are looked at at a time."""
_ROUNDING = 1e-12
"""Share by which equal sums may differ."""


class _VariableBatch(NamedTuple):
    """Some binding variables with all their compute tasks."""

    variables: Indices
    tasks: Indices
    row: NDArray[np.intp]
    """Per task: the position of its variable."""
    totals: Floats
    """Variables x machines: what the best modes of all tasks come to; inf: some task cannot run there."""


def seconds_weight(instance: Instance, group: ModeGroup) -> Floats:  # noqa: ARG001
    """Weigh a second as a second."""
    return np.ones(len(group))


def price_weight(instance: Instance, group: ModeGroup) -> Floats:
    """Weigh a second by the price of the nodes taken."""
    return instance.price_per_node_s[group.machine] * group.nodes


def best_machines(instance: Instance, weight: ModeWeight) -> Indices:
    """Give per variable the machine of least total, the first if several; their number: nothing runs."""
    bound = np.full(len(instance.graph.variables), len(instance.machines), dtype=np.uint32)
    for stretch in _variable_batches(instance, weight):
        bound[stretch.variables] = stretch.totals.argmin(axis=1)
    return bound


def restrict_to_best_modes(instance: Instance, weight: ModeWeight) -> ProblemArrays:
    """Give the problem in which tasks keep only their best modes, on the best machines of their variable."""
    parts: list[ModeSubset] = []
    candidates: list[tuple[Indices, NDArray[np.intp]]] = []
    for stretch in _variable_batches(instance, weight):
        totals = stretch.totals
        best = totals <= totals.min(axis=1, keepdims=True) * (1 + _ROUNDING)
        candidates.extend((stretch.variables[rows], machines) for rows, machines in group_equal_rows(best))
        for index, mine in _by_group(instance, stretch.tasks):
            group, tasks = instance.groups[index], stretch.tasks[mine]
            weighed = group.seconds_of(tasks) * weight(instance, group)
            least = _least_per_machine(group, weighed)
            kept = (weighed <= least * (1 + _ROUNDING)) & best[stretch.row[mine]][:, group.machine]
            parts.extend(split_by_modes(index, tasks, kept))
    return restrict_candidates(restrict_modes(compile_problem(instance), parts), candidates)


def _variable_batches(instance: Instance, weight: ModeWeight) -> Iterator[_VariableBatch]:
    """Add up per variable and machine, for not too many variables at once."""
    graph, machines = instance.graph, len(instance.machines)
    compute = np.flatnonzero(graph.kind == COMPUTE).astype(np.uint32)
    by_variable = compute[np.argsort(graph.variable[compute], kind="stable")]
    variables, first = np.unique(graph.variable[by_variable], return_index=True)
    ends = np.append(first[1:], len(by_variable))
    rows = max(1, _CHUNK // max(map(len, instance.groups), default=1))
    for start in range(0, len(variables), rows):
        own = variables[start : start + rows]
        tasks = by_variable[int(first[start]) : int(ends[start + len(own) - 1])]
        row = np.searchsorted(own, graph.variable[tasks])
        totals = np.zeros((len(own), machines))
        for index, mine in _by_group(instance, tasks):
            group = instance.groups[index]
            there, columns = np.unique(group.machine, return_index=True)
            weighed = group.seconds_of(tasks[mine]) * weight(instance, group)
            absent = np.ones(machines, dtype=bool)
            absent[there] = False
            totals[np.ix_(row[mine], np.flatnonzero(absent))] = np.inf
            np.add.at(totals, (row[mine][:, None], there), np.minimum.reduceat(weighed, columns, axis=1))
        _apply_pins(instance, own, totals)
        yield _VariableBatch(variables=own, tasks=tasks, row=row, totals=totals)


def _by_group(instance: Instance, tasks: Indices) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Give the groups of some tasks, and where their tasks stand."""
    number = instance.group[tasks]
    for index in np.unique(number).tolist():
        yield index, np.flatnonzero(number == index)


def _apply_pins(instance: Instance, variables: Indices, totals: Floats) -> None:
    for position, variable in enumerate(variables.tolist()) if instance.pinned else ():
        pin = instance.pinned.get(variable)
        if pin is not None:
            there = totals[position, pin]
            totals[position] = np.inf
            totals[position, pin] = there


def _least_per_machine(group: ModeGroup, weighed: Floats) -> Floats:
    """Give per mode the least of all modes on its machine."""
    _, columns, number = np.unique(group.machine, return_index=True, return_inverse=True)
    found: Floats = np.minimum.reduceat(weighed, columns, axis=1)[:, number]
    return found
