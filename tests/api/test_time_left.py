"""Progress counters and the time left, estimated from the plan and the pace of completed tasks."""

from __future__ import annotations

import pytest

from driven_engine import platform_of
from unsure_predictor import Unsure
from weft.api.progress import ExecutionProgress, TimeLeft, latest_of, time_left
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.engine.engine import Engine
from weft.engine.history import History
from weft.engine.journal import JournalEntry
from weft.engine.replan.remainder import prepare_replan
from weft.engine.state.compiled import WorkflowLibrary
from weft.engine.states import Admission, TaskState
from weft.instance.compilation import compile_instance
from weft.planners.planner import Budget, make_planner
from weft.policies.policy import make_policy
from weft.randomness import generator
from weft.workflow.builder import Builder
from weft.workflow.checks import check_and_unfold
from weft.workflow.settings import RunSettings


class CountedEngine:
    """An engine that follows a plan, with the progress counters that its journal entries give."""

    def __init__(self, workflow, *, predictor=None, speeds=(1,)):
        instance = compile_instance(check_and_unfold(workflow), platform_of(*speeds), predictor=predictor)
        settings = RunSettings(begins_at_once=True)
        self.engine = Engine(WorkflowLibrary({"w": instance}), instance, make_policy("plan"), settings)
        self.progress = ExecutionProgress(History(), self.engine.state)
        self.entries = 0
        self.promise = self.plan(self.handle(ev.Submitted(run=0, workflow="w"), 0.0), 0.0)

    def plan(self, commands, now_s):
        """Answer the plan request among commands; return the promise of the plan."""
        (replan,) = [each for each in commands if isinstance(each, cm.Replan)]
        question = prepare_replan(self.engine.state, 0)
        made = question.planned(make_planner("heft"), Budget(steps=1), generator(0, "test"))
        stored = question.kept(make_planner("heft"), made)
        self.engine.state.plans[stored.key] = stored
        self.handle(ev.PlanReady(plan=stored.key, run=0, version=replan.version), now_s)
        return question.promise(made, arrival_s=0.0, seed=0)

    def migrate(self, task, now_s):
        """Move a running task at the request of the user, and plan the rest of the run."""
        old = self.engine.state.runs[0].attempt_of[task]
        commands = self.handle(ev.RequestReceived(what="migrate", run=0, task=task), now_s)
        commands += self.handle(ev.Ended(attempt=old, exit_code=None, cause="cancelled"), now_s)
        commands += self.handle(ev.CleanedUp(attempt=old), now_s)
        self.plan(commands, now_s)

    def handle(self, event, now_s):
        commands = self.engine.handle(event, now_s)
        self.entries += 1
        self.progress.take(
            JournalEntry(sequence=self.entries, now=now_s, event=event, commands=tuple(commands))
        )
        return commands

    def left(self, now_s):
        return time_left(self.engine.state.runs[0], self.progress, now_s, self.promise)

    def counts(self):
        return [(row.kind, row.waiting, row.running, row.done, row.failed) for row in self.progress.counts()]


def chain(**facets):
    flow = Builder("chain")
    flow.task("a", work=10, **facets)
    flow.task("b", after="a", work=10, **facets)
    flow.task("c", after="b", work=10, **facets)
    return flow.build()


def test_time_left_falls_with_progress_and_grows_when_tasks_are_slow():
    hand = CountedEngine(chain())
    assert hand.counts() == [("a", 0, 1, 0, 0), ("b", 1, 0, 0, 0), ("c", 1, 0, 0, 0)]
    assert hand.left(0.0) == TimeLeft(p50_s=30.0, p90_s=None)
    assert str(hand.left(0.0)) == "30 s (spread unknown)"
    assert hand.left(4.0).p50_s == pytest.approx(26.0)
    hand.handle(ev.Ended(attempt=0), 20.0)  # twice as long as estimated
    assert hand.left(20.0).p50_s == pytest.approx(40.0)
    assert hand.left(20.0).p90_s is None  # one measured time has no spread
    assert hand.left(30.0).p50_s == pytest.approx(30.0)
    hand.handle(ev.Progressed(attempt=1, work_done=0.9), 30.0)
    assert hand.left(30.0).p50_s == pytest.approx((1.0 + 10.0) * 2)
    hand.handle(ev.Ended(attempt=1), 30.0)
    left = hand.left(30.0)
    assert left.p50_s == pytest.approx(15.0)  # between once and twice
    assert left.p90_s == pytest.approx(19.0)
    assert str(left) == "15 s to 19 s"
    assert hand.left(100.0).p50_s is None  # the planned end has passed
    hand.handle(ev.Ended(attempt=2), 101.0)
    assert hand.left(101.0) == TimeLeft(p50_s=0.0, p90_s=0.0)
    assert hand.counts() == [("a", 0, 0, 1, 0), ("b", 0, 0, 1, 0), ("c", 0, 0, 1, 0)]


