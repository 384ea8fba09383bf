"""The driver loop: journal before commands, commands in order, and the standstill rule."""

from __future__ import annotations

from typing import ClassVar

import pytest

from planning_examples import instance, platform
from weft.backends.backend import Capabilities
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.engine.engine import Engine
from weft.engine.state.compiled import WorkflowLibrary
from weft.policies.policy import make_policy
from weft.runtime import driver
from weft.runtime.driver import DriverLoop
from weft.workflow.settings import RunSettings


class ScriptedBackend:
    """A backend on a real clock that reports given events and logs the commands it receives."""

    kind: ClassVar[str] = "scripted"
    capabilities: ClassVar[Capabilities] = Capabilities(
        runs_programs=False,
        virtual_time=False,
        reattaches=False,
        limits_time=False,
        limits_memory=False,
        signals=False,
        own_disk=False,
    )

    def __init__(self, log):
        self.log = log
        self.events = []
        self.waited_s = []

    def execute(self, commands):
        self.log += [type(command).__name__ for command in commands]

    def confirm_ends(self, attempts):
        self.log.append(f"confirmed {list(attempts)}")

    def poll(self, timeout_s):
        self.waited_s.append(timeout_s)
        events, self.events = self.events, []
        return events


class Parts:
    """A clock set by the test, a plan service and a journal, all writing to one log."""

    busy = False

    def __init__(self):
        self.log = []
        self.now_s = 0.0
        self.scheduled = []
        self.commits = 0
        self.durable = float("inf")

    def now(self):
        return self.now_s

    def schedule(self, event, at_s):
        self.scheduled.append((at_s, event))

    def set_timer(self, name, at_s):
        self.log.append(f"timer at {at_s:g}")

    def due(self):
        due = [event for at_s, event in self.scheduled if at_s <= self.now_s]
        self.scheduled = [each for each in self.scheduled if each[0] > self.now_s]
        return due

    def next_s(self):
        return min((at_s for at_s, _ in self.scheduled), default=float("inf"))

    def request(self, command):
        self.log.append("plan")

    def answers(self):
        return []

    def append(self, entry, state):
        self.log.append(f"entry {entry.sequence}")

    def commit(self):
        self.log.append("commit")
        self.commits += 1
        return self.commits

    def request_sync(self, position):
        self.log.append(f"sync {position}")

    def wait_until_durable(self):
        self.log.append("wait")
        self.durable = self.commits


@pytest.fixture
def parts():
    return Parts()


@pytest.fixture
def backend(parts):
    return ScriptedBackend(parts.log)


@pytest.fixture
def loop(parts, backend):
    made = instance({"a": {"work": 4}}, platform({}))
    library = WorkflowLibrary({"w": made})
    engine = Engine(library, made, make_policy("fcfs"), RunSettings(begins_at_once=True))
    return DriverLoop(engine, backend, parts, parts, journal=parts, sequence=7)


def submit(loop, at_s=0.0):
    loop.expect([(at_s, ev.Submitted(run=0, workflow="w"))])


def test_entries_are_committed_before_their_commands_are_executed(loop, parts):
    submit(loop)
    loop.turn(0.0)
    assert parts.log[:2] == ["entry 7", "commit"]
    assert "Start" in parts.log[2:]


def test_a_halting_loop_records_decisions_without_executing_them(loop, parts):
    submit(loop)
    loop.halting = True
    loop.turn(0.0)
    assert parts.log == ["entry 7", "commit"]


def test_timers_plans_and_other_commands_are_executed_in_order(loop, parts):
    loop.resume(
        [
            cm.Discover(),
            cm.SetTimer(timer="poll", at_s=5.0),
            cm.Discover(),
            cm.Replan(run=0, version=0, reason="submitted"),
            cm.Discover(),
        ]
    )
    assert parts.log == ["Discover", "timer at 5", "Discover", "plan", "Discover"]


def test_execution_does_not_end_before_all_its_runs_are_submitted(loop, parts):
    submit(loop, at_s=3.0)
    loop.turn(0.0)
    assert not loop.over
    assert loop.engine.state.runs == []
    parts.now_s = 3.0
    loop.turn(0.0)
    assert len(loop.engine.state.runs) == 1


def test_loop_does_not_wait_for_the_backend_while_events_are_due(loop, backend):
    loop.turn(0.2)
    submit(loop)
    loop.turn(0.2)
    assert backend.waited_s == [0.2, 0.0]


def test_run_waits_for_a_lost_machine_until_the_timeout(loop, parts, backend):
    submit(loop, at_s=1.0)
    backend.events = [ev.MachineChanged(machine=0, up=False)]
    loop.turn(0.0)
    stuck = []
    for parts.now_s in (1.0, 4.0, 100.0, 600.9, 604.1, 700.0):
        loop.turn(0.0)
        stuck.append(loop.stuck)
    assert loop.engine.state.active
    assert stuck == [False, False, False, False, True, True]


def test_idle_events_count_towards_the_standstill_limit(loop, monkeypatch):
    monkeypatch.setattr(driver, "_PATIENCE_EVENTS", 1000)
    idle = ScriptedBackend([])
    idle.busy = False
    rule = driver.StandstillRule(loop.engine, idle, Parts(), Parts())
    replan = cm.Replan(run=0, version=1, reason="machines")
    assert not any(rule.count_event([]) for _ in range(999))
    assert rule.count_event([])
    rule = driver.StandstillRule(loop.engine, idle, Parts(), Parts())
    assert [rule.count_event([replan]) for _ in range(5)] == [False, False, False, False, True]
    idle.busy = True
    assert not rule.count_event([])
    idle.busy = False
    assert not rule.count_event([])
