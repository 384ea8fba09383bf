"""Round robin: binding variables in turn over the machines that can run them.

The plan that S1 measures its search by (section 12, ``T_o``): R. Prodan, T. Fahringer, Dynamic Scheduling of
Scientific Workflow Applications on the Grid, SAC 2005. The next variable goes to the first of its candidates
behind the machine that was dealt last.

Deviations: what is bound beforehand stays where it is, and is not dealt; a moldable task takes the node count
that ends first. Tasks are placed by index. Complexity O(v (k + log p) + e) for v tasks of k modes.

Random: every binding variable on one of the machines that can run it, all equally likely.

What any planner must beat, and the first generation of a genetic search (S1 section 4).

Deviations: what is bound beforehand stays where it is; a moldable task takes the node count that ends first.
Tasks are placed by index. Complexity O(v k + e) for v tasks of k modes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.instance.instance import Instance
from weft.planners.list_planner import place
from weft.planners.planner import Budget, Plan, Unsupported, check_makespan_only
from weft.schedule.objective import Objective
from weft.search.pool import INLINE_POOL, Pool
from weft.workflow.task_graph import COMPUTE, Indices

__all__ = ["RandomMachine", "RoundRobin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRobin:
    """Spreads tasks evenly, whatever they and the machines are like."""

    name: ClassVar[str] = "round-robin"
    title: ClassVar[str] = "binding variables in turn over their machines (baseline)"

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Serve the makespan, where no budget has to be kept."""
        return check_makespan_only("round robin", instance, objective)

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,  # noqa: ARG002
        budget: Budget,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        pool: Pool = INLINE_POOL,  # noqa: ARG002
    ) -> Plan:
        """Deal the variables out, then place by index."""
        order = np.arange(len(instance), dtype=np.uint32)
        return Plan(schedule=place(instance, order, bound=_deal_variables(instance)), steps=1)


def _deal_variables(instance: Instance) -> Indices:
    """Give per variable the machine it is dealt to; their number: nothing computes there."""
    graph = instance.graph
    bound = np.full(len(graph.variables), len(instance.machines), dtype=np.uint32)
    following = 0
    for variable in np.unique(graph.variable[graph.kind == COMPUTE]).tolist():
        if variable in instance.pinned:
            continue
        candidates = instance.candidates_of(variable)
        turn = int(np.searchsorted(candidates, following)) % len(candidates)
        bound[variable] = candidates[turn]
        following = int(candidates[turn]) + 1
    return bound


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomMachine:
    """Chooses blindly; another seed gives another plan."""

    name: ClassVar[str] = "random"
    title: ClassVar[str] = "every binding variable on a machine drawn at random (baseline)"

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Serve the makespan, where no budget has to be kept."""
        return check_makespan_only("a random machine", instance, objective)

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,  # noqa: ARG002
        budget: Budget,  # noqa: ARG002
        rng: np.random.Generator,
        pool: Pool = INLINE_POOL,  # noqa: ARG002
    ) -> Plan:
        """Draw the machines, then place by index."""
        order = np.arange(len(instance), dtype=np.uint32)
        return Plan(schedule=place(instance, order, bound=_draw_machines(instance, rng)), steps=1)


def _draw_machines(instance: Instance, rng: np.random.Generator) -> Indices:
    """Give per variable a machine; their number: nothing computes there."""
    graph = instance.graph
    bound = np.full(len(graph.variables), len(instance.machines), dtype=np.uint32)
    choosing = np.unique(graph.variable[graph.kind == COMPUTE])
    for variable, share in zip(choosing.tolist(), rng.random(len(choosing)).tolist(), strict=True):
        candidates = instance.candidates_of(variable)
        bound[variable] = candidates[int(share * len(candidates))]
    return bound
