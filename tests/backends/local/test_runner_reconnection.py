"""The engine reconnects to a runner whose connection broke, and replaces a runner that died or hangs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend_project import BackendProject
from backends.local.runner_bench import is_running, wait_until
from weft.backends.local import runner_link
from weft.backends.local.records import SealedRecords
from weft.backends.local.runner_link import RunnerLink
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
