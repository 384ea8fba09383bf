"""Metrics of small schedules, computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from planning_examples import instance, planned, platform
from weft.planners.problem import make_schedule
from weft.schedule.metrics import critical_path, measure_schedule

TWO_SPEEDS = platform({"price_per_node_hour": 3.6}, {"speed": 2.0, "nodes": 3, "price_per_node_hour": 7.2})


def metrics_of(tasks, where, **options):
    made = instance(tasks, where)
    return measure_schedule(planned(made), made, **options)


def schedule_on(made, machine, start_s, finish_s):
    """Return a schedule of tasks of one node on machines given by index."""
    return make_schedule(
        made,
        machine=np.array(machine, dtype=np.uint32),
        nodes=np.ones(len(machine), dtype=np.uint32),
        start_s=np.array(start_s, dtype=float),
        finish_s=np.array(finish_s, dtype=float),
    )


def test_cost_is_the_price_of_the_occupied_node_seconds():
    found = metrics_of({"a": {"work": 10, "nodes": 2}}, TWO_SPEEDS)
    assert found.makespan_s == 5
    assert found.node_seconds == 10
    assert found.cost == pytest.approx(10 * 7.2 / 3600)


def test_used_and_idle_shares_refer_to_all_nodes():
    found = metrics_of({"a": {"work": 10, "nodes": 2}}, TWO_SPEEDS)
    assert found.used_share == pytest.approx(10 / (4 * 5))
    assert found.idle_share == pytest.approx(0.5)


def test_sequential_time_uses_the_fastest_machine_and_smallest_counts():
    tasks = {"a": {"work": 6, "nodes": [1, 2]}, "b": {"work": 4}}
    found = metrics_of(tasks, TWO_SPEEDS)
    assert found.sequential_s == 5
    assert found.speedup == pytest.approx(5 / found.makespan_s)


def test_sequential_time_excludes_machines_that_cannot_run_a_task():
    tasks = {"a": {"work": 6}, "b": {"work": 4, "requirements": "speed == 1"}}
    assert metrics_of(tasks, TWO_SPEEDS).sequential_s == 10


def test_sequential_time_uses_the_fastest_machine_of_each_task_if_no_machine_can_run_all():
    tasks = {"a": {"work": 6, "requirements": "speed == 2"}, "b": {"work": 4, "requirements": "speed == 1"}}
    assert metrics_of(tasks, TWO_SPEEDS).sequential_s == 3 + 4


def test_sequential_time_counts_only_machines_of_the_schedule():
    made = instance({"a": {"work": 6}, "b": {"work": 4}}, TWO_SPEEDS)
    slow = measure_schedule(schedule_on(made, [0, 0], [0, 6], [6, 10]), made)
    both = measure_schedule(schedule_on(made, [1, 0], [0, 0], [3, 4]), made)
    assert (slow.sequential_s, slow.speedup) == (10, 1)
    assert (both.sequential_s, both.speedup) == (5, 5 / 4)


def test_efficiency_counts_the_nodes_used_at_once():
    tasks = {name: {"work": 6} for name in "abcd"} | {"e": {"work": 6, "after": ["a", "b", "c", "d"]}}
    found = metrics_of(tasks, "cluster:64")
    assert (found.machines_used, found.nodes_used) == (1, 4)
    assert found.speedup == pytest.approx(30 / 12)
    assert found.efficiency == pytest.approx(30 / (4 * 12))
    assert found.overhead_s == pytest.approx(12 - 30 / 4)


def test_fixed_node_counts_do_not_reduce_efficiency():
    found = metrics_of({"a": {"work": 6, "nodes": 3}, "b": {"work": 6, "nodes": 3}}, "cluster:6")
    assert (found.nodes_used, found.efficiency, found.overhead_s) == (6, pytest.approx(1), pytest.approx(0))


def test_consecutive_tasks_use_one_node_in_spite_of_rounding():
    made = instance({"a": {"work": 0.3}, "b": {"work": 0.1}}, platform({}))
    schedule = schedule_on(made, [0, 0], [0.0, 0.3], [0.1 + 0.2, 0.4])
    assert schedule.start_s[1] < schedule.finish_s[0], "the times overlap by a rounding error"
    assert measure_schedule(schedule, made).nodes_used == 1


def test_concurrent_tasks_on_an_unlimited_machine_count_as_used_nodes():
    made = instance({"a": {"work": 6}, "b": {"work": 6}}, platform({"occupancy": "unlimited"}))
    found = measure_schedule(schedule_on(made, [0, 0], [0, 0], [6, 6]), made)
    assert (found.nodes_used, found.efficiency) == (2, pytest.approx(1))


def test_the_length_ratio_divides_by_the_critical_path_of_fastest_modes():
    tasks = {"a": {"work": 6}, "b": {"work": 4, "after": "a", "requirements": "speed == 1"}}
    found = metrics_of(tasks, TWO_SPEEDS)
    assert found.length_ratio == pytest.approx(1.0)
    assert found.makespan_s == 7


def test_the_critical_path_follows_the_data_that_arrive_last():
    tasks = {
        "big": {"work": 1, "outputs": {"x": "9MB"}},
        "slow": {"work": 5, "outputs": {"y": "1kB"}},
        "join": {"work": 1, "inputs": ["x", "y"], "requirements": 'name == "m1"'},
    }
    made = instance(tasks, platform({}, {"speed": 0.1}))
    schedule = planned(made)
    names = [made.graph.names[task] for task in critical_path(schedule, made)]
    assert names[-1] == "join"
    assert len(names) == 2
    found = measure_schedule(schedule, made)
    assert found.communication_s > 0


def test_waiting_for_a_machine_counts_as_synchronisation_if_the_path_follows_only_data():
    tasks = {"first": {"work": 3}, "second": {"work": 4}}
    made = instance(tasks, "identical:1")
    schedule = planned(made)
    assert [made.graph.names[task] for task in critical_path(schedule, made)] == ["first"]
    assert measure_schedule(schedule, made).synchronisation_s == 4
    through = critical_path(schedule, made, through_machines=True)
    assert [made.graph.names[task] for task in through] == ["second", "first"]
    assert measure_schedule(schedule, made, through_machines=True).synchronisation_s == 0


def test_tasks_of_0_seconds_form_no_cycle():
    made = instance({"a": {"seconds": 0}, "b": {"seconds": 0}, "c": {"work": 1}}, "identical:1")
    assert len(critical_path(planned(made), made, through_machines=True)) == 1


def test_throughput_combines_efficiency_and_time():
    found = metrics_of({"a": {"work": 4}}, "identical:2", constant_s=16.0, weight=0.25)
    assert found.throughput == pytest.approx(0.25 * 1.0 + 0.75 * (1 - 4 / 16))


def test_a_workflow_of_0_seconds_has_finite_metrics():
    found = metrics_of({"a": {"kind": "virtual"}}, "identical:2")
    assert (found.makespan_s, found.speedup, found.length_ratio, found.used_share) == (0, 1, 1, 0)
    assert found.machines_used == 0
