"""Regression tests of engine bugs, each with the smallest workflow that shows it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from driven_engine import DrivenEngine, one_task, platform_of
from planning_examples import instance, platform
from policy_runs import run_all
from state_digest import digest_state
from weft.backends.simulation.scenario import Arrival, Durations, Failure, RequirementChange, Scenario
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.engine.engine import Engine
from weft.engine.invariants import check_engine
from weft.engine.state.compiled import WorkflowLibrary
from weft.engine.states import TaskState
from weft.expressions import parse
from weft.platform.platform import Link
from weft.policies.policy import make_policy
from weft.runtime.simulation import Simulation
from weft.workflow.settings import RunSettings


def simulate(tasks, on, policy="fcfs", scenario=None, settings=None, loops=(), **options):
    """Simulate one workflow with all invariants checked; return the engine and the journal."""
    made = instance(tasks, on, loops=loops)
    return simulate_all({"w": made}, [Arrival(workflow="w")], policy, scenario, settings, **options)


def simulate_all(instances, arrivals, policy="fcfs", scenario=None, settings=None, **options):
    entries = []
    simulation = Simulation(
        library=WorkflowLibrary(instances),
        arrivals=arrivals,
        policy=make_policy(policy),
        settings=settings or RunSettings(),
        scenario=scenario or Scenario(),
        **options,
    )
    return simulation.run(record=entries.append, check=check_engine), entries


def starts(engine, entries):
    """Return the start times by task name."""
    return {
        engine.state.runs[command.run].compiled.names[command.task]: entry.now
        for entry in entries
        for command in entry.commands
        if isinstance(command, cm.Start)
    }


def test_applying_the_journal_completes_virtual_tasks():
    tasks = {"a": {"work": 1}, "v": {"kind": "virtual", "after": "a"}, "b": {"work": 1, "after": "v"}}
    made = instance(tasks, "identical:1")
    engine, entries = simulate_all({"w": made}, [Arrival(workflow="w")])
    applied = Engine(WorkflowLibrary({"w": made}), made, engine.policy, engine.settings)
    for entry in entries:
        applied.apply(entry.event, entry.now, entry.commands)
    assert digest_state(applied.state) == digest_state(engine.state)


def test_workflows_with_different_resources_share_a_machine():
    where = platform({"nodes": 4, "memory": 4e9, "resources": {"licence": 1.0}})
    memory = instance({"big": {"work": 5, "memory": "4GB"}}, where)
    licence = instance(
        {"one": {"work": 5, "resources": {"licence": 1}, "memory": "1GB", "sweep": {"k": "1..2"}}}, where
    )
    arrivals = [Arrival(workflow="memory"), Arrival(workflow="licence", at_s=1.0)]
    engine, entries = simulate_all({"memory": memory, "licence": licence}, arrivals)
    assert starts(engine, entries) == {"big": 0.0, "one[1]": 5.0, "one[2]": 10.0}


def test_machine_without_resource_limits_ignores_requested_amounts():
    where = platform({"occupancy": "unlimited", "memory": 1e9})
    tasks = {"t": {"work": 5, "memory": "1GB", "sweep": {"k": "1..3"}}}
    engine, entries = simulate(tasks, where)
    assert set(starts(engine, entries).values()) == {0.0}


def test_task_is_placed_on_the_machine_of_its_class_with_enough_nodes():
    where = platform({"nodes": 2}, {"nodes": 2})
    tasks = {"small": {"work": 9}, "wide": {"work": 1, "nodes": 2}}
    engine, entries = simulate(tasks, where)
    assert starts(engine, entries) == {"small": 0.0, "wide": 0.0}


def test_rescheduling_after_timeouts_ends_with_a_failed_run():
    tasks = {"t": {"work": 50, "time_limit": 1, "retries": 1, "on_failure": "reschedule"}}
    engine, entries = simulate(tasks, "identical:3")
    assert engine.state.runs[0].ending == "failed"
    assert len(entries) < 50


def grown(lines):
    """Return tasks with a sweep over the lines of a file, and a scenario with this many lines."""
    tasks = {
        "split": {"work": 1, "outputs": {"parts": 1}},
        "chunk": {"work": 1, "sweep": {"c": "lines(parts)"}, "inputs": ["parts"]},
        "merge": {"work": 1, "after": ["chunk"]},
    }
    return tasks, Scenario(lines={"parts": lines})


def test_sweep_over_a_file_without_lines_is_skipped():
    tasks, scenario = grown(0)
    tasks["other"] = {"work": 1, "after": ["split"]}
    engine, entries = simulate(tasks, "identical:2", scenario=scenario)
    assert engine.state.runs[0].ending == "completed"
    assert set(starts(engine, entries)) == {"split", "other"}


def test_run_completes_when_the_file_of_a_sweep_is_written_again_after_a_loss():
    tasks, scenario = grown(3)
    tasks["split"]["requirements"] = "speed > 1"
    tasks["chunk"] |= {"work": 40, "retries": {"lost": 5}}
    where = platform({"speed": 1.0, "nodes": 4}, {"speed": 1.5}, {"speed": 2.0}, link=Link(latency_s=1.0))
    lost = Failure(machines=("m2",), at_s=2.0, repair_s=1e6)
    engine, entries = simulate(tasks, where, scenario=replace(scenario, failures=(lost,)))
    written = [entry for entry in entries if isinstance(entry.event, ev.TasksAdded)]
    assert len(written) == 2
    assert engine.state.runs[0].ending == "completed"


def test_early_assignment_of_a_placeholder_task_is_closed_when_the_graph_grows():
    tasks, scenario = grown(3)
    tasks["early"] = {"work": 0.5}
    tasks["chunk"]["after"] = ["early"]
    engine, entries = simulate(tasks, "identical:2", "plan", scenario)
    assert engine.state.runs[0].ending == "completed"
    assert {name for name in starts(engine, entries) if "chunk" in name} == {
        "chunk[1]", "chunk[2]", "chunk[3]",
    }  # fmt: skip


def test_placeholder_of_a_sweep_is_skipped_with_the_writer_of_its_file():
    tasks, scenario = grown(3)
    tasks["choose"] = {"work": 1, "outcomes": [0, 3]}
    tasks["split"]["after"] = {"task": "choose", "if": "exit_code == 3"}
    tasks["data"] = {"work": 1, "outputs": ["other"]}
    tasks["chunk"]["inputs"] = ["parts", "other"]
    engine, entries = simulate(tasks, "identical:2", scenario=scenario)
    assert engine.state.runs[0].ending == "completed"
    assert set(starts(engine, entries)) == {"choose", "data"}


@pytest.mark.parametrize("policy", ["fcfs", "plan"])
def test_placeholder_of_a_sweep_fails_if_its_file_never_appears(policy):
    """The simulated lines of ``parts`` give o.1 and o.2, so that o.x is never written."""
    tasks, _ = grown(2)
    tasks["chunk"]["outputs"] = ["o.{c}"]
    tasks["late"] = {"work": 1, "sweep": {"l": "lines('o.x')"}}
    engine, entries = simulate(tasks, "identical:2", policy, Scenario(lines={"parts": 2}))
    assert engine.state.runs[0].ending == "failed"
    assert not any("late" in name for name in starts(engine, entries))
    (reason,) = {
        command.reason
        for entry in entries
        for command in entry.commands
        if isinstance(command, cm.Settle) and command.state == TaskState.FAILED
    }
    assert reason == "the values of its sweep are the lines of o.x, which no task has written"


def test_simulated_task_that_a_sweep_names_writes_its_lines():
    tasks, _ = grown(0)
    tasks["split"]["outputs"] = {"l": 1}
    tasks["chunk"] |= {"sweep": {"c": "lines(split.l)"}, "inputs": ["l"], "outputs": ["{c}"]}
    engine, entries = simulate(tasks, "identical:2", scenario=Scenario(lines={"split.l": 2}))
    assert engine.state.runs[0].ending == "completed"
    assert set(starts(engine, entries)) == {"split", "chunk[1]", "chunk[2]", "merge"}


def test_run_ends_when_all_remaining_tasks_wait_for_a_stopped_task():
    tasks = {"a": {"work": 1, "on_failure": "hold", "retries": 0}, "b": {"work": 1, "after": "a"}}
    engine, entries = simulate(tasks, "identical:1", scenario=Scenario(exit_codes={"a": (1,)}))
    assert engine.state.runs[0].ending == "stopped"
    (finish,) = [c for entry in entries for c in entry.commands if isinstance(c, cm.FinishRun)]
    assert "a waits for the user" in finish.reason


def test_loop_that_does_not_converge_fails_its_run():
    tasks = {"a": {"work": 1}, "b": {"work": 1, "after": "a"}}
    loops = {"scf": {"last": "b", "first": "a", "until": "b.exit_code == 0", "max_iterations": 2}}
    engine, _ = simulate(tasks, "identical:1", scenario=Scenario(iterations={"scf": 9}), loops=loops)
    assert engine.state.runs[0].ending == "failed"
    assert "has not converged after 2 iterations" in engine.state.runs[0].stopping
    assert engine.state.now == 4.0


def test_task_that_becomes_ready_starts_before_tasks_planned_later():
    where = platform({})
    tasks = {
        "first": {"seconds": 1, "outputs": {"x": 1}},
        "next": {"seconds": 5, "inputs": ["x"]},
        "filler": {"seconds": 2},
    }
    ran = run_all({"w": instance(tasks, where)}, [(0, "w")], "plan")
    assert [name for _, name in ran.order] == ["first", "next", "filler"]


@pytest.mark.parametrize(("strict", "later_s"), [(False, 5.0), (True, 42.0)])
def test_machine_waits_for_a_late_task_only_until_the_planned_start(strict, later_s):
    tasks = {
        "far": {"seconds": {"m0": 100, "m1": 4}, "outputs": {"x": {"seconds": 1}}},
        "near": {"seconds": {"m0": 1, "m1": 50}, "inputs": ["x"]},
        "later": {"seconds": {"m0": 6, "m1": 20}},
    }
    slow = Scenario(durations=Durations(tasks={"far": Durations(bias=10.0)}))
    settings = RunSettings(strict_plan=strict)
    engine, entries = simulate(tasks, platform({}, {}), "plan", slow, settings)
    began = starts(engine, entries)
    assert began["near"] == 41.0
    assert began["later"] == pytest.approx(later_s, abs=1e-6)


@pytest.mark.parametrize("policy", ["plan", "shared-plans"])
def test_task_is_not_placed_again_on_a_machine_that_it_excludes(policy):
    change = RequirementChange(task="a", after=0.5, requirements=parse("speed < 2"))
    where = platform({"speed": 4.0}, {"speed": 1.0})
    engine, entries = simulate(
        {"a": {"work": 40}}, where, policy, Scenario(requirements=(change,)), planner="heft"
    )
    machines = [
        command.machine for entry in entries for command in entry.commands if isinstance(command, cm.Start)
    ]
    assert machines == [0, 1]
    assert engine.state.runs[0].ending == "completed"


def test_task_that_is_slow_on_every_machine_stops_migrating():
    settings = RunSettings(contract=1.0, poll_every_s=10.0, migrate="always", gain_growth=1.0, better_every_s=25.0, fetch_every_s=20.0)  # fmt: skip
    engine, _ = simulate(
        {"a": {"work": 40, "progress": "steps"}},
        platform({}, {}),
        scenario=Scenario(durations=Durations(bias=2.0)),
        settings=settings,
    )
    assert engine.state.runs[0].ending == "completed"
    assert engine.state.runs[0].facts_of(0).migrations <= 60


def test_queue_timer_that_fired_for_an_empty_queue_is_set_again():
    engine = DrivenEngine(one_task(sweep={"k": "1..2"}), platform_of(1, nodes=2), policy="basic")
    assert engine.engine.state.timers == {"serve:0": 0.0}
    engine.handle(ev.MachineChanged(machine=0, up=False))
    engine.handle(
        ev.TimerFired(timer="serve:0")
    )  # nothing may remain of it: a rebuilt engine does not have it
    assert [words.split()[0] for words in engine.handle(ev.MachineChanged(machine=0, up=True), at=100)] == [
        "assign",
        "assign",
    ]
    assert engine.engine.state.timers == {"serve:0": 100.0}
