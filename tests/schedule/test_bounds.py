"""Lower bounds of small instances, computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from planning_examples import instance, planned, platform
from weft.schedule.bounds import lower_bounds


def bounds_of(tasks, where, **options):
    return lower_bounds(instance(tasks, where, **options))


def test_the_critical_path_takes_the_fastest_modes_and_free_data():
    tasks = {"a": {"work": 6, "outputs": {"x": "1GB"}}, "b": {"work": 4, "inputs": ["x"]}, "c": {"work": 7}}
    assert bounds_of(tasks, platform({}, {"speed": 2.0})).critical_path_s == 5


def test_earliest_starts_lengthen_the_critical_path():
    found = bounds_of({"a": {"work": 6}}, "identical:1", earliest_start_s=np.array([3.0]))
    assert found.critical_path_s == 9


def test_the_area_of_identical_machines_is_work_over_nodes():
    assert bounds_of({"a": {"sweep": {"k": "1..9"}, "work": 2}}, "identical:4").area_s == pytest.approx(4.5)


def test_the_area_of_unlike_machines_is_work_over_all_speeds():
    found = bounds_of(
        {"a": {"sweep": {"k": "1..9"}, "work": 2}}, platform({"speed": 1.0}, {"speed": 3.0, "nodes": 2})
    )
    assert found.area_s == pytest.approx(18 / 7)


def test_the_area_of_unrelated_machines_is_a_valid_weighting():
    tasks = {name: {"seconds": {"m0": 2, "m1": 8}} for name in "abcd"}
    assert bounds_of(tasks, platform({}, {})).area_s == pytest.approx(4.0)


def test_moldable_tasks_count_with_their_least_node_seconds():
    tasks = {"a": {"sweep": {"k": "1..4"}, "work": 10, "nodes": [1, 2, 4], "speedup": {"amdahl": 0.2}}}
    found = bounds_of(tasks, "cluster:4")
    assert found.area_s == pytest.approx(10.0)
    assert found.critical_path_s == pytest.approx(4.0)


def test_scarce_resources_bound_like_nodes():
    machine = platform({"nodes": 8, "resources": {"licence": 2}})
    tasks = {"a": {"sweep": {"k": "1..6"}, "work": 5, "resources": {"licence": 1}}}
    assert bounds_of(tasks, machine).area_s == pytest.approx(15.0)


def test_memory_nobody_states_bounds_nothing():
    tasks = {"a": {"sweep": {"k": "1..6"}, "work": 5, "memory": "1GB"}}
    assert bounds_of(tasks, "cluster:8").area_s == pytest.approx(30 / 8)


def test_the_combination_adds_heads_and_tails_to_the_area():
    tasks = {
        "first": {"work": 3},
        "middle": {"sweep": {"k": "1..6"}, "work": 4, "after": "first"},
        "last": {"work": 2, "after": "middle"},
    }
    found = bounds_of(tasks, "identical:2")
    assert found.critical_path_s == 9
    assert found.area_s == pytest.approx(14.5)
    assert found.combined_s == pytest.approx(3 + 12 + 2)
    assert found.best_s == found.combined_s
    made = instance(tasks, "identical:2")
    assert planned(made).makespan_s == pytest.approx(17.0)


def test_machines_without_occupancy_have_no_area():
    tasks = {"a": {"sweep": {"k": "1..9"}, "work": 2}}
    found = bounds_of(tasks, platform({"occupancy": "unlimited"}))
    assert (found.area_s, found.combined_s, found.best_s) == (0, 0, 2)


def test_nothing_to_do_takes_no_time():
    assert bounds_of({"a": {"kind": "virtual"}}, "identical:1").best_s == 0
