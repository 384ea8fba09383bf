"""The report data of an executed run, from a journal and its records."""

from __future__ import annotations

import json

import pytest

import weft
from driven_engine import platform_of
from reports.executed_journals import example_journal, journal_of
from weft.backends.layout import ProjectLayout
from weft.backends.simulation.scenario import Durations, Scenario
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.engine.engine import Engine
from weft.engine.history import History
from weft.engine.journal import JournalEntry
from weft.engine.replan.promise import Promise
from weft.engine.state.compiled import WorkflowLibrary
from weft.errors import InvalidInput
from weft.instance.compilation import compile_instance
from weft.policies.policy import make_policy
from weft.reports.charts import promise_chart
from weft.reports.execution import build_executed_run
from weft.reports.execution_page import (
    deviation_table,
    execution_facts,
    execution_html,
    execution_notes,
    kind_table,
    promise_table,
)
from weft.reports.execution_records import AttemptLogs, ExecutionRecords, ProcessUsage
from weft.workflow.checks import check_and_unfold
from weft.workflow.settings import RunSettings


def three_in_a_row():
    flow = weft.Builder("row")
    flow.task("first", work=10)
    flow.task("middle", work=20, after=["first"])
    flow.task("last", work=30, after=["middle"])
    return flow.build()


def swept(**facets):
    flow = weft.Builder("sweep")
    flow.task("work", sweep={"k": "1..4"}, work=10, **facets)
    return flow.build()


def test_run_without_deviations_meets_its_promise():
    executed = journal_of(three_in_a_row(), platform_of(1.0)).executed()
    assert (executed.outcome, executed.took_s) == ("completed", 60)
    (verdict,) = executed.verdicts
    assert (verdict.promised_s, verdict.at_most_s, verdict.took_s) == (60, None, 60)
    assert (verdict.word, verdict.change) == ("kept", 0)
    assert deviation_table(executed).rows == ()


@pytest.mark.parametrize(
    ("p50", "p90", "word"),
    [
        (60, 70, "kept"),
        (50, 60, "kept (within P90)"),
        (40, 50, "broken (beyond P90)"),
        (40, None, "late"),
    ],
)
def test_report_compares_a_run_with_the_prediction_recorded_before_it(p50, p90, word):
    promise = Promise(planned_s=p50, p50_s=p50, p90_s=p90, tasks=3)
    executed = journal_of(three_in_a_row(), platform_of(1.0)).executed(
        ExecutionRecords(promises={0: promise})
    )
    assert executed.verdicts[0].word == word
    assert executed.verdicts[0].change == pytest.approx(60 / p50 - 1)
    assert promise_table(executed).rows[0][2] == word


def test_deviations_from_the_plan_are_listed():
    slow = Scenario(durations=Durations(tasks={"middle": Durations(bias=1.5)}))
    executed = journal_of(three_in_a_row(), platform_of(1.0), scenario=slow).executed()
    assert {name: (line.start_s, line.finish_s) for name, line in executed.planned(0).items()} == {
        "first": (0, 10),
        "middle": (10, 30),
        "last": (30, 60),
    }
    assert [(each.task, each.longer_s, each.late_s) for each in executed.deviations] == [
        ("middle", 10, 10),
        ("last", 0, 10),
        ("first", 0, 0),
    ]
    assert [row[0] for row in deviation_table(executed).rows] == ["middle"]


def some_unknown():
    flow = weft.Builder("some")
    flow.task("first", work=10)
    flow.task("middle", command="true", after=["first"])
    flow.task("last", work=30, after=["middle"])
    return flow.build()


