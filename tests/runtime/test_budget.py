"""Deadlines and planning budgets."""

from __future__ import annotations

import pickle
import time

import pytest

import weft
from planning_examples import platform, workflow
from weft.errors import InvalidInput
from weft.kernels import compilation
from weft.planners.planner import make_planner
from weft.runtime.budget import DEFAULT_PLAN_TIME_S, Deadline, exclude_compilation, is_search, make_budget

FORK = {"a": {"work": 3}, "b": {"sweep": {"k": "1..7"}, "work": "k", "after": "a"}}
UNLIKE = platform({"speed": 1.0}, {"speed": 1.7})


class TestClock:
    def test_the_time_left_of_a_budget_decreases(self):
        clock = Deadline.of(50.0)
        first = clock.left()
        time.sleep(0.01)
        assert 49.0 < clock.left() < first <= 50.0
        assert Deadline.of(-1.0).left() < 0

    def test_a_pickled_deadline_ends_at_the_same_time(self):
        clock = Deadline.of(50.0)
        left = pickle.loads(pickle.dumps(clock.left))
        assert left() == pytest.approx(clock.left(), abs=1.0)
        assert left.__self__ == clock

    def test_compilation_of_kernels_does_not_count_against_the_budget(self):
        budget = make_budget(plan_time_s=50.0, plan_steps=None)
        clock = budget.left.__self__
        with exclude_compilation(budget):
            (listener,) = compilation._listeners
            go_on = listener("place")
            before = clock.end_s
            time.sleep(0.02)
            go_on()
        assert 0.02 <= clock.end_s - before < 10
        assert compilation._listeners == []

    def test_a_budget_of_steps_has_no_deadline(self):
        with exclude_compilation(make_budget(plan_time_s=None, plan_steps=3)):
            assert compilation._listeners == []


class TestBudget:
    def test_a_budget_has_steps_or_a_deadline_or_neither(self):
        assert make_budget(plan_time_s=None, plan_steps=None).allows(10**9)
        assert make_budget(plan_time_s=None, plan_steps=3).allows(2)
        assert not make_budget(plan_time_s=None, plan_steps=3).allows(3)
        timed = make_budget(plan_time_s=0.01, plan_steps=None)
        time.sleep(0.02)
        assert not timed.allows(0)

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"plan_time_s": 1.0, "plan_steps": 5}, "1 s and 5 planning steps are both given; only one"),
            (
                {"plan_time_s": 0.0},
                "planning time of 0 s is not allowed; must be a number of seconds above 0",
            ),
            ({"plan_time_s": float("nan")}, "planning time of nan s"),
            ({"plan_time_s": float("inf")}, "planning time of inf s"),
            ({"plan_steps": 0}, "0 planning steps are not allowed; must be at least 1"),
        ],
    )
    def test_invalid_budgets_are_refused(self, given, message):
        with pytest.raises(InvalidInput, match=message):
            weft.plan(workflow(FORK), on=UNLIKE, **given)

    def test_only_planners_that_search_get_a_default_deadline(self):
        assert is_search(make_planner("auto"))
        assert not is_search(make_planner("heft"))
        assert weft.plan(workflow(FORK), on=UNLIKE, planner="heft").plan_time_s is None
        assert weft.plan(workflow(FORK), on=UNLIKE, planner="heft", plan_time_s=9.0).plan_time_s == 9.0
        assert weft.plan(workflow(FORK), on="identical:7").plan_time_s == DEFAULT_PLAN_TIME_S
