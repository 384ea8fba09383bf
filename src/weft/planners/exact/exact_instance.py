"""Alike: machines that may change places in any plan, and tasks that may.

An exact search would look at every plan once per permutation of them. Machines that are alike are named in
the order in which they are first used; where nothing depends on which of them a task takes, they are one
*place* with as many nodes. Tasks that are alike start in the order of their numbers. Both hold at once:
tasks change places first, and renaming machines afterwards moves no start.

Places: where tasks can be put in an exact model, and the ways to run each task there.

A place is a machine, or all of several like machines of one node among which it does not matter which one
a task takes: they are told apart when the plan is read.

Grids: seconds as whole numbers, which is all an exact solver counts in.

Where all times of an instance are whole or decimal numbers, a tick is their largest common measure and the
model is the problem itself. Otherwise a tick is a small power of two of a second and every time is rounded
*down*. That makes the model easier, never harder: take any schedule and round its starts down to ticks.
As ``floor(a) + floor(b) <= floor(a + b)``, whatever followed something else still does; and tasks that run at
tick i of the model all ran just before the end of that tick, so that they have room together. So the model
has a plan that is not longer than the shortest schedule, and its bounds are bounds of the makespan.

The case: an instance as an exact model reads it, its times in ticks.

Sizes: how large the exact model of an instance is, counted before anything is built.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from weft.instance.instance import Instance
from weft.workflow.task_graph import COMPUTE, TRANSFER, Floats

__all__ = [
    "MAX_TERMS",
    "ExactInstance",
    "ExecutionOption",
    "PlaceTable",
    "TickGrid",
    "TransferLag",
    "choose_grid",
    "compile_exact_instance",
    "count_terms",
    "equivalent_machines",
    "equivalent_tasks",
    "find_places",
    "has_uniform_network",
    "is_communication_free",
    "list_options",
    "possible_links",
    "scale_to_integers",
]


def possible_links(instance: Instance) -> NDArray[np.bool_]:
    """Say between which locations there are two different hosts, one at each."""
    network = instance.network
    hosts = np.unique(np.stack([network.location, network.host]), axis=1)[0]
    possible = np.ones(network.latency_s.shape, dtype=bool)
    np.fill_diagonal(possible, np.bincount(hosts, minlength=len(possible)) > 1)
    return possible


def has_uniform_network(instance: Instance) -> bool:
    """Say whether data between different hosts take the same time, whichever two hosts it is."""
    network, possible = instance.network, possible_links(instance)
    links = (network.latency_s[possible], network.inverse_bandwidth[possible])
    return all(bool((found == found[:1]).all()) for found in links)


def is_communication_free(instance: Instance) -> bool:
    """Say whether data never take time, wherever tasks are."""
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
    """Divide the machines into classes that may change places; a machine that is like no other is alone."""
    network = instance.network
    alone = np.bincount(network.host)[network.host] == 1
    held = {found.machine for found in instance.busy} | set(instance.pinned.values())
    near = np.zeros_like(network.location) if _ignores_location(instance) else network.location
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


def _ignores_location(instance: Instance) -> bool:
    return is_communication_free(instance) or has_uniform_network(instance)


def _machine_signatures(instance: Instance) -> list[list[int]]:
    """Number per machine what it offers: per group its modes and all their seconds; per set of candidates."""
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
    """Give pairs of tasks that may change places, each with the next one of its kind."""
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
    """All places, in the order of their first machines."""

    machines: tuple[tuple[int, ...], ...]
    """Per place."""
    of_machine: tuple[int, ...]
    capacity: tuple[int, ...]
    """Per place: nodes."""
    alike: tuple[tuple[int, ...], ...]
    """Classes of several places that may change places."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExecutionOption:
    """One way to run a task."""

    mode: int
    """Its position among the modes of the task's group; at a place of several machines, that on the first."""
    count: int
    place: int
    nodes: int
    seconds: float
    demand: Floats
    consumption: Floats


