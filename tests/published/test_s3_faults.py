"""Faults of adaptive jobs, simulated: A3.4 (polling), A3.5 (no exit code, retries), A3.9 (no checkpoint)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from driven_engine import one_task, platform_of, simulated
from weft.backends.simulation.scenario import Cancellation, Failure, RequirementChange, Scenario, Silence
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.expressions import parse
from weft.formats.profiles import preset_settings
from weft.workflow.settings import RunSettings

POLLED = RunSettings(ladder_every_s=10.0)
CHECKPOINTS = {"checkpoint": {"files": ["restart"], "every": "15s"}, "outputs": {"result": "1kB"}}


def silent(what):
    return Scenario(silences=(Silence(machines=("m0",), at_s=42.0, what=what),))


def test_a3_4_unresponsive_job_manager_is_replaced_without_restarting_the_job():
    ran = simulated(one_task(**CHECKPOINTS), platform_of(1, 0.5), silent("job-manager"), POLLED)
    assert len(ran.commands(cm.ReattachJob)) == 1
    assert [start.machine for _, start in ran.commands(cm.Start)] == [0]
    assert (ran.run.ending, ran.run.ended_s) == ("completed", 100.0)


def test_a3_4_without_polling_the_end_of_the_job_is_not_detected():
    # The reattached job manager reports an end that the silent one cannot report.
    late = Scenario(silences=(Silence(machines=("m0",), at_s=95.0, what="job-manager"),))
    ran = simulated(one_task(), platform_of(1), late, replace(POLLED, ladder_every_s=30.0))
    assert ran.run.ended_s == 120.0
    assert [at for at, _ in ran.events(ev.Ended)] == [120.0]


def test_a3_4_job_continues_from_its_last_checkpoint_if_both_services_are_unresponsive():
    ran = simulated(one_task(**CHECKPOINTS), platform_of(1, 0.5), silent("both"), POLLED)
    # Silent from 42 s, detected at 50 s; the last checkpoint is that of 30 s.
    (move,) = ran.moves()
    assert (move.machine, move.reason) == (1, "failure")
    last = ran.commands(cm.Start)[-1]
    assert last[1].restart_from == pytest.approx(0.3)
    assert last[0] == pytest.approx(50.0, abs=1e-3)
    assert ran.run.ended_s == pytest.approx(50.0 + 0.7 * 200.0, abs=1e-3)
    # No clean-up is commanded on a machine that does not answer.
    assert ran.commands(cm.CleanUp) == []


def test_a3_4_a_failed_machine_is_detected_by_the_same_polling():
    scenario = Scenario(failures=(Failure(machines=("m0",), at_s=42.0),))
    ran = simulated(one_task(**CHECKPOINTS), platform_of(1, 0.5), scenario, POLLED)
    assert [move.reason for move in ran.moves()] == ["failure"]
    assert ran.run.ended_s == pytest.approx(50.0 + 0.7 * 200.0, abs=1e-3)


def test_a3_4_job_is_lost_when_its_machine_failed_between_two_polls():
    scenario = Scenario(failures=(Failure(machines=("m0",), at_s=42.0, repair_s=2.0),))
    ran = simulated(one_task(**CHECKPOINTS), platform_of(1, 0.5), scenario, POLLED)
    assert ran.run.ending == "completed"
    assert len(ran.commands(cm.Start)) == 2


def test_a3_4_an_abandoned_job_is_cancelled_when_its_machine_answers_again():
    quiet = Scenario(silences=(Silence(machines=("m0",), at_s=42.0, lasting_s=100.0),))
    ran = simulated(one_task(work=400, **CHECKPOINTS), platform_of(1, 0.5), quiet, POLLED)
    ends = [(at, cancel.attempt, cancel.reason) for at, cancel in ran.commands(cm.Cancel)]
    assert ends == [(150.0, 0, "given up")]
    assert ran.run.ending == "completed"


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_a3_5_a_job_without_exit_code_has_failed_and_is_retried(retries):
    scenario = Scenario(exit_codes={"job": ("no-exit-code",)})
    ran = simulated(one_task(retries=retries, on_failure="stop"), platform_of(1), scenario)
    settled = [(settle.state.name, settle.cause) for _, settle in ran.commands(cm.Settle)]
    assert settled == [("READY", "error")] * retries + [("FAILED", "error")]
    assert len(ran.commands(cm.Start)) == retries + 1
    assert ran.run.ending == "failed"


def test_a3_5_after_the_last_retry_the_job_is_held_if_requested():
    scenario = Scenario(exit_codes={"job": ("no-exit-code",)})
    ran = simulated(one_task(retries=1, on_failure="hold"), platform_of(1), scenario)
    assert [settle.state.name for _, settle in ran.commands(cm.Settle)] == ["READY", "STOPPED"]
    assert ran.run.ending == "stopped"


def test_a3_5_after_the_last_retry_the_job_is_rescheduled_if_requested():
    scenario = Scenario(exit_codes={"job": ("no-exit-code", "no-exit-code", 0)})
    ran = simulated(one_task(retries=1, on_failure="reschedule"), platform_of(3, 2, 1), scenario)
    assert [start.machine for _, start in ran.commands(cm.Start)] == [0, 1, 2]
    assert ran.run.ending == "completed"


def test_a3_5_a_retried_job_that_succeeds_is_completed():
    scenario = Scenario(exit_codes={"job": ("no-exit-code", 0)})
    ran = simulated(one_task(retries=1), platform_of(1), scenario)
    assert (ran.run.ending, ran.run.ended_s) == ("completed", 200.0)


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("reason", ["preempted", "self-migration"])
def test_a3_9_job_without_a_checkpoint_restarts_from_zero(kept, reason):
    facets = {"checkpoint": {"files": ["restart"], "every": "10s"}, "outputs": {"result": 0}} if kept else {}
    change = RequirementChange(task="job", after=0.5, requirements=parse("speed < 1"))
    scenario = {
        "preempted": Scenario(cancellations=(Cancellation(task="job", at_s=50.0),)),
        "self-migration": Scenario(requirements=(change,)),
    }[reason]
    ran = simulated(one_task(**facets), platform_of(1, 0.5), scenario)
    assert [move.reason for move in ran.moves()] == [reason]
    share = ran.commands(cm.Start)[-1][1].restart_from
    assert share == (pytest.approx(0.5, abs=0.101) if kept else 0.0)
    assert ran.run.ended_s == pytest.approx(50.0 + (1.0 - share) * 200.0)


def test_the_preset_has_the_intervals_of_the_paper():
    preset = preset_settings("s3")
    assert (preset.discover_every_s, preset.fetch_every_s, preset.authorise) == (300.0, 30.0, True)
    assert (preset.migrate, preset.gain, preset.gain_growth) == ("always", 0.2, 1.0)
    assert (preset.suspension_timeout_s, preset.waiting_timeout_s) == (600.0, 600.0)
