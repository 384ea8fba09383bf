"""Priorities between workflows, by the formulas of the paper."""

from __future__ import annotations

import math

import pytest

from planning_examples import instance
from policies.stub_view import StubView, attempt, run_of
from weft.policies.rounds import PRIORITIES

CHAIN = {"a": {"work": 4}, "b": {"work": 6, "after": "a"}}


@pytest.fixture
def made():
    return instance(CHAIN, "identical:1")


def worth(name, view, run, task=0):
    return PRIORITIES[name](view)(run, task)


def test_priorities_follow_the_formulas_of_the_paper(made):
    view, run = StubView.of(made, now=25.0), run_of(made, arrival_s=5.0, alone_s=10.0)
    assert worth("g-heft", view, run) == 10.0
    assert worth("g-heft", view, run, 1) == 6.0
    assert worth("aging", view, run) == 10.0 * (1 + 20.0 / 10.0)
    assert worth("aging-e", view, run) == pytest.approx(math.log(10.0 * math.exp(1 + 2.0)))
    assert worth("fcfs", view, run) == -5.0
    assert worth("srpt", view, run) == 1 / 10.0
    assert worth("foft", view, run) == (25.0 + 10.0 - 5.0) / 10.0


def test_priority_of_a_run_scales_the_priority_of_its_tasks_in_every_formula(made):
    runs = [
        run_of(made, arrival_s=5.0, alone_s=10.0),
        run_of(made, arrival_s=5.0, alone_s=10.0, priority=3.0),
    ]
    view = StubView.of(made, now=25.0)
    view.runs = runs
    for name in ("g-heft", "aging", "fcfs", "srpt", "foft"):
        assert worth(name, view, runs[1]) == pytest.approx(3 * worth(name, view, runs[0])), name
    assert worth("aging-e", view, runs[1]) == pytest.approx(worth("aging-e", view, runs[0]) + math.log(3))


def test_foft_priority_assumes_that_a_running_task_stays_on_its_machine(made):
    run = run_of(made, alone_s=10.0)
    late = StubView.of(made, now=10.0, live=[attempt(0, 0, 13.0)])
    assert worth("foft", late, run) == (10.0 + 3.0 + 6.0) / 10.0


def test_aging_priority_of_a_very_old_run_does_not_overflow(made):
    old, older = (StubView.of(made, now=now) for now in (1e6, 2e6))
    run = run_of(made, alone_s=1.0)
    assert worth("aging-e", older, run) > worth("aging-e", old, run)


def test_priority_of_a_run_with_makespan_0_causes_no_division_by_zero():
    nothing = instance({"a": {"work": 0}}, "identical:1")
    view, run = StubView.of(nothing, now=3.0), run_of(nothing, alone_s=0.0)
    found = {name: worth(name, view, run) for name in PRIORITIES}
    assert found == {
        "g-heft": 0.0, "aging": 0.0, "aging-e": -math.inf, "fcfs": 0.0, "srpt": math.inf, "foft": math.inf,
    }  # fmt: skip
