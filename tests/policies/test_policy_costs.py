"""What an event costs a policy while many tasks wait (design section 6), in lines of Python that are executed, not in time."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import weft
from planning_examples import instance, platform
from weft.engine.engine import Engine
from weft.engine.settings import Settings
from weft.engine.state.known import Library
from weft.policies import POLICIES
from weft.policies.naming import policy_named
from weft.simulation.scenario import AS_BELIEVED, Arrival, Durations, Scenario
from weft.simulation.simulate import Simulation

FEW, MANY = 300, 3_000
"""Tasks that wait."""

SETTLED, EVENTS = 30, 12
"""Events before anything is counted, and events that are counted."""

WITHIN = 1.25
"""How many times as many lines: as events come in another order, a little more or less is done."""

OWN_BOUNDS = {
    "foft": "S5 section 3 wants the end of each workflow if it had all machines: all that is left of it is placed",
    "shared-plans": "its default order of workflows is that of foft",
    "basic": "behind a task that ended unexpectedly the whole queue of its machine moves",
}
"""Policies that go beyond the bound of design section 6 as they are by default, and why."""

VARIANTS = [
    "shared-plans:inter=fcfs",
    "shared-plans:inter=g-heft",
    "shared-plans:inter=srpt:rounds=tasks",
    "layered:inter=aging:rounds=tasks:intra=priority",
    "layered:inter=srpt:intra=index",
    "lazy:by=transfer:sizing=frugal",
    "manager-worker:fastest=true",
    "plan:strict=true",
]
"""Options that lead another way through the policies."""

COUNTED = tuple(str(Path(weft.__file__).parent / room) for room in ("policies", "engine"))

UNEQUAL = platform(*[{"speed": 1.0}] * 4, *[{"speed": 3.0}] * 4)
SURPRISES = Scenario(durations=Durations(noise=0.2))


class Lines:
    """Counts the lines of policies and engine that are executed, those of comprehensions once per element."""

    def __init__(self):
        self.counted = 0

    def enter(self, frame, event, argument):
        return self._line if frame.f_code.co_filename.startswith(COUNTED) else None

    def _line(self, frame, event, argument):
        self.counted += 1
        return self._line

    def during(self, function, *arguments):
        """Call something and count its lines."""
        before = sys.gettrace()
        sys.settrace(self.enter)
        try:
            return function(*arguments)
        finally:
            sys.settrace(before)


def pairs(waiting):
    """Give two tasks after each other, many times."""
    sweep = {"k": f"1..{waiting // 2}"}
    return {"a": {"sweep": sweep, "work": 10}, "b": {"sweep": sweep, "work": 7, "after": "a[k]"}}


def lines_per_event(monkeypatch, policy, waiting, scenario=SURPRISES):
    """Count the lines per event while two workflows compete and so many tasks wait."""
    lines, handle, events = Lines(), Engine.handle, 0

    def counting(engine, event, now):
        nonlocal events
        events += 1
        return lines.during(handle, engine, event, now) if events > SETTLED else handle(engine, event, now)

    monkeypatch.setattr(Engine, "handle", counting)
    library = Library({key: instance(pairs(waiting // 2), UNEQUAL) for key in "vw"})
    arrivals = [Arrival(workflow=key) for key in "vw"]
    simulation = Simulation(library, arrivals, policy_named(policy), Settings(), scenario)
    engine = simulation.run(stop=lambda _: events >= SETTLED + EVENTS)
    assert sum(run.unfinished for run in engine.state.runs) > 0.7 * waiting, "they still wait"
    monkeypatch.undo()
    return lines.counted / EVENTS


@pytest.mark.parametrize("policy", [*sorted(set(POLICIES) - set(OWN_BOUNDS)), *VARIANTS])
def test_an_event_costs_the_same_however_many_tasks_wait(monkeypatch, policy):
    few, many = (lines_per_event(monkeypatch, policy, waiting) for waiting in (FEW, MANY))
    assert few > 0
    assert many <= WITHIN * few


def test_basic_does_not_look_through_queues_that_move_as_expected(monkeypatch):
    few, many = (lines_per_event(monkeypatch, "basic", waiting, AS_BELIEVED) for waiting in (FEW, MANY))
    assert many <= WITHIN * few


@pytest.mark.parametrize("policy", OWN_BOUNDS)
def test_who_goes_beyond_the_bound_grows_with_the_tasks_and_no_faster(monkeypatch, policy):
    few, many = (lines_per_event(monkeypatch, policy, waiting) for waiting in (FEW, MANY))
    assert WITHIN * few < many <= 1.2 * MANY / FEW * few
