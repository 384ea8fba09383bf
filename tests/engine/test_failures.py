"""Failures by cause: retries, growing limits, and the rules after the last retry."""

from __future__ import annotations

import pytest

from driven_engine import DrivenEngine, one_task, platform_of, simulated
from weft.backends.simulation.scenario import Scenario
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.engine.explanation import describe_stalled_run, describe_state
from weft.engine.states import TaskState
from weft.platform.machine import Machine
from weft.platform.platform import Platform
from weft.workflow.builder import Builder
from weft.workflow.settings import RunSettings
from weft.workflow.task import CAUSES

GB = 1e9


def failing(cause="", exit_code=None, attempt=0):
    return ev.Ended(attempt=attempt, exit_code=exit_code, cause=cause, work_done=0.5)


def started(engine, attempt=0):
    return engine.handle(ev.Started(attempt=attempt))


@pytest.mark.parametrize(
    "cause", [cause for cause in CAUSES if cause not in ("contract", "cancelled", "epilog")]
)
def test_every_failure_cause_has_its_own_retries(cause):
    engine = DrivenEngine(one_task(retries={cause: 1}), platform_of(1, 1))
    for attempt in range(2):
        started(engine, attempt)
        words = engine.handle(failing(cause, attempt=attempt))
        if attempt == 0:
            assert words[0].startswith(f"settle 0 READY ({cause})")
            engine.handle(ev.CleanedUp(attempt=0))
    assert f"settle 0 FAILED ({cause})" in words
    assert words[-1] == "finish failed"


def test_task_fails_without_running_its_program_again_when_the_repeated_epilog_has_failed():
    engine = DrivenEngine(one_task(retries={"epilog": 5}), platform_of(1, 1))
    started(engine)
    words = engine.handle(failing("epilog"))
    assert words[0].startswith("settle 0 FAILED (epilog)")


def test_permanent_failure_is_not_retried():
    for lasting in (False, True):
        engine = DrivenEngine(one_task(), platform_of(1))
        ended = ev.Ended(attempt=0, exit_code=None, cause="staging", story="no such file", lasting=lasting)
        settled = engine.engine.handle(ended, 1.0)[0]
        assert (settled.state.name, settled.cause) == ("FAILED" if lasting else "READY", "staging")
        reported = "not tried again, since it would not change" if lasting else "retry 1 of 3"
        assert settled.reason == f"no such file; {reported}"


@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize("event", [ev.StagedIn, ev.StagedOut])
def test_permanent_staging_failure_is_not_retried(event, lasting):
    facets = {"inputs": [{"file": "x", "from": "x", "size": 5}], "outputs": {"y": {"to": "z"}}}
    engine = DrivenEngine(one_task(**facets), platform_of(1))
    problem = {"attempt": 0, "problem": "no such file", "lasting": lasting}
    if event is ev.StagedIn:
        words = engine.handle(ev.StagedIn(part=0, **problem))
    else:
        engine.handle(ev.StagedIn(attempt=0, part=0), ev.Started(attempt=0), ev.Ended(attempt=0))
        words = engine.handle(ev.StagedOut(**problem))
    retried = "settle 0 READY (staging)" if event is ev.StagedIn else "note postponed"
    assert words[0] == ("settle 0 FAILED (staging)" if lasting else retried)


def staging_out(retries=2, **facets):
    """Return an engine whose only task has ended and whose outputs are being copied."""
    workflow = one_task(outputs={"y": {"to": "z"}}, retries={"staging": retries}, **facets)
    engine = DrivenEngine(workflow, platform_of(1, 1))
    engine.handle(ev.Started(attempt=0))
    assert engine.handle(ev.Ended(attempt=0), at=10.0)[-1] == "epilog 0 m0"
    return engine


