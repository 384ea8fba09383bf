"""``weft run``: effects, output and exit codes."""

from __future__ import annotations

import json
import re
import shutil
import signal
import stat

import pytest

from cli.projects import TINY, Project, wait_for
from cli.shell import refused
from isolation_tools import need_isolation
from patience import PATIENCE_S
from weft.backends.attempt.isolation import find_isolation_problem
from weft.cli import driver


def test_a_run_leaves_results_and_prints_a_summary(project: Project) -> None:
    done = project.weft("run", "tiny.yaml")
    assert (done.code, done.err) == (0, "")
    assert (project.folder / "z").read_text() == "hello\n1\nhello\n2\nhello\n3\n"
    assert re.search(r"^  outcome +completed$", done.out, re.MULTILINE)
    reported = r"^  promise +unknown: 5 of 5 tasks \(kinds a, b, c\) have no stated time$"
    assert re.search(reported, done.out, re.MULTILINE)
    assert re.search(r"^  b +3/3 ", done.out, re.MULTILINE)
    assert "report .weft/reports/1/report.html" in done.out
    names = {path.name for path in (project.folder / ".weft/reports/1").iterdir()}
    assert names == {"report.html", "trace.tsv", "events.jsonl", "wfformat.json"}


@pytest.mark.parametrize("command", ["exit 1", "printf 'p\\np\\n' > l"])
def test_sweep_over_the_lines_of_a_failed_task_never_runs(project: Project, command: str) -> None:
    """Its task before the lines are known has the value "*", which matches any name."""
    project.write(
        "w.yaml",
        "weft: 1\ntasks:\n"
        f'  a: {{command: "{command.replace(chr(92), chr(92) * 2)}", outputs: [l], retries: 0}}\n'
        "  on: {sweep: {x: lines(a.l)}, command: \"echo EVIL > '{x}'\", outputs: ['{x}']}\n"
        '  other: {sweep: {x: lines(a.l)}, command: "echo EVIL > o.{x}", outputs: ["o.{x}"]}\n',
    )
    before = sorted(path.name for path in project.folder.iterdir())
    for _ in range(2):
        failed = project.weft("run", "w.yaml", "-k")
        assert failed.code == 1
        assert re.search(r"^  on +0/1 ", failed.out, re.MULTILINE), failed.out
        assert re.search(r"^  other +0/1 ", failed.out, re.MULTILINE), failed.out
        assert "reused" not in failed.out
    assert sorted(path.name for path in project.folder.iterdir() if path.name != ".weft") == before


def test_second_run_reuses_valid_results_and_lists_stale_results(project: Project) -> None:
    assert project.weft("run", "tiny.yaml").code == 0
    again = project.weft("run", "tiny.yaml")
    assert "  b: 3 reused" in again.out
    text = (project.folder / "tiny.yaml").read_text()
    project.write("tiny.yaml", text.replace("cat {inputs} > z", "sort {inputs} > z"))
    changed = project.weft("run", "tiny.yaml")
    assert changed.code == 0
    assert "  a: 1 reused" in changed.out
    assert re.search(r"^  c: 1 stale \(.*command.*\)$", changed.out, re.MULTILINE)
    assert (project.folder / "z").read_text() == "1\n2\n3\nhello\nhello\nhello\n"
    kinds = {row["kind"]: row["taken_over"] for row in project.json("report")["kinds"]}
    assert kinds == {"a": 1, "b": 3, "c": 0}
    fresh = project.weft("run", "tiny.yaml", "--fresh")
    assert fresh.code == 0
    assert "reused" not in fresh.out


@pytest.mark.parametrize(
    ("command", "later"),
    [(("run", "tiny.yaml", "-q"), 0o700), (("pareto", "tiny.yaml", "--plan-steps", "5"), 0o750)],
)
def test_only_the_owner_may_enter_the_state_folder(
    project: Project, command: tuple[str, ...], later: int
) -> None:
    state = project.folder / ".weft"
    assert project.weft(*command).code == 0
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    state.chmod(0o750)
    assert project.weft(*command).code == 0
    assert stat.S_IMODE(state.stat().st_mode) == later, "an engine removes the permissions of others"


