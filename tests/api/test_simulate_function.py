"""``weft.simulate``: arrivals, outcomes, rejected input and repetitions."""

from __future__ import annotations

import json

import pytest

import weft
from planning_examples import platform, workflow
from weft.api.journal import explain_task, replay_journal
from weft.api.simulation import (
    MOST_ITERATIONS,
    render_simulation,
    simulation_facts,
    simulation_notes,
    simulation_title,
    spread_facts,
)
from weft.backends.simulation.scenario import Durations, Failure, Scenario
from weft.errors import Infeasible, InvalidInput


def sweep(name="sweep", points=4, work=10, **keys):
    flow = weft.Builder(name)
    flow.task("work", sweep={"k": f"1..{points}"}, work=work, **keys)
    return flow.build()


def test_simulation_without_disturbances_ends_as_planned():
    planned = weft.plan(sweep(), on="identical:3", planner="heft")
    simulated = weft.simulate(sweep(), on="identical:3", planner="heft")
    assert simulated.outcome == "completed"
    assert simulated.end_s == planned.makespan_s == 20
    assert simulated.first.lower_bound_s <= 20
    assert simulated.first.utilisation == pytest.approx(40 / 60)


def test_workflows_arrive_together_and_equal_names_are_numbered():
    simulated = weft.simulate([sweep(points=1), sweep(points=1)], on="identical:1", policy="fcfs")
    runs = simulated.first.history.runs
    assert [run.workflow for run in runs] == ["sweep", "sweep (2)"]
    assert [run.slowdown for run in runs] == [1, 2]


def test_scenario_adds_arriving_workflows(tmp_path):
    weft.save_workflow(sweep("late", points=1), tmp_path / "late.yaml")
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text("weft: 1\narrivals: [{workflow: late.yaml, at: 3s, owner: ann}]\n")
    simulated = weft.simulate(sweep(points=1), on="identical:1", policy="fcfs", scenario=scenario)
    _, second = simulated.first.history.runs
    assert (second.workflow, second.owner, second.arrival_s, second.ended_s) == ("late.yaml", "ann", 3, 20)
    assert weft.simulate(on="identical:1", policy="fcfs", scenario=scenario).end_s == 13


def test_repetitions_use_consecutive_seeds():
    scenario = Scenario(durations=Durations(noise=0.5))
    simulated = weft.simulate(sweep(), on="identical:2", scenario=scenario, repeat=5, seed=3)
    assert [run.seed for run in simulated.runs] == [3, 4, 5, 6, 7]
    alone = weft.simulate(sweep(), on="identical:2", scenario=scenario, seed=5)
    assert simulated.runs[2].end_s == alone.end_s
    ends = sorted(run.end_s for run in simulated.runs)
    spread = simulated.spread("end_s")
    assert (spread.least, spread.median, spread.most) == (ends[0], ends[2], ends[4])
    assert simulated.end_s == ends[2]
    assert ("outcomes", "5 completed") in spread_facts(simulated)


def test_simulation_record_is_plain_data():
    scenario = Scenario(failures=(Failure(machines=("m1",), at_s=4, repair_s=1),))
    simulated = weft.simulate(sweep(), on="identical:2", policy="fcfs", scenario=scenario)
    record = json.loads(json.dumps(simulated.as_record()))
    (run,) = record["simulations"]
    assert record["outcome"] == "completed"
    assert run["failure_causes"] == {"lost": 1}
    assert run["migration_reasons"].keys() <= {"failure"}
    assert sum(attempt["useful_share"] for attempt in run["attempts"]) == pytest.approx(4)
    assert {attempt["machine"] for attempt in run["attempts"]} == {"m1", "m2"}
    assert run["machines"][0]["replicated_node_s"] == 4


def test_simulation_without_progress_ends_and_states_the_reason():
    scenario = Scenario(failures=(Failure(machines=("m1",), at_s=4),))
    # Under s3 the loss is found by probes, which are its reason.
    reasons = {"default": "is down", "s3": "is lost: neither job manager nor gatekeeper answers"}
    for preset, reason in reasons.items():
        simulated = weft.simulate(sweep(), on="identical:1", policy="fcfs", scenario=scenario, preset=preset)
        assert simulated.outcome == "stuck"
        assert f"(ready) wait for a machine: m1: {reason}" in simulated.first.stuck[0]
        assert any(note.startswith("standstill: ") for note in simulation_notes(simulated.first))
        assert ("outcome", "stuck") in simulation_facts(simulated.first)
        # Later timers do not count: the failure is detected within a few probes.
        assert simulated.end_s <= 34


def test_a_run_waits_for_a_machine_that_is_repaired():
    scenario = Scenario(failures=(Failure(machines=("m1",), at_s=4, repair_s=30_000),))
    simulated = weft.simulate(
        sweep(points=1), on="identical:1", policy="fcfs", scenario=scenario, preset="s3"
    )
    assert simulated.outcome == "completed"
    assert simulated.end_s >= 30_014


def test_standstill_is_detected_under_endless_disturbances():
    scenario = Scenario(
        failures=(Failure(machines=("m1",), at_s=4), Failure(machines=("m2",), mtbf_s=100, repair_s=10)),
    )
    flow = weft.Builder("pinned")
    flow.task("only-there", work=10, requirements='name == "m1"')
    simulated = weft.simulate(flow.build(), on="identical:2", policy="fcfs", scenario=scenario)
    assert simulated.outcome == "stuck"


