"""Equal tasks of a sweep are the elements of one job array, on a real Slurm."""

from __future__ import annotations

import os
import re
import shutil
import time

import pytest

from backend_project import BackendProject
from backends.slurm.test_slurm_runs import PLATFORM, SlurmProject
from patience import PATIENCE_S
from slurm_cluster import ADMIN_PATH
from weft.backends.slurm.commands import array_script, parse_array_limit
from weft.engine import messages as cm
from weft.engine import messages as ev

COUNT = 12
SWEEP = """tasks:
  t: {{sweep: {{i: 1..{count}}}, retries: 2, command: "echo {{i}} >> {folder}/ran; echo ${{SLURM_ARRAY_JOB_ID:-none}} >> {folder}/arrays; {body}"}}
"""


class ArrayProject(SlurmProject):
    """A project whose tasks use a core each; its sbatch commands are recorded."""

    def __init__(self, folder, cluster) -> None:
        super().__init__(folder, cluster)
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.write_sbatch("")
        self.environment["PATH"] = f"{self.bin}{os.pathsep}{self.environment['PATH']}"
        self.write_cores()

    def write_cores(self, more="", mode="array") -> None:
        text = PLATFORM.format(partition="main", cores=4, more=f", unit: core, mode: {mode}{more}")
        (self.folder / "cluster.yaml").write_text(text.replace("nodes: 4", "nodes: 16"))

    def write_sbatch(self, then: str, before: str = "") -> None:
        """Put a command before sbatch that records its arguments, and does something before and after it."""
        program = shutil.which("sbatch", path=ADMIN_PATH)
        script = f'#!/bin/sh\necho "$@" >> {self.folder}/sbatch\n{before}\n{program} "$@"\ncode=$?\n{then}\nexit $code\n'
        (self.bin / "sbatch").write_text(script)
        (self.bin / "sbatch").chmod(0o755)

    def write_sweep(self, body, count=COUNT) -> None:
        self.write(SWEEP.format(count=count, folder=self.folder, body=body))

    def lines(self, name):
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def await_lines(self, name, count) -> None:
        end = time.monotonic() + PATIENCE_S
        while len(self.lines(name)) < count:
            assert time.monotonic() < end, (self.folder / "engine.log").read_text()
            time.sleep(0.1)

    def check_runs_once(self) -> None:
        assert sorted(map(int, self.lines("ran"))) == list(range(1, COUNT + 1))


@pytest.fixture
def project(slurm_cluster, tmp_path):
    found = ArrayProject(tmp_path, slurm_cluster)
    yield found
    found.close()


def test_equal_tasks_are_submitted_as_one_array(project) -> None:
    project.write_sweep("exit 0")
    code, text = project.run()
    assert code == 0, text
    project.check_runs_once()
    assert len(set(project.lines("arrays"))) == 1
    (submitted,) = project.lines("sbatch")
    assert f"--array=0-{COUNT - 1}" in submitted
    code, text = project.run("explain", "t[1]")
    assert re.search(r"it is job [0-9]+_[0-9]+ of the batch system", text), text
    assert project.queue() == []


def test_mode_job_submits_one_job_for_each_task(project) -> None:
    project.write_cores(mode="job")
    project.write_sweep("exit 0", count=3)
    code, text = project.run()
    assert code == 0, text
    assert [("--array" in line) for line in project.lines("sbatch")] == [False] * 3
    assert project.lines("arrays") == ["none"] * 3


def test_size_of_arrays_is_limited(project) -> None:
    project.write_cores(", array_size: 5")
    project.write_sweep("exit 0")
    code, text = project.run()
    assert code == 0, text
    project.check_runs_once()
    assert [line.partition("--array=")[2].split()[0] for line in project.lines("sbatch")] == [
        "0-4",
        "0-4",
        "0-1",
    ]


def test_array_that_exceeds_a_limit_on_jobs_is_divided(project) -> None:
    error = (
        "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit)"
    )
    project.write_sbatch("", f'case "$*" in *=0-{COUNT - 1}*) echo "{error}" >&2; exit 1;; esac')
    project.write_sweep("exit 0")
    code, text = project.run()
    assert code == 0, text
    project.check_runs_once()
    sizes = [line.partition("--array=")[2].split()[0] for line in project.lines("sbatch")]
    assert sizes == ["0-11", "0-5", "0-5"]


