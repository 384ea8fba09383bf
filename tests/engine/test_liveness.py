"""Liveness probes, command by command (docs/papers/adaptive-jobs.md, section 5)."""

from __future__ import annotations

import pytest

from driven_engine import DrivenEngine, one_task, platform_of, simulated
from journal_audit import audit_journal
from weft.backends.simulation.scenario import Failure, Scenario
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.workflow.settings import RunSettings

POLLED = RunSettings(ladder_every_s=30.0)
FACETS = {"checkpoint": {"files": ["restart"], "every": 10}, "outputs": {"result": 10}}


def running(platform=None):
    engine = DrivenEngine(one_task(**FACETS), platform or platform_of(2, 1), POLLED)
    engine.handle(ev.Started(attempt=0), ev.Checkpointed(attempt=0, work_done=0.3), at=10)
    return engine


def polled(engine, at):
    return engine.handle(ev.TimerFired(timer="ladder"), at=at)


def job(alive, attempt=0):
    return ev.ProbeAnswered(of="job", alive=alive, attempt=attempt, machine=0)


def gatekeeper(alive, attempt=0):
    return ev.ProbeAnswered(of="machine", alive=alive, attempt=attempt, machine=0)


def test_responsive_job_manager_is_probed_again_later():
    engine = running()
    assert polled(engine, 30) == ["probe job 0"]
    assert engine.handle(job(alive=True)) == []
    assert polled(engine, 60) == ["probe job 0"]


def test_unresponsive_job_manager_is_replaced_when_its_machine_responds():
    engine = running()
    polled(engine, 30)
    assert engine.handle(job(alive=False)) == ["probe machine 0"]
    assert engine.handle(gatekeeper(alive=True)) == ["note reattached", "probe reattach 0"]
    assert engine.state() == "RUNNING"
    assert engine.handle(ev.Ended(attempt=0), at=50) == ["settle 0 COMPLETED", "finish completed"]


def test_job_missing_at_reattachment_is_restarted_on_another_machine():
    engine = running()
    polled(engine, 30)
    engine.handle(job(alive=False), gatekeeper(alive=True))
    words = engine.handle(ev.Ended(attempt=0, exit_code=None, cause="lost"))
    assert words[:3] == ["probe machine m0", "settle 0 READY (lost) keep", "assign 1 m1 after 0: failure"]


def test_job_on_an_unresponsive_machine_is_restarted_from_its_restart_files():
    engine = running()
    polled(engine, 30)
    engine.handle(job(alive=False))
    assert engine.handle(gatekeeper(alive=False)) == [
        "note down", "note unknown", "settle 0 READY (lost) keep", "assign 1 m1 after 0: failure",
        "prolog 1 m1 (restart files from -1)",
    ]  # fmt: skip
    assert engine.handle(ev.StagedIn(attempt=1, part=0)) == ["drop 0", "start 1 m1 from 0.3"]


def test_unresponsive_machine_is_probed_and_its_old_jobs_are_cancelled():
    engine = running()
    polled(engine, 30)
    engine.handle(
        job(alive=False), gatekeeper(alive=False), ev.StagedIn(attempt=1, part=0), ev.Started(attempt=1)
    )
    assert polled(engine, 60) == ["probe job 1", "probe machine m0"]
    assert engine.handle(ev.ProbeAnswered(of="machine", alive=False, machine=0)) == []
    assert polled(engine, 90) == ["probe job 1", "probe machine m0"]
    words = engine.handle(ev.ProbeAnswered(of="machine", alive=True, machine=0))
    assert words == ["note up", "cancel 0 m0: given up"]
    assert engine.handle(ev.Ended(attempt=0, exit_code=None, cause="cancelled")) == []
    assert polled(engine, 120) == ["probe job 1"]
    assert not any(engine.engine.state.unknown.values())


def test_events_of_an_abandoned_job_are_ignored():
    engine = DrivenEngine(one_task(**FACETS), platform_of(1), POLLED)
    engine.handle(ev.Started(attempt=0), at=10)
    polled(engine, 30)
    engine.handle(job(alive=False), gatekeeper(alive=False))
    assert engine.handle(ev.Ended(attempt=0, exit_code=0), at=40) == []
    assert engine.state() == "READY"


def test_end_of_a_job_between_two_probes_is_recorded():
    engine = running()
    polled(engine, 30)
    engine.handle(ev.Ended(attempt=0))
    assert engine.handle(job(alive=False)) == []


def test_no_probes_are_sent_if_the_liveness_setting_is_missing():
    engine = DrivenEngine(one_task(**FACETS), platform_of(2, 1), RunSettings())
    engine.handle(ev.Started(attempt=0), at=10)
    assert engine.engine.state.timers == {}


@pytest.mark.parametrize("back", [True, False])
def test_unconfirmed_cancellation_is_followed_by_a_probe_of_the_machine(back):
    outside = {"inputs": [{"file": "db", "from": "https://x/db", "size": 10}]}
    engine = DrivenEngine(one_task(**outside), platform_of(1), POLLED)
    assert engine.handle(ev.RequestReceived(what="cancel", run=0), at=10)[-1] == "cancel 0 m0: stopped"
    assert polled(engine, 30) == ["probe machine 0"]
    words = engine.handle(gatekeeper(alive=back))
    if back:
        assert words == ["cancel 0 m0: stopped"]
        words = engine.handle(ev.Ended(attempt=0, exit_code=None, cause="cancelled"))
    assert words[-1] == "finish cancelled"
    assert polled(engine, 60) == [] if back else ["probe machine m0"]


def test_attempts_on_a_machine_count_as_lost_when_its_loss_ends_the_run():
    lost = Scenario(failures=(Failure(machines=("m0",), at_s=5.0, repair_s=1.0),))
    found = simulated(one_task(sweep={"k": "1..2"}, retries=0), platform_of(1, nodes=2), lost)
    audit_journal(found.entries, [found.run.compiled])
    settled = {command.task: command.cause for _, command in found.commands(cm.Settle)}
    assert (settled, found.run.ending) == ({0: "lost", 1: "lost"}, "failed")


def test_machine_that_answers_a_probe_has_no_reason_of_loss():
    engine = DrivenEngine(one_task(), platform_of(1.0, 1.0))
    machine = engine.engine.state.machines[0]
    engine.handle(ev.MachineChanged(machine=0, up=False, reason="its sandbox has disappeared", lasting=True))
    assert (machine.up, machine.reason, machine.lasting) == (False, "its sandbox has disappeared", True)
    engine.handle(ev.ProbeAnswered(of="machine", alive=True, machine=0))
    assert (machine.up, machine.reason, machine.lasting) == (True, "", False)


def test_machine_that_does_not_answer_a_probe_has_this_reason_of_loss():
    engine = DrivenEngine(one_task(), platform_of(1.0, 1.0))
    engine.handle(ev.ProbeAnswered(of="machine", alive=False, machine=0))
    assert engine.engine.state.machines[0].reason == "neither job manager nor gatekeeper answers"
