"""Whole runs on real Dask workers, through the command line."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dask_clusters import DaskProcesses, dask_processes
from patience import PATIENCE_S

PIPELINE = """\
weft: 1
name: pipeline
tasks:
  a: {command: "wc -w < data.txt > count; echo told", inputs: [data.txt], outputs: [count], requirements: 'arch == "x0"'}
  b: {command: "cat count > b.txt", inputs: [count], outputs: [b.txt], requirements: 'arch == "x1"'}
  c: {command: "cat b.txt count > c.txt", inputs: [b.txt, count], outputs: [c.txt]}
"""
KILLS = int(os.environ.get("WEFT_KILLS", "5"))
"""How often the engine is killed; ``make chaos BACKEND=dask`` raises it."""
STEPS = 8
ITERATING = """\
weft: 1
name: iterating
tasks:
  x:
    command: [python3, step.py]
    inputs: [step.py]
    outputs: [x.out]
    checkpoint: {files: [restart]}
    seconds: 10
"""
STEP = """\
import os, pathlib, time
restart = pathlib.Path("restart")
step, value = (int(word) for word in restart.read_text().split()) if restart.exists() else (0, 1)
with open("LOG", "a") as log:
    log.write(f"{step} {os.getcwd()}\\n")
while step < STEPS:
    step, value = step + 1, value * 31 % 1009
    new = pathlib.Path("restart.new")
    new.write_text(f"{step} {value}")
    new.replace(restart)
    pathlib.Path(os.environ["WEFT_PROGRESS_FILE"]).write_text(str(step / STEPS))
    if step == STEPS // 2 and not pathlib.Path("GO").exists():
        time.sleep(1000)
pathlib.Path("x.out").write_text(str(value))
"""
MANY = """\
weft: 1
name: many
tasks:
  work:
    sweep: {k: 0..57}
    command: "mkdir LOG/running-{k} || echo twice-{k} >> LOG/wrong; sleep SECONDS; echo {k} > w{k}; echo {k} >> LOG/ran; rmdir LOG/running-{k}"
    outputs: ["w{k}"]
  sum: {command: "cat w* | sort -n > sum", inputs: ["w*"], outputs: [sum]}
  last: {command: "until [ -e LOG/go ]; do sleep 0.1; done; wc -l < sum > last", inputs: [sum], outputs: [last]}
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskProcesses]:
    with dask_processes(tmp_path_factory.mktemp("runs"), ("m0", "m1")) as found:
        yield found


@pytest.fixture
def project(cluster: DaskProcesses, tmp_path: Path) -> Path:
    write_platform(tmp_path, cluster.address)
    (tmp_path / "data.txt").write_text("some words here\n")
    return tmp_path


def write_platform(project: Path, address: str, **more: object) -> None:
    told = "".join(f", {key}: {value}" for key, value in {"silence": 8, **more}.items())
    lines = [
        f"  m{index}: {{nodes: 4, arch: x{index}, backend: "
        f"{{kind: dask, scheduler: '{address}', worker: m{index}{told}}}}}"
        for index in range(2)
    ]
    (project / "grid.yaml").write_text("machines:\n" + "\n".join(lines) + "\n")


def start(project: Path, *words: str) -> subprocess.Popen[str]:
    with (project / "engine.log").open("w") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "weft", *words],
            cwd=project,
            text=True,
            env={**os.environ, "NO_COLOR": "1"},
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def finish(project: Path, engine: subprocess.Popen[str]) -> str:
    code = engine.wait(timeout=PATIENCE_S)
    text = (project / "engine.log").read_text()
    assert code == 0, text
    return text


def run(project: Path, text: str) -> subprocess.Popen[str]:
    (project / "flow.yaml").write_text(text)
    return start(project, "run", "flow.yaml", "--on", "grid.yaml")


def find_processes(words: str) -> list[str]:
    """Return the command lines of all running processes that contain these words."""
    found = subprocess.run(["ps", "-eo", "stat=,args="], check=True, capture_output=True, text=True).stdout
    return [line for line in found.splitlines() if words in line and not line.startswith("Z")]


def wait_until(condition, what: str) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end_s, what
        time.sleep(0.1)


@pytest.mark.parametrize("shared", ["false", "true"])
def test_pipeline_over_two_workers_is_published_and_reused(
    project: Path, cluster: DaskProcesses, shared: str
) -> None:
    write_platform(project, cluster.address, shared=shared)
    finish(project, run(project, PIPELINE))
    assert (project / "c.txt").read_text() == "3\n3\n"
    assert "told" in finish(project, start(project, "logs", "a"))
    assert "reused" in finish(project, start(project, "run", "flow.yaml", "--on", "grid.yaml"))


