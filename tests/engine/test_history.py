"""The history of small runs with known numbers, and properties of any history."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from driven_engine import DrivenEngine, platform_of
from engine_strategies import simulations
from weft.backends.simulation.scenario import Arrival, Failure, Perturbation, Scenario, Span, Suspension
from weft.cli.run_display import RunDisplay
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.engine.history import (
    AttemptRecord,
    History,
    StepFunction,
    count_causes,
    count_migration_reasons,
    list_slowdowns,
    measure_machines,
    replicated_share,
)
from weft.engine.journal import JournalEntry
from weft.engine.state.compiled import WorkflowLibrary
from weft.engine.states import Admission
from weft.instance.compilation import compile_instance
from weft.platform.machine import Machine
from weft.platform.platform import Platform
from weft.policies.policy import make_policy
from weft.reports.execution_page import _machine_notes
from weft.runtime.simulation import Simulation
from weft.workflow.builder import Builder
from weft.workflow.checks import check_and_unfold
from weft.workflow.settings import RunSettings


def simulate_history(
    flows,
    machines,
    *,
    scenario=Scenario(),  # noqa: B008
    policy="fcfs",
    arrivals=None,
    how=RunSettings(),  # noqa: B008
):
    """Return the history of the simulated workflows."""
    platform = Platform(
        name="grid", machines=tuple(Machine(name=name, **more) for name, more in machines.items())
    )
    library = WorkflowLibrary(
        {key: compile_instance(check_and_unfold(flow), platform) for key, flow in flows.items()}
    )
    submitted = arrivals or [Arrival(workflow=key) for key in flows]
    simulation = Simulation(library, submitted, make_policy(policy), how, scenario)
    history, entries = History(), []
    simulation.run(record=entries.append, check=lambda engine: history.take(entries[-1], engine.state))
    return history.finish()


def one_task(**keys):
    flow = Builder("one")
    flow.task("work", **{"work": 10, **keys})
    return flow.build()


def test_undisturbed_run_has_the_expected_history():
    history = simulate_history({"one": one_task()}, {"m": {"speed": 2.0}})
    (attempt,) = history.attempts.values()
    assert (attempt.task, attempt.iteration, attempt.machine, attempt.nodes) == ("work", 1, 0, 1)
    assert (attempt.assigned_s, attempt.started_s, attempt.ended_s, attempt.ending) == (0, 0, 5, "completed")
    assert (attempt.useful_share, attempt.useful_s, attempt.node_seconds) == (1, 5, 5)
    (run,) = history.runs
    assert (run.arrival_s, run.ended_s, run.outcome, run.slowdown) == (0, 5, "completed", 1)
    assert history.end_s == 5


@pytest.mark.parametrize(
    ("ran_s", "late_s", "started_s", "ended_s"),
    [
        (None, 0.0, 0.0, 10.0),  # not measured
        (2.0, 7.0, 1.0, 3.0),  # it ended while no engine was running
        (2.0, 0.0, 8.0, 10.0),  # started by the next engine
        (3.0, 9.0, 0.0, 3.0),  # the clock was set forward
        (12.0, 0.0, 0.0, 10.0),  # the clock was set back
        (0.0, 0.0, 10.0, 10.0),  # there was no program
    ],
)
def test_measured_duration_corrects_start_and_end_of_an_attempt(ran_s, late_s, started_s, ended_s):
    tried = AttemptRecord(
        number=0, run=0, task="a", iteration=1, kind="a", machine=0, nodes=2, count=1, assigned_s=0.0
    )
    tried.submitted_s = tried.started_s = 0.0
    history = History()
    history.attempts[0], history.now = tried, 10.0
    history._suspended[0] = 2.0
    history._ended(ev.Ended(attempt=0, ran_s=ran_s, late_s=late_s))
    assert (tried.started_s, tried.ended_s) == (started_s, ended_s)
    assert (tried.ran_s, tried.suspended_s) == (ended_s - started_s, max(0.0, ended_s - 2.0))


def test_work_on_a_failed_machine_counts_as_lost():
    scenario = Scenario(failures=(Failure(machines=("m",), at_s=4, repair_s=3),))
    history = simulate_history({"one": one_task()}, {"m": {}}, scenario=scenario)
    first, second = history.attempts.values()
    assert (first.ending, first.cause, first.started_s, first.ended_s, first.useful_s) == (
        "failed",
        "lost",
        0,
        4,
        0,
    )
    assert (second.ending, second.started_s, second.ended_s, second.useful_share) == ("completed", 7, 17, 1)
    assert count_causes(history) == {"lost": 1}
    assert [failure.for_good for failure in history.failures] == [False]
    assert history.down == [(0, 4, 7)]
    (use,) = measure_machines(history, [("m", 1)])
    assert (use.busy_node_s, use.replicated_node_s, use.down_s) == (14, 4, 3)
    assert use.share == pytest.approx(14 / 17)
    assert replicated_share([use]) == pytest.approx(4 / 14)


def test_new_attempt_on_another_machine_after_a_failure_is_a_migration():
    scenario = Scenario(failures=(Failure(machines=("a",), at_s=4),))
    history = simulate_history({"one": one_task()}, {"a": {"speed": 2.0}, "b": {}}, scenario=scenario)
    (move,) = history.moves
    assert (move.at_s, move.source, move.target, move.reason, move.restart_from) == (4, 0, 1, "failure", 0)
    assert count_migration_reasons(history) == {"failure": 1}
    assert history.end_s == 14


@pytest.mark.parametrize("inputs", [(), ({"file": "db", "from": "https://x/db", "size": 1e6},)])
def test_migration_to_a_machine_on_which_the_task_did_not_start_is_cancelled(inputs):
    flow = Builder("jobs")
    flow.task("job", sweep={"i": "1..2"}, work=100, inputs=inputs)
    scenario = Scenario(failures=(Failure(machines=("a",), at_s=10.0, repair_s=5.0),))
    history = simulate_history({"jobs": flow.build()}, {"a": {}, "b": {}}, scenario=scenario, policy="plan")
    tried = [(each.machine, each.ending) for each in history.attempts.values() if each.task == "job[1]"]
    # It waited in the queue of b until the new plan used a again.
    assert tried == [(0, "failed"), (1, "withdrawn"), (0, "completed")]
    assert [(move.target, move.off) for move in history.moves] == [(1, True)]
    assert history.moves[0].off_reason == "the new plan"
    assert history.begun_moves == history.cancelled_moves == [], "it is never announced"
    assert count_migration_reasons(history) == {}


def test_failed_task_whose_next_machine_is_lost_while_its_inputs_are_copied_did_not_migrate():
    inputs = [{"file": "db", "from": "https://x/db", "size": 1e9}]
    engine = RecordedEngine(one_task(inputs=inputs), platform_of(3.0, 2.0, 1.0))
    announced = engine.history.begun_moves
    engine.handle(ev.StagedIn(attempt=0, part=0), ev.Started(attempt=0), at=1)
    engine.handle(ev.MachineChanged(machine=0, up=False), at=2)
    assert engine.history.attempts[1].machine == 1
    assert engine.history.attempts[1].staging_s == 2
    assert not announced, "its inputs are being copied"
    engine.handle(ev.MachineChanged(machine=1, up=False), at=3)
    assert not announced
    assert (engine.history.attempts[0].ending, engine.history.attempts[0].cause) == ("failed", "lost")
    engine.handle(ev.StagedIn(attempt=2, part=0), at=4)
    assert not announced, "its program has not started"
    engine.handle(ev.Started(attempt=2), at=5)
    (move,) = announced
    assert (move.source, move.target, move.at_s, move.reason) == (0, 2, 3, "failure")
    assert not engine.history.cancelled_moves
    lost = "m1 was lost before the task got there"
    assert [move.off_reason for move in engine.history.moves] == [lost, ""]


class RecordedEngine(DrivenEngine):
    """A driven engine whose journal entries are collected in a history."""

    def __init__(self, *arguments, **options):
        self.history = History()
        super().__init__(*arguments, **options)

    def handle(self, *events, at=None):
        self.now = self.now if at is None else at
        for event in events:
            commands = tuple(self.engine.handle(event, self.now))
            entry = JournalEntry(sequence=self.history.entries, now=self.now, event=event, commands=commands)
            self.history.take(entry, self.engine.state)


def removed_and_moving():
    """Return an engine whose task migrates from m0, which the user removes, to m1."""
    engine = RecordedEngine(one_task(), platform_of(2.0, 1.0, 0.5))
    engine.handle(ev.Started(attempt=0), at=1)
    engine.handle(ev.MachineChanged(machine=0, admission=Admission.REMOVED), at=2)
    (move,) = engine.history.begun_moves
    assert (move.source, move.target, move.happened) == (0, 1, True)
    return engine, move


def test_migration_that_ends_with_the_loss_of_its_target_is_cancelled_with_the_reason():
    engine, move = removed_and_moving()
    engine.handle(ev.MachineChanged(machine=1, up=False), at=3)
    assert (move.happened, move.off_reason) == (False, "m1 was lost before the task got there")
    assert engine.history.cancelled_moves == [move]
    engine.handle(ev.Ended(attempt=0, exit_code=None, cause="cancelled"), at=4)
    happened = [(each.source, each.target) for each in engine.history.moves if each.happened]
    assert happened == [(0, 2)]
    assert count_migration_reasons(engine.history) == {"user": 1}


def test_migration_of_a_task_that_ends_first_is_cancelled_with_the_reason():
    engine, move = removed_and_moving()
    engine.handle(ev.Ended(attempt=0, exit_code=0), at=3)
    assert (move.happened, move.off_reason) == (False, "it ended before it could be moved")
    assert engine.history.cancelled_moves == [move]
    assert count_migration_reasons(engine.history) == {}
    display = RunDisplay(
        progress=SimpleNamespace(state=engine.engine.state, history=engine.history), logs=None
    )
    text = "work does not migrate from m0 to m1 (user): it ended before it could be moved"
    assert display.change_lines() == ["1 cancelled migration:", f"  {text}"]


def display_of(engine):
    """Return the display of the runs of a recorded engine."""
    return RunDisplay(progress=SimpleNamespace(state=engine.engine.state, history=engine.history), logs=None)


def test_task_of_a_removed_machine_without_another_machine_is_shown_as_stopped_until_it_moves():
    engine = RecordedEngine(one_task(), platform_of(2.0, 1.0))
    engine.handle(ev.Started(attempt=0), at=1)
    engine.handle(ev.MachineChanged(machine=1, up=False), at=2)
    engine.handle(ev.MachineChanged(machine=0, admission=Admission.REMOVED), at=3)
    text = "work is stopped on m0 (m0 was removed) and waits for another machine"
    assert [each.text for each in engine.history.stops] == [text]
    assert display_of(engine).change_lines() == ["1 stopped task:", f"  {text}"]
    engine.handle(ev.Ended(attempt=0, exit_code=None, cause="cancelled"), at=4)
    assert display_of(engine).stops == engine.history.stops
    engine.handle(ev.MachineChanged(machine=1, up=True), at=5)
    assert display_of(engine).change_lines() == ["1 migration:", "  work migrates from m0 to m1 (user)"]
    assert len(engine.history.stops) == 1


def test_stopped_task_is_shown_as_stopped_until_another_machine_has_free_nodes():
    flow = Builder("jobs")
    flow.task("job", sweep={"i": "1..2"}, work=100)
    engine = RecordedEngine(flow.build(), platform_of(1.0, 1.0))
    waiting = []
    for event in (
        ev.Started(attempt=0),
        ev.Started(attempt=1),
        ev.MachineChanged(machine=1, admission=Admission.REMOVED),
        ev.Ended(attempt=1, exit_code=None, cause="cancelled"),
        ev.Ended(attempt=0, exit_code=0),
    ):
        engine.handle(event, at=engine.now + 1)
        waiting.append([each.label for each in engine.history.stops if not each.over])
    assert waiting == [[], [], ["job[2]"], ["job[2]"], []]
    (move,) = engine.history.begun_moves
    assert (move.label, move.source, move.target, move.ran) == ("job[2]", 1, 0, True)


def test_task_that_had_not_started_is_reassigned_and_does_not_migrate():
    flow = Builder("jobs")
    flow.task("job", sweep={"i": "1..2"}, work=100)
    engine = RecordedEngine(flow.build(), platform_of(1.0, 0.001), policy="lazy")
    engine.handle(ev.Started(attempt=0), at=1)
    engine.handle(ev.RequestReceived(what="migrate", run=0, task=1, machine=1), at=2)
    display = display_of(engine)
    text = "job[2], not started on m0, is assigned to m1 instead (user)"
    assert display.change_lines() == ["1 reassigned task:", f"  {text}"]
    assert (display.migrations, display.migration_lines()) == ([], [text])


def test_work_stored_in_a_checkpoint_is_kept_in_a_migration():
    """Machine a is ten times slower from 2 s on; the task migrates to b and restarts from its checkpoint."""
    flow = one_task(checkpoint={"files": ["r"], "every": 2}, progress="p", contract=0.5)
    scenario = Scenario(
        perturbations=(
            Perturbation(
                machines=("a",), at_s=2, slowdown=Span(low=10, high=10), lasting_s=Span(low=1e6, high=1e6)
            ),
        )
    )
    how = RunSettings(poll_every_s=1.0, migrate="always")
    history = simulate_history({"one": flow}, {"a": {}, "b": {"speed": 0.999}}, scenario=scenario, how=how)
    old, new = history.attempts.values()
    assert (old.ending, old.left_for, old.machine, new.machine, new.ending) == (
        "migrated",
        "performance",
        0,
        1,
        "completed",
    )
    (move,) = history.moves
    assert (move.reason, move.old, move.new, move.restart_from) == ("performance", 0, 1, old.checkpoint)
    assert old.useful_share == old.checkpoint == new.restart_from > 0
    assert old.useful_share + new.useful_share == pytest.approx(1)
    done_since = old.work_done - old.checkpoint
    assert old.ran_s - old.useful_s == pytest.approx(old.ran_s * done_since / old.work_done)
    assert history.violations > 0


def test_tasks_that_run_at_once_on_a_shared_machine_take_longer():
    history = simulate_history({"x": one_task(), "y": one_task()}, {"m": {}})
    assert [run.slowdown for run in history.runs] == [1, 2]
    assert list_slowdowns(history.runs) == {"x": [1.0], "y": [2.0]}
    assert (history.active.times_s, history.active.values) == ([0, 10, 20], [2, 1, 0])
    assert (history.ready.times_s, history.ready.values) == ([0, 10], [1, 0])


def test_iterations_of_a_loop_are_recorded():
    flow = Builder("loop")
    flow.task("a", work=1)
    flow.task("b", after="a", work=1)
    flow.loop("l", last="b", first="a", until="b.exit_code == 0")
    history = simulate_history({"loop": flow.build()}, {"m": {}}, scenario=Scenario(iterations={"l": 3}))
    assert history.runs[0].iterations == {"l": 3}
    assert [(each.task, each.iteration) for each in history.attempts.values()] == [
        (name, iteration) for iteration in (1, 2, 3) for name in "ab"
    ]
    assert all(each.useful_share == 1 for each in history.attempts.values())


def test_suspension_is_counted_in_the_history():
    scenario = Scenario(suspensions=(Suspension(task="work", at_s=3, lasting_s=4),))
    (attempt,) = simulate_history({"one": one_task()}, {"m": {}}, scenario=scenario).attempts.values()
    assert (attempt.suspended_s, attempt.ended_s) == (4, 14)


def test_attempt_that_failed_permanently_counts_no_useful_seconds():
    history = simulate_history({"one": one_task()}, {"m": {}}, scenario=Scenario(exit_codes={"work": (7,)}))
    (failure,) = history.failures
    assert (failure.cause, failure.for_good) == ("error", True)
    assert history.runs[0].outcome == "failed"
    assert history.runs[0].slowdown is None
    assert [attempt.useful_s for attempt in history.attempts.values()] == [0]


def test_step_function_keeps_the_last_value_of_each_time():
    steps = StepFunction()
    for now_s, value in ((0, 1), (0, 2), (1, 2), (3, 5), (3, 2), (4, 0)):
        steps.at(now_s, value)
    assert (steps.times_s, steps.values) == ([0, 4], [2, 0])
    assert steps.mean(8) == 1
    many = StepFunction()
    for now_s in range(100):
        many.at(now_s, now_s % 7)
    assert max(value for _, value in many.thinned(10)) == 6
    assert len(many.thinned(10)) <= 12
    assert many.thinned(10)[-1] == (99, 99 % 7)


@settings(
    max_examples=25,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@given(simulations())
def test_work_is_conserved_and_nodes_are_never_allocated_twice(simulation):
    history, entries = History(), []
    engine = simulation.run(
        record=entries.append,
        check=lambda engine: history.take(entries[-1], engine.state),
        stop=lambda _: len(entries) > 300,
    )
    history.finish()
    shares = defaultdict(float)
    for attempt in history.attempts.values():
        assert attempt.useful_s <= attempt.ran_s * (1 + 1e-9)
        shares[attempt.run, attempt.task, attempt.counters] += attempt.useful_share
        if attempt.started_s is not None and attempt.ended_s is not None:
            assert attempt.assigned_s <= attempt.started_s <= attempt.ended_s
    completed = {
        (each.run, each.task, each.counters)
        for each in history.attempts.values()
        if each.ending == "completed"
    }
    for key, share in shares.items():
        assert share == pytest.approx(1 if key in completed else 0)
    _compare_with_entries(history, entries, at_once=engine.settings.begins_at_once)
    for machine, taken in enumerate(_most_at_once(history, len(engine.state.machines))):
        if not engine.state.machines[machine].unlimited:
            assert taken <= engine.state.machines[machine].nodes


def _compare_with_entries(history, entries, *, at_once):
    """Assert that the history has the start of every program that the entries state."""
    if at_once:
        began = {
            each.attempt: entry.now
            for entry in entries
            for each in entry.commands
            if isinstance(each, cm.Start)
        }
    else:
        began = {entry.event.attempt: entry.now for entry in entries if isinstance(entry.event, ev.Started)}
    for number, attempt in history.attempts.items():
        if attempt.submitted_s is not None and attempt.started_s is not None:
            assert attempt.started_s == began[number]


def _most_at_once(history, machines):
    """Return, by machine, the maximum number of nodes that were busy at the same time."""
    changes = defaultdict(list)
    for attempt in history.attempts.values():
        if (
            attempt.started_s is not None
            and attempt.ended_s is not None
            and attempt.ended_s > attempt.started_s
        ):
            changes[attempt.machine] += [
                (attempt.started_s, 1, attempt.nodes),
                (attempt.ended_s, 0, -attempt.nodes),
            ]
    for machine in range(machines):
        now = most = 0
        for _, _, change in sorted(changes[machine]):
            now += change
            most = max(most, now)
        yield most


def test_failure_of_a_loop_that_has_not_converged_states_the_reason():
    flow = Builder("loops")
    flow.task("step", work=1, outcomes=[0, 1])
    flow.loop("again", last="step", first="step", until="step.exit_code == 1", max_iterations=2)
    scenario = Scenario(exit_codes={"step": (0, 0)})
    history = simulate_history({"loops": flow.build()}, {"m": {}}, scenario=scenario)
    (failure,) = history.failures
    assert failure.text.startswith("loop again has not converged after 2 iterations")


def test_jobs_that_are_not_submitted_are_displayed_with_machine_time_and_reason():
    engine = RecordedEngine(one_task(sweep={"i": "1..2"}), platform_of(1.0, 1.0))
    history = engine.history
    for attempt in (0, 1):
        engine.handle(ev.Started(attempt=attempt), at=1)
    display = RunDisplay(progress=SimpleNamespace(state=engine.engine.state, history=history), logs=None)
    engine.handle(ev.StartDelayed(attempt=0, reason="the queue is full"), at=10)
    assert list(history.running) == [1]
    assert display.delay_lines(30.0) == ["1 task waits on m0 for 20 s: the queue is full"]
    assert display.delays[0].since_s == 10
    engine.handle(ev.StartDelayed(attempt=0, reason="no answer"), at=40)
    assert display.delay_lines(40.0) == ["1 task waits on m0: no answer"]
    engine.handle(ev.JobQueued(attempt=0, job="17"), at=50)
    assert display.delay_lines(60.0) == []
    assert sorted(history.running) == [0, 1]
    assert history.attempts[0].started_s == 50
    ended = [(each.since_s, each.until_s, each.reason) for each in history.delays]
    assert ended == [(10, 40, "the queue is full"), (40, 50, "no answer")]
    engine.handle(ev.Ended(attempt=0), at=60)
    assert [each.number for each in history.succeeded] == [0]


def test_task_that_ends_without_a_report_of_its_start_has_succeeded():
    """The engine was killed, and the job ran and ended before the next engine looked."""
    engine = RecordedEngine(one_task(), platform_of(1.0))
    engine.handle(ev.Started(attempt=0), at=1)
    engine.handle(ev.StartDelayed(attempt=0, reason="no answer"), at=2)
    engine.handle(ev.Ended(attempt=0, ran_s=5.0), at=30)
    (attempt,) = engine.history.succeeded
    assert (attempt.ended_s - attempt.started_s, attempt.ending) == (5.0, "completed")
    assert engine.history.delays[0].until_s == 30


def test_outage_of_a_host_has_one_note_in_the_report():
    engine = RecordedEngine(one_task(), platform_of(1.0, 1.0))
    engine.handle(ev.Started(attempt=0), at=1)
    silent = ev.ContactChanged(machine=0, answers=False, silent_s=5, lost_in_s=55)
    engine.handle(silent, at=10)
    engine.handle(replace(silent, silent_s=15, lost_in_s=45, reason="timed out"), at=20)
    history = engine.history
    display = RunDisplay(progress=SimpleNamespace(state=engine.engine.state, history=history), logs=None)
    at = display.clock_time(65)
    assert display.describe_machine(history.machine_changes[-1]) == (
        f"machine m0 does not answer (timed out): its tasks are unknown; it counts as lost at {at} unless it answers"
    )
    executed = SimpleNamespace(history=history, machine_names=["m0", "m1"], origin_s=0.0)
    assert _machine_notes(executed, None) == ["machine m0 did not answer for 15 s (timed out), after 5 s"]
    engine.handle(ev.ContactChanged(machine=0, answers=True, silent_s=20), at=25)
    answered = "machine m0 did not answer for 20 s (timed out), after 5 s"
    assert _machine_notes(executed, None) == [answered]
    engine.handle(replace(silent, reason="refused"), at=40)
    engine.handle(ev.MachineChanged(machine=0, up=False, reason="no route"), at=95)
    lost = "machine m0 did not answer for 60 s (no route) and was lost, after 35 s"
    assert _machine_notes(executed, None) == [answered, lost]
    assert _machine_notes(executed, 1) == [answered, "1 more change of machines"]
