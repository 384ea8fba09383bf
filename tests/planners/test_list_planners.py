"""Properties of every list planner: plans of random instances are valid, refusals have a reason."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings

from kernels.random_graphs import busy_stretches
from planning_examples import MAKESPAN, instance, lines, planned
from planning_strategies import platforms, workflows
from weft.errors import Infeasible, InvalidInput
from weft.instance import compile_instance
from weft.planners import PLANNERS, list_planner
from weft.schedule.objective import make_objective
from weft.schedule.verification import verify
from weft.workflow.unfold import unfold

LISTS = [
    "cpop", "dls", "etf", "heft", "hlfet", "lookahead", "maxmin", "mct", "minmin", "olb", "peft", "sufferage",
]  # fmt: skip
SEARCH = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@pytest.fixture(params=LISTS)
def planner(request, monkeypatch):
    monkeypatch.setenv("WEFT_KERNELS", "plain")
    return request.param


@given(flow=workflows(), where=platforms(), held=busy_stretches())
@SEARCH
def test_every_plan_is_valid(monkeypatch, flow, where, held):
    """All planners share the examples, because drawing one takes longer than planning it with all of them."""
    monkeypatch.setenv("WEFT_KERNELS", "plain")
    try:
        made = compile_instance(unfold(flow), where, busy=held(where))
    except (Infeasible, InvalidInput):
        assume(False)
    for planner in LISTS:
        assert verify(planned(made, planner), made.graph, where) == [], planner


def test_unsupported_objectives_and_budgets_are_refused_and_the_reason_is_stated(planner):
    found = PLANNERS.load(planner)()
    free = instance({"a": {"work": 1}}, "identical:1")
    assert found.supports(free, MAKESPAN) is None
    assert "speedup" in found.supports(free, make_objective("speedup")).reason
    assert "cost" in found.supports(free, make_objective("cost")).reason
    tasks = {"a": {"work": 1, "nodes": [1, 2], "consumes": {"credits": {1: 3, 2: 7}}}}
    bound = instance(tasks, "cluster:2", budgets={"credits": 6})
    assert "credits" in found.supports(bound, MAKESPAN).reason


@pytest.mark.parametrize("planner", ["maxmin", "sufferage"])
def test_too_many_ready_tasks_are_refused(planner, monkeypatch):
    different = instance({f"t{index}": {"work": 1 + index} for index in range(20)}, "identical:2")
    alike = instance({f"t{index}": {"work": 1} for index in range(20)}, "identical:2")
    chain = instance(
        {
            f"t{index}": {"work": 1 + index, "after": [f"t{index - 1}"] if index else []}
            for index in range(20)
        },
        "identical:2",
    )
    found = PLANNERS.load(planner)()
    monkeypatch.setattr(list_planner, "_MAX_EVALUATIONS", 100)
    assert "need 4e+02 evaluations of tasks" in found.supports(different, MAKESPAN).reason
    assert found.supports(alike, MAKESPAN) is None
    assert found.supports(chain, MAKESPAN) is None


def test_equivalent_tasks_and_machines_are_used_in_index_order(planner):
    found = lines(planned(instance({name: {"work": 1} for name in "cab"}, "identical:3"), planner))
    assert {name: found[name][0] for name in "cab"} == {"c": "m1", "a": "m2", "b": "m3"}