def test_state_of_a_task_that_copies_its_outputs_is_described_in_words():
    engine = staging_out()
    state = engine.engine.state
    (line,) = describe_stalled_run(state, engine.run)
    assert line.endswith(" (copying its outputs) waits for m0 to copy its outputs to their targets")
    engine.handle(ev.StagedOut(attempt=0, problem="disk full"))
    (line,) = describe_stalled_run(state, engine.run)
    assert line.endswith(" (copying its outputs) waits for the next try to copy its outputs to their targets")
    assert describe_state("epilog") == "copying its outputs"
    assert describe_state("running") == "running"


def test_outputs_are_copied_again_after_growing_pauses():
    engine = staging_out()
    refused = ev.StagedOut(attempt=0, problem="disk full")
    for pause_s in (1.0, 2.0):
        engine.handle(refused)
        (timer,) = [each for each in engine.engine.state.timers if each.startswith("stage-out")]
        assert engine.engine.state.timers[timer] == engine.now + pause_s
        again = engine.handle(ev.TimerFired(timer=timer), at=engine.now + pause_s)
        assert again == ["epilog 0 m0"]
    assert engine.handle(ev.StagedOut(attempt=0))[0] == "settle 0 COMPLETED"
    assert engine.run.facts_of(0).failures == {}


def test_program_does_not_run_again_if_its_outputs_cannot_be_copied():
    engine = staging_out(retries=1)
    engine.handle(ev.StagedOut(attempt=0, problem="disk full"))
    engine.handle(ev.TimerFired(timer="stage-out:0"), at=11.0)
    words = engine.handle(ev.StagedOut(attempt=0, problem="disk full"))
    assert words[0] == "settle 0 FAILED (staging)"
    assert not any(word.startswith(("start", "assign")) for word in words)


def test_run_can_be_cancelled_during_a_pause():
    engine = staging_out()
    engine.handle(ev.StagedOut(attempt=0, problem="disk full"))
    words = engine.handle(ev.RequestReceived(what="cancel", run=0))
    assert words[-1] == "finish cancelled"


RESCHEDULED = {"on_failure": "reschedule", "retries": 0, "memory": "1GB"}


@pytest.mark.parametrize("policy", ["plan", "shared-plans", "fcfs"])
def test_rescheduled_task_runs_on_another_machine(policy):
    """The planned machine is void after the task failed there; the other one is idle."""
    truth = Scenario(exit_codes={"job": (1, 0)})
    ran = simulated(one_task(**RESCHEDULED), platform_of(2, 1, memory=8e9), truth, policy=policy)
    assert [command.machine for _, command in ran.commands(cm.Start)] == [0, 1]
    assert ran.run.ending == "completed"
    reasons = [command.reason for _, command in ran.commands(cm.Settle) if command.cause]
    assert reasons == ["exit code 1; no retry left (0 for error); another machine is tried next"]


@pytest.mark.parametrize("cause", ["oom", "timeout", "staging"])
def test_rescheduled_task_avoids_the_machine_of_its_failure_whatever_the_cause(cause):
    engine = DrivenEngine(one_task(**RESCHEDULED), platform_of(2, 1, memory=8e9))
    started(engine)
    engine.handle(failing(cause))
    assert [attempt.machine for attempt in engine.engine.state.attempts.values()] == [1]


def test_exit_code_99_discards_restart_files_and_85_uses_them():
    for code, expected in ((85, 0.5), (99, 0.0)):
        engine = DrivenEngine(one_task(checkpoint={"files": ["r"]}), platform_of(1))
        started(engine)
        engine.handle(ev.Checkpointed(attempt=0, work_done=0.5), at=5.0)
        engine.handle(ev.Ended(attempt=0, exit_code=code), at=6.0)
        assert engine.engine.state.attempts[1].restart_from == expected


def test_missing_exit_code_is_a_failure():
    engine = DrivenEngine(one_task(retries=0), platform_of(1))
    started(engine)
    assert engine.handle(failing())[0] == "settle 0 FAILED (error)"


def test_exit_code_listed_as_outcome_is_a_success():
    engine = DrivenEngine(one_task(retries=0, outcomes=[3]), platform_of(1))
    started(engine)
    assert engine.handle(failing(exit_code=3))[0] == "settle 0 COMPLETED"


