"""The own modules of a task, as programs on real machines (docs/reference/programs.md, Modules)."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

import weft
from cli.projects import Project, wait_for
from weft.api.progress import ExecutionProgress, time_left
from weft.engine import messages
from weft.engine.history import History
from weft.errors import InvalidInput

MACHINES = """\
machines:
  m1: {backend: {kind: local}}
  m2: {backend: {kind: local}}
"""
ONE = "machines: {m1: {backend: {kind: local}}}\n"


@pytest.fixture
def machines(real):
    real.write("machines.yaml", MACHINES)
    real.write("one.yaml", ONE)
    return real


def program(real, name, text):
    path = real.write(name, f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def log_of(real):
    return (real.folder / "log").read_text().splitlines()


def noted(word, to="../../../../../../log"):
    """Return a shell command that adds a line to the log of the project."""
    return f'echo {word} {{machine.name}} >> "$LOG"'


def flow(real, name="flow.yaml", settings="{}", **facets):
    """Write a workflow of one task ``a`` whose programs find the log of the project in $LOG."""
    task = {"env": {"LOG": str(real.folder / "log")}, **facets}
    real.write(name, f"settings: {settings}\ntasks: {{a: {json.dumps(task)}}}\n")
    return name


def run_and_note(real, on="machines.yaml"):
    """Run the workflow to its end; return the records of modules that failed without consequences."""
    found = []

    def watch(entry, engine):
        found.extend(each for each in entry.commands if isinstance(each, messages.ReportModule))

    ran = weft.run(
        real.folder / "flow.yaml", on=real.folder / on, project=real.folder, watch=lambda _: [watch]
    )
    assert ran.completed
    return found


def test_prolog_wrapper_and_epilog_run_around_the_command(machines):
    flow(
        machines,
        prolog=f"{noted('prolog')}; env > prolog.env; echo made > made; cd /; export LOST=1",
        wrapper="env WRAPPED=1",
        command=f'{noted("command")}; cat made; echo "$WRAPPED ${{LOST-}}" > out',
        epilog=f"{noted('epilog')}; echo added >> out; env > $LOG.epilog",
        outputs=["out", "prolog.env"],
    )
    assert machines.run("flow.yaml", on="one.yaml").completed
    assert log_of(machines) == ["prolog m1", "command m1", "epilog m1"]
    assert machines.text("out") == "1 \nadded\n"
    for module in ("prolog.env", "log.epilog"):
        seen = dict(line.partition("=")[::2] for line in machines.text(module).splitlines())
        assert (seen["WEFT_TASK"], seen["WEFT_ATTEMPT"], seen["WEFT_NODES"]) == ("a", "1", "1")
        assert (seen["GW_JOB_ID"], seen["GW_HOSTNAME"], seen["GW_RESTARTED"]) == ("a", "m1", "0")


def test_exit_code_of_a_failing_prolog_is_never_an_outcome_of_the_task(machines):
    flow(
        machines, prolog=f"{noted('prolog')}; echo no licence >&2; exit 3", command=noted("command"), outcomes=[3],
        epilog=noted("epilog"), retries={"prolog": 1},
    )  # fmt: skip
    ran = machines.run("flow.yaml", on="one.yaml")
    assert ran.outcome == "failed"
    assert log_of(machines) == ["prolog m1", "prolog m1"]
    attempts = machines.attempts("a")
    assert [(each.cause, each.exit_code) for each in attempts] == [("prolog", None)] * 2
    assert all(each.story == "the prolog failed: exit code 3: no licence" for each in attempts)
    assert "on m1: prolog, not retried" in str(ran)


@pytest.mark.parametrize(
    ("wrapper", "outcome", "text"),
    [
        ("./missing", 127, "the wrapper failed with exit code 127 before the command had run to its end"),
        ("true", 0, "the wrapper ended before the command had run to its end"),
        (
            "sh -c '\"$@\"; exit 4' sh",
            4,
            "the wrapper failed with exit code 4 after the command had succeeded",
        ),
    ],
)
def test_failure_of_a_wrapper_is_distinguished_from_a_failure_of_the_command(
    machines, wrapper, outcome, text
):
    flow(machines, wrapper=wrapper, command="echo fine", outcomes=[outcome])
    assert machines.run("flow.yaml", on="one.yaml").outcome == "failed"
    ended = machines.attempt("a")
    assert (ended.cause, ended.exit_code, ended.story) == ("wrapper", None, text)


def test_exit_code_of_a_command_under_a_wrapper_is_an_outcome(machines):
    flow(machines, wrapper="env", command="exit 3", outcomes=[3])
    assert machines.run("flow.yaml", on="one.yaml").completed
    assert machines.attempt("a").exit_code == 3


def test_failed_epilog_is_run_again_and_the_program_is_not_run_again(machines):
    fails_once = f"{noted('epilog')}; [ -e $LOG.again ] || {{{{ touch $LOG.again; exit 5; }}}}"
    flow(machines, command=f"{noted('command')}; echo x > out", epilog=fails_once, outputs=["out"])
    assert machines.run("flow.yaml", on="one.yaml").completed
    assert log_of(machines) == ["command m1", "epilog m1", "epilog m1"]


def test_failed_epilog_is_run_again_after_an_outcome_other_than_0(machines):
    fails_once = f"{noted('epilog')}; [ -e $LOG.again ] || {{{{ touch $LOG.again; exit 3; }}}}"
    flow(machines, command=f"{noted('command')}; exit 3", outcomes=[0, 3], epilog=fails_once)
    run_and_note(machines)
    assert log_of(machines) == ["command m1", "epilog m1", "epilog m1"]


def test_failing_epilog_fails_the_task_with_cause_and_message(machines):
    flow(machines, command=noted("command"), epilog="echo disk full >&2; exit 5", retries={"epilog": 0})
    assert machines.run("flow.yaml", on="one.yaml").outcome == "failed"
    assert log_of(machines) == ["command m1"]
    ended = machines.attempt("a")
    assert (ended.cause, ended.story) == ("epilog", "the epilog failed: exit code 5: disk full")


def test_epilog_runs_after_a_failure_of_the_command(machines):
    flow(machines, command=f"{noted('command')}; exit 7", epilog=f"{noted('epilog')}; exit 1")
    assert machines.run("flow.yaml", on="one.yaml").outcome == "failed"
    assert log_of(machines) == ["command m1", "epilog m1"]
    ended = machines.attempt("a")
    assert (ended.exit_code, ended.story) == (7, "exit code 7; the epilog failed: exit code 1")


def test_module_has_its_own_time_limit(machines):
    flow(
        machines, settings="{timeouts: {prolog: 0.3s, ending: 0.1s}, retries: {prolog: 0}}",
        prolog="sleep 1000", command=noted("command"),
    )  # fmt: skip
    assert machines.run("flow.yaml", on="one.yaml").outcome == "failed"
    ended = machines.attempt("a")
    assert ended.cause == "prolog"
    assert ended.story.endswith("; its limit is `timeouts.prolog`")
    assert not (machines.folder / "log").exists()


JUDGE = """\
given=$(cat)
[ -n "$WEFT_PID" ] && kill -0 "$WEFT_PID" || exit 2
echo "$given" > "$LOG.judged.$1"
echo "too slow on $1"
[ "$1" != m1 ]"""


def test_evaluator_gets_the_process_number_of_the_command_under_a_wrapper(machines):
    program(machines, "judge", '[ "$WEFT_PID" != "$(cat "$LOG.pid")" ] || touch "$LOG.judged"')
    flow(
        machines, settings="{poll_every: 0.3s}", evaluator="./judge", wrapper="nice env", work="1s", time_limit="60s",
        command="echo $$ > $LOG.pid; while [ ! -e $LOG.judged ]; do sleep 0.05; done", retries=0,
    )  # fmt: skip
    assert machines.run("flow.yaml", on="one.yaml").completed


def moving(real, **facets):
    """Write a task that its evaluator sends from m1 to m2, where it ends."""
    program(real, "judge", JUDGE)
    until = f"{noted('command')}; while [ {{machine.name}} = m1 ]; do sleep 0.05; done"
    return flow(
        real,
        settings="{poll_every: 0.3s, migration: {when: always}, timeouts: {ending: 0.2s}}",
        **{"prolog": noted("prolog"), "command": until, "epilog": noted("epilog"), "work": "1s",
           "evaluator": "./judge {machine.name}", "rank": "1 if name == 'm1' else 0", "selector": "rank",
           **facets},
    )  # fmt: skip


def test_modules_of_a_task_that_its_evaluator_migrates_run_in_the_order_of_a_migration(machines):
    moving(machines)
    assert machines.run("flow.yaml").completed
    assert log_of(machines) == [
        "prolog m1",
        "command m1",
        "prolog m2",
        "epilog m1",
        "command m2",
        "epilog m2",
    ]
    first, second = machines.attempts("a")
    assert (first.ending, second.ending, second.reason) == ("migrated", "completed", "performance")
    given = json.loads(machines.text("log.judged.m1"))
    assert (given["task"], given["attempt"], given["machine"]["name"]) == ("a", 1, "m1")
    assert given["estimated_s"] == 1.0
    assert given["running_s"] > 0


def test_task_migrates_although_its_epilog_fails_on_the_old_machine(machines):
    moving(machines, epilog=f"{noted('epilog')}; [ {{machine.name}} = m2 ]")
    reported = run_and_note(machines)
    assert log_of(machines)[-3:] == ["epilog m1", "command m2", "epilog m2"]
    assert [(each.module, each.reason) for each in reported] == [("epilog", "the epilog failed: exit code 1")]


def test_prolog_that_fails_on_the_new_machine_is_the_cause_of_the_failure(machines):
    moving(machines, prolog=f"{noted('prolog')}; [ {{machine.name}} = m1 ]", retries={"prolog": 0})
    assert machines.run("flow.yaml").outcome == "failed"
    assert machines.attempts("a")[1].cause == "prolog"
    assert log_of(machines) == ["prolog m1", "command m1", "prolog m2", "epilog m1"]


def test_evaluator_that_fails_is_reported_once_and_the_task_ends(machines):
    program(machines, "judge", 'echo "called" >> "$LOG"; echo no such model >&2; exit 9')
    waits = 'until [ "$(wc -l < "$LOG")" -ge 3 ]; do sleep 0.05; done'
    flow(machines, settings="{poll_every: 0.2s}", command=waits, evaluator="./judge", work="1s")
    (machines.folder / "log").touch()
    (reported,) = run_and_note(machines, on="one.yaml")
    assert (reported.module, reported.reason) == (
        "evaluator",
        "the evaluator failed: exit code 9: no such model",
    )


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("./missing", "./missing does not exist"),
        ("./plain", "./plain is not executable; run chmod +x"),
        ("no-such-program --fast", "no-such-program is not on the path"),
        ("plain", "plain is not on the path; write ./plain for the file beside the workflow"),
        ("python3 gone.py", "gone.py does not exist"),
        ("/no/such/judge", "/no/such/judge does not exist"),
    ],
)
@pytest.mark.parametrize("key", ["evaluator", "selector"])
def test_program_that_does_not_exist_is_refused_before_the_run(machines, key, line, text, capsys):
    if key == "selector" and line == "plain":
        pytest.skip("a selector without a slash is the name of a policy")
    machines.write("plain", "text")
    flow(machines, command=noted("command"), **{key: line})
    with pytest.raises(InvalidInput, match="of task 'a'") as refused:
        machines.run("flow.yaml", on="one.yaml")
    assert text in str(refused.value)
    assert not (machines.folder / ".weft").exists()
    outcome = Project(machines.folder, capsys).weft("check", "flow.yaml")
    assert (outcome.code, text in outcome.err) == (2, True)


def test_selector_program_orders_the_machines(machines):
    program(machines, "select", 'cat > "$LOG.given"; echo m2; echo m1')
    flow(machines, command=noted("command"), selector="./select", work="1s", rank="speed")
    assert machines.run("flow.yaml").completed
    assert log_of(machines) == ["command m2"]
    given = json.loads(machines.text("log.given"))
    assert given["task"] == "a"
    assert [(each["machine"], each["free_nodes"], each["rank"]) for each in given["candidates"]] == [
        ("m1", 1, 1.0),
        ("m2", 1, 1.0),
    ]


def test_selector_that_accepts_no_machine_is_called_again(machines):
    program(machines, "select", 'echo asked >> "$LOG"; [ "$(wc -l < "$LOG")" -lt 3 ] || echo m2')
    flow(machines, settings="{poll_every: 0.2s}", command=noted("command"), selector="./select")
    assert machines.run("flow.yaml").completed
    assert log_of(machines) == ["asked", "asked", "asked", "command m2"]


@pytest.mark.parametrize(
    ("facets", "reason"),
    [
        ({"selector": "./select"}, "its selector ./select, which accepts no machine now"),
        ({"requirements": "free_disk > 9e17"}, "a machine: m1: "),
    ],
    ids=["selector", "requirements"],
)
def test_run_whose_selector_accepts_no_machine_fails_after_the_timeout_with_a_message(
    machines, capsys, facets, reason
):
    program(machines, "select", 'echo asked >> "$LOG"')
    flow(
        machines, settings="{poll_every: 0.2s, timeouts: {machines: 3s}}", command="true", work="1s", **facets
    )
    machines.write("machines.yaml", "machines: {m1: {disk: 1e18, backend: {kind: local}}}\n")
    told = []

    def note(entry, engine):
        if (run := engine.state.active.get(0)) is not None and run.plan is not None:
            told.append(str(time_left(run, ExecutionProgress(History(), engine.state), entry.now)))

    ran = machines.run("flow.yaml", note=note)
    assert ran.outcome == "failed"
    assert f"a (ready) waits for {reason}" in str(ran)
    assert told[-1].startswith("unknown (a waits for ")
    shell = Project(machines.folder, capsys)
    shown = [json.loads(line) for line in shell.weft("watch", "--json").out.splitlines()]
    ended = [each for each in shown if each["what"] == "run-ended"]
    assert [(each["run"], each["outcome"]) for each in ended] == [(1, "failed")]
    assert ended[0]["reason"].startswith(f"a (ready) waits for {reason}")
    if "selector" in facets:
        assert len(log_of(machines)) > 1
        assert told[-1] == f"unknown (a waits for {reason})"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("echo broken >&2; exit 3", "the selector failed: exit code 3: broken"),
        ("echo m7", "the selector printed 'm7', which is no candidate"),
        ("sleep 1000", "the selector failed: it was still running after 0.5 s"),
    ],
)
def test_failure_of_a_selector_is_reported_and_the_usual_order_of_machines_is_used(
    machines, capsys, text, problem
):
    program(machines, "select", text)
    settings = "{timeouts: {selector: 0.5s}}"
    flow(
        machines,
        settings=settings,
        command=noted("command"),
        selector="./select",
        rank="1 if name == 'm2' else 0",
    )
    (reported,) = run_and_note(machines)
    assert log_of(machines) == ["command m2"]
    assert (reported.module, reported.reason.startswith(problem)) == ("selector", True)
    told = Project(machines.folder, capsys).weft("explain", "a").out
    assert "(first free machine by rank and estimated end: its selector failed)" in told


def test_failures_of_modules_are_shown_by_run_and_report(machines, capsys):
    program(machines, "select", "echo m7")
    program(machines, "judge", "echo unclear >&2; exit 3")
    machines.write("store", "a file")
    flow(
        machines,
        settings="{poll_every: 0.2s}",
        command="echo 1 > state; sleep 2.5",
        selector="./select",
        evaluator="./judge",
        inputs=["judge"],
        checkpoint={"files": ["state"], "url": "store"},
    )
    shell = Project(machines.folder, capsys)
    ran = shell.weft("run", "flow.yaml", "--on", "machines.yaml")
    assert ran.code == 0, ran
    expected = (
        "selector of a failed, the task goes on: the selector printed 'm7'",
        "evaluator of a failed, the task goes on: ",
        "store of restart files of a failed, the task goes on: ",
    )
    told = shell.weft("report").out
    for words in expected:
        assert ran.err.count(words) == 1, words
        assert words in told
    shown = shell.json("report")["module_failures"]
    assert {each["module"] for each in shown} == {"selector", "evaluator", "checkpoint"}
    assert {(each["run"], each["task"]) for each in shown} == {(1, "a")}


def test_run_and_report_name_the_first_invalid_file_of_a_program_once(machines, capsys):
    reports = 'for n in 1 2 3; do echo "step $n" > done; sleep 0.4; done'
    flow(
        machines,
        settings="{poll_every: 0.2s}",
        command=f"echo 'speed >' > gw_reqs; sleep 0.5; {reports}",
        progress="done",
        contract=20,
        work=1,
    )
    shell = Project(machines.folder, capsys)
    ran = shell.weft("run", "flow.yaml", "--on", "machines.yaml")
    assert ran.code == 0, ran
    words = "a wrote a file that is ignored: gw_reqs contains 'speed >'"
    assert ran.err.count(words) == 1, ran
    assert ran.err.count("ignored") == 1, ran
    assert words in shell.weft("report").out
    (shown,) = shell.json("report")["module_failures"]
    assert shown["module"] == "file"
    assert shown["reason"].startswith("ignored: gw_reqs contains")
    assert shown["count"] > 1


def test_epilog_runs_when_the_run_is_cancelled(machines, capsys):
    flow(
        machines,
        command=f"trap 'exit 0' TERM; {noted('command')}; echo up; sleep 1000 & wait",
        epilog=noted("epilog"),
    )
    shell = Project(machines.folder, capsys)
    process = shell.start("run", "flow.yaml", "--on", "one.yaml", "--quiet")
    try:
        shell.running(process, "up")
        assert shell.weft("cancel").code == 0
        process.communicate(timeout=60)
        assert log_of(machines) == ["command m1", "epilog m1"]
    finally:
        shell.end(process)


def test_prolog_started_by_a_killed_engine_is_ended_and_run_again(machines, capsys):
    waits = f"{noted('prolog')}; echo $$ >> $LOG.pids; until [ -e $LOG.go ]; do sleep 0.05; done; {noted('ready')}"
    flow(machines, prolog=waits, command=noted("command"))
    shell = Project(machines.folder, capsys)
    process = shell.start("run", "flow.yaml", "--on", "one.yaml", "--quiet")
    try:
        pids = machines.folder / "log.pids"
        wait_for(lambda: pids.exists() and pids.read_text())
        first = pids.read_text().split()[0]
        process.send_signal(signal.SIGKILL)
        process.communicate()
        again = shell.start("resume", "--quiet")
        wait_for(lambda: len(pids.read_text().split()) == 2)
        wait_for(lambda: not Path(f"/proc/{first}").exists())
        (machines.folder / "log.go").touch()
        again.communicate(timeout=60)
        assert again.returncode == 0
        assert log_of(machines) == ["prolog m1", "prolog m1", "ready m1", "command m1"]
    finally:
        shell.end(process)
