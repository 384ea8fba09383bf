"""HEFT: heterogeneous earliest finish time."""

from __future__ import annotations

from typing import Literal

from weft.instance.instance import Instance
from weft.planners.list_planner import ListPlanner, make_rule, place_tasks
from weft.planners.ranks import mean_communication_s, order_by_rank, upward_ranks
from weft.records import dataclass
from weft.schedule.schedule import Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Heft(ListPlanner):
    """Places tasks by descending upward rank, each where it finishes first.

    A task is placed in a gap between other tasks if one is long enough. H. Topcuoglu, S. Hariri, M.-Y. Wu,
    Performance-Effective and Low-Complexity Task Scheduling for Heterogeneous Computing, IEEE TPDS 13(3),
    2002, section 4.1.

    Deviations: a moldable task takes the smallest node count that ends within 5 % of its earliest finish.
    Machines that cannot be the best are skipped; the schedule is the same. With one node count, no resources
    and no abstract machines it is the published algorithm. Complexity O(v log v + e l + v k log g).
    """

    name = "heft"
    title = "HEFT, earliest finish with insertion (Topcuoglu et al. 2002)"
    label = "HEFT"

    averaging: Literal["pairs", "self-loops"] = "pairs"
    """Average communication over pairs of different machines, or also over self-loops, as SAGA does."""
    tolerance: float = 0.05
    """A moldable task takes the fewest nodes with which it ends within this share of its earliest finish."""

    def __post_init__(self) -> None:
        self.require_at_least(0, "tolerance")

    def schedule(self, instance: Instance) -> Schedule:
        """Compute upward ranks, sort the tasks by them, and place each task (steps 1 to 3 of the paper)."""
        communication = mean_communication_s(instance)
        if self.averaging == "self-loops":
            machines = len(instance.machines)
            communication = communication * ((machines - 1) / (machines + 1))
        order = order_by_rank(upward_ranks(instance, communication_s=communication))
        return place_tasks(instance, order, rule=make_rule(factor=1.0 + self.tolerance))
