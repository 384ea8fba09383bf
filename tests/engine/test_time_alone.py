"""The time alone of a run: what it really had to do, on the empty platform."""

from __future__ import annotations

from dataclasses import replace

import pytest

import weft
from planning_examples import workflow
from weft.api.request import compile_request
from weft.backends.simulation.scenario import UNDISTURBED, Arrival, Scenario
from weft.schedule.bounds import bound_arrivals, lower_bounds

CHAIN = {
    "first": {"work": 2},
    "second": {"work": 3, "after": "first"},
    "last": {"work": 1, "after": "second"},
    "end": {"work": 4, "after": "last"},
}
LOOP = {"again": {"first": "first", "last": "last", "until": "last.exit_code == 0", "max_iterations": 9}}


def simulated(flow, on="identical:2", scenario=UNDISTURBED, **options):
    return weft.simulate(flow, on=on, scenario=scenario, **options).first


def slowdown(found):
    (run,) = found.history.runs
    return run.slowdown


@pytest.mark.parametrize("iterations", [1, 4])
def test_run_of_an_undisturbed_loop_has_slowdown_1(iterations):
    found = simulated(workflow(CHAIN, LOOP), scenario=Scenario(iterations={"again": iterations}))
    assert found.end_s == pytest.approx(6 * iterations + 4)
    assert slowdown(found) == pytest.approx(1.0)
    assert found.lower_bound_s == pytest.approx(found.end_s)


def test_time_alone_of_nested_loops_counts_every_iteration():
    tasks = {
        "start": {"work": 1},
        "inner": {"work": 2, "after": "start"},
        "check": {"work": 1, "after": "inner"},
        "outer": {"work": 3, "after": "check"},
    }
    loops = {
        "small": {"first": "inner", "last": "check", "until": "check.exit_code == 0", "max_iterations": 5},
        "large": {"first": "start", "last": "outer", "until": "outer.exit_code == 0", "max_iterations": 5},
    }
    found = simulated(workflow(tasks, loops), scenario=Scenario(iterations={"small": 3, "large": 2}))
    assert found.end_s == pytest.approx(2 * (1 + 3 * 3 + 3))
    assert slowdown(found) == pytest.approx(1.0)


def test_time_alone_of_a_loop_and_a_parallel_task_is_the_longer_of_their_times():
    """A task of 20 s runs beside a loop of 4 times 6 s: alone the run takes 24 s, not 20 + 3 * 6 s."""
    tasks = {name: keys for name, keys in CHAIN.items() if name != "end"} | {"beside": {"work": 20}}
    found = simulated(workflow(tasks, LOOP), scenario=Scenario(iterations={"again": 4}))
    (run,) = found.history.runs
    assert run.alone_s == pytest.approx(24.0)
    assert slowdown(found) == pytest.approx(1.0)


def test_skipped_tasks_do_not_count_in_the_time_alone():
    tasks = {
        "try": {"work": 2, "outcomes": [0, 1]},
        "usual": {"work": 5, "after": {"task": "try", "if": "exit_code == 0"}},
        "rare": {"work": 50, "after": {"task": "try", "if": "exit_code == 1"}},
    }
    found = simulated(workflow(tasks))
    assert found.end_s == pytest.approx(7.0)
    assert slowdown(found) == pytest.approx(1.0)


def test_time_alone_of_a_growing_sweep_counts_all_its_points():
    tasks = {
        "split": {"work": 1, "outputs": ["parts"]},
        "use": {"sweep": {"part": "=lines(parts)"}, "work": 3, "command": "true {part}"},
    }
    found = simulated(workflow(tasks), on="identical:1", scenario=Scenario(lines={"parts": 5}))
    (run,) = found.history.runs
    assert run.alone_s == pytest.approx(1 + 5 * 3)
    assert slowdown(found) == pytest.approx(1.0)


def test_time_spent_waiting_for_another_run_increases_the_slowdown():
    flows = [workflow(CHAIN, LOOP), replace(workflow(CHAIN, LOOP), name="other")]
    found = weft.simulate(
        flows, on="identical:1", policy="fcfs", scenario=Scenario(iterations={"again": 2})
    ).first
    first, second = (run.slowdown for run in found.history.runs)
    assert first == pytest.approx(1.0)
    assert second == pytest.approx(2.0)
    assert found.lower_bound_s == pytest.approx(found.end_s) == pytest.approx(32.0)


