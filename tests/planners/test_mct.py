"""MCT places tasks by index, each where it finishes first, after all tasks placed before."""

from __future__ import annotations

from planning_examples import instance, lines, planned, platform


def plan_of(tasks, where):
    return lines(planned(instance(tasks, where), "mct"))


def test_tasks_are_placed_by_index_at_the_earliest_finish():
    found = plan_of({"a": {"work": 10}, "b": {"work": 10}, "c": {"work": 30}}, platform({}, {"speed": 10.0}))
    assert found == {"a": ("m1", 1, 0, 1), "b": ("m1", 1, 1, 2), "c": ("m1", 1, 2, 5)}


def test_gaps_are_not_used():
    only = {"requirements": 'name == "m0"'}
    tasks = {
        "a": {"work": 2, "outputs": {"x": {"seconds": 6}}, "requirements": 'name == "m1"'},
        "b": {"work": 1, "inputs": ["x"], **only},
        "filler": {"work": 3, **only},
    }
    assert plan_of(tasks, platform({}, {}))["filler"][2:] == (9, 12)


def test_moldable_task_uses_the_smallest_count_that_finishes_soon_enough():
    tasks = {"a": {"nodes": [1, 2, 4], "speedup": {"seconds": {1: 20, 2: 10.2, 4: 10}}}}
    assert plan_of(tasks, "cluster:4")["a"][1:] == (2, 0, 10.2)
