"""A stated rank decides at dispatch between the machines that are free, under every policy."""

from __future__ import annotations

import pytest

from planning_examples import instance, platform
from policy_runs import run_all
from weft.backends.simulation.scenario import CompetingLoad, RequirementChange, Scenario
from weft.expressions import parse
from weft.policies import POLICIES
from weft.workflow.settings import RunSettings

EVERY = sorted(POLICIES)
THREE = ({"speed": 4.0}, {"speed": 1.0, "memory": 8e9}, {"speed": 2.0, "memory": 2e9})


def ran(tasks, machines, policy, scenario=None, settings=None, **more):
    """Return the result of one simulated run."""
    made = instance(tasks, platform(*machines, **more))
    options = {} if scenario is None else {"scenario": scenario}
    return run_all({"w": made}, [(0, "w")], policy, settings=settings, **options)


def places(result):
    """Return the machine of every task."""
    return {name: line.machine for name, line in result.lines[0].items()}


@pytest.mark.parametrize("policy", EVERY)
def test_free_machine_with_the_highest_rank_is_used_under_every_policy(policy):
    result = ran({"a": {"work": 4, "rank": "memory"}}, THREE, policy)
    assert places(result) == {"a": 1}
    assert [each.reason for each in result.decisions] == ["highest rank of the free machines: 8e+09"]


@pytest.mark.parametrize("policy", EVERY)
def test_rank_decides_only_between_machines_that_are_free(policy):
    tasks = {"a": {"work": 4, "rank": "speed", "sweep": {"i": "1..3"}}}
    result = ran(tasks, THREE, policy)
    assert places(result) == {"a[1]": 0, "a[2]": 2, "a[3]": 1}
    assert all(line.start_s == 0.0 for line in result.lines[0].values())


@pytest.mark.parametrize("policy", EVERY)
def test_task_with_waiting_time_in_its_rank_waits_for_a_faster_machine(policy):
    tasks = {
        "first": {"work": 80, "requirements": "name == 'm0'"},
        "last": {"work": 200, "requirements": "name == 'm2'", "after": "first"},
        "gate": {"work": 1, "requirements": "name == 'm2'"},
        "a": {"work": 40, "after": "gate", "rank": "-(seconds + queue_s)"},
    }
    result = ran(tasks, ({"speed": 4.0}, {"speed": 1.0}, {"speed": 1.0}), policy)
    assert places(result) == {"first": 0, "last": 2, "gate": 2, "a": 0}
    assert result.lines[0]["a"].start_s == result.lines[0]["first"].finish_s == 20.0


@pytest.mark.parametrize("policy", ["fcfs", "plan", "rank"])
def test_rank_by_turnaround_counts_the_transfer_of_inputs(policy):
    tasks = {
        "make": {"work": 1, "requirements": "name == 'm1'", "outputs": {"data": "50MB"}},
        "use": {"work": 20, "inputs": ["data"], "rank": "-(seconds + transfer_s)"},
    }
    near = ran(tasks, ({"speed": 1.1}, {"speed": 1.0}), policy)
    assert places(near)["use"] == 1
    far = ran(tasks | {"use": tasks["use"] | {"rank": "-seconds"}}, ({"speed": 1.1}, {"speed": 1.0}), policy)
    assert places(far)["use"] == 0


def test_tasks_ranked_by_free_nodes_are_distributed_over_machines():
    tasks = {"a": {"work": 4, "rank": "free_nodes", "sweep": {"i": "1..4"}}}
    result = ran(tasks, ({"nodes": 3}, {"nodes": 3}), "plan")
    assert sorted(places(result).values()) == [0, 0, 1, 1]


