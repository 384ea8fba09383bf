"""Lookahead: HEFT that evaluates the successors of a task before it places the task."""

from __future__ import annotations

from weft.instance.instance import Instance
from weft.kernels.lookahead import LookaheadScratch, place_with_lookahead
from weft.kernels.problem import make_arrays
from weft.planners.list_planner import FRUGAL, ListPlanner, estimate_python_s, run_placement
from weft.planners.problem import compile_problem
from weft.planners.ranks import order_by_rank, upward_ranks
from weft.schedule.schedule import Schedule

_PAIR_S = 0.5e-6
"""Approximate seconds per edge and pair of machines in plain Python."""


class Lookahead(ListPlanner):
    """Places tasks in the order of HEFT, each on the machine for which its last successor ends first.

    For every candidate machine of a task, each successor of the task is evaluated on all candidate machines
    of the successor. The task takes the machine for which its last successor ends first. L. F. Bittencourt,
    R. Sakellariou, E. R. M. Madeira, DAG Scheduling Using a Lookahead Variant of the Heterogeneous Earliest
    Finish Time Algorithm, PDP 2010, section on the lookahead with the earliest finish of all children.

    Deviations: successors are evaluated one by one, each as if it were the only one. Transfers and virtual
    tasks are not evaluated. A moldable task takes, on every machine, the smallest node count that ends within
    5 % of its earliest finish there. Ties go to the earlier finish of the task itself, then to the machine of
    lower index. Complexity O(v log v + e k^2 log g).
    """

    name = "lookahead"
    title = "lookahead HEFT, earliest finish of all successors (Bittencourt et al. 2010)"
    label = "lookahead HEFT"

    def schedule(self, instance: Instance) -> Schedule:
        """Place tasks by descending upward rank, each where its last successor can then end first."""
        problem = compile_problem(instance)
        machines, modes = problem.machines.number, max(map(len, instance.groups), default=0)
        scratch = make_arrays(LookaheadScratch, machines, ready=modes, spent=modes)
        return run_placement(
            instance,
            place_with_lookahead,
            (problem, FRUGAL, order_by_rank(upward_ranks(instance)), scratch),
            work_s=estimate_python_s(problem) + _PAIR_S * instance.graph.edge_count * machines * modes,
        )