def test_names_of_outputs_may_contain_the_name_of_the_machine(project: Project) -> None:
    project.write(
        "named.yaml",
        "weft: 1\nname: named\ntasks:\n  a: {command: 'echo made > {outputs}', "
        "outputs: {'x.{machine.name}': {to: 'to.{machine.name}'}}}\n",
    )
    project.write("one.yaml", "weft: 1\nmachines:\n  here: {backend: {kind: local}}\n")
    assert project.weft("run", "named.yaml", "--on", "one.yaml").code == 0
    assert (project.folder / "to.here").read_text() == "made\n"
    assert "  a: 1 reused" in project.weft("run", "named.yaml", "--on", "one.yaml").out


def test_dry_run_prints_a_plan_and_writes_no_file(project: Project) -> None:
    shown = project.weft("run", "tiny.yaml", "-n", "-j", "1")
    assert shown.code == 0
    assert shown.out.startswith("tiny: 5 tasks, 6 edges on local; auto took ")
    assert not (project.folder / ".weft").exists()
    assert re.search(r"^  makespan +unknown; 5 s with placeholders$", shown.out, re.MULTILINE)
    (record,) = project.json("run", "tiny.yaml", "-n", "-j", "1")
    assert (record["makespan_s"], record["promise"]["p50_s"]) == (5.0, None)
    assert not (project.folder / ".weft").exists()


def test_permanent_staging_errors_are_not_retried(project: Project) -> None:
    project.write("none.yaml", "weft: 1\nname: none\ntasks: {a: {command: 'true', inputs: [nothing]}}\n")
    assert project.weft("run", "none.yaml").code == 1
    report = project.json("report")
    assert [attempt["cause"] for attempt in report["attempts"]] == ["staging"]
    assert "not tried again, since it would not change" in report["failures"][0]["reason"]


def test_a_moved_project_reuses_its_results(project: Project, monkeypatch) -> None:
    project.write(
        "machines.yaml",
        "weft: 1\nmachines:\n  here: {backend: {kind: local, sandbox: box}}\n"
        f"  there: {{backend: {{kind: local, sandbox: '{project.folder}-out'}}}}\n",
    )
    project.write(
        "tiny.yaml", TINY.replace("sweep: {k: 1..3}", "sweep: {k: 1..3}, requirements: 'name == \"there\"'")
    )
    run = ("run", "tiny.yaml", "--on", "machines.yaml")
    assert project.weft(*run).code == 0
    old, new = project.folder, project.folder.with_name("elsewhere")
    old.rename(new)
    monkeypatch.chdir(new)
    try:
        assert project.weft("logs", "a", "--run", "1").out == "made a\n"
        places = project.weft("report", "1", "--trace", "-").out
        assert re.search(rf"{new}/box/[0-9a-f]{{16}}/1/0-", places)
        assert re.search(rf"{old}-out/[0-9a-f]{{16}}/1/", places)
        again = project.weft(*run)
        assert "stale" not in again.out
        kinds = {row["kind"]: row["taken_over"] for row in project.json("report")["kinds"]}
        assert kinds == {"a": 1, "b": 3, "c": 1}
        kept = project.weft("clean", "1", "--keep-results", "-n").out
        assert "/box/" not in kept
    finally:
        new.rename(old)
        shutil.rmtree(f"{old}-out")


HARD = """\
weft: 1
name: hard
tasks:
  a: {sweep: {k: 1..14}, work: 3 + 7 * k % 11, command: "true"}
  b: {sweep: {k: 1..7}, work: 2 + 5 * k % 13, command: "true", after: a}
"""


