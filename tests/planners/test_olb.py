"""OLB: tasks by index, each where it starts first, however long it takes."""

from __future__ import annotations

from planning_examples import instance, lines, planned, platform


def test_a_slow_machine_that_is_free_is_taken():
    where = platform({}, {"speed": 10.0})
    found = lines(planned(instance({name: {"work": 10} for name in "abc"}, where), "olb"))
    assert found == {"a": ("m1", 1, 0, 1), "b": ("m0", 1, 0, 10), "c": ("m1", 1, 1, 2)}


def test_a_machine_counts_as_free_when_the_data_have_arrived():
    tasks = {"a": {"work": 2, "outputs": {"x": {"seconds": 6}}}, "b": {"work": 1, "inputs": ["x"]}}
    assert lines(planned(instance(tasks, "identical:2"), "olb"))["b"] == ("m1", 1, 2, 3)
