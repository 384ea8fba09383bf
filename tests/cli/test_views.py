"""``status``, ``ls``, ``report``, ``explain`` and ``logs`` agree about one and the same run."""

from __future__ import annotations

import re

import pytest

from cli.projects import Project
from cli.shell import refused

LOOP = """\
weft: 1
name: loop
tasks:
  start: {command: "echo 4 > n", outputs: [n]}
  halve: {command: "true", after: start}
  check: {command: "true", after: halve}
  end: {command: "true", after: check}
loops:
  again: {from: check, to: halve, until: check.exit_code > 0, max_iterations: 4, on_exhausted: continue}
"""
BAD = """\
weft: 1
name: bad
tasks:
  bad: {command: "exit 3", retries: 1}
  good: {command: "true"}
  flaky: {command: "test $WEFT_ATTEMPT = 2", retries: 1}
  later: {command: "true", after: bad}
"""


@pytest.fixture
def loop(project: Project) -> Project:
    project.write("loop.yaml", LOOP)
    assert project.weft("run", "loop.yaml", "-q").code == 0
    return project


@pytest.fixture
def bad(project: Project) -> Project:
    """A project whose second execution has the runs 2 (completed) and 3 (failed)."""
    project.write("bad.yaml", BAD)
    assert project.weft("run", "tiny.yaml", "-q").code == 0
    assert project.weft("run", "tiny.yaml", "bad.yaml", "-k", "-q", "--fresh").code == 1
    return project


def test_every_view_counts_all_iterations_of_a_loop(loop: Project) -> None:
    counted = [("start", 1, 1), ("halve", 4, 4), ("check", 4, 4), ("end", 1, 1)]
    status = loop.json("status")
    assert [(row["kind"], row["done"], row["tasks"]) for row in status["kinds"]] == counted
    report = loop.json("report")
    assert [(row["kind"], row["completed"], row["tasks"]) for row in report["kinds"]] == counted
    assert [run["tasks"] for run in (*report["runs"], *loop.json("ls"), status)] == [10, 10, 10]
    assert re.search(r"^  halve +- +- +4 ", loop.weft("status").out, re.MULTILINE)
    assert re.search(r"^  halve +- +- +4 ", "  " + loop.weft("watch").out.replace("\n", "\n  "), re.MULTILINE)
    assert re.search(r"^  tasks +10 completed$", loop.weft("report").out, re.MULTILINE)


def test_every_view_distinguishes_skipped_tasks_from_completed_tasks(project: Project) -> None:
    project.write(
        "flow.yaml",
        """\
weft: 1
tasks:
  judge: {command: "exit 3", outcomes: [0, 3]}
  never: {command: "false", sweep: {i: 1..2}, after: {task: judge, if: exit_code == 0}}
""",
    )
    shown = project.weft("run", "flow.yaml")
    assert shown.code == 0, shown
    assert re.search(r"^  tasks +1 completed, 2 skipped$", shown.out, re.MULTILINE)
    counted = [("judge", 1, 0, 1), ("never", 0, 2, 2)]
    for view in ("status", "report"):
        rows = project.json(view)["kinds"]
        names = ("kind", "completed", "skipped", "tasks")
        assert [tuple(row[name] for name in names) for row in rows] == counted
    assert re.search(r"failed +skipped\n  judge +- +- +1 +- +- +-\n  never +- +- +- +- +- +2$",
                     project.weft("status").out, re.MULTILINE)  # fmt: skip
    assert re.search(r"^  never +0/2 +2\b", project.weft("report").out, re.MULTILINE)


def test_a_resumed_loop_counts_the_iterations_before_the_interruption(project: Project) -> None:
    go = project.folder / "go"
    halve = f'halve: {{command: "test -e {go} || test $WEFT_ITERATION != 3", retries: 0, on_failure: hold, '
    project.write("loop.yaml", LOOP.replace('halve: {command: "true", ', halve))
    project.weft("run", "loop.yaml", "-q")
    (stopped,) = project.json("ls")
    assert (stopped["state"], stopped["tasks"]) == ("stopped", 8)
    assert [row["done"] for row in project.json("status")["kinds"]] == [1, 2, 2, 0]
    assert [row["completed"] for row in project.json("report")["kinds"]] == [1, 2, 2, 0]
    go.write_text("")
    assert project.weft("resume", "-q").code == 0
    assert [run["tasks"] for run in (*project.json("ls"), *project.json("report")["runs"])] == [10, 10]


