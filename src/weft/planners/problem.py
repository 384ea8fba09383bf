"""The instance as kernels read it: see ``weft.kernels.problem`` for what each array means."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from weft.instance.instance import Instance
from weft.kernels import problem as kernel
from weft.kernels.problem import Machines, Modes, Problem, Tasks
from weft.predictors.seconds import Classes, Related
from weft.workflow.unfolding.task_graph import TRANSFER, Floats, Indices, TaskGraph

if TYPE_CHECKING:
    from weft.instance.modes import ModeGroup

__all__ = ["problem_of"]

_known: WeakKeyDictionary[Instance, Problem] = WeakKeyDictionary()


def problem_of(instance: Instance) -> Problem:
    """Give the arrays of an instance; they are made once, however many planners read them."""
    if instance not in _known:
        busy = instance.busy
        resources = len(instance.graph.resource_names)
        nothing = (0.0,) * resources
        starts = np.array([max(0.0, held.start_s) for held in busy], dtype=np.float64)
        finish = np.array([held.finish_s for held in busy], dtype=np.float64)
        amounts = [held.amounts or nothing for held in busy]
        _known[instance] = Problem(
            tasks=_tasks(instance),
            modes=_modes(instance),
            machines=_machines(instance),
            busy_machine=np.array([held.machine for held in busy], dtype=np.uint32),
            busy_start=starts,
            busy_seconds=np.maximum(0.0, finish - starts),
            busy_nodes=np.array([held.nodes for held in busy], dtype=np.int64),
            busy_amount=np.array(amounts, dtype=np.float64).reshape(-1),
        )
    return _known[instance]


def _tasks(instance: Instance) -> Tasks:
    graph = instance.graph
    pinned = np.full(len(graph.variables), len(instance.machines), dtype=np.uint32)
    for variable, machine in instance.pinned.items():
        pinned[variable] = machine
    choosing = graph.variable[graph.kind != TRANSFER]
    return Tasks(
        number=len(graph),
        variables=len(graph.variables),
        transfers=int((graph.kind == TRANSFER).sum()),
        kind=graph.kind,
        variable=graph.variable,
        source=graph.source_variable,
        pinned=pinned,
        anchors=np.bincount(choosing, minlength=len(graph.variables)).astype(np.uint32),
        candidate_pointer=_pointer([len(found) for found in instance.candidate_sets]),
        candidate=_joined(instance.candidate_sets),
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


def _modes(instance: Instance) -> Modes:
    groups, seconds, tasks = instance.groups, instance.seconds, len(instance)
    group = np.where(instance.group < 0, len(groups), instance.group).astype(np.uint32)
    first = _pointer([len(found) for found in groups])
    number = int(first[-1])
    rate, gain = np.ones(number), np.ones(number)
    work, row, cell = np.zeros(tasks), np.zeros(tasks, dtype=np.int64), np.zeros(0)
    if isinstance(seconds, Related):
        layout, work = kernel.RELATED, seconds.work
        for found, start in zip(groups, first.tolist(), strict=False):
            example = int(found.tasks[0])
            rate[start : start + len(found)] = seconds.rate[seconds.service[example], found.machine]
            gain[start : start + len(found)] = seconds.speedup[seconds.law[example], found.count]
    elif isinstance(seconds, Classes):
        layout = kernel.CLASSES
        for found, start in zip(groups, first.tolist(), strict=False):
            rate[start : start + len(found)] = found.seconds_of(int(found.tasks[0]))
    else:
        layout = kernel.TABLE
        row, cell = _cells(groups, tasks)
    machine = _joined([found.machine for found in groups])
    count = _joined([found.count for found in groups])
    return Modes(
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
        shift=_joined([_shift(instance.graph, found) for found in groups]),
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


def _machines(instance: Instance) -> Machines:
    network, machines = instance.network, len(instance.machines)
    shared = np.zeros(machines, dtype=np.bool_)
    shared[[held.machine for held in instance.busy]] = True
    # One node, one task: its amounts were compared with the totals beforehand.
    alone = (instance.capacity == 1) & ~shared
    form = np.where(instance.unlimited, kernel.OPEN, np.where(alone, kernel.SINGLE, kernel.SHARED))
    amounts = instance.amounts
    hosts = int(network.host.max(initial=0)) + 1
    return Machines(
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


def _joined(parts: list[Indices] | tuple[Indices, ...]) -> Indices:
    return np.concatenate(parts or [np.zeros(0, dtype=np.uint32)]).astype(np.uint32)