def test_retries_prefer_machines_on_which_the_task_has_not_failed():
    engine = DrivenEngine(one_task(retries=3), platform_of(3, 2))
    started(engine)
    assert engine.handle(failing(exit_code=1)) == [
        "settle 0 READY (error)",
        "assign 1 m1",
        "start 1 m1 from 0",
    ]
    started(engine, 1)
    # Both machines have failed: the faster one again.
    assert engine.handle(failing(exit_code=1, attempt=1))[1] == "assign 2 m0"


def test_avoided_machine_stays_usable_for_other_tasks():
    engine = DrivenEngine(one_task(sweep={"i": "1..3"}, retries=3), platform_of(3, 2))
    started(engine)
    started(engine, 1)
    # m0 is free, but the failed task waits for m1; the third task takes m0.
    words = engine.handle(failing(exit_code=1))
    assert words == ["settle 0 READY (error)", "assign 2 m0", "start 2 m0 from 0"]


def test_memory_request_grows_after_an_out_of_memory_failure():
    small, large = Machine(name="m0", speed=9.0, memory=3 * GB), Machine(name="m1", memory=8 * GB)
    engine = DrivenEngine(one_task(memory="2GB", retries={"oom": 5}), Platform(machines=(small, large)))
    assert engine.first[0] == "assign 0 m0"
    started(engine)
    # 4 GB, which m0 does not have.
    words = engine.handle(failing("oom"))
    assert words == ["settle 0 READY (oom)", "assign 1 m1", "start 1 m1 from 0"]
    machine = engine.engine.state.machines[1]
    assert machine.amounts["memory"] == 4 * GB
    started(engine, 1)
    engine.handle(failing("oom", attempt=1))
    assert machine.amounts["memory"] == 0.0
    started(engine, 2)
    words = engine.handle(failing("oom", attempt=2))
    assert words[0] == "settle 0 FAILED (oom)"
    assert "no machine has more memory" in engine.run.stopping


@pytest.mark.parametrize("policy", ["lazy", "lazy:by=finish", "plan"])
def test_task_with_grown_memory_is_not_queued_on_a_machine_that_is_too_small(policy):
    small, large = Machine(name="m0", speed=9.0, memory=3 * GB), Machine(name="m1", memory=8 * GB)
    ran = simulated(
        one_task(memory="2GB", retries={"oom": 5}),
        Platform(machines=(small, large)),
        Scenario(exit_codes={"job": ("oom", 0)}),
        policy=policy,
    )
    assert [start.machine for _, start in ran.commands(cm.Start)] == [0, 1]
    assert ran.run.ending == "completed"


def test_memory_of_a_bound_task_is_limited_by_its_machine():
    machines = (Machine(name="m0", speed=9.0, memory=3 * GB), Machine(name="m1", memory=8 * GB))
    flow = Builder("bound")
    flow.task("one", work=1, machine="here", memory="2GB")
    flow.task("two", work=1, machine="here", memory="2GB", after="one", retries={"oom": 5})
    ran = simulated(flow.build(), Platform(machines=machines), Scenario(exit_codes={"two": ("oom", 0)}))
    assert [start.memory_bytes for _, start in ran.commands(cm.Start)] == [2 * GB, 2 * GB, 3 * GB]
    assert ran.run.ending == "completed"


def test_memory_limit_of_the_start_command_grows_with_the_request():
    platform = Platform(machines=(Machine(name="m0", memory=16 * GB),))
    ran = simulated(
        one_task(memory="2GB", retries={"oom": 5}), platform, Scenario(exit_codes={"job": ("oom", "oom", 0)})
    )
    starts = ran.commands(cm.Start)
    assert [start.memory_bytes for _, start in starts] == [2 * GB, 4 * GB, 8 * GB]
    assert ran.run.ending == "completed"


