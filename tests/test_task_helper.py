"""``weft.task``: the files that programs read and write, inside and outside weft."""

from __future__ import annotations

import ast
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from backends.attempt.job_examples import rendered, run_job, with_task
from patience import PATIENCE_S
from weft import task
from weft.backends.attempt.task_files import TaskFiles, parse_progress, read_result

VARIABLES = [name for name in os.environ if name.startswith("WEFT_")]


@pytest.fixture(autouse=True)
def _outside(monkeypatch, tmp_path):
    """Run a test outside weft, in an empty directory."""
    for name in VARIABLES:
        monkeypatch.delenv(name)
    monkeypatch.setattr(task, "_last_step", None)
    monkeypatch.chdir(tmp_path)


def test_task_module_imports_no_other_module_of_weft():
    tree = ast.parse(Path(task.__file__).read_text())
    names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert {str(name).split(".")[0] for name in names} <= set(sys.stdlib_module_names) | {"__future__"}


def test_all_functions_return_defaults_outside_weft(tmp_path):
    assert (task.name(), task.nodes(), task.iteration(), task.attempt()) == ("", 1, 1, 1)
    assert task.cores() >= 1
    assert task.memory_mb() is None
    assert not task.restarted()
    assert task.time_left_s() == math.inf
    task.progress(3, 10)
    task.result(delta=1)
    task.require("memory > 5")
    task.rank("speed")
    assert list(tmp_path.iterdir()) == []
    assert task.restore({"step": 0}) == {"step": 0}
    task.checkpoint({"step": 4})
    assert task.restore() == {"step": 4}
    assert [path.name for path in tmp_path.iterdir()] == ["restart.json"]


def test_the_allocation_is_read_from_the_environment(monkeypatch):
    reported = {"WEFT_TASK": "t[1]", "WEFT_NODES": "4", "WEFT_CORES": "2", "WEFT_MEM_MB": "3500", "WEFT_ITERATION": "7",
            "WEFT_ATTEMPT": "2", "WEFT_RESTART": "1", "WEFT_TIME_LEFT_S": "1e9"}  # fmt: skip
    for name, value in reported.items():
        monkeypatch.setenv(name, value)
    found = (task.name(), task.nodes(), task.cores(), task.memory_mb(), task.iteration(), task.attempt())
    assert found == ("t[1]", 4, 2, 3500, 7, 2)
    assert task.restarted()
    assert 0 < task.time_left_s() < 1e9
    monkeypatch.setenv("WEFT_NODES", "many")
    assert task.nodes() == 1


def test_time_left_counts_from_the_start_of_the_task():
    program = "import time; time.sleep(0.3); from weft import task; print(task.time_left_s())"
    env = {**os.environ, "WEFT_TIME_LEFT_S": "0.2", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=env,
        capture_output=True,
        text=True,
        check=True,
        start_new_session=True,
    )
    assert float(done.stdout) == 0.0


def test_progress_is_written_as_weft_reads_it(monkeypatch, tmp_path):
    file = tmp_path / "deep" / "progress"
    monkeypatch.setenv("WEFT_PROGRESS_FILE", str(file))
    task.progress(0.25)
    assert parse_progress(file.read_text()).done == 0.25
    task.progress(3, 10)
    first = parse_progress(file.read_text())
    assert (first.done, first.iterations, first.all_iterations, first.last_iteration_s) == (0.3, 3, 10, None)
    time.sleep(0.02)
    task.progress(5, 10)
    assert parse_progress(file.read_text()).last_iteration_s >= 0.01
    task.progress(6, 10, last_iteration_s=8.5)
    assert parse_progress(file.read_text()).last_iteration_s == 8.5
    assert [path.name for path in file.parent.iterdir()] == ["progress"]


def test_restart_files_contain_json_or_bytes(monkeypatch, tmp_path):
    monkeypatch.setenv("WEFT_CHECKPOINT_DIR", str(tmp_path / "work"))
    monkeypatch.setenv("WEFT_CHECKPOINT_FILES", "first.dat\nsecond.dat")
    task.checkpoint(b"\x00raw")
    task.checkpoint([1, "a"], "second.dat")
    assert (tmp_path / "work/first.dat").read_bytes() == b"\x00raw"
    assert task.restore(raw=True) == b"\x00raw"
    assert task.restore(file="second.dat") == [1, "a"]
    with pytest.raises(TypeError):
        task.checkpoint(object())
    assert task.restore(raw=True) == b"\x00raw"