def test_failing_element_leaves_the_others_alone(project) -> None:
    project.write_sweep("test {i} != 3", COUNT)
    flow = project.folder / "flow.yaml"
    flow.write_text(flow.read_text().replace("retries: 2", "retries: 0"))
    code, text = project.run("run", "flow.yaml", "--on", "cluster.yaml", "--set", "on_failure=continue")
    assert code == 1, text
    project.check_runs_once()
    assert text.count("failed permanently") == 1


def test_element_that_is_cancelled_from_outside_runs_again(project) -> None:
    project.write_sweep(f"while ! [ -e {project.folder}/go ]; do sleep 0.1; done")
    engine = project.begin()
    project.await_lines("ran", COUNT)
    array = project.lines("arrays")[0]
    project.cluster.run("scancel", f"{array}_3")
    project.await_lines("ran", COUNT + 1)
    (project.folder / "go").touch()
    code, text = project.finish(engine)
    assert code == 0, text
    counts = [project.lines("ran").count(str(i)) for i in range(1, COUNT + 1)]
    assert sorted(counts) == [1] * (COUNT - 1) + [2]


def test_killed_engine_finds_its_elements(project) -> None:
    project.write_sweep(f"while ! [ -e {project.folder}/go ]; do sleep 0.1; done")
    engine = project.begin()
    project.await_lines("ran", COUNT)
    engine.kill()
    engine.wait()
    (project.folder / "go").touch()
    code, text = project.run("resume")
    assert code == 0, text
    project.check_runs_once()
    assert len(project.lines("sbatch")) == 1


def test_engine_killed_before_the_answer_of_sbatch_finds_the_elements(project) -> None:
    project.write_sbatch("sleep 1000")
    project.write_sweep(f"while ! [ -e {project.folder}/go ]; do sleep 0.1; done")
    engine = project.begin()
    project.await_lines("ran", COUNT)
    engine.kill()
    engine.wait()
    project.write_sbatch("")
    engine = project.start("resume")
    end = time.monotonic() + PATIENCE_S
    while "_11" not in project.run_beside("status", "--json")[1]:
        assert time.monotonic() < end, (project.folder / "engine.log").read_text()
        time.sleep(0.2)
    (project.folder / "go").touch()
    code, text = project.finish(engine)
    assert code == 0, text
    project.check_runs_once()
    assert len(project.lines("sbatch")) == 1


def test_run_that_is_cancelled_leaves_no_element(project) -> None:
    project.write_sweep("sleep 1000", count=20)
    engine = project.begin()
    project.await_lines("ran", 16)
    engine.kill()
    engine.wait()
    code, text = project.run("cancel")
    assert code == 0, text
    project.await_queue(lambda jobs: not jobs)


def test_one_element_is_cancelled_by_the_engine(slurm_cluster, tmp_path, monkeypatch) -> None:
    for name in ("SLURM_CONF", "PATH"):
        monkeypatch.setenv(name, slurm_cluster.environment[name])
    project = BackendProject("slurm", tmp_path, {"slow": {"command": "echo $$ > ready; exec sleep 1000"}})
    commands = [each for attempt in (0, 1, 2) for each in project.commands(attempt, "slow")]
    project.backend.execute(commands)
    jobs = sorted(event.job for event in project.wait_for(ev.JobQueued, number=3))
    assert [job.partition("_")[2] for job in jobs] == ["0", "1", "2"]
    for attempt in (0, 1, 2):
        project.wait_for_file(attempt)
    project.backend.execute([cm.Cancel(attempt=1, machine=0)])
    assert project.end().attempt == 1
    states = slurm_cluster.run("squeue", "-h", "-r", "-o", "%i", "-t", "R").split()
    assert {jobs[0], jobs[2]} <= set(states)
    project.close()


def test_script_of_an_array_quotes_names() -> None:
    script = array_script(["a b", "-c"], "/x y", ["1-a", "2-b"], "log")
    assert "folders=(1-a 2-b)" in script
    assert "folder='/x y'/\"${folders[SLURM_ARRAY_TASK_ID]}\"" in script
    assert "exec 'a b' -c \"$folder\"" in script


@pytest.mark.parametrize("text", ["", "MaxArraySize = many", "XMaxArraySize = 5"])
def test_missing_limit_of_arrays(text) -> None:
    assert parse_array_limit(text) is None
