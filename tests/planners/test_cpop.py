"""CPOP beyond the paper: paths that no single machine can run, pins, abstract machines, several entries."""

from __future__ import annotations

from planning_examples import instance, lines, planned, platform
from weft.planners.cpop import critical_tasks
from weft.planners.ranks import upward_ranks

CHAIN = {
    "a": {"seconds": {"m0": 4, "m1": 3}},
    "b": {"seconds": {"m0": 2, "m1": 6}, "after": "a"},
    "c": {"seconds": {"m0": 2, "m1": 3}, "after": "b"},
}
TWO = platform({}, {})


def machines_of(made):
    return {task: machine for task, (machine, *_) in lines(planned(made, "cpop")).items()}


def test_critical_path_is_placed_on_the_machine_of_least_total_time():
    tasks = CHAIN | {"side": {"seconds": {"m0": 2, "m1": 1}, "after": "a"}}
    assert machines_of(instance(tasks, TWO)) == {"a": "m0", "b": "m0", "c": "m0", "side": "m1"}
    assert machines_of(instance(CHAIN, TWO)) == dict.fromkeys("abc", "m0")


def test_critical_path_is_placed_on_the_machine_that_can_run_most_of_its_tasks():
    tasks = CHAIN | {"b": {"seconds": {"m1": 6}, "after": "a"}, "c": {"seconds": {"m1": 9}, "after": "b"}}
    assert machines_of(instance(tasks, TWO)) == dict.fromkeys("abc", "m1")
    tasks["a"] = {"seconds": {"m0": 4}}
    assert machines_of(instance(tasks, TWO)) == {"a": "m0", "b": "m1", "c": "m1"}


def test_critical_path_is_placed_on_the_machine_of_a_pinned_task():
    tasks = {name: keys | {"machine": name.upper()} for name, keys in CHAIN.items()}
    assert machines_of(instance(tasks, TWO)) == dict.fromkeys("abc", "m0")
    assert machines_of(instance(tasks, TWO, pinned={"A": "m1"})) == dict.fromkeys("abc", "m1")
    apart = {"A": "m1", "B": "m0"}
    assert machines_of(instance(tasks, TWO, pinned=apart)) == {"a": "m1", "b": "m0", "c": "m0"}


def test_tasks_of_an_abstract_machine_are_placed_with_the_critical_task():
    tasks = CHAIN | {
        "b": CHAIN["b"] | {"machine": "B"},
        "more": {"seconds": {"m0": 9, "m1": 1}, "machine": "B"},
    }
    assert machines_of(instance(tasks, TWO))["more"] == "m0"


def test_critical_path_begins_at_the_entry_of_the_longest_path():
    tasks = {
        "short": {"work": 1},
        "long": {"work": 2},
        "via": {"work": 3, "after": "short"},
        "other": {"work": 3, "after": "long"},
        "end": {"work": 1, "after": ["via", "other"]},
    }
    made = instance(tasks, TWO)
    path = [made.graph.names[task] for task in critical_tasks(made, upward_ranks(made))]
    assert path == ["long", "other", "end"]


def test_ties_along_the_critical_path_are_broken_by_the_lower_index():
    tasks = {"a": {"work": 1}, "b": {"work": 2, "after": "a"}, "c": {"work": 2, "after": "a"}}
    made = instance(tasks, TWO)
    assert critical_tasks(made, upward_ranks(made)) == [0, 1]
