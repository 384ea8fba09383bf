"""What an event costs who follows a plan while tasks wait for many machines (design section 6), in lines of Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import weft
from planning_examples import instance, platform
from policies.test_policy_costs import AHEAD, SERVED, WITHIN, Lines, sweep
from weft.engine.engine import Engine
from weft.engine.settings import Settings
from weft.engine.state.known import Library
from weft.engine.view import EngineView
from weft.policies.naming import policy_named
from weft.simulation.scenario import Arrival, Durations, Failure, Scenario
from weft.simulation.simulate import Simulation

FEW, MANY = 16, 128
"""Machines."""

PER_MACHINE = 16
"""Tasks that wait for each."""

ROUNDS, EVENTS = 4, 32
"""Events per machine before anything is counted, and events that are counted."""

WAITING = 1
"""Classes that may rather wait before the others do so unseen: so few that more of them wait."""

OWN = tuple(
    str(Path(weft.__file__).parent / name)
    for name in ("policies/following.py", "policies/shared_plans.py", "engine/indexes")
)
"""Where following a plan is at home."""

BY_ITSELF = [
    "plan",
    "plan:strict=true",
    "shared-plans:inter=fcfs",
    "shared-plans:inter=g-heft",
    "shared-plans:inter=g-heft:rounds=tasks",
    "shared-plans:inter=aging-e:rounds=tasks",
]
"""Policies that cost little but for following a plan."""

LOOKING_AHEAD = ["shared-plans", "shared-plans:inter=srpt", "shared-plans:rounds=tasks"]
"""Policies whose order of workflows looks at what runs and at what is to come."""


def pairs(size, **keys):
    """Give two tasks after each other, many times, of eight kinds by seconds."""
    return sweep(size, a={"work": "10 + k % 8", **keys}, b={"work": "7 + k % 8", "after": "a[k]", **keys})


def with_data(size):
    """Give pairs with a file between them."""
    return sweep(
        size,
        a={"work": "10 + k % 8", "outputs": {"x{k}": "2MB"}},
        b={"work": "7 + k % 8", "inputs": ["x{k}"]},
    )


def choosy(size):
    """Give pairs whose second tasks can run on fast machines only, on which nothing runs before."""
    slow = {"work": "10 + k % 8", "requirements": "speed < 2"}
    return sweep(size, a=slow, b={"work": "7 + k % 8", "after": "a[k]", "requirements": "speed > 2"})


def lost(machines, *which):
    """Let some of every four machines fail for good."""
    failures = (
        Failure(machines=(f"m{index}",), at_s=0.5, repair_s=1e6)
        for index in range(machines)
        if index % 4 in which
    )
    return Scenario(durations=Durations(noise=0.2), failures=tuple(failures))


SCENES = {
    "all machines are up": (pairs, ()),
    "a quarter is down": (pairs, (1,)),
    "data move": (with_data, ()),
    "some have to run on fast machines, which are down": (choosy, (1, 3)),
}
"""What is run, and which of every four machines fail; every second one is fast."""


def per_event(monkeypatch, policy, machines, scene, during):
    """Let two workflows compete on so many machines; give what ``during`` has made of an event on average."""
    make, failing = SCENES[scene]
    handle, events = Engine.handle, 0
    settled = ROUNDS * machines

    def counting(engine, event, now):
        nonlocal events
        events += 1
        return (during if events > settled else _simply)(handle, engine, event, now)

    where = platform(*({"speed": (1.0, 3.0)[index % 2]} for index in range(machines)))
    with monkeypatch.context() as patch:
        patch.setattr(Engine, "handle", counting)
        library = Library({key: instance(make(PER_MACHINE * machines // 2), where) for key in "vw"})
        arrivals = [Arrival(workflow=key) for key in "vw"]
        simulation = Simulation(library, arrivals, policy_named(policy), Settings(), lost(machines, *failing))
        engine = simulation.run(stop=lambda _: events >= settled + EVENTS)
    assert sum(run.unfinished for run in engine.state.runs) > 0.5 * PER_MACHINE * machines, "they still wait"


def _simply(function, *arguments):
    return function(*arguments)


class OwnLines(Lines):
    """Counts the lines of policies that follow plans and of their indexes."""

    def enter(self, frame, event, argument):
        return self._line if frame.f_code.co_filename.startswith(OWN) else None


def lines_per_event(monkeypatch, policy, machines, scene, lines):
    per_event(monkeypatch, policy, machines, scene, lines.during)
    return lines.counted / EVENTS


def questions_per_event(monkeypatch, policy, machines, scene):
    """Count how often it is asked how a task could run."""
    asked = 0

    def counting(function):
        def ask(*arguments, **options):
            nonlocal asked
            asked += 1
            return function(*arguments, **options)

        return ask

    def during(function, *arguments):
        with monkeypatch.context() as patch:
            for name in ("mode", "modes"):
                patch.setattr(EngineView, name, counting(getattr(EngineView, name)))
            return function(*arguments)

    per_event(monkeypatch, policy, machines, scene, during)
    return asked / EVENTS


@pytest.fixture(autouse=True)
def _little_looked_at(monkeypatch):
    monkeypatch.setattr("weft.policies.foresight._MOST_PLACED", AHEAD)
    monkeypatch.setattr("weft.engine.state.machines._MOST_SERVED", SERVED)
    monkeypatch.setattr("weft.policies.shared_plans._MOST_WAITING", WAITING)


ALL_UP, NOWHERE = "all machines are up", "some have to run on fast machines, which are down"
CASES = [(ALL_UP, policy) for policy in BY_ITSELF]
CASES += [("data move", policy) for policy in BY_ITSELF[::2]]
CASES += [("a quarter is down", "plan:strict=true"), (NOWHERE, "plan:strict=true")]


@pytest.mark.parametrize(("scene", "policy"), CASES)
def test_an_event_costs_the_same_however_many_machines_are_planned_on(monkeypatch, scene, policy):
    few, many = (lines_per_event(monkeypatch, policy, machines, scene, Lines()) for machines in (FEW, MANY))
    assert few > 0
    assert many <= WITHIN * few


@pytest.mark.parametrize("policy", LOOKING_AHEAD)
def test_so_it_is_but_for_what_the_order_of_workflows_costs(monkeypatch, policy):
    few, many = (
        lines_per_event(monkeypatch, policy, machines, ALL_UP, OwnLines()) for machines in (FEW, MANY)
    )
    assert few > 0
    assert many <= WITHIN * few


DOWN = [("a quarter is down", "plan:strict=true")]
DOWN += [
    (NOWHERE, policy) for policy in ("plan", "plan:strict=true", "shared-plans", "shared-plans:inter=fcfs")
]


@pytest.mark.parametrize(("scene", "policy"), DOWN)
def test_it_is_not_asked_for_each_machine_that_is_down(monkeypatch, scene, policy):
    few, many = (questions_per_event(monkeypatch, policy, machines, scene) for machines in (FEW, MANY))
    # Of each of the two workflows so many rather wait, and three questions are asked for each, if so many wait.
    assert many <= WITHIN * few + 2 * 3 * (WAITING + 1)
