"""A host without free processes or files: starts are tried again and are not the program's error."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from architecture.package import environment
from cli.projects import Project, wait_for
from cli.shell import weft
from patience import PATIENCE_S
from weft.backends.attempt import completion
from weft.backends.attempt.completion import find_fork_failure

_RUNNER = """
import json, os, resource, sys, time
from weft.backends.runner.processes import StartOrder
from weft.backends.runner.records import SealedRecords
from weft.backends.runner.runner_loop import Runner

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
def test_start_of_a_program_is_tried_again_until_the_host_has_free_resources(
    open_folder: Path, kind: str
) -> None:
    """Before, "Resource temporarily unavailable" was the program's error, with exit code 126."""
    waiting, over, end = run_exhausted(open_folder, kind, "started")
    assert waiting == [True, [3], {}]
    assert over == [False, []]
    assert (end["code"], end["cause"]) == (0, "")


@pytest.mark.parametrize("ends", ["cancelled", "terminated"])
def test_program_start_that_waits_for_the_host_can_be_cancelled(open_folder: Path, ends: str) -> None:
    waiting, over, end = run_exhausted(open_folder, "NOFILE", ends)
    assert waiting == [True, [3], {}]
    assert over == [False, []]
    assert (end["code"], end["cause"]) == (None, "cancelled" if ends == "cancelled" else "lost")


@pytest.fixture
def open_folder() -> Path:
    """Return a folder that another user can reach: pytest's own folders are private."""
    import tempfile

    made = Path(tempfile.mkdtemp(prefix="weft-exhausted-"))
    yield made
    shutil.rmtree(made)


