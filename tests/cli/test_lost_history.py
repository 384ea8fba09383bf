"""Runs whose database lost its last transactions: tasks run again, and no record of a lost attempt is used.

A power failure loses the tail of the journal; a restored copy of ``.weft`` does the same. Runners, programs
and files of the lost attempts remain.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.projects import Project, wait_for
from patience import PATIENCE_S
from weft.backends.runner.processes import read_process

# Each program holds a kernel lock while it runs, and writes its number to a file outside weft's control.
PROGRAM = """\
weft: 1
name: {name}
tasks:
  {name}:
    command: >-
      exec 9> {folder}/running; flock -n 9 || echo two at once >> {folder}/faults;
      echo $$ >> {folder}/ran-{name}; echo on; until test -e {folder}/go-{name}; do sleep 0.02; done;
      echo {name} > {name}.out
    outputs: [{name}.out]
"""
PLATFORM = "weft: 1\nmachines:\n  only: {{nodes: 1, backend: {{kind: local, sandbox: {sandbox}}}}}\n"


class LostHistory:
    """A project whose engine dies while a program runs, and whose database is then set back."""

    def __init__(self, project: Project, sandbox: Path) -> None:
        self.project = project
        self.folder = project.folder
        self._engines: list[subprocess.Popen[str]] = []
        project.write("only.yaml", PLATFORM.format(sandbox=sandbox))
        for name in ("first", "second"):
            project.write(f"{name}.yaml", PROGRAM.format(name=name, folder=self.folder))

    def begin(self, name: str, *more: str) -> subprocess.Popen[str]:
        """Start an engine and wait until its program runs."""
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        words = more or ("run", f"{name}.yaml", "--on", "only.yaml")
        engine = self.project.start(*words, **quiet)
        self._engines.append(engine)
        before = len(self.programs(name))
        wait_for(lambda: len(self.programs(name)) > before)
        return engine

    def kill(self, engine: subprocess.Popen[str]) -> None:
        engine.kill()
        engine.wait(timeout=PATIENCE_S)

    def programs(self, name: str) -> list[int]:
        """Return the process numbers of all programs of a task, as they wrote them."""
        path = self.folder / f"ran-{name}"
        return [int(line) for line in path.read_text().splitlines()] if path.exists() else []

    def allow(self, name: str) -> None:
        self.project.write(f"go-{name}", "")

    def lose_entries(self) -> None:
        """Remove the transactions from the first assignment on."""
        with sqlite3.connect(self.folder / ".weft/weft.db") as database:
            (first,) = database.execute(
                "SELECT min(number) FROM entry WHERE record LIKE '%\"assign\"%'"
            ).fetchone()
            assert first is not None
            database.execute("DELETE FROM entry WHERE number >= ?", (first,))
            for table in ("attempt", "product", "made_file"):
                if database.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
                    database.execute(f"DELETE FROM {table}")
        database.close()

    def runner(self) -> int:
        """Return the process number of the runner."""
        for process in Path("/proc").iterdir():
            words = _read(process / "cmdline").split(b"\0")
            if any(word.startswith(os.fsencode(self.folder / ".weft/runners")) for word in words):
                return int(process.name)
        raise AssertionError("there is no runner")

    def check(self, name: str, *, programs: int) -> None:
        """Check the result of a task and the number of programs that have run, none of them at the same time."""
        assert (self.folder / f"{name}.out").read_text() == f"{name}\n"
        assert len(self.programs(name)) == programs
        assert not (self.folder / "faults").exists()

    def close(self) -> None:
        for engine in self._engines:
            self.project.end(engine)
        for pid in (*self.programs("first"), *self.programs("second")):
            if b"ran-" in _read(Path(f"/proc/{pid}/cmdline")):
                os.kill(pid, signal.SIGKILL)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.fixture(params=["own sandbox", "sandbox elsewhere"])
def lost(request: pytest.FixtureRequest, project: Project, tmp_path: Path) -> Iterator[LostHistory]:
    sandbox = project.folder / ".weft/box" if request.param == "own sandbox" else tmp_path / "elsewhere"
    made = LostHistory(project, sandbox)
    yield made
    made.close()


def test_record_of_a_lost_attempt_is_not_used(lost: LostHistory) -> None:
    engine = lost.begin("first")
    lost.kill(engine)
    lost.allow("first")
    (old,) = lost.programs("first")
    wait_for(lambda: read_process(old) is None)
    lost.lose_entries()
    done = lost.project.weft("resume")
    assert done.code == 0, done
    lost.check("first", programs=2)


def test_program_of_a_lost_attempt_is_ended_before_its_task_runs_again(lost: LostHistory) -> None:
    engine = lost.begin("first")
    lost.kill(engine)
    (old,) = lost.programs("first")
    lost.lose_entries()
    engine = lost.begin("first", "resume")
    assert read_process(old) is None
    lost.allow("first")
    assert engine.wait(timeout=PATIENCE_S) == 0
    lost.check("first", programs=2)


@pytest.mark.parametrize("runner", ["lives", "is killed"])
def test_programs_of_a_lost_execution_are_ended_before_the_next_one_starts(
    lost: LostHistory, runner: str
) -> None:
    """The next execution has the same number and the same attempt numbers, but another workflow."""
    assert lost.project.weft("run", "second.yaml", "--on", "only.yaml", "-n").code == 0
    engine = lost.begin("first")
    lost.kill(engine)
    (old,) = lost.programs("first")
    if runner == "is killed":
        os.kill(lost.runner(), signal.SIGKILL)
    for file in (lost.folder / ".weft").glob("weft.db*"):
        file.unlink()
    lost.allow("second")
    done = lost.project.weft("run", "second.yaml", "--on", "only.yaml")
    assert done.code == 0, done
    assert read_process(old) is None
    lost.check("second", programs=1)


def test_copy_of_a_running_project_does_not_end_its_programs(
    project: Project, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The copy has the same identity and lacks the last attempt, but its programs are in another directory."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    lost = LostHistory(project, elsewhere / "box")
    try:
        engine = lost.begin("first")
        (old,) = lost.programs("first")
        copy = elsewhere / "copy"
        shutil.copytree(
            lost.folder, copy, ignore=shutil.ignore_patterns("socket", "lock", "ran-*", "weft.db-shm")
        )
        with sqlite3.connect(copy / ".weft/weft.db") as database:
            for table in ("attempt", "entry", "execution", "kept", "run"):
                database.execute(f"DELETE FROM {table}")
        database.close()
        (copy / "w.yaml").write_text("weft: 1\nname: w\ntasks: {w: {command: echo ok > ok, outputs: [ok]}}\n")
        done = project.weft("run", str(copy / "w.yaml"), "--on", "only.yaml", "--project", str(copy))
        assert done.code == 0, done
        assert read_process(old) is not None
        lost.allow("first")
        assert engine.wait(timeout=PATIENCE_S) == 0
        lost.check("first", programs=1)
    finally:
        lost.close()
