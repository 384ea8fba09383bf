"""Programs of attempts that the journal has lost are ended; their records are not used for other attempts.

The tail of a journal is lost by a power failure, or with a restored copy of ``.weft``. The attempts in it are
then unknown, and their numbers are given to other tasks.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backend_project import BackendProject
from backends.runner.runner_bench import is_running, wait_until
from weft.backends.attempt.attempt import AttemptRecords
from weft.backends.runner.records import SealedRecords
from weft.backends.runner.runner_link import RunnerLink, RunnerUnresponsive
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.errors import Locked

TASKS = {
    "quick": {"command": "echo quick > out", "outputs": ["out"]},
    "failing": {"command": "echo failing > out; exit 3"},
    "endless": {"command": "echo $$ > ready; sleep 1000"},
    "saving": {
        "command": "trap 'echo saved > restart; exit 143' TERM; echo up > ready; while :; do sleep 0.05; done",
        "checkpoint": {"files": ["restart"]},
    },
}


@pytest.fixture
def project(tmp_path: Path) -> Iterator[BackendProject]:
    made = BackendProject("local", tmp_path, TASKS)
    yield made
    made.close()


def runner_pid(project: BackendProject) -> int:
    folder = project.layout.runner(1, project.platform.machines[0])
    records = SealedRecords(str(folder), "secret")
    try:
        return int(str((records.read("pid") or {})["pid"]))
    finally:
        records.close()


def started(project: BackendProject, attempt: int, name: str) -> int:
    project.start(attempt, name)
    project.wait_for_file(attempt)
    return int((project.workdir(attempt) / "ready").read_text())


def test_record_of_a_lost_attempt_is_not_used_for_another_task(project: BackendProject) -> None:
    project.start(0, "quick")
    project.wait_for_file(0, "out")
    before = runner_pid(project)
    project.lose_journal()
    project.start(0, "failing")
    assert project.end() == ev.Ended(attempt=0, exit_code=3, work_done=1.0)
    assert (project.workdir(0) / "out").read_text() == "failing\n"
    assert runner_pid(project) == before, "the runner stays"


def test_start_record_that_the_journal_has_lost_is_not_used_when_the_attempt_starts_again(
    project: BackendProject,
) -> None:
    """The journal has the attempt and its nonce, but not its start; its directory is prepared again."""
    project.start(0, "quick")
    project.wait_for_file(0, "out")
    project.backend.close(stop=False)
    project.open()
    project.backend.find([replace(project.recovered(0, "quick"), stage="assigned")])
    project.start(0, "quick")
    assert project.end() == ev.Ended(attempt=0, work_done=1.0)
    assert (project.workdir(0) / "out").read_text() == "quick\n"


def test_confirmed_end_of_a_lost_attempt_does_not_prevent_the_start_of_another_task(
    project: BackendProject,
) -> None:
    project.start(0, "quick")
    project.end()
    project.poll_for(0.1)  # the end is in the journal
    project.backend._transport._send_confirmed(0)
    project.lose_journal()
    project.start(0, "failing")
    assert project.end().exit_code == 3


def test_program_of_a_lost_attempt_is_ended_before_another_starts(project: BackendProject) -> None:
    old = started(project, 0, "endless")
    project.lose_journal()
    project.start(0, "failing")
    assert project.end().exit_code == 3
    assert not is_running(old)


def test_unknown_program_on_another_machine_is_ended_before_a_program_starts(project: BackendProject) -> None:
    old = started(project, 0, "endless")
    project.lose_journal()
    project.start(7, "failing", machine=1)
    assert project.end().exit_code == 3
    assert not is_running(old)


def test_known_program_continues_when_an_unknown_one_is_ended(project: BackendProject) -> None:
    known, unknown = started(project, 0, "endless"), started(project, 1, "endless")
    project.backend.close(stop=False)
    del project.nonces[1]
    project.open()
    project.backend.find([project.recovered(0, "endless")])
    project.backend.execute(project.commands(0, "endless"))
    project.start(1, "failing")
    assert project.end() == ev.Ended(attempt=1, exit_code=3, work_done=1.0)
    assert (is_running(known), is_running(unknown)) == (True, False)


def test_program_left_by_a_dead_runner_is_ended_before_another_starts(project: BackendProject) -> None:
    old = started(project, 0, "endless")
    os.kill(runner_pid(project), signal.SIGKILL)
    wait_until(lambda: not is_running(runner_pid(project)), "the runner has ended")
    assert is_running(old)
    project.lose_journal()
    project.start(0, "failing")
    assert project.end().exit_code == 3
    assert not is_running(old)


def test_runner_and_programs_of_a_lost_execution_are_ended(project: BackendProject) -> None:
    """The next execution has the same number, but another token."""
    old, runner = started(project, 0, "endless"), runner_pid(project)
    lost = project.backend
    project.nonces.clear()
    project.attempts.clear()
    project.token = "another secret"
    project.open()
    project.start(0, "failing")
    assert project.end().exit_code == 3
    assert (is_running(old), is_running(runner)) == (False, False)
    lost.close(stop=False)


def test_restart_files_of_a_lost_attempt_are_not_used(project: BackendProject) -> None:
    project.start(0, "saving")
    project.wait_for_file(0)
    project.backend.execute([cm.Cancel(attempt=0, machine=0)])
    saved, _ = project.wait_for(ev.Checkpointed, ev.Ended, number=2)
    project.lose_journal()
    project.start(0, "saving", restart_from=saved.work_done)
    project.wait_for_file(0)
    assert not (project.workdir(0) / "restart").exists()


def test_restart_files_of_a_known_attempt_replace_those_of_a_lost_attempt(project: BackendProject) -> None:
    project.start(0, "saving")
    project.wait_for_file(0)
    project.backend.execute([cm.Cancel(attempt=0, machine=0)])
    project.wait_for(ev.Checkpointed, ev.Ended, number=2)
    project.lose_journal()
    project.start(0, "saving")
    project.wait_for_file(0)
    project.backend.execute([cm.Cancel(attempt=0, machine=0)])
    saved, _ = project.wait_for(ev.Checkpointed, ev.Ended, number=2)
    project.start(1, "saving", restart_from=saved.work_done)
    project.wait_for_file(1, "restart")


OLDER = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("runner", sys.argv[1])
runner = importlib.util.module_from_spec(spec)
spec.loader.exec_module(runner)
runner._install_package_stubs()
import weft.backends.runner.message_socket as message_socket
message_socket.PROTOCOL = 1
sys.exit(runner.main(sys.argv[2]))
"""


