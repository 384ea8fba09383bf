"""The planner `fastest` places every task on the machine where it runs fastest, regardless of the queue."""

from __future__ import annotations

from planning_examples import instance, lines, planned, platform


def plan_of(tasks, where, **options):
    return lines(planned(instance(tasks, where, **options), "fastest"))


def test_all_tasks_queue_on_the_fastest_machine():
    found = plan_of({f"t{index}": {"work": 6} for index in range(3)}, platform({}, {"speed": 3.0}))
    assert [found[f"t{index}"] for index in range(3)] == [("m1", 1, 0, 2), ("m1", 1, 2, 4), ("m1", 1, 4, 6)]


def test_each_task_has_its_own_fastest_machine_and_ties_use_the_first():
    tasks = {"a": {"seconds": {"m0": 3, "m1": 2, "m2": 9}}, "b": {"seconds": {"m0": 5, "m1": 7, "m2": 5}}}
    found = plan_of(tasks, platform({}, {}, {}))
    assert (found["a"][0], found["b"][0]) == ("m1", "m0")


def test_tasks_of_an_abstract_machine_use_the_machine_with_the_least_total_time():
    tasks = {
        "a": {"seconds": {"m0": 1, "m1": 4}, "machine": "A"},
        "b": {"seconds": {"m0": 9, "m1": 3}, "machine": "A"},
    }
    found = plan_of(tasks, platform({}, {}))
    assert {found["a"][0], found["b"][0]} == {"m1"}
    pinned = plan_of(tasks, platform({}, {}), pinned={"A": "m0"})
    assert {pinned["a"][0], pinned["b"][0]} == {"m0"}


def test_fastest_machine_of_a_task_is_one_that_can_run_it():
    tasks = {"a": {"work": 4, "memory": "3GB"}}
    assert plan_of(tasks, platform({"speed": 9.0, "memory": 1e9}, {"memory": 4e9}))["a"][0] == "m1"
