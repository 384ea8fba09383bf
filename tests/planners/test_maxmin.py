"""MaxMin places the ready task with the latest earliest finish first."""

from __future__ import annotations

from planning_examples import instance, lines, planned, platform


def test_longest_task_is_placed_first():
    tasks = {"a": {"work": 1}, "b": {"work": 1}, "c": {"work": 1}, "long": {"work": 3}}
    found = lines(planned(instance(tasks, "identical:2"), "maxmin"))
    assert found == {
        "long": ("m1", 1, 0, 3),
        "a": ("m2", 1, 0, 1),
        "b": ("m2", 1, 1, 2),
        "c": ("m2", 1, 2, 3),
    }


def test_maxmin_selects_a_task_by_its_finish_on_its_best_machine():
    tasks = {"slow": {"seconds": {"m0": 4, "m1": 4}}, "picky": {"seconds": {"m0": 3, "m1": 99}}}
    found = lines(planned(instance(tasks, platform({}, {})), "maxmin"))
    assert found == {"slow": ("m0", 1, 0, 4), "picky": ("m0", 1, 4, 7)}
