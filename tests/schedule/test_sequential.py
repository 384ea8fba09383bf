"""One task after another on one machine: time and node-seconds by hand."""

from __future__ import annotations

import pytest

from planning_examples import instance, platform
from weft.schedule.costs import SequentialExecution, sequential_execution

UNLIKE = platform({"nodes": 4}, {"speed": 2.0, "nodes": 3})


def test_the_smallest_counts_on_the_fastest_machine():
    tasks = {"a": {"work": 6, "nodes": [2, 3], "speedup": {"roofline": 3}}, "b": {"work": 4, "after": "a"}}
    assert sequential_execution(instance(tasks, UNLIKE)) == SequentialExecution(
        time_s=1.5 + 2, node_seconds=2 * 1.5 + 2
    )


def test_a_machine_that_refuses_a_task_is_not_taken():
    tasks = {"a": {"work": 6}, "b": {"work": 4, "nodes": 4}}
    assert sequential_execution(instance(tasks, UNLIKE)) == SequentialExecution(
        time_s=10, node_seconds=6 + 16
    )


def test_where_no_machine_can_run_all_each_task_takes_its_fastest():
    tasks = {"a": {"work": 6, "requirements": "speed == 2"}, "b": {"work": 4, "nodes": 4}}
    assert sequential_execution(instance(tasks, UNLIKE)) == SequentialExecution(
        time_s=3 + 4, node_seconds=3 + 16
    )


def test_a_core_is_a_node_where_the_machine_says_so():
    made = instance({"a": {"work": 6, "cores": 2}}, platform({"nodes": 4, "backend": {"kind": "local"}}))
    assert sequential_execution(made) == SequentialExecution(time_s=6, node_seconds=12)


def test_it_is_computed_once(monkeypatch):
    made = instance({"a": {"work": 6}}, UNLIKE)
    first = sequential_execution(made)
    monkeypatch.setattr("weft.schedule.costs._run_sequentially", lambda made: pytest.fail("computed again"))
    assert sequential_execution(made) is first
