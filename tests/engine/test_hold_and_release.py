"""Requests of users: hold and release tasks that have not started, refuse the rest."""

from __future__ import annotations

from driven_engine import DrivenEngine, one_task, platform_of
from weft.engine import messages as ev
from weft.workflow.builder import Builder


def hold(task=None):
    return ev.RequestReceived(what="hold", run=0, task=task)


def release(task=None):
    return ev.RequestReceived(what="release", run=0, task=task)


def two_tasks(**facets):
    flow = Builder("two")
    flow.task("first", work=10, machine="A")
    flow.task("second", work=10, machine="A", after="first", **facets)
    return flow.build()


def test_waiting_task_can_be_held_until_it_is_released():
    engine = DrivenEngine(two_tasks(), platform_of(1))
    assert engine.handle(hold(1)) == ["settle 1 HELD"]
    assert engine.handle(hold(1)) == []
    assert engine.handle(ev.Ended(attempt=0), at=10) == ["settle 0 COMPLETED"]
    words = engine.handle(release(1), at=20)
    assert words == ["settle 1 READY", "assign 1 m0", "start 1 m0 from 0"]


def test_task_in_the_queue_of_its_machine_can_be_held():
    flow = Builder("queued")
    for name in ("first", "second"):
        flow.task(name, work=10)
    engine = DrivenEngine(flow.build(), platform_of(1), policy="lazy:by=finish")
    queued = next(task for task in (0, 1) if engine.run.attempt_of.get(task) == 1)
    assert engine.handle(hold(queued)) == [f"settle {queued} HELD"]
    assert not engine.run.attempt_of.get(queued)
    engine.handle(ev.Ended(attempt=0), at=10)
    words = engine.handle(release(queued), at=11)
    assert words == [f"settle {queued} READY", "assign 2 m0", "start 2 m0 from 0"]


def test_task_that_waits_for_data_is_held_after_its_data_requests_are_cancelled():
    staged = one_task(inputs=[{"file": "db", "from": "db", "size": 5}])
    engine = DrivenEngine(staged, platform_of(1))
    assert engine.handle(hold(0)) == ["cancel 0 m0: held"]
    assert engine.handle(ev.Ended(attempt=0, exit_code=None, cause="cancelled"))[0] == "settle 0 HELD"
    assert engine.handle(release(0))[0] == "settle 0 READY"


def test_hold_of_a_running_task_is_refused():
    engine = DrivenEngine(two_tasks(), platform_of(1))
    assert engine.handle(hold(0)) == ["note refused"]
    assert engine.handle(hold()) == ["settle 1 HELD"]
    assert engine.handle(release(0)) == ["note refused"]
    assert engine.handle(release()) == ["settle 1 WAITING"]
