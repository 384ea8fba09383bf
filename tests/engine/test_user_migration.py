"""Migration at the request of the user: now, when a busy machine is free, or refused without effect."""

from __future__ import annotations

import pytest

from driven_engine import DrivenEngine, command_texts, platform_of
from weft.engine import messages as ev
from weft.engine.explanation import list_reservations
from weft.engine.replan.remainder import find_violators, prepare_replan
from weft.engine.state.snapshot import restore_snapshot, take_snapshot
from weft.engine.states import Admission
from weft.planners.planner import Budget, make_planner
from weft.platform.machine import Machine
from weft.platform.platform import Platform
from weft.randomness import generator
from weft.workflow.builder import Builder
from weft.workflow.settings import RunSettings


def jobs(number, **facets):
    flow = Builder("jobs")
    flow.task("job", sweep={"i": f"1..{number}"}, **{"work": 100, **facets})
    return flow.build()


def running(number, platform, **facets):
    """Return an engine in which as many jobs as possible have started."""
    engine = DrivenEngine(jobs(number, **facets), platform)
    for attempt in list(engine.engine.state.attempts):
        engine.handle(ev.Started(attempt=attempt))
    return engine


def migrate(engine, task=0, machine=None):
    """Send a request; return the commands as text and the reason of a refusal."""
    commands = engine.engine.handle(
        ev.RequestReceived(what="migrate", run=0, task=task, machine=machine), engine.now
    )
    refused = [command.reason for command in commands if isinstance(command, ev.Refuse)]
    return command_texts(commands), refused


def leave(engine, old):
    """Report the end of a cancelled attempt, and the removal of its files."""
    words = engine.handle(ev.Ended(attempt=old, exit_code=None, cause="cancelled"))
    return words + engine.handle(ev.CleanedUp(attempt=old))


def test_task_can_be_moved_again():
    engine = running(1, platform_of(1, 1, 1))
    for old, target in ((0, 1), (1, 2), (2, 0)):
        words, refused = migrate(engine, machine=target)
        assert refused == []
        assert f"assign {old + 1} m{target} after {old}: user" in words
        assert f"start {old + 1} m{target} from 0" in leave(engine, old)
        engine.handle(ev.Started(attempt=old + 1))


def test_task_that_is_being_moved_is_not_moved_again():
    engine = running(1, platform_of(1, 1, 1))
    migrate(engine, machine=1)
    assert migrate(engine, machine=2)[1] == ["migrate: it is being moved or ended already"]


def test_nothing_changes_if_no_other_machine_can_run_the_task():
    engine = running(2, platform_of(1, 1))
    before = take_snapshot(engine.engine.state)
    words, refused = migrate(engine)
    assert (words, refused) == (["note refused"], ["migrate: no other machine can run it now"])
    assert take_snapshot(engine.engine.state) == before
    assert engine.state(0) == "RUNNING"


@pytest.mark.parametrize(
    ("task", "machine", "reason"),
    [
        (0, 0, "it is there already"),
        (0, 2, "m2: it is down"),
        (0, 1, "m1 cannot run it: nodes, cores, memory, service or requirements do not fit"),
        (3, 1, "it is ready, not running"),
    ],
)
def test_impossible_migration_request_is_refused_and_the_reason_is_stated(task, machine, reason):
    names = ("m0", "m1", "m2", "m3")
    machines = [Machine(name=name, memory=1e9 if name == "m1" else 8e9) for name in names]
    engine = running(5, Platform(machines=tuple(machines)), memory="4GB")
    engine.handle(ev.MachineChanged(machine=2, up=False))
    words, refused = migrate(engine, task=task, machine=machine)
    assert (words, refused) == (["note refused"], [f"migrate: {reason}"])


def test_task_migrates_to_a_busy_machine_when_the_machine_becomes_free():
    engine = running(3, platform_of(1, 1))
    words, refused = migrate(engine, machine=1)
    assert (words, refused) == (["note awaits"], [])
    assert engine.state(0) == "RUNNING"
    words = engine.handle(ev.Ended(attempt=1), at=100.0)
    # The third job does not get the node.
    assert "assign 2 m1 after 0: user" in words
    assert "cancel 0 m0: user" in words
    assert not any(word.startswith("assign 3 m1") for word in words)
    assert "start 2 m1 from 0" in leave(engine, 0)


def test_free_nodes_of_a_busy_machine_are_reserved_until_enough_nodes_are_free():
    machines = (Machine(name="m0", nodes=2), Machine(name="m1", nodes=2))
    flow = Builder("wide")
    flow.task("wide", work=100, nodes=2)
    flow.task("narrow", sweep={"i": "1..4"}, work=100, after=[])
    engine = DrivenEngine(flow.build(), Platform(machines=machines))
    for attempt in list(engine.engine.state.attempts):
        engine.handle(ev.Started(attempt=attempt))
    wide = engine.run.compiled.names.index("wide")
    there = engine.engine.state.attempts[engine.run.attempt_of[wide]].machine
    target = 1 - there
    others = [each.number for each in engine.engine.state.attempts.values() if each.machine == target]
    assert len(others) == 2
    migrate(engine, task=wide, machine=target)
    words = engine.handle(ev.Ended(attempt=others[0]), at=50.0)
    assert not any(word.startswith("assign") for word in words)
    words = engine.handle(ev.Ended(attempt=others[1]), at=60.0)
    assert any(word.endswith(": user") and word.startswith("assign") for word in words)


