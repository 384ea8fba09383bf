"""The arrays of an instance for the kernels, and their restriction to some modes.

``weft.kernels.problem`` documents each array. A planner that restricts node counts or machines passes
restricted arrays to the placement; the placement itself does not change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from weft.instance.instance import Instance, ModeGroup
from weft.kernels import problem as kernel
from weft.kernels.problem import TABLE, MachineArrays, ModeArrays, ProblemArrays, TaskArrays
from weft.predictors.seconds import ClassSeconds, RelatedSeconds
from weft.schedule.schedule import Schedule
from weft.workflow.task_graph import COMPUTE, TRANSFER, Floats, Indices, TaskGraph

_problem_cache: WeakKeyDictionary[Instance, ProblemArrays] = WeakKeyDictionary()


def compile_problem(instance: Instance) -> ProblemArrays:
    """Return the arrays of an instance; they are built once per instance and cached."""
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
    """Return for each task its first row in the table of resource amounts (``TaskArrays.amount``).

    The table begins with a row per task. Tasks whose amounts depend on the node count have further rows after
    these, one per count.
    """
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
    """Return for each mode of a group the offset of its row of amounts from the first row of the task."""
    if group.demand is None:
        return np.zeros(len(group), dtype=np.uint32)
    counts = graph.count_sets[graph.counts[group.tasks[0]]]
    return np.searchsorted(counts, group.count).astype(np.uint32)


def _cells(groups: tuple[ModeGroup, ...], tasks: int) -> tuple[NDArray[np.int64], Floats]:
    """Return the first cell of each task, and the cells: the seconds of every mode of every task."""
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
    # A machine of one node runs one task at a time, whose amounts were compared with the totals beforehand.
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
    """Tasks of one mode group that keep the same modes; they form a mode group of the restricted problem."""

    group: int
    tasks: Indices
    modes: NDArray[np.int64]
    """Positions among the modes of the group, ascending; at least one."""


def group_equal_rows(flags: NDArray[np.bool_]) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Return the groups of equal rows, each as a pair: indices of its rows, columns that are set in them."""
    if not len(flags):
        return []
    packed = np.ascontiguousarray(np.packbits(flags, axis=1))
    keys = packed.view(np.dtype((np.void, packed.shape[1]))).reshape(-1)
    _, example, number = np.unique(keys, return_index=True, return_inverse=True)
    rows = np.split(np.argsort(number, kind="stable"), np.cumsum(np.bincount(number))[:-1])
    return [(own, np.flatnonzero(flags[row])) for row, own in zip(example.tolist(), rows, strict=True)]


def split_by_modes(group: int, tasks: Indices, kept: NDArray[np.bool_]) -> list[ModeSubset]:
    """Return the tasks of a mode group, split by the modes they keep; ``kept`` is tasks x modes."""
    return [ModeSubset(group=group, tasks=tasks[rows], modes=modes) for rows, modes in group_equal_rows(kept)]


