"""An instance in the form of the exact model: places, options, transfer lags, and times in integer ticks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from weft.instance.instance import Instance
from weft.workflow.task_graph import COMPUTE, TRANSFER, Floats


def _possible_links(instance: Instance) -> NDArray[np.bool_]:
    """Return a table (locations x locations): whether two different hosts can be at the two locations.

    A diagonal entry states whether the location has several hosts.
    """
    network = instance.network
    hosts = np.unique(np.stack([network.location, network.host]), axis=1)[0]
    possible = np.ones(network.latency_s.shape, dtype=bool)
    np.fill_diagonal(possible, np.bincount(hosts, minlength=len(possible)) > 1)
    return possible


def _has_uniform_network(instance: Instance) -> bool:
    """Return whether all links between different hosts have the same latency and bandwidth."""
    network, possible = instance.network, _possible_links(instance)
    links = (network.latency_s[possible], network.inverse_bandwidth[possible])
    return all(bool((found == found[:1]).all()) for found in links)


def is_communication_free(instance: Instance) -> bool:
    """Return whether no transfer takes time, whatever the bindings."""
    network, graph = instance.network, instance.graph
    if len(np.unique(network.host)) == 1:
        return True
    moved = graph.edge_bytes.any() or bool((graph.kind == TRANSFER).any())
    late = graph.edge_files.any() or bool((graph.kind == TRANSFER).any())
    return not (
        graph.edge_seconds.any()
        or (moved and network.inverse_bandwidth.any())
        or (late and network.latency_s.any())
    )


def equivalent_machines(instance: Instance) -> list[list[int]]:
    """Return the classes of machines that can be exchanged in every plan without changing times or cost."""
    network = instance.network
    alone = np.bincount(network.host)[network.host] == 1
    held = {found.machine for found in instance.busy} | set(instance.pinned.values())
    anywhere = is_communication_free(instance) or _has_uniform_network(instance)
    near = np.zeros_like(network.location) if anywhere else network.location
    columns = _machine_signatures(instance)
    classes: dict[object, list[int]] = {}
    for machine in range(len(instance.machines)):
        key = (
            int(near[machine]),
            int(instance.capacity[machine]),
            bool(instance.unlimited[machine]),
            float(instance.price_per_node_s[machine]),
            instance.amounts[machine].tobytes(),
            tuple(columns[machine]),
        )
        own = machine in held or not alone[machine]
        classes.setdefault(("alone", machine) if own else key, []).append(machine)
    return list(classes.values())


def _machine_signatures(instance: Instance) -> list[list[int]]:
    """Return a list of numbers per machine; equal lists mean equal modes, seconds and candidate sets."""
    columns: list[list[int]] = [[] for _ in instance.machines]
    known: dict[object, int] = {}
    for group in instance.groups:
        seconds = group.seconds_of(group.tasks)
        for machine, column in enumerate(columns):
            own = np.flatnonzero(group.machine == machine)
            key = (group.count[own].tobytes(), group.nodes[own].tobytes(), seconds[:, own].tobytes())
            column.append(known.setdefault(key, len(known)))
    for candidates in instance.candidate_sets:
        allowed = set(candidates.tolist())
        for machine, column in enumerate(columns):
            column.append(int(machine in allowed))
    return columns


def equivalent_tasks(instance: Instance) -> list[tuple[int, int]]:
    """Return the classes of tasks that can be exchanged in every plan, as pairs of consecutive members."""
    graph = instance.graph
    members = np.bincount(graph.variable, minlength=len(graph.variables))
    np.add.at(members, graph.source_variable[graph.kind == TRANSFER], 1)
    kinds: dict[object, list[int]] = {}
    for task in np.flatnonzero(graph.kind == COMPUTE).tolist():
        variable = int(graph.variable[task])
        if members[variable] > 1 or variable in instance.pinned:
            continue
        kinds.setdefault(_task_signature(instance, task, variable), []).append(task)
    return [pair for tasks in kinds.values() for pair in pairwise(tasks)]


def _task_signature(instance: Instance, task: int, variable: int) -> object:
    graph = instance.graph
    before = range(int(graph.predecessor_pointer[task]), int(graph.predecessor_pointer[task + 1]))
    after = range(int(graph.successor_pointer[task]), int(graph.successor_pointer[task + 1]))
    return (
        int(instance.group[task]),
        int(instance.candidates[variable]),
        float(instance.earliest_start_s[task]),
        instance.groups[int(instance.group[task])].seconds_of(task).tobytes(),
        graph.demand[task].tobytes(),
        graph.consumption[task].tobytes(),
        frozenset((int(graph.predecessor[edge]), *_edge_data(instance, edge)) for edge in before),
        frozenset(
            (int(graph.successor[place]), *_edge_data(instance, int(graph.successor_edge[place])))
            for place in after
        ),
    )


def _edge_data(instance: Instance, edge: int) -> tuple[float, float, float]:
    graph = instance.graph
    return float(graph.edge_bytes[edge]), float(graph.edge_files[edge]), float(graph.edge_seconds[edge])


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceTable:
    """All places (see ``find_places``), in the order of their first machines."""

    machines: tuple[tuple[int, ...], ...]
    """Machines of each place."""
    of_machine: tuple[int, ...]
    capacity: tuple[int, ...]
    """Nodes of each place."""
    equivalent: tuple[tuple[int, ...], ...]
    """Classes of at least two equivalent places."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExecutionOption:
    """A mode in which a task can run at a place."""

    mode: int
    """Position among the modes of the task's group; at a place of several machines, the mode on the first."""
    count: int
    place: int
    nodes: int
    seconds: float
    demand: Floats
    consumption: Floats


