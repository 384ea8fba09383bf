"""A task that has not started on a machine uses no retry when the machine is lost, drained or removed."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from driven_engine import DrivenEngine, one_task, platform_of, simulated
from weft.backends.simulation.scenario import Failure, Scenario
from weft.engine import messages as ev
from weft.engine.engine import Engine
from weft.engine.history import History
from weft.engine.invariants import check_engine
from weft.engine.journal import JournalEntry
from weft.engine.state.compiled import WorkflowLibrary
from weft.engine.states import Admission
from weft.instance.compilation import compile_instance
from weft.policies.policy import make_policy
from weft.workflow.builder import Builder
from weft.workflow.checks import check_and_unfold
from weft.workflow.settings import RunSettings
from weft.workflow.task import CAUSES

NO_RETRIES = dict.fromkeys(CAUSES, 0)
LOST = ev.MachineChanged(machine=0, up=False, reason="no answer")


def waiting_for_data():
    """Return an engine whose task waits for its data on the faster of two machines."""
    inputs = [{"file": "db", "from": "https://x/db", "size": 1000}]
    engine = DrivenEngine(one_task(inputs=inputs), platform_of(2, 1), RunSettings(retries=NO_RETRIES))
    assert engine.state() == "PROLOG"
    return engine


def submitted():
    """Return an engine that has sent a start command, which is not confirmed."""
    engine = DrivenEngine(one_task(), platform_of(2, 1), RunSettings(retries=NO_RETRIES))
    assert engine.state() == "SUBMITTED"
    return engine


@pytest.mark.parametrize("begin", [waiting_for_data, submitted])
def test_unstarted_task_of_a_lost_machine_uses_no_retry(begin):
    engine = begin()
    words = engine.handle(LOST)
    assert words[0] == "settle 0 READY"
    assert any(word.startswith("assign 1 m1") for word in words)
    assert engine.run.facts_of(0).failures == {}
    engine.handle(ev.MachineChanged(machine=0, up=True), LOST)
    assert engine.run.facts_of(0).avoid == set()


@pytest.mark.parametrize("admission", [Admission.DRAINED, Admission.REMOVED])
def test_unstarted_task_of_a_closed_machine_uses_no_retry(admission):
    engine = waiting_for_data()
    changed = ev.MachineChanged(machine=0, admission=admission)
    assert engine.handle(changed) == [
        f"cancel 0 m0: m0 {'is' if admission == 'drained' else 'was'} {admission}"
    ]
    words = engine.handle(ev.Ended(attempt=0, exit_code=None, cause="cancelled"))
    assert any(word.startswith("assign 1 m1") for word in words)
    assert engine.run.facts_of(0).failures == {}


def test_cancelled_run_ends_as_cancelled_if_its_start_was_not_confirmed():
    engine = submitted()
    engine.handle(ev.RequestReceived(what="cancel", run=0))
    words = engine.handle(LOST)
    assert words == ["settle 0 CANCELLED", "finish cancelled"]


def recorded(settings, *events):
    """Return the state and history of an engine that handled these events, which were read from a journal."""
    instance = compile_instance(check_and_unfold(one_task()), platform_of(2, 1))
    engine = Engine(WorkflowLibrary({"w": instance}), instance, make_policy("fcfs"), settings)
    history = History()
    for number, event in enumerate((ev.Submitted(run=0, workflow="w"), *events)):
        entry = JournalEntry(sequence=number, now=float(number), event=event, commands=())
        read = JournalEntry.of_record(json.loads(json.dumps(entry.as_record())))
        commands = engine.handle(read.event, entry.now)
        check_engine(engine)
        history.take(replace(read, commands=tuple(commands)), engine.state)
    return engine.state, history.finish()


@pytest.mark.parametrize("started", [(), (0,), None])
def test_backend_says_which_programs_had_started(started):
    settings = RunSettings(retries={**NO_RETRIES, "lost": 1}, begins_at_once=True)
    state, history = recorded(settings, replace(LOST, started=started))
    first = history.attempts[0]
    if started == ():
        assert state.runs[0].facts_of(0).failures == {}
        assert (first.ending, first.started_s, first.left_for) == ("withdrawn", None, "m0 is lost")
        assert history.failures == []
    else:
        assert state.runs[0].facts_of(0).failures == {"lost": 1}
        assert (first.ending, first.cause, first.started_s) == ("failed", "lost", 0.0)
    assert list(history.running) == [1]
    assert state.attempts[1].tries == (1 if started == () else 2)


def test_queued_tasks_of_a_lost_machine_use_no_retry_in_a_simulation():
    flow = Builder("many")
    flow.task("job", sweep={"i": "1..6"}, work=10)
    lost = Scenario(failures=(Failure(machines=("m0",), at_s=5.0, repair_s=math.inf),))
    settings = RunSettings(retries={**NO_RETRIES, "lost": 1})
    done = simulated(flow.build(), platform_of(2, 1), lost, settings, policy="lazy")
    assert done.run.ending == "completed"
    settled = [command for _, command in done.commands(ev.Settle) if "m0 is lost" in command.reason]
    assert [command.cause for command in settled].count("lost") == 1  # the job that was running
    assert len(settled) > 1