def test_planning_search_uses_the_given_time_or_steps(project: Project) -> None:
    project.write("hard.yaml", HARD)
    how = ("hard.yaml", "--on", "machines.yaml", "--planner", "genetic")
    printed: tuple[tuple[str, str, float | None, int | None], ...] = (
        ("--plan-steps", "30", None, 30),
        ("--plan-steps", "3000", None, 3000),
        ("--plan-time", "0.2", 0.2, None),
    )
    steps = []
    for option, value, time_s, most in printed:
        (planned,) = project.json("run", *how, "-n", option, value)
        assert (planned["plan_time_s"], planned["plan_steps"]) == (time_s, most)
        assert project.weft("run", *how, "--fresh", "-q", option, value).code == 0
        reported = [json.loads(line) for line in project.weft("watch", "--json").out.splitlines()]
        (ready,) = [each for each in reported if each["what"] == "plan-ready"]
        assert most is None or ready["steps"] == planned["steps"]
        steps.append(ready["steps"])
    assert 0 < steps[0] < steps[1]
    assert steps[2] > 0
    both = project.weft("run", *how, "--plan-time", "1", "--plan-steps", "5")
    refused(both, 2, "1 s and 5 planning steps", "only one of them")
    refused(project.weft("run", *how, "--plan-time", "soon"), 2, "--plan-time 'soon'", "1h30m")