def test_load_on_a_machine_counts_once_in_the_time_left():
    """The plan assumes an idle machine; three competing programs leave a quarter of its speed."""
    hand = CountedEngine(chain())
    hand.handle(ev.Fetched(machine=0, speed_factor=0.25, load=3.0), 0.0)
    assert hand.left(0.0).p50_s == pytest.approx(120.0)
    assert hand.left(20.0).p50_s == pytest.approx(100.0)
    hand.handle(ev.Progressed(attempt=0, work_done=0.75), 30.0)
    assert hand.left(30.0).p50_s == pytest.approx(90.0)
    hand.handle(ev.Ended(attempt=0), 40.0)  # as expected beside the load
    assert hand.left(40.0).p50_s == pytest.approx(80.0)
    assert hand.left(60.0).p50_s == pytest.approx(60.0)
    hand.handle(ev.Fetched(machine=0, speed_factor=1.0, load=0.0), 40.0)  # the other programs have ended
    assert hand.left(40.0).p50_s == pytest.approx(20.0)


def test_time_left_of_programs_that_load_does_not_slow_follows_their_measured_times():
    hand = CountedEngine(chain())
    hand.handle(ev.Fetched(machine=0, speed_factor=0.25, load=3.0), 0.0)
    hand.handle(ev.Ended(attempt=0), 10.0)
    assert hand.left(10.0).p50_s == pytest.approx(20.0)
    assert hand.left(15.0).p50_s == pytest.approx(15.0)


def test_load_counts_once_in_the_time_left_of_a_plan_made_beside_it():
    flow = Builder("replanned")
    flow.task("x", work=40)
    flow.task("x2", after="x", work=10)
    hand = CountedEngine(flow.build(), speeds=(1, 1))
    for machine in range(2):
        hand.handle(ev.Fetched(machine=machine, speed_factor=0.5, load=1.0), 0.0)
    hand.migrate(0, 10.0)
    assert set(hand.engine.state.runs[0].plan.planned_tasks) == {1}  # planned with 20 s
    assert hand.left(10.0).p50_s == pytest.approx(80.0 + 20.0)
    assert hand.left(50.0).p50_s == pytest.approx(40.0 + 20.0)
    hand.handle(ev.Ended(attempt=hand.engine.state.runs[0].attempt_of[0]), 90.0)
    assert hand.left(90.0).p50_s == pytest.approx(20.0)


def test_time_left_decreases_after_a_progress_report_until_the_next_report_is_overdue():
    hand = CountedEngine(chain())
    hand.handle(ev.Progressed(attempt=0, work_done=0.25, age_s=2.0, every_s=3.0), 4.5)
    assert hand.left(4.5).p50_s == pytest.approx(5.5 + 20.0)
    assert hand.left(5.5).p50_s == pytest.approx(4.5 + 20.0)
    assert hand.left(9.5).p50_s == pytest.approx(4.5 + 20.0)  # no report after 3 s: it may have stopped
    hand.handle(ev.Progressed(attempt=0, work_done=0.5), 10.0)
    assert hand.left(12.0).p50_s == pytest.approx(3.0 + 20.0)
    hand.handle(ev.Suspended(attempt=0), 12.0)
    assert hand.left(15.0).p50_s == pytest.approx(3.0 + 20.0)


def test_without_estimates_the_time_left_is_unknown_until_a_task_of_the_same_kind_has_ended():
    flow = Builder("unknown")
    flow.task("a")
    flow.task("b", after="a", sweep={"k": "1..2"})
    hand = CountedEngine(flow.build())
    assert str(hand.left(0.0)) == "unknown (3 tasks of unknown duration)"
    hand.handle(ev.Ended(attempt=0), 3.0)
    assert (
        str(hand.left(3.0)) == "unknown (2 tasks of unknown duration)"
    )  # b is not predicted from the time of a
    hand.handle(ev.Ended(attempt=1), 8.0)
    assert hand.left(8.0) == TimeLeft(p50_s=pytest.approx(5.0), p90_s=None)
    assert hand.progress.paces == {}


