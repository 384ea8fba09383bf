"""Progress polls and the contracts of running attempts (docs/papers/dynamic-grid.md, section 9; docs/papers/adaptive-jobs.md, sections 3 and 6)."""

from __future__ import annotations

import math

import pytest

from driven_engine import DrivenEngine, one_task, platform_of
from weft.engine import messages as ev
from weft.workflow.builder import Builder
from weft.workflow.settings import RunSettings

EAGER = {"migrate": "always", "poll_every_s": 100.0}
FACETS = {"progress": "steps"}


def running(settings, speeds=(2, 1), **facets):
    engine = DrivenEngine(one_task(**(FACETS | facets)), platform_of(*speeds), settings)
    engine.handle(ev.Started(attempt=0))
    return engine


def iterations(last_s, done, of=100, attempt=0):
    return ev.Progressed(
        attempt=attempt, work_done=done, last_iteration_s=last_s, iterations=int(done * of), all_iterations=of
    )


def test_only_attempts_with_a_contract_are_polled():
    assert running(RunSettings()).engine.state.timers == {}
    engine = running(RunSettings(contract=0.5, **EAGER))
    assert engine.handle(ev.TimerFired(timer="watch"), at=100) == ["probe progress 0"]


def test_iteration_is_compared_with_its_expected_time_on_the_machine():
    # 100 units of work in 100 iterations: 0.5 s each on m0, 1 s each on m1.
    settings = RunSettings(contract=1.0, **EAGER)
    engine = running(settings)
    assert engine.handle(iterations(1.0, 0.2), at=10) == ["note believed"]
    words = engine.handle(iterations(1.01, 0.21), at=11)
    assert "cancel 0 m0: performance" in words
    # The slower machine is given twice as long.
    engine = DrivenEngine(one_task(**FACETS), platform_of(1), settings)
    engine.handle(ev.Started(attempt=0))
    assert engine.handle(iterations(2.0, 0.1), at=12) == ["note believed"]


def test_one_limit_for_the_seconds_of_an_iteration_may_apply_to_all_machines():
    engine = running(RunSettings(iteration_limit_s=8.0, **EAGER))
    assert engine.handle(iterations(8.0, 0.2), at=10) == ["note believed"]
    assert "cancel 0 m0: performance" in engine.handle(iterations(8.01, 0.3), at=20)


@pytest.mark.parametrize(
    ("evaluator", "moves"), [("0.5", True), ("2.0", False), ("0.9s", True), ("5s", False), ("none", False)]
)
def test_task_may_have_its_own_evaluator(evaluator, moves):
    engine = running(RunSettings(**EAGER), evaluator=evaluator)
    words = engine.handle(iterations(1.0, 0.2), at=12)
    assert ("cancel 0 m0: performance" in words) == moves


def test_task_with_an_evaluator_program_is_polled_and_migrates_on_its_verdict():
    engine = running(RunSettings(**EAGER), evaluator="./monitor --gently")
    assert engine.handle(ev.TimerFired(timer="watch"), at=10) == ["probe progress 0"]
    failed = ev.Progressed(attempt=0, problem="the evaluator failed: exit code 2")
    assert engine.handle(failed, at=11) == ["note module"]
    assert "cancel 0 m0: performance" in engine.handle(ev.Progressed(attempt=0, degraded="slow"), at=12)


def test_machine_speed_learned_from_the_progress_of_an_attempt_expires():
    engine = running(RunSettings(contract=0.5, poll_every_s=10.0, belief_s=50.0), speeds=(2,))
    engine.handle(ev.Progressed(attempt=0, work_done=0.1), at=10)
    machine = engine.engine.state.machines[0]
    assert machine.speed_factor == pytest.approx(0.5)
    for at in (20, 30, 40, 50):
        assert "note believed" not in engine.handle(ev.TimerFired(timer="watch"), at=at)
    assert engine.handle(ev.TimerFired(timer="watch"), at=60)[-1] == "note believed"
    assert machine.speed_factor == 1.0


def test_contract_of_a_restarted_attempt_considers_only_the_remaining_work():
    facets = {"checkpoint": {"files": ["restart"]}, "outputs": {"r": 5}}
    engine = running(RunSettings(contract=0.5, **EAGER), **facets)
    engine.handle(ev.RequestReceived(what="migrate", run=0, task=0, machine=1), at=25)
    engine.handle(ev.Checkpointed(attempt=0, work_done=0.5))
    engine.handle(ev.Ended(attempt=0, exit_code=None, cause="cancelled", work_done=0.5))
    engine.handle(ev.StagedIn(attempt=1, part=0), ev.CleanedUp(attempt=0))
    engine.handle(ev.Started(attempt=1), at=30)
    # 50 s are left on m1. After 20 s of them 70 % of the task are done: on time.
    assert engine.handle(ev.Progressed(attempt=1, work_done=0.7), at=50) == []
    words = engine.handle(ev.Progressed(attempt=1, work_done=0.72), at=70)
    assert "note violation" in words