def find_places(instance: Instance) -> PlaceTable:
    """Return the places of an instance: single machines, and classes of equivalent machines of one node.

    Symmetry: an exact search would visit every plan once per permutation of equivalent machines and tasks.
    Equivalent machines are therefore numbered in the order of their first use, and equivalent tasks start in
    the order of their index. Both rules hold at once: tasks are exchanged first, and renumbering machines
    afterwards changes no start. If it does not matter which of several equivalent machines of one node a task
    takes, they form one *place* of as many nodes, and the machines are assigned when the solution is read.
    Every other machine is a place of its own.
    """
    classes = equivalent_machines(instance)
    merged = (
        _mergeable(instance)
        if is_communication_free(instance)
        else np.zeros(len(instance.machines), dtype=bool)
    )
    parts = [part for own in classes for part in ([own] if merged[own[0]] else [[one] for one in own])]
    parts.sort()
    of_machine = {machine: place for place, part in enumerate(parts) for machine in part}
    equivalent = [sorted(of_machine[machine] for machine in own) for own in classes if not merged[own[0]]]
    return PlaceTable(
        machines=tuple(tuple(part) for part in parts),
        of_machine=tuple(of_machine[machine] for machine in range(len(instance.machines))),
        capacity=tuple(int(instance.capacity[part].sum()) for part in parts),
        equivalent=tuple(tuple(own) for own in sorted(equivalent) if len(own) > 1),
    )


def _mergeable(instance: Instance) -> NDArray[np.bool_]:
    """Return a mask of the single-node machines that no binding variable with several tasks can use."""
    graph = instance.graph
    tied = np.bincount(graph.variable[graph.kind == COMPUTE], minlength=len(graph.variables)) > 1
    merged: NDArray[np.bool_] = (instance.capacity == 1) & ~instance.unlimited
    for index in np.unique(instance.candidates[tied]).tolist():
        merged[instance.candidate_sets[index]] = False
    return merged


