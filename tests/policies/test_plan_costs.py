"""The number of executed lines per event, for policies that follow plans while tasks wait for many
machines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from planning_examples import instance, platform
from policies.test_policy_costs import (
    ASKING,
    DEMANDING,
    SURPRISES,
    USUAL,
    WITHIN,
    Lines,
    little_looked_at,
    sweep,
)
from weft.backends.simulation.scenario import Arrival, Failure, Scenario
from weft.engine.engine import Engine
from weft.engine.state.compiled import WorkflowLibrary
from weft.policies.policy import make_policy
from weft.runtime.simulation import Simulation
from weft.workflow.settings import RunSettings

__all__ = ["little_looked_at"]

FEW, MANY = 32, 128
"""Numbers of machines that are compared."""

PER_MACHINE = 16
"""Number of tasks that wait for each machine."""

SETTLED, EVENTS = 2, 2
"""Events per machine before anything is counted, and events per machine that are counted."""

WAITING = 1
"""Limit of waiting classes, so small that it is exceeded."""

POLICIES = [
    "plan",
    "plan:strict=true",
    "shared-plans",
    "shared-plans:inter=srpt",
    "shared-plans:inter=fcfs",
    "shared-plans:inter=g-heft",
    "shared-plans:rounds=tasks",
    "shared-plans:inter=g-heft:rounds=tasks",
    "shared-plans:inter=aging-e:rounds=tasks",
]


def pairs(size, **keys):
    """Return many pairs of dependent tasks with eight different durations."""
    return sweep(size, a={"work": "10 + k % 8", **keys}, b={"work": "7 + k % 8", "after": "a[k]", **keys})


def with_data(size):
    """Return pairs of tasks with a file between them."""
    return sweep(
        size,
        a={"work": "10 + k % 8", "outputs": {"x{k}": "2MB"}},
        b={"work": "7 + k % 8", "inputs": ["x{k}"]},
    )


def choosy(size):
    """Return pairs of tasks of which the second can run only on fast machines, which are idle until then."""
    slow = {"work": "10 + k % 8", "requirements": "speed < 2"}
    return sweep(size, a=slow, b={"work": "7 + k % 8", "after": "a[k]", "requirements": "speed > 2"})


@dataclass(frozen=True)
class Scene:
    """A workflow and events; every second machine is fast."""

    make: Callable
    down: tuple[int, ...] = ()
    """Which of every four machines fail permanently."""
    happening: Scenario = SURPRISES
    agreed: RunSettings = USUAL

    def scenario(self, machines):
        """Return the events for a number of machines."""
        failing = [f"m{index}" for index in range(machines) if index % 4 in self.down]
        failures = (Failure(machines=(name,), at_s=0.5, repair_s=1e6) for name in failing)
        return replace(self.happening, failures=tuple(failures))


SCENES = {
    "all machines are up": Scene(pairs),
    "a quarter is down": Scene(pairs, down=(1,)),
    "data move": Scene(with_data),
    "some have to run on fast machines, which are down": Scene(choosy, down=(1, 3)),
    "tasks ask for fast machines while they run": Scene(pairs, happening=DEMANDING),
    "machines are queried first": Scene(pairs, agreed=ASKING),
}


IN_EVERY_SCENE = ["plan", "plan:strict=true", "shared-plans:inter=g-heft:rounds=tasks"]
CASES = [(scene, policy) for scene in list(SCENES)[:4] for policy in POLICIES]
CASES += [(scene, policy) for scene in list(SCENES)[4:] for policy in IN_EVERY_SCENE]


def lines_per_event(monkeypatch, policy, machines, scene):
    """Return the executed lines per event while two workflows compete on this many machines."""
    scene = SCENES[scene]
    lines, handle, events = Lines(), Engine.handle, 0
    settled, counted = SETTLED * machines, EVENTS * machines

    def counting(engine, event, now):
        nonlocal events
        events += 1
        return lines.during(handle, engine, event, now) if events > settled else handle(engine, event, now)

    where = platform(*({"speed": (1.0, 3.0)[index % 2]} for index in range(machines)))
    with monkeypatch.context() as patch:
        patch.setattr(Engine, "handle", counting)
        library = WorkflowLibrary(
            {key: instance(scene.make(PER_MACHINE * machines // 2), where) for key in "vw"}
        )
        arrivals = [Arrival(workflow=key) for key in "vw"]
        simulation = Simulation(
            library, arrivals, make_policy(policy), scene.agreed, scene.scenario(machines)
        )
        engine = simulation.run(stop=lambda _: events >= settled + counted)
    assert sum(run.unfinished for run in engine.state.runs) > 0.5 * PER_MACHINE * machines, "they still wait"
    return lines.counted / counted


@pytest.mark.usefixtures("little_looked_at")
@pytest.mark.parametrize(("scene", "policy"), CASES)
def test_executed_lines_per_event_do_not_depend_on_the_number_of_planned_machines(monkeypatch, scene, policy):
    monkeypatch.setattr("weft.policies.shared_plans._MOST_WAITING", WAITING)
    few, many = (lines_per_event(monkeypatch, policy, machines, scene) for machines in (FEW, MANY))
    assert few > 0
    assert many <= WITHIN * few
