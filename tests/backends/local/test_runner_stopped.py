"""Runners stopped by another process, such as a debugger or a batch system that suspends jobs."""

from __future__ import annotations

import os
import signal

import pytest

from backends.local.runner_bench import Bench, is_running, wait_until
from weft.backends.local import link
from weft.backends.local.link import RunnerUnresponsive


def test_stopped_runner_is_detected_and_continued(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "_SILENT_S", 2.5)
    monkeypatch.setattr(link, "_WAKING_S", 0.2)
    bench.sh(1, "sleep 1000")
    bench.wait_for("started", 1)
    os.kill(bench.here["pid"], signal.SIGSTOP)
    assert bench.link.alive
    assert not bench.link.is_unresponsive
    wait_until(lambda: bench.link.is_unresponsive, "no beat for some seconds")
    assert bench.link.connected
    here = bench.link.connect()
    assert here["pid"] == bench.here["pid"]
    assert [each["attempt"] for each in here["running"]] == [1]
    assert not bench.link.is_unresponsive


def test_unresponsive_runner_is_killed_and_replaced(bench: Bench) -> None:
    bench.sh(1, "echo $$ > pid; sleep 1000")
    pid = bench.wait_for_pid("pid")
    os.kill(bench.here["pid"], signal.SIGSTOP)
    with pytest.raises(RunnerUnresponsive):
        bench.link.connect(timeout_s=0.5)
    assert pid in bench.link.kill()
    assert not is_running(pid)
    assert [end["cause"] for end in bench.link.connect()["ended"]] == ["lost"]


def test_stopped_runner_is_continued_when_it_has_to_exit(bench: Bench) -> None:
    pid = bench.here["pid"]
    os.kill(pid, signal.SIGSTOP)
    bench.link.end()
    wait_until(lambda: not is_running(pid), "the runner ends")
    assert not bench.link.alive


def test_stop_and_continuation_of_a_program_started_by_a_shell_are_reported(bench: Bench) -> None:
    """The shell only waits for the program: it is not stopped itself."""
    bench.sh(1, "(sleep 1000 & echo $! > pid; wait); echo done")
    sleeper = bench.wait_for_pid("pid")
    os.kill(sleeper, signal.SIGSTOP)
    bench.wait_for("stopped", 1)
    os.kill(sleeper, signal.SIGCONT)
    bench.wait_for("continued", 1)


def test_task_is_not_reported_as_stopped_while_one_of_its_processes_runs(bench: Bench) -> None:
    bench.sh(1, "sleep 1000 & echo $! > pid; sleep 3.5; echo over > over; wait")
    os.kill(bench.wait_for_pid("pid"), signal.SIGSTOP)
    bench.written("over")
    assert {each["is"] for each in bench.link.receive()} <= {"started", "beat"}
    bench.wait_for("stopped", 1)