def list_options(instance: Instance, places: PlaceTable, *, all_options: bool) -> list[list[ExecutionOption]]:
    """Return the options of every task; empty for transfers and virtual tasks.

    Without ``all_options`` dominated options are left out: those for which another option at the same place
    needs no more nodes, seconds, resources and budget.
    """
    first = {part[0] for part in places.machines}
    found: list[list[ExecutionOption]] = [[] for _ in range(len(instance))]
    graph = instance.graph
    for group in instance.groups:
        kept = [mode for mode, machine in enumerate(group.machine.tolist()) if machine in first]
        place = [places.of_machine[machine] for machine in group.machine.tolist()]
        nodes, count = group.nodes.tolist(), group.count.tolist()
        for task in group.tasks.tolist():
            seconds = group.seconds_of(task).tolist()
            pin = instance.pinned.get(int(graph.variable[task]))
            options = [
                ExecutionOption(
                    mode=mode,
                    count=count[mode],
                    place=place[mode],
                    nodes=nodes[mode],
                    seconds=seconds[mode],
                    demand=graph.demand[task] if group.demand is None else group.demand[mode],
                    consumption=graph.consumption[task]
                    if group.consumption is None
                    else group.consumption[mode],
                )
                for mode in kept
                if pin is None or places.of_machine[pin] == place[mode]
            ]
            found[task] = options if all_options else _undominated(options)
    return found


def _undominated(options: list[ExecutionOption]) -> list[ExecutionOption]:
    """Return the options that are not dominated by another option at the same place."""
    kept: list[ExecutionOption] = []
    by_need = sorted(options, key=lambda option: (option.place, option.nodes, option.seconds, option.mode))
    for option in by_need:
        if not any(_dominates(other, option) for other in kept):
            kept.append(option)
    return sorted(kept, key=lambda option: option.mode)


def _dominates(other: ExecutionOption, option: ExecutionOption) -> bool:
    return (
        other.place == option.place
        and other.nodes <= option.nodes
        and other.seconds <= option.seconds
        and bool((other.demand <= option.demand).all())
        and bool((other.consumption <= option.consumption).all())
    )


_DECIMALS = 6
"""Largest number of decimal places of times that are counted exactly."""
_EXACT_BITS = 40
"""Times are rounded if the horizon would have at least 2 to this power exact ticks."""
_ROUNDED_BITS = 40
"""If times are rounded, the horizon has 2 to this power ticks; 2 ticks (2e-12 of it) are lost per task."""
_ROUNDING = 1e-12
"""Relative tolerance within which a floating-point number counts as a decimal number."""
_NEARLY = 1e-3
"""Tolerance for rounding errors in a sum of seconds, in ticks."""
_AMOUNT_SHARE = 2.0**-30
"""Unit of resource amounts that are not decimal numbers, as a share of the largest amount."""

_Ticks = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class TickGrid:
    """The length of a tick: ``measure / per_second`` seconds.

    A solver counts in integers, so times become numbers of ticks. If all times of an instance are decimal
    numbers, a tick is their greatest common divisor, and the model is exact. Otherwise a tick is a small
    power of two of a second, and every time is rounded *down*. This only relaxes the model: take any schedule
    and round its starts down to ticks. As ``floor(a) + floor(b) <= floor(a + b)``, every order of two events
    is kept; and tasks that run at tick i of the model all ran just before the end of that tick, so that they
    fit together. The model therefore has a plan that is not longer than the shortest schedule, and its bounds
    are bounds on the makespan.
    """

    measure: int
    per_second: float
    exact: bool
    """Whether every time of the instance is a whole number of ticks."""

    def ticks(self, seconds: Floats) -> _Ticks:
        """Return times in ticks, rounded down if the grid is not exact."""
        scaled = np.asarray(seconds, dtype=np.float64) * self.per_second
        if self.exact:
            return np.rint(scaled).astype(np.int64) // self.measure
        return np.floor(scaled).astype(np.int64)

    def tick(self, seconds: float) -> int:
        """Return one time in ticks, rounded down if the grid is not exact."""
        return int(self.ticks(np.array(seconds)))

    def begun(self, seconds: float) -> int:
        """Return the number of whole ticks that have passed at a time."""
        return math.floor(self._counted(seconds))

    def ended(self, seconds: float) -> int:
        """Return the first tick that begins at or after a time."""
        return math.ceil(-self._counted(-seconds))

    def _counted(self, seconds: float) -> float:
        """Return a time in ticks, as a fractional number.

        On an exact grid, a small tolerance is added: a sum of seconds may have a rounding error and lie just
        below a whole number of ticks.
        """
        return seconds * self.per_second / self.measure + (_NEARLY if self.exact else 0.0)

    def seconds(self, ticks: float) -> float:
        """Return the seconds of a number of ticks."""
        return ticks * self.measure / self.per_second


