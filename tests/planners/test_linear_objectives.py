"""Linear objectives equal the objective of a schedule; limits have priority."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planning_examples import instance, planned, platform
from weft.planners.evaluation import Loss, evaluate_loss, linearise_objective
from weft.schedule.costs import schedule_cost
from weft.schedule.objective import OBJECTIVES, make_objective

TASKS = {
    "a": {"work": 40, "nodes": "1..4", "speedup": {"amdahl": 0.9}},
    "b": {"work": 30, "after": ["a"]},
    "c": {"work": 20, "nodes": "2..3"},
}


def made(price, more):
    return instance(
        TASKS,
        platform(
            {"nodes": 4, "price_per_node_hour": price}, {"nodes": 3, "speed": 2, "price_per_node_hour": more}
        ),
    )


@given(
    name=st.sampled_from(["makespan", "cost", "on-demand", "static", "static-literal"]),
    alpha=st.floats(0, 1),
    price=st.sampled_from([0, 1, 3.5]),
    more=st.sampled_from([0, 2]),
    planner=st.sampled_from(["heft", "random", "cheapest", "local-optimum"]),
)
def test_value_of_the_linear_form_equals_the_value_of_the_objective(name, alpha, price, more, planner):
    found = made(price, more)
    goal = make_objective(name, alpha if OBJECTIVES[name].has_alpha else None)
    schedule = planned(found, planner)
    linear = linearise_objective(found, goal)
    node_s = float(((schedule.finish_s - schedule.start_s) * schedule.nodes).sum())
    value = linear.value(schedule.makespan_s, node_s, schedule_cost(schedule, found))
    assert value == pytest.approx(goal.value(schedule, found), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", ["local", "efficiency", "static-idle-fraction", "throughput"])
def test_objective_that_needs_a_whole_schedule_has_no_linear_form(name):
    assert linearise_objective(made(1, 1), make_objective(name)) is None


def test_limits_have_priority_over_the_objective_value():
    found = made(1, 2)
    schedule = planned(found)
    goal = make_objective("makespan", deadline_s=schedule.makespan_s / 2, max_cost=1e9)
    assert evaluate_loss(found, goal, schedule) == Loss(pytest.approx(1.0), schedule.makespan_s)
    kept = make_objective("makespan", deadline_s=schedule.makespan_s)
    assert evaluate_loss(found, kept, schedule).excess == 0
    assert evaluate_loss(found, kept, schedule) < evaluate_loss(found, goal, schedule)


def test_maximised_objective_is_negated():
    found = made(1, 2)
    schedule, goal = planned(found), make_objective("efficiency")
    assert evaluate_loss(found, goal, schedule) == (0, -goal.value(schedule, found))


def test_deadline_and_maximal_cost_are_infinite_if_they_are_not_stated():
    linear = linearise_objective(made(1, 2), make_objective("makespan"))
    assert (linear.deadline_s, linear.max_cost, linear.is_makespan) == (math.inf, math.inf, True)
    assert not linearise_objective(made(1, 2), make_objective("makespan", max_cost=3)).is_makespan
