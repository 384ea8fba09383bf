"""Round robin: binding variables in turn over the machines that can run them."""

from __future__ import annotations

from planning_examples import instance, lines, planned, platform


def machines_of(tasks, where, **options):
    return {
        name: line[0]
        for name, line in lines(planned(instance(tasks, where, **options), "round-robin")).items()
    }


def test_round_robin_binds_tasks_to_the_machines_in_turn():
    found = machines_of({f"t{index}": {"work": 1} for index in range(7)}, platform({}, {}, {}))
    assert list(found.values()) == ["m0", "m1", "m2", "m0", "m1", "m2", "m0"]


def test_machine_that_cannot_run_a_task_is_skipped():
    tasks = {
        "a": {"work": 1},
        "b": {"work": 1, "requirements": 'name != "m1"'},
        "c": {"work": 1, "requirements": 'name == "m1"'},
        "d": {"work": 1},
    }
    found = machines_of(tasks, platform({}, {}, {}))
    assert found == {"a": "m0", "b": "m2", "c": "m1", "d": "m2"}


def test_unpinned_abstract_machine_takes_one_turn_and_pinned_abstract_machine_takes_no_turn():
    tasks = {
        "a": {"work": 1, "machine": "A"},
        "b": {"work": 1, "machine": "B"},
        "c": {"work": 1, "machine": "A"},
    }
    tasks |= {"d": {"work": 1}, "end": {"kind": "virtual", "after": ["a", "d"]}, "e": {"work": 1}}
    found = machines_of(tasks, platform({}, {}, {}), pinned={"B": "m2"})
    assert [found[name] for name in "abcde"] == ["m0", "m2", "m0", "m1", "m2"]
