"""Shared plans: priorities, busy planned machines, and unplanned tasks."""

from __future__ import annotations

import pytest

from planning_examples import instance, lines, planned, platform
from policy_runs import run_all
from weft.backends.simulation.scenario import Failure, Scenario

ONE = platform({"speed": 1.0})
LONG = {"a": {"sweep": {"k": "1..5"}, "work": 10}}
SHORT = {"b": {"work": 1}}


def both(where, *flows, policy, **options):
    """Run workflows that arrive one second apart."""
    made = {f"w{number}": instance(tasks, where) for number, tasks in enumerate(flows)}
    return run_all(made, [(float(number), key) for number, key in enumerate(made)], policy, **options)


def test_a_single_workflow_follows_its_plan():
    tasks = {
        "s": {"work": 2, "outputs": {"p": "1MB"}},
        "m": {"sweep": {"k": "1..5"}, "work": "2*k", "inputs": ["p"]},
    }
    made = instance(tasks, platform({"speed": 1.0}, {"speed": 4.0}))
    found = run_all({"w": made}, [(0.0, "w")], "shared-plans").lines[0]
    expected = lines(planned(made))
    assert {name: line.machine for name, line in found.items()} == {
        name: int(machine[1:]) for name, (machine, *_) in expected.items()
    }
    assert max(line.finish_s for line in found.values()) == pytest.approx(planned(made).makespan_s)


@pytest.mark.parametrize(
    ("policy", "ends"),
    [
        # The short one is delayed most as soon as it waits; the running task is not taken off.
        ("shared-plans:inter=foft", [51.0, 11.0]),
        ("shared-plans:inter=fcfs", [50.0, 51.0]),
        ("shared-plans:inter=g-heft:rounds=tasks", [50.0, 51.0]),
        ("shared-plans:inter=srpt", [51.0, 11.0]),
    ],
)
def test_tasks_of_workflows_with_higher_priority_start_first(policy, ends):
    found = both(ONE, LONG, SHORT, policy=policy)
    assert [found.ended_s(run) for run in (0, 1)] == ends


@pytest.mark.parametrize(
    ("speed", "machine", "end_s"),
    # Both are planned on the second machine. Waiting for it costs 2 x 12/speed, the first machine 12 s.
    [(4.0, 1, 6.0), (1.5, 0, 12.0)],
)
def test_task_moves_from_a_busy_planned_machine_if_it_finishes_earlier_elsewhere(speed, machine, end_s):
    where = platform({"speed": 1.0}, {"speed": speed})
    made = {key: instance({"a": {"work": 12}}, where) for key in ("v", "w")}
    found = run_all(made, [(0.0, "v"), (0.0, "w")], "shared-plans")
    assert found.lines[0]["a"].machine == 1
    assert found.lines[1]["a"].machine == machine
    assert found.ended_s(1) == pytest.approx(end_s)


def test_a_task_does_not_wait_for_a_planned_machine_that_is_down():
    scenario = Scenario(failures=(Failure(machines=("m1",), at_s=0.5, repair_s=1000.0),))
    where = platform({"speed": 1.0}, {"speed": 4.0})
    found = both(where, {"a": {"work": 4}}, policy="shared-plans", scenario=scenario)
    assert found.end_s == pytest.approx(4.5)


def test_tasks_of_a_workflow_are_ordered_by_planned_start():
    # By index the short task comes first, by plan the one with the long way behind it.
    tasks = {"a": {"work": 1}, "b": {"work": 2, "outputs": {"x": "0B"}}, "c": {"work": 9, "inputs": ["x"]}}
    found = both(ONE, tasks, policy="shared-plans")
    assert [name for _, name in found.order] == ["b", "c", "a"]
