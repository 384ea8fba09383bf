"""Relocation: when a migration saves enough time, its reasons and its limits (docs/papers/adaptive-jobs.md,
sections 1, 3).
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from driven_engine import DrivenEngine, one_task, platform_of, simulated
from weft.backends.simulation.scenario import CompetingLoad, Perturbation, Scenario, Span
from weft.engine import messages as ev
from weft.engine.state.snapshot import restore_snapshot, take_snapshot
from weft.formats.profiles import list_presets, load_preset
from weft.workflow.settings import DEFAULTS, RunSettings

WATCHED = {"checkpoint": {"files": ["restart"], "every": 5}, "outputs": {"result": 10}, "progress": "steps"}
SWEPT = WATCHED | {"sweep": {"i": "1..2"}, "outputs": {"result.{i}": 10}}
EAGER = RunSettings(contract=0.5, migrate="always")


def running(settings, platform=None, **facets):
    engine = DrivenEngine(one_task(**(WATCHED | facets)), platform or platform_of(2, 1), settings)
    engine.handle(ev.Started(attempt=0))
    return engine


def slow(done=0.1):
    """Return a report of less than half of the expected progress, at 20 of 50 seconds."""
    return ev.Progressed(attempt=0, work_done=done)


def learned_slow(**settings):
    """Return an engine and its first machine, which a report at 20 s shows to run at a quarter of its speed."""
    measured = {"fetch_every_s": 30.0, "pushes_state": True, "poll_every_s": 600.0} | settings
    engine = running(replace(EAGER, **measured))
    for machine in (0, 1):
        engine.handle(ev.Fetched(machine=machine, speed_factor=1.0, load=0.0))
    engine.handle(ev.Started(attempt=0))
    engine.handle(slow(), at=20)
    machine = engine.engine.state.machines[0]
    assert machine.speed_factor == pytest.approx(0.25)
    return engine, machine


def measure_load(engine, load, at):
    engine.handle(ev.Fetched(machine=0, speed_factor=1.0 / (load + 1.0), load=load), at=at)


def test_slow_speed_learned_from_progress_is_kept_after_the_next_machine_measurement():
    engine, machine = learned_slow()
    measure_load(engine, 0.0, at=30)
    assert machine.speed_factor == pytest.approx(0.25)


def test_load_in_the_first_measurement_after_learning_explains_the_slow_speed():
    engine, machine = learned_slow()
    measure_load(engine, 3.0, at=30)
    measure_load(engine, 0.0, at=60)
    assert machine.speed_factor == 1.0  # the load explained it and is over


def test_load_measured_later_does_not_erase_a_learned_slow_speed():
    engine, machine = learned_slow()
    for load, at in ((0.0, 30), (9.0, 60)):
        measure_load(engine, load, at)
    assert machine.speed_factor == pytest.approx(0.1)  # the lower of both
    measure_load(engine, 0.0, at=90)
    assert machine.speed_factor == pytest.approx(0.25)


def test_load_that_is_reported_long_after_learning_does_not_erase_the_slow_speed():
    """Machines report noticeable changes only: without a report the load is the one that was last measured."""
    engine, machine = learned_slow(belief_s=6000.0)
    measure_load(engine, 3.0, at=300)
    measure_load(engine, 0.0, at=330)
    assert machine.speed_factor == pytest.approx(0.25)


def test_explained_further_slowness_leaves_what_was_learned_before():
    engine, machine = learned_slow()
    measure_load(engine, 0.0, at=30)
    engine.engine.state.machines.set_speed(0, 0.1, 31.0, learned=True)
    measure_load(engine, 9.0, at=40)
    measure_load(engine, 0.0, at=70)
    assert machine.speed_factor == pytest.approx(0.25)


def test_snapshot_keeps_that_a_learned_slow_speed_is_confirmed():
    engine, _ = learned_slow()
    measure_load(engine, 0.0, at=30)
    engine.handle(ev.Fetched(machine=0, speed_factor=0.5, load=1.0), at=40)
    other = DrivenEngine(one_task(**WATCHED), platform_of(2, 1)).engine.state
    other.runs.clear()
    restore_snapshot(other, json.loads(json.dumps(take_snapshot(engine.engine.state))))
    machine = other.machines[0]
    assert (machine.learned_factor, machine.confirmed_factor) == (pytest.approx(0.25), pytest.approx(0.25))


@pytest.mark.parametrize(
    ("load_here", "load_there", "moves"),
    [(2.0, 2.0, False), (1.0, 3.0, False), (2.0, 0.0, True), (0.0, 0.0, True)],
    ids=["same load", "more load there", "load here only", "slow without load"],
)
def test_migration_compares_the_measured_loads_of_both_machines(load_here, load_there, moves):
    """At a quarter of its speed a task has 180 s left, more than the measured load of 2 (a third) explains."""
    settings = RunSettings(contract=0.5, fetch_every_s=30.0, pushes_state=True, poll_every_s=600.0)
    engine = running(settings, platform_of(2, 2))
    for machine in (0, 1):
        engine.handle(ev.Fetched(machine=machine, speed_factor=1.0, load=0.0))
    engine.handle(ev.Started(attempt=0))
    for machine, load in enumerate((load_here, load_there)):
        engine.handle(ev.Fetched(machine=machine, speed_factor=1.0 / (load + 1.0), load=load), at=1)
    engine.handle(ev.Checkpointed(attempt=0, work_done=0.1), at=20)
    words = engine.handle(slow(), at=20)
    assert (words[-1] == "assign 1 m1 after 0: performance") == moves
    assert ("note stay" in words) != moves


@pytest.mark.parametrize(
    ("load_there", "moves"), [(1.0, True), (10.0, False)], ids=["same load", "load explains as much there"]
)
def test_slowness_that_the_load_does_not_explain_stays_with_its_machine(load_there, moves):
    """At a tenth of its speed a task has 480 s left here, and 96 s at the half speed that a load of 1 leaves."""
    settings = RunSettings(contract=0.5, fetch_every_s=30.0, pushes_state=True, poll_every_s=600.0)
    engine = running(settings, platform_of(2, 2))
    for machine in (0, 1):
        engine.handle(ev.Fetched(machine=machine, speed_factor=1.0, load=0.0))
    engine.handle(ev.Started(attempt=0))
    for machine, load in enumerate((1.0, load_there)):
        engine.handle(ev.Fetched(machine=machine, speed_factor=1.0 / (load + 1.0), load=load), at=1)
    engine.handle(ev.Checkpointed(attempt=0, work_done=0.04), at=20)
    words = engine.handle(slow(0.04), at=20)
    assert (words[-1] == "assign 1 m1 after 0: performance") == moves
    assert ("note stay" in words) != moves


def test_violation_always_migrates_the_task_under_the_rule_always():
    engine = running(EAGER)
    words = engine.handle(slow(), at=20)
    assert words == [
        "note believed",
        "note violation",
        "cancel 0 m0: performance",
        "assign 1 m1 after 0: performance",
    ]


@pytest.mark.parametrize("cause", ["prolog", "staging"])
def test_task_does_not_return_to_its_slow_machine_if_it_cannot_start_on_the_next_one(cause):
    """At a quarter of its speed the first machine is still twice as fast as the last one."""
    engine = running(EAGER, platform_of(8, 4, 1))
    engine.handle(ev.Checkpointed(attempt=0, work_done=0.02), at=5)
    assert engine.handle(slow(0.1), at=5)[-1] == "assign 1 m1 after 0: performance"
    engine.handle(ev.Ended(attempt=0, exit_code=None, cause="cancelled"), at=6)
    words = engine.handle(ev.StagedIn(attempt=1, part=0), ev.CleanedUp(attempt=0), at=7)
    assert words[-1].startswith("start 1 m1")
    words = engine.handle(ev.Ended(attempt=1, exit_code=None, cause=cause), at=8)
    assert "assign 2 m2" in " / ".join(words)


def test_task_does_not_return_to_its_slow_machine_if_the_next_one_is_lost():
    engine = running(EAGER, platform_of(8, 4, 1))
    engine.handle(ev.Checkpointed(attempt=0, work_done=0.02), at=5)
    engine.handle(slow(0.1), at=5)
    engine.handle(ev.Ended(attempt=0, exit_code=None, cause="cancelled"), at=6)
    words = engine.handle(ev.MachineChanged(machine=1, up=False), at=7)
    assert "assign 2 m2 after 0: performance" in words


def test_task_without_a_violation_is_not_migrated():
    engine = running(EAGER)
    assert engine.handle(slow(0.39), at=20) == []


def test_default_rule_migrates_only_when_time_is_saved():
    settings = RunSettings(contract=0.5)
    # At a quarter of the speed 180 s remain here, and 90 s there from the last restart files (10 %).
    engine = running(settings)
    engine.handle(ev.Checkpointed(attempt=0, work_done=0.1), at=20)
    assert engine.handle(slow(), at=20)[-1] == "assign 1 m1 after 0: performance"
    # At half the speed 80 s remain here, and as many there.
    engine = running(settings)
    engine.handle(ev.Checkpointed(attempt=0, work_done=0.2), at=20)
    assert engine.handle(slow(0.2), at=20)[-1] == "note stay"


def test_restart_cost_is_subtracted_from_the_gain():
    engine = running(RunSettings(contract=0.5, restart_cost_s=60.0))
    engine.handle(ev.Checkpointed(attempt=0, work_done=0.1), at=20)
    assert engine.handle(slow(), at=20)[-1] == "note stay"


def test_required_gain_rises_with_every_migration():
    settings = RunSettings(contract=0.5, gain=0.4, gain_growth=1.5)
    engine = running(settings, platform_of(2, 1, 1))
    engine.handle(ev.Checkpointed(attempt=0, work_done=0.1), at=20)
    # 180 s here, 90 s there: half is saved, 40 % is required.
    assert engine.handle(slow(), at=20)[-1] == "assign 1 m1 after 0: performance"
    again = running(settings, platform_of(2, 1, 1))
    again.run.change_facts(0).migrations = 1
    again.handle(ev.Checkpointed(attempt=0, work_done=0.1), at=20)
    # Now 60 % is required.
    assert again.handle(slow(), at=20)[-1] == "note stay"


def test_only_mandatory_migrations_happen_under_the_rule_never():
    engine = running(replace(EAGER, migrate="never"))
    assert engine.handle(slow(), at=20) == ["note believed", "note violation"]
    words = engine.handle(ev.RequirementsChanged(attempt=0, requirements="speed < 2"), at=21)
    assert words == ["cancel 0 m0: self-migration", "assign 1 m1 after 0: self-migration"]


def test_number_of_performance_migrations_is_limited_by_the_retries():
    engine = running(EAGER, retries={"contract": 0})
    assert engine.handle(slow(), at=20) == ["note believed", "note violation", "note stay"]


def test_task_stays_when_no_machine_is_free():
    engine = DrivenEngine(one_task(**SWEPT), platform_of(2, 1), EAGER)
    engine.handle(ev.Started(attempt=0), ev.Started(attempt=1))
    assert engine.handle(slow(), at=20)[-1] == "note stay"


def test_only_one_of_two_slow_tasks_migrates_to_the_free_machine():
    engine = DrivenEngine(one_task(**SWEPT), platform_of(2, 2, 1), EAGER)
    engine.handle(ev.Started(attempt=0), ev.Started(attempt=1))
    words = engine.handle(slow(), ev.Progressed(attempt=1, work_done=0.1), at=20)
    assert [each for each in words if each.startswith(("assign", "note stay"))] == [
        "assign 2 m2 after 0: performance", "note stay",
    ]  # fmt: skip


def test_task_migrates_to_a_better_machine_that_saves_the_required_share():
    settings = RunSettings(better_every_s=60.0, gain=0.2)
    engine = DrivenEngine(one_task(**SWEPT), platform_of(2, 1), settings)
    engine.handle(ev.Started(attempt=0), ev.Started(attempt=1))
    engine.handle(ev.Checkpointed(attempt=1, work_done=0.45), ev.Ended(attempt=0), at=50)
    # 40 s remain on m1, 27.5 s on m0 from the last restart files.
    words = engine.handle(ev.TimerFired(timer="better"), at=60)
    assert words == ["cancel 1 m1: better-machine", "assign 2 m0 after 1: better-machine"]


def test_task_does_not_migrate_to_a_better_machine_that_saves_too_little():
    engine = DrivenEngine(one_task(**SWEPT), platform_of(2, 1), RunSettings(better_every_s=60.0, gain=0.4))
    engine.handle(ev.Started(attempt=0), ev.Started(attempt=1))
    engine.handle(ev.Checkpointed(attempt=1, work_done=0.45), ev.Ended(attempt=0), at=50)
    assert engine.handle(ev.TimerFired(timer="better"), at=60) == []


def test_task_does_not_migrate_to_a_better_machine_after_the_search_time_limit():
    settings = RunSettings(better_every_s=60.0, better_until_s=55.0, gain=0.2)
    engine = DrivenEngine(one_task(**SWEPT), platform_of(2, 1), settings)
    engine.handle(ev.Started(attempt=0), ev.Started(attempt=1))
    engine.handle(ev.Checkpointed(attempt=1, work_done=0.45), ev.Ended(attempt=0), at=50)
    assert engine.handle(ev.TimerFired(timer="better"), at=60) == []


def test_suspended_task_migrates_after_the_suspension_timeout():
    engine = running(RunSettings(suspension_timeout_s=100.0))
    engine.handle(ev.Suspended(attempt=0), at=10)
    assert engine.state() == "SUSPENDED"
    engine.handle(ev.Resumed(attempt=0), at=60)
    assert engine.handle(ev.TimerFired(timer="suspended:0"), at=110) == []
    engine.handle(ev.Suspended(attempt=0), at=120)
    words = engine.handle(ev.TimerFired(timer="suspended:0"), at=220)
    assert words == ["cancel 0 m0: suspension", "assign 1 m1 after 0: suspension"]


def test_task_in_a_machine_queue_migrates_after_the_waiting_timeout():
    settings = RunSettings(waiting_timeout_s=100.0)
    engine = DrivenEngine(one_task(), platform_of(2, 1), settings)
    words = engine.handle(ev.TimerFired(timer="waiting:0"), at=100)
    assert words == ["cancel 0 m0: waiting", "assign 1 m1 after 0: waiting"]
    engine = DrivenEngine(one_task(), platform_of(2, 1), settings)
    engine.handle(ev.Started(attempt=0), at=99)
    assert engine.handle(ev.TimerFired(timer="waiting:0"), at=100) == []


def test_preempted_attempt_continues_on_another_machine_from_its_restart_files():
    engine = running(RunSettings())
    engine.handle(ev.Checkpointed(attempt=0, work_done=0.4), at=20)
    words = engine.handle(ev.Ended(attempt=0, exit_code=None, cause="preempted", work_done=0.5), at=25)
    assert words == [
        "settle 0 READY (preempted) keep", "assign 1 m1 after 0: preempted", "prolog 1 m1 (restart files from 0)",
    ]  # fmt: skip
    words = engine.handle(ev.StagedIn(attempt=1, part=0), ev.CleanedUp(attempt=0), at=30)
    assert words == ["clean-up 0 m0", "start 1 m1 from 0.4"]


def test_optional_change_of_requirements_causes_no_migration():
    engine = running(RunSettings())
    assert (
        engine.handle(ev.RequirementsChanged(attempt=0, requirements="speed < 2", mandatory=False), at=5)
        == []
    )


def test_invalid_requirement_is_recorded_and_causes_no_migration():
    engine = running(RunSettings())
    words = engine.handle(ev.RequirementsChanged(attempt=0, requirements="__import__('os')"), at=5)
    assert words == ["note requirement"]
    assert engine.state() == "RUNNING"


def test_last_valid_requirement_applies_after_an_invalid_requirement():
    engine = running(RunSettings(), platform_of(1, 2, 1))
    assert engine.first[0] == "assign 0 m1"
    engine.handle(ev.RequirementsChanged(attempt=0, requirements="speed < 2", mandatory=False), at=5)
    words = engine.handle(ev.RequirementsChanged(attempt=0, requirements="speed <<< 2"), at=6)
    # The last valid requirement is checked again.
    assert words == ["note requirement", "cancel 0 m1: self-migration", "assign 1 m0 after 0: self-migration"]
    assert engine.run.facts_of(0).requirements[0] == "speed < 2"


def test_changed_rank_expression_selects_the_target():
    engine = running(RunSettings(), platform_of(1, 3, 2, 1), rank="speed")
    assert engine.first[0] == "assign 0 m1"
    words = engine.handle(ev.RequirementsChanged(attempt=0, requirements="speed < 3", rank="-speed"), at=5)
    assert words == ["cancel 0 m1: self-migration", "assign 1 m0 after 0: self-migration"]


def test_rank_may_use_sweep_variables():
    flow = one_task(sweep={"i": "0..1"}, rank="speed * (1 - 2*i)")
    engine = DrivenEngine(flow, platform_of(1, 2, 3), policy="rank")
    assert [each for each in engine.first if each.startswith("assign")] == ["assign 0 m2", "assign 1 m0"]


@pytest.mark.parametrize("migrate", ["pays", "always"])
def test_task_stops_migrating_between_two_machines_that_become_slow_alternately(migrate):
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
    settings = RunSettings(contract=0.2, poll_every_s=10.0, migrate=migrate, belief_s=30.0)
    ran = simulated(flow, platform_of(1, 1), Scenario(perturbations=slowed), settings)
    assert ran.run.ending == "completed"
    assert 1 <= len(ran.moves()) <= {"pays": 5, "always": 10}[migrate]


def test_undisturbed_tasks_do_not_move():
    settings = RunSettings(contract=0.5, poll_every_s=5.0, better_every_s=10.0, gain=0.9)
    ran = simulated(one_task(**SWEPT | {"sweep": {"i": "1..6"}}), platform_of(1, 1, 2), settings=settings)
    assert ran.run.ending == "completed"
    assert ran.moves() == []


def test_task_leaves_a_loaded_machine_and_ends_sooner():
    scenario = Scenario(loads=(CompetingLoad(machines=("m0",), processes=9, at_s=20.0),))
    ends = {}
    for migrate in ("never", "pays"):
        settings = RunSettings(contract=0.5, poll_every_s=10.0, migrate=migrate)
        ends[migrate] = simulated(
            one_task(work=200, **WATCHED), platform_of(2, 1), scenario, settings
        ).run.ended_s
    assert ends["never"] == pytest.approx(20 + 80 * 10)
    assert ends["pays"] < 0.4 * ends["never"]


@pytest.mark.parametrize("preset", list_presets())
def test_degradation_reported_by_a_program_migrates_its_task_under_every_preset(preset):
    told = {"authorise": False, "discover_every_s": None, "fetch_every_s": None}
    settings = DEFAULTS.with_layers(load_preset(preset), told)
    engine = DrivenEngine(one_task(progress="steps"), platform_of(1, 1), settings)
    engine.handle(ev.Started(attempt=0))
    words = engine.handle(ev.Progressed(attempt=0, work_done=0.1, degraded="8.5 s per step"), at=10)
    assert any(word.startswith("cancel 0 m0: performance") for word in words)
    assert "assign 1 m1 after 0: performance" in words


def test_slow_task_moves_to_any_free_machine_that_its_selector_accepts():
    """Of three equal machines the selector accepts the last two; the task runs on the second."""
    engine = DrivenEngine(one_task(**WATCHED, selector="./select"), platform_of(1, 1, 1), EAGER)
    engine.handle(ev.MachinesSelected(run=0, task=0, machines=(1, 2)), ev.Started(attempt=0))
    words = engine.handle(ev.Progressed(attempt=0, work_done=0.05), at=20)
    assert words[-1] == "assign 1 m2 after 0: performance"


def test_reason_of_a_stay_names_the_selector_that_accepts_no_other_free_machine():
    engine = DrivenEngine(one_task(**WATCHED, selector="./select"), platform_of(1, 1, 1), EAGER)
    engine.handle(ev.MachinesSelected(run=0, task=0, machines=(1,)), ev.Started(attempt=0))
    kept = engine.engine.handle(ev.Progressed(attempt=0, work_done=0.05), 20.0)[-1]
    assert kept.reason == "performance: no other machine that its selector accepts is free"


def test_task_whose_job_is_not_submitted_waits_and_migrates_after_the_waiting_timeout():
    engine = running(RunSettings(waiting_timeout_s=100.0))
    engine.handle(ev.StartDelayed(attempt=0, reason="the queue is full"), at=10)
    assert engine.state() == "SUBMITTED"
    engine.handle(ev.JobQueued(attempt=0, job="17"), at=60)
    assert engine.state() == "RUNNING"
    assert engine.engine.state.attempts[0].started_s == 60
    assert engine.handle(ev.TimerFired(timer="waiting:0"), at=110) == []
    engine.handle(ev.StartDelayed(attempt=0, reason="no answer"), at=120)
    words = engine.handle(ev.TimerFired(timer="waiting:0"), at=220)
    assert words == ["cancel 0 m0: waiting", "assign 1 m1 after 0: waiting"]


def test_job_that_was_accepted_at_once_runs_since_its_start_command():
    engine = running(RunSettings())
    engine.handle(ev.JobQueued(attempt=0, job="17"), at=10)
    assert (engine.state(), engine.engine.state.attempts[0].started_s) == ("RUNNING", 0)