def restrict_candidates(
    problem: ProblemArrays, sets: Sequence[tuple[Indices, NDArray[np.intp]]]
) -> ProblemArrays:
    """Return the problem in which some variables have fewer candidate machines.

    ``sets`` has pairs (variables, machines that remain their candidates, in ascending order). The restriction
    is needed after all modes on a machine were removed, so that no transfer or virtual task binds a variable
    to this machine.
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
    """Return the problem in which tasks have only the modes of their subset.

    Every compute task must be in exactly one subset of ``parts``.
    """
    modes = problem.modes
    of_task = np.full(len(modes.group), len(parts), dtype=np.uint32)
    for number, part in enumerate(parts):
        of_task[part.tasks] = number
    chosen = [modes.first[part.group] + part.modes for part in parts]
    lengths = [len(own) for own in chosen]
    taken = np.concatenate([*chosen, np.zeros(0, dtype=np.int64)]).astype(np.int64)
    row, cell = _subset_cells(modes, parts) if modes.layout == TABLE else (modes.row, modes.cell)
    # Every field is named, so that a new field cannot be forgotten here.
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
    """Return the kept modes of every subset, sorted by seconds as in ``ModeArrays.sorted``."""
    place = np.empty(len(modes.sorted), dtype=np.int64)
    place[modes.sorted] = np.arange(len(modes.sorted))
    return np.lexsort((place[taken], part)).astype(np.uint32)


def _subset_cells(modes: ModeArrays, parts: Sequence[ModeSubset]) -> tuple[NDArray[np.int64], Floats]:
    """Return the first cell of each task, and the cells: the seconds of the kept modes."""
    row, cells, filled = modes.row.copy(), [np.zeros(0)], 0
    for part in parts:
        own = modes.cell[modes.row[part.tasks][:, None] + part.modes]
        row[part.tasks] = filled + np.arange(len(part.tasks)) * len(part.modes)
        cells.append(own.reshape(-1))
        filled += own.size
    return row, np.concatenate(cells)


_CHUNK = 1_000_000
"""Number of table entries (variables x modes) that are processed at a time."""
_ROUNDING = 1e-12
"""Relative difference up to which two sums count as equal."""


class _VariableBatch(NamedTuple):
    """Some of the binding variables, with all their compute tasks."""

    variables: Indices
    tasks: Indices
    row: NDArray[np.intp]
    """Per task: position of its variable in ``variables``."""
    totals: Floats
    """Variables x machines: sum of the least seconds (or costs) of all tasks of the variable on the machine.

    Infinite if a task of the variable cannot run on the machine.
    """


def best_machines(instance: Instance, price: Floats | None = None) -> Indices:
    """Return for each variable the machine on which its tasks together take or cost least.

    With ``price``, the price of a node-second per machine, costs are compared, otherwise seconds. Ties go to
    the lower index. For variables without compute tasks ``len(machines)`` is returned. O(v k) for v tasks of
    k modes.
    """
    bound = np.full(len(instance.graph.variables), len(instance.machines), dtype=np.uint32)
    for batch in _variable_batches(instance, price):
        bound[batch.variables] = batch.totals.argmin(axis=1)
    return bound


def restrict_to_best_modes(instance: Instance, price: Floats | None = None) -> ProblemArrays:
    """Return the problem in which tasks keep only their best modes, on the best machines of their variable.

    ``price`` has the meaning it has in ``best_machines``. Modes and machines that are equal within rounding
    errors are all kept, so that the placement can choose among them.
    """
    parts: list[ModeSubset] = []
    candidates: list[tuple[Indices, NDArray[np.intp]]] = []
    for batch in _variable_batches(instance, price):
        totals = batch.totals
        best = totals <= totals.min(axis=1, keepdims=True) * (1 + _ROUNDING)
        candidates.extend((batch.variables[rows], machines) for rows, machines in group_equal_rows(best))
        for index, mine in _by_group(instance, batch.tasks):
            group, tasks = instance.groups[index], batch.tasks[mine]
            weighed = _weighted_seconds(group, tasks, price)
            least = _least_per_machine(group, weighed)
            kept = (weighed <= least * (1 + _ROUNDING)) & best[batch.row[mine]][:, group.machine]
            parts.extend(split_by_modes(index, tasks, kept))
    return restrict_candidates(restrict_modes(compile_problem(instance), parts), candidates)


def _weighted_seconds(group: ModeGroup, tasks: Indices, price: Floats | None) -> Floats:
    """Return a table (tasks x modes): the costs if ``price`` is given, else the seconds."""
    seconds: Floats = group.seconds_of(tasks)
    return seconds if price is None else seconds * (price[group.machine] * group.nodes)


def _variable_batches(instance: Instance, price: Floats | None) -> Iterator[_VariableBatch]:
    """Yield the variables of compute tasks in batches of limited size.

    A batch has, per variable and machine, the sum of the least weighted seconds of the variable's tasks.
    """
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
            weighed = _weighted_seconds(group, tasks[mine], price)
            absent = np.ones(machines, dtype=bool)
            absent[there] = False
            totals[np.ix_(row[mine], np.flatnonzero(absent))] = np.inf
            np.add.at(totals, (row[mine][:, None], there), np.minimum.reduceat(weighed, columns, axis=1))
        _apply_pins(instance, own, totals)
        yield _VariableBatch(variables=own, tasks=tasks, row=row, totals=totals)


def _by_group(instance: Instance, tasks: Indices) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Yield each mode group that occurs among the tasks, and the positions of its tasks in ``tasks``."""
    number = instance.group[tasks]
    for index in np.unique(number).tolist():
        yield index, np.flatnonzero(number == index)


def _apply_pins(instance: Instance, variables: Indices, totals: Floats) -> None:
    """Set the sums of pinned variables to infinity on all machines except the pinned one."""
    for position, variable in enumerate(variables.tolist()) if instance.pinned else ():
        if (pin := instance.pinned.get(variable)) is not None:
            there = totals[position, pin]
            totals[position] = np.inf
            totals[position, pin] = there


def _least_per_machine(group: ModeGroup, weighed: Floats) -> Floats:
    """Return a table (tasks x modes): for each mode the least value of all modes on the same machine."""
    _, columns, number = np.unique(group.machine, return_index=True, return_inverse=True)
    found: Floats = np.minimum.reduceat(weighed, columns, axis=1)[:, number]
    return found


def make_schedule(
    instance: Instance, *, machine: Indices, nodes: Indices, start_s: Floats, finish_s: Floats
) -> Schedule:
    """Return the schedule of an instance with the given columns, each with an entry per task."""
    return Schedule(
        tasks=instance.graph.names,
        machines=tuple(found.name for found in instance.machines),
        machine=machine,
        nodes=nodes,
        start_s=start_s,
        finish_s=finish_s,
    )
