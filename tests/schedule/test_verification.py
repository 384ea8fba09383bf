"""Verification detects every single corruption of a valid schedule and names the violated rule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planning_examples import instance, lines, planned, platform
from weft.schedule.metrics import measure_schedule
from weft.schedule.schedule import Schedule
from weft.schedule.verification import Violation, verify
from weft.workflow.task_graph import COMPUTE, TRANSFER, VIRTUAL

UNLIKE = platform(
    {"speed": 2.0}, {"arch": "x86_64"}, {"nodes": 4, "memory": 4e9, "resources": {"licence": 1}}
)
SHARED = platform({"nodes": 4, "cores": 1, "backend": {"kind": "local"}}, {"cores": 4})
PIPELINE = {
    "a": {"work": 4, "outputs": {"x": "8MB"}},
    "b": {"work": 6, "inputs": ["x"], "requirements": 'arch == "x86_64"', "outputs": {"y": {"seconds": 3}}},
    "c": {"work": 8, "inputs": ["y"], "nodes": [2, 4], "memory": "3GB", "speedup": {"amdahl": 0.1}},
    "d": {"work": 8, "nodes": [2, 4], "memory": "3GB", "speedup": {"amdahl": 0.1}},
    "e": {"work": 3, "nodes": 1, "resources": {"licence": 1}},
    "f": {"work": 3, "nodes": 1, "resources": {"licence": 1}},
    "end": {"kind": "virtual", "after": ["c", "d", "e", "f"]},
}
BOUND = {
    "a": {"work": 4, "machine": "A", "outputs": {"x": "8MB"}},
    "move": {"kind": "transfer", "from_": "A", "to": "B", "file": "x", "size": "8MB"},
    "b": {"work": 6, "machine": "B", "inputs": ["x"], "requirements": 'arch == "x86_64"'},
    "c": {"work": 5, "machine": "A", "after": "a", "requirements": "speed > 1"},
    "later": {"work": 1, "machine": "B", "after": "c"},
}
SWEEP = {
    "many": {
        "sweep": {"k": "1..5"},
        "work": "k",
        "outputs": {"r.{k}": "1MB"},
        "requirements": "nodes >= k - 1",
    },
    "join": {"work": 2, "after": "many", "inputs": ["r.1", "r.5"]},
}
CORES = {name: {"work": 5, "cores": 2} for name in ("a", "b", "c", "d")}
SERVICES = {"a": {"work": 1, "service": "dock"}, "b": {"work": 1}}
OFFERING = platform({}, {"speeds": {"dock": 3.0}})

INSTANCES = {
    "pipeline": (PIPELINE, UNLIKE),
    "bound": (BOUND, UNLIKE),
    "sweep": (SWEEP, UNLIKE),
    "cores": (CORES, SHARED),
    "services": (SERVICES, OFFERING),
}


@pytest.fixture(params=INSTANCES)
def example(request):
    tasks, where = INSTANCES[request.param]
    made = instance(tasks, where)
    return made, planned(made)


def changed(schedule, task, **values):
    """Return a copy of a schedule with some columns of one task changed."""
    columns = {}
    for column, value in values.items():
        columns[column] = getattr(schedule, column).copy()
        columns[column][task] = value
    return replace(schedule, **columns)


def moved(schedule, task, by_s):
    """Return a copy in which one task starts earlier or later."""
    start, finish = schedule.start_s[task] + by_s, schedule.finish_s[task] + by_s
    return changed(schedule, task, start_s=start, finish_s=finish)


def rules(schedule, made):
    return {violation.rule for violation in verify(schedule, made.graph, made.platform)}


def tasks_of(made, *kinds):
    return [task for task in range(len(made)) if made.graph.kind[task] in kinds]


def test_valid_schedule_has_no_violation(example):
    made, schedule = example
    assert verify(schedule, made.graph, made.platform) == []


def test_start_before_the_data_arrive_is_detected(example):
    made, schedule = example
    for task in range(len(made)):
        before = made.graph.predecessors(task)
        if len(before) and schedule.start_s[task] > 0:
            latest = float(schedule.finish_s[before].max())
            assert "precedence" in rules(moved(schedule, task, latest * 0.99 - schedule.start_s[task]), made)


def test_wrong_duration_is_detected(example):
    made, schedule = example
    for task in tasks_of(made, COMPUTE, TRANSFER, VIRTUAL):
        longer = changed(schedule, task, finish_s=schedule.finish_s[task] + 0.5)
        assert "duration" in rules(longer, made)


def test_wrong_node_count_is_detected(example):
    made, schedule = example
    for task in range(len(made)):
        assert rules(changed(schedule, task, nodes=schedule.nodes[task] + 5), made) & {"count", "nodes"}
    for task in tasks_of(made, COMPUTE):
        assert "count" in rules(changed(schedule, task, nodes=0), made)


def test_transfer_that_occupies_nodes_is_detected():
    made = instance(PIPELINE, UNLIKE)
    schedule = planned(made)
    assert rules(changed(schedule, made.graph.index("end"), nodes=1), made) == {"count"}


def test_invalid_times_are_detected(example):
    made, schedule = example
    for task in range(len(made)):
        for value in (np.nan, np.inf, -1.0):
            assert rules(changed(schedule, task, start_s=value), made) == {"time"}
        assert rules(changed(schedule, task, finish_s=np.nan), made) == {"time"}
        if schedule.start_s[task] > 0:
            assert rules(changed(schedule, task, finish_s=0.0), made) == {"time"}


def test_unknown_machines_are_detected(example):
    made, schedule = example
    assert rules(changed(schedule, 0, machine=99), made) == {"complete"}
    assert rules(replace(schedule, machines=("m9", *schedule.machines[1:])), made) == {"complete"}


def test_missing_and_unknown_tasks_are_detected(example):
    made, schedule = example
    names = schedule.tasks
    assert rules(replace(schedule, tasks=names[:-1]), made) == {"complete"}
    assert rules(replace(schedule, tasks=(*names[:-1], "other")), made) == {"complete"}


def test_two_tasks_on_one_node_are_detected():
    made = instance({"a": {"work": 4}, "b": {"work": 4}}, "identical:1")
    schedule = planned(made)
    assert rules(moved(schedule, 1, -2.0), made) == {"nodes"}
    assert rules(moved(schedule, 1, -4.0), made) == {"nodes"}
    assert rules(moved(schedule, 1, 3.0), made) == set()


def test_too_many_nodes_of_a_shared_host_are_detected():
    made = instance(CORES, SHARED)
    schedule = planned(made)
    waiting = [task for task in range(4) if schedule.start_s[task] > 0]
    assert len(waiting) == 1
    assert rules(moved(schedule, waiting[0], -schedule.start_s[waiting[0]]), made) == {"nodes"}
    for task in range(4):
        assert "count" in rules(changed(schedule, task, nodes=3), made)


@pytest.mark.parametrize("pair", [("c", "d"), ("e", "f")])
def test_too_much_memory_or_too_many_licences_are_detected(pair):
    made = instance(PIPELINE, UNLIKE)
    schedule = planned(made)
    assert rules(schedule, made) == set()
    first, second = sorted((made.graph.index(name) for name in pair), key=lambda task: schedule.start_s[task])
    together = moved(schedule, first, schedule.start_s[second] - schedule.start_s[first])
    assert "resources" in rules(together, made)


def test_single_task_that_does_not_fit_is_detected():
    wanting = {"a": {"seconds": 0, "memory": "3GB", "nodes": 2}}
    made = instance(wanting, UNLIKE)
    schedule = planned(made)
    small = platform({"memory": 1e9}, {"memory": 1e9}, {"nodes": 1, "memory": 1e9})
    found = {violation.rule for violation in verify(schedule, made.graph, small)}
    assert found == {"nodes", "resources"}
    open_to_all = platform({"occupancy": "unlimited"}, {}, {"memory": 1e9, "occupancy": "unlimited"})
    found = {violation.rule for violation in verify(schedule, made.graph, open_to_all)}
    assert found == {"nodes", "resources"}


def test_schedule_that_violates_a_binding_is_detected():
    made = instance(BOUND, UNLIKE)
    schedule = planned(made)
    for name in ("a", "c", "b", "later", "move"):
        task = made.graph.index(name)
        other = (int(schedule.machine[task]) + 1) % 3
        assert "binding" in rules(changed(schedule, task, machine=other), made)


def test_machine_that_does_not_meet_the_requirements_is_detected():
    made = instance(PIPELINE, UNLIKE)
    schedule = planned(made)
    task = made.graph.index("b")
    for other in (0, 2):
        assert "requirement" in rules(changed(schedule, task, machine=other), made)
    swept = instance(SWEEP, UNLIKE)
    widest = swept.graph.index("many[5]")
    assert "requirement" in rules(changed(planned(swept), widest, machine=0), swept)


def test_machine_without_the_service_is_detected():
    made = instance(SERVICES, OFFERING)
    schedule = planned(made)
    assert lines(schedule)["a"][0] == "m1"
    wrong = changed(schedule, made.graph.index("a"), machine=0, finish_s=schedule.start_s[0] + 1)
    assert "requirement" in rules(wrong, made)


def test_schedule_that_ignores_a_transfer_time_is_detected():
    made = instance(BOUND, UNLIKE)
    schedule = planned(made)
    task = made.graph.index("move")
    assert schedule.machine[made.graph.index("a")] != schedule.machine[task]
    instant = changed(schedule, task, finish_s=schedule.start_s[task])
    assert rules(instant, made) == {"duration"}
    late = moved(schedule, made.graph.index("b"), -4.0)
    assert "precedence" in rules(late, made)


def test_fixed_seconds_and_latency_of_an_edge_are_checked():
    made = instance(
        {"a": {"work": 1, "outputs": {"x": {"seconds": 3}}}, "b": {"work": 1, "inputs": ["x"]}}, "identical:2"
    )
    columns = {"machine": np.array([0, 1]), "nodes": np.array([1, 1])}
    names = {"tasks": made.graph.names, "machines": ("m1", "m2")}
    for start, found in ((4.0, set()), (3.9, {"precedence"})):
        times = {"start_s": np.array([0.0, start]), "finish_s": np.array([1.0, start + 1])}
        assert rules(Schedule(**names, **columns, **times), made) == found


def test_transfer_that_starts_before_its_file_is_at_the_source_is_detected():
    made = instance(
        {
            "write": {"work": 1, "machine": "W", "outputs": {"x": "2MB"}, "requirements": 'name == "m0"'},
            "hold": {"work": 1, "machine": "A", "requirements": 'name == "m1"'},
            "move": {"kind": "transfer", "from_": "A", "to": "B", "file": "x", "size": "3MB"},
            "use": {"machine": "B", "inputs": ["x"], "work": 1, "requirements": 'name == "m2"'},
        },
        platform({}, {}, {}),
    )
    schedule = planned(made)
    assert rules(schedule, made) == set()
    assert lines(schedule)["move"][2:] == (3, 6)
    assert "precedence" in rules(moved(schedule, made.graph.index("move"), -1.0), made)
    found = measure_schedule(schedule, made)
    assert (found.communication_s, found.synchronisation_s) == (5, 0)


def test_a_violation_prints_its_rule_and_cause():
    violation = Violation(rule="nodes", what="m1 is full")
    assert str(violation) == "nodes: m1 is full"
