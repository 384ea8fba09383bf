"""HLFET starts the ready task of the highest level on a free machine."""

from __future__ import annotations

from planning_examples import instance, lines, planned, platform
from weft.instance import BusyInterval


def plan_of(tasks, where, **options):
    return lines(planned(instance(tasks, where, **options), "hlfet"))


def test_ready_task_starts_before_an_unready_task_of_higher_level():
    tasks = {
        "head": {"work": 2},
        "high": {"work": 9, "after": "head"},
        "low": {"work": 5},
        "other": {"work": 5},
    }
    found = plan_of(tasks, "identical:2")
    assert [found[name][2] for name in ("head", "low", "high", "other")] == [0, 0, 2, 5]


def test_ready_tasks_are_ordered_by_level_and_then_by_lower_index():
    tasks = {name: {"work": 1} for name in ("b", "a", "c")} | {"long": {"work": 2}}
    found = plan_of(tasks, "identical:1")
    assert [found[name][2] for name in ("long", "b", "a", "c")] == [0, 2, 3, 4]


def test_task_is_placed_on_a_free_machine_although_its_data_arrive_later():
    tasks = {
        "a": {"work": 2, "outputs": {"y": {"seconds": 6}}},
        "x": {"work": 3, "after": "a"},
        "b": {"work": 1, "inputs": ["y"]},
    }
    assert plan_of(tasks, "identical:2")["b"] == ("m2", 1, 8, 9)


def test_task_is_placed_on_the_free_machine_where_it_finishes_first():
    found = plan_of({"a": {"work": 6}, "b": {"work": 6}}, platform({}, {"speed": 2.0}, {"speed": 3.0}))
    assert found == {"a": ("m2", 1, 0, 2), "b": ("m1", 1, 0, 3)}


def test_moldable_task_uses_the_nodes_that_are_free():
    tasks = {
        "rigid": {"work": 20, "nodes": 3},
        "wide": {"work": 8, "nodes": [1, 2, 4], "speedup": {"amdahl": 0}},
    }
    assert plan_of(tasks, "cluster:5")["wide"][1:] == (2, 0, 4)


def test_task_that_ends_before_a_later_reservation_starts_at_once():
    held = (BusyInterval(machine=0, start_s=5.0, finish_s=50.0, nodes=1),)
    found = plan_of({"a": {"work": 4}, "b": {"work": 3}}, "identical:1", busy=held)
    assert (found["a"][2], found["b"][2]) == (0, 50)
