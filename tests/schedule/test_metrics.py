"""Metrics of small schedules, computed by hand."""

from __future__ import annotations

import pytest

from planning_examples import instance, planned, platform
from weft.schedule.metrics import critical_path, measure_schedule

TWO_SPEEDS = platform({"price_per_node_hour": 3.6}, {"speed": 2.0, "nodes": 3, "price_per_node_hour": 7.2})


def metrics_of(tasks, where, **options):
    made = instance(tasks, where)
    return measure_schedule(planned(made), made, **options)


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


def test_sequential_time_uses_the_fastest_machine_of_each_task_without_a_common_machine():
    tasks = {"a": {"work": 6, "requirements": "speed == 2"}, "b": {"work": 4, "requirements": "speed == 1"}}
    assert metrics_of(tasks, TWO_SPEEDS).sequential_s == 3 + 4


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


def test_waiting_for_a_machine_is_synchronisation_unless_the_path_follows_machines():
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


def test_metric_8_combines_efficiency_and_time():
    found = metrics_of({"a": {"work": 4}}, "identical:2", constant_s=16.0, weight=0.25)
    assert found.throughput == pytest.approx(0.25 * 1.0 + 0.75 * (1 - 4 / 16))


def test_a_workflow_of_0_seconds_has_finite_metrics():
    found = metrics_of({"a": {"kind": "virtual"}}, "identical:2")
    assert (found.makespan_s, found.speedup, found.length_ratio, found.used_share) == (0, 1, 1, 0)
    assert found.machines_used == 0
