"""Sequential execution on one machine: time and node-seconds computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from planning_examples import instance, platform
from weft.schedule.costs import SequentialExecution, sequential_execution

UNLIKE = platform({"nodes": 4}, {"speed": 2.0, "nodes": 3})


def test_sequential_execution_uses_smallest_counts_on_the_fastest_machine():
    tasks = {"a": {"work": 6, "nodes": [2, 3], "speedup": {"roofline": 3}}, "b": {"work": 4, "after": "a"}}
    assert sequential_execution(instance(tasks, UNLIKE)) == SequentialExecution(
        time_s=1.5 + 2, node_seconds=2 * 1.5 + 2
    )


def test_a_machine_that_cannot_run_a_task_is_excluded():
    tasks = {"a": {"work": 6}, "b": {"work": 4, "nodes": 4}}
    assert sequential_execution(instance(tasks, UNLIKE)) == SequentialExecution(
        time_s=10, node_seconds=6 + 16
    )


def test_each_task_uses_its_fastest_machine_if_no_machine_can_run_all_tasks():
    tasks = {"a": {"work": 6, "requirements": "speed == 2"}, "b": {"work": 4, "nodes": 4}}
    assert sequential_execution(instance(tasks, UNLIKE)) == SequentialExecution(
        time_s=3 + 4, node_seconds=3 + 16
    )


def test_cores_count_as_nodes_where_a_node_is_a_core():
    made = instance({"a": {"work": 6, "cores": 2}}, platform({"nodes": 4, "backend": {"kind": "local"}}))
    assert sequential_execution(made) == SequentialExecution(time_s=6, node_seconds=12)


def test_sequential_execution_considers_only_the_given_machines():
    made = instance({"a": {"work": 6}, "b": {"work": 4}}, UNLIKE)
    assert sequential_execution(made, np.array([0])).time_s == 10
    assert sequential_execution(made, np.array([0, 1])).time_s == 5


def test_each_task_uses_the_fastest_given_machine_if_no_given_machine_can_run_all_tasks():
    tasks = {"a": {"work": 6, "requirements": "speed == 2"}, "b": {"work": 4, "nodes": 4}, "c": {"work": 2}}
    where = platform({"nodes": 4}, {"speed": 2.0, "nodes": 3}, {"speed": 2.0}, {"speed": 9.0})
    assert sequential_execution(instance(tasks, where), np.array([0, 2])).time_s == 3 + 4 + 1


def test_sequential_execution_is_cached(monkeypatch):
    made = instance({"a": {"work": 6}}, UNLIKE)
    first = sequential_execution(made)
    monkeypatch.setattr("weft.schedule.costs._run_sequentially", lambda made: pytest.fail("computed again"))
    assert sequential_execution(made) is first
    assert sequential_execution(made, np.array([1])) == first