def find_places(instance: Instance) -> PlaceTable:
    """Find the places of an instance."""
    classes = equivalent_machines(instance)
    merged = (
        _mergeable(instance)
        if is_communication_free(instance)
        else np.zeros(len(instance.machines), dtype=bool)
    )
    parts = [part for own in classes for part in ([own] if merged[own[0]] else [[one] for one in own])]
    parts.sort()
    of_machine = {machine: place for place, part in enumerate(parts) for machine in part}
    alike = [sorted(of_machine[machine] for machine in own) for own in classes if not merged[own[0]]]
    return PlaceTable(
        machines=tuple(tuple(part) for part in parts),
        of_machine=tuple(of_machine[machine] for machine in range(len(instance.machines))),
        capacity=tuple(int(instance.capacity[part].sum()) for part in parts),
        alike=tuple(tuple(own) for own in sorted(alike) if len(own) > 1),
    )


def _mergeable(instance: Instance) -> NDArray[np.bool_]:
    """Say which machines serve single tasks that nothing ties together, one after the other."""
    graph = instance.graph
    tied = np.bincount(graph.variable[graph.kind == COMPUTE], minlength=len(graph.variables)) > 1
    merged: NDArray[np.bool_] = (instance.capacity == 1) & ~instance.unlimited
    for index in np.unique(instance.candidates[tied]).tolist():
        merged[instance.candidate_sets[index]] = False
    return merged


