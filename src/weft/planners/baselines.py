"""Round robin and random machines: baselines that ignore estimates."""

from __future__ import annotations

import numpy as np

from weft.instance.instance import Instance
from weft.planners.list_planner import ListPlanner, index_order, place_tasks
from weft.planners.planner import BasePlanner, Plan, PlanRequest
from weft.schedule.schedule import Schedule
from weft.workflow.task_graph import COMPUTE, Indices


class RoundRobin(ListPlanner):
    """Assigns binding variables in turn to their candidate machines.

    Each variable is bound to the first of its candidates after the machine that was used last. This is the
    plan ``T_o`` that R. Prodan, T. Fahringer, Dynamic Scheduling of Scientific Workflow Applications on the
    Grid, SAC 2005, compare their search with (docs/papers/dynamic-grid.md, section 12).

    Deviations: pinned variables keep their machine. A moldable task takes the node count that ends first.
    Tasks are placed by index. Complexity O(v (k + log p) + e) for p machines.
    """

    name = "round-robin"
    title = "binding variables in turn over their machines (baseline)"
    label = "round robin"

    def schedule(self, instance: Instance) -> Schedule:
        """Bind the variables to machines in turn, then place the tasks in the order of their indices."""
        return place_tasks(instance, index_order(instance), bound=_bind_in_turn(instance))


def _bind_in_turn(instance: Instance) -> Indices:
    """Return the machine of each variable; ``len(machines)`` if it is pinned or has no compute task."""
    graph = instance.graph
    bound = np.full(len(graph.variables), len(instance.machines), dtype=np.uint32)
    following = 0
    for variable in np.unique(graph.variable[graph.kind == COMPUTE]).tolist():
        if variable in instance.pinned:
            continue
        candidates = instance.candidates_of(variable)
        position = int(np.searchsorted(candidates, following)) % len(candidates)
        bound[variable] = candidates[position]
        following = int(candidates[position]) + 1
    return bound


class RandomMachine(BasePlanner):
    """Assigns every binding variable to a random candidate machine; another seed gives another plan.

    All candidates are equally likely, as in the first generation of the genetic search of R. Prodan, T.
    Fahringer (docs/papers/dynamic-grid.md, section 4). The deviations are those of round robin.
    """

    name = "random"
    title = "every binding variable on a machine drawn at random (baseline)"
    label = "a random machine"

    def plan(self, request: PlanRequest) -> Plan:
        """Bind each variable to a random machine, then place the tasks in the order of their indices."""
        instance = request.instance
        bound = _draw_machines(instance, request.rng)
        return Plan(schedule=place_tasks(instance, index_order(instance), bound=bound), steps=1)


def _draw_machines(instance: Instance, rng: np.random.Generator) -> Indices:
    """Return a random candidate of each variable; ``len(machines)`` if the variable has no compute task."""
    graph = instance.graph
    bound = np.full(len(graph.variables), len(instance.machines), dtype=np.uint32)
    variables = np.unique(graph.variable[graph.kind == COMPUTE])
    for variable, share in zip(variables.tolist(), rng.random(len(variables)).tolist(), strict=True):
        candidates = instance.candidates_of(variable)
        bound[variable] = candidates[int(share * len(candidates))]
    return bound