def test_memory_growth_is_limited_by_the_largest_machine():
    platform = Platform(machines=(Machine(name="m0", memory=3 * GB),))
    scenario = Scenario(exit_codes={"job": ("oom", 0)})
    ran = simulated(one_task(memory="2GB", retries={"oom": 5}), platform, scenario)
    assert [start.memory_bytes for _, start in ran.commands(cm.Start)] == [2 * GB, 3 * GB]


def test_time_limit_grows_after_a_timeout():
    ran = simulated(one_task(time_limit="30s", retries={"timeout": 3}), platform_of(1))
    starts = ran.commands(cm.Start)
    assert [(at, start.time_limit_s) for at, start in starts] == [(0.0, 30.0), (30.0, 60.0), (90.0, 120.0)]
    assert (ran.run.ending, ran.run.ended_s) == ("completed", 190.0)


def test_task_that_timed_out_is_retried_on_the_same_machine():
    engine = DrivenEngine(one_task(time_limit="10s"), platform_of(2, 1))
    started(engine)
    assert engine.handle(failing("timeout"))[1] == "assign 1 m0"


def test_requested_rerun_starts_from_the_checkpoint():
    checkpoint = {"files": ["restart"]}
    engine = DrivenEngine(one_task(retries=0, checkpoint=checkpoint, outputs={"r": 5}), platform_of(1))
    started(engine)
    words = engine.handle(ev.Checkpointed(attempt=0, work_done=0.6), ev.Ended(attempt=0, exit_code=85), at=60)
    assert words == ["settle 0 READY", "assign 1 m0", "start 1 m0 from 0.6"]


def test_requeue_exit_code_starts_the_task_again():
    engine = DrivenEngine(one_task(retries=0), platform_of(1))
    started(engine)
    words = engine.handle(ev.Ended(attempt=0, exit_code=99), at=60)
    assert words == ["note requeued", "settle 0 READY", "assign 1 m0", "start 1 m0 from 0"]


def test_task_that_ended_because_the_engine_stopped_is_started_again():
    engine = DrivenEngine(one_task(retries=0), platform_of(1))
    for attempt in range(150):  # more often than the limit of requested reruns
        started(engine, attempt)
        halted = ev.Ended(attempt=attempt, exit_code=99, story="the engine was stopped")
        settled, assigned, begun = engine.engine.handle(halted, 0.0)
        assert settled == cm.Settle(
            run=0,
            task=0,
            state=TaskState.READY,
            reason="the engine was stopped: it will run again",
            again=True,
        )
        assert (assigned.attempt, begun.attempt) == (attempt + 1, attempt + 1)


def test_task_that_requests_reruns_without_progress_fails():
    ran = simulated(one_task(), platform_of(1), Scenario(exit_codes={"job": (99,)}))
    assert ran.run.ending == "failed"
    assert "101th time" in ran.run.stopping
    assert len(ran.commands(cm.Start)) == 101


def test_task_that_makes_progress_may_request_any_number_of_reruns():
    engine = DrivenEngine(one_task(checkpoint={"files": ["r"]}, outputs={"o": 5}), platform_of(1))
    for attempt in range(150):
        started(engine, attempt)
        engine.handle(
            ev.Checkpointed(attempt=attempt, work_done=(attempt + 1) / 200),
            ev.Ended(attempt=attempt, exit_code=85),
        )
    assert engine.state() == "SUBMITTED"


def test_attempts_of_a_task_are_numbered_consecutively_for_every_cause_of_an_end():
    engine = DrivenEngine(one_task(retries=1, checkpoint={"files": ["r"]}, outputs={"o": 5}), platform_of(1))
    numbers = []
    for attempt, ending in enumerate((85, 85, 99, 1)):
        started(engine, attempt)
        engine.handle(ev.Checkpointed(attempt=attempt, work_done=0.2 * (attempt + 1)))
        commands = engine.engine.handle(ev.Ended(attempt=attempt, exit_code=ending), 0.0)
        numbers += [command.tries for command in commands if isinstance(command, cm.Start)]
    assert numbers == [2, 3, 4, 5]


