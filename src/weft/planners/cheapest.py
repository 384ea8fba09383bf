"""Cheapest: every binding variable on its cheapest machine, every task with its cheapest node count."""

from __future__ import annotations

from weft.instance.instance import Instance
from weft.planners.list_planner import ListPlanner, place_tasks
from weft.planners.problem import restrict_to_best_modes
from weft.planners.ranks import order_by_rank, upward_ranks
from weft.schedule.schedule import Schedule


class Cheapest(ListPlanner):
    """Runs every task in its cheapest mode, which gives the plan of least cost.

    The tasks of one binding variable run on the machine where they cost least together. Waiting costs
    nothing, so no plan is cheaper: the plan is optimal for the objective ``cost`` and shows whether any plan
    can stay within a maximal cost. Tasks are placed in the order of HEFT; of equally cheap modes a task takes
    the one that ends first. Without prices all modes cost the same.

    Deviations: none, the planner is our own. Complexity as HEFT, plus O(v k) for the costs of v tasks of k
    modes.
    """

    name = "cheapest"
    title = "every task where it costs least (optimal for cost; baseline)"
    label = "the cheapest plan"
    other_objectives = ("cost",)

    def schedule(self, instance: Instance) -> Schedule:
        """Place the tasks as HEFT does, with only the cheapest modes of each task allowed."""
        order = order_by_rank(upward_ranks(instance))
        return place_tasks(
            instance, order, problem=restrict_to_best_modes(instance, instance.price_per_node_s)
        )
