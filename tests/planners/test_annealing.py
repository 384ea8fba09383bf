"""Annealing over bindings and node counts."""

from __future__ import annotations

import pytest

from planning_examples import MAKESPAN, instance, lines, planned, platform
from weft.errors import InvalidInput
from weft.planners.annealing import AnnealingPlanner
from weft.planners.evaluation import evaluate_loss
from weft.planners.planner import Budget, PlanRequest
from weft.randomness import generator
from weft.schedule.objective import make_objective
from weft.schedule.verification import verify
from weft.search.annealing import AnnealingSettings

UNLIKE = platform({"speed": 1.0}, {"speed": 2.0, "price_per_node_hour": 4.0}, {"speed": 3.0, "nodes": 4})
TASKS = {
    "a": {"sweep": {"k": "1..5"}, "work": "3*k", "outputs": {"x.{k}": "2MB"}},
    "b": {
        "sweep": {"k": "1..5"},
        "work": 7,
        "inputs": ["x.{k}"],
        "nodes": [1, 2, 4],
        "speedup": {"amdahl": 0.2},
    },
    "c": {"work": 3, "after": "b"},
}


@pytest.fixture(scope="module")
def made():
    return instance(TASKS, UNLIKE)


def run(planner, made, objective=MAKESPAN, **budget):
    return planner.plan(
        PlanRequest(
            instance=made, objective=objective, budget=Budget(**budget), rng=generator(2, "annealing")
        )
    )


def test_annealing_finds_the_optimal_distribution_of_five_tasks():
    """The optimum 4 + 5 + 6 and 7 + 8 on two equal machines is found by no list planner."""
    numbers = {"a": 8, "b": 7, "c": 6, "d": 5, "e": 4}
    made = instance({name: {"work": work} for name, work in numbers.items()}, "identical:2")
    assert planned(made, "heft").makespan_s == 17
    plan = run(AnnealingPlanner(), made, steps=3000)
    assert plan.schedule.makespan_s == 15


def test_plan_is_valid_and_never_worse_than_that_of_list_planners(made):
    plan = run(AnnealingPlanner(), made, steps=1500)
    assert verify(plan.schedule, made.graph, made.platform) == []
    for name in ("heft", "cpop", "peft", "heft-moldable"):
        assert plan.schedule.makespan_s <= planned(made, name).makespan_s
    assert lines(run(AnnealingPlanner(), made, steps=1500).schedule) == lines(plan.schedule)


@pytest.mark.parametrize("name", ["makespan", "cost", "static", "communication"])
def test_annealing_improves_any_incumbent(made, name):
    goal, start = make_objective(name), planned(made, "random")
    found = AnnealingPlanner().plan(
        PlanRequest(
            instance=made,
            objective=goal,
            incumbent=start,
            budget=Budget(steps=1000),
            rng=generator(1, "improve"),
        )
    )
    assert evaluate_loss(made, goal, found.schedule) <= evaluate_loss(made, goal, start)
    if name != "communication":
        assert evaluate_loss(made, goal, found.schedule) < evaluate_loss(made, goal, start)
    assert verify(found.schedule, made.graph, made.platform) == []


def test_cooling_schedule_uses_the_whole_budget(made):
    plan = run(AnnealingPlanner(), made, steps=900)
    assert 800 <= plan.steps <= 901
    assert not plan.cut
    plan = run(AnnealingPlanner(steps=500), made)
    assert 400 <= plan.steps <= 600, "without a budget its own number of steps ends it"


@pytest.mark.parametrize("option", ["steps", "walkers", "coolings"])
def test_invalid_options_are_refused(option):
    with pytest.raises(InvalidInput, match=f"annealing:{option}=0; must be at least 1"):
        AnnealingPlanner(**{option: 0})
    with pytest.raises(InvalidInput, match="hot of annealing is 0"):
        AnnealingPlanner(hot=0.0)


def test_default_options_equal_the_default_annealing_settings():
    assert AnnealingPlanner().settings == AnnealingSettings()
    assert AnnealingPlanner(cold=0.5, walkers=3).settings == AnnealingSettings(cold=0.5, walkers=3)