def test_report_lists_task_kinds_of_which_no_task_has_started(bad: Project) -> None:
    assert bad.json("status")["kinds"][3]["cancelled"] == 1
    row = bad.json("report")["kinds"][3]
    assert (row["kind"], row["completed"], row["tasks"], row["cancelled"]) == ("later", 0, 1, 1)
    shown = bad.weft("report").out
    assert re.search(r"^  later +0/1 +- +1 ", shown, re.MULTILINE)
    assert re.search(r"^  kind +done +failed attempts +cancelled ", shown, re.MULTILINE)
    assert ">failed attempts<" in bad.weft("report", "--html", "-").out
    assert (row["kind"], bad.json("explain", "later")["state"]) == ("later", "cancelled")


def test_attempts_are_numbered_per_task_in_every_view(bad: Project) -> None:
    shown, page = bad.weft("report").out, bad.weft("report", "--html", "-").out
    order = ["bad, attempt 2 on local: ", "bad, attempt 1 on local: ", "flaky, attempt 1 on local: "]
    for text in (shown, page):
        found = [text.index(headline) for headline in order]
        assert found[0] == min(found), "the final failure is the first"
    assert sorted(order, key=shown.index) == sorted(order, key=page.index)
    story = bad.weft("explain", "bad").out
    assert re.findall(r"attempt \d: submitted", story) == ["attempt 1: submitted", "attempt 2: submitted"]
    numbers = [attempt["number"] for attempt in bad.json("report")["attempts"] if attempt["task"] == "bad"]
    for number, attempt in enumerate(numbers, start=1):
        record = bad.json("logs", "bad", "--attempt", str(number))["attempt"]
        assert (record["number"], record["task_attempt"]) == (attempt, number)


def test_every_view_uses_the_run_numbers_of_ls(bad: Project) -> None:
    assert {row["run"] for row in bad.json("status", "3")["kinds"]} == {3}
    refused(bad.weft("explain", "z", "--run", "3"), 2, "run 3 (bad) has no task 'z'")
    page = bad.weft("report", "3", "--html", "-").out
    assert re.search(r"<td>3</td>\s*<td>bad</td>", page)


def test_logs_and_report_show_the_same_useful_share_of_an_attempt(bad: Project) -> None:
    for run, task in (("1", "a"), ("3", "bad"), ("3", "flaky")):
        record = bad.json("logs", task, "--run", run)["attempt"]
        reported = {each["number"]: each for each in bad.json("report", run)["attempts"]}[record["number"]]
        assert {key: reported[key] for key in record} == record
    assert bad.json("logs", "flaky")["attempt"]["useful_share"] == 1.0


def test_explain_says_that_a_program_did_not_start(project: Project) -> None:
    project.write("plain", "not compressed")
    project.write(
        "early.yaml",
        """\
weft: 1
name: early
tasks:
  prepared: {command: "true", prolog: "exit 3", retries: 0}
  staged: {command: "true", inputs: [{file: plain, compressed: true}], retries: 0}
""",
    )
    assert project.weft("run", "early.yaml", "-k", "-q").code == 1
    assert "its prolog failed, so its program did not start\n" in project.weft("explain", "prepared").out
    assert "staging failed, so its program did not start\n" in project.weft("explain", "staged").out


def test_explain_and_logs_name_the_earlier_run_that_produced_reused_outputs(bad: Project) -> None:
    bad.write("more.yaml", "weft: 1\nname: more\ntasks: {m: {command: 'true'}}\n")
    assert bad.weft("run", "more.yaml", "tiny.yaml", "-q").code == 0
    story = bad.weft("explain", "a", "--run", "5").out
    assert "its outputs were reused from run 2\n" in story
    assert "submitted" not in story
    assert "its program ended" not in story
    assert "reused from run 2 (select it with --run 2)" in bad.weft("logs", "a", "--run", "5").err
