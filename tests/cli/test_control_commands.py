"""``weft hold``, ``release``, ``migrate`` and ``cancel``, with and without a running engine."""

from __future__ import annotations

import os
import re
import signal

import pytest

from cli.projects import Project, wait_for
from cli.shell import refused
from patience import PATIENCE_S

LONG = """\
weft: 1
name: long
tasks:
  a: {{command: "echo on; while ! test -e {go}; do sleep 0.05; done; echo 1 > x", outputs: [x], work: 60}}
  b: {{sweep: {{k: 1..2}}, command: "cat x > y.{{k}}", inputs: [x], outputs: ["y.{{k}}"]}}
"""


@pytest.fixture
def engine(project: Project):
    project.write("long.yaml", LONG.format(go=project.folder / "go"))
    process = project.start("run", "long.yaml", "--on", "machines.yaml")
    try:
        project.running(process, "on")
        yield process
    finally:
        project.write("go", "")  # the program of an engine that is killed ends by itself
        project.end(process)


def test_tasks_are_held_released_and_moved(project: Project, engine) -> None:
    second = project.weft("run", "long.yaml")
    refused(second, 4, "`weft run long.yaml --on machines.yaml`", "the project is locked by")
    held = project.weft("hold", "b")
    assert (held.code, held.out) == (0, "b of run 1 is held; `weft release` releases it\n")
    assert [row["held"] for row in project.json("status")["kinds"]] == [0, 2]
    refused(
        project.weft("hold", "a"),
        1,
        "hold a of run 1: it is running; only a task that has not started can be held",
    )
    refused(project.weft("hold", "bb"), 1, "there is no task 'bb'; did you mean 'b'?")
    refused(project.weft("release", "a"), 1, "it is not held")
    refused(project.weft("migrate", "b[1]"), 1, "error: migrate b[1] of run 1: it is held, not running")
    refused(
        project.weft("migrate", "a", "--to", "rihgt"), 1, "there is no machine 'rihgt'; did you mean 'right'?"
    )
    status = project.json("status")
    (going,) = status["running"]
    assert status["engine"]["command"] == "weft run long.yaml --on machines.yaml"
    other = {"left": "right", "right": "left"}[going["machine"]]
    assert project.weft("migrate", "a", "--to", other).out == f"a of run 1 is being moved to {other}\n"

    def moved() -> bool:
        return [each["machine"] for each in project.json("status")["running"]] == [other]

    wait_for(moved)
    assert (
        f"1 migration:\n  a migrates from {going['machine']} to {other} (user" in project.weft("status").out
    )
    project.write("go", "")
    assert project.weft("release", "b[1]").code == 0
    wait_for(lambda: project.json("status")["kinds"][1]["done"] == 1)
    assert engine.poll() is None  # the other one is held
    shown = project.weft("status").out
    assert re.search(r"^  kind +waiting +running +done +reused +failed +held$", shown, re.MULTILINE)
    assert re.search(r"^  b +- +- +1 +- +- +1$", shown, re.MULTILINE)
    assert "\nnothing can start: 1 task is held; `weft release` continues\n" in shown
    assert "time left" not in shown
    assert project.json("status")["left_unknown"] == "1 task is held"
    answer = project.json("release")
    assert (answer["asked"], [each["granted"] for each in answer["answers"]]) == ("release", [True])
    assert engine.wait(timeout=PATIENCE_S) == 0
    assert (project.folder / "y.2").read_text() == "1\n"
    (move,) = project.json("report")["migrations"]
    assert project.json("status")["migrations"] == [move]
    assert (move["target"], move["reason"]) == (other, "user")


def test_a_run_is_cancelled_and_watch_shows_its_end(project: Project, engine) -> None:
    watching = project.start("watch")
    following = project.start("logs", "a", "-f")
    try:
        cancelled = project.weft("cancel")
        assert (cancelled.code, cancelled.out) == (0, "run 1 is cancelled\n")
        assert engine.wait(timeout=PATIENCE_S) == 1
        out, _ = watching.communicate(timeout=PATIENCE_S)
        assert watching.returncode == 1
        assert "run 1, long: cancelled" in out
        assert following.communicate(timeout=PATIENCE_S)[0] == "on\n"
        assert project.programs() == []
        refused(project.weft("resume", "1"), 2, "nothing to resume", "cancelled")
    finally:
        project.end(watching)
        project.end(following)


