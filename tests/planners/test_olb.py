"""OLB places tasks by index, each where it starts first, regardless of its duration."""

from __future__ import annotations

from planning_examples import instance, lines, planned, platform


def test_slow_machine_is_used_when_it_is_free_first():
    where = platform({}, {"speed": 10.0})
    found = lines(planned(instance({name: {"work": 10} for name in "abc"}, where), "olb"))
    assert found == {"a": ("m1", 1, 0, 1), "b": ("m0", 1, 0, 10), "c": ("m1", 1, 1, 2)}


def test_olb_considers_that_a_task_cannot_start_before_its_data_arrive():
    tasks = {"a": {"work": 2, "outputs": {"x": {"seconds": 6}}}, "b": {"work": 1, "inputs": ["x"]}}
    assert lines(planned(instance(tasks, "identical:2"), "olb"))["b"] == ("m1", 1, 2, 3)
