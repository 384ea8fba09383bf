"""xDCP: the dynamic critical path, extended to layers of parameter-sweep tasks on unlike machines.

From a shuffled start every subtask, the most urgent first, moves once to the slot of a queue where it ends
first without making the schedule longer; passes are repeated while they gain enough. T. Ma, R. Buyya,
Critical-Path and Priority based Algorithms for Scheduling Workflows with Parameter Sweep Tasks on Global
Grids, section on xDCP, after Y.-K. Kwok, I. Ahmad, Dynamic Critical-Path Scheduling, IEEE TPDS 7(5), 1996.

Deviations: those of the steps are told in ``weft.kernels.xdcp``; the first pass is compared with the start
(printed: with 0); layers may share machines, and then no subtask is queued before an ancestor or behind a
descendant. A step of the budget is a pass. Complexity O(v (v + e)) per pass, a handful of passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from weft.errors import InvalidInput, Problem
from weft.instance.instance import Instance
from weft.planners.planner import Budget, Plan, Unsupported
from weft.planners.sweeps import InitialQueues, Sharing, SweepQueues, check_sweep_support, find_layers
from weft.schedule.objective import Objective
from weft.search.pool import INLINE_POOL, Pool

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Xdcp"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Xdcp:
    """Shortens the critical path of a shuffled start, pass by pass."""

    name: ClassVar[str] = "xdcp"
    title: ClassVar[str] = "xDCP, shortens the critical path of layered sweeps (Ma and Buyya)"

    threshold: float = 0.95
    """Another pass is made while the last one left less than this share of the makespan; the paper: 0.95."""
    pool: Sharing = "own"
    """Whether every layer has machines of its own, or all share one pool."""
    start: InitialQueues = "shuffle"
    """How queues are filled first; the paper: shuffle, classic DCP: sequential (all on one machine)."""

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise InvalidInput(Problem(what=f"xdcp:threshold={self.threshold}", rule="must be from 0 to 1"))

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Serve layers of sweeps on machines of one node, without communication."""
        return check_sweep_support(instance, objective, self.pool)

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,  # noqa: ARG002
        budget: Budget,
        rng: np.random.Generator,  # noqa: ARG002
        pool: Pool = INLINE_POOL,  # noqa: ARG002
    ) -> Plan:
        """Steps 1 to 7 of the paper; steps 2 to 6 are one pass."""
        layers = find_layers(instance, self.pool)
        assert not isinstance(layers, Unsupported), layers
        queues = SweepQueues(instance, layers, start=self.start)
        steps, cut = 1, False
        gaining = True
        while gaining and budget.allows(steps):
            before_s = queues.length_s
            cut = not queues.improve(budget)
            steps += 1
            gaining = not cut and queues.length_s < self.threshold * before_s
        cut = cut or (gaining and (budget.steps is None or steps < budget.steps))
        return Plan(schedule=queues.schedule(), steps=steps, cut=cut)
