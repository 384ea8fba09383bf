"""The rest of a run as an instance: rows, pins, busy machines, speeds, data, restart files."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planning_examples import instance, planned, platform
from weft.backends.simulation.scenario import UNDISTURBED, Arrival, CompetingLoad, Failure
from weft.engine.replan.remainder import build_remainder, carry_over_plan, prepare_replan
from weft.engine.state.compiled import WorkflowLibrary
from weft.errors import Infeasible
from weft.policies.policy import make_policy
from weft.randomness import generator
from weft.runtime.simulation import Simulation
from weft.workflow.settings import RunSettings, SettingsLayers, WorkflowSettings


def stopped(instances, at_s, *, arrivals=("w",), scenario=UNDISTURBED, settings=None, policy="plan"):
    """Return the state of a simulation that stops at the first event at or after ``at_s``."""
    simulation = Simulation(
        library=WorkflowLibrary(instances),
        arrivals=[Arrival(workflow=key) for key in arrivals],
        policy=make_policy(policy),
        settings=settings or RunSettings(),
        scenario=scenario,
    )
    return simulation.run(stop=lambda engine: engine.state.now >= at_s).state


def machine_of(state, name):
    return next(machine.index for machine in state.machines if machine.name == name)


CHAIN = {
    "a": {"work": 10, "outputs": {"x": 2e6}},
    "long": {"work": 100},
    "mid": {"work": 20},
    "b": {"work": 10, "inputs": ["x"], "after": "mid"},
    "c": {"work": 5, "after": ["b", "long"]},
}
"""Tasks for three machines; at 10 s a has ended, long and mid run, b and c wait."""


@pytest.fixture
def halfway():
    return stopped({"w": instance(CHAIN, platform({}, {}, {}))}, 10.0)


def test_remainder_of_a_new_run_is_the_whole_workflow():
    made = instance(CHAIN, platform({}, {}))
    plans = []
    simulation = Simulation(
        library=WorkflowLibrary({"w": made}),
        arrivals=[Arrival(workflow="w")],
        policy=make_policy("plan"),
        settings=RunSettings(),
    )
    simulation.run(stop=lambda engine: plans.extend(engine.state.plans.values()) or bool(plans))
    assert set(plans[0].lines) == set(CHAIN)
    assert plans[0].finish_s == planned(made).makespan_s


def test_remainder_has_the_data_of_ended_tasks_and_the_end_times_of_running_tasks(halfway):
    run = halfway.runs[0]
    found = build_remainder(halfway, run)
    graph = found.instance.graph
    assert set(found.tasks) == {"b", "c"}
    assert set(graph.names) == {"b", "c", "data of a", "data of long", "data of mid"}
    assert found.running_until_s == pytest.approx(100.0)
    for name, ends_s in (("a", 0.0), ("long", 90.0), ("mid", 10.0)):
        row = graph.index(f"data of {name}")
        number = run.attempt_of.get(run.compiled.names.index(name))
        place = (
            run.where[run.compiled.names.index(name)] if number is None else halfway.attempts[number].machine
        )
        assert found.instance.pinned[int(graph.variable[row])] == place
        assert found.instance.earliest_start_s[row] == pytest.approx(ends_s)
    taken = sorted((busy.start_s, busy.finish_s, busy.nodes) for busy in found.instance.busy)
    assert taken == [(0.0, pytest.approx(10.0), 1), (0.0, pytest.approx(90.0), 1)]


def test_placement_away_from_the_data_costs_the_transfer_time(halfway):
    """b can start at 10 s on the machine with its data; on the machine of mid the data arrive after 2 s,
    which is not later.
    """
    found = build_remainder(halfway, halfway.runs[0])
    instance_, graph = found.instance, found.instance.graph
    variable = int(graph.variable[graph.index("b")])
    home = halfway.runs[0].where[halfway.runs[0].compiled.names.index("a")]
    faster = replace(instance_, earliest_start_s=instance_.earliest_start_s * 0.0)
    starts = {}
    for machine in range(3):
        there = replace(faster, pinned={**instance_.pinned, variable: machine}, busy=())
        starts[machine] = {one.task: one for one in planned(there)}["b"].start_s
    assert starts == {machine: 0.0 if machine == home else 2.0 for machine in range(3)}


def test_remainder_uses_current_speed_and_availability():
    tasks = {"first": {"work": 10}, "second": {"work": 10, "after": "first"}}
    made = instance(tasks, platform({"speed": 2}, {}, {}))
    down = Failure(machines=("m1",), at_s=1.0)
    state = stopped({"w": made}, 1.0, scenario=replace(UNDISTURBED, failures=(down,)))
    state.machines.set_speed(2, 0.25, state.now)
    found = build_remainder(state, state.runs[0])
    row = found.instance.graph.index("second")
    modes = found.instance.modes(row)
    assert modes.machine.tolist() == [0, 2]
    assert modes.seconds.tolist() == [5.0, 40.0]


def test_attempts_of_other_runs_occupy_machines():
    made = {
        key: instance({key: {"work": 10}, f"{key}2": {"work": 1, "after": key}}, platform({})) for key in "vw"
    }
    state = stopped(made, 4.0, arrivals="vw", settings=RunSettings(contract=0.5, poll_every_s=4.0))
    found = build_remainder(state, state.runs[1])
    taken = [(busy.start_s, busy.finish_s) for busy in found.instance.busy]
    assert taken[0] == (0.0, pytest.approx(6.0))
    line = {one.task: one for one in planned(found.instance)}
    assert line["w"].start_s >= 6.0


def test_restart_files_save_work_and_are_transferred():
    tasks = {
        "first": {
            "work": 100,
            "checkpoint": {"files": ["r"], "every": 10},
            "progress": "p",
            "outputs": {"r": 4e6},
        },
        "last": {"work": 1, "after": "first"},
    }
    made = instance(tasks, platform({}, {}))
    settings = RunSettings(contract=0.5, migrate="always", poll_every_s=1000.0)
    state = stopped({"w": made}, 40.0, settings=settings)
    run = state.runs[0]
    assert run.facts_of(0).restart_files.share == pytest.approx(0.4)
    state.attempts[0].violating = True
    found = build_remainder(state, run)
    graph = found.instance.graph
    assert found.moving == ("first",)
    row = graph.index("first")
    assert found.instance.modes(row).seconds.tolist() == pytest.approx([60.0, 60.0])
    assert "restart files of first" in graph.names
    assert not found.instance.busy  # a moving task frees its nodes
    assert found.instance.pinned == {
        int(graph.variable[graph.index("restart files of first")]): run.facts_of(0).restart_files.machine
    }
    state.layers = SettingsLayers(base=replace(state.settings, checkpoints=False))
    run._settings = WorkflowSettings(state.layers, run.compiled.graph.workflow)
    again = build_remainder(state, run).instance
    assert again.modes(again.graph.index("first")).seconds.tolist() == [100.0, 100.0]


def test_remainder_without_tasks_is_infeasible():
    made = instance({"only": {"work": 10}}, platform({}))
    settings = RunSettings(contract=0.5, poll_every_s=4.0)
    state = stopped({"w": made}, 4.0, settings=settings)
    with pytest.raises(Infeasible, match="no task of 'w' is left to plan"):
        prepare_replan(state, 0)


def test_error_about_an_infeasible_remainder_names_the_task():
    tasks = {"a": {"work": 10}, "b": {"work": 10, "after": "a", "requirements": "speed > 1"}}
    made = instance(tasks, platform({}, {"speed": 2}))
    broken = Failure(machines=("m1",), at_s=1.0)
    state = stopped({"w": made}, 1.0, scenario=replace(UNDISTURBED, failures=(broken,)))
    with pytest.raises(Infeasible, match="no available machine can run b"):
        build_remainder(state, state.runs[0])


@pytest.mark.parametrize("seed", range(25))
def test_without_disturbances_a_plan_applied_to_the_remainder_keeps_its_end(seed):
    rng = generator(seed, "promise")
    count = int(rng.integers(3, 14))
    tasks = {
        f"t{task}": {
            "work": int(rng.integers(1, 9)),
            "after": [f"t{before}" for before in range(task) if rng.random() < 0.25],
        }
        for task in range(count)
    }
    made = instance(tasks, platform(*({"speed": int(rng.integers(1, 4))} for _ in range(3))))
    promised_s = planned(made).makespan_s
    state = stopped({"w": made}, float(rng.uniform(0.1, 0.9)) * promised_s)
    run = state.runs[0]
    found = build_remainder(state, run)
    if found.tasks:
        old = carry_over_plan(state, run, found)
        assert old is not None
        assert max(state.now + old.makespan_s, found.running_until_s) == pytest.approx(promised_s)
    # A new plan of the rest cannot end before the longest running task.
    ends = [busy.finish_s for busy in found.instance.busy]
    if found.tasks and ends:
        by_machine = {busy.machine: busy.finish_s for busy in found.instance.busy}
        for line in planned(found.instance):
            machine = machine_of(state, line.machine)
            if line.nodes:
                assert line.start_s >= by_machine.get(machine, 0.0) - 1e-9


def test_running_task_on_a_slow_machine_ends_later():
    tasks = {"a": {"work": 40, "progress": "p"}, "b": {"work": 1, "after": "a"}}
    made = instance(tasks, platform({}))
    slowed = CompetingLoad(machines=("m0",), processes=1)
    settings = RunSettings(contract=5.0, poll_every_s=10.0, migrate="never")
    state = stopped({"w": made}, 20.0, scenario=replace(UNDISTURBED, loads=(slowed,)), settings=settings)
    found = build_remainder(state, state.runs[0])
    assert state.machines[0].speed_factor == pytest.approx(0.5)
    assert found.instance.busy[0].finish_s == pytest.approx(60.0, rel=0.1)