def test_time_left_of_tasks_without_estimates_follows_the_progress_that_one_of_them_reports():
    flow = Builder("unknown")
    flow.task("a", sweep={"k": "1..2"})
    hand = CountedEngine(flow.build())
    assert hand.left(5.0).p50_s is None
    hand.handle(ev.Progressed(attempt=0, work_done=0.25), 10.0)
    assert hand.left(10.0) == TimeLeft(p50_s=pytest.approx(30.0 + 40.0), p90_s=None)
    assert hand.left(14.0).p50_s == pytest.approx(26.0 + 40.0)
    hand.handle(ev.Progressed(attempt=0, work_done=0.5), 30.0)
    assert hand.left(30.0).p50_s == pytest.approx(30.0 + 60.0)
    hand.handle(ev.Ended(attempt=0), 50.0)
    assert hand.left(50.0).p50_s == pytest.approx(50.0)


def test_time_left_uses_stated_durations_of_some_kinds_and_measured_durations_of_others():
    flow = Builder("mixed")
    flow.task("probe", command="true", sweep={"k": "1..2"})
    flow.task("solve", work=10, after="probe", sweep={"k": "1..2"})
    hand = CountedEngine(flow.build())
    assert hand.left(0.0).p50_s is None
    hand.handle(ev.Ended(attempt=0), 40.0)
    # One more probe of 40 s, planned with 1 s, and 20 s as stated: 21 s of the plan at (40 + 20) / 21.
    assert hand.left(40.0).p50_s == pytest.approx(60.0)
    hand.handle(ev.Ended(attempt=1), 80.0)
    assert hand.left(80.0) == TimeLeft(p50_s=pytest.approx(20.0), p90_s=None)


def test_before_any_task_has_ended_p50_and_p90_of_the_time_left_equal_the_promise():
    unsure = CountedEngine(chain(), predictor=Unsure(other=1.5))
    first = unsure.left(0.0)
    assert (first.p50_s, first.p90_s) == pytest.approx((unsure.promise.p50_s, unsure.promise.p90_s))
    assert first.p90_s > first.p50_s + 1
    unsure.handle(
        ev.Ended(attempt=0), 20.0
    )  # a single measured time: twice as long, with the predicted spread
    later = unsure.left(20.0)
    assert later.p50_s == pytest.approx(40.0)
    assert later.p90_s / later.p50_s == pytest.approx(first.p90_s / first.p50_s)


def test_time_left_includes_the_pause_before_the_next_try_to_copy_outputs():
    flow = Builder("copied")
    flow.task("a", work=10, outputs={"y": {"to": "copy of y"}})
    flow.task("b", after="a", work=10, outputs={"z": {"to": "copy of z"}})
    hand = CountedEngine(flow.build())
    for attempt, following_s in ((0, 5.0), (1, 0.0)):  # each takes half as long as estimated
        ended_s = 5.0 * (attempt + 1)
        hand.handle(ev.Ended(attempt=attempt), ended_s)
        for pause_s in (1.0, 2.0):
            hand.handle(ev.StagedOut(attempt=attempt, problem="disk full"), ended_s)
            assert hand.left(ended_s).p50_s == pytest.approx(pause_s + following_s)
            hand.handle(ev.TimerFired(timer=f"stage-out:{attempt}"), ended_s)
        copied = (
            "5 s (spread unknown)" if following_s else "unknown (outputs are being copied, or epilogs run)"
        )
        assert str(hand.left(ended_s)) == copied
        hand.handle(ev.StagedOut(attempt=attempt), ended_s)
    assert str(hand.left(10.0)) == "0 s"


def test_time_left_includes_the_time_until_the_planned_start():
    hand = CountedEngine(chain())
    run = hand.engine.state.runs[0]
    run.attempt_of.clear()
    run.state[0] = TaskState.READY
    assert hand.left(-7.0).p50_s == pytest.approx(37.0)