def test_simulation_of_a_loop_that_never_converges_ends_and_states_the_reason():
    flow = weft.Builder("endless")
    flow.task("step", work=1)
    flow.loop("l", last="step", first="step", until="step.result.delta < 1")
    simulated = weft.simulate(flow.build(), on="identical:1", policy="fcfs")
    assert simulated.outcome == "stuck"
    assert f"loop l has run {MOST_ITERATIONS} times" in simulated.first.stuck[0]


def test_loop_that_reaches_its_iteration_limit_fails():
    flow = weft.Builder("limited")
    flow.task("step", work=1)
    flow.loop("l", last="step", first="step", until="step.exit_code == 0", max_iterations=3)
    simulated = weft.simulate(
        flow.build(), on="identical:1", policy="fcfs", scenario=Scenario(iterations={"l": 9})
    )
    assert simulated.outcome == "failed"
    assert "has not converged after 3 iterations" in simulated.first.history.runs[0].reason


def test_history_identifies_tasks_by_name_when_the_graph_grows(tmp_path):
    """Tasks are identified by name, because their numbers change when the graph grows."""
    flow = weft.Builder("grow")
    flow.task("split", outputs=["parts"], work=5)
    flow.task("piece", sweep={"chunk": "lines(parts)"}, after="split", work=10)
    flow.task("join", after="piece", work=2)
    scenario = Scenario(lines={"parts": 3}, failures=(Failure(machines=("m1",), at_s=8, repair_s=2),))
    file = tmp_path / "run.jsonl"
    simulated = weft.simulate(flow.build(), on="identical:2", policy="fcfs", scenario=scenario, journal=file)
    (run,) = simulated.first.history.runs
    assert (run.outcome, run.tasks) == ("completed", 5)
    completed = [
        each.task for each in simulated.first.history.attempts.values() if each.ending == "completed"
    ]
    assert sorted(completed) == ["join", "piece[1]", "piece[2]", "piece[3]", "split"]
    assert replay_journal(file).replayed.same
    assert explain_task(file, "piece[3]").state == "completed"
    assert explain_task(file, "join", at_s=3).waits_for == ("piece[*], which is waiting",)
    with pytest.raises(InvalidInput, match="has no task 'piece\\[3\\]'"):
        explain_task(file, "piece[3]", at_s=3)


def test_a_task_without_a_machine_is_infeasible():
    with pytest.raises(Infeasible, match="wide: no machine can run work"):
        weft.simulate(sweep("wide", points=1, nodes=9), on="identical:3")


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"repeat": 0}, "repeat 0"),
        ({"seed": -1}, "seed -1"),
        ({"policy": "fcsf"}, "did you mean 'fcfs'"),
        ({"planner": "hefd"}, "did you mean 'heft'"),
        ({"preset": "s2"}, "unknown preset 's2'"),
        ({"scenario": Scenario(failures=(Failure(machines=("m7",)),))}, "no machine 'm7'"),
        ({"repeat": 2, "journal": "j"}, "a journal of 2 simulations"),
    ],
)
def test_invalid_options_of_simulate_are_rejected(how, words):
    with pytest.raises(InvalidInput, match=words):
        weft.simulate(sweep(), on="identical:2", **how)


def test_an_empty_simulation_is_rejected():
    with pytest.raises(InvalidInput, match="no workflow to simulate"):
        weft.simulate(on="identical:2")


def test_task_names_of_other_formats_are_converted_before_the_run():
    """Tasks get the names they would have in a written file, so that the journal can refer to them."""
    from dataclasses import replace

    flow = sweep(points=1)
    odd = replace(flow, tasks=(replace(flow.tasks[0], name="a[1]", sweep=None),))
    simulated = weft.simulate(odd, on="identical:1")
    assert [attempt.task for attempt in simulated.first.history.attempts.values()] == ["a_1_"]


def test_simulation_reports_progress():
    received = []
    weft.simulate(
        sweep(points=600), on="identical:8", policy="fcfs", progress=lambda *news: received.append(news)
    )
    entries, now_s, active = received[0]
    assert (entries, now_s, active) == (0, 0.0, 1)


def test_simulation_result_can_be_displayed():
    simulated = weft.simulate(sweep(), on="identical:2", policy="fcfs")
    assert simulation_title(simulated) == "sweep on identical-2, policy fcfs"
    assert dict(simulation_facts(simulated.first))["end"] == "20 s"
    page = render_simulation(simulated)
    assert page.startswith("<!DOCTYPE html>")
    assert "sweep on identical-2, policy fcfs" in page


def test_the_objective_of_a_run_is_a_name_or_a_formula_not_a_function():
    tasks = {f"t{index}": {"work": 4 + index} for index in range(4)}
    dear = platform({"price_per_node_hour": 3600.0}, {"speed": 2.0, "price_per_node_hour": 36000.0})
    options = {"on": dear, "plan_steps": 300}
    fast = weft.simulate(workflow(tasks), **options)
    cheap = weft.simulate(workflow(tasks), objective="makespan + 10*cost", **options)
    assert cheap.end_s > fast.end_s
    with pytest.raises(
        weft.InvalidInput, match="a run records its objective: it must be a name or a formula"
    ):
        weft.simulate(workflow(tasks), objective=lambda schedule, instance: 1.0, **options)
