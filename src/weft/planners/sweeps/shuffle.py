"""Shuffle: the subtasks of every layer go to its machines in turn, in the order of their index.

The baseline that xDCP starts from and is measured by. T. Ma, R. Buyya, Critical-Path and Priority based
Algorithms for Scheduling Workflows with Parameter Sweep Tasks on Global Grids, section on xDCP.

Deviations: machines are counted from 0, which only renumbers them; a subtask that is bound beforehand stays
where it is bound. Complexity O(v + e).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from weft.instance.instance import Instance
from weft.planners.planner import Budget, Plan, Unsupported
from weft.planners.sweeps.layers import Sharing, layers_of, refusal
from weft.planners.sweeps.queues import SweepQueues
from weft.schedule.objective import Objective
from weft.search.pool import ALONE, Pool

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Shuffle"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffle:
    """Spreads every layer evenly, whatever its subtasks and machines are like."""

    name: ClassVar[str] = "shuffle"
    title: ClassVar[str] = "Shuffle, the subtasks of a layer in turn over its machines (Ma and Buyya)"

    pool: Sharing = "own"
    """Whether every layer has machines of its own, or all share one pool."""

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Serve layers of sweeps on machines of one node, without communication."""
        return refusal(instance, objective, self.pool)

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,  # noqa: ARG002
        budget: Budget,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        pool: Pool = ALONE,  # noqa: ARG002
    ) -> Plan:
        """Deal the subtasks out."""
        layers = layers_of(instance, self.pool)
        assert not isinstance(layers, Unsupported), layers
        return Plan(schedule=SweepQueues(instance, layers, start="shuffle").schedule(), steps=1)
