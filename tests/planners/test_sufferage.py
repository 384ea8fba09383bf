"""Sufferage places first the task that loses most on its second-best machine."""

from __future__ import annotations

import pytest

from planning_examples import instance, lines, planned, platform


def plan_of(tasks, where):
    return lines(planned(instance(tasks, where), "sufferage"))


def test_task_with_the_larger_loss_is_placed_first():
    tasks = {"easy": {"seconds": {"m0": 4, "m1": 5}}, "picky": {"seconds": {"m0": 4, "m1": 9}}}
    found = plan_of(tasks, platform({}, {}))
    assert found == {"picky": ("m0", 1, 0, 4), "easy": ("m1", 1, 0, 5)}
    assert planned(instance(tasks, platform({}, {})), "minmin").makespan_s == 8


def test_losses_are_recomputed_after_every_placement():
    # Once a is on m0, b loses 9 - 4 there instead of 4 - 3; c, which lost 2, comes last.
    tasks = {
        "a": {"seconds": {"m0": 3, "m1": 9, "m2": 9}},
        "b": {"seconds": {"m0": 3, "m1": 4, "m2": 9}},
        "c": {"seconds": {"m0": 9, "m1": 4, "m2": 6}},
    }
    found = plan_of(tasks, platform({}, {}, {}))
    assert found == {"a": ("m0", 1, 0, 3), "b": ("m1", 1, 0, 4), "c": ("m2", 1, 0, 6)}


def test_task_with_a_single_machine_is_placed_first():
    tasks = {"picky": {"seconds": {"m0": 1, "m1": 99}}, "only": {"seconds": {"m0": 50}}}
    assert plan_of(tasks, platform({}, {}))["only"][2] == 0


def test_another_node_count_on_the_best_machine_is_not_a_second_machine():
    where = platform({"nodes": 2, "memory": 4e9}, {"speed": 0.4, "memory": 4e9})
    tasks = {
        "u": {"work": 3.2, "memory": "3GB"},
        "t": {"nodes": [1, 2], "speedup": {"seconds": {1: 4, 2: 5}}, "memory": "3GB"},
    }
    # t loses 10 - 4 elsewhere, u 8 - 3.2.
    found = plan_of(tasks, where)
    assert found["t"] == ("m0", 1, 0, 4)
    assert found["u"][2:] == pytest.approx((4, 7.2))