def test_machine_is_no_longer_awaited_after_the_task_has_ended_or_the_machine_is_lost():
    for event in (ev.Ended(attempt=0), ev.MachineChanged(machine=1, up=False)):
        engine = running(3, platform_of(1, 1))
        migrate(engine, machine=1)
        engine.handle(event, at=10.0)
        assert not engine.engine.state.machines[1].awaited_by
    assert engine.state(0) == "RUNNING"


def test_another_request_replaces_the_awaited_machine():
    engine = running(3, platform_of(1, 1, 1))
    migrate(engine, machine=1)
    migrate(engine, machine=2)
    assert [bool(machine.awaited_by) for machine in engine.engine.state.machines] == [False, False, True]


def test_snapshot_keeps_the_awaited_machine():
    engine = running(3, platform_of(1, 1))
    migrate(engine, machine=1)
    fresh = DrivenEngine(jobs(3), platform_of(1, 1)).engine.state
    record = take_snapshot(engine.engine.state)
    other = type(fresh)(
        fresh.library, fresh.library["w"].instance, fresh.order, planned=False, layers=fresh.layers
    )
    restore_snapshot(other, record)
    assert list(other.machines[1].awaited_by) == [0]
    assert other.machines[1].free_capacity() is None


def plan(engine):
    """Plan the rest of the run, and let the engine adopt the plan; return the plan and the commands."""
    state = engine.engine.state
    stored = prepare_replan(state, 0).answered(make_planner("heft"), Budget(steps=20), generator(0))
    state.plans[stored.key] = stored
    ready = ev.PlanReady(plan=stored.key, run=0, version=engine.run.version)
    return stored.lines, engine.handle(ready)


def planned(number, platform):
    """Return an engine that follows a plan; tasks that no machine can start now are queued."""
    settings = RunSettings(begins_at_once=True)
    engine = DrivenEngine(jobs(number), platform, settings, policy="plan")
    plan(engine)
    return engine


def test_new_plan_keeps_the_machine_that_the_user_has_chosen():
    engine = planned(4, platform_of(1, 1, 1))
    engine.handle(ev.MachineChanged(machine=2, admission=Admission.DRAINED))
    plan(engine)
    queued = [each for each in engine.engine.state.attempts.values() if each.queued]
    (other,) = {0, 1} - {queued[0].machine}
    task = queued[0].task
    assert migrate(engine, task=task, machine=other) == (["note awaits"], [])
    # Machine 2 is free now, and the tasks in the queues of the others are planned there.
    engine.handle(ev.MachineChanged(machine=2, admission=Admission.OPEN), at=10.0)
    lines, words = plan(engine)
    name = engine.run.compiled.names[task]
    assert lines[name].machine == other
    assert not any(word.startswith(f"settle {task} ") for word in words)
    assert [each.task for each in list_reservations(engine.engine.state)] == [name]
    running = engine.engine.state.machines[other].holders
    words = engine.handle(ev.Ended(attempt=next(iter(running))), at=100.0)
    assert any(word.startswith("assign") and word.endswith(": user") for word in words)
    assert list_reservations(engine.engine.state) == []


def test_new_plan_does_not_move_a_slow_task_that_the_user_moves():
    engine = running(2, platform_of(1, 1))
    engine.engine.state.attempts[0].violating = True
    assert find_violators(engine.engine.state, engine.run) == [0]
    migrate(engine, machine=1)
    assert find_violators(engine.engine.state, engine.run) == []


CALLED_OFF = {
    "it does not move: m1 is lost": ev.MachineChanged(machine=1, up=False),
    "it does not move: m1 is drained": ev.MachineChanged(machine=1, admission=Admission.DRAINED),
    "it does not move to m1: m0 is lost; retry 1 of 10": ev.MachineChanged(machine=0, up=False),
}


@pytest.mark.parametrize("reason", CALLED_OFF)
def test_requested_migration_is_called_off_with_the_reason(reason):
    engine = running(3, platform_of(1, 1))
    migrate(engine, machine=1)
    commands = engine.engine.handle(CALLED_OFF[reason], 10.0)
    assert [command.reason for command in commands if isinstance(command, ev.AwaitMachine)] == [reason]
    assert list_reservations(engine.engine.state) == []


def test_task_does_not_move_to_a_machine_that_was_drained_meanwhile():
    engine = running(2, platform_of(1, 1))
    migrate(engine, machine=1)
    engine.handle(ev.MachineChanged(machine=1, admission=Admission.DRAINED))
    assert engine.handle(ev.Ended(attempt=1), at=20.0) == ["settle 1 COMPLETED"]


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (ev.RequestReceived(what="hold", run=0, task=2), "held by the user"),
        (ev.MachineChanged(machine=0, admission=Admission.REMOVED), "m0 was removed"),
    ],
)
def test_requested_migration_of_a_queued_task_is_called_off_with_its_attempt(event, reason):
    engine = planned(3, platform_of(1, 1))
    (queued,) = [each for each in engine.engine.state.attempts.values() if each.queued]
    assert (queued.task, queued.machine) == (2, 0)
    migrate(engine, task=2, machine=1)
    commands = engine.engine.handle(event, 10.0)
    texts = [command.reason for command in commands if isinstance(command, ev.AwaitMachine)]
    assert texts == [f"it does not move to m1: {reason}"]
