"""A schedule's columns, lines and counts."""

from __future__ import annotations

import numpy as np

from weft.schedule.schedule import Assignment, Schedule

SMALL = Schedule(
    tasks=("a", "b", "move"),
    machines=("m1", "m2", "m3"),
    machine=np.array([2, 0, 1], dtype=np.uint32),
    nodes=np.array([4, 1, 0], dtype=np.uint32),
    start_s=np.array([0.0, 2.0, 2.5]),
    finish_s=np.array([2.0, 2.5, 7.0]),
)
EMPTY = Schedule(
    tasks=(),
    machines=("m1",),
    machine=np.zeros(0, dtype=np.uint32),
    nodes=np.zeros(0, dtype=np.uint32),
    start_s=np.zeros(0),
    finish_s=np.zeros(0),
)


def test_assignments_name_task_and_machine():
    assert next(iter(SMALL)) == Assignment(task="a", machine="m3", nodes=4, start_s=0.0, finish_s=2.0)
    assert [line.task for line in SMALL] == ["a", "b", "move"]


def test_assignments_contain_python_numbers():
    for line in SMALL:
        assert type(line.nodes) is int
        assert type(line.start_s) is float


def test_the_makespan_is_the_last_finish():
    assert SMALL.makespan_s == 7.0


def test_only_machines_with_occupied_nodes_count_as_used():
    assert SMALL.machines_used == 2


def test_an_empty_schedule_has_makespan_0():
    assert (len(EMPTY), EMPTY.makespan_s, EMPTY.machines_used, list(EMPTY)) == (0, 0.0, 0, [])
