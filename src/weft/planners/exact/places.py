"""Places: where tasks can be put in an exact model, and the ways to run each task there.

A place is a machine, or all of several like machines of one node among which it does not matter which one
a task takes: they are told apart when the plan is read.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.instance.instance import Instance
from weft.planners.exact.alike import like_machines, moves_nothing
from weft.workflow.unfolding.task_graph import COMPUTE, Floats

__all__ = ["Places", "Way", "places_of", "ways_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """All places, in the order of their first machines."""

    machines: tuple[tuple[int, ...], ...]
    """Per place."""
    of_machine: tuple[int, ...]
    capacity: tuple[int, ...]
    """Per place: nodes."""
    alike: tuple[tuple[int, ...], ...]
    """Classes of several places that may change places."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Way:
    """One way to run a task."""

    mode: int
    """Its position among the modes of the task's group; at a place of several machines, that on the first."""
    count: int
    place: int
    nodes: int
    seconds: float
    demand: Floats
    consumption: Floats


def places_of(instance: Instance) -> Places:
    """Find the places of an instance."""
    classes = like_machines(instance)
    merged = _mergeable(instance) if moves_nothing(instance) else np.zeros(len(instance.machines), dtype=bool)
    parts = [part for own in classes for part in ([own] if merged[own[0]] else [[one] for one in own])]
    parts.sort()
    of_machine = {machine: place for place, part in enumerate(parts) for machine in part}
    alike = [sorted(of_machine[machine] for machine in own) for own in classes if not merged[own[0]]]
    return Places(
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


def ways_of(instance: Instance, places: Places, *, all_ways: bool) -> list[list[Way]]:
    """Give the ways of every task; none of transfers and virtual tasks.

    Without ``all_ways`` those are left out to which another at the same place is never inferior.
    """
    first = {part[0] for part in places.machines}
    found: list[list[Way]] = [[] for _ in range(len(instance))]
    graph = instance.graph
    for group in instance.groups:
        kept = [mode for mode, machine in enumerate(group.machine.tolist()) if machine in first]
        place = [places.of_machine[machine] for machine in group.machine.tolist()]
        nodes, count = group.nodes.tolist(), group.count.tolist()
        for task in group.tasks.tolist():
            seconds = group.seconds_of(task).tolist()
            pin = instance.pinned.get(int(graph.variable[task]))
            ways = [
                Way(
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


def _undominated(ways: list[Way]) -> list[Way]:
    """Leave out ways that take as long as another at the same place, and no less of anything."""
    kept: list[Way] = []
    by_need = sorted(ways, key=lambda way: (way.place, way.nodes, way.seconds, way.mode))
    for way in by_need:
        if not any(_serves(other, way) for other in kept):
            kept.append(way)
    return sorted(kept, key=lambda way: way.mode)


def _serves(other: Way, way: Way) -> bool:
    return (
        other.place == way.place
        and other.nodes <= way.nodes
        and other.seconds <= way.seconds
        and bool((other.demand <= way.demand).all())
        and bool((other.consumption <= way.consumption).all())
    )
