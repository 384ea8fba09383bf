"""Verification uses the amounts of the chosen node count and the budgets of all tasks."""

from __future__ import annotations

import numpy as np
import pytest

from planning_examples import instance, platform
from weft.schedule.schedule import Schedule
from weft.schedule.verification import verify

CLUSTER = platform({"nodes": 4, "memory": 6.0})
CORES = platform({"nodes": 8, "memory": 6.0, "backend": {"kind": "local"}})
TASK = {"seconds": 5, "nodes": [1, 2], "memory": {1: 3, 2: 5}}


def schedule(made, *rows):
    """Return a schedule from (nodes, start, finish) per task, all on the only machine."""
    nodes, start, finish = zip(*rows, strict=True)
    return Schedule(
        tasks=made.graph.names,
        machines=("m0",),
        machine=np.zeros(len(rows), dtype=np.uint32),
        nodes=np.array(nodes, dtype=np.uint32),
        start_s=np.array(start, dtype=float),
        finish_s=np.array(finish, dtype=float),
    )


def rules(made, *rows):
    return [violation.rule for violation in verify(schedule(made, *rows), made.graph, made.platform)]


def test_amounts_of_concurrent_tasks_are_those_of_their_counts():
    made = instance({"a": TASK, "b": TASK}, CLUSTER)
    assert rules(made, (1, 0, 5), (1, 0, 5)) == []
    assert rules(made, (1, 0, 5), (2, 0, 5)) == ["resources"]
    assert rules(made, (1, 0, 5), (2, 5, 10)) == []


def test_single_task_that_exceeds_an_amount_is_detected():
    made = instance({"a": TASK | {"memory": {1: 3, 2: 7}}}, CLUSTER)
    assert rules(made, (1, 0, 5)) == []
    assert rules(made, (2, 0, 5)) == ["resources", "resources"]


def test_amounts_are_those_of_the_task_count_where_a_node_is_a_core():
    made = instance({"a": TASK | {"cores": 2}, "b": TASK | {"cores": 2}}, CORES)
    assert rules(made, (2, 0, 5), (2, 0, 5)) == []
    assert rules(made, (2, 0, 5), (4, 0, 5)) == ["resources"]


def test_node_count_that_is_not_allowed_is_detected():
    made = instance({"a": TASK}, CLUSTER)
    assert rules(made, (3, 0, 5)) == ["count"]


@pytest.mark.parametrize(("budget", "expected"), [(9, []), (8.999, ["budget"])])
def test_the_budget_limits_all_tasks_together(budget, expected):
    tasks = {
        "a": {"seconds": 5, "nodes": [1, 2], "consumes": {"credits": {1: 2, 2: 7}}},
        "b": {"seconds": 5, "consumes": {"credits": 2}},
        "end": {"kind": "virtual", "after": ["a", "b"]},
    }
    made = instance(tasks, CLUSTER, budgets={"credits": budget})
    assert rules(made, (1, 0, 5), (1, 0, 5), (0, 5, 5)) == []
    assert rules(made, (2, 0, 5), (1, 0, 5), (0, 5, 5)) == expected