def choose_grid(times_s: Floats, horizon_s: float) -> TickGrid:
    """Return a grid on which the given times are exact, if there is one; ``horizon_s`` is the latest time.

    If there is none, return a grid on which times are rounded down.
    """
    times = np.unique(times_s[times_s > 0])
    for decimals in range(_DECIMALS + 1):
        per_second = 10.0**decimals
        if horizon_s * per_second >= 2.0**_EXACT_BITS:
            break
        near = np.rint(times * per_second)
        if (np.abs(times * per_second - near) <= _ROUNDING * np.maximum(1.0, near)).all():
            measure = int(np.gcd.reduce(near.astype(np.int64))) if len(near) else 1
            return TickGrid(measure=max(1, measure), per_second=per_second, exact=True)
    # Multiplying by a power of two is exact.
    exponent = _ROUNDED_BITS - int(np.frexp(max(horizon_s, 1e-300))[1])
    return TickGrid(measure=1, per_second=float(np.ldexp(1.0, exponent)), exact=False)


def scale_to_integers(taken: Floats, total: float) -> tuple[_Ticks, int]:
    """Return amounts and their limit as integers: exact if they are decimal numbers, else rounded.

    Amounts are rounded down and the limit up, so that bounds of the model stay valid.
    """
    for factor in (1.0, 10.0, 100.0, 1000.0):
        scaled = taken * factor
        near = np.rint(scaled)
        if (np.abs(scaled - near) <= _ROUNDING * np.maximum(1.0, near)).all() and (near < 2.0**40).all():
            amounts, limit = near.astype(np.int64), int(min(np.floor(total * factor * (1 + 1e-9)), 2.0**50))
            measure = int(np.gcd.reduce(amounts)) if amounts.any() else 1
            return amounts // max(1, measure), limit // max(1, measure)
    unit = max(float(total), float(taken.max(initial=0.0))) * _AMOUNT_SHARE
    return np.floor(taken / unit).astype(np.int64), int(np.floor(total * (1 + 1e-9) / unit)) + 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TransferLag:
    """The least time between two events: 0 if both are on one host, else the transfer time of the link."""

    source: int
    target: int
    """Binding variable of the later event; ``source`` is that of the earlier one."""
    ticks: NDArray[np.int64]
    """Table (locations x locations) of the ticks between different hosts; 0 where no two hosts exist."""
    uniform: int | None
    """The ticks over every link between different hosts; None if links take different times."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExactInstance:
    """The input of the exact model (``plan_model``): an instance with times in integer ticks."""

    instance: Instance
    places: PlaceTable
    candidates: tuple[tuple[int, ...], ...]
    """Places of each binding variable."""
    options: list[list[ExecutionOption]]
    """Options of each task."""
    grid: TickGrid
    ticks: list[list[int]]
    """Ticks of each task and option."""
    earliest: list[int]
    edges: list[tuple[int, int, TransferLag | None]]
    """Predecessor, task, and transfer lag; None if the data take no time."""
    transfers: dict[int, TransferLag | None]
    """Lag of each transfer task."""
    horizon_s: float
    """Largest makespan of interest: that of a known plan, else a time sufficient for any choice of modes."""


def compile_exact_instance(instance: Instance, *, all_options: bool, known_s: float | None) -> ExactInstance:
    """Return the input of the exact model; ``known_s`` is the makespan of a known plan, or None."""
    places = find_places(instance)
    options = list_options(instance, places, all_options=all_options)
    moved = _moved_s(instance)
    graph, busy = instance.graph, instance.busy
    seconds = [[option.seconds for option in own] for own in options]
    given = np.concatenate(
        [
            instance.earliest_start_s,
            [max(0.0, held.start_s) for held in busy],
            [max(0.0, held.finish_s) for held in busy],
        ]
    )
    times = np.concatenate([*map(np.array, seconds), moved.reshape(-1), given])
    longest = sum(max(own, default=0.0) for own in seconds) + float(moved.max(axis=(1, 2), initial=0.0).sum())
    horizon_s = float(given.max(initial=0.0)) + longest if known_s is None else known_s
    grid = choose_grid(times, horizon_s)
    lags = _lags(instance, moved, grid)
    edges = graph.edge_count
    target = np.repeat(np.arange(len(graph)), np.diff(graph.predecessor_pointer)).tolist()
    transfers = np.flatnonzero(graph.kind == TRANSFER).tolist()
    return ExactInstance(
        instance=instance,
        places=places,
        candidates=_candidates(instance, places),
        options=options,
        grid=grid,
        ticks=[grid.ticks(np.array(own)).tolist() for own in seconds],
        earliest=grid.ticks(instance.earliest_start_s).tolist(),
        edges=list(zip(graph.predecessor.tolist(), target, lags[:edges], strict=True)),
        transfers=dict(zip(transfers, lags[edges:], strict=True)),
        horizon_s=horizon_s,
    )


def _candidates(instance: Instance, places: PlaceTable) -> tuple[tuple[int, ...], ...]:
    found = []
    for variable in range(len(instance.graph.variables)):
        pin = instance.pinned.get(variable)
        machines = instance.candidates_of(variable).tolist() if pin is None else [pin]
        found.append(tuple(sorted({places.of_machine[machine] for machine in machines})))
    return tuple(found)


def _moved_s(instance: Instance) -> Floats:
    """Return the seconds of each transfer between different hosts, per pair of locations.

    The first axis of the array has the edges and then the transfer tasks; the other axes are the locations of
    source and target.
    """
    graph, network = instance.graph, instance.network
    moved = graph.transfer_bytes[graph.kind == TRANSFER]
    fixed = np.concatenate([graph.edge_seconds, np.zeros(len(moved))])[:, None, None]
    files = np.concatenate([graph.edge_files, np.ones(len(moved))])[:, None, None]
    size = np.concatenate([graph.edge_bytes, moved])[:, None, None]
    seconds: Floats = fixed + files * network.latency_s + size * network.inverse_bandwidth
    return np.where(_possible_links(instance), seconds, 0.0)


def _lags(instance: Instance, moved_s: Floats, grid: TickGrid) -> list[TransferLag | None]:
    graph = instance.graph
    moves = graph.kind == TRANSFER
    target = np.repeat(np.arange(len(graph)), np.diff(graph.predecessor_pointer))
    # A transfer reads its data at its source; every other task on its own machine.
    reads = np.where(moves, graph.source_variable, graph.variable)
    source = np.concatenate([graph.variable[graph.predecessor], graph.source_variable[moves]]).tolist()
    target = np.concatenate([reads[target], graph.variable[moves]]).tolist()
    possible = _possible_links(instance)
    found: list[TransferLag | None] = []
    for one, other, ticks in zip(source, target, grid.ticks(moved_s), strict=True):
        links = ticks[possible]
        if one == other or not links.any():
            found.append(None)
            continue
        uniform = int(links[0]) if (links == links[0]).all() else None
        found.append(TransferLag(source=one, target=other, ticks=ticks, uniform=uniform))
    return found


MAX_TERMS = 50_000
"""Largest number of literals and terms of a model.

A larger model takes seconds to build and rarely finds a better plan.
"""


def count_terms(instance: Instance) -> int:
    """Return the approximate number of literals and terms of the exact model of an instance."""
    modes = sum(len(group) * len(group.tasks) for group in instance.groups)
    tasks, edges, machines = len(instance), instance.graph.edge_count, len(instance.machines)
    if tasks + edges > MAX_TERMS or modes > MAX_TERMS * 100 or machines * len(instance.groups) > MAX_TERMS:
        return modes + tasks + edges
    if is_communication_free(instance):
        merged = np.isin(np.arange(machines), [part[0] for part in find_places(instance).machines])
        kept = sum(int(merged[group.machine].sum()) * len(group.tasks) for group in instance.groups)
        return kept + tasks + edges
    links = edges + int((instance.graph.kind == TRANSFER).sum())
    hosts, locations = len(np.unique(instance.network.host)), len(instance.network.latency_s)
    return modes + tasks + links * (3 * hosts if _has_uniform_network(instance) else locations * locations)
