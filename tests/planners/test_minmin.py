"""MinMin places the ready task with the earliest finish first."""

from __future__ import annotations

from planning_examples import instance, lines, planned


def test_longest_task_is_placed_last():
    tasks = {"long": {"work": 3}, "a": {"work": 1}, "b": {"work": 1}, "c": {"work": 1}}
    found = lines(planned(instance(tasks, "identical:2"), "minmin"))
    assert found == {
        "a": ("m1", 1, 0, 1),
        "b": ("m2", 1, 0, 1),
        "c": ("m1", 1, 1, 2),
        "long": ("m2", 1, 1, 4),
    }


def test_tasks_are_considered_when_their_predecessors_are_placed():
    tasks = {"a": {"work": 1}, "b": {"work": 2, "after": "a"}, "c": {"work": 4}}
    found = lines(planned(instance(tasks, "identical:1"), "minmin"))
    assert [found[name][2] for name in "abc"] == [0, 1, 3]


def test_moldable_task_is_selected_by_its_earliest_finish_and_placed_on_fewer_nodes():
    tasks = {
        "wide": {"nodes": [1, 2, 4], "speedup": {"seconds": {1: 20, 2: 10.2, 4: 10}}},
        "short": {"work": 10.1},
    }
    found = lines(planned(instance(tasks, "cluster:4"), "minmin"))
    assert found == {"wide": ("cluster", 2, 0, 10.2), "short": ("cluster", 1, 0, 10.1)}
