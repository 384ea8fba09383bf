"""Alike: machines that may change places in any plan, and tasks that may.

An exact search would look at every plan once per permutation of them. Machines that are alike are named in
the order in which they are first used; where nothing depends on which of them a task takes, they are one
*place* with as many nodes. Tasks that are alike start in the order of their numbers. Both hold at once:
tasks change places first, and renaming machines afterwards moves no start.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from weft.instance.instance import Instance
from weft.workflow.unfolding.task_graph import COMPUTE, TRANSFER

__all__ = ["like_machines", "like_tasks", "moves_nothing", "one_way_network", "possible_links"]


def possible_links(instance: Instance) -> NDArray[np.bool_]:
    """Say between which locations there are two different hosts, one at each."""
    network = instance.network
    hosts = np.unique(np.stack([network.location, network.host]), axis=1)[0]
    possible = np.ones(network.latency_s.shape, dtype=bool)
    np.fill_diagonal(possible, np.bincount(hosts, minlength=len(possible)) > 1)
    return possible


def one_way_network(instance: Instance) -> bool:
    """Say whether data between different hosts take the same time, whichever two hosts it is."""
    network, possible = instance.network, possible_links(instance)
    links = (network.latency_s[possible], network.inverse_bandwidth[possible])
    return all(bool((found == found[:1]).all()) for found in links)


def moves_nothing(instance: Instance) -> bool:
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


def like_machines(instance: Instance) -> list[list[int]]:
    """Divide the machines into classes that may change places; a machine that is like no other is alone."""
    network = instance.network
    alone = np.bincount(network.host)[network.host] == 1
    held = {found.machine for found in instance.busy} | set(instance.pinned.values())
    near = np.zeros_like(network.location) if _placeless(instance) else network.location
    columns = _columns(instance)
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


def _placeless(instance: Instance) -> bool:
    return moves_nothing(instance) or one_way_network(instance)


def _columns(instance: Instance) -> list[list[int]]:
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


def like_tasks(instance: Instance) -> list[tuple[int, int]]:
    """Give pairs of tasks that may change places, each with the next one of its kind."""
    graph = instance.graph
    members = np.bincount(graph.variable, minlength=len(graph.variables))
    np.add.at(members, graph.source_variable[graph.kind == TRANSFER], 1)
    kinds: dict[object, list[int]] = {}
    for task in np.flatnonzero(graph.kind == COMPUTE).tolist():
        variable = int(graph.variable[task])
        if members[variable] > 1 or variable in instance.pinned:
            continue
        kinds.setdefault(_kind(instance, task, variable), []).append(task)
    return [pair for tasks in kinds.values() for pair in pairwise(tasks)]


def _kind(instance: Instance, task: int, variable: int) -> object:
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
        frozenset((int(graph.predecessor[edge]), *_load(instance, edge)) for edge in before),
        frozenset(
            (int(graph.successor[place]), *_load(instance, int(graph.successor_edge[place])))
            for place in after
        ),
    )


def _load(instance: Instance, edge: int) -> tuple[float, float, float]:
    graph = instance.graph
    return float(graph.edge_bytes[edge]), float(graph.edge_files[edge]), float(graph.edge_seconds[edge])
