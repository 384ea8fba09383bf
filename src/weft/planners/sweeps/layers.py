"""Layers: parameter-sweep tasks one after the other, each with machines of its own (S4 section 1).

T. Ma, R. Buyya, Critical-Path and Priority based Algorithms for Scheduling Workflows with Parameter Sweep
Tasks on Global Grids, section on the model. Layers are found by their machines: subtasks that can run on the
same ones form a layer. Deviations: a dependency may skip layers (no virtual subtasks are needed), and layers
need not form one line, as long as none depends on itself. In a shared pool, the paper's future work, any two
tasks may compete for a machine; a layer is then what lies equally deep in the graph.

Complexity O(v + e).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from weft.instance.instance import Instance
from weft.planners.planner import Unsupported
from weft.schedule.objective import Objective
from weft.workflow.unfolding.task_graph import COMPUTE, TRANSFER, Indices

__all__ = ["Layers", "Sharing", "layers_of", "refusal"]

Sharing = Literal["own", "shared"]
"""Whether every layer has machines of its own, or all share one pool."""

_Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layers:
    """Where every task stands; along every dependency the layer rises."""

    layer: Indices
    """Per task, from 0."""
    position: _Integers
    """Per task: its place, from 0, among the compute tasks of its layer with the same machines."""


def refusal(instance: Instance, objective: Objective, pool: Sharing) -> Unsupported | None:
    """Say why an instance cannot be planned as layers of sweeps; None: it can."""
    if objective.name != "makespan":
        return Unsupported(reason=f"it minimises the makespan, not the {objective.name}")
    reason = next(_misfits(instance), None)
    if reason is not None:
        return Unsupported(reason=reason)
    found = layers_of(instance, pool)
    return found if isinstance(found, Unsupported) else None


def _misfits(instance: Instance) -> Iterator[str]:
    """Say what is not in the model. Amounts are: a task has its machine alone, and fits it."""
    graph, network = instance.graph, instance.network
    if (graph.kind == TRANSFER).any():
        yield f"{_name(instance, graph.kind == TRANSFER)} is a transfer, and it knows no communication"
    shared = np.bincount(graph.variable, minlength=len(graph.variables))[graph.variable] > 1
    if shared.any():
        yield f"{_name(instance, shared)} shares an abstract machine with another task"
    slow_s = graph.edge_files * network.latency_s.max(initial=0.0) + graph.edge_seconds
    slow_s = slow_s + graph.edge_bytes * network.inverse_bandwidth.max(initial=0.0)
    if (slow_s > 0).any():
        yield "data move between tasks, and it knows no communication"
    if instance.busy:
        yield "machines are busy beforehand, and its queues begin empty"
    for group in instance.groups:
        wide = (instance.capacity[group.machine] > 1) | instance.unlimited[group.machine]
        if wide.any():
            machine = instance.machines[int(group.machine[np.argmax(wide)])].name
            yield f"{machine} can run several tasks at once; it wants machines of one node"
        if len(np.unique(group.machine)) < len(group.machine):
            yield f"{graph.names[int(group.tasks[0])]} can run in several ways on one machine"


def _name(instance: Instance, chosen: NDArray[np.bool_]) -> str:
    return instance.graph.names[int(np.argmax(chosen))]


def layers_of(instance: Instance, pool: Sharing) -> Layers | Unsupported:
    """Find the layers; the answer is a reason where every layer must have machines of its own but has not."""
    graph = instance.graph
    pools = _pools(instance)
    if pool == "own":
        clash = _clash(instance, pools)
        if clash is not None:
            return Unsupported(reason=f"{clash}; pool=shared allows that")
        nodes = np.where(graph.kind == COMPUTE, pools, len(instance.groups) + np.arange(len(graph)))
    else:
        nodes = np.arange(len(graph))
    levels = _levels(nodes[graph.predecessor], np.repeat(nodes, np.diff(graph.predecessor_pointer)))
    if levels is None:
        return Unsupported(
            reason="layers with machines of their own wait for each other; pool=shared allows that"
        )
    layer = np.array([levels.get(node, 0) for node in nodes.tolist()], dtype=np.int64)
    return Layers(layer=layer.astype(np.uint32), position=_positions(layer, pools))


def _pools(instance: Instance) -> _Integers:
    """Number, per compute task, the set of machines it can run on."""
    numbers: dict[bytes, int] = {}
    of_group = [numbers.setdefault(group.machine.tobytes(), len(numbers)) for group in instance.groups]
    return np.array([*of_group, -1], dtype=np.int64)[instance.group]


def _clash(instance: Instance, pools: _Integers) -> str | None:
    """Say which tasks break the rule that layers have machines of their own and no dependency inside."""
    graph = instance.graph
    owner: dict[int, int] = {}
    distinct = {int(pools[group.tasks[0]]): group for group in instance.groups}
    for group in distinct.values():
        task = int(group.tasks[0])
        for machine in group.machine.tolist():
            other = owner.setdefault(machine, task)
            if pools[other] != pools[task]:
                both = f"{graph.names[other]} and {graph.names[task]}"
                return f"{both} share {instance.machines[machine].name} but not all their machines"
    target = np.repeat(np.arange(len(graph)), np.diff(graph.predecessor_pointer))
    inside = (pools[graph.predecessor] == pools[target]) & (pools[target] >= 0)
    if inside.any():
        edge = int(np.argmax(inside))
        names = graph.names[int(target[edge])], graph.names[int(graph.predecessor[edge])]
        return f"{names[0]} depends on {names[1]} but runs on the same machines"
    return None


def _levels(source: _Integers, target: _Integers) -> dict[int, int] | None:
    """Give the longest path to every node of some edges; None where they lead in a circle."""
    followers: dict[int, list[int]] = {}
    waiting: dict[int, int] = {}
    for before, after in np.unique(np.stack([source, target], axis=1), axis=0).tolist():
        followers.setdefault(before, []).append(after)
        waiting[after] = waiting.get(after, 0) + 1
    levels = dict.fromkeys((node for node in followers if node not in waiting), 0)
    ready = list(levels)
    for node in ready:
        for after in followers.get(node, ()):
            levels[after] = max(levels.get(after, 0), levels[node] + 1)
            waiting[after] -= 1
            if waiting[after] == 0:
                ready.append(after)
    return None if any(waiting.values()) else levels


def _positions(layer: _Integers, pools: _Integers) -> _Integers:
    """Count the tasks of every pool in every layer."""
    by_place = np.lexsort((pools, layer))
    changes = (np.diff(layer[by_place]) != 0) | (np.diff(pools[by_place]) != 0)
    first = np.concatenate(([0], np.flatnonzero(changes) + 1))
    lengths = np.diff(np.concatenate((first, [len(layer)])))
    positions = np.empty(len(layer), dtype=np.int64)
    positions[by_place] = np.arange(len(layer)) - np.repeat(first, lengths)
    return positions
