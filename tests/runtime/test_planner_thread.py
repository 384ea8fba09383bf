"""The planner thread: budgets, the promise of the first plan, and closing."""

from __future__ import annotations

import threading
import time

import pytest

from patience import PATIENCE_S
from planning_examples import MAKESPAN, instance, platform
from unsure_predictor import Unsure
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.engine.engine import Engine
from weft.engine.state.compiled import WorkflowLibrary
from weft.errors import InvalidInput
from weft.planners.forecast import forecast_schedule
from weft.planners.heft import Heft
from weft.planners.planner import Budget, PlanRequest, make_planner
from weft.policies.policy import make_policy
from weft.randomness import generator
from weft.runtime import driver
from weft.runtime.budget import DEFAULT_PLAN_TIME_S, PlanningBudget, find_deadline
from weft.runtime.driver import PlannerThread
from weft.workflow.settings import RunSettings

TASKS = {"a": {"work": 4}, "b": {"work": 6, "after": "a"}}


def engine_of(made):
    engine = Engine(WorkflowLibrary({"w": made}), made, make_policy("plan"), RunSettings(begins_at_once=True))
    (command,) = [
        each for each in engine.handle(ev.Submitted(run=0, workflow="w"), 0.0) if isinstance(each, cm.Replan)
    ]
    return engine, command


def test_first_plan_has_a_promise():
    made = instance(TASKS, platform({"price_per_node_hour": 3600.0}), predictor=Unsure())
    engine, command = engine_of(made)
    woken = threading.Event()
    planning = PlannerThread(engine, planner="heft", budget=PlanningBudget(), seed=5, wake=woken.set)
    try:
        planning.request(command)
        assert woken.wait(30)
        (answer,) = planning.answers()
    finally:
        planning.close()
    assert answer.plan in engine.state.plans
    plan = Heft().plan(
        PlanRequest(instance=made, objective=MAKESPAN, budget=Budget(), rng=generator(0, "any"))
    )
    expected = forecast_schedule(plan.schedule, made, seed=5)
    promise = planning.promises[0]
    assert (promise.p50_s, promise.p90_s) == (expected.makespan_p50_s, expected.makespan_p90_s)
    assert promise.cost_p90 == pytest.approx(expected.cost_p90)
    assert not planning.searching


def test_a_later_plan_has_no_promise():
    engine, _ = engine_of(instance(TASKS, platform({})))
    woken = threading.Event()
    planning = PlannerThread(engine, planner="heft", budget=PlanningBudget(), seed=0, wake=woken.set)
    try:
        planning.request(cm.Replan(run=0, version=3, reason="interval"))
        assert woken.wait(30)
        assert len(planning.answers()) == 1
    finally:
        planning.close()
    assert planning.promises == {}


class Endless:
    """Planner that searches until its deadline."""

    name = "endless"
    anytime = True

    def supports(self, instance, objective):
        return None

    def plan(self, request):
        while request.budget.allows(0):
            time.sleep(0.01)
        return Heft().plan(request)


def test_close_ends_the_search_without_waiting_for_it(monkeypatch):
    engine, command = engine_of(instance(TASKS, platform({})))
    monkeypatch.setattr(driver, "make_planner", lambda _: Endless())
    woken = []
    spending = PlanningBudget(time_s=3600.0)
    planning = PlannerThread(engine, planner="heft", budget=spending, seed=0, wake=lambda: woken.append(1))
    planning.request(command)
    assert planning.searching
    planning.close()
    ((_, future),) = planning._pending
    until_s = time.monotonic() + PATIENCE_S
    while not future.done() and time.monotonic() < until_s:
        time.sleep(0.01)
    assert future.done()
    assert woken == []


class TestBudgets:
    def test_a_given_budget_applies_to_every_plan(self):
        for first in (True, False):
            steps = PlanningBudget(steps=7).budget(make_planner("genetic"), first=first)
            assert (steps.steps, steps.left) == (7, None)
            timed = PlanningBudget(time_s=50.0).budget(make_planner("heft"), first=first)
            assert timed.steps is None
            assert 49 < find_deadline(timed).left() <= 50

    def test_by_default_the_first_search_has_two_seconds_and_later_searches_have_few_steps(self):
        first = PlanningBudget().budget(make_planner("genetic"), first=True)
        assert first.steps is None
        assert DEFAULT_PLAN_TIME_S - 1 < find_deadline(first).left() <= DEFAULT_PLAN_TIME_S
        again = PlanningBudget().budget(make_planner("genetic"), first=False)
        assert (again.steps, again.left) == (200, None)
        assert PlanningBudget().budget(make_planner("heft"), first=True) == Budget()

    def test_invalid_budgets_are_refused(self):
        with pytest.raises(InvalidInput, match="only one of them"):
            PlanningBudget(time_s=1.0, steps=1)
        with pytest.raises(InvalidInput, match="must be at least 1"):
            PlanningBudget(steps=0)
