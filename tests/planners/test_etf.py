"""ETF places the task with the earliest start; ties are broken by level."""

from __future__ import annotations

from planning_examples import instance, lines, planned, platform


def plan_of(tasks, where):
    return lines(planned(instance(tasks, where), "etf"))


def test_earliest_start_has_priority_over_earliest_finish():
    found = plan_of({"a": {"work": 10}, "b": {"work": 10}}, platform({}, {"speed": 10.0}))
    assert found == {"a": ("m1", 1, 0, 1), "b": ("m0", 1, 0, 10)}


def test_ties_are_broken_by_higher_level_then_lower_index():
    tasks = {"x": {"work": 1}, "head": {"work": 1}, "tail": {"work": 3, "after": "head"}, "y": {"work": 1}}
    found = plan_of(tasks, "identical:1")
    assert [found[name][2] for name in ("head", "tail", "x", "y")] == [0, 1, 4, 5]


def test_start_times_include_transfers():
    tasks = {
        "a": {"work": 2, "outputs": {"y": {"seconds": 6}}},
        "x": {"work": 3, "after": "a"},
        "b": {"work": 1, "inputs": ["y"]},
    }
    assert plan_of(tasks, "identical:2")["b"] == ("m1", 1, 5, 6)
