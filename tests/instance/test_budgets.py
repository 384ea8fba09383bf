"""Budgets of an instance: when they are infeasible, and when planners must respect them."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planning_examples import MAKESPAN, instance, platform
from weft.errors import Infeasible
from weft.planners.heft import Heft

CLUSTER = platform({"nodes": 4})


def consuming(amount, nodes=(1, 2)):
    return {"work": 4, "nodes": list(nodes), "consumes": {"credits": amount}}


def test_budget_that_no_plan_can_exceed_is_not_binding():
    tasks = {"a": consuming({1: 2, 2: 3}), "b": consuming(4)}
    assert instance(tasks, CLUSTER, budgets={"credits": 7}).binding_budgets() == ()
    assert instance(tasks, CLUSTER, budgets={"credits": 6}).binding_budgets() == ("credits",)
    assert instance({"a": {"work": 1}}, CLUSTER).binding_budgets() == ()


def test_budgets_consider_feasible_modes_only():
    tasks = {"a": consuming({1: 2, 8: 3}, nodes=(1, 8))}
    assert instance(tasks, CLUSTER, budgets={"credits": 2}).binding_budgets() == ()
    cheap_is_too_wide = {"a": consuming({1: 9, 8: 3}, nodes=(1, 8))}
    with pytest.raises(Infeasible, match="at least 9 credits, but the budget is 5"):
        instance(cheap_is_too_wide, CLUSTER, budgets={"credits": 5})


def test_budget_below_the_least_consumption_is_infeasible():
    tasks = {"a": consuming({1: 2, 2: 3}), "b": consuming(4)}
    assert len(instance(tasks, CLUSTER, budgets={"credits": 6})) == 2
    with pytest.raises(Infeasible) as caught:
        instance(tasks, CLUSTER, budgets={"credits": 5.9, "disk": 1})
    assert str(caught.value) == "the tasks consume at least 6 credits, but the budget is 5.9"


def test_rounding_errors_of_sums_do_not_exceed_a_budget():
    tasks = {"a": consuming(0.1), "b": consuming(0.2)}
    assert instance(tasks, CLUSTER, budgets={"credits": 0.3}).binding_budgets() == ()


@given(
    st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3), min_size=1, max_size=4), st.integers(0, 14)
)
def test_budget_is_infeasible_if_all_plans_exceed_it_and_binding_if_some_do(tables, budget):
    tasks = {
        f"t{index}": consuming(dict(enumerate(table, start=1)), nodes=(1, 2, 3))
        for index, table in enumerate(tables)
    }
    totals = [sum(choice) for choice in product(*tables)]
    if min(totals) > budget:
        with pytest.raises(Infeasible, match="credits"):
            instance(tasks, CLUSTER, budgets={"credits": budget})
        return
    made = instance(tasks, CLUSTER, budgets={"credits": budget})
    assert made.binding_budgets() == (("credits",) if max(totals) > budget else ())


def test_heft_reports_that_it_does_not_support_budgets():
    tasks = {"a": consuming({1: 2, 2: 3})}
    free, tight = (instance(tasks, CLUSTER, budgets={"credits": most}) for most in (3, 2))
    assert Heft().supports(free, MAKESPAN) is None
    assert "credits" in Heft().supports(tight, MAKESPAN).reason
