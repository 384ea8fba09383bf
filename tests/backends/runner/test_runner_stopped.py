"""Runners stopped by another process, such as a debugger or a batch system that suspends jobs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from backends.runner.runner_bench import TOKEN, Bench, is_running, wait_until
from weft.backends.runner import runner_link
from weft.backends.runner.runner_link import RunnerLink, RunnerUnresponsive


def test_stopped_runner_is_detected_and_continued(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_link, "_SILENT_S", 2.5)
    monkeypatch.setattr(runner_link, "_WAKING_S", 0.2)
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


STOPPING = """\
#!/bin/sh
exec {python} -I -S - "$@" <<'END'
import fcntl, json, os, runpy, signal, socket, sys
flock, listen, stage = fcntl.flock, socket.socket.listen, {stage!r}
def stop_before(do):
    return lambda *arguments: (os.kill(os.getpid(), signal.SIGSTOP), do(*arguments))
def stop_after(do):
    return lambda *arguments: (do(*arguments), os.kill(os.getpid(), signal.SIGSTOP))
if stage == "lock":
    fcntl.flock = stop_after(flock)
elif stage == "socket":
    socket.socket.listen = stop_after(listen)
else:
    fcntl.flock = stop_before(flock)
reading, writing = os.pipe()
os.write(writing, (json.dumps({settings!r}) + "\\n").encode())
os.dup2(reading, 0)
sys.argv = sys.argv[3:]
runpy.run_path(sys.argv[0], run_name="__main__")
END
"""


@pytest.mark.parametrize("stage", ["start", "lock", "socket"])
def test_runner_stopped_before_its_record_does_not_block_the_next_engine(
    tmp_path: Path, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its engine was killed: no other process continues it, and it may hold the lock of the directory."""
    monkeypatch.setattr(runner_link, "_WAKING_S", 0.2)
    settings = {"token": TOKEN, "idle_s": 60.0, "grace_s": 5.0, "scope": ""}
    stopping = tmp_path / "python"
    stopping.write_text(STOPPING.format(python=sys.executable, stage=stage, settings=settings))
    stopping.chmod(0o700)
    first = RunnerLink(tmp_path / "runner", TOKEN, environment={}, python=str(stopping))
    first._start()
    child = first._child
    assert child is not None
    wait_until(lambda: b") T " in Path(f"/proc/{child}/stat").read_bytes(), "the runner is stopped")
    first.disconnect()
    bench = Bench(tmp_path)
    try:
        assert bench.here["running"] == []
        wait_until(lambda: bench.here["pid"] == child or not is_running(child), "the stopped runner ends")
        bench.sh(1, "exit 0")
        assert bench.wait_for_end(1)["code"] == 0
    finally:
        bench.close()
        first.close()


def test_process_of_another_directory_is_not_taken_for_a_stopped_runner(tmp_path: Path) -> None:
    """The command line names the directory, but the process has no mark of this execution."""
    other = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(1000)", str(tmp_path / "runner")]
    )
    marked = Bench(tmp_path / "marked")  # a runner with the same token in another directory
    try:
        Bench(tmp_path).close()
        assert other.poll() is None
        assert is_running(marked.here["pid"])
    finally:
        marked.close()
        other.kill()
        other.wait()