def test_time_left_after_a_migration_includes_the_tasks_that_run_outside_the_new_plan():
    flow = Builder("moved")
    flow.task("x", work=40)
    flow.task("y", work=15)
    flow.task("y2", after="y", work=5)
    hand = CountedEngine(flow.build(), speeds=(1, 1, 1))
    hand.migrate(0, 5.0)
    assert set(hand.engine.state.runs[0].plan.planned_tasks) == {2}
    assert [hand.left(now_s).p50_s for now_s in (5.0, 10.0)] == pytest.approx([40.0, 35.0])
    hand.handle(ev.Ended(attempt=1), 15.0)
    assert hand.left(18.0).p50_s == pytest.approx(27.0)
    hand.handle(ev.Ended(attempt=hand.engine.state.runs[0].attempt_of[2]), 20.0)
    assert [hand.left(now_s).p50_s for now_s in (20.0, 40.0)] == pytest.approx([25.0, 5.0])
    assert str(hand.left(46.0)) == "unknown (the planned end has passed)"


def test_time_left_adds_tasks_that_wait_for_a_migrated_task_or_for_its_machine():
    flow = Builder("waiting")
    flow.task("x", work=40)
    flow.task("x2", after="x", work=10)
    hand = CountedEngine(flow.build(), speeds=(1, 1))
    hand.migrate(0, 5.0)
    assert hand.left(10.0).p50_s == pytest.approx(35.0 + 10.0)
    hand.handle(ev.Progressed(attempt=1, work_done=0.25), 25.0)  # half as fast as planned
    assert hand.left(25.0).p50_s == pytest.approx(30.0 + 10.0)
    flow = Builder("queue")
    flow.task("x", sweep={"k": "1..3"}, work=40)
    hand = CountedEngine(flow.build(), speeds=(1, 1))
    kept = hand.engine.state.runs[0].plan.planned_tasks[2].machine
    drained = ev.MachineChanged(machine=1 - kept, admission=Admission.DRAINED)
    hand.plan(hand.handle(drained, 5.0), 5.0)
    assert set(hand.engine.state.runs[0].plan.planned_tasks) == {2}
    assert hand.left(10.0).p50_s == pytest.approx(30.0 + 40.0)
    hand.handle(ev.Progressed(attempt=kept, work_done=0.25), 20.0)
    assert hand.left(20.0).p50_s == pytest.approx(30.0 + 40.0)


def beside_a_long_task():
    """Return a run in which b (1 s, after the 8 s of a) has 21 s of slack beside c (30 s)."""
    flow = Builder("slack")
    flow.task("a", work=8)
    flow.task("b", after="a", work=1)
    flow.task("c", work=30)
    return CountedEngine(flow.build(), speeds=(1, 1))


def test_time_left_goes_on_falling_while_a_task_is_held_and_names_it():
    hand = beside_a_long_task()
    hand.handle(ev.RequestReceived(what="hold", run=0, task=1), 2.0)
    assert str(hand.left(2.0)) == "28 s (spread unknown), without 1 held task"
    hand.handle(ev.Ended(attempt=hand.engine.state.runs[0].attempt_of[0]), 8.0)
    assert [hand.left(now_s).p50_s for now_s in (9.0, 17.0)] == pytest.approx([21.0, 13.0])
    hand.handle(ev.RequestReceived(what="release", run=0, task=1), 17.0)
    assert hand.engine.state.runs[0].state[1] == TaskState.RUNNING
    assert (hand.left(17.0).p50_s, hand.left(17.0).without) == (pytest.approx(13.0), 0)
    hand.handle(ev.Ended(attempt=hand.engine.state.runs[0].attempt_of[1]), 18.0)
    assert hand.left(18.0).p50_s == pytest.approx(12.0)


def test_late_task_with_slack_does_not_change_the_time_left():
    hand = beside_a_long_task()
    hand.handle(ev.Progressed(attempt=hand.engine.state.runs[0].attempt_of[0], work_done=0.1), 20.0)
    assert hand.left(20.0).p50_s == pytest.approx(10.0)


def test_time_left_counts_neither_held_tasks_nor_those_that_wait_for_them():
    flow = Builder("waiting")
    flow.task("a", work=10)
    flow.task("b", after="a", work=100)
    flow.task("c", after="b", work=100)
    hand = CountedEngine(flow.build())
    hand.handle(ev.RequestReceived(what="hold", run=0, task=1), 4.0)
    assert str(hand.left(4.0)) == "6 s (spread unknown), without 1 held task"
    assert str(latest_of([hand.left(4.0), TimeLeft(p50_s=7.0, p90_s=None)])) == (
        "7 s (spread unknown), without 1 held task"
    )


