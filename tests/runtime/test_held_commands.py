"""Commands that rely on the end of a program are held until that end is on disk; others are not."""

from __future__ import annotations

from typing import ClassVar

import pytest

from planning_examples import instance, platform
from runtime.test_driver import Parts, ScriptedBackend
from weft.backends.backend import Capabilities
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.engine.engine import Engine
from weft.engine.state.compiled import WorkflowLibrary
from weft.policies.policy import make_policy
from weft.runtime.driver import DriverLoop, HeldCommands
from weft.workflow.settings import RunSettings


class RecordingBackend(ScriptedBackend):
    """A backend that keeps the commands it receives, and the ends that were confirmed."""

    capabilities: ClassVar[Capabilities] = ScriptedBackend.capabilities

    def __init__(self):
        super().__init__([])
        self.commands = []
        self.confirmed = []

    def execute(self, commands):
        self.commands += commands

    def confirm_ends(self, attempts):
        self.confirmed += attempts

    def started(self):
        return [command.task for command in self.commands if isinstance(command, cm.Start)]


@pytest.fixture
def journal():
    made = Parts()
    made.durable = 0
    return made


@pytest.fixture
def backend():
    return RecordingBackend()


def drive(tasks, backend, journal, *, nodes=2, loops=(), **settings):
    """Return a loop that has started the first tasks of a workflow."""
    made = instance(tasks, platform({"nodes": nodes}), loops)
    engine = Engine(
        WorkflowLibrary({"w": made}),
        made,
        make_policy("fcfs"),
        RunSettings(begins_at_once=True, **settings),
    )
    loop = DriverLoop(engine, backend, journal, journal, journal=journal)
    loop.expect([(0.0, ev.Submitted(run=0, workflow="w"))])
    loop.turn(0.0)
    return loop


def end(loop, backend, *tasks, **how):
    """Report the ends of the current attempts of tasks, all in one turn."""
    run = loop.engine.state.runs[0]
    backend.events = [ev.Ended(attempt=run.attempt_of[task], **how) for task in tasks]
    loop.turn(0.0)


CHAIN = {"a": {"work": 4}, "b": {"work": 4, "after": ["a"]}}


def test_start_of_a_task_waits_until_the_end_of_its_predecessor_is_on_disk(backend, journal):
    loop = drive(CHAIN, backend, journal)
    end(loop, backend, 0)
    assert backend.started() == [0]
    assert journal.log[-1] == "sync 2", "the sync is requested without delay"
    loop.turn(0.0)
    assert backend.started() == [0], "nothing changes while the sync runs"
    assert backend.confirmed == []
    journal.durable = 2
    loop.turn(0.0)
    assert backend.started() == [0, 1]
    assert backend.confirmed == [0]


def test_start_of_an_independent_task_does_not_wait_for_a_sync(backend, journal):
    loop = drive({name: {"work": 4} for name in "abcd"}, backend, journal)
    assert backend.started() == [0, 1]
    end(loop, backend, 0, 1)
    assert backend.started() == [0, 1, 2, 3]
    assert not any(line.startswith("sync") for line in journal.log), "nothing waits for a sync"


def test_ends_are_confirmed_only_when_they_are_on_disk(backend, journal):
    loop = drive({name: {"work": 4} for name in "abcd"}, backend, journal)
    end(loop, backend, 0)
    end(loop, backend, 1)
    journal.durable = 2
    loop.turn(0.0)
    assert backend.confirmed == [0]
    journal.durable = 3
    loop.turn(0.0)
    assert backend.confirmed == [0, 1]


def test_one_sync_releases_the_successors_of_all_tasks_that_ended_together(backend, journal):
    tasks = {
        "a": {"work": 4},
        "b": {"work": 4},
        "c": {"work": 4, "after": ["a"]},
        "d": {"work": 4, "after": ["b"]},
    }
    loop = drive(tasks, backend, journal)
    end(loop, backend, 0, 1)
    assert backend.started() == [0, 1]
    journal.durable = 2
    loop.turn(0.0)
    assert sorted(backend.started()) == [0, 1, 2, 3]


