"""Deadline and maximal cost: proven infeasible, or only exceeded by a plan."""

from __future__ import annotations

import pytest

from planning_examples import instance, platform
from weft.errors import Infeasible
from weft.schedule.objective import make_objective, refuse_impossible_limits, refuse_missed_limits

PRICED = platform({"price_per_node_hour": 3600.0}, {"speed": 2.0, "price_per_node_hour": 9000.0})


@pytest.fixture
def made():
    """Return one task that takes 100 s for 100 on the cheap machine, or 50 s for 125 on the expensive one."""
    return instance({"a": {"work": 100}}, PRICED)


def refusal(check, limits, *arguments, **numbers):
    with pytest.raises(Infeasible) as caught:
        check(make_objective("makespan", **limits), *arguments, **numbers)
    return str(caught.value)


def test_bound_above_the_deadline_proves_infeasibility(made):
    text = refusal(refuse_impossible_limits, {"deadline_s": 40.0}, made, 50.0)
    assert text == (
        "no plan can meet the deadline of 40 s: every one takes at least 50 s (lower bound), 10 s too long"
    )


def test_maximal_cost_below_the_least_cost_proves_infeasibility(made):
    text = refusal(refuse_impossible_limits, {"max_cost": 99.0}, made, 50.0)
    assert text == (
        "no plan can keep to a cost of 99: every one costs at least 100 (cheapest machines and node counts), "
        "1 too much"
    )


def test_both_limits_are_reported_at_once(made):
    text = refusal(refuse_impossible_limits, {"max_cost": 99.0, "deadline_s": 40.0}, made, 50.0)
    assert text.count("no plan can") == 2


@pytest.mark.parametrize(
    "limits", [{}, {"deadline_s": 50.0}, {"max_cost": 100.0}, {"deadline_s": 50 * (1 - 1e-12)}]
)
def test_limits_equal_to_the_bounds_are_feasible(made, limits):
    assert refuse_impossible_limits(make_objective("makespan", **limits), made, 50.0) is None


NUMBERS = {"makespan_s": 80.0, "cost": 120.0, "bound_s": 50.0}


def test_late_plan_does_not_prove_infeasibility():
    text = refusal(refuse_missed_limits, {"deadline_s": 60.0}, "heft", **NUMBERS)
    assert "the plan of heft takes 80 s, 20 s longer than the deadline of 60 s (lower bound 50 s)" in text
    assert "another plan may keep the limit" in text
    assert "try another planner" in text


def test_expensive_plan_does_not_prove_infeasibility():
    text = refusal(refuse_missed_limits, {"max_cost": 110.0}, "heft", **NUMBERS)
    assert "the plan of heft costs 120, 10 more than the maximal cost of 110" in text
    assert "another plan may keep the limit" in text


def test_late_and_expensive_plan_is_reported_for_deadline_and_cost():
    text = refusal(refuse_missed_limits, {"max_cost": 110.0, "deadline_s": 60.0}, "heft", **NUMBERS)
    assert "20 s longer" in text
    assert " and costs 120" in text


@pytest.mark.parametrize("limits", [{}, {"deadline_s": 80.0, "max_cost": 120.0}])
def test_a_plan_within_its_limits_is_accepted(limits):
    assert refuse_missed_limits(make_objective("makespan", **limits), "heft", **NUMBERS) is None