@pytest.mark.parametrize(
    ("memory", "said"),
    [(None, "the limit of processes is reached; raise `ulimit -u`, or"), (1 << 50, "or memory is reached")],
    ids=["limit of processes", "limits of processes and memory"],
)
def test_engine_that_cannot_start_threads_reports_the_limits(
    tmp_path: Path, memory: int | None, said: str
) -> None:
    (tmp_path / "w.yaml").write_text("weft: 1\nname: w\ntasks: {a: {command: 'true'}}\n")
    script = (
        "import threading, sys\n"
        'def refuse(*_): raise RuntimeError("can\'t start new thread")\n'
        "threading._start_new_thread = refuse\n"
        "from weft.cli.main import main\n"
        "import resource\n"
        f"if {memory}: resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))\n"
        "main(['run', 'w.yaml'])\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(
        command, env=environment(), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert said in done.stderr
    assert weft("resume", folder=tmp_path).code == 0


_MESSAGES = [
    (2, "/bin/sh: 1: Cannot fork\n"),
    (2, "output of a program\n/bin/sh: 0: Cannot fork\n"),
    (2, "/records/3-abc/command.sh: 12: Cannot fork\n"),
    (2, "sh: can't fork: Resource temporarily unavailable\n"),
    (2, "/bin/sh: line 3: can't fork: Cannot allocate memory\n"),
    (
        254,
        "/bin/sh: fork: retry: Resource temporarily unavailable\n/bin/sh: fork: Resource temporarily unavailable\n",
    ),
    (254, "/bin/sh: line 1: fork: Cannot allocate memory\n"),
]


@pytest.mark.parametrize(("code", "text"), _MESSAGES)
def test_fork_failures_of_shells_are_recognised_by_their_messages(code: int, text: str) -> None:
    assert find_fork_failure(code, text) == text.splitlines()[-1]
    assert find_fork_failure(1, text) == ""
    assert find_fork_failure(code, f"{text}more\n") == ""
    assert find_fork_failure(code, text.replace("sh: ", "make: ")) == ""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become a user whose processes are limited")
@pytest.mark.parametrize("shell", [["/bin/sh"], ["dash"], ["busybox", "sh"]])
@pytest.mark.parametrize("line", ["ls /; echo", "x=$(ls /)", "ls / | cat"])
def test_real_shells_print_a_recognised_message_if_they_cannot_fork(shell: list[str], line: str) -> None:
    if shutil.which(shell[0]) is None:
        pytest.skip(f"no {shell[0]}")
    limited = (
        "import os, resource, sys; os.setgroups([]); os.setgid(64322); os.setuid(64322)\n"
        "resource.setrlimit(resource.RLIMIT_NPROC, (1, 1)); os.execvp(sys.argv[1], sys.argv[1:])"
    )
    command = ["/usr/bin/env", "python3", "-I", "-c", limited, *shell, "-eu", "-c", line]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    if os.path.realpath("/bin/sh").endswith("bash") and shell == ["/bin/sh"]:
        pytest.skip("bash tries again for 15 s")
    assert find_fork_failure(done.returncode, done.stderr.replace("dash: ", "/bin/sh: ")) != ""


def test_shell_that_cannot_fork_is_not_counted_as_an_error_of_the_task(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.setattr(completion, "_FIRST_PAUSE_S", 0.01)
    monkeypatch.chdir(tmp_path)
    project = Project(tmp_path, capsys)
    fails = "echo '/bin/sh: 1: Cannot fork' >&2; exit 2"
    tasks = {
        "shell": {
            "command": f'[ "$WEFT_ATTEMPT" -gt 3 ] || {{{{ {fails}; }}}}; echo done > x',
            "outputs": ["x"],
        },
        "program": {"command": ["sh", "-c", fails]},
        "stream": {"command": fails, "stderr": "err"},
        "other": {"command": "echo '/bin/sh: 1: Cannot fork' >&2; exit 3"},
    }
    described = {"weft": 1, "name": "w", "defaults": {"retries": {"error": 0, "lost": 5}}, "tasks": tasks}
    project.write("w.yaml", json.dumps(described))
    assert project.weft("run", "w.yaml", "--keep-going").code == 1
    causes: dict[str, list[str]] = {}
    for attempt in project.json("report")["attempts"]:
        causes.setdefault(attempt["task"], []).append(attempt["cause"])
    assert causes == {
        "shell": ["lost"] * 3 + [""],
        "program": ["error"],
        "stream": ["error"],
        "other": ["error"],
    }
    assert (
        "the host could not start a process of its shell: '/bin/sh: 1: Cannot fork'"
        in project.weft("explain", "shell", "-v").out
    )


def test_attempt_that_waits_until_the_host_can_fork_is_cancelled_at_once(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.setattr(completion, "_FIRST_PAUSE_S", 1000.0)
    monkeypatch.setattr(completion, "_LONGEST_PAUSE_S", 1000.0)
    monkeypatch.chdir(tmp_path)
    project = Project(tmp_path, capsys)
    tasks = {
        "shell": {"command": "echo '/bin/sh: 1: Cannot fork' >&2; exit 2"},
        "failed": {"command": "sleep 1; exit 1", "on_failure": "stop"},
    }
    project.write(
        "w.yaml", json.dumps({"weft": 1, "name": "w", "defaults": {"retries": {"error": 0}}, "tasks": tasks})
    )
    assert project.weft("run", "w.yaml").code == 1


_DEEP = "/".join(["d"] * 30)
"""A folder whose files can be opened only by a process that may open more than 30 files."""


def _start_with_few_files(folder: Path, *options: str) -> subprocess.Popen[str]:
    made = f"mkdir -p {_DEEP}; echo made > {_DEEP}/o; touch {folder}/ran"
    (folder / "w.yaml").write_text(
        f"weft: 1\nname: w\ntasks: {{a: {{command: '{made}', outputs: [{_DEEP}/o]}}}}\n"
    )
    script = (
        "import os, resource, sys; "
        "resource.setrlimit(resource.RLIMIT_NOFILE, (36, resource.getrlimit(resource.RLIMIT_NOFILE)[1])); "
        "os.execv(sys.executable, [sys.executable, '-m', 'weft', 'run', 'w.yaml', *sys.argv[1:]])"
    )
    command = [sys.executable, "-c", script, *options]
    return subprocess.Popen(command, env=environment(), cwd=folder, stdout=subprocess.PIPE, text=True)


def test_output_that_the_host_cannot_open_is_not_counted_as_an_error_of_the_task(tmp_path: Path) -> None:
    engine = _start_with_few_files(tmp_path, "--retries", "0")
    shown, _ = engine.communicate(timeout=PATIENCE_S)
    assert engine.returncode == 1
    assert "failures       1 (1 lost)" in shown
    assert "Too many open files" in " ".join(shown.split())


def test_outputs_are_read_when_the_host_can_open_them_again(tmp_path: Path) -> None:
    engine = _start_with_few_files(tmp_path)
    wait_for(lambda: (tmp_path / "ran").exists())
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.prlimit(engine.pid, resource.RLIMIT_NOFILE, (min(1024, most), most))
    shown, _ = engine.communicate(timeout=PATIENCE_S)
    assert engine.returncode == 0, shown
    assert (tmp_path / _DEEP / "o").read_text() == "made\n"


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("-v 50000", "not enough memory to load a library; raise `ulimit -v`"),
        ("-f 40", "or with `weft run` if no run was recorded yet"),
    ],
)
def test_run_under_a_small_ulimit_fails_with_advice(tmp_path: Path, limit: str, said: str) -> None:
    (tmp_path / "w.yaml").write_text("weft: 1\nname: w\ntasks: {a: {command: 'true'}}\n")
    line = f"ulimit {limit}; exec {sys.executable} -m weft run w.yaml"
    command = ["/bin/sh", "-c", line]
    done = subprocess.run(
        command, env=environment(), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr
    assert said in done.stderr
    assert weft("run", "w.yaml", folder=tmp_path).code == 0
