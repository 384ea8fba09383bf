"""``.weft`` is moved, removed or replaced while a run goes on: its engine ends the programs and says so."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.projects import Project, wait_for
from patience import PATIENCE_S
from weft.runtime.execution import Execution

FLOW = """\
weft: 1
name: flow
tasks:
  a: {command: "echo said; until test -e GO; do sleep 0.05; done; echo 1 > x", outputs: [x]}
  b: {command: "cat x > y; echo 2 >> y", inputs: [x], outputs: [y]}
  c: {command: "echo said; until test -e GO; do sleep 0.05; done; trap '' TERM; echo 3 > z", outputs: [z]}
"""


class MovedState:
    """A project whose engine runs two programs, which end when a file exists."""

    def __init__(self, project: Project, go: Path) -> None:
        self.project = project
        self.folder = project.folder
        self.home = project.folder / ".weft"
        self._go = go
        project.write("flow.yaml", FLOW.replace("GO", str(go)))
        self.engine = self.start("run", "flow.yaml", "-q")
        for task in "ac":
            self.project.running(self.engine, "said", task)
        wait_for(lambda: len(list(self.home.glob("attempts/1/*/out"))) == 2)
        self.programs = project.programs()
        assert self.programs

    def start(self, *words: str) -> subprocess.Popen[str]:
        return self.project.start(*words)

    def refused(self) -> str:
        """Return the message of the engine, which must have stopped with its programs."""
        _, err = self.engine.communicate(timeout=PATIENCE_S)
        assert self.engine.returncode == 1, err
        wait_for(lambda: not [pid for pid in self.programs if Path(f"/proc/{pid}/exe").exists()])
        assert "Traceback" not in err
        assert "no runs in" not in err
        return " ".join(err.split())

    def complete(self, *words: str) -> None:
        """Let the programs end, and complete the run with a command."""
        self._go.touch()
        done = self.start(*words)
        _, err = done.communicate(timeout=PATIENCE_S)
        assert done.returncode == 0, err
        assert (self.folder / "y").read_text() == "1\n2\n"
        assert (self.folder / "z").read_text() == "3\n"


@pytest.fixture
def moved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[MovedState]:
    folder = tmp_path / "flow"
    folder.mkdir()
    found = MovedState(Project(folder, capsys), tmp_path / "go")
    yield found
    found.project.end(found.engine)


def test_a_run_whose_state_was_moved_ends_and_is_resumed_after_it_was_moved_back(moved: MovedState) -> None:
    taken = moved.folder / "taken"
    moved.home.rename(taken)
    said = moved.refused()
    assert f"'{moved.home}' was moved to '{taken}' during the run" in said
    assert "move it back, then `weft resume` continues" in said
    assert not moved.home.exists()
    taken.rename(moved.home)
    moved.complete("resume", "-q")


def test_a_run_whose_project_was_renamed_is_resumed_at_its_old_or_new_place(moved: MovedState) -> None:
    other = moved.folder.with_name("other")
    moved.folder.rename(other)
    assert f"'{moved.home}' was moved to '{other / '.weft'}'" in moved.refused()
    moved.folder = moved.project.folder = other
    moved.complete("resume", "-q")


def test_a_run_whose_state_was_removed_ends_and_can_be_started_again(moved: MovedState) -> None:
    shutil.rmtree(moved.home)
    said = moved.refused()
    assert f"'{moved.home}' was removed during the run" in said
    assert "start again with `weft run`" in said
    assert "not recorded" not in said
    moved.complete("run", "flow.yaml", "-q")


def test_a_run_whose_state_was_replaced_by_a_copy_ends_and_the_copy_is_resumed(moved: MovedState) -> None:
    copy = moved.folder / "copy"
    shutil.copytree(moved.home, copy, ignore=shutil.ignore_patterns("socket*", "*.sock", "lock"))
    moved.home.rename(moved.folder / "taken")
    copy.rename(moved.home)
    said = moved.refused()
    assert f"remove the new '{moved.home}', move it back" in said
    shutil.rmtree(moved.folder / "taken")
    moved.complete("resume", "-q")


def test_a_run_whose_database_was_replaced_ends(moved: MovedState) -> None:
    database = moved.home / "weft.db"
    shutil.copy(database, moved.folder / "copy")
    (moved.folder / "copy").replace(database)
    said = moved.refused()
    assert f"'{database}' was replaced during the run" in said
    assert "`weft status` shows what the new file contains" in said


def test_a_run_whose_state_was_moved_after_its_end_says_how_it_ended(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = Execution.close

    def close_and_move(execution: Execution) -> None:
        close(execution)
        execution.layout.home.rename(execution.layout.project / "taken")

    monkeypatch.setattr(Execution, "close", close_and_move)
    done = project.weft("run", "tiny.yaml", "-q")
    assert done.code == 1
    assert "the run has ended (completed), but" in done.err
    assert "move it back, then `weft report` writes them" in done.err
    (project.folder / "taken").rename(project.folder / ".weft")
    assert project.weft("report").code == 0