def test_late_task_without_progress_reports_migrates_to_an_idle_machine():
    engine = running(RunSettings(contract=0.5, poll_every_s=1e6), speeds=(1, 1))
    assert engine.handle(ev.Progressed(attempt=0), at=150) == []
    assert engine.handle(ev.Progressed(attempt=0), at=151) == ["note violation", "note stay"]
    words = engine.handle(ev.Progressed(attempt=0), at=226)
    assert "cancel 0 m0: performance" in words
    assert "assign 1 m1 after 0: performance" in words


def test_late_task_without_progress_reports_migrates_after_growing_intervals():
    """It is slow everywhere: the required saving grows with each move, up to 95 %."""
    engine, moves, now_s = running(RunSettings(contract=0.5, poll_every_s=1e6), speeds=(1,) * 9), [], 0.0
    for attempt in range(9):
        began_s = now_s
        while now_s - began_s < 5_000:
            now_s += 10
            words = engine.handle(ev.Progressed(attempt=attempt), at=now_s)
            if any(word.startswith("cancel") for word in words):
                break
        else:
            break
        moves.append(now_s - began_s)
        ended = ev.Ended(attempt=attempt, exit_code=None, cause="cancelled")
        engine.handle(ended, ev.CleanedUp(attempt=attempt), ev.Started(attempt=attempt + 1))
    assert moves[:6] == [230, 250, 290, 410, 2100, 2100]


def test_age_of_a_progress_report_is_no_violation_until_the_next_report_is_due():
    for age_s, every_s, late in ((20, 25, False), (None, None, True), (20, 5, True)):
        engine = running(RunSettings(contract=0.5, poll_every_s=1e6), speeds=(1, 1))
        report = ev.Progressed(attempt=0, work_done=0.25, age_s=age_s, every_s=every_s)
        words = engine.handle(report, at=45)
        assert ("note violation" in words) == late


def untimed():
    """Return a workflow with one task that states no time."""
    flow = Builder("one")
    flow.task("job")
    return flow.build()


def test_contract_of_a_task_without_an_estimate_has_no_effect():
    settings = RunSettings(contract=1.0)
    engine = DrivenEngine(untimed(), platform_of(1, 1), settings)
    engine.handle(ev.Started(attempt=0))
    assert engine.engine.state.timers == {}
    assert engine.handle(ev.Progressed(attempt=0, work_done=0.01), at=1_000) == []
    limited = DrivenEngine(untimed(), platform_of(1, 1), RunSettings(iteration_limit_s=8.0))
    limited.handle(ev.Started(attempt=0))
    assert "watch" in limited.engine.state.timers


def silent(answers=False, silent_s=0.0, **more):
    return ev.ContactChanged(machine=0, answers=answers, silent_s=silent_s, **more)


def test_attempt_on_a_silent_host_is_not_polled_and_its_silence_does_not_count():
    # 100 units of work take 50 s on m0; the contract is violated after 75 s.
    engine = running(RunSettings(contract=0.5, **EAGER))
    engine.handle(silent(silent_s=10.0, lost_in_s=50.0), at=30)
    assert engine.handle(ev.TimerFired(timer="watch"), at=100) == []
    assert engine.handle(ev.Progressed(attempt=0), at=101) == []  # it was on the way
    engine.handle(silent(answers=True), at=120)  # 100 s of silence
    assert engine.engine.state.attempts[0].silent_s == 100.0
    assert engine.handle(ev.TimerFired(timer="watch"), at=174) == ["probe progress 0"]
    assert "cancel 0 m0: performance" not in engine.handle(ev.Progressed(attempt=0), at=174)
    assert "cancel 0 m0: performance" in engine.handle(ev.Progressed(attempt=0), at=176)


def test_contract_is_judged_at_the_last_sign_of_life():
    """The silence is too short to be reported as such."""
    engine = running(RunSettings(contract=0.5, **EAGER))
    assert "cancel 0 m0: performance" not in engine.handle(ev.Progressed(attempt=0, silent_s=4.0), at=78)
    assert "cancel 0 m0: performance" in engine.handle(ev.Progressed(attempt=0, silent_s=2.0), at=78)


def test_short_outage_is_reported_by_its_end():
    engine = running(RunSettings(contract=0.5, **EAGER))
    engine.handle(silent(answers=True, silent_s=4.0), at=70)
    assert engine.engine.state.machines[0].silence is None
    assert "cancel 0 m0: performance" not in engine.handle(ev.Progressed(attempt=0), at=78)
    assert "cancel 0 m0: performance" in engine.handle(ev.Progressed(attempt=0), at=80)


def test_lost_machine_is_no_longer_silent():
    engine = running(RunSettings())
    engine.handle(silent(silent_s=10.0, lost_in_s=50.0, reason="refused"), at=30)
    state = engine.engine.state.machines[0]
    assert state.silence == (20.0, 80.0, "refused")
    engine.handle(silent(silent_s=15.0, lost_in_s=45.0, reason="no answer"), at=35)
    assert state.silence == (20.0, 80.0, "no answer")
    engine.handle(ev.MachineChanged(machine=0, up=False, reason="no answer"), at=80)
    assert state.silence is None


@pytest.mark.parametrize("times", [{"silent_s": math.inf}, {"lost_in_s": math.nan}])
def test_damaged_times_of_a_silence_are_refused(times):
    engine = running(RunSettings())
    with pytest.raises(ValueError, match="must be finite"):
        engine.handle(silent(**times), at=30)
