"""The case: an instance as an exact model reads it, its times in ticks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.instance.instance import Instance
from weft.planners.exact.alike import possible_links
from weft.planners.exact.grids import Grid, grid_of
from weft.planners.exact.places import Places, Way, places_of, ways_of
from weft.workflow.unfolding.task_graph import TRANSFER, Floats

__all__ = ["Case", "Lag", "case_of"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lag:
    """What must pass between two moments: nothing on one host, else what the links take."""

    source: int
    target: int
    """Binding variables."""
    ticks: NDArray[np.int64]
    """By location and location, for different hosts; 0 where there are none."""
    uniform: int | None
    """What all links take; None: not all the same."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Case:
    """Tasks, places, ways and lags."""

    instance: Instance
    places: Places
    candidates: tuple[tuple[int, ...], ...]
    """Per binding variable: places."""
    ways: list[list[Way]]
    """Per task."""
    grid: Grid
    ticks: list[list[int]]
    """Per task and way."""
    earliest: list[int]
    edges: list[tuple[int, int, Lag | None]]
    """Predecessor, task, and what data take in between; None: nothing."""
    transfers: dict[int, Lag | None]
    """What each transfer takes."""
    horizon_s: float
    """Some schedule with any machines and modes ends by then."""


def case_of(instance: Instance, *, all_ways: bool, known_s: float | None) -> Case:
    """Read an instance; no plan longer than ``known_s`` is of interest; None: any is."""
    places = places_of(instance)
    ways = ways_of(instance, places, all_ways=all_ways)
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
    grid = grid_of(times, horizon_s)
    lags = _lags(instance, moved, grid)
    edges = graph.edge_count
    target = np.repeat(np.arange(len(graph)), np.diff(graph.predecessor_pointer)).tolist()
    transfers = np.flatnonzero(graph.kind == TRANSFER).tolist()
    return Case(
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


def _candidates(instance: Instance, places: Places) -> tuple[tuple[int, ...], ...]:
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


def _lags(instance: Instance, moved_s: Floats, grid: Grid) -> list[Lag | None]:
    graph = instance.graph
    moves = graph.kind == TRANSFER
    target = np.repeat(np.arange(len(graph)), np.diff(graph.predecessor_pointer))
    # A transfer reads where its source is; everything else reads on its own machine.
    reads = np.where(moves, graph.source_variable, graph.variable)
    source = np.concatenate([graph.variable[graph.predecessor], graph.source_variable[moves]]).tolist()
    target = np.concatenate([reads[target], graph.variable[moves]]).tolist()
    possible = possible_links(instance)
    found: list[Lag | None] = []
    for one, other, ticks in zip(source, target, grid.ticks(moved_s), strict=True):
        links = ticks[possible]
        if one == other or not links.any():
            found.append(None)
            continue
        uniform = int(links[0]) if (links == links[0]).all() else None
        found.append(Lag(source=one, target=other, ticks=ticks, uniform=uniform))
    return found
