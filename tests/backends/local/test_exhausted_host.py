"""A host without free processes or files: starts are tried again and are not the program's error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from architecture.package import environment
from cli.shell import weft

_RUNNER = """
import json, os, resource, sys, time
from weft.backends.local.processes import StartOrder
from weft.backends.local.records import SealedRecords
from weft.backends.local.runner_loop import Runner

directory, kind, ends = sys.argv[1], sys.argv[2], sys.argv[3]
if kind == "NPROC":
    os.setgroups([])
    os.setgid(64321)
    os.setuid(64321)
number = getattr(resource, f"RLIMIT_{kind}")
before = resource.getrlimit(number)
tasks = Runner(SealedRecords(directory, "token"), "token", idle_s=5.0, grace_s=1.0, scope="weft-test")._tasks
order = {"attempt": 3, "nonce": "0" * 32, "argv": ["/bin/true"], "cwd": "/"}
resource.setrlimit(number, (1, before[1]))
tasks.start(StartOrder(order, 1.0))
for _ in range(3):
    time.sleep(0.3)
    tasks.tick(time.monotonic())
print(json.dumps([tasks.busy, list(tasks.postponed), tasks.ended]))
if ends == "cancelled":
    tasks.cancel(3, "0" * 32, None)
elif ends == "terminated":
    tasks.end_all("lost", "terminated")
resource.setrlimit(number, before)
while not tasks.ended:
    tasks.tick(time.monotonic())
    tasks.reap()
    time.sleep(0.01)
print(json.dumps([tasks.busy, list(tasks.postponed)]))
print(tasks.ended[3])
"""


def run_exhausted(folder: Path, kind: str, ends: str) -> list[object]:
    if kind == "NPROC":
        if os.getuid() != 0:
            pytest.skip("the kernel limits no processes of root, and only root can become another user")
        os.chown(folder, 64321, 64321)
    command = [sys.executable, "-c", _RUNNER, str(folder), kind, ends]
    done = subprocess.run(command, env=environment(), cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "tried again" in done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("kind", ["NPROC", "NOFILE"])
def test_a_start_is_tried_again_until_the_host_can_start_it(open_folder: Path, kind: str) -> None:
    """Before, "Resource temporarily unavailable" was the program's error, with exit code 126."""
    waiting, over, end = run_exhausted(open_folder, kind, "started")
    assert waiting == [True, [3], {}]
    assert over == [False, []]
    assert (end["code"], end["cause"]) == (0, "")


@pytest.mark.parametrize("ends", ["cancelled", "terminated"])
def test_a_start_that_waits_can_be_ended(open_folder: Path, ends: str) -> None:
    waiting, over, end = run_exhausted(open_folder, "NOFILE", ends)
    assert waiting == [True, [3], {}]
    assert over == [False, []]
    assert (end["code"], end["cause"]) == (None, "cancelled" if ends == "cancelled" else "lost")


@pytest.fixture
def open_folder() -> Path:
    """Return a folder that another user can reach: pytest's own folders are private."""
    import shutil
    import tempfile

    made = Path(tempfile.mkdtemp(prefix="weft-exhausted-"))
    yield made
    shutil.rmtree(made)


def test_an_engine_without_threads_says_so(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("weft: 1\nname: w\ntasks: {a: {command: 'true'}}\n")
    script = (
        "import threading, sys\n"
        'def refuse(*_): raise RuntimeError("can\'t start new thread")\n'
        "threading._start_new_thread = refuse\n"
        "from weft.cli.main import main\n"
        "main(['run', 'w.yaml'])\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(
        command, env=environment(), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "the limit of processes is reached" in done.stderr
    assert weft("resume", folder=tmp_path).code == 0