def test_first_ctrl_c_ends_the_planning_search(project: Project) -> None:
    project.write("hard.yaml", HARD)
    process = project.start(
        "run", "hard.yaml", "--on", "machines.yaml", "--planner", "genetic", "--plan-time", "300"
    )
    try:
        wait_for(lambda: project.weft("ls").out.startswith("run ") and len(project.json("ls")) == 1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    finally:
        project.end(process)
    assert (process.returncode, "Traceback" in err) == (75, False), (out, err)
    assert [run["promise"] for run in project.json("ls")] == [None]


def test_options_until_retries_and_parameter_take_effect(project: Project) -> None:
    project.write(
        "flaky.yaml",
        "weft: 1\nname: flaky\nparams: {word: no}\ntasks:\n"
        "  first: {command: 'test $WEFT_ATTEMPT = 2; echo {word} > word', outputs: [word]}\n"
        "  later: {command: 'exit 3', inputs: [word]}\n",
    )
    done = project.weft("run", "flaky.yaml", "--until", "first", "--retries", "1", "-p", "word=yes")
    assert done.code == 0, done
    assert (project.folder / "word").read_text() == "yes\n"
    assert "failures  1 (1 error)" in re.sub(" +", " ", done.out).replace("failures ", "failures  ")
    wrong = project.weft("run", "flaky.yaml", "--until", "frist")
    refused(wrong, 2, "no task 'frist'", "did you mean 'first'?")
    part = project.weft("run", "tiny.yaml", "--until", "b[2]")
    refused(part, 2, "'b[2]' is one point of a sweep", "name the task: 'b'")


def test_summary_counts_tasks_that_could_not_start_as_failed_or_cancelled(project: Project) -> None:
    project.write(
        "broken.yaml",
        "weft: 1\nname: broken\ntasks:\n"
        "  bare: {command: 'true', inputs: [{file: x, from: 'http://127.0.0.1:9/x'}], retries: 1}\n"
        "  later: {command: 'true', after: bare}\n",
    )
    done = project.weft("run", "broken.yaml")
    assert re.search(
        r"^  kind +done +failed attempts +cancelled .*\n  bare +0/1 +2 .*\n  later +0/1 +- +1 ",
        done.out,
        re.MULTILINE,
    ), done.out
    assert project.weft("logs", "bare").err == "no output: staging failed, so the task did not run\n"
    shown = project.weft("status").out
    assert re.search(r"^  kind .* failed  cancelled$", shown, re.MULTILINE)
    assert re.search(r"^  later( +-){5} +1$", shown, re.MULTILINE)


def test_files_read_through_a_wildcard_input_are_not_listed_as_results(project: Project) -> None:
    project.write(
        "wild.yaml",
        "weft: 1\nname: wild\ntasks:\n"
        "  all: {command: 'cat {inputs} > all', inputs: ['one.*'], outputs: [all]}\n"
        "  one: {sweep: {k: 1..3}, command: 'echo {k} > one.{k}', outputs: ['one.{k}']}\n",
    )
    assert project.weft("run", "wild.yaml").code == 0
    assert (project.folder / "all").read_text() == "1\n2\n3\n"
    assert not list(project.folder.glob("one.*"))


def test_run_prints_json_and_writes_requested_files(project: Project) -> None:
    done = project.weft("run", "tiny.yaml", "--json", "--report", "page.html", "--trace", "trace.tsv")
    record = json.loads(done.out)
    assert (done.code, record["outcome"], record["numbers"], record["resumed"]) == (
        0,
        "completed",
        [1],
        False,
    )
    assert [row["completed"] for row in record["kinds"]] == [1, 3, 1]
    assert (project.folder / "page.html").read_text().startswith("<!DOCTYPE html>")
    assert (project.folder / "trace.tsv").read_text().startswith("task_id\t")
    refused(project.weft("run", "tiny.yaml", "--json", "--trace", "-"), 2, "cannot share the standard output")


def test_option_quiet_prints_nothing(project: Project) -> None:
    done = project.weft("run", "tiny.yaml", "--quiet")
    assert (done.code, done.out, done.err) == (0, "", "")


def test_option_quiet_prints_permanent_failures_to_the_standard_error(project: Project) -> None:
    project.write(
        "bad.yaml",
        """\
weft: 1
tasks:
  input: {command: "cat {inputs}", inputs: [missing.txt]}
  output: {command: "true", outputs: [unwritten]}
  program: {command: "no-such-program"}
  again: {command: "echo wrong; exit 3", retries: 1}
""",
    )
    failed = project.weft("run", "bad.yaml", "--keep-going", "--quiet")
    assert (failed.code, failed.out) == (1, "")
    lines = failed.err.splitlines()
    assert (
        "input failed permanently (staging: 'missing.txt' cannot be fetched: No such file or directory in "
        f"'{project.folder}')" in lines
    )
    assert any(
        line.startswith("output failed permanently (error: 'unwritten' was not written") for line in lines
    )
    place = lines.index("program failed permanently (error)")
    assert "no-such-program" in lines[place + 1]
    assert lines[place + 2].startswith("  log: .weft/attempts/1/")
    assert [line for line in lines if line.startswith("again")] == ["again failed permanently (error)"]


def test_several_workflows_and_arrivals_are_runs_of_one_execution(project: Project) -> None:
    project.write("other.yaml", "weft: 1\nname: other\ntasks: {only: {command: 'echo 1'}}\n")
    project.write("later.yaml", "weft: 1\narrivals: [{workflow: other.yaml, at: 0.2s, owner: ann}]\n")
    done = project.weft("run", "tiny.yaml", "other.yaml", "--arrivals", "later.yaml")
    assert done.code == 0, done
    assert "runs 1 to 3" in done.out
    listed = project.json("ls")
    assert [(run["workflow"], run["state"], run["execution"]) for run in listed] == [
        ("tiny", "completed", 1),
        ("other", "completed", 1),
        ("other.yaml", "completed", 1),
    ]
    assert listed[2]["owner"] == "ann"


def test_run_numbers_in_reports_are_those_of_the_project(project: Project) -> None:
    project.write("other.yaml", "weft: 1\nname: other\ntasks: {only: {command: 'echo 1'}}\n")
    assert project.weft("run", "other.yaml", "--fresh").code == 0
    assert project.weft("run", "other.yaml", "tiny.yaml").code == 0
    reported = [json.loads(line) for line in project.weft("report", "2", "--events", "-").out.splitlines()]
    assert {event["run"] for event in reported if event["workflow"] == "tiny"} == {3}
    for run in (2, 3):
        followed = [json.loads(line) for line in project.weft("watch", str(run), "--json").out.splitlines()]
        assert {event["run"] for event in followed} - {None} == {run}
        assert (followed[0]["what"], followed[-1]["what"]) == ("run-submitted", "run-ended")
    trace = (project.folder / ".weft/reports/2/trace.tsv").read_text()
    assert "\t2:only\t" in trace
    assert "\t3:a\t" in trace


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ("corse: [0]", ("unknown key 'corse'", "did you mean 'cores'?")),
        ("cores: [0, 100000]", ("cores [0, 100000]", "must be a list of cores")),
        ("cores: all", ("cores 'all'", "must be a list of cores")),
        ("sandbox: 7", ("sandbox 7", "must name a directory")),
    ],
)
def test_machines_larger_than_this_computer_are_rejected(
    project: Project, stated: str, words: tuple[str, str]
) -> None:
    project.write("odd.yaml", f"weft: 1\nmachines: {{m: {{backend: {{kind: local, {stated}}}}}}}\n")
    refused(project.weft("run", "tiny.yaml", "--on", "odd.yaml"), 2, "machine 'm': backend", *words)
    assert not (project.folder / ".weft").exists()