def test_placeholder_duration_is_neither_a_promise_nor_an_estimate():
    slow = Scenario(durations=Durations(tasks={"middle": Durations(bias=100.0)}))
    executed = journal_of(some_unknown(), platform_of(1.0), scenario=slow).executed()
    (verdict,) = executed.verdicts
    assert (verdict.promised_s, verdict.at_most_s, verdict.change, verdict.word) == (
        None,
        None,
        None,
        "unknown",
    )
    assert verdict.as_record()["promise"]["untimed_kinds"] == ["middle"]
    assert {kind.kind: kind.estimate_s for kind in executed.kinds} == {
        "first": 10,
        "middle": None,
        "last": 30,
    }
    assert [each.task for each in executed.deviations] == ["last", "first"]
    reported = "unknown: 1 of 3 tasks (kind middle) have no stated time"
    assert dict(execution_facts(executed))["promise"] == reported
    assert f"<p>{reported}</p>" in execution_html(executed)


def test_report_prints_a_lower_bound_if_the_promised_time_is_unknown():
    printed = Promise(planned_s=41, least_s=40, tasks=3, untimed=1, untimed_kinds=("middle",), least_cost=4)
    executed = journal_of(some_unknown(), platform_of(1.0)).executed(ExecutionRecords(promises={0: printed}))
    reported = "at least 40 s, cost at least 4; unknown: 1 of 3 tasks (kind middle) have no stated time"
    assert dict(execution_facts(executed))["promise"] == reported
    assert promise_table(executed).rows[0][2:5] == ("unknown", "at least 40 s", "unknown")
    assert promise_chart(executed.verdicts) == ""
    assert '<rect class="promised"' not in execution_html(executed)


def test_runs_without_a_promise_are_counted_as_unknown():
    flows = [three_in_a_row(), some_unknown()]
    executed = journal_of(flows, platform_of(1.0), arrivals=[0.0, 100.0]).executed()
    assert dict(execution_facts(executed))["promises"] == "1 of 1 kept, 1 unknown"
    assert (
        "run 1 (some), promise: unknown: 1 of 3 tasks (kind middle) have no stated time"
        in execution_notes(executed)
    )


def test_attempts_are_summarised_for_each_kind_of_task():
    scenario = Scenario(exit_codes={"work[2]": (1, 0)})
    flow = swept(retries=1)
    written = journal_of(flow, platform_of(1.0, 2.0), scenario=scenario, policy="fcfs")
    measured = {
        number: ProcessUsage(cpu_s=2.5, max_rss_bytes=1000 + number) for number in written.history().attempts
    }
    executed = written.executed(ExecutionRecords(measured=measured))
    (kind,) = executed.kinds
    assert (kind.tasks, kind.completed, kind.attempts, kind.failed, kind.taken_over) == (4, 4, 5, 1, 0)
    seconds = sorted(each.ran_s for each in executed.attempts if each.ending == "completed")
    assert set(seconds) <= {5.0, 10.0}
    assert (kind.mean_s, kind.most_s) == (sum(seconds) / 4, seconds[-1])
    assert kind.p50_s == (seconds[1] + seconds[2]) / 2
    assert kind.p90_s == pytest.approx(seconds[2] + 0.7 * (seconds[3] - seconds[2]))
    assert kind.ratio == pytest.approx(1), "every attempt took what was estimated"
    assert kind.cpu_share == pytest.approx(5 * 2.5 / sum(each.ran_s for each in executed.ran))
    assert kind.max_rss_bytes == 1000 + max(measured)
    assert kind_table(executed).rows[0][:5] == ("work", "4/4", "-", "1", "1")
    assert dict(execution_facts(executed))["migrations"] == "1 (1 failure)", "the table agrees"


def test_report_of_a_failure_contains_the_last_lines_of_its_log(tmp_path):
    scenario = Scenario(exit_codes={"work[2]": (7, 0)})
    written = journal_of(swept(retries=1), platform_of(1.0), scenario=scenario, policy="fcfs")
    (failed,) = written.history().failures
    layout = ProjectLayout(tmp_path)
    records = layout.records(3, failed.attempt, "ab12")
    records.mkdir(parents=True)
    (records / "out").write_text("never read\n")
    (records / "err").write_text("".join(f"line {n}\n" for n in range(1, 31)))
    measured = {failed.attempt: ProcessUsage(text="message of the program")}
    executed = written.executed(
        ExecutionRecords(
            logs=AttemptLogs(layout=layout, execution=3, nonce=lambda _: "ab12"), measured=measured
        )
    )
    (reported,) = executed.failures
    assert reported.headline() == "work[2], attempt 1: error (exit code 7), retried"
    assert reported.log is not None
    assert reported.log.path == f".weft/attempts/3/{failed.attempt}-ab12/err"
    assert reported.log.lines == tuple(f"line {n}" for n in range(21, 31))
    assert reported.text == "message of the program"
    assert ("failures", "1 (1 error)") in execution_facts(executed)


