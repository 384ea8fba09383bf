"""Relocation: when a migration saves enough, its reasons, and its limits (docs/papers/adaptive-jobs.md, sections 1, 3)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine_by_hand import ByHand, one_task, platform_of, simulated
from weft.backends.simulation.scenario import CompetingLoad, Perturbation, Scenario, Span
from weft.engine import messages as ev
from weft.engine.settings import EngineSettings

WATCHED = {"checkpoint": {"files": ["restart"], "every": 5}, "outputs": {"result": 10}, "progress": "steps"}
SWEPT = WATCHED | {"sweep": {"i": "1..2"}, "outputs": {"result.{i}": 10}}
EAGER = EngineSettings(contract=0.5, migrate="always")


def running(settings, platform=None, **facets):
    engine = ByHand(one_task(**(WATCHED | facets)), platform or platform_of(2, 1), settings)
    engine.tell(ev.Started(attempt=0))
    return engine


def slow(done=0.1):
    """Report less than half of the expected progress after 20 of 50 seconds."""
    return ev.Progressed(attempt=0, work_done=done)


def test_violation_always_moves_the_task_with_migrate_always():
    engine = running(EAGER)
    words = engine.tell(slow(), at=20)
    assert words == [
        "note believed",
        "note violation",
        "cancel 0 m0: performance",
        "assign 1 m1 after 0: performance",
    ]


def test_no_violation_no_migration():
    engine = running(EAGER)
    assert engine.tell(slow(0.39), at=20) == []


def test_default_moves_only_if_it_saves_time():
    settings = EngineSettings(contract=0.5)
    # At a quarter of the speed 180 s remain here, and 90 s there from the last restart files (10 %).
    engine = running(settings)
    engine.tell(ev.Checkpointed(attempt=0, work_done=0.1), at=20)
    assert engine.tell(slow(), at=20)[-1] == "assign 1 m1 after 0: performance"
    # At half the speed 80 s remain here, and as many there.
    engine = running(settings)
    engine.tell(ev.Checkpointed(attempt=0, work_done=0.2), at=20)
    assert engine.tell(slow(0.2), at=20)[-1] == "note stay"


def test_restart_cost_counts():
    engine = running(EngineSettings(contract=0.5, restart_cost_s=60.0))
    engine.tell(ev.Checkpointed(attempt=0, work_done=0.1), at=20)
    assert engine.tell(slow(), at=20)[-1] == "note stay"


def test_gain_that_is_wanted_rises_with_every_migration():
    settings = EngineSettings(contract=0.5, gain=0.4, gain_growth=1.5)
    engine = running(settings, platform_of(2, 1, 1))
    engine.tell(ev.Checkpointed(attempt=0, work_done=0.1), at=20)
    # 180 s here, 90 s there: half is saved, 40 % is required.
    assert engine.tell(slow(), at=20)[-1] == "assign 1 m1 after 0: performance"
    again = running(settings, platform_of(2, 1, 1))
    again.run.change_facts(0).migrations = 1
    again.tell(ev.Checkpointed(attempt=0, work_done=0.1), at=20)
    # Now 60 % is required.
    assert again.tell(slow(), at=20)[-1] == "note stay"


def test_never_applies_except_to_mandatory_moves():
    engine = running(replace(EAGER, migrate="never"))
    assert engine.tell(slow(), at=20) == ["note believed", "note violation"]
    words = engine.tell(ev.RequirementsChanged(attempt=0, requirements="speed < 2"), at=21)
    assert words == ["cancel 0 m0: self-migration", "assign 1 m1 after 0: self-migration"]


def test_task_moves_no_more_often_for_performance_than_its_retries_allow():
    engine = running(EAGER, retries={"contract": 0})
    assert engine.tell(slow(), at=20) == ["note believed", "note violation", "note stay"]


def test_no_move_without_a_free_machine():
    engine = ByHand(one_task(**SWEPT), platform_of(2, 1), EAGER)
    engine.tell(ev.Started(attempt=0), ev.Started(attempt=1))
    assert engine.tell(slow(), at=20)[-1] == "note stay"


def test_one_free_machine_is_given_once():
    engine = ByHand(one_task(**SWEPT), platform_of(2, 2, 1), EAGER)
    engine.tell(ev.Started(attempt=0), ev.Started(attempt=1))
    words = engine.tell(slow(), ev.Progressed(attempt=1, work_done=0.1), at=20)
    assert [each for each in words if each.startswith(("assign", "note stay"))] == [
        "assign 2 m2 after 0: performance", "note stay",
    ]  # fmt: skip


def test_better_machine_is_taken_when_it_saves_the_wanted_share():
    settings = EngineSettings(better_every_s=60.0, gain=0.2)
    engine = ByHand(one_task(**SWEPT), platform_of(2, 1), settings)
    engine.tell(ev.Started(attempt=0), ev.Started(attempt=1))
    engine.tell(ev.Checkpointed(attempt=1, work_done=0.45), ev.Ended(attempt=0), at=50)
    # 40 s remain on m1, 27.5 s on m0 from the last restart files.
    words = engine.tell(ev.TimerFired(timer="better"), at=60)
    assert words == ["cancel 1 m1: better-machine", "assign 2 m0 after 1: better-machine"]


def test_better_machine_that_saves_too_little_is_not_taken():
    engine = ByHand(one_task(**SWEPT), platform_of(2, 1), EngineSettings(better_every_s=60.0, gain=0.4))
    engine.tell(ev.Started(attempt=0), ev.Started(attempt=1))
    engine.tell(ev.Checkpointed(attempt=1, work_done=0.45), ev.Ended(attempt=0), at=50)
    assert engine.tell(ev.TimerFired(timer="better"), at=60) == []


def test_suspension_leads_to_a_move_after_its_timeout():
    engine = running(EngineSettings(suspension_timeout_s=100.0))
    engine.tell(ev.Suspended(attempt=0), at=10)
    assert engine.state() == "SUSPENDED"
    engine.tell(ev.Resumed(attempt=0), at=60)
    assert engine.tell(ev.TimerFired(timer="suspended:0"), at=110) == []
    engine.tell(ev.Suspended(attempt=0), at=120)
    words = engine.tell(ev.TimerFired(timer="suspended:0"), at=220)
    assert words == ["cancel 0 m0: suspension", "assign 1 m1 after 0: suspension"]


def test_wait_in_the_machine_queue_leads_to_a_move_after_its_timeout():
    settings = EngineSettings(waiting_timeout_s=100.0)
    engine = ByHand(one_task(), platform_of(2, 1), settings)
    words = engine.tell(ev.TimerFired(timer="waiting:0"), at=100)
    assert words == ["cancel 0 m0: waiting", "assign 1 m1 after 0: waiting"]
    engine = ByHand(one_task(), platform_of(2, 1), settings)
    engine.tell(ev.Started(attempt=0), at=99)
    assert engine.tell(ev.TimerFired(timer="waiting:0"), at=100) == []


def test_preempted_attempt_continues_elsewhere_from_its_files():
    engine = running(EngineSettings())
    engine.tell(ev.Checkpointed(attempt=0, work_done=0.4), at=20)
    words = engine.tell(ev.Ended(attempt=0, exit_code=None, cause="preempted", work_done=0.5), at=25)
    assert words == [
        "settle 0 READY (preempted) keep", "assign 1 m1 after 0: preempted", "prolog 1 m1 (restart files from 0)",
    ]  # fmt: skip
    words = engine.tell(ev.StagedIn(attempt=1, part=0), ev.CleanedUp(attempt=0), at=30)
    assert words == ["clean-up 0 m0", "start 1 m1 from 0.4"]


def test_optional_change_of_requirements_moves_nothing():
    engine = running(EngineSettings())
    assert (
        engine.tell(ev.RequirementsChanged(attempt=0, requirements="speed < 2", mandatory=False), at=5) == []
    )


def test_invalid_requirement_is_recorded_and_moves_nothing():
    engine = running(EngineSettings())
    words = engine.tell(ev.RequirementsChanged(attempt=0, requirements="__import__('os')"), at=5)
    assert words == ["note requirement"]
    assert engine.state() == "RUNNING"


def test_invalid_requirement_keeps_the_last_valid_one():
    engine = running(EngineSettings(), platform_of(1, 2, 1))
    assert engine.first[0] == "assign 0 m1"
    engine.tell(ev.RequirementsChanged(attempt=0, requirements="speed < 2", mandatory=False), at=5)
    words = engine.tell(ev.RequirementsChanged(attempt=0, requirements="speed <<< 2"), at=6)
    # The last valid requirement is checked again.
    assert words == ["note requirement", "cancel 0 m1: self-migration", "assign 1 m0 after 0: self-migration"]
    assert engine.run.facts_of(0).requirements[0] == "speed < 2"


def test_changed_rank_selects_the_target():
    engine = running(EngineSettings(), platform_of(1, 3, 2, 1), rank="speed")
    assert engine.first[0] == "assign 0 m1"
    words = engine.tell(ev.RequirementsChanged(attempt=0, requirements="speed < 3", rank="-speed"), at=5)
    assert words == ["cancel 0 m1: self-migration", "assign 1 m0 after 0: self-migration"]


def test_rank_may_use_sweep_variables():
    flow = one_task(sweep={"i": "0..1"}, rank="speed * (1 - 2*i)")
    engine = ByHand(flow, platform_of(1, 2, 3), policy="rank")
    assert [each for each in engine.first if each.startswith("assign")] == ["assign 0 m2", "assign 1 m0"]


@pytest.mark.parametrize("migrate", ["pays", "always"])
def test_task_stops_moving_between_machines_slowed_in_turn(migrate):
    flow = one_task(work=1000, checkpoint={"files": ["restart"]}, outputs={"r": 10}, progress="steps")
    slowed = tuple(
        Perturbation(
            machines=(f"m{number % 2}",),
            slowdown=Span(low=10.0, high=10.0),
            lasting_s=Span(low=60.0, high=60.0),
            at_s=60.0 * number,
        )
        for number in range(200)
    )
    settings = EngineSettings(contract=0.2, poll_every_s=10.0, migrate=migrate, belief_s=30.0)
    ran = simulated(flow, platform_of(1, 1), Scenario(perturbations=slowed), settings)
    assert ran.run.ending == "completed"
    assert 1 <= len(ran.moves()) <= {"pays": 5, "always": 10}[migrate]


def test_undisturbed_tasks_do_not_move():
    settings = EngineSettings(contract=0.5, poll_every_s=5.0, better_every_s=10.0, gain=0.9)
    ran = simulated(one_task(**SWEPT | {"sweep": {"i": "1..6"}}), platform_of(1, 1, 2), settings=settings)
    assert ran.run.ending == "completed"
    assert ran.moves() == []


def test_loaded_machine_is_left_and_the_task_ends_sooner():
    scenario = Scenario(loads=(CompetingLoad(machines=("m0",), processes=9, at_s=20.0),))
    ends = {}
    for migrate in ("never", "pays"):
        settings = EngineSettings(contract=0.5, poll_every_s=10.0, migrate=migrate)
        ends[migrate] = simulated(
            one_task(work=200, **WATCHED), platform_of(2, 1), scenario, settings
        ).run.ended_s
    assert ends["never"] == pytest.approx(20 + 80 * 10)
    assert ends["pays"] < 0.4 * ends["never"]


def test_complaint_of_an_application_moves_it_without_a_contract():
    engine = ByHand(one_task(progress="steps"), platform_of(1, 1), EngineSettings(migrate="always"))
    engine.tell(ev.Started(attempt=0))
    words = engine.tell(ev.Progressed(attempt=0, work_done=0.1, degraded="8.5 s per step"), at=10)
    assert any(word.startswith("cancel 0 m0: performance") for word in words)
    assert "assign 1 m1 after 0: performance" in words
