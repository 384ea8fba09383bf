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
from weft.kernels import forms
from weft.kernels.lists.lookahead import Look, place_looking_ahead
from weft.planners.lists.placing import plain_seconds, rule_of, schedule_of, scratch_of
from weft.planners.lists.ranks import by_rank, upward_ranks
from weft.planners.lists.selecting import FRUGAL
from weft.planners.planner import Budget, Plan, Unsupported, makespan_only
from weft.planners.problem import problem_of
from weft.schedule.objective import Objective
from weft.search.pool import ALONE, Pool

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
        return makespan_only("lookahead HEFT", instance, objective)

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,  # noqa: ARG002
        budget: Budget,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        pool: Pool = ALONE,  # noqa: ARG002
    ) -> Plan:
        """Compute ranks, sort, place with a look at the successors."""
        problem = problem_of(instance)
        machines, widest = problem.machines.number, max(map(len, instance.groups), default=0)
        look = Look(
            mode=np.zeros(machines, dtype=np.int64),
            start=np.zeros(machines),
            finish=np.zeros(machines),
            score=np.zeros(machines),
            ready=np.zeros(widest),
            spent=np.zeros(widest),
        )
        lines, arrivals, board = scratch_of(problem)
        stuck = forms.run(
            place_looking_ahead,
            (problem, rule_of(factor=FRUGAL), by_rank(upward_ranks(instance)), look),
            (lines, arrivals, board),
            work_s=plain_seconds(problem) + _PAIR_S * instance.graph.edge_count * machines * widest,
        )
        return Plan(schedule=schedule_of(instance, board, stuck), steps=1)
