"""Machines that the user drains, removes and opens, and that join, in the engine."""

from __future__ import annotations

import json

from driven_engine import DrivenEngine, one_task, platform_of
from weft.engine import messages as ev
from weft.engine.engine import Engine
from weft.engine.journal import decode_message, encode_message
from weft.engine.state.compiled import WorkflowLibrary
from weft.engine.state.snapshot import restore_snapshot, take_snapshot
from weft.engine.states import Admission
from weft.instance.compilation import compile_instance
from weft.policies.policy import make_policy
from weft.workflow.checks import check_and_unfold

SWEPT = {"sweep": {"i": "1..3"}, "outputs": {"result.{i}": 10}}


def admitted(machine: int, admission: Admission) -> ev.MachineChanged:
    return ev.MachineChanged(machine=machine, admission=admission, reason="by the user")


def test_drained_machine_keeps_its_running_task_and_gets_no_further_task():
    engine = DrivenEngine(one_task(**SWEPT), platform_of(1, 1))
    engine.handle(ev.Started(attempt=0))
    engine.handle(ev.Started(attempt=1))
    assert engine.handle(admitted(0, Admission.DRAINED), at=1) == []
    assert engine.engine.state.obstacle(0) == "it is drained"
    words = engine.handle(ev.Ended(attempt=0, exit_code=0), at=2)
    assert not any(word.startswith("assign") for word in words)
    words = engine.handle(admitted(0, Admission.OPEN), at=3)
    assert any(word.startswith("assign 2 m0") for word in words)


def test_running_task_migrates_from_a_removed_machine_to_a_free_machine():
    engine = DrivenEngine(one_task(), platform_of(2, 1))
    engine.handle(ev.Started(attempt=0))
    words = engine.handle(admitted(0, Admission.REMOVED), at=1)
    assert words == ["cancel 0 m0: user", "assign 1 m1 after 0: user"]


def test_task_of_the_only_machine_waits_after_its_removal():
    engine = DrivenEngine(one_task(), platform_of(1))
    engine.handle(ev.Started(attempt=0))
    assert engine.handle(admitted(0, Admission.REMOVED), at=1) == ["cancel 0 m0: user"]
    engine.handle(ev.Ended(attempt=0, exit_code=None, cause="cancelled"), at=2)
    assert engine.state() == "READY"
    words = engine.handle(admitted(0, Admission.OPEN), at=3)
    assert any(word.startswith("assign 1 m0") for word in words)


def restored(platform, record, absent=()):
    """Return the state of an engine on a platform after a snapshot was restored."""
    instance = compile_instance(check_and_unfold(one_task()), platform)
    library = WorkflowLibrary({"w": instance})
    state = Engine(library, instance, make_policy("fcfs"), absent=absent).state
    restore_snapshot(state, json.loads(json.dumps(record)))
    return state


def test_admission_of_machines_is_restored_from_snapshots_and_journals():
    engine = DrivenEngine(one_task(), platform_of(1, 1))
    engine.handle(admitted(1, Admission.DRAINED), at=1)
    state = restored(platform_of(1, 1), take_snapshot(engine.engine.state))
    assert [each.admission for each in state.machines] == [Admission.OPEN, Admission.DRAINED]
    event = admitted(1, Admission.REMOVED)
    assert decode_message(json.loads(json.dumps(encode_message(event)))) == event


def test_machine_that_joined_after_a_snapshot_is_absent_in_the_restored_state():
    before = take_snapshot(DrivenEngine(one_task(), platform_of(1)).engine.state)
    state = restored(platform_of(1, 5), before, absent=("m1",))
    assert [each.admission for each in state.machines] == [Admission.OPEN, Admission.ABSENT]
    assert state.obstacle(1) == "it has not joined yet"
    assert not state.machines.is_usable(1)
