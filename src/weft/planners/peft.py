"""PEFT: predict earliest finish time."""

from __future__ import annotations

import numpy as np

from weft.instance.instance import Instance
from weft.kernels import compilation
from weft.kernels.priorities import fill_optimistic_costs
from weft.planners.list_planner import ListPlanner, make_rule, place_tasks
from weft.planners.planner import Unsupported
from weft.planners.problem import compile_problem
from weft.planners.ranks import mean_communication_s, mean_seconds, ready_order
from weft.schedule.schedule import Schedule
from weft.workflow.task_graph import Floats

_MAX_CELLS = 20_000_000
"""Largest number of cells (tasks x machines) of the cost table; a table of this size takes 160 MB."""
_CELL_S = 0.15e-6
"""Approximate seconds per edge and machine in plain Python."""


class Peft(ListPlanner):
    """Places each task where its finish plus the optimistic time of all its descendants is least.

    The optimistic cost table holds, per task and machine, the least time from the end of the task to the end
    of the workflow. Of the ready tasks the one with the largest mean in the table comes first. It is placed
    where the sum of its finish and its table entry is least, in a gap if one is long enough. H. Arabnejad, J.
    G. Barbosa, List Scheduling Algorithm for Heterogeneous Systems by an Optimistic Cost Table, IEEE TPDS
    25(3), 2014, section 4.

    Deviations: a row of the table is computed for the machines that can run the task, and successors of the
    same abstract machine are assumed to be on the machine of the task. An explicit transfer takes its mean
    seconds. The table contains the fastest mode of a moldable task on each machine; when the task is placed
    on a machine, it takes the node count that ends first. Complexity O(e p + v log v + v k log g) for p
    machines; O(v p) memory.
    """

    name = "peft"
    title = "PEFT, earliest finish by an optimistic cost table (Arabnejad and Barbosa 2014)"
    label = "PEFT"

    def check(self, instance: Instance) -> Unsupported | None:
        """Refuse instances whose cost table is too large."""
        tasks, machines = len(instance), len(instance.machines)
        if tasks * machines > _MAX_CELLS:
            size = f"{tasks:,} tasks x {machines:,} machines"
            most = f"at most {_MAX_CELLS:,} cells are allowed"
            return Unsupported(reason=f"PEFT needs a cost table of {size}; {most}")
        return super().check(instance)

    def schedule(self, instance: Instance) -> Schedule:
        """Place ready tasks by descending row mean of the table, each where finish + table entry is least."""
        table, ranks = optimistic_table(instance)
        return place_tasks(instance, ready_order(instance, ranks), rule=make_rule(extra=table))


def optimistic_table(instance: Instance) -> tuple[Floats, Floats]:
    """Return the optimistic cost table (tasks x machines) and the mean of each row (equations 4 and 5)."""
    problem = compile_problem(instance)
    tasks, machines = problem.tasks, problem.machines.number
    table, ranks = np.empty((tasks.number, machines)), np.empty(tasks.number)
    communication = mean_communication_s(instance)
    inputs = (tasks, problem.modes, machines, mean_seconds(instance), communication, np.empty(machines))
    cells = (tasks.number + len(communication)) * machines
    outputs = (table.reshape(-1), ranks)
    compilation.run_kernel(fill_optimistic_costs, inputs, outputs, work_s=_CELL_S * cells)
    return table, ranks
