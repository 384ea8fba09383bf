"""User requests become events and are answered in the transaction of their last entry."""

from __future__ import annotations

import json

import pytest

from driven_engine import DrivenEngine, platform_of
from weft.engine import messages as ev
from weft.engine.journal import JournalEntry
from weft.engine.states import Admission, TaskState
from weft.platform.file_format import platform_document
from weft.repository.database import open_database
from weft.repository.journal import JournalHeader
from weft.repository.requests import RequestTable
from weft.runtime.execution import RequestHandler
from weft.workflow.builder import Builder
from weft.workflow.settings import RunSettings


def on_this_computer(*speeds):
    return platform_of(*speeds, backend={"kind": "local"})


class Scene:
    """An engine with a run of three tasks, and a user in another process."""

    def __init__(self, path):
        flow = Builder("flow")
        flow.task("first", work=10)
        flow.task("many", sweep={"k": "1..2"}, after="first", work=10)
        built = flow.build()
        self.hand = DrivenEngine(built, platform_of(1))
        self.header = JournalHeader(
            policy="fcfs",
            settings=RunSettings(),
            seed=0,
            planner="heft",
            platform=on_this_computer(1),
            workflows={"w": built},
        )
        self.engine_side = open_database(path, create=True)
        self.user_side = open_database(path)
        self.user = RequestTable(self.user_side)
        self.handler = RequestHandler(RequestTable(self.engine_side), self.hand.engine, self.header, 7)

    def request(self, what, execution=7, **how):
        return self.user.insert(what, execution=execution, **how)

    def decide(self):
        """Handle all pending requests as the driver loop does; return their events."""
        events = list(self.handler.take())
        for number, event in enumerate(events):
            commands = self.hand.engine.handle(event, self.hand.now + 1.0)
            self.handler.decided(
                JournalEntry(sequence=number, now=self.hand.now + 1.0, event=event, commands=tuple(commands))
            )
        self.engine_side.commit()
        return events

    def close(self):
        self.engine_side.close()
        self.user_side.close()


@pytest.fixture
def scene(tmp_path):
    made = Scene(tmp_path / "weft.db")
    yield made
    made.close()


def test_a_request_for_a_task_kind_applies_to_all_its_tasks_and_is_answered_once(scene):
    number = scene.request("hold", run=0, task="many")
    assert [event.task for event in scene.handler.take()] == [1, 2]
    assert scene.handler.take() == []  # already taken, not handled yet
    for task in (1, 2):
        assert scene.user.reply(number) is None
        event = scene.handler._taken[0][1]
        assert event == ev.RequestReceived(what="hold", run=0, task=task)
        commands = tuple(scene.hand.engine.handle(event, 1.0))
        scene.handler.decided(JournalEntry(sequence=task, now=1.0, event=event, commands=commands))
        scene.engine_side.commit()
    reply = scene.user.reply(number)
    assert (reply.granted, reply.text) == (True, "done")


def test_request_for_a_sweep_is_granted_for_those_subtasks_that_allow_it(scene):
    scene.hand.handle(ev.Ended(attempt=0), at=10.0)  # one task of the sweep starts, the other one waits
    waiting = next(
        task for task in (1, 2) if scene.hand.run.state[task] in (TaskState.WAITING, TaskState.READY)
    )
    started = scene.hand.run.name(3 - waiting)
    number = scene.request("hold", run=0, task="many")
    scene.decide()
    reply = scene.user.reply(number)
    assert (reply.granted, reply.text) == (True, f"1 of 2 tasks are held; not {started} (it is submitted)")
    assert scene.hand.run.state[waiting] == TaskState.HELD
    number = scene.request("release", run=0, task="many")
    scene.decide()
    reply = scene.user.reply(number)
    assert (reply.granted, reply.text) == (True, f"1 of 2 tasks are released; not {started} (it is not held)")
    number = scene.request("release", run=0, task="many")
    scene.decide()
    reply = scene.user.reply(number)
    assert (reply.granted, reply.text) == (False, "release: it is not held")


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ({"what": "hold", "task": "first"}, "hold: it is submitted"),
        ({"what": "hold", "task": "frist"}, "there is no task 'frist'; did you mean 'first'?"),
        ({"what": "migrate", "task": "first", "machine": "m7"}, "there is no machine 'm7'"),
        ({"what": "migrate", "task": "many[1]"}, "migrate: it is waiting, not running"),
        ({"what": "dance"}, "unknown request 'dance'; known: cancel, hold, release, migrate, resume"),
        (
            {"what": "cancel", "run": 3},
            "there is no run 3 in this execution; list the runs with `weft status`",
        ),
    ],
)
def test_invalid_requests_are_refused_and_the_reason_is_stated(scene, how, text):
    number = scene.request(**{"run": 0, **how})
    scene.decide()
    reply = scene.user.reply(number)
    assert (reply.granted, reply.text) == (False, text)


def test_requests_for_other_executions_are_ignored(scene):
    number = scene.request("cancel", execution=8)
    assert scene.decide() == []
    assert scene.user.reply(number) is None


def test_requests_for_ended_runs_are_refused(scene):
    first, second, third = scene.request("cancel"), scene.request("hold", run=0), scene.request("release")
    events = scene.decide()
    assert events[0].what == "cancel"
    assert scene.user.reply(first).granted
    scene.hand.handle(ev.Ended(attempt=0, exit_code=None, cause="cancelled"), at=2.0)
    again = scene.request("hold", run=0)
    every = scene.request("release")
    scene.decide()
    assert scene.user.reply(again).text == "the run has ended (cancelled)"
    assert scene.user.reply(every).text == "all runs have ended"
    assert scene.user.reply(second) is not None
    assert scene.user.reply(third) is not None


def test_second_request_to_drain_a_machine_is_refused(scene):
    first, again = scene.request("drain", machine="m0"), scene.request("drain", machine="m9")
    (event,) = scene.decide()
    assert (event.machine, event.admission) == (0, Admission.DRAINED)
    assert scene.user.reply(first).granted
    assert scene.user.reply(again).text == "there is no machine 'm9'"
    again = scene.request("drain", machine="m0")
    assert scene.decide() == []
    assert scene.user.reply(again).text == "m0 is drained already"


def test_request_to_join_a_machine_is_answered_after_the_platform_contains_it(scene):
    text = json.dumps(platform_document(on_this_computer(1, 2)))
    number = scene.request("join", machine=text)
    assert scene.decide() == []
    assert scene.user.reply(number) is None
    assert scene.handler.joining.absent == ("m1",)
    assert [each.name for each in scene.handler.joining.platform.machines] == ["m0", "m1"]


def test_machine_that_cannot_join_is_refused_and_nothing_changes(scene):
    other = platform_of(1, 2, backend={"kind": "simulation"})
    number = scene.request("join", machine=json.dumps(platform_document(other)))
    assert scene.decide() == []
    assert scene.handler.joining is None
    assert "runs no programs" in scene.user.reply(number).text
    known = scene.request("join", machine=json.dumps(platform_document(on_this_computer(1))))
    assert scene.decide() == []
    assert scene.user.reply(known).text == "the machines have joined already"
