"""Lazy binding: `transfer` keeps tasks with their data, `finish` places them where they finish first."""

from __future__ import annotations

import pytest

from planning_examples import MAKESPAN, instance, lines, platform
from weft.planners.lazy import LazyPlanner
from weft.planners.planner import Budget, PlanRequest
from weft.randomness import generator

TWO = platform({}, {"speed": 2.0})


def plan_of(made, seed=0, **options):
    plan = LazyPlanner(**options).plan(
        PlanRequest(instance=made, objective=MAKESPAN, budget=Budget(), rng=generator(seed, "lazy"))
    )
    return lines(plan.schedule)


def test_binding_by_transfer_time_keeps_all_tasks_on_one_machine():
    tasks = {"first": {"work": 2, "outputs": {"x": "1MB"}}}
    tasks |= {f"t{index}": {"work": 2, "inputs": ["x"]} for index in range(4)}
    made = instance(tasks, TWO)
    assert {line[0] for line in plan_of(made).values()} == {"m1"}
    by_finish = plan_of(made, by="finish")
    assert {line[0] for line in by_finish.values()} == {"m0", "m1"}
    assert max(line[3] for line in by_finish.values()) < max(line[3] for line in plan_of(made).values())


def test_task_after_a_transfer_is_bound_to_the_destination_of_the_transfer():
    tasks = {
        "a": {"work": 1, "machine": "A", "outputs": ["x"], "requirements": 'name == "m0"'},
        "move": {"kind": "transfer", "from_": "A", "to": "B", "file": "x", "size": "1MB"},
        "b": {"work": 50, "machine": "B", "inputs": ["x"]},
    }
    made = instance(tasks, platform({}, {"speed": 50.0}))
    # The transfer to m0 takes 0 s, although b would take 1 s on m1 instead of 50 s.
    assert plan_of(made)["b"] == ("m0", 1, 1, 51)
    assert plan_of(made, by="finish")["b"] == ("m1", 1, 2, 3)


def test_task_without_data_is_placed_on_its_fastest_machine():
    tasks = {"a": {"work": 4}, "b": {"work": 4}, "c": {"work": 4, "after": ["a"]}}
    found = plan_of(instance(tasks, TWO))
    assert found == {"a": ("m1", 1, 0, 2), "b": ("m1", 1, 2, 4), "c": ("m1", 1, 4, 6)}


def test_tasks_are_bound_in_the_order_in_which_they_become_ready():
    tasks = {
        "long": {"work": 6, "machine": "A"},
        "short": {"work": 1, "machine": "B"},
        "late": {"work": 1, "machine": "C", "after": "long"},
        "early": {"work": 5, "machine": "C", "after": "short"},
    }
    made = instance(tasks, platform({}, {}, {}), pinned={"A": "m0", "B": "m1", "C": "m2"})
    found = plan_of(made)
    assert found["early"][2:] == (1, 6)
    assert found["late"][2:] == (6, 7)


def test_lazy_binding_fills_no_gaps():
    tasks = {
        "a": {"work": 1, "outputs": {"x": "5MB"}, "requirements": 'name == "m0"'},
        "b": {"work": 1, "inputs": ["x"], "requirements": 'name == "m1"'},
        "c": {"work": 2, "after": "a", "requirements": 'name == "m1"'},
    }
    # b is bound first and waits for its data until 6 s; c, bound at the same time, comes after it.
    assert plan_of(instance(tasks, platform({}, {})), by="finish")["c"][2] == 7


@pytest.mark.parametrize("ties", ["first", "random"])
def test_ties_are_broken_by_the_first_or_by_a_random_machine(ties):
    made = instance({f"t{index}": {"work": 1} for index in range(40)}, "identical:4")
    found = [line[0] for line in plan_of(made, ties=ties).values()]
    assert len(set(found)) == (1 if ties == "first" else 4)
    again = [line[0] for line in plan_of(made, ties=ties).values()]
    other = [line[0] for line in plan_of(made, seed=1, ties=ties).values()]
    assert found == again
    assert (found == other) is (ties == "first")