def list_options(instance: Instance, places: PlaceTable, *, all_ways: bool) -> list[list[ExecutionOption]]:
    """Give the ways of every task; none of transfers and virtual tasks.

    Without ``all_ways`` those are left out to which another at the same place is never inferior.
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
            ways = [
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
            found[task] = ways if all_ways else _undominated(ways)
    return found


def _undominated(ways: list[ExecutionOption]) -> list[ExecutionOption]:
    """Leave out ways that take as long as another at the same place, and no less of anything."""
    kept: list[ExecutionOption] = []
    by_need = sorted(ways, key=lambda way: (way.place, way.nodes, way.seconds, way.mode))
    for way in by_need:
        if not any(_dominates(other, way) for other in kept):
            kept.append(way)
    return sorted(kept, key=lambda way: way.mode)


def _dominates(other: ExecutionOption, way: ExecutionOption) -> bool:
    return (
        other.place == way.place
        and other.nodes <= way.nodes
        and other.seconds <= way.seconds
        and bool((other.demand <= way.demand).all())
        and bool((other.consumption <= way.consumption).all())
    )


_DECIMALS = 6
"""Digits behind the point up to which times count as decimal."""
_EXACT_BITS = 40
"""A horizon of more ticks is not counted exactly."""
_ROUNDED_BITS = 40
"""How fine the horizon is cut where times are rounded: 2 ticks per task are lost, 2e-12 of it."""
_ROUNDING = 1e-12
"""Share by which a double may differ from the number it stands for."""
_NEARLY = 1e-3
"""Part of a tick by which a sum may differ from the tick it stands for."""
_AMOUNT_SHARE = 2.0**-30
"""How fine amounts of resources are counted that are no whole numbers."""

_Ticks = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class TickGrid:
    """How long a tick is: ``measure / per_second`` seconds."""

    measure: int
    per_second: float
    exact: bool
    """Whether every time of the instance is a number of ticks."""

    def ticks(self, seconds: Floats) -> _Ticks:
        """Give times in ticks, rounded down where they are not exact."""
        scaled = np.asarray(seconds, dtype=np.float64) * self.per_second
        if self.exact:
            return np.rint(scaled).astype(np.int64) // self.measure
        return np.floor(scaled).astype(np.int64)

    def tick(self, seconds: float) -> int:
        """Give one time in ticks."""
        return int(self.ticks(np.array(seconds)))

    def begun(self, seconds: float) -> int:
        """Give the ticks that are over at a moment of a schedule."""
        return math.floor(self._counted(seconds))

    def ended(self, seconds: float) -> int:
        """Give the tick that is the first not to lie before a moment."""
        return math.ceil(-self._counted(-seconds))

    def _counted(self, seconds: float) -> float:
        """Count ticks; a moment is a sum: where times are exact, whole but for the last digits."""
        return seconds * self.per_second / self.measure + (_NEARLY if self.exact else 0.0)

    def seconds(self, ticks: float) -> float:
        """Give the seconds of a number of ticks."""
        return ticks * self.measure / self.per_second


def choose_grid(times_s: Floats, horizon_s: float) -> TickGrid:
    """Find the grid of all times of an instance; the horizon is the latest moment of interest."""
    times = np.unique(times_s[times_s > 0])
    for decimals in range(_DECIMALS + 1):
        per_second = 10.0**decimals
        if horizon_s * per_second >= 2.0**_EXACT_BITS:
            break
        near = np.rint(times * per_second)
        if (np.abs(times * per_second - near) <= _ROUNDING * np.maximum(1.0, near)).all():
            measure = int(np.gcd.reduce(near.astype(np.int64))) if len(near) else 1
            return TickGrid(measure=max(1, measure), per_second=per_second, exact=True)
    # A power of two: multiplying by it rounds nothing.
    exponent = _ROUNDED_BITS - int(np.frexp(max(horizon_s, 1e-300))[1])
    return TickGrid(measure=1, per_second=float(np.ldexp(1.0, exponent)), exact=False)


def scale_to_integers(taken: Floats, total: float) -> tuple[_Ticks, int]:
    """Give amounts and their limit as whole numbers: exact where they are, else rounded in favour of fitting.

    Nothing that fits is refused, so that bounds stay bounds.
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
    """What must pass between two moments: nothing on one host, else what the links take."""

    source: int
    target: int
    """Binding variables."""
    ticks: NDArray[np.int64]
    """By location and location, for different hosts; 0 where there are none."""
    uniform: int | None
    """What all links take; None: not all the same."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExactInstance:
    """Tasks, places, ways and lags."""

    instance: Instance
    places: PlaceTable
    candidates: tuple[tuple[int, ...], ...]
    """Per binding variable: places."""
    ways: list[list[ExecutionOption]]
    """Per task."""
    grid: TickGrid
    ticks: list[list[int]]
    """Per task and way."""
    earliest: list[int]
    edges: list[tuple[int, int, TransferLag | None]]
    """Predecessor, task, and what data take in between; None: nothing."""
    transfers: dict[int, TransferLag | None]
    """What each transfer takes."""
    horizon_s: float
    """Some schedule with any machines and modes ends by then."""


def compile_exact_instance(instance: Instance, *, all_ways: bool, known_s: float | None) -> ExactInstance:
    """Read an instance; no plan longer than ``known_s`` is of interest; None: any is."""
    places = find_places(instance)
    ways = list_options(instance, places, all_ways=all_ways)
    moved = _moved_s(instance)
    graph, busy = instance.graph, instance.busy
    seconds = [[way.seconds for way in own] for own in ways]
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
        ways=ways,
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
    """Give edges, then transfers, x locations x locations: what data take between different hosts."""
    graph, network = instance.graph, instance.network
    moved = graph.transfer_bytes[graph.kind == TRANSFER]
    fixed = np.concatenate([graph.edge_seconds, np.zeros(len(moved))])[:, None, None]
    files = np.concatenate([graph.edge_files, np.ones(len(moved))])[:, None, None]
    size = np.concatenate([graph.edge_bytes, moved])[:, None, None]
    seconds: Floats = fixed + files * network.latency_s + size * network.inverse_bandwidth
    return np.where(possible_links(instance), seconds, 0.0)


def _lags(instance: Instance, moved_s: Floats, grid: TickGrid) -> list[TransferLag | None]:
    graph = instance.graph
    moves = graph.kind == TRANSFER
    target = np.repeat(np.arange(len(graph)), np.diff(graph.predecessor_pointer))
    # A transfer reads where its source is; everything else reads on its own machine.
    reads = np.where(moves, graph.source_variable, graph.variable)
    source = np.concatenate([graph.variable[graph.predecessor], graph.source_variable[moves]]).tolist()
    target = np.concatenate([reads[target], graph.variable[moves]]).tolist()
    possible = possible_links(instance)
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
"""Literals and terms of rules above which no model is built: that takes seconds, and little is found."""


def count_terms(instance: Instance) -> int:
    """Count literals and terms; where they are far too many, roughly."""
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
    return modes + tasks + links * (3 * hosts if has_uniform_network(instance) else locations * locations)