def reuse_journal():
    """Return a journal in which the outputs of the first task are reused."""
    platform = platform_of(1.0)
    instance = compile_instance(check_and_unfold(three_in_a_row()), platform)
    engine = Engine(
        WorkflowLibrary({"row": instance}),
        instance,
        make_policy("fcfs"),
        RunSettings(begins_at_once=False),
        policy_named=make_policy,
    )
    history = History()
    waiting: list[tuple[float, ev.Event]] = [(0.0, ev.Submitted(run=0, workflow="row"))]
    sequence = 0
    while waiting:
        now, event = waiting.pop(0)
        commands = engine.handle(event, now)
        history.take(
            JournalEntry(sequence=sequence, now=now, event=event, commands=tuple(commands)), engine.state
        )
        sequence += 1
        for command in commands:
            if isinstance(command, cm.Start):
                over = command.task == 0
                if not over:
                    waiting.append((now + 1, ev.Started(attempt=command.attempt)))
                ended = ev.Ended(attempt=command.attempt, taken_over=1 if over else None)
                waiting.append((now if over else now + 11, ended))
    return history.finish(), engine.state, platform


def test_results_of_earlier_runs_count_as_reused():
    history, state, platform = reuse_journal()
    executed = build_executed_run(history, state, platform)
    assert executed.outcome == "completed"
    assert executed.taken_over == 1
    assert [(kind.kind, kind.taken_over, kind.attempts, kind.mean_s) for kind in executed.kinds] == [
        ("first", 1, 0, None),
        ("middle", 0, 1, 10),
        ("last", 0, 1, 10),
    ]
    assert ("tasks", "3 completed, 1 of them reused from earlier runs") in execution_facts(executed)


def test_report_can_show_one_of_several_runs():
    written = journal_of([swept(), three_in_a_row()], platform_of(1.0), arrivals=(0, 100), policy="fcfs")
    both, second = written.executed(), written.executed(runs=[1])
    assert (both.several, second.several) == (True, False)
    assert (both.origin_s, both.took_s) == (0, 160)
    assert (second.origin_s, second.took_s) == (100, 60)
    assert {attempt.task for attempt in second.attempts} == {"first", "middle", "last"}
    assert second.running.times_s == [0, 60], "times count from the run's arrival"
    assert {kind.workflow for kind in both.kinds} == {"sweep", "row"}
    with pytest.raises(InvalidInput, match="run 2; this execution has 2 runs"):
        written.executed(runs=[2])


def test_interrupted_run_is_reported_up_to_its_interruption():
    written = journal_of(three_in_a_row(), platform_of(1.0), policy="fcfs")
    ended = [entry for entry in written.entries if isinstance(entry.event, ev.Ended)]
    cut = written.entries[: ended[1].sequence + 1]
    executed = type(written)(
        simulation=written.simulation, platform=written.platform, entries=cut, plans=written.plans
    ).executed()
    assert (executed.outcome, executed.took_s) == ("interrupted", 30)
    assert [attempt.ending for attempt in executed.attempts] == ["completed", "completed", ""]
    assert execution_notes(executed) == ["run 0 (row) has not ended"]


def test_report_data_are_plain_and_deterministic():
    written = example_journal()
    first, second = written.executed().as_record(), written.executed().as_record()
    assert json.dumps(first) == json.dumps(second)
    assert len(first["attempts"]) == len(written.history().attempts)
    assert {kind["kind"] for kind in first["kinds"]} >= {"lapw0", "lapw1", "simulate"}
    assert first["outcome"] == "failed"
