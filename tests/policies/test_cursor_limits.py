"""Shared plans with more waiting tasks than the evaluation limit still use all free machines."""

from __future__ import annotations

import pytest

from planning_examples import instance, platform
from policies.test_policy_costs import sweep
from weft.backends.simulation.scenario import Arrival, Durations, Failure, Scenario
from weft.engine.state.compiled import WorkflowLibrary
from weft.engine.state.ready import PlanCursor
from weft.policies.policy import make_policy
from weft.runtime.simulation import Simulation
from weft.workflow.settings import RunSettings

MACHINES, PER_MACHINE = 96, 6


def tasks(number, **keys):
    """Return pairs of tasks with sixteen different durations."""
    return sweep(number, a={"work": "9 + k % 8", **keys}, b={"work": "6 + k % 8", "after": "a[k]", **keys})


SCENES = {
    "one node": ({"nodes": 1}, {}, ()),
    "several nodes": ({"nodes": 2}, {"nodes": [1, 2], "speedup": {"amdahl": 0.4}}, ()),
    "some machines fail and come back": (
        {"nodes": 1},
        {},
        (Failure(machines=("m[0-9]",), at_s=6.0, repair_s=9.0),),
    ),
}
"""By name: machines, tasks and events of a scene."""


@pytest.fixture
def hurried(monkeypatch):
    """Return a list that gets an entry for every cursor that skips tasks."""
    found, hurry = [], PlanCursor.hurry

    def counted(turn, is_free):
        found.append(turn.waiting)
        hurry(turn, is_free)

    monkeypatch.setattr(PlanCursor, "hurry", counted)
    return found


def simulate(policy, scene, look):
    of_machines, of_tasks, failures = SCENES[scene]
    where = platform(*({"speed": (1.0, 3.0)[index % 2], **of_machines} for index in range(MACHINES)))
    library = WorkflowLibrary(
        {key: instance(tasks(PER_MACHINE * MACHINES // 2, **of_tasks), where) for key in "vw"}
    )
    simulation = Simulation(
        library,
        [Arrival(workflow=key) for key in "vw"],
        make_policy(policy),
        RunSettings(),
        Scenario(durations=Durations(noise=0.3), failures=failures),
    )
    return simulation.run(check=look)


def startable_tasks(engine):
    """Return the ready tasks that could start on their planned machine, or elsewhere if that machine is down."""
    state = engine.state
    free = {machine.index for machine in state.machines if machine.has_free_nodes(1)}
    if not free:
        return []
    return [
        (run.index, task)
        for run in state.active.values()
        for task in (run.ready if run.plan is not None else ())
        if could_go(state, run, task, free)
    ]


def could_go(state, run, task, free):
    line = run.plan.planned_tasks[task]
    nodes = run.compiled.options(task).nodes[line.machine, line.count]
    if line.machine in free:
        return state.machines.fits(line.machine, nodes, run.demand(task, line.machine, line.count))
    return not state.machines[line.machine].up


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize(
    ("policy", "most"),
    [
        ("shared-plans:inter=g-heft:rounds=tasks", 64),
        ("shared-plans:inter=g-heft", 3),
        ("shared-plans:inter=fcfs", 3),
    ],
)
def test_no_machine_is_idle_while_a_task_planned_there_is_ready(monkeypatch, policy, most, scene, hurried):
    monkeypatch.setattr("weft.policies.shared_plans._MOST_WAITING", most)
    found = []
    engine = simulate(policy, scene, lambda engine: found.extend(startable_tasks(engine)))
    assert found == []
    assert [run.ending for run in engine.state.runs] == ["completed", "completed"]
    assert set(hurried) == {most + 1}
