"""Policies on small workflows: following a plan, lazy binding, ranking, transfers, rounds."""

from __future__ import annotations

import pytest

from planning_examples import instance, lines, planned, platform
from policy_runs import run_all
from weft.backends.simulation.scenario import Failure, Scenario
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.engine.engine import Engine
from weft.engine.state.compiled import WorkflowLibrary
from weft.platform.platform import Link
from weft.policies.policy import make_policy
from weft.workflow.settings import RunSettings

CHAIN = {
    "a": {"work": 4, "outputs": {"x": "6MB"}},
    "b": {"work": 4, "inputs": ["x"], "outputs": {"y": "6MB"}},
    "c": {"work": 4, "inputs": ["y"]},
}
UNLIKE = platform({"speed": 1.0}, {"speed": 4.0}, link=Link(bandwidth_Bps=1e6))


def ran(tasks, where, policy, **options):
    made = instance(tasks, where)
    return run_all({"w": made}, [(0.0, "w")], policy, **options)


def test_plan_policy_follows_the_plan_exactly():
    tasks = {
        "s": {"work": 2, "outputs": {"p": "1MB"}},
        "m": {"sweep": {"k": "1..5"}, "work": "2*k", "inputs": ["p"], "outputs": {"r.{k}": "1MB"}},
        "j": {"work": 3, "inputs": ["r.1", "r.5"], "after": "m"},
    }
    made = instance(tasks, UNLIKE)
    found = run_all({"w": made}, [(0.0, "w")], "plan").lines[0]
    expected = lines(planned(made))
    assert {name: (line.machine, line.start_s) for name, line in found.items()} == {
        name: (int(machine[1:]), pytest.approx(start)) for name, (machine, _, start, _) in expected.items()
    }


@pytest.mark.parametrize(("policy", "machine"), [("plan", 0), ("plan:strict=true", 1)])
def test_strict_plan_policy_waits_for_a_machine_that_is_down(policy, machine):
    scenario = Scenario(failures=(Failure(machines=("m1",), at_s=0.5, repair_s=1000.0),))
    found = ran({"a": {"work": 4}}, UNLIKE, policy, scenario=scenario)
    assert found.lines[0]["a"].machine == machine
    assert found.end_s == pytest.approx(4.5 if machine == 0 else 1001.5)


def test_lazy_policy_keeps_all_tasks_on_the_first_machine():
    assert [line.machine for line in ran(CHAIN, UNLIKE, "lazy").lines[0].values()] == [1, 1, 1]
    wide = {
        "s": {"work": 1, "outputs": {"p": "9MB"}},
        "m": {"sweep": {"k": "1..8"}, "work": 40, "inputs": ["p"]},
    }
    by_transfer, by_finish = (ran(wide, UNLIKE, f"lazy:by={by}") for by in ("transfer", "finish"))
    assert {line.machine for line in by_transfer.lines[0].values()} == {1}
    assert {line.machine for line in by_finish.lines[0].values()} == {0, 1}
    assert by_finish.end_s < by_transfer.end_s


def test_job_is_placed_on_the_machine_of_highest_rank():
    where = platform(
        {"speed": 4.0, "memory": 1e9}, {"speed": 1.0, "memory": 8e9}, {"speed": 2.0, "memory": 2e9}
    )
    jobs = {
        "a": {"work": 4, "rank": "memory"},
        "b": {"work": 4, "requirements": "speed < 3"},
        "c": {"work": 4},
    }
    found = ran(jobs, where, "rank").lines[0]
    assert {name: line.machine for name, line in found.items()} == {"a": 1, "b": 2, "c": 0}
    assert ran(jobs, where, "fcfs").lines[0]["a"].machine == 1


def test_rank_by_machine_name_chooses_among_machines_that_are_otherwise_equal():
    where = platform({}, {}, {}, {})
    jobs = {"a": {"work": 4, "rank": "name == 'm2'"}, "b": {"work": 4, "rank": "3 if name == 'm3' else 1"}}
    found = ran(jobs, where, "rank").lines[0]
    assert {name: line.machine for name, line in found.items()} == {"a": 2, "b": 3}


def test_machine_with_the_data_is_preferred_among_equal_machines():
    where = platform({}, {}, {}, link=Link(bandwidth_Bps=1e6))
    needs = {"inputs": [{"file": "r", "from": "r.pdb", "size": "8MB", "shared": True}]}
    jobs = {
        "a": {"work": 5, "requirements": "name == 'm2'", **needs},
        "wait": {"work": 20, "requirements": "name == 'm0'"},
        "b": {"work": 5, "after": "wait", **needs},
    }
    found = ran(jobs, where, "fcfs").lines[0]
    assert (found["a"].machine, found["b"].machine) == (2, 2)


