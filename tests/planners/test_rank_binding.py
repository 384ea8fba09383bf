"""Planners bind tasks with a rank to the machine that the rank will choose, as far as they can foresee."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planning_examples import MAKESPAN, instance, platform
from policy_runs import run_all
from weft.planners.planner import Budget, PlanRequest, make_planner
from weft.planners.rank_binding import bind_by_rank, make_plan
from weft.randomness import generator
from weft.schedule.verification import verify

SPEEDS = ({"speed": 4.0}, {"speed": 1.0, "memory": 8e9}, {"speed": 2.0, "memory": 2e9})


def plan_of(made, planner="heft"):
    request = PlanRequest(
        instance=made, objective=MAKESPAN, budget=Budget(steps=50), rng=generator(0, "test")
    )
    return make_plan(make_planner(planner), request)


def machines_of(plan):
    return {line.task: line.machine for line in plan.schedule}


@pytest.mark.parametrize("planner", ["heft", "auto", "genetic", "cp-sat", "lazy"])
def test_task_is_bound_to_its_best_ranked_free_machine(planner):
    made = instance({"a": {"work": 4, "rank": "memory"}, "b": {"work": 4}}, platform(*SPEEDS))
    plan = plan_of(made, planner)
    assert machines_of(plan)["a"] == "m1"
    choice = plan.ranked[0]
    assert (choice.task, choice.machine, choice.rank, choice.value) == ("a", "m1", "memory", 8e9)
    assert verify(plan.schedule, made.graph, made.platform) == []


def test_task_is_not_bound_to_a_machine_that_is_busy_when_it_starts():
    tasks = {
        "long": {"work": 40, "requirements": "name == 'm1'"},
        "gate": {"work": 1, "requirements": "name == 'm0'"},
        "a": {"work": 4, "rank": "memory", "after": "gate"},
    }
    made = instance(tasks, platform(*SPEEDS))
    assert machines_of(plan_of(made))["a"] == "m2"


def test_task_ranked_by_turnaround_waits_for_a_faster_machine():
    tasks = {
        "long": {"work": 8, "requirements": "name == 'm0'"},
        "gate": {"work": 1, "requirements": "name == 'm2'"},
        "a": {"work": 40, "rank": "-(seconds + transfer_s + queue_s)", "after": "gate"},
    }
    plan = plan_of(instance(tasks, platform(*SPEEDS)))
    assert machines_of(plan)["a"] == "m0"


def test_rank_binding_changes_neither_plans_without_ranks_nor_pinned_tasks():
    tasks = {"a": {"work": 4, "rank": "memory"}, "b": {"work": 4}}
    plain = instance({name: {"work": 4} for name in tasks}, platform(*SPEEDS))
    schedule = plan_of(plain).schedule
    assert bind_by_rank(plain, schedule) == (schedule, [])
    pinned = instance(tasks, platform(*SPEEDS), pinned={"a": "m2"})
    plan = plan_of(pinned)
    assert (machines_of(plan)["a"], plan.ranked) == ("m2", ())


def test_excluded_tasks_keep_the_machine_of_the_planner():
    made = instance({"a": {"work": 4, "rank": "memory"}}, platform(*SPEEDS))
    request = PlanRequest(instance=made, objective=MAKESPAN, rng=generator(0, "test"))
    plan = make_plan(make_planner("heft"), request, besides={"a"})
    assert (machines_of(plan), plan.ranked) == ({"a": "m0"}, ())


def test_destination_of_an_explicit_transfer_is_the_machine_of_the_task_that_reads_the_file():
    tasks = {
        "make": {"work": 1, "machine": "here", "outputs": {"x": "1MB"}},
        "move": {
            "kind": "transfer",
            "from": "here",
            "to": "there",
            "file": "x",
            "size": "1MB",
            "after": "make",
        },
        "use": {"work": 4, "machine": "there", "rank": "memory", "after": "move"},
    }
    made = instance(tasks, platform(*SPEEDS))
    plan = plan_of(made)
    assert machines_of(plan)["use"] == machines_of(plan)["move"] == "m1"
    assert verify(plan.schedule, made.graph, made.platform) == []


RANKS = st.sampled_from(
    [None, "speed", "-speed", "memory", "free_nodes", "-(seconds + transfer_s)", "-(seconds + queue_s)"]
)


@st.composite
def ranked_instances(draw):
    """Return small instances of tasks, some with ranks, that never end at the same time."""
    tasks = {}
    for number in range(draw(st.integers(1, 7))):
        keys = {"work": draw(st.integers(1, 40)) + 0.001 * 3**number}
        if (rank := draw(RANKS)) is not None:
            keys["rank"] = rank
        if number and draw(st.booleans()):
            keys["after"] = f"t{draw(st.integers(0, number - 1))}"
        tasks[f"t{number}"] = keys
    machines = [
        {
            "speed": draw(st.sampled_from([1.0, 1.37, 2.9])),
            "nodes": draw(st.integers(1, 2)),
            "memory": 1e9 * m,
        }
        for m in range(1, draw(st.integers(1, 3)) + 1)
    ]
    return instance(tasks, platform(*machines))


@given(ranked_instances())
@settings(max_examples=40, deadline=None)
def test_schedule_bound_by_ranks_is_valid_and_does_not_change_when_bound_again(made):
    plan = plan_of(made)
    assert verify(plan.schedule, made.graph, made.platform) == []
    again, choices = bind_by_rank(made, plan.schedule)
    assert np.array_equal(again.machine, plan.schedule.machine)
    assert {each.task: each.machine for each in choices} == {each.task: each.machine for each in plan.ranked}


@given(ranked_instances())
@settings(max_examples=40, deadline=None)
def test_run_chooses_the_machines_that_the_plan_expects(made):
    expected = {each.task: each.machine for each in plan_of(made).ranked}
    ran = run_all({"w": made}, [(0, "w")], "plan", planner="heft")
    names = [machine.name for machine in made.machines]
    assert {task: names[ran.lines[0][task].machine] for task in expected} == expected
