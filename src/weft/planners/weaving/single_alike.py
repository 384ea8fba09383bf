"""Machines that are all alike: one machine of as many nodes, on which nobody asks which node a task takes.

Where data take no time and tasks take as long everywhere, the choice of a machine says nothing, and a search
over orders alone is much quicker. Its plan is dealt out to the machines again.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from weft.instance.instance import Instance
from weft.instance.modes import ModeGroup
from weft.kernels.problem import SINGLE
from weft.planners.aims import Aim
from weft.planners.planner import Budget, Plan
from weft.planners.problem import problem_of
from weft.planners.weaving.shared import search_shared
from weft.planners.weaving.single_field import is_single
from weft.schedule.schedule import Schedule

__all__ = ["are_alike", "search_alike"]


def are_alike(instance: Instance) -> bool:
    """Say whether it makes no difference which machine serves a task."""
    if not is_single(instance) or len(instance.machines) == 1:
        return False
    problem, graph, machines = problem_of(instance), instance.graph, len(instance.machines)
    tasks = problem.tasks
    free = not (instance.pinned or graph.resource_names or len(graph.variables) < len(graph))
    together = problem.machines.hosts == 1 or not (tasks.size.any() or tasks.files.any() or tasks.fixed.any())
    everywhere = all(len(found) == machines for found in instance.candidate_sets)
    same_price = len(np.unique(instance.price_per_node_s)) == 1
    in_line = bool((problem.machines.form == SINGLE).all())
    return bool(
        free and together and everywhere and same_price and in_line and all(map(_is_level, instance.groups))
    )


def _is_level(group: ModeGroup) -> bool:
    """Say whether every task of a group takes the same time in all its modes."""
    return all(bool((seconds == seconds[:, :1]).all()) for _, seconds in group.chunks())


def search_alike(
    instance: Instance, aim: Aim, start: Schedule, budget: Budget, rng: np.random.Generator
) -> Plan:
    """Give a plan that is not worse than the one to start from."""
    joined = _joined(instance)
    nowhere = np.zeros(len(instance), dtype=np.uint32)
    found = search_shared(
        joined, aim, replace(start, machines=(joined.machines[0].name,), machine=nowhere), budget, rng
    )
    return replace(found, schedule=_dealt(instance, found.schedule))


def _joined(instance: Instance) -> Instance:
    """Make one machine of all."""
    machines, nowhere = len(instance.machines), np.zeros(1, dtype=np.uint32)
    return replace(
        instance,
        machines=(replace(instance.machines[0], nodes=machines),),
        network=replace(
            instance.network,
            location=nowhere,
            host=nowhere,
            latency_s=np.zeros((1, 1)),
            inverse_bandwidth=np.zeros((1, 1)),
        ),
        capacity=np.array([machines], dtype=np.int64),
        unlimited=np.zeros(1, dtype=np.bool_),
        price_per_node_s=instance.price_per_node_s[:1],
        amounts=instance.amounts[:1],
        candidate_sets=(nowhere,),
        candidates=np.zeros_like(instance.candidates),
        groups=tuple(map(_on_the_first, instance.groups)),
    )


def _on_the_first(group: ModeGroup) -> ModeGroup:
    return ModeGroup(
        tasks=group.tasks,
        machine=np.zeros(1, dtype=np.uint32),
        count=group.count[:1],
        nodes=group.nodes[:1],
        seconds_of=lambda tasks: group.seconds_of(tasks)[..., :1],
    )


def _dealt(instance: Instance, schedule: Schedule) -> Schedule:
    """Give every task the first machine that is free when it starts."""
    machine = np.zeros(len(schedule), dtype=np.uint32)
    free_s = np.zeros(len(instance.machines))
    for task in np.lexsort((schedule.finish_s, schedule.start_s)).tolist():
        if schedule.finish_s[task] > schedule.start_s[task]:
            chosen = int(np.argmax(free_s <= schedule.start_s[task]))
            machine[task] = chosen
            free_s[chosen] = schedule.finish_s[task]
    return replace(schedule, machines=tuple(found.name for found in instance.machines), machine=machine)