def test_time_left_is_unbounded_while_a_loop_has_no_iteration_limit():
    flow = Builder("loop")
    flow.task("a", work=1)
    flow.task("b", after="a", work=1)
    flow.loop("again", last="b", first="a", until="b.exit_code == 0", max_iterations=9)
    assert str(CountedEngine(flow.build()).left(0.0)) == "unknown"


def looped(expect, inner=None):
    """Return a workflow: 1 s, a loop over 2 s and 3 s (the 3 s optionally an inner loop), 4 s."""
    flow = Builder("loops")
    flow.task("before", work=1)
    flow.task("first", work=2, after="before")
    flow.task("last", work=3, after="first")
    flow.task("end", work=4, after="last")
    more = {"max_iterations": 99, "expect": expect}
    flow.loop("outer", last="last", first="first", until="last.exit_code == 0", **more)
    if inner is not None:
        more["expect"] = inner
        flow.loop("inner", last="last", first="last", until="last.exit_code == 1", **more)
    return flow.build()


@pytest.mark.parametrize(("expect", "inner"), [(1, None), (4, None), (2, 3)])
def test_time_left_includes_the_predicted_number_of_iterations(expect, inner):
    hand = CountedEngine(looped(expect, inner))
    assert (
        hand.left(0.0).p50_s == hand.promise.p50_s == 10 + 5 * (expect - 1) + 3 * expect * ((inner or 1) - 1)
    )


def test_finished_iterations_do_not_count_as_remaining():
    hand = CountedEngine(looped(3))
    hand.handle(ev.Ended(attempt=0), 1.0)
    hand.handle(ev.Ended(attempt=1), 3.0)
    assert hand.left(3.0).p50_s == pytest.approx(3 + 2 * 5 + 4)
    hand.handle(ev.Ended(attempt=2, exit_code=1), 6.0)  # the second of three begins
    assert hand.left(6.0).p50_s == pytest.approx(2 * 5 + 4)
    hand.handle(ev.Ended(attempt=3), 8.0)
    hand.handle(ev.Ended(attempt=4, exit_code=1), 11.0)
    assert hand.left(11.0).p50_s == pytest.approx(5 + 4)
    hand.handle(ev.Ended(attempt=5), 13.0)
    hand.handle(ev.Ended(attempt=6, exit_code=1), 16.0)  # a fourth one was not expected
    assert hand.left(16.0).p50_s is None
    hand.handle(ev.Ended(attempt=7), 18.0)
    hand.handle(ev.Ended(attempt=8, exit_code=0), 21.0)  # the loop ends
    assert hand.left(21.0).p50_s == pytest.approx(4)


def test_the_time_left_of_several_runs_is_the_maximum():
    one, two = TimeLeft(p50_s=1.0, p90_s=9.0), TimeLeft(p50_s=2.0, p90_s=3.0)
    assert latest_of([one, two]) == TimeLeft(p50_s=2.0, p90_s=9.0)
    assert str(latest_of([one, TimeLeft(p50_s=None, p90_s=None)])) == "unknown"
    assert latest_of([one, TimeLeft(p50_s=3.0, p90_s=None)]) == TimeLeft(p50_s=3.0, p90_s=None)
    assert str(latest_of([])) == "0 s"


def test_progress_ignores_durations_of_reused_tasks_and_lists_failures():
    hand = CountedEngine(chain(retries=1))
    hand.handle(ev.Ended(attempt=0, taken_over=3), 0.1)
    assert hand.progress.taken_over == {(0, "a"): 1}
    assert hand.progress.paces == {}
    hand.handle(ev.Ended(attempt=1, exit_code=None, cause="error", story="no such file"), 1.0)
    (failure,) = hand.progress.failures
    assert (failure.task, failure.cause, failure.text, failure.for_good) == (
        "b",
        "error",
        "no such file",
        False,
    )
    hand.handle(ev.Ended(attempt=2, story="the command changed"), 12.0)
    assert hand.progress.stale == {(0, "b"): {"the command changed": 1}}
    assert [each.task for each in hand.progress.running_attempts()] == ["c"]