def test_runner_of_another_version_is_replaced(project: BackendProject, tmp_path: Path) -> None:
    (tmp_path / "older.py").write_text(OLDER)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {tmp_path}/older.py "$3" "$4"\n')
    python.chmod(0o755)
    folder = project.layout.runner(1, project.platform.machines[0])
    older = RunnerLink(folder, "secret", environment=os.environ, python=str(python))
    with pytest.raises(RunnerUnresponsive, match="another version of weft"):
        older.connect()
    before = runner_pid(project)
    project.start(0, "failing")
    assert project.end().exit_code == 3
    assert not is_running(before)
    older.close()


def test_without_nonces_the_record_of_a_lost_attempt_is_used_for_another_task(
    project: BackendProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With numbers alone, as weft once identified attempts, the old record is used for another task."""
    monkeypatch.setattr(os, "urandom", lambda _: b"")
    monkeypatch.setattr(RunnerLink, "_discard_unknown", lambda _, here, *__: here)
    monkeypatch.setattr(
        AttemptRecords, "make_workdir", lambda _, path, **__: Path(path).mkdir(parents=True, exist_ok=True)
    )
    project.start(0, "quick")
    project.wait_for_file(0, "out")
    project.lose_journal()
    project.start(0, "failing")
    assert project.nonces == {0: ""}
    assert project.end().exit_code == 0, "the task has not run"


def test_engine_that_was_replaced_does_not_connect_again(project: BackendProject) -> None:
    """Regression: it had discarded the programs of the engine that had taken over the project."""
    program = started(project, 0, "endless")
    transport = project.backend._transport

    def refuse() -> None:
        raise Locked("another engine has taken over this project")

    transport._context = replace(transport._context, check_claim=refuse)
    folder = project.layout.runner(1, project.platform.machines[0])
    other = RunnerLink(folder, "secret", environment={})
    try:
        assert [each["attempt"] for each in other.connect()["running"]] == [0]
        with pytest.raises(Locked):
            project.poll_for(30.0)
        assert is_running(program)
        assert other.connected
    finally:
        other.kill()
