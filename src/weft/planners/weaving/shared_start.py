"""Where the search on shared machines starts: at a schedule, or at modes that use little of the budgets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.instance.instance import Instance
from weft.kernels.searches.shared_moves import State
from weft.planners.genomes import genome_of
from weft.planners.weaving.shared_shop import Workshop
from weft.schedule.schedule import Schedule
from weft.workflow.unfolding.task_graph import Floats, Indices

__all__ = ["first_state", "state_of"]


def state_of(instance: Instance, workshop: Workshop, schedule: Schedule) -> State:
    """Give the state of a schedule; a mode that is no way becomes the way that is better than it."""
    genome, ways = genome_of(instance, schedule), workshop.ways
    # Ways stand by task and mode: the last one up to the mode, which is on the same machine.
    number = len(instance)
    task = np.repeat(np.arange(number), np.diff(ways.first.astype(np.int64)))
    most = int(max(workshop.mode.max(initial=0), genome.modes.max(initial=0))) + 1
    keys, asked = task * most + workshop.mode, np.arange(number) * most + genome.modes
    found = np.searchsorted(keys, asked, side="right") - 1
    way = np.where(np.diff(ways.first.astype(np.int64)) > 0, found, ways.first[1:])
    return _state(genome.order, way, genome.bound)


def first_state(instance: Instance, workshop: Workshop) -> State:
    """Give every task the way that uses least of the budgets, the fastest if several; longest paths first.

    Variables are bound to the machines where that is least for all their tasks.
    """
    ways, graph = workshop.ways, instance.graph
    task = np.repeat(np.arange(len(graph)), np.diff(ways.first.astype(np.int64)))
    used = ways.use.reshape(len(task), -1).sum(axis=1) if ways.budgets else np.zeros(len(task))
    best = np.lexsort((np.arange(len(task)), ways.seconds, used))
    bound = _bindings(instance, task, ways.machine, used, ways.seconds)
    way = ways.first[1:].astype(np.int64)
    # The best comes last, so that it stays.
    for chosen in best[::-1].tolist():
        owner = int(task[chosen])
        if ways.machine[chosen] == bound[graph.variable[owner]]:
            way[owner] = chosen
    seconds = np.zeros(len(graph))
    computes = way < ways.first[1:]
    seconds[computes] = ways.seconds[way[computes]]
    # A task of no seconds has no more left than its successors: ties go by index.
    left = workshop.shop.tail + seconds
    for index in range(len(graph) - 1, -1, -1):
        after = graph.successors(index)
        if len(after):
            left[index] = max(left[index], seconds[index] + left[after].max())
    order = np.lexsort((np.arange(len(graph)), -left)).astype(np.uint32)
    return _state(order, way, bound)


def _bindings(
    instance: Instance, task: NDArray[np.intp], machine: Indices, used: Floats, seconds: Floats
) -> Indices:
    """Bind every variable to the machine of least use, then of least seconds, then of the least index."""
    graph, machines = instance.graph, len(instance.machines)
    least = np.full((2, len(graph), machines), np.inf)
    np.minimum.at(least[0], (task, machine), used)
    np.minimum.at(least[1], (task, machine), seconds)
    bound = np.zeros(len(graph.variables), dtype=np.uint32)
    for variable in range(len(bound)):
        candidates = instance.candidates_of(variable)
        members = np.flatnonzero((graph.variable == variable) & (instance.group >= 0))
        use, spent = least[:, members][:, :, candidates].sum(axis=1)
        bound[variable] = instance.pinned.get(variable, candidates[np.lexsort((spent, use))[0]])
    return bound


def _state(order: Indices, way: NDArray[np.int64], bound: Indices) -> State:
    place = np.empty(len(order), dtype=np.uint32)
    place[order] = np.arange(len(order))
    return State(order=order.copy(), place=place, way=way.astype(np.uint32), bound=bound.copy())
