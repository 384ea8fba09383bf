"""OLB: tasks as they arrive, each where it starts first, however long it takes."""

from __future__ import annotations

from planning_examples import instance, lines, planned, platform


def test_a_slow_machine_that_is_free_is_taken():
    where = platform({}, {"speed": 10.0})
    found = lines(planned(instance({name: {"work": 10} for name in "abc"}, where), "olb"))
    assert found == {"a": ("m1", 1, 0, 1), "b": ("m0", 1, 0, 10), "c": ("m1", 1, 1, 2)}


def test_a_machine_is_free_for_a_task_when_its_data_are_there():
    tasks = {"a": {"work": 2, "outputs": {"x": {"seconds": 6}}}, "b": {"work": 1, "inputs": ["x"]}}
    assert lines(planned(instance(tasks, "identical:2"), "olb"))["b"] == ("m1", 1, 2, 3)
