"""Lookahead HEFT places a task by the earliest finish of its successors."""

from __future__ import annotations

from planning_examples import instance, lines, planned, platform


def machines_of(tasks, where):
    return {
        task: machine for task, (machine, *_) in lines(planned(instance(tasks, where), "lookahead")).items()
    }


def test_task_is_placed_where_its_successor_finishes_first():
    tasks = {
        "a": {"seconds": {"m0": 3, "m1": 4}, "outputs": {"x": {"seconds": 10}}},
        "b": {"seconds": {"m1": 2}, "inputs": ["x"]},
    }
    where = platform({}, {})
    assert machines_of(tasks, where) == {"a": "m1", "b": "m1"}
    assert lines(planned(instance(tasks, where)))["a"][0] == "m0"


def test_task_is_placed_by_the_latest_finish_of_its_successors():
    tasks = {
        "a": {"seconds": {"m0": 4, "m1": 4}, "outputs": {"x": {"seconds": 5}, "y": {"seconds": 5}}},
        "b": {"seconds": {"m0": 2}, "inputs": ["x"]},
        "c": {"seconds": {"m1": 3}, "inputs": ["y"]},
    }
    assert machines_of(tasks, platform({}, {}))["a"] == "m1"


def test_transfers_and_virtual_tasks_are_not_evaluated():
    tasks = {
        "a": {"seconds": {"m0": 3, "m1": 4}, "outputs": {"x": {"seconds": 10}}},
        "end": {"kind": "virtual", "inputs": ["x"], "requirements": 'name == "m1"'},
    }
    assert machines_of(tasks, platform({}, {}))["a"] == "m0"


def test_ties_are_broken_by_earlier_finish_then_fewer_nodes_then_lower_machine_index():
    last = {"seconds": {"m2": 5}, "after": "a", "machine": "C"}
    held = {"before": {"seconds": {"m2": 9}, "machine": "C"}}
    tasks = held | {"a": {"seconds": {"m0": 4, "m1": 3}}, "b": last}
    assert machines_of(tasks, platform({}, {}, {}))["a"] == "m1"
    wide = {"a": {"work": 10, "nodes": [1, 2], "speedup": {"amdahl": 0}}}
    found = lines(planned(instance(wide, platform({"nodes": 2}, {"speed": 2.0})), "lookahead"))
    assert found["a"] == ("m1", 1, 0, 5)
    assert machines_of({"a": {"work": 1}}, platform({}, {})) == {"a": "m0"}
