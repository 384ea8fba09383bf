"""The engine reconnects to a runner whose connection broke, and replaces a runner that died or hangs."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend_project import BackendProject
from backends.runner.runner_bench import TOKEN, Bench, is_running, wait_until
from weft.backends.runner import runner_link
from weft.backends.runner.records import SealedRecords
from weft.backends.runner.runner_link import RunnerLink, RunnerUnresponsive
from weft.engine import messages as cm
from weft.engine import messages as ev

TASKS = {
    "waiting": {"command": "echo begun >> begun; while ! [ -e go ]; do sleep 0.02; done; exit 3"},
    "quick": {"command": "echo $$ > ready"},
    "endless": {"command": "echo $$ > ready; sleep 1000"},
}


@pytest.fixture
def project(tmp_path: Path) -> Iterator[BackendProject]:
    made = BackendProject("local", tmp_path, TASKS)
    yield made
    made.close()


def runner_directory(project: BackendProject) -> Path:
    return project.layout.runner(1, project.platform.machines[0])


def runner_pid(project: BackendProject) -> int:
    records = SealedRecords(str(runner_directory(project)), "secret")
    try:
        identity = records.read("pid")
    finally:
        records.close()
    assert identity is not None
    return int(str(identity["pid"]))


def break_connection(project: BackendProject) -> None:
    """Make the runner close its connection: it serves only the last engine that sends the token."""
    other = RunnerLink(runner_directory(project), "secret", environment=os.environ)
    other.connect()
    other.close()


def test_program_continues_after_its_connection_broke(project: BackendProject) -> None:
    project.start(0, "waiting")
    project.wait_for_file(0, "begun")
    before = runner_pid(project)
    break_connection(project)
    assert project.poll_for(0.3) == []
    (project.workdir(0) / "go").touch()
    assert project.end() == ev.Ended(attempt=0, exit_code=3, work_done=1.0)
    assert (project.workdir(0) / "begun").read_text() == "begun\n"
    assert runner_pid(project) == before


def test_program_that_ends_while_the_connection_is_broken_is_reported_once(project: BackendProject) -> None:
    project.start(0, "waiting")
    project.wait_for_file(0, "begun")
    break_connection(project)
    (project.workdir(0) / "go").touch()
    records = SealedRecords(str(runner_directory(project)), "secret")
    wait_until(lambda: b'"code":3' in records.content("ends"), "the end is on disk")
    records.close()
    assert project.end().exit_code == 3
    assert project.poll_for(0.2) == []


def test_attempt_cancelled_while_the_connection_is_broken_ends(project: BackendProject) -> None:
    project.start(0, "endless")
    project.wait_for_file(0)
    break_connection(project)
    project.backend.execute([cm.Cancel(attempt=0, machine=0)])
    assert project.end().cause == "cancelled"


def test_program_is_started_after_the_connection_of_an_idle_runner_broke(project: BackendProject) -> None:
    project.start(0, "quick")
    project.end()
    before = runner_pid(project)
    break_connection(project)
    project.poll_for(0.2)
    project.start(1, "quick")
    assert (project.end().attempt, runner_pid(project)) == (1, before)


def test_program_of_a_killed_runner_is_killed_and_reported_as_lost(project: BackendProject) -> None:
    project.start(0, "endless")
    project.wait_for_file(0)
    program, runner = int((project.workdir(0) / "ready").read_text()), runner_pid(project)
    os.kill(runner, signal.SIGKILL)
    ended = project.end()
    assert (ended.attempt, ended.exit_code, ended.cause) == (0, None, "lost")
    assert not is_running(program)
    project.start(1, "quick")
    assert (project.end().attempt, runner_pid(project) != runner) == (1, True)


def test_program_is_started_after_an_idle_runner_was_killed(project: BackendProject) -> None:
    project.start(0, "quick")
    project.end()
    before = runner_pid(project)
    os.kill(before, signal.SIGKILL)
    project.poll_for(0.2)
    project.start(1, "quick")
    assert (project.end().exit_code, runner_pid(project) != before) == (0, True)


def test_program_of_a_stopped_runner_continues(
    project: BackendProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_link, "_SILENT_S", 2.5)
    monkeypatch.setattr(runner_link, "_WAKING_S", 0.2)
    project.start(0, "waiting")
    project.wait_for_file(0, "begun")
    before = runner_pid(project)
    os.kill(before, signal.SIGSTOP)
    (project.workdir(0) / "go").touch()
    assert project.end().exit_code == 3
    assert runner_pid(project) == before


def test_end_of_a_program_that_was_killed_with_its_runner_is_unknown(bench: Bench) -> None:
    """The message does not claim that the program was killed: only the missing record is certain."""
    bench.sh(1, "echo $$ > pid; sleep 1000")
    program, runner = bench.wait_for_pid("pid"), bench.here["pid"]
    os.kill(runner, signal.SIGKILL)
    os.kill(program, signal.SIGKILL)
    wait_until(lambda: not is_running(program) and not is_running(runner), "both have ended")
    (end,) = bench.link.connect()["ended"]
    assert (end["attempt"], end["cause"], end["code"], end["signal"]) == (1, "lost", None, None)
    assert end["text"] == "its runner ended before it recorded the end of the program"


def test_runner_of_a_folder_that_was_moved_away_is_replaced_with_its_programs(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    try:
        bench.sh(1, "echo $$ > ready; sleep 1000")
        program, before = bench.wait_for_pid("ready"), bench.link.pid
        bench.link.close()
        copy_folder(bench.directory)
        bench.link = bench.new_link()
        bench.here = bench.link.connect(_BELOW_LIMIT_S)
        assert bench.link.pid != before
        assert not is_running(program)
        assert [(each["attempt"], each["cause"]) for each in bench.here["ended"]] == [(1, "lost")]
    finally:
        bench.close()


def test_runner_of_a_folder_that_was_moved_away_is_not_killed_without_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a file system without locks, nothing shows which folder the runner serves."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    bench = Bench(tmp_path)
    try:
        before = bench.link.pid
        assert before is not None
        bench.link.close()
        copy_folder(bench.directory)
        bench.link = bench.new_link()
        monkeypatch.setattr("fcntl.flock", refuse)
        with pytest.raises(RunnerUnresponsive):
            bench.link.connect(1.0)
        assert is_running(before)
    finally:
        bench.close()


def test_runner_of_the_folder_from_which_a_folder_was_copied_continues(tmp_path: Path) -> None:
    bench = Bench(tmp_path, scope="original")
    try:
        before = bench.link.pid
        copy = tmp_path / "copy"
        subprocess.run(["cp", "-a", str(bench.directory), str(copy)], check=True)
        link = RunnerLink(copy, TOKEN, environment={}, scope="copy")
        with pytest.raises(RunnerUnresponsive):
            link.connect(1.0)
        link.close()
        bench.sh(1, "exit 4")
        assert bench.wait_for_end(1)["code"] == 4
        assert bench.link.pid == before
    finally:
        bench.close()


_BELOW_LIMIT_S = 45.0
"""Less than the time after which an engine gives up waiting for a runner that does not answer."""


def copy_folder(folder: Path) -> None:
    """Replace a folder by a copy of itself, as if it were restored from a backup."""
    moved = folder.with_name("moved")
    folder.rename(moved)
    subprocess.run(["cp", "-a", str(moved), str(folder)], check=True)