def test_time_alone_counts_expected_iterations_before_the_run():
    """Policies compare the age of a run with its time alone before its iterations are known."""
    loops = {"again": {**LOOP["again"], "expect": 5}}
    request = compile_request({"w": workflow(CHAIN, loops)}, weft.load_platform("identical:1"))
    assert request.library["w"].alone_s == pytest.approx(5 * 6 + 4)


def instance_of(tasks, on):
    request = compile_request({"w": workflow(tasks)}, weft.load_platform(on))
    return request.instance


def test_lower_bound_of_several_workflows_considers_all_their_work_and_arrivals():
    wide = instance_of({"a": {"sweep": {"k": "1..4"}, "work": 10}}, "identical:2")
    assert lower_bounds(wide).best_s == 20
    assert bound_arrivals([(wide, 0.0)]) == 20
    assert bound_arrivals([(wide, 0.0), (wide, 0.0), (wide, 0.0)]) == pytest.approx(60.0)
    late = bound_arrivals([(wide, 0.0), (wide, 100.0), (wide, 110.0)])
    assert late == pytest.approx(140.0), "20 s each from 100 s on, not 60 s in all"


def test_bound_of_two_chains_on_one_machine_is_the_first_arrival_plus_all_work():
    chain = instance_of({"a": {"work": 10}, "b": {"work": 7, "after": "a"}}, "identical:1")
    assert bound_arrivals([(chain, 3.0), (chain, 4.0)]) == pytest.approx(3.0 + 34.0)


def test_lower_bound_is_not_above_the_result_of_any_policy_on_different_machines(tmp_path):
    grid = tmp_path / "grid.yaml"
    grid.write_text("weft: 1\nmachines: {a: {speed: 2}, b: {nodes: 3}, c: {speed: 0.5, nodes: 2}}\n")
    flows = [
        replace(workflow({**CHAIN, "wide": {"sweep": {"k": "1..7"}, "work": "k"}}), name=f"w{i}")
        for i in range(3)
    ]
    for policy in ("foft", "fcfs", "srpt", "plan", "basic"):
        found = weft.simulate(flows, on=grid, policy=policy).first
        alone = max(lower_bounds(each).best_s for each in found.instances.values())
        assert alone < found.lower_bound_s <= found.end_s * (1 + 1e-9)


def test_arrivals_are_part_of_the_bound_of_a_simulation(tmp_path):
    flow = tmp_path / "w.yaml"
    flow.write_text("weft: 1\ntasks: {a: {work: 10}}\n")
    scenario = Scenario(arrivals=(Arrival(workflow=str(flow)), Arrival(workflow=str(flow), at_s=50.0)))
    found = weft.simulate(on="identical:1", scenario=scenario).first
    assert found.lower_bound_s == found.end_s == 60.0


PINNED = {
    "ck": {"work": 40},
    "nock": {"work": 40},
    "pin": {"work": 30, "requirements": 'name == "m1"'},
}
"""HEFT puts a task of 40 s on m1 first and gets 70 s; alone on three machines the run takes 40 s."""


def test_time_alone_is_at_most_the_promise_of_the_first_plan():
    flow = workflow(PINNED)
    found = simulated(flow, on="identical:3", planner="auto", plan_steps=200)
    (run,) = found.history.runs
    assert found.end_s == run.alone_s == pytest.approx(40.0)
    assert slowdown(found) == pytest.approx(1.0)


def test_time_alone_is_that_of_heft_for_runs_that_share_the_machines():
    flow = workflow(PINNED)
    found = weft.simulate([flow, flow], on="identical:3", planner="auto", plan_steps=200).first
    assert [run.alone_s for run in found.history.runs] == pytest.approx([70.0, 70.0])


def test_time_alone_of_a_loop_with_more_iterations_than_planned_exceeds_the_promise():
    loop = {"again": {**LOOP["again"], "expect": 2}}
    found = simulated(workflow(CHAIN, loop), scenario=Scenario(iterations={"again": 4}))
    assert slowdown(found) == pytest.approx(1.0)
