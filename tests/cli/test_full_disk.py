"""`weft clean` and commands that only read work on a full disk."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from architecture.package import environment
from chaos.test_chaos_disks import fill, small_disk
from cli.projects import TINY, Project, wait_for
from cli.warm_process import weft
from patience import PATIENCE_S
from weft.repository.database import open_database


def _forbid_writing() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def weft_on_a_full_disk(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process that cannot write a byte to any file."""
    return subprocess.run(
        [sys.executable, "-m", "weft", *arguments],
        cwd=folder, env=environment(PYTHONDONTWRITEBYTECODE="1"), capture_output=True, text=True, timeout=PATIENCE_S,
        preexec_fn=_forbid_writing, check=False,
    )  # fmt: skip


def leave_log(folder: Path) -> None:
    """Leave the state of an engine that was killed: a write-ahead log with content, no shared memory."""
    home = folder / ".weft"
    with open_database(home / "weft.db", create=True) as database:
        database.queue_change("INSERT INTO kept VALUES (9, 'k', 'v')", ())
        database.commit()
        for name in ("weft.db", "weft.db-wal"):
            shutil.copy(home / name, folder / name)
    for name in ("weft.db", "weft.db-wal"):
        (folder / name).replace(home / name)


def folders(folder: Path) -> list[Path]:
    return [path for name in ("attempts", "runners") for path in folder.glob(f".weft/{name}/*")]


@pytest.mark.parametrize("killed", [False, True], ids=["ended", "killed"])
@pytest.mark.parametrize("command", [["clean"], ["status"], ["ls"]], ids=" ".join)
def test_command_works_on_a_full_disk(project: Project, command: Sequence[str], killed: bool) -> None:
    assert project.weft("run", "tiny.yaml", "-q").code == 0
    if killed:
        leave_log(project.folder)
    for _ in range(2):
        done = weft_on_a_full_disk(project.folder, *command)
        assert done.returncode == 0, done.stderr
    if command == ["clean"]:
        assert folders(project.folder) == []
    assert project.weft("run", "tiny.yaml", "-q").code == 0
    if killed:
        with open_database(project.folder / ".weft" / "weft.db") as database:
            assert database.rows("SELECT value FROM kept WHERE execution = 9") == [("v",)]


