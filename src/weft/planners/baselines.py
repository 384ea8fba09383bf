"""Round robin and random machines: baselines that ignore estimates.

Round robin binds each variable to the first of its candidate machines after the machine that was used last.
It is the plan ``T_o`` that R. Prodan, T. Fahringer, Dynamic Scheduling of Scientific Workflow Applications on
the Grid, SAC 2005, compare their search with (docs/papers/dynamic-grid.md, section 12). Random binds each
variable to one of its candidates, all equally likely, as in the first generation of their genetic search
(section 4).

Deviations: pinned variables keep their machine. A moldable task takes the node count that ends first. Tasks
are placed by index. Complexity O(v (k + log p) + e) for v tasks of k modes, e edges and p machines.
"""

from __future__ import annotations

import numpy as np

from weft.instance.instance import Instance
from weft.planners.list_planner import ListPlanner, index_order, place_tasks
from weft.planners.planner import BasePlanner, Plan, PlanRequest
from weft.schedule.schedule import Schedule
from weft.workflow.task_graph import COMPUTE, Indices

__all__ = ["RandomMachine", "RoundRobin"]


class RoundRobin(ListPlanner):
    """Binding variables in turn over their candidate machines."""

    name = "round-robin"
    title = "binding variables in turn over their machines (baseline)"
    label = "round robin"

    def schedule(self, instance: Instance) -> Schedule:
        """Bind the variables in turn, then place by index."""
        return place_tasks(instance, index_order(instance), bound=_bind_in_turn(instance))


def _bind_in_turn(instance: Instance) -> Indices:
    """Return the machine of each variable; the number of machines if it has no compute task or is pinned."""
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
    """Every binding variable on a random candidate machine; another seed gives another plan."""

    name = "random"
    title = "every binding variable on a machine drawn at random (baseline)"
    label = "a random machine"

    def plan(self, request: PlanRequest) -> Plan:
        """Draw the machines, then place by index."""
        instance = request.instance
        bound = _draw_machines(instance, request.rng)
        return Plan(schedule=place_tasks(instance, index_order(instance), bound=bound), steps=1)


def _draw_machines(instance: Instance, rng: np.random.Generator) -> Indices:
    """Return a machine per variable; the number of machines if it has no compute task."""
    graph = instance.graph
    bound = np.full(len(graph.variables), len(instance.machines), dtype=np.uint32)
    variables = np.unique(graph.variable[graph.kind == COMPUTE])
    for variable, share in zip(variables.tolist(), rng.random(len(variables)).tolist(), strict=True):
        candidates = instance.candidates_of(variable)
        bound[variable] = candidates[int(share * len(candidates))]
    return bound