def test_bad_input_is_rejected_before_anything_is_written(project: Project) -> None:
    refused(project.weft("run"), 2, "Give a WORKFLOW")
    refused(project.weft("run", "absent.yaml"), 2, "no file 'absent.yaml'")
    refused(project.weft("run", "tiny.yaml", "--on", "identical:2"), 2, "has no backend", "kind: local")
    refused(project.weft("run", "tiny.yaml", "--planner", "hefft"), 2, "did you mean 'heft'?")
    refused(project.weft("run", "tiny.yaml", "--project", "nowhere"), 2, "must be a directory")
    (project.folder / "sub").mkdir()
    refused(project.weft("run", "tiny.yaml", "--project", "sub"), 2, "is outside the project", "--project")
    assert not (project.folder / ".weft").exists()


def test_a_task_that_fits_no_machine_is_infeasible(project: Project) -> None:
    project.write("wide.yaml", "weft: 1\ntasks: {a: {command: 'true', nodes: [5000]}}\n")
    refused(project.weft("run", "wide.yaml"), 3, "wide: ", "nodes")


def test_error_about_a_missing_program_names_the_program_and_the_log(project: Project) -> None:
    project.write(
        "bad.yaml",
        "weft: 1\nname: bad\ntasks:\n  a: {command: nosuchprogram --now, outputs: [x]}\n"
        "  b: {command: 'echo never', inputs: [x]}\n",
    )
    done = project.weft("run", "bad.yaml")
    assert done.code == 1
    assert "nosuchprogram: not found" in done.err
    (log,) = project.folder.glob(".weft/attempts/1/0-*/err")
    assert f"log: {log.relative_to(project.folder)}" in done.err
    for word in (
        "failed",
        "exit code 127",
        "| /bin/sh",
        "nosuchprogram: not found",
        f"log: {log.relative_to(project.folder)}",
    ):
        assert word in done.out


def test_a_program_without_execute_permission_fails(project: Project) -> None:
    project.write("program", "echo hi\n")
    project.write("list.yaml", "weft: 1\nname: list\ntasks: {a: {command: [./program]}}\n")
    done = project.weft("run", "list.yaml")
    assert done.code == 1
    assert "./program is not executable; run chmod +x" in done.out


def test_an_unwritable_sandbox_is_reported(project: Project) -> None:
    project.write("notes", "a file, no directory\n")
    project.write("here.yaml", "weft: 1\nmachines: {m: {backend: {kind: local, sandbox: notes/box}}}\n")
    done = project.weft("run", "tiny.yaml", "--on", "here.yaml")  # it does not wait for the machine
    assert done.code == 1
    assert "notes/box cannot be written: Not a directory" in " ".join(done.out.split())
    assert (project.folder / "notes").read_text() == "a file, no directory\n"


def test_a_missing_output_fails_the_task(project: Project) -> None:
    project.write("bad.yaml", "weft: 1\nname: bad\ntasks: {a: {command: 'echo 1', outputs: [x]}}\n")
    done = project.weft("run", "bad.yaml")
    assert done.code == 1
    assert re.search(r"'x'.*", done.out)