def test_results_of_several_calls_are_merged(monkeypatch, tmp_path):
    monkeypatch.setenv("WEFT_RESULT_FILE", str(tmp_path / ".weft-result.json"))
    task.result(delta=0.5, ok=True)
    task.result(delta=0.25, text="a'b")
    assert read_result(tmp_path) == {"delta": 0.25, "ok": True, "text": "a'b"}
    with pytest.raises(ValueError, match="at most"):
        task.result(big="x" * 70_000)
    with pytest.raises(ValueError, match="JSON"):
        task.result(delta=math.nan)
    assert read_result(tmp_path)["delta"] == 0.25


def test_requirements_and_rank_are_written_as_weft_reads_them(monkeypatch, tmp_path):
    monkeypatch.setenv("WEFT_TASK", "t")
    monkeypatch.setenv("WEFT_CHECKPOINT_DIR", str(tmp_path))
    news = TaskFiles(tmp_path, "progress")
    task.require("memory >= 512*MB")
    task.rank("2 * speed")
    seen = news.observe()
    assert (seen.requirements, seen.mandatory) == ("memory >= 512 * MB", True)
    assert seen.rank == "2 * default(speed, 0)"
    task.require("memory >= 1*GB", mandatory=False)
    seen = news.observe()
    assert (seen.requirements, seen.mandatory) == ("memory >= 1 * GB", False)


@pytest.mark.parametrize(("call", "code"), [("checkpointed_exit", 85), ("requeue", 99)])
def test_exit_functions_use_the_documented_codes(call, code):
    with pytest.raises(SystemExit) as ended:
        getattr(task, call)()
    assert ended.value.code == code


PROGRAM = """\
import sys, time
from weft import task
state = {"step": task.restore({"step": 0})["step"]}
task.on_checkpoint(lambda: task.checkpoint(state))
task.progress(state["step"], 100)
print("from", state["step"], flush=True)
while True:
    state["step"] += 1
    task.progress(state["step"], 100_000)
    time.sleep(0.01)
"""


def test_a_stopped_program_continues_from_its_checkpoint(tmp_path):
    known = with_task(
        params={"python": sys.executable, "program": PROGRAM}, command=["{python}", "-c", "{program}"],
        checkpoint={"files": ["state.json"]},
    )  # fmt: skip
    job = rendered(known, tmp_path)
    job.env["PYTHONPATH"] = os.pathsep.join(sys.path)
    work = Path(job.workdir)
    work.mkdir(parents=True)
    running = subprocess.Popen(job.argv, cwd=work, env={**os.environ, **job.env}, stdout=subprocess.PIPE)
    try:
        assert running.stdout.readline() == b"from 0\n"
        running.send_signal(signal.SIGUSR1)
        until(lambda: (work / "state.json").exists())
        assert running.poll() is None
        first = json.loads((work / "state.json").read_text())["step"]
        until(lambda: TaskFiles.of(known, 0, work).observe().iterations > first + 2)
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=PATIENCE_S) == 85
    finally:
        running.kill()
        running.communicate()
    step = json.loads((work / "state.json").read_text())["step"]
    assert step > first
    again = subprocess.Popen(job.argv, cwd=work, env={**os.environ, **job.env}, stdout=subprocess.PIPE)
    assert again.stdout.readline() == f"from {step}\n".encode()
    again.kill()
    again.communicate()


def until(happened):
    for _ in range(2000):
        if happened():
            return
        time.sleep(0.01)
    raise AssertionError("it never happened")


def test_a_shell_script_can_use_the_environment_variables(tmp_path):
    script = "echo 3/10 >$WEFT_PROGRESS_FILE; echo '{{\"delta\": 0.5}}' >$WEFT_RESULT_FILE; echo 'speed > 1' >gw_reqs"
    known = with_task(command=script)
    job = rendered(known, tmp_path)
    news = TaskFiles.of(known, 0, Path(job.workdir))
    assert run_job(job).returncode == 0
    assert read_result(Path(job.workdir)) == {"delta": 0.5}
    seen = news.observe()
    assert (seen.done, seen.requirements) == (0.3, "default(speed, 0) > 1")
