"""Random: every binding variable on one of the machines that can run it, all equally likely.

What any planner must beat, and the first generation of a genetic search (S1 section 4).

Deviations: what is bound beforehand stays where it is; a moldable task takes the node count that ends first.
Tasks are placed by index. Complexity O(v k + e) for v tasks of k modes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.instance.instance import Instance
from weft.planners.lists.placing import place
from weft.planners.planner import Budget, Plan, Unsupported, makespan_only
from weft.schedule.objective import Objective
from weft.search.pool import ALONE, Pool
from weft.workflow.unfolding.task_graph import COMPUTE, Indices

__all__ = ["RandomMachine"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomMachine:
    """Chooses blindly; another seed gives another plan."""

    name: ClassVar[str] = "random"
    title: ClassVar[str] = "every binding variable on a machine drawn at random (baseline)"

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Serve the makespan, where no budget has to be kept."""
        return makespan_only("a random machine", instance, objective)

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,  # noqa: ARG002
        budget: Budget,  # noqa: ARG002
        rng: np.random.Generator,
        pool: Pool = ALONE,  # noqa: ARG002
    ) -> Plan:
        """Draw the machines, then place by index."""
        order = np.arange(len(instance), dtype=np.uint32)
        return Plan(schedule=place(instance, order, bound=_drawn(instance, rng)), steps=1)


def _drawn(instance: Instance, rng: np.random.Generator) -> Indices:
    """Give per variable a machine; their number: nothing computes there."""
    graph = instance.graph
    bound = np.full(len(graph.variables), len(instance.machines), dtype=np.uint32)
    choosing = np.unique(graph.variable[graph.kind == COMPUTE])
    for variable, share in zip(choosing.tolist(), rng.random(len(choosing)).tolist(), strict=True):
        candidates = instance.candidates_of(variable)
        bound[variable] = candidates[int(share * len(candidates))]
    return bound