def test_waiting_for_a_hanging_engine_times_out(
    project: Project, engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from weft.api import project as requesting

    monkeypatch.setattr(
        requesting.send_request,
        "__kwdefaults__",
        requesting.send_request.__kwdefaults__ | {"timeout_s": 0.3},
    )
    engine.send_signal(signal.SIGSTOP)
    try:
        refused(project.weft("hold", "b"), 1, "did not reply within 0.3 s", "`weft status`")
    finally:
        engine.send_signal(signal.SIGCONT)
    # A withdrawn request is not executed later.
    assert project.weft("release", "b[1]").code == 1


def test_requests_are_rejected_if_no_engine_runs(project: Project) -> None:
    assert project.weft("run", "tiny.yaml", "-q").code == 0
    for words in (["hold", "a"], ["release", "a"], ["migrate", "a"], ["cancel"]):
        refused(project.weft(*words), 1, "no engine is running", "the run has ended (completed)")
    refused(project.weft("stop"), 1, "stop: no engine is running in this project")
    assert project.json("stop") == {"stopped": [], "problem": "no engine is running in this project"}
    answer = project.json("hold", "a")
    assert answer["answers"] == [
        {"task": "a", "granted": False, "heard": False, "text": "no engine is running in this project"}
    ]


QUEUED = """\
weft: 1
name: queued
tasks:
  x: {{sweep: {{k: 1..3}}, command: "echo on; until test -e {go}; do sleep 0.05; done", seconds: 60}}
"""


def test_all_views_show_whether_a_queued_task_still_moves(project: Project) -> None:
    project.write("queued.yaml", QUEUED.format(go=project.folder / "go"))
    process = project.start("run", "queued.yaml", "--on", "machines.yaml")

    def plans() -> int:
        steps = project.weft("report", "--events", "-").out
        return steps.count('"plan-ready"')

    def explained() -> str:
        return " ".join(project.weft("explain", "x[3]", "-v").out.split())

    try:
        project.running(process, "on")
        here = project.json("explain", "x[3]")["choice"]["machine"]
        there = {"left": "right", "right": "left"}[here]
        asked = f"it moves when a node of {there} is free"
        assert project.weft("migrate", "x[3]", "--to", there).out == f"x[3] of run 1: {asked}\n"
        made = plans()
        assert project.weft("machines", "add", "third").code == 0
        wait_for(lambda: plans() > made)  # the new plan could use the machine that has joined
        waits = f"waits for 1 free node of {there}, to which the user moves it"
        (reserved,) = project.json("status")["reservations"]
        assert (reserved["task"], reserved["machine"], reserved["nodes"]) == ("x[3]", there, 1)
        assert f"x[3] {waits}" in project.weft("status").out
        assert waits in explained()

        made = plans()
        assert project.weft("machines", "drain", there).code == 0
        wait_for(lambda: plans() > made)
        off = f"it does not move: {there} is drained"
        status = project.json("status")
        assert status["reservations"] == []
        assert [each["text"] for each in status["cancelled_migrations"]] == [off]
        assert f"1 cancelled migration:\n  x[3]: {off}" in project.weft("status").out
        assert off in explained()
        assert waits not in explained()
        wait_for(lambda: "third" in [each["machine"] for each in project.json("status")["running"]])
        project.write("go", "")
        _, err = process.communicate(timeout=PATIENCE_S)
    finally:
        project.write("go", "")
        project.end(process)
    assert process.returncode == 0, err
    assert [line for line in err.splitlines() if line.startswith("x[3]")] == [
        f"x[3]: {asked}",
        f"x[3]: {off}",
    ]


def test_status_says_that_a_program_is_suspended(project: Project) -> None:
    halted = f"echo $$ > {project.folder / 'pid'}; echo on; kill -STOP $$"
    project.write("halted.yaml", f"weft: 1\ntasks:\n  a: {{command: '{halted}', work: 60}}\n")
    process = project.start("run", "halted.yaml", "--on", "machines.yaml")
    try:
        project.running(process, "on")
        wait_for(lambda: "suspended for" in project.weft("status").out)
        assert re.search(r"^  a on \w+ for .+, suspended for .+$", project.weft("status").out, re.MULTILINE)
        (going,) = project.json("status")["running"]
        assert going["suspended_since_s"] > 0
        os.kill(int((project.folder / "pid").read_text()), signal.SIGCONT)
        assert process.wait(PATIENCE_S) == 0
    finally:
        project.end(process)
