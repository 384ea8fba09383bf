"""Page and summary of an executed run are complete, and texts of tasks are escaped."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from markupsafe import escape

import weft
from driven_engine import platform_of
from reports.browser import needs_browser, seen_in_browser
from reports.executed_journals import example_journal, journal_of
from reports.test_simulation_pages import Reader
from weft.backends.layout import ProjectLayout
from weft.backends.simulation.scenario import Scenario
from weft.engine.replan.promise import Promise
from weft.reports.charts import estimate_chart, promise_chart
from weft.reports.execution import PromiseOutcome
from weft.reports.execution_page import execution_chart, execution_html, execution_lines, path_table
from weft.reports.execution_records import AttemptLogs, ExecutionRecords, ProcessUsage

EVIL = '<img src=x onerror="document.title=1"><script>document.title = "taken"</script>'


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """Return a run with a failure whose log and name contain HTML."""
    flow = weft.Builder("<b>flow</b>")
    flow.task("work", sweep={"k": "1..3"}, work=10, retries=1)
    flow.task("end", work=5, after=["work"])
    scenario = Scenario(exit_codes={"work[2]": (3, 0)})
    written = journal_of(flow.build(), platform_of(1.0, 1.0), scenario=scenario, policy="fcfs")
    (failed,) = written.history().failures
    layout = ProjectLayout(tmp_path_factory.mktemp("project"))
    records = layout.records(1, failed.attempt, "ab12")
    records.mkdir(parents=True)
    (records / "err").write_text(f"first\n{EVIL}\n\x1b[31m@@SCRIPT@@\n")
    records = ExecutionRecords(
        promises={0: Promise(planned_s=20, p50_s=20, p90_s=22, tasks=2)},
        logs=AttemptLogs(layout=layout, execution=1, nonce=lambda _: "ab12"),
        measured={0: ProcessUsage(cpu_s=9, max_rss_bytes=5e6)},
    )
    return written.executed(records)


def test_the_page_is_complete_and_self_contained(executed):
    page = execution_html(executed)
    reader = Reader()
    reader.feed(re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL))
    assert reader.open == []
    assert reader.headings == [
        "Failures",
        "Promise against outcome",
        "Critical path",
        "Kinds of tasks",
        "Migrations",
        "Over time",
        "Slowdown",
        "Runs",
        "Machines",
    ]
    assert "http://" not in page
    assert "https://" not in page
    assert page == execution_html(executed)


@pytest.mark.parametrize("text", ["exit code 3", "no reason given"])
def test_failure_message_is_shown_once(executed, text):
    (failure,) = executed.failures
    measured = {failure.failed.attempt: ProcessUsage(text=text)}
    page = execution_html(replace(executed, records=replace(executed.records, measured=measured)))
    reported = page[page.index('<div class="failure">') :].partition("</div>")[0]
    assert sum(text in line for line in reported.splitlines()[2:]) == 1


def test_output_of_tasks_is_escaped(executed):
    page = execution_html(executed)
    assert EVIL not in page
    assert str(escape(EVIL)) in page
    assert "\x1b" not in page
    assert "@@SCRIPT@@" in page, "what looks like a placeholder is none"
    assert "<b>flow" not in page


def test_the_critical_path_is_marked_in_the_chart(executed):
    chart = execution_chart(executed)
    marked = [chart.schedule.tasks[index] for index in chart.critical]
    assert marked == [
        step.attempt.task + (" ✗" if step.attempt.ending == "failed" else "") for step in executed.path.steps
    ]
    assert chart.schedule.makespan_s == executed.took_s


def test_page_of_a_disturbed_run_is_made():
    written = example_journal()
    page = execution_html(written.executed())
    assert page.count('<div class="failure">') == len(written.history().failures)
    one = written.executed(runs=[4])
    assert "<h2>Critical path</h2>" in execution_html(one)
    others = [row[0] for row in path_table(one).rows if not row[0].startswith(("simulate", "process"))]
    assert all(re.match(r"\d+:", name) for name in others), "tasks of other runs are named with their run"


def test_page_of_a_run_without_attempts_is_made():
    flow = weft.Builder("nothing")
    flow.task("gate", kind="virtual")
    executed = journal_of(flow.build(), platform_of(1.0), policy="fcfs").executed()
    assert "Critical path" in execution_html(executed)
    assert execution_lines(executed)[0] == "nothing on platform"


def test_promises_are_drawn_to_scale():
    printed = Promise(planned_s=10, p50_s=10, p90_s=15, tasks=1)
    verdict = PromiseOutcome(run=0, workflow="w", promise=printed, took_s=20, completed=True)
    drawn = promise_chart([verdict])
    widths = dict(re.findall(r'<rect class="(\w+)" x="[\d.]+" y="\d+" width="([\d.]+)"', drawn))
    # 694 units correspond to the longest time, 20 s.
    assert {kind: float(width) for kind, width in widths.items()} == {
        "promised": 347.0,
        "unsure": 173.5,
        "late": 694.0,
    }
    assert promise_chart([]) == ""
    unsure = promise_chart([replace(verdict, promise=replace(printed, p90_s=None))])
    assert "P90" not in unsure
    assert 'class="unsure"' not in unsure


def test_estimates_are_compared_with_measurements(executed):
    drawn = estimate_chart(executed.attempts)
    points = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', drawn)
    assert len(points) == 4
    # 5 s and 10 s as estimated: the points lie on the diagonal.
    assert all(float(x) - 70 == pytest.approx(434 - float(y), abs=0.11) for x, y in points)
    assert estimate_chart(()) == ""


def test_the_summary_lists_outcome_promise_and_failed_attempts_with_escaped_text(executed):
    lines = execution_lines(executed)
    text = "\n".join(lines)
    assert lines[0] == "<b>flow</b> on platform"
    assert "  outcome        completed" in lines
    assert "20 s (P90 22 s): broken (beyond P90), +" in text
    assert "work[2], attempt" in text
    assert "error (exit code 3), retried" in text
    assert f"  | {EVIL}"[:60] in text
    assert "?[31m@@SCRIPT@@" in text
    assert "\x1b" not in text
    assert re.search(r"^  log: \.weft/attempts/1/\d+-ab12/err$", text, re.MULTILINE)
    assert not any("reused" in line for line in lines), "columns that say nothing are left out"


@pytest.mark.parametrize("width", [10, 60, 200])
def test_text_of_the_summary_is_wrapped_and_table_rows_are_not_wrapped(executed, width):
    lines = execution_lines(executed, width=width, ascii_only=True)
    begin = lines.index("")
    end = lines.index("", begin + 1)
    assert lines[begin + 1 : end][0].split()[0] == "kind"
    texts = [*lines[:begin], *(line for line in lines[begin:] if line.startswith("note: "))]
    assert max(map(len, texts)) <= max(width, 40)
    assert not any("~" in line for line in lines)
    shown = " ".join(" ".join(lines[:begin]).split())
    assert "20 s (P90 22 s): broken (beyond P90), +" in shown
    wide = execution_lines(executed, width=1000, ascii_only=True)
    assert set(lines[begin:end]) <= set(wide)


def test_summary_of_several_runs_is_not_truncated():
    flows = []
    for name in ("a-workflow-with-a-rather-long-name", "another-workflow-with-a-long-name"):
        flow = weft.Builder(name)
        flow.task("t", work=10)
        flows.append(flow.build())
    executed = journal_of(flows, platform_of(1.0), policy="foft").executed()
    lines = execution_lines(executed, width=80)
    assert not any("…" in line for line in lines)
    (heading,) = (line for line in lines if line.split()[:2] == ["run", "workflow"])
    assert heading.endswith("slowdown")
    slowdowns = [f"{story.slowdown:.2f}" for story in executed.run_summaries]
    first = lines.index(heading) + 1
    assert [line.split()[-1] for line in lines[first : first + 2]] == slowdowns
    assert "quartiles" in "\n".join(lines)


@needs_browser
def test_a_browser_draws_the_page_and_executes_no_injected_code(executed, tmp_path):
    look = """
      const width = (kind) => document.querySelector(`rect.${kind}`).getBoundingClientRect().width;
      seen.drawn = drawn(by("chart"));
      seen.title = document.title;
      seen.images = document.querySelectorAll("img").length;
      seen.log = document.querySelector(".failure pre").textContent;
      seen.ratio = width("late") / width("promised");
      seen.kinds = by("legend").children.length;
      by("critical").click();
      seen.critical = by("critical").checked;
      const dark = matchMedia("(prefers-color-scheme: dark)").matches;
      seen.page = [dark, getComputedStyle(document.body).backgroundColor];
    """
    page = tmp_path / "report.html"
    page.write_text(execution_html(executed), encoding="utf-8")
    seen = seen_in_browser(page, look, tmp_path / "profile")
    assert (seen["title"], seen["images"]) == ("<b>flow</b> on platform", 0)
    assert seen["log"] == f"first\n{EVIL}\n?[31m@@SCRIPT@@"
    assert seen["ratio"] == pytest.approx(executed.took_s / 20, rel=0.01)
    assert (seen["drawn"], seen["critical"], seen["kinds"]) == (True, True, 3)
    assert seen["page"] == [False, "rgb(246, 247, 249)"] or seen["page"] == [True, "rgb(18, 22, 29)"]
