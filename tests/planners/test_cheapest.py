"""The planner `cheapest`: no plan costs less; of equally cheap modes it uses the one with the earliest
finish.
"""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import HealthCheck, assume, given, settings

from kernels.random_graphs import busy_stretches
from planning_examples import instance, lines, planned, platform
from planning_strategies import platforms, workflows
from weft.errors import Infeasible, InvalidInput
from weft.instance import compile_instance
from weft.planners.cheapest import Cheapest
from weft.schedule.costs import cheapest_cost, schedule_cost
from weft.schedule.objective import make_objective
from weft.schedule.verification import verify
from weft.workflow.unfold import unfold

SEARCH = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@given(flow=workflows(), where=platforms(), held=busy_stretches())
@SEARCH
def test_plans_of_cheapest_are_valid_and_no_plan_costs_less(flow, where, held):
    try:
        made = compile_instance(unfold(flow), where, busy=held(where))
    except (Infeasible, InvalidInput):
        assume(False)
    schedule = planned(made, "cheapest")
    assert verify(schedule, made.graph, where) == []
    assert schedule_cost(schedule, made) == pytest.approx(cheapest_cost(made))


def test_cost_of_cheapest_is_the_minimum_over_all_bindings_and_counts():
    law = {"nodes": [1, 2], "speedup": {"seconds": {1: 8.0, 2: 5.0}}}
    tasks = {"a": {"machine": "A", **law}, "b": {"machine": "A", "work": 3}, "c": law}
    where = platform(
        {"nodes": 2, "price_per_node_hour": 36.0}, {"nodes": 2, "speed": 2.0, "price_per_node_hour": 54.0}
    )
    made = instance(tasks, where)
    costs = []
    for place_a, place_c, *nodes in product((0, 1), (0, 1), (1, 2), (1, 2)):
        price = [36.0 / 3600, 54.0 / 3600]
        speed = [1.0, 2.0]
        seconds = {1: 8.0, 2: 5.0}
        costs.append(
            nodes[0] * seconds[nodes[0]] / speed[place_a] * price[place_a]
            + 3 / speed[place_a] * price[place_a]
            + nodes[1] * seconds[nodes[1]] / speed[place_c] * price[place_c]
        )
    assert schedule_cost(planned(made, "cheapest"), made) == pytest.approx(min(costs))


def test_mode_with_the_earliest_finish_is_used_if_several_modes_cost_the_same():
    where = platform({"price_per_node_hour": 1.0}, {"speed": 2.0, "price_per_node_hour": 2.0})
    found = lines(planned(instance({"a": {"work": 4}, "b": {"work": 4}}, where), "cheapest"))
    # b ends at 4 s on both machines: the lower index is taken.
    assert found == {"a": ("m1", 1, 0, 2), "b": ("m0", 1, 0, 4)}


def test_cheapest_supports_cost_and_makespan():
    made = instance({"a": {"work": 1}}, "identical:2")
    assert Cheapest().supports(made, make_objective("cost")) is None
    assert Cheapest().supports(made, make_objective("makespan", max_cost=1.0)) is None
    assert "on-demand" in Cheapest().supports(made, make_objective("on-demand")).reason