def test_option_keep_going_runs_tasks_that_do_not_depend_on_the_failed_task(project: Project) -> None:
    project.write(
        "two.yaml",
        "weft: 1\nname: two\ntasks:\n  bad: {command: 'exit 3'}\n  needs: {command: 'echo', after: bad}\n"
        "  good: {command: 'sleep 0.2; echo 1 > fine', outputs: [fine]}\n",
    )
    assert project.weft("run", "two.yaml", "-k", "-j", "1").code == 1
    assert (project.folder / "fine").exists()
    kinds = {row["kind"]: row for row in project.json("status")["kinds"]}
    assert (kinds["bad"]["failed"], kinds["needs"]["cancelled"], kinds["good"]["done"]) == (1, 1, 1)


def test_run_with_a_task_held_after_a_failure_can_be_resumed(project: Project) -> None:
    project.write(
        "held.yaml",
        "weft: 1\nname: held\ntasks:\n"
        f"  a: {{command: 'test -e {project.folder}/go; echo 1 > x', outputs: [x], on_failure: hold}}\n"
        "  b: {command: 'cat x > y', inputs: [x], outputs: [y]}\n",
    )
    stopped = project.weft("run", "held.yaml")
    assert stopped.code == 1
    assert "a failed, is held until `weft resume` (error)" in stopped.err
    assert project.json("ls")[0]["state"] == "stopped"
    project.write("go", "")
    assert project.weft("run", "tiny.yaml").code == 0
    refused(
        project.weft("resume"),
        2,
        f"nothing to resume: the last run in {project.folder} has ended",
        "`weft resume 1` resumes",
    )
    done = project.weft("resume", "1")
    assert done.code == 0, done
    assert (project.folder / "y").read_text() == "1\n"
    assert [run["state"] for run in project.json("ls")] == ["completed", "completed"]
    refused(project.weft("resume"), 2, "nothing to resume", "`weft run WORKFLOW` starts a new run")


def test_identical_tasks_are_all_reused(project: Project) -> None:
    project.write("same.yaml", "weft: 1\nname: same\ntasks: {a: {sweep: {k: 1..4}, command: 'echo same'}}\n")
    assert project.weft("run", "same.yaml", "-q").code == 0
    for _ in range(2):
        assert "  a: 4 reused" in project.weft("run", "same.yaml").out


def test_large_run_prints_a_summary_of_one_line_and_writes_no_reports(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "_MOST_TASKS", 4)
    done = project.weft("run", "tiny.yaml")
    assert done.code == 0
    assert done.out.splitlines()[-1] == "run 1, tiny: completed; details: `weft report 1`"
    assert not (project.folder / ".weft/reports").exists()
    assert project.weft("run", "tiny.yaml", "--trace", "t.tsv").code == 0
    assert (project.folder / "t.tsv").exists()


def test_option_isolate_applies_to_the_run_and_is_refused_if_the_tool_is_missing(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_isolation("bubblewrap")
    project.write("look.yaml", "weft: 1\ntasks: {a: {command: 'ls / > seen', outputs: [seen]}}\n")
    assert project.weft("run", "look.yaml", "--isolate", "bubblewrap", "-q").code == 0
    assert "boot" not in (project.folder / "seen").read_text()
    isolated = "weft: 1\ntasks: {a: {command: 'true', isolate: bubblewrap}}\n"
    project.write("isolated.yaml", isolated)
    checked = "check", "isolated.yaml", "--on", "machines.yaml"
    assert project.weft(*checked).code == 0
    monkeypatch.setenv("PATH", str(project.folder))
    find_isolation_problem.cache_clear()
    said = "bwrap is not installed on this host; install it: apt-get install bubblewrap"
    refused(project.weft(*checked), 2, "isolated.yaml:2:", "task 'a' cannot be isolated", said)
    refused(project.weft("run", "isolated.yaml"), 2, "task 'a' cannot be isolated", said)
    find_isolation_problem.cache_clear()