def test_function_is_called_on_a_worker_without_weft_and_the_worker_is_cleaned(
    project: Path, cluster: DaskProcesses
) -> None:
    (project / "own.py").write_text("def double(k):\n    return {'value': 2 * k}\n")
    flow = "weft: 1\nname: calling\nparams: {k: 21}\ntasks:\n  f: {call: 'own:double'}\n"
    finish(
        project,
        run(
            project,
            f'{flow}  g: {{after: f, command: "echo {{f.result.value}} > g.out", outputs: [g.out]}}\n',
        ),
    )
    assert (project / "g.out").read_text() == "42\n"
    sandbox = cluster.folder / ".cache/weft/sandbox"
    before = [path for path in sandbox.glob("m?/*/1/*") if path.is_dir()]
    finish(project, start(project, "clean", "1"))
    assert any(not path.exists() for path in before)


def test_function_of_a_shared_worker_has_the_module_path_of_the_project(
    project: Path, cluster: DaskProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the module path of the worker, weft cannot be imported; see ``DaskProcesses``."""
    (project / "modules").mkdir()
    (project / "modules/extra.py").write_text("FACTOR = 2\n")
    own = "import os, extra\ndef double(k):\n    return {'value': extra.FACTOR * k, 'home': os.environ['HOME']}\n"
    (project / "own.py").write_text(own)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(project / "modules"), *sys.path]))
    write_platform(project, cluster.address, shared="true")
    flow = "weft: 1\nname: calling\nparams: {k: 21}\ntasks:\n  f: {call: 'own:double'}\n"
    show = "echo {f.result.value} {f.result.home} $PYTHONPATH > g.out"
    finish(project, run(project, f"{flow}  g: {{after: f, command: '{show}', outputs: [g.out]}}\n"))
    hidden = cluster.folder / "hidden"
    assert (project / "g.out").read_text().split() == ["42", str(cluster.folder), str(hidden)]


def test_engine_killed_at_random_moments_runs_every_task_once(project: Path) -> None:
    moments = random.Random(18)
    log = project / "log"
    log.mkdir()
    engine = run(project, MANY.replace("LOG", str(log)).replace("SECONDS", str(0.2 * KILLS)))
    wait_until((project / ".weft/weft.db").exists, "there is no run")
    for _ in range(KILLS):
        time.sleep(moments.uniform(0.0, 3.0))
        assert engine.poll() is None, (project / "engine.log").read_text()
        engine.send_signal(signal.SIGKILL)
        engine.wait()
        engine = start(project, "resume")
    (log / "go").touch()  # without it the run does not end
    finish(project, engine)
    assert (project / "last").read_text().strip() == "58"
    assert sorted((log / "ran").read_text().split(), key=int) == [str(k) for k in range(58)]
    assert sorted(path.name for path in log.iterdir()) == ["go", "ran"]


def test_engine_killed_at_random_moments_leaves_nothing_after_cancel(
    project: Path, cluster: DaskProcesses
) -> None:
    moments = random.Random(19)
    number = f"{4000 + os.getpid() % 5000}.5"
    wide = f"weft: 1\nname: wide\ntasks: {{z: {{sweep: {{k: 1..12}}, command: 'sleep {number}; : {{k}}'}}}}\n"
    own = f"{cluster.folder}/.cache/weft"
    for turn in range(-(-KILLS // 5)):
        engine = run(project, wide)
        if turn % 2 == 0:
            wait_until(lambda: find_processes(f"sleep {number}"), "no task has started")
        time.sleep(moments.uniform(0.0, 2.0))
        engine.send_signal(signal.SIGKILL)
        engine.wait()
        start(project, "cancel").wait(PATIENCE_S)
        wait_until(lambda: not find_processes(f"sleep {number}"), "a program is left")
        wait_until(lambda: not find_processes(own), "a process of weft is left")


def test_nothing_runs_on_the_workers_after_cancel(project: Path, cluster: DaskProcesses) -> None:
    number = str(4000 + os.getpid() % 5000)
    engine = run(project, f"weft: 1\nname: end\ntasks: {{z: {{command: sleep {number}}}}}\n")
    wait_until(lambda: find_processes(f"sleep {number}"), "the task has not started")
    start(project, "cancel").wait(PATIENCE_S)
    engine.wait(PATIENCE_S)
    assert find_processes(f"sleep {number}") == []
    own = f"{cluster.folder}/.cache/weft"
    wait_until(lambda: not find_processes(own), "a process of weft is left")


def test_task_of_a_killed_worker_goes_on_from_its_restart_files(
    project: Path, cluster: DaskProcesses
) -> None:
    log, go = project / "log", project / "go"
    text = STEP.replace("LOG", str(log)).replace("GO", str(go)).replace("STEPS", str(STEPS))
    (project / "step.py").write_text(text)
    engine = run(project, ITERATING)
    half = str(STEPS // 2)

    def is_kept() -> bool:
        kept = project.glob(".weft/checkpoints/**/restart")
        return any(path.read_text().split()[0] == half for path in kept)

    wait_until(is_kept, "the restart files are not kept")
    name = "m0" if "/sandbox/m0/" in log.read_text() else "m1"
    go.touch()
    cluster.kill(name)
    try:
        finish(project, engine)
    finally:
        cluster.start_worker(name)
    value = 1
    for _ in range(STEPS):
        value = value * 31 % 1009
    assert (project / "x.out").read_text() == str(value)
    first, second = (line.split() for line in log.read_text().splitlines())
    assert (first[0], second[0]) == ("0", half)
    assert f"/sandbox/{name}/" not in second[1]


@pytest.mark.parametrize("outage_s", [7.0, 15.0], ids=["short", "reconnected"])
def test_outage_of_the_scheduler_does_not_count_as_run_time(
    project: Path, cluster: DaskProcesses, outage_s: float
) -> None:
    """Estimates of later runs rest on this time. The report of the start may arrive late, too."""
    write_platform(project, cluster.address, silence=90)
    stop = f"kill -STOP {cluster.pid('')}; touch {project}/on; sleep 1.25"
    engine = run(project, f"weft: 1\nname: outage\ntasks: {{t: {{command: '{stop}', contract: none}}}}\n")
    try:
        wait_until((project / "on").exists, "the task has not started")
        time.sleep(outage_s)
    finally:
        cluster.resume("")
    finish(project, engine)
    out = subprocess.run(
        [sys.executable, "-m", "weft", "report", "1", "--json"], cwd=project, check=True, capture_output=True
    ).stdout
    [attempt] = json.loads(out)["attempts"]
    assert 1.2 <= attempt["ended_s"] - attempt["started_s"] < 5.0


def test_absent_scheduler_is_reported_soon_with_the_reason(tmp_path: Path) -> None:
    """The stated silence is longer than any test waits."""
    write_platform(tmp_path, "tcp://127.0.0.1:1", silence="1h")
    (tmp_path / "data.txt").write_text("some words here\n")
    engine = run(tmp_path, PIPELINE)
    told = "m0 is lost: host m0 (Dask worker at tcp://127.0.0.1:1): no Dask scheduler answers (connection refused)"
    wait_until(lambda: told in (tmp_path / "engine.log").read_text(), "the loss is not told")
    status = subprocess.run(
        [sys.executable, "-m", "weft", "status"], cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout
    assert told in status
    engine.send_signal(signal.SIGINT)
    assert engine.wait(PATIENCE_S) == 75


def test_scheduler_that_is_gone_is_named_without_a_traceback_and_the_run_goes_on(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The task has started, so the workers are lost after the stated silence."""
    go = tmp_path / "go"
    command = f"touch {tmp_path}/on; until [ -e {go} ]; do sleep 0.1; done; echo x > x"
    with dask_processes(tmp_path_factory.mktemp("gone"), ("m0", "m1")) as cluster:
        write_platform(tmp_path, cluster.address)
        flow = f"weft: 1\nname: gone\ntasks: {{t: {{command: '{command}', outputs: [x], contract: none}}}}\n"
        engine = run(tmp_path, flow)
        wait_until((tmp_path / "on").exists, "the task has not started")
        cluster.kill("")
        told = "is lost: host m0 (Dask worker at"
        wait_until(lambda: told in (tmp_path / "engine.log").read_text(), "the loss is not told")
        go.touch()
        for name in ("m0", "m1"):
            cluster.wait_end(name)
        cluster.start_scheduler()
        for name in ("m0", "m1"):
            cluster.start_worker(name)
        text = finish(tmp_path, engine)
    assert "no Dask scheduler answers" in text
    assert "Traceback" not in text
    assert (tmp_path / "x").read_text() == "x\n"


def test_scheduler_that_is_not_there_is_named_and_the_run_can_be_resumed(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    absent = DaskProcesses(tmp_path_factory.mktemp("absent"), ("m0", "m1"))
    write_platform(tmp_path, absent.address)
    (tmp_path / "data.txt").write_text("some words here\n")
    engine = run(tmp_path, PIPELINE)
    told = f"m0 is lost: host m0 (Dask worker at {absent.address}): no Dask scheduler answers"
    wait_until(lambda: told in (tmp_path / "engine.log").read_text(), "the loss is not told")
    engine.send_signal(signal.SIGINT)
    assert engine.wait(PATIENCE_S) == 75  # `weft resume` continues
    try:
        absent.start_scheduler()
        for name in ("m0", "m1"):
            absent.start_worker(name)
        finish(tmp_path, start(tmp_path, "resume"))
    finally:
        absent.end_all()
    assert (tmp_path / "c.txt").read_text() == "3\n3\n"