def failed_for_good(wish, speeds=(2, 1)):
    flow = Builder("three")
    flow.task("job", work=10, retries=0, on_failure=wish)
    flow.task("after", work=10, after="job")
    flow.task("other", work=10)
    engine = DrivenEngine(flow.build(), platform_of(*speeds))
    job = engine.run.compiled.names.index("job")
    attempt = engine.run.attempt_of[job]
    for number in sorted(engine.run.attempt_of.values()):
        started(engine, number)
    return engine, job, engine.handle(failing(exit_code=1, attempt=attempt))


def states(engine):
    return {name: engine.state(task) for task, name in enumerate(engine.run.compiled.names)}


def test_task_held_after_a_failure_waits_until_the_user_resumes_it():
    engine, job, words = failed_for_good("hold")
    assert words == [f"settle {job} STOPPED (error)"]
    assert states(engine) == {"job": "STOPPED", "after": "WAITING", "other": "RUNNING"}
    words = engine.handle(ev.RequestReceived(what="resume", run=0, task=job))
    assert words[0] == f"settle {job} READY"
    assert states(engine)["job"] == "SUBMITTED"


def test_stopped_run_is_active_again_after_resume():
    engine = DrivenEngine(one_task(retries=0, on_failure="hold"), platform_of(1))
    started(engine)
    assert engine.handle(failing(exit_code=1)) == ["settle 0 STOPPED (error)", "finish stopped"]
    words = engine.handle(ev.RequestReceived(what="resume", run=0, task=0), at=100)
    assert words == ["settle 0 READY", "assign 1 m0", "start 1 m0 from 0"]
    started(engine, 1)
    assert engine.handle(ev.Ended(attempt=1)) == ["settle 0 COMPLETED", "finish completed"]


def test_reschedule_rule_tries_the_other_machines_and_then_stops_the_run():
    engine = DrivenEngine(one_task(retries=0, on_failure="reschedule"), platform_of(2, 1))
    started(engine)
    assert engine.handle(failing(exit_code=1)) == [
        "settle 0 READY (error)",
        "assign 1 m1",
        "start 1 m1 from 0",
    ]
    started(engine, 1)
    words = engine.handle(failing(exit_code=1, attempt=1))
    assert words == ["settle 0 FAILED (error)", "note stopping", "finish failed"]


def test_stop_rule_cancels_running_attempts():
    engine, _, words = failed_for_good("stop")
    assert [each.split()[0] for each in words] == ["settle", "settle", "note", "cancel"]
    assert states(engine) == {"job": "FAILED", "after": "CANCELLED", "other": "RUNNING"}


def test_continue_rule_runs_tasks_that_do_not_depend_on_the_failure():
    engine, _, _ = failed_for_good("continue")
    assert states(engine) == {"job": "FAILED", "after": "CANCELLED", "other": "RUNNING"}
    number = engine.run.attempt_of[engine.run.compiled.names.index("other")]
    assert engine.handle(ev.Ended(attempt=number))[-1] == "finish failed"


def test_retries_setting_of_the_run_applies_to_tasks_that_state_no_retries():
    engine = DrivenEngine(one_task(), platform_of(1), RunSettings(retries={"error": 2}))
    for attempt in range(3):
        started(engine, attempt)
        words = engine.handle(failing(exit_code=1, attempt=attempt))
    assert words[0] == "settle 0 FAILED (error)"


def test_unstarted_tasks_of_an_abstract_machine_move_with_a_failed_task():
    flow = Builder("shared")
    flow.task("first", work=10, machine="A", retries=2)
    flow.task("second", work=10, machine="A", inputs=[{"file": "db", "from": "db", "size": 5}])
    engine = DrivenEngine(flow.build(), platform_of(2, 1), policy="lazy:by=finish")
    first, second = (engine.run.compiled.names.index(name) for name in ("first", "second"))
    number = engine.run.attempt_of[second]
    started(engine, engine.run.attempt_of[first])
    words = engine.handle(failing(exit_code=1, attempt=engine.run.attempt_of[first]))
    assert words == [
        f"settle {first} READY (error)", f"cancel {number} m0: its abstract machine moved", "assign 2 m1",
        "start 2 m1 from 0",
    ]  # fmt: skip
    assert engine.handle(failing("cancelled", attempt=number))[1] == "assign 3 m1"


