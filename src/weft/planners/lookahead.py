"""Lookahead: HEFT that looks at the successors of a task before it places it.

Tasks in order of descending upward rank; for every machine a task could take, each of its successors is
tried wherever it could go, and the machine is taken for which the last of them ends first. L. F.
Bittencourt, R. Sakellariou, E. R. M. Madeira, DAG Scheduling Using a Lookahead Variant of the Heterogeneous
Earliest Finish Time Algorithm, PDP 2010, section on the lookahead with the earliest finish of all children.

Deviations: successors are tried one by one, as if alone, and not placed on trial side by side; transfers and
virtual tasks are not tried. Communication is averaged over pairs of *different* machines; tasks of one
abstract machine follow the first of them that is placed; a moldable task takes, on every machine, the
smallest node count that ends within 5 % of its earliest finish there. Ties go to the earlier finish of the
task itself, then to the machine of lower index.

Complexity O(v log v + e k^2 log g) for v tasks, e edges, k modes per task and g gaps per machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.instance.instance import Instance
from weft.kernels import compilation
from weft.kernels.lookahead import LookaheadScratch, place_with_lookahead
from weft.planners.list_planner import FRUGAL, estimate_python_s, make_rule, make_scratch, read_board
from weft.planners.planner import Budget, Plan, Unsupported, check_makespan_only
from weft.planners.problem import compile_problem
from weft.planners.ranks import order_by_rank, upward_ranks
from weft.schedule.objective import Objective
from weft.search.pool import INLINE_POOL, Pool

__all__ = ["Lookahead"]


_PAIR_S = 0.5e-6
"""What a pair of machines takes for one edge in plain Python, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookahead:
    """Looks one step ahead."""

    name: ClassVar[str] = "lookahead"
    title: ClassVar[str] = "lookahead HEFT, earliest finish of all successors (Bittencourt et al. 2010)"

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Serve the makespan, where no budget has to be kept."""
        return check_makespan_only("lookahead HEFT", instance, objective)

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,  # noqa: ARG002
        budget: Budget,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        pool: Pool = INLINE_POOL,  # noqa: ARG002
    ) -> Plan:
        """Compute ranks, sort, place with a look at the successors."""
        problem = compile_problem(instance)
        machines, widest = problem.machines.number, max(map(len, instance.groups), default=0)
        look = LookaheadScratch(
            mode=np.zeros(machines, dtype=np.int64),
            start=np.zeros(machines),
            finish=np.zeros(machines),
            score=np.zeros(machines),
            ready=np.zeros(widest),
            spent=np.zeros(widest),
        )
        lines, arrivals, board = make_scratch(problem)
        stuck = compilation.run_kernel(
            place_with_lookahead,
            (problem, make_rule(factor=FRUGAL), order_by_rank(upward_ranks(instance)), look),
            (lines, arrivals, board),
            work_s=estimate_python_s(problem) + _PAIR_S * instance.graph.edge_count * machines * widest,
        )
        return Plan(schedule=read_board(instance, board, stuck), steps=1)
