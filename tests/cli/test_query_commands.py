"""``weft ls``, ``status``, ``watch``, ``logs``, ``report`` and ``explain`` for runs that have ended."""

from __future__ import annotations

import json
import re
import sqlite3

import pytest

from cli.projects import Project, wait_for
from cli.shell import refused
from patience import PATIENCE_S

READING = (
    "ls",
    "status",
    "watch",
    "report",
    "logs a",
    "explain a",
    "resume",
    "cancel",
    "hold",
    "release",
    "stop",
    "clean",
)


@pytest.fixture
def done(project: Project) -> Project:
    assert project.weft("run", "tiny.yaml", "-q").code == 0
    return project


@pytest.mark.parametrize("words", READING)
def test_a_project_without_runs_is_rejected(words: str, project: Project) -> None:
    refused(project.weft(*words.split()), 2, "no runs in", "`weft run WORKFLOW`")


def test_commands_search_parent_directories_for_the_project(
    done: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = done.folder / "some" / "where"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert [run["number"] for run in done.json("ls")] == [1]


def test_every_command_shows_the_same_number_for_a_run(done: Project) -> None:
    done.write("bad.yaml", "weft: 1\nname: bad\ntasks: {a: {command: 'exit 3'}}\n")
    both = ("run", "bad.yaml", "tiny.yaml", "--on", "machines.yaml", "-k", "--policy", "plan")
    shown = done.json(*both)
    assert shown["numbers"] == [2, 3]
    assert [(each["run"], each["index"]) for each in shown["runs"]] == [(2, 0), (3, 1)]
    report = done.json("report", "3")
    assert (report["number"], [(each["run"], each["index"]) for each in report["runs"]]) == (3, [(3, 1)])
    for key in ("promises", "attempts"):
        assert {each["run"] for each in report[key]} == {3}
    bad = done.json("report", "2")
    assert [each["run"] for each in bad["failures"]] == [2]
    assert [each["run"] for each in done.json("status", "2")["failures"]] == [2]
    assert done.json("logs", "a", "--run", "3")["attempt"]["run"] == 3
    text = (done.folder / "tiny.yaml").read_text()
    done.write("tiny.yaml", text.replace("cat {inputs} > z", "sort {inputs} > z"))
    again = done.json(*both)
    assert [(each["run"], each["kind"]) for each in again["stale"]] == [(5, "c")]


def test_ls_lists_runs_and_their_promises(done: Project) -> None:
    lines = done.weft("ls").out.splitlines()
    heading = ["run", "workflow", "owner", "state", "started", "tasks", "promised", "P90", "took", "slowdown"]
    assert lines[0].split() == heading
    assert re.fullmatch(r"1 +tiny +\S+ +completed +\S+ \S+ +5 +unknown +unknown +\S+ m?s +[0-9.]+", lines[1])
    (record,) = done.json("ls")
    took_s = record["ended_at_s"] - record["started_at_s"]
    assert record["slowdown"] == pytest.approx(took_s / record["alone_s"])
    assert (record["predicted_p50_s"], record["tasks"], record["state"]) == (None, 5, "completed")
    assert (record["promise"]["untimed"], record["promise"]["untimed_kinds"]) == (5, ["a", "b", "c"])


@pytest.mark.parametrize(
    ("stated", "listed", "reported"),
    [
        ({"a": 0.3, "b": 0.2, "c": 0.1}, "600 ms +unknown", "600 ms (spread unknown)"),
        (
            {"a": 0.3, "c": 0.1},
            "at least 400 ms +unknown",
            "at least 400 ms; unknown: 3 of 5 tasks (kind b) have no stated time",
        ),
    ],
)
def test_promise_uses_only_durations_stated_in_the_workflow_file(
    stated: dict[str, float], listed: str, reported: str, project: Project
) -> None:
    text = (project.folder / "tiny.yaml").read_text()
    for kind, seconds in stated.items():
        text = text.replace(f"  {kind}: {{", f"  {kind}: {{work: {seconds}, ")
    project.write("tiny.yaml", text)
    machine = "weft: 1\nmachines: {one: {nodes: 3, backend: {kind: local}}}\n"
    project.write("one.yaml", machine)
    assert project.weft("run", "tiny.yaml", "--on", "one.yaml", "-q").code == 0
    assert re.search(rf" 5 +{listed} ", project.weft("ls").out)
    assert project.weft("status").out.splitlines()[1] == f"promise: {reported}"
    assert re.search(rf"^  promise +{re.escape(reported)}", project.weft("report").out, re.MULTILINE)
    page = (project.folder / ".weft/reports/1/report.html").read_text()
    assert reported.partition(";")[0] in page
    (printed,) = project.json("report")["promises"]
    assert printed["promise"] == project.json("ls")[0]["promise"] == project.json("status")["promise"]


def test_status_counts_tasks_by_kind(done: Project) -> None:
    shown = done.weft("status").out
    assert shown.startswith(
        "run 1, tiny: completed\npromise: unknown: 5 of 5 tasks (kinds a, b, c) have no stated time\n"
    )
    assert re.search(r"^  b +- +- +3 +- +-$", shown, re.MULTILINE)
    record = done.json("status", "1")
    assert [(row["kind"], row["done"], row["tasks"]) for row in record["kinds"]] == [
        ("a", 1, 1),
        ("b", 3, 3),
        ("c", 1, 1),
    ]
    assert (record["engine"], record["running"], record["left_p50_s"]) == (None, [], 0.0)
    refused(done.weft("status", "7"), 2, "no run 7", "`weft ls`")


def test_processes_that_a_program_did_not_end_are_reported(project: Project) -> None:
    stray = "setsid env -i sleep 1000 & sleep 1000 & sleep 0.2"
    tasks = (
        f"weft: 1\nname: strays\ntasks:\n  a: {{command: {json.dumps(stray)}}}\n  b: {{command: 'true'}}\n"
    )
    project.write("strays.yaml", tasks)
    said = "ended 2 processes that the program left behind"
    assert f"note: {said} (a: 2)" in project.weft("run", "strays.yaml").out
    assert f"note: {said} (a: 2)" in project.weft("status").out
    assert json.loads(project.weft("status", "--json").out)["strays"] == 2
    assert f"exit code 0; weft {said}" in project.weft("explain", "a").out
    assert "left behind" not in project.weft("explain", "b").out
    attempts = json.loads(project.weft("report", "--json").out)["attempts"]
    assert {each["task"]: each["strays"] for each in attempts} == {"a": 2, "b": 0}


def test_watch_of_a_completed_run_ends_at_once(done: Project) -> None:
    shown = done.weft("watch")
    assert (shown.code, shown.out.splitlines()[-1]) == (
        0,
        "run 1, tiny: completed; details: `weft report 1`",
    )
    reported = [json.loads(line) for line in done.weft("watch", "--json").out.splitlines()]
    assert (reported[0]["what"], reported[-1]["what"]) == ("run-submitted", "run-ended")


def test_watch_prints_the_events_of_the_report_with_their_iterations(project: Project) -> None:
    loop = (
        "loops: {again: {from: a, to: a, until: a.exit_code > 0, max_iterations: 3, on_exhausted: continue}}"
    )
    project.write("loop.yaml", f"weft: 1\nname: loop\ntasks: {{a: {{command: 'true'}}}}\n{loop}\n")
    assert project.weft("run", "loop.yaml", "-q").code == 0
    followed = project.weft("watch", "--json").out
    assert followed == (project.folder / ".weft/reports/1/events.jsonl").read_text()
    assigned = [json.loads(line) for line in followed.splitlines() if "attempt-assigned" in line]
    assert [event["iteration"] for event in assigned] == [1, 2, 3]


NESTED = """\
weft: 1
name: nested
tasks:
  first: {command: 'true'}
  inner: {after: first, command: 'echo $WEFT_ITERATIONS'}
  last: {after: inner, command: 'true'}
  alone: {command: 'true'}
loops:
  outside: {from: last, to: first, until: last.exit_code > 0, max_iterations: 2, on_exhausted: continue}
  inside: {from: inner, to: inner, until: inner.exit_code > 0, max_iterations: 3, on_exhausted: continue}
"""


def test_logs_and_explain_accept_the_same_names_of_iterations(project: Project) -> None:
    project.write("nested.yaml", NESTED)
    assert project.weft("run", "nested.yaml", "-q").code == 0
    for counters, attempt in (("1.1", 1), ("1.3", 3), ("2.1", 4), ("2.3", 6)):
        assert project.weft("logs", f"inner#{counters}").out == f"{counters}\n"
        shown = project.weft("explain", f"inner#{counters}").out
        assert f"inner of run 1 (nested), iteration {counters} is completed" in shown
        assert re.findall(r"attempt \d+: submitted", shown) == [f"attempt {attempt}: submitted"]
        assert shown.count("it became completed") == 1
        record = project.json("explain", f"inner#{counters}")
        assert (record["task"], record["counters"]) == ("inner", [int(part) for part in counters.split(".")])
    assert project.weft("explain", "inner", "-v").out.count("it became completed") == 6
    for command in ("logs", "explain"):
        refused(project.weft(command, "inner#2.4"), 2, "no iteration 'inner#2.4'; the last one is inner#2.3")
        refused(project.weft(command, "first#3"), 2, "the last one is first#2")
        refused(project.weft(command, "inner#1"), 2, "'inner' is in 2 loops", "for example 'inner#2.1'")
        refused(project.weft(command, "first#x"), 2, "'x' in 'first#x'", "for example 'first#2'")
        refused(project.weft(command, "alone#1"), 2, "'alone' is in no loop")
    failing = "{x: {command: 'false', retries: 0}, never: {after: x, command: 'true'}}"
    project.write("failing.yaml", f"weft: 1\ntasks: {failing}\n")
    assert project.weft("run", "failing.yaml", "-q").code == 1
    refused(project.weft("logs", "never"), 2, "'never' did not start; `weft explain never` shows why")


def test_logs_command_prints_the_output_of_a_task(done: Project) -> None:
    assert done.weft("logs", "a").out == "made a\n"
    assert done.weft("logs", "a", "--follow").out == "made a\n"
    silent = done.weft("logs", "b[2]")
    assert (silent.code, silent.out, silent.err) == (0, "", "no output\n")
    record = done.json("logs", "a")
    assert (record["out"], record["err"], record["attempt"]["task"]) == ("made a\n", "", "a")
    refused(done.weft("logs", "b"), 2, "'b' has 3 tasks", "b[1], b[2], b[3]")
    refused(done.weft("logs", "aa"), 2, "no task 'aa'", "did you mean 'a'?")
    refused(done.weft("logs", "a", "--attempt", "2"), 2, "attempt 2 of 'a'", "it had 1")


def test_logs_command_explains_reused_tasks_and_errors(done: Project) -> None:
    assert done.weft("run", "tiny.yaml", "-q").code == 0
    assert "reused from run 1 (select it with --run 1)" in done.weft("logs", "a").err
    assert done.weft("logs", "a", "--run", "1").out == "made a\n"
    done.write("bad.yaml", "weft: 1\nname: bad\ntasks: {a: {command: 'echo wrong >&2; exit 1'}}\n")
    assert done.weft("run", "bad.yaml", "-q").code == 1
    assert "--stderr shows it" in done.weft("logs", "a").err
    assert done.weft("logs", "a", "--stderr").out == "wrong\n"


def test_logs_command_does_not_follow_links(done: Project) -> None:
    secret = done.write("secret", "not yours\n")
    (log,) = done.folder.glob(".weft/attempts/1/0-*/out")
    log.unlink()
    log.symlink_to(secret)
    assert done.weft("logs", "a").out == ""


def test_report_writes_a_page(done: Project) -> None:
    shown = done.weft(
        "report", "--html", "p.html", "--trace", "t.tsv", "--events", "e.jsonl", "--wfformat", "w.json"
    )
    assert shown.code == 0
    assert "wrote w.json" in shown.out
    assert len((done.folder / "t.tsv").read_text().splitlines()) == 6
    assert json.loads((done.folder / "w.json").read_text())["schemaVersion"] == "1.5"
    assert json.loads((done.folder / "e.jsonl").read_text().splitlines()[-1])["what"] == "run-ended"
    assert done.weft("report", "--trace", "-").out == (done.folder / "t.tsv").read_text()
    record = done.json("report", "1")
    assert (record["number"], record["outcome"], len(record["attempts"])) == (1, "completed", 5)
    assert all(attempt["cpu_s"] is not None for attempt in record["attempts"])


def test_explain_works_for_a_project_and_for_a_journal(done: Project) -> None:
    here = done.weft("explain", "c")
    assert here.code == 0
    assert "it became completed" in here.out
    assert done.weft("explain", ".", "c").out == here.out
    assert done.json("explain", "b[2]", "--run", "1")["state"] == "completed"
    assert done.weft("explain", "c", "--project", ".").out == here.out
    refused(done.weft("explain", "one", "two", "three"), 2, "Give JOURNAL and TASK")


DAMAGES = {
    "no first entry": ("DELETE FROM entry WHERE number = 0", "journal damaged at entry 0"),
    "an entry missing": ("DELETE FROM entry WHERE number = 2", "journal damaged at entry 2"),
    "no plans": ("DELETE FROM plan", "journal damaged at entry 1"),
    "a wrong type": (
        'UPDATE entry SET record = replace(record, \'"run":0\', \'"run":"x"\') WHERE number = 0',
        "'run' of Submitted: 'x' is not a whole number",
    ),
    "a damaged header": (
        "UPDATE execution SET header = substr(header, 1, 90)",
        "journal damaged at the header",
    ),
    "another workflow": (
        "UPDATE entry SET record = replace(record, 'tiny', 'tidy') WHERE number = 0",
        "'tidy'",
    ),
    "a damaged promise": (
        "UPDATE kept SET value = '{' WHERE key LIKE 'promise%'",
        "database damaged at run 1",
    ),
}
READERS = (("status",), ("report",), ("watch",), ("logs", "a"), ("explain", "a"), ("replay", "."))


def damage(project: Project, change: str) -> None:
    with sqlite3.connect(project.folder / ".weft" / "weft.db") as database:
        assert database.execute(change).rowcount > 0


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_journals_of_a_project_are_refused(done: Project, name: str) -> None:
    change, words = DAMAGES[name]
    damage(done, change)
    for command in READERS:
        refused(done.weft(*command), 2, words)
    record = json.loads(done.weft("status", "--json").out)
    assert words in record["error"]
    assert record["problems"][0]["advice"]


def test_run_without_journal_entries_is_refused(done: Project) -> None:
    damage(done, "DELETE FROM entry")
    refused(done.weft("status"), 2, "journal damaged: no entry submits run 1")
    for command in READERS:
        assert done.weft(*command).code in (0, 2)


def test_damaged_product_records_in_the_database_are_reported_as_an_error(done: Project) -> None:
    damage(done, "UPDATE product SET parts = replace(parts, '{', '<')")
    refused(done.weft("report"), 2, "database damaged at product", "not valid JSON", "restore it")


BLOCKED = """\
weft: 1
name: blocked
predictions: [{kind: other, machine: local, seconds: 2}]
settings: {retries: {staging: 1000}, pauses: {first: 0.2, longest: 0.2}}
tasks:
  a: {command: "echo done > x", outputs: {x: {to: out/x}}}
"""


def test_status_counts_retried_stages_by_cause(project: Project) -> None:
    project.write("blocked.yaml", BLOCKED)
    place = project.write("out", "a file, not a folder")
    process = project.start("run", "blocked.yaml", "--json")
    try:
        wait_for(lambda: (project.folder / ".weft").is_dir() and project.weft("ls").code == 0)
        wait_for(lambda: project.json("status").get("stage_retries"))
        assert "retried stage" in project.weft("status").out
        place.unlink()
        ran = json.loads(process.communicate(timeout=PATIENCE_S)[0])
    finally:
        project.end(process)
    assert (ran["outcome"], ran["failures"]) == ("completed", [])
    tried = ran["stage_retries"]
    assert {(each["run"], each["task"]) for each in tried} == {(1, "a")}
    assert "'out' cannot be opened: it is a file" in tried[0]["problem"]
    assert project.json("status")["stage_retries"] == tried
    assert f"  retried stages  {len(tried)} (" in project.weft("report").out
    assert ran["notes"] == ["predictions of task 'other' have no effect: there is no such task"]
    assert project.json("report")["notes"] == ran["notes"]