def test_clean_removes_run_folders_on_a_full_disk(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    with small_disk(tmp_path / "disk", 4000) as disk:
        (disk / "tiny.yaml").write_text(TINY)
        assert weft("run", "tiny.yaml", "-q", folder=disk).code == 0
        fill(disk)
        refused = weft("run", "tiny.yaml", "--fresh", "-q", folder=disk)
        assert refused.code != 0
        done = weft("clean", folder=disk)
        assert done.code == 0, done.err
        assert folders(disk) == []
        (disk / "filler").unlink()
        assert weft("run", "tiny.yaml", "-q", folder=disk).code == 0


FILLING = """\
weft: 1
name: filling
tasks:
  good: {command: "echo x > good", outputs: [good]}
  fill: {command: "cat good; cat /dev/zero > big", inputs: [good]}
"""


def fill_by_run(disk: Path) -> str:
    """Run a task that fills the disk of its project, so that its end cannot be recorded; return the errors."""
    (disk / "filling.yaml").write_text(FILLING)
    ran = weft("run", "filling.yaml", "-q", folder=disk)
    assert ran.code == 1
    assert "the disk is full: free some space" in ran.err
    # The run is not over for the next engine, so the failure must not be stated as permanent.
    assert "failed permanently" not in ran.err
    assert "not recorded: fill failed (" in ran.err
    assert "all earlier steps are recorded; `weft resume` takes the ends that are not" in ran.err
    assert [(each["kind"], each["completed"]) for each in read_kinds(disk)] == [("good", 1), ("fill", 0)]
    assert shutil.disk_usage(disk).free < 65536
    return ran.err


def read_kinds(disk: Path) -> list[dict[str, Any]]:
    return json.loads(weft("status", "--json", folder=disk).out)["kinds"]


def read_states(disk: Path) -> list[str]:
    return [each["state"] for each in json.loads(weft("ls", "--json", folder=disk).out)]


@pytest.mark.parametrize("killed", [False, True], ids=["with a runner", "without a runner"])
def test_clean_frees_a_disk_that_a_task_has_filled(tmp_path: Path, killed: bool) -> None:
    """The directory of the failed attempt is removed; the run ends with the failure that its runner saw."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    with small_disk(tmp_path / "disk", 6000) as disk:
        errors = fill_by_run(disk)
        if killed:
            kill_runners(disk)
        assert "1 ended attempt" in weft("clean", "--dry-run", folder=disk).out
        assert shutil.disk_usage(disk).free < 65536
        done = weft("clean", folder=disk)
        assert done.code == 0, done.err
        assert re.match(r"removed 2 files of 1 ended attempt of unfinished runs, 5\.[0-9]+ MB\n", done.out)
        assert shutil.disk_usage(disk).free > 5_000_000
        assert [path.read_text() for path in disk.glob(".weft/sandbox/local/*/1/0-*/good")] == ["x\n"]
        assert "removed 0 files of 0 runs, 0 B" in weft("clean", folder=disk).out
        assert "free some space (`weft clean` removes directories of failed attempts)" in errors
        if killed:
            assert weft("cancel", folder=disk).code == 0
            return
        resumed = weft("resume", "-q", folder=disk)
        assert resumed.code == 1
        assert "exit code 1; the disk of" in resumed.err
        assert read_states(disk) == ["failed"]


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
def test_cancel_frees_a_disk_that_a_task_has_filled(tmp_path: Path, killed: bool) -> None:
    """Also after a kill, when the database can be opened only by one process at a time."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    with small_disk(tmp_path / "disk", 6000) as disk:
        fill_by_run(disk)
        if killed:
            (disk / ".weft" / "weft.db-shm").unlink()
            fill(disk)
        done = weft("cancel", "--json", folder=disk)
        assert done.code == 0, done.err
        answered = json.loads(done.out)
        assert answered["answers"][0]["granted"]
        assert answered["freed_bytes"] > 5_000_000
        assert read_states(disk) == ["cancelled"]
        assert weft("clean", folder=disk).code == 0
        assert folders(disk) == []


def kill_runners(disk: Path) -> None:
    """Kill the runners of a project; what they have in memory is lost."""
    for record in disk.glob(".weft/runners/*/*/pid"):
        pid = int(json.loads(record.read_text().partition(" ")[2])["pid"])
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda pid=pid: not Path(f"/proc/{pid}").exists() or is_zombie(pid))


def is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


FAILING = """\
weft: 1
name: failing
tasks:
  told: {command: "head -c 9 /dev/zero > /dev/full"}
  plain: {command: "exit 3"}
  filled: {command: "head -c 4063232 /dev/zero > big; exit 1", requirements: "name == 'small'"}
"""
SMALL = """\
weft: 1
machines:
  usual: {{backend: {{kind: local}}}}
  small: {{backend: {{kind: local, sandbox: {disk}}}}}
"""


def test_failure_reason_of_a_task_on_a_full_disk_says_that_the_disk_is_full(project: Project) -> None:
    """A program reports the error, or leaves a full disk; the message has place, space and advice."""
    disk = project.folder / "disk"
    with small_disk(disk, 4096):
        project.write("failing.yaml", FAILING)
        project.write("small.yaml", SMALL.format(disk=disk))
        ran = project.json("run", "--keep-going", "failing.yaml", "--on", "small.yaml")
    reasons = {each["task"]: each["reason"] for each in ran["failures"]}
    assert reasons["plain"] == "exit code 3; no retry left (0 for error)"
    said = "exit code 1; its program reports 'No space left on device'; "
    assert reasons["told"].startswith(said)
    assert "let it write elsewhere" in reasons["told"]
    assert reasons["filled"].startswith(f"exit code 1; the disk of {disk}/")
    assert (
        " of 4.194 MB were free at its end; free space there (after the run `weft clean` removes"
        in reasons["filled"]
    )
    shown = project.weft("status", "-v").out
    assert said in shown
    assert f"the disk of {disk}/" in shown
    assert said in project.weft("explain", "told").out
    # The path is longer than a line, so it is wrapped.
    assert f"diskof{disk}/" in "".join(project.weft("report").out.split())
