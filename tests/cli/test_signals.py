"""The first signal stops a run gracefully, the second immediately; ``weft resume`` continues it."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from cli.projects import Project, wait_for
from patience import PATIENCE_S

SLOW = """\
weft: 1
name: slow
tasks:
  a: {{command: "echo on; test -e {go} || sleep 60; echo 1 > x", outputs: [x], work: 60}}
  b: {{command: "cat x > y", inputs: [x], outputs: [y]}}
"""
STUBBORN = """\
weft: 1
name: stubborn
tasks:
  a:
    command: "trap 'sleep 1; exit 1' TERM; echo on; until test -e {go}; do sleep 0.1; done; echo $WEFT_ATTEMPT > x"
    outputs: [x]
    work: 60
"""


@pytest.fixture
def slow(project: Project) -> Project:
    project.write("slow.yaml", SLOW.format(go=project.folder / "go"))
    project.write("stubborn.yaml", STUBBORN.format(go=project.folder / "go"))
    return project


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_first_signal_stops_gracefully_and_the_run_can_be_resumed(
    slow: Project, number: signal.Signals
) -> None:
    process = slow.start("run", "slow.yaml")
    try:
        slow.running(process, "on")
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 75, (out, err)
        if number is not signal.SIGHUP:  # the terminal is closed
            assert "stopping programs" in err
            assert "`weft resume` continues" in err
        assert slow.programs() == []
        assert slow.json("ls")[0]["state"] == "interrupted"
        status = slow.weft("status").out
        assert "no engine is running; `weft resume` continues the run" in status
        slow.write("go", "")
        done = slow.weft("run", "slow.yaml") if number is signal.SIGHUP else slow.weft("resume")
        assert done.code == 0, done
        assert "resumed an unfinished run" in done.out
        assert (slow.folder / "y").read_text() == "1\n"
        assert [run["state"] for run in slow.json("ls")] == ["completed"]
    finally:
        slow.end(process)


def test_explanation_says_that_a_program_was_ended_because_the_engine_was_stopped(slow: Project) -> None:
    process = slow.start("run", "slow.yaml")
    try:
        slow.running(process, "on")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=PATIENCE_S) == 75
        reported = slow.weft("explain", "a").out
        assert "its program was ended: the engine was stopped\n" in reported
        assert "it became ready: the engine was stopped: it will run again" in reported
        assert reported.endswith("no engine is running; `weft resume` continues the run\n")
        assert "the states are those of the last journal entry" in reported
        assert " is running " not in reported.splitlines()[0]
        everything = (
            reported
            + slow.weft("status").out
            + slow.weft("report").out
            + slow.weft("report", "--html", "-").out
        )
        assert "asks to be run" not in everything + slow.weft("report", "--events", "-").out
        assert "exit code 99" not in everything
        assert slow.json("report")["attempts"][0]["exit_code"] is None
        # The attempt decided in the meantime has no output.
        assert slow.weft("logs", "a").out == "on\n"
    finally:
        slow.end(process)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_second_signal_stops_immediately_and_the_run_can_be_resumed(
    slow: Project, number: signal.Signals, code: int
) -> None:
    process = slow.start("run", "stubborn.yaml")
    try:
        slow.running(process, "on")
        process.send_signal(number)
        printed = process.stderr.readline()
        assert "interrupt again to exit immediately" in printed
        process.send_signal(number)
        assert process.wait(timeout=PATIENCE_S) == code
        assert "`weft resume`" in process.stderr.read()
        assert slow.json("ls")[0]["state"] == "interrupted"
        if number is signal.SIGINT:
            given_up = slow.weft("cancel")
            assert (given_up.code, given_up.out) == (0, "run 1 is cancelled; no engine was running\n")
            wait_for(lambda: not slow.programs())
        else:
            wait_for(lambda: not slow.programs())  # its runner remains and ends the program
            slow.write("go", "")
            done = slow.weft("resume")
            assert done.code == 0, done
            assert (slow.folder / "x").read_text() == "2\n"
    finally:
        slow.end(process)


def test_run_of_a_killed_engine_is_resumed_while_its_program_still_runs(slow: Project) -> None:
    process = slow.start("run", "slow.yaml", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        slow.running(process, "on")
        process.kill()
        process.wait()
        assert slow.json("status")["state"] == "interrupted"
        assert slow.programs() != []
        status = slow.weft("status").out
        assert "no engine is running; 1 program may still run: `weft resume` re-attaches" in status
        assert slow.weft("cancel").code == 0
        assert slow.json("ls")[0]["state"] == "cancelled"
        wait_for(lambda: not slow.programs())
        again = slow.weft("cancel")
        assert again.code == 1
        assert "the run has ended (cancelled)" in again.err
    finally:
        slow.end(process)


def test_a_signal_before_the_first_task_stops_the_run(slow: Project) -> None:
    process = slow.start("run", "slow.yaml")
    try:
        wait_for(lambda: (slow.folder / ".weft" / "lock").exists())
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 75, (out, err)
        slow.write("go", "")
        assert slow.weft("run", "slow.yaml", "-q").code == 0
    finally:
        slow.end(process)


def test_reused_results_are_kept_when_the_engine_is_killed(slow: Project) -> None:
    slow.write(
        "three.yaml",
        "weft: 1\nname: three\ntasks:\n  a: {command: 'echo 1 > x', outputs: [x]}\n"
        f"  s: {{command: 'echo on; test -e {slow.folder}/go || sleep 60; cat x > y', inputs: [x], outputs: [y]}}\n"
        "  c: {command: 'cat x y > z', inputs: [x, y], outputs: [z]}\n",
    )
    assert slow.weft("run", "three.yaml", "--until", "a", "-q").code == 0
    process = slow.start("run", "three.yaml", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        slow.running(process, "on")
        process.kill()
        process.wait()
        for pid in slow.programs():
            os.kill(pid, signal.SIGKILL)
        slow.write("go", "")
        done = slow.weft("resume")
        assert done.code == 0, done
        assert (slow.folder / "z").read_text() == "1\n1\n"
    finally:
        slow.end(process)