def test_task_without_a_free_machine_uses_the_first_that_becomes_free():
    tasks = {
        "long": {"work": 40, "requirements": "name == 'm0'"},
        "short": {"work": 2, "requirements": "name == 'm1'"},
        "last": {"work": 200, "requirements": "name == 'm2'", "after": "short"},
        "gate": {"work": 1, "requirements": "name == 'm2'"},
        "a": {"work": 4, "after": "gate", "rank": "speed", "requirements": "name != 'm2'"},
    }
    result = ran(tasks, ({"speed": 4.0}, {"speed": 1.0}, {"speed": 1.0}), "plan")
    assert places(result)["a"] == 1
    assert result.lines[0]["a"].start_s == 2.0


def test_ranked_task_does_not_use_nodes_reserved_for_planned_tasks():
    tasks = {"c": {"work": 12}, "a": {"work": 4, "rank": "speed"}}
    result = ran(tasks, ({"speed": 4.0}, {"speed": 1.0}), "plan")
    assert places(result) == {"c": 0, "a": 1}


def test_rank_of_the_first_task_of_an_abstract_machine_decides_for_all_its_tasks():
    tasks = {
        "a": {"work": 4, "rank": "memory", "machine": "m"},
        "b": {"work": 4, "rank": "speed", "machine": "m", "after": "a"},
    }
    assert places(ran(tasks, THREE, "plan")) == {"a": 1, "b": 1}


def test_strict_plan_places_tasks_by_rank_and_is_followed_exactly():
    result = ran({"a": {"work": 4, "rank": "memory"}}, THREE, "plan:strict=true")
    assert places(result) == {"a": 1}
    assert [each.reason for each in result.decisions] == ["planned"]


def test_machine_for_which_the_rank_is_not_a_number_is_used_last():
    tasks = {"a": {"work": 4, "rank": "memory"}}
    assert places(ran(tasks, ({"speed": 9.0}, {"memory": 1e9}), "fcfs")) == {"a": 1}
    result = ran(tasks, ({"speed": 1.0}, {"speed": 2.0}), "fcfs")
    assert places(result) == {"a": 1}
    assert [each.reason for each in result.decisions] == ["no machine has a rank of the free machines"]


def test_attributes_and_sweep_variables_take_precedence_over_run_time_names_in_ranks():
    machines = ({"attributes": {"load": 1}}, {"attributes": {"load": 5}})
    assert places(ran({"a": {"work": 4, "rank": "load"}}, machines, "fcfs")) == {"a": 1}
    swept = {"a": {"work": 4, "sweep": {"seconds": [2]}, "rank": "seconds * speed"}}
    assert places(ran(swept, ({}, {"speed": 2.0}), "fcfs")) == {"a[2]": 1}


@pytest.mark.parametrize("policy", ["fcfs", "plan", "basic"])
def test_first_placement_uses_the_measured_load(policy):
    loads = (CompetingLoad(machines=("m0",), processes=2),)
    settings = RunSettings(fetch_every_s=10.0)
    tasks = {"a": {"work": 4, "rank": "free_cpu"}, "b": {"work": 4, "requirements": "load < 1"}}
    result = ran(tasks, ({"speed": 4.0}, {}, {}), policy, Scenario(loads=loads), settings)
    assert places(result) == {"a": 1, "b": 2}


def test_task_waits_until_its_requirement_on_the_load_is_met():
    loads = (CompetingLoad(machines=("m*",), processes=1, until_s=25.0),)
    tasks = {"a": {"work": 4, "requirements": "free_cpu >= 1"}, "b": {"work": 4}}
    result = ran(tasks, ({}, {}), "plan", Scenario(loads=loads), RunSettings(fetch_every_s=10.0))
    assert result.lines[0]["b"].start_s < 1.0
    assert result.lines[0]["a"].start_s == 30.0


def test_rank_written_by_a_program_selects_the_machine_of_its_next_attempt():
    change = RequirementChange(task="a", after=0.5, rank=parse("memory"))
    failing = Scenario(requirements=(change,), exit_codes={"a": (1, 0)})
    settings = RunSettings(retries={"error": 1})
    tasks = {"a": {"work": 4, "rank": "speed"}}
    result = ran(tasks, (*THREE, {"memory": 1e9}), "plan", failing, settings)
    assert [each.machine for each in result.decisions] == [0, 1]