def test_unstarted_tasks_of_an_abstract_machine_wait_for_the_new_machine():
    flow = Builder("tied")
    flow.task("make", work=1, outputs={"data": 1e6})
    flow.task("one", work=5, machine="here", inputs=["data"])
    flow.task("two", work=5, machine="here", inputs=["data"])
    other = Machine(name="m1", nodes=2, speed=2.0)
    ran = simulated(
        flow.build(),
        Platform(machines=(Machine(name="m0", speed=9.0), other)),
        Scenario(exit_codes={"one": ("staging", 0)}, stage_latency_s=1.0),
    )
    assert ran.run.ending == "completed"
    assert len({ran.run.where[1], ran.run.where[2]}) == 1


def test_planned_run_ends_when_tasks_assigned_early_wait_for_a_held_task():
    flow = Builder("ahead")
    flow.task("made", work=1, outputs={"data": 1e6})
    flow.task("broken", work=5, retries=0, on_failure="hold")
    flow.task("last", work=1, inputs=["data"], after="broken")
    ran = simulated(flow.build(), platform_of(1, 1), Scenario(exit_codes={"broken": (3,)}), policy="plan")
    assert ran.run.ending == "stopped"
    assert not ran.run.attempt_of


def ranked_pair(**facets):
    """Return an engine with ``fast`` on m1, the machine of its highest rank, and ``slow`` on m0."""
    flow = Builder("pair")
    flow.task("fast", work=100, rank="speed", **facets)
    flow.task("slow", work=100, rank="-speed")
    engine = DrivenEngine(flow.build(), platform_of(1, 5))
    assert engine.first[:2] == ["assign 0 m1", "assign 1 m0"]
    started(engine, 0)
    started(engine, 1)
    return engine


def test_task_returns_to_its_machine_that_was_lost_and_is_back():
    engine = ranked_pair()
    assert engine.handle(ev.MachineChanged(machine=1, up=False))[0].startswith("settle 0 READY (lost)")
    assert "assign 2 m1 after 0: failure" in engine.handle(ev.MachineChanged(machine=1, up=True))
    assert engine.run.facts_of(0).avoid == set()


def test_returned_machine_is_used_like_any_other():
    """While both machines are free the rank decides, not the earlier loss."""
    engine = ranked_pair()
    engine.handle(ev.MachineChanged(machine=0, up=False), ev.MachineChanged(machine=1, up=False))
    words = engine.handle(ev.MachineChanged(machine=1, up=True))
    assert "assign 2 m1 after 0: failure" in words
    words = engine.handle(ev.MachineChanged(machine=0, up=True))
    assert "assign 3 m0 after 1: failure" in words


@pytest.mark.parametrize("cause", ["preempted", "lost"])
def test_interrupted_task_does_not_wait_for_a_busy_machine_beside_a_free_one(cause):
    engine = ranked_pair()
    words = engine.handle(failing(cause))
    assert any(word.startswith("assign 2 m1") for word in words)


def test_interrupted_task_prefers_another_free_machine():
    engine = ranked_pair()
    engine.handle(ev.Ended(attempt=1, exit_code=0))
    words = engine.handle(failing("preempted"))
    assert any(word.startswith("assign 2 m0") for word in words)


def test_failed_task_waits_for_another_machine():
    engine = ranked_pair(retries={"error": 1})
    assert not any(word.startswith("assign") for word in engine.handle(failing(exit_code=1)))
    words = engine.handle(ev.Ended(attempt=1, exit_code=0))
    assert any(word.startswith("assign 2 m0") for word in words)