def test_outputs_are_published_when_the_end_of_their_attempt_is_on_disk(backend, journal):
    tasks = {"a": {"work": 4, "outputs": {"x": {"to": "y"}}}}
    loop = drive(tasks, backend, journal)
    end(loop, backend, 0)
    assert not any(isinstance(command, cm.StageOut) for command in backend.commands)
    journal.durable = 2
    loop.turn(0.0)
    assert any(isinstance(command, cm.StageOut) for command in backend.commands)


def test_start_of_a_retry_waits_until_the_end_of_the_previous_attempt_is_on_disk(backend, journal):
    loop = drive({"a": {"work": 4}}, backend, journal)
    end(loop, backend, 0, exit_code=99)
    assert backend.started() == [0]
    journal.durable = 2
    loop.turn(0.0)
    assert backend.started() == [0, 0]


def test_later_iteration_starts_only_after_the_ends_of_all_earlier_tasks_are_on_disk(backend, journal):
    made = instance({"a": {"work": 4}, "b": {"work": 4}}, platform({"nodes": 2}))
    engine = Engine(WorkflowLibrary({"w": made}), made, make_policy("fcfs"), RunSettings())
    engine.handle(ev.Submitted(run=0, workflow="w"), 0.0)
    held = HeldCommands(engine.state)
    held.add_end(3, 0, (0, 0))
    place = {"run": 0, "task": 1, "machine": 0, "nodes": 1, "count": 1}
    first, second = (cm.Start(attempt=5 + each, iteration=each, **place) for each in (1, 2))
    assert list(held.pass_on([first, second])) == [first]
    assert held.position == 3
    assert held.release(3) == [second]


def test_commands_about_one_attempt_keep_their_order(backend, journal):
    loop = drive(CHAIN, backend, journal)
    end(loop, backend, 0)
    held, number = loop._held, loop.engine.state.runs[0].attempt_of[1]
    cancel = cm.Cancel(attempt=number, machine=0)
    signal = cm.Signal(attempt=99, what="suspend")
    assert list(held.pass_on([cancel, signal])) == [signal]
    released = held.release(2)
    assert [type(each).__name__ for each in released][-2:] == ["Start", "Cancel"]
    assert list(held.pass_on([cancel])) == [cancel], "nothing is held any more"


def test_settle_command_is_held_while_the_clean_up_of_the_same_task_is_held(backend, journal):
    loop = drive({"a": {"work": 4}}, backend, journal)
    held = loop._held
    held.add_end(2, 0, (0, 0))
    clean_up = cm.CleanUp(attempt=0, machine=0)
    settle = cm.Settle(run=0, task=0, state="ready")
    other = cm.Settle(run=0, task=1, state="ready")
    assert list(held.pass_on([clean_up, settle, other])) == [other]
    assert held.release(1) == []
    assert held.release(2) == [clean_up, settle]


def test_command_about_a_closed_attempt_is_held_while_its_start_is_held(backend, journal):
    loop = drive(CHAIN, backend, journal)
    end(loop, backend, 0)
    number = loop.engine.state.runs[0].attempt_of[1]
    loop.engine.state.attempts.pop(number)
    assert list(loop._held.pass_on([cm.CloseAttempt(attempt=number)])) == []


def test_halting_loop_executes_no_held_command(backend, journal):
    loop = drive(CHAIN, backend, journal)
    end(loop, backend, 0)
    loop.halting = True
    journal.durable = 2
    loop.turn(0.0)
    assert backend.started() == [0]
    assert backend.confirmed == [0], "the end is on disk all the same"


def test_finish_waits_for_the_sync_and_executes_the_held_commands(backend, journal):
    loop = drive(CHAIN, backend, journal)
    end(loop, backend, 0)
    loop.finish()
    assert "wait" in journal.log
    assert backend.started() == [0, 1]
    assert backend.confirmed == [0]


def test_failed_sync_stops_the_loop_before_held_commands_are_executed(backend, journal):
    class Failing(Parts):
        @property
        def durable(self):
            raise OSError("sync failed")

        @durable.setter
        def durable(self, position):
            pass

    loop = drive(CHAIN, backend, journal)
    end(loop, backend, 0)
    loop._journal = Failing()
    with pytest.raises(OSError, match="sync failed"):
        loop.turn(0.0)
    assert backend.started() == [0]