@pytest.mark.parametrize("policy", ["fcfs", "rank", "g-heft", "m-s", "shared-plans"])
def test_task_that_fits_is_not_blocked_by_a_task_that_does_not(policy):
    where = platform({"nodes": 2, "memory": 8e9})
    jobs = {"a": {"sweep": {"k": "1..3"}, "work": 10, "memory": "(6 if k < 3 else 2) * GB"}}
    found = ran(jobs, where, policy).lines[0]
    assert {name: line.start_s for name, line in found.items()} == {"a[1]": 0.0, "a[2]": 10.0, "a[3]": 0.0}


def test_job_without_a_feasible_machine_does_not_block_other_jobs():
    where = platform({"speed": 1.0}, {"speed": 1.0, "memory": 8e9})
    jobs = {"a": {"sweep": {"k": "1..3"}, "work": 5, "requirements": "memory > 1e9"}, "b": {"work": 5}}
    for policy in ("rank", "fcfs", "g-heft", "m-s"):
        found = ran(jobs, where, policy).lines[0]
        assert found["b"].start_s == 0.0
        assert sorted(found[f"a[{k}]"].start_s for k in (1, 2, 3)) == [0.0, 5.0, 10.0]


def test_readers_of_transferred_files_are_distributed_over_the_machines():
    where = platform(*({} for _ in range(4)), link=Link(bandwidth_Bps=1e6))
    tasks = {"s": {"work": 1, "machine": "S", "outputs": {f"x{k}": "1MB" for k in range(4)}}}
    for k in range(4):
        tasks[f"move{k}"] = {"kind": "transfer", "from_": "S", "to": f"T{k}", "file": f"x{k}", "size": "1MB"}
        tasks[f"t{k}"] = {"work": 20, "machine": f"T{k}", "inputs": [f"x{k}"]}
    eager, lazy = ran(tasks, where, "fcfs"), ran(tasks, where, "lazy")
    assert sorted(eager.lines[0][f"t{k}"].machine for k in range(4)) == [0, 1, 2, 3]
    assert {lazy.lines[0][f"t{k}"].machine for k in range(4)} == {eager.lines[0]["s"].machine}
    assert (eager.end_s, lazy.end_s) == (pytest.approx(22.0), pytest.approx(81.0))


def test_rounds_place_one_task_of_each_workflow():
    where = platform({"nodes": 4})
    everything = {
        "all": instance({"t": {"work": 5, "nodes": 4}}, where),
        "w": instance({"t": {"sweep": {"k": "1..4"}, "work": 10}}, where),
    }
    arrivals = [(0.0, "all"), (1.0, "w"), (1.0, "w"), (2.0, "w")]
    for policy, runs in (("fcfs", [1, 2, 3, 1]), ("layered:rounds=tasks", [1, 1, 1, 1])):
        order = run_all(everything, arrivals, policy).order
        assert [run for run, _ in order[1:5]] == runs


def test_fastest_node_count_that_fits_into_the_free_nodes_is_used():
    tasks = {
        "first": {"work": 8, "nodes": 5},
        "wide": {"work": 8, "nodes": [1, 2, 3, 8], "speedup": {"amdahl": 0.0}},
    }
    found = ran(tasks, platform({"nodes": 8}), "fcfs:intra=index").lines[0]
    assert (found["wide"].start_s, found["wide"].nodes) == (0.0, 3)


@pytest.mark.parametrize("name", ["fcfs", "g-heft", "foft", "rank", "pm-s"])
def test_policy_evaluates_only_the_first_of_many_ready_tasks_of_equal_kind(name):
    made = instance({"t": {"sweep": {"k": "1..500"}, "work": "1 + k % 3"}}, "identical:2")
    engine = Engine(WorkflowLibrary({"w": made}), made, make_policy(name), RunSettings())
    requested, modes = [], engine._view.modes

    def counting(run, task, **options):
        requested.append(task)
        return modes(run, task, **options)

    engine._view.modes = counting
    commands = engine.handle(ev.Submitted(run=0, workflow="w"), 0.0)
    assert len([command for command in commands if isinstance(command, cm.Start)]) == 2
    assert len(requested) == 2
