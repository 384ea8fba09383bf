"""PEFT: predict earliest finish time.

A table says what follows a task at best if it runs on a machine. Of the ready tasks the one with the largest
mean in it comes first, and goes where its finish and what follows are earliest together, into a gap if one
is long enough. H. Arabnejad, J. G. Barbosa, List Scheduling Algorithm for Heterogeneous Systems by an
Optimistic Cost Table, IEEE TPDS 25(3), 2014, section 4.

Deviations: communication is averaged over pairs of *different* machines; rows of the table hold for the
machines that can run a task, and successors of the same abstract machine are expected where the task is. An
explicit transfer counts with its mean seconds. A moldable task counts with its fastest node count on a
machine and takes the count that ends first there.

Complexity O(e p + v log v + v k log g) for v tasks, e edges, p machines, k modes per task and g gaps per
machine; O(v p) numbers are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.instance.instance import Instance
from weft.kernels import compilation
from weft.kernels.priorities import fill_optimistic_costs
from weft.planners.list_planner import make_rule, place
from weft.planners.planner import Budget, Plan, Unsupported, check_makespan_only
from weft.planners.problem import compile_problem
from weft.planners.ranks import mean_communication_s, mean_seconds, ready_order
from weft.schedule.objective import Objective
from weft.search.pool import INLINE_POOL, Pool
from weft.workflow.task_graph import Floats

__all__ = ["Peft", "optimistic_table"]


_MOST_CELLS = 20_000_000
"""The table of so many takes 160 MB."""
_CELL_S = 0.15e-6
"""What one machine of one edge takes in plain Python, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peft:
    """Looks at everything that follows, by a table."""

    name: ClassVar[str] = "peft"
    title: ClassVar[str] = "PEFT, earliest finish and what follows at best (Arabnejad and Barbosa 2014)"

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Serve the makespan, where no budget has to be kept and the table is not too large."""
        tasks, machines = len(instance), len(instance.machines)
        if tasks * machines > _MOST_CELLS:
            size = f"{tasks:,} tasks x {machines:,} machines"
            return Unsupported(reason=f"PEFT keeps a number for each of {size}, at most {_MOST_CELLS:,}")
        return check_makespan_only("PEFT", instance, objective)

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,  # noqa: ARG002
        budget: Budget,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        pool: Pool = INLINE_POOL,  # noqa: ARG002
    ) -> Plan:
        """Compute the table and its means, then place by both (algorithm 1)."""
        table, ranks = optimistic_table(instance)
        schedule = place(instance, ready_order(instance, ranks), rule=make_rule(extra=table))
        return Plan(schedule=schedule, steps=1)


def optimistic_table(instance: Instance) -> tuple[Floats, Floats]:
    """Give the table (tasks x machines) and ``rank_oct``, the mean of each row (equations 4 and 5)."""
    problem = compile_problem(instance)
    tasks, machines = problem.tasks, problem.machines.number
    table, ranks = np.empty((tasks.number, machines)), np.empty(tasks.number)
    communication = mean_communication_s(instance)
    inputs = (tasks, problem.modes, machines, mean_seconds(instance), communication, np.empty(machines))
    cells = (tasks.number + len(communication)) * machines
    compilation.run_kernel(fill_optimistic_costs, inputs, (table.reshape(-1), ranks), work_s=_CELL_S * cells)
    return table, ranks
