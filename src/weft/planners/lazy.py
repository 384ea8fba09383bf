"""Lazy: no plan; a task that becomes ready is bound to the machine that gives it the lowest time.

The baseline of R. Prodan, T. Fahringer, Dynamic Scheduling of Scientific Workflow Applications on the Grid,
SAC 2005 (S1 section 13). Behind a task stands a transfer, so the paper's reading looks at the transfer
alone and the task behind it inherits the machine: everything stays where it began. ``by=finish`` is the
better reading: the machine on which the task itself ends first, behind what is queued there.

Deviations: a dependency with data counts like the transfer it implies; of machines that are reached equally
soon a task takes the one where it is shortest; a task is bound when the last of its predecessors has ended.
What a schedule shows is the run with the estimated times. Complexity O(v log v + e l + v k) for v tasks of
k modes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from weft.instance.instance import Instance
from weft.kernels import compilation
from weft.kernels.just_in_time import PendingTasks, place_when_ready
from weft.kernels.placement import APPENDED
from weft.planners.list_planner import estimate_python_s, make_rule, make_scratch, read_board
from weft.planners.planner import Budget, Plan, Unsupported, check_makespan_only
from weft.planners.problem import compile_problem
from weft.schedule.objective import Objective
from weft.search.pool import INLINE_POOL, Pool

__all__ = ["LazyPlanner"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LazyPlanner:
    """What happens without a plan, on the estimated times."""

    name: ClassVar[str] = "lazy"
    title: ClassVar[str] = (
        "no plan, tasks are bound when they become ready (baseline, Prodan and Fahringer 2005)"
    )

    by: Literal["transfer", "finish"] = "transfer"
    """What the lowest time is: of the transfer before a task (the paper), or until the task itself ends."""
    ties: Literal["first", "random"] = "first"
    """Which machine is taken of several that are equally good by transfer; the paper does not say."""

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Serve the makespan, where no budget has to be kept."""
        return check_makespan_only("lazy binding", instance, objective)

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,  # noqa: ARG002
        budget: Budget,  # noqa: ARG002
        rng: np.random.Generator,
        pool: Pool = INLINE_POOL,  # noqa: ARG002
    ) -> Plan:
        """Let the run unfold."""
        problem, number = compile_problem(instance), len(instance)
        draw = rng.random(number) if self.ties == "random" else np.zeros(number)
        agenda = PendingTasks(
            left=np.zeros(number, dtype=np.int64),
            ready=np.zeros(number),
            heap=np.zeros(number, dtype=np.uint32),
        )
        lines, arrivals, board = make_scratch(problem)
        rank = np.arange(number, dtype=np.uint32)
        stuck = compilation.run_kernel(
            place_when_ready,
            (problem, make_rule(place=APPENDED), int(self.by == "transfer"), draw, rank, agenda),
            (lines, arrivals, board),
            work_s=estimate_python_s(problem),
        )
        return Plan(schedule=read_board(instance, board, stuck), steps=1)
