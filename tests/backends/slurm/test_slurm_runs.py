"""Workflows on a real Slurm: files, node counts, limits, failures of controller, nodes and engine."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from patience import PATIENCE_S
from slurm_cluster import SlurmCluster
from weft.backends.runner.runner_link import RunnerScope

PLATFORM = """weft: 1
machines:
  cluster:
    nodes: 4
    cores: {cores}
    memory: 8GB
    backend: {{kind: slurm, partition: {partition}, commands_per_s: 20, poll_every: 0.5{more}}}
"""
PROGRAM = "echo x >> {0}/ran; touch {0}/ready; sleep 4; echo a > a"
STEPS = """tasks:
  a: {{command: "{0}", outputs: [a]}}
  b: {{command: "cat a > b", inputs: [a], outputs: [b]}}
"""


class SlurmProject:
    """A project of a test, on the shared file system that a virtual cluster is."""

    def __init__(self, folder, cluster: SlurmCluster) -> None:
        self.folder = folder
        self.cluster = cluster
        self.environment = {**cluster.environment, "NO_COLOR": "1"}
        self.engines = []
        self.write_platform("main")

    def write_platform(self, partition, cores=1, more="") -> None:
        text = PLATFORM.format(partition=partition, cores=cores, more=more)
        (self.folder / "cluster.yaml").write_text(text)

    def write(self, tasks: str) -> None:
        (self.folder / "flow.yaml").write_text(f"weft: 1\nname: flow\n{tasks}")

    def start(self, *words):
        command = [sys.executable, "-m", "weft", *words]
        with (self.folder / "engine.log").open("wb") as log:
            engine = subprocess.Popen(
                command, cwd=self.folder, env=self.environment, stdout=log, stderr=subprocess.STDOUT
            )
        self.engines.append(engine)
        return engine

    def close(self):
        """End what a failed test leaves."""
        for engine in self.engines:
            if engine.poll() is None:
                engine.kill()
                engine.wait()

    def finish(self, engine):
        code = engine.wait(PATIENCE_S)
        return code, (self.folder / "engine.log").read_text()

    def run(self, *words):
        return self.finish(self.start(*words or ("run", "flow.yaml", "--on", "cluster.yaml")))

    def run_beside(self, *words):
        """Run a command while an engine runs; return its exit code and output."""
        done = subprocess.run(
            [sys.executable, "-m", "weft", *words], cwd=self.folder, env=self.environment,
            capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout

    def begin(self):
        return self.start("run", "flow.yaml", "--on", "cluster.yaml")

    def queue(self):
        """Return the states and names of the jobs of this project that have not ended."""
        found = [line.split() for line in self.cluster.run("squeue", "-h", "-o", "%k %T %j").splitlines()]
        own = f"weft-{RunnerScope.of(self.folder / '.weft', 1)}"
        return [" ".join(words[1:]) for words in found if words[0] == own]

    def await_queue(self, reached):
        end = time.monotonic() + PATIENCE_S
        while not reached(found := self.queue()):
            assert time.monotonic() < end, (found, (self.folder / "engine.log").read_text())
            time.sleep(0.1)

    def await_file(self, name):
        end = time.monotonic() + PATIENCE_S
        while not (self.folder / name).exists():
            assert time.monotonic() < end, (self.folder / "engine.log").read_text()
            time.sleep(0.05)
        return self.folder / name


@pytest.fixture
def project(slurm_cluster, tmp_path):
    found = SlurmProject(tmp_path, slurm_cluster)
    yield found
    found.close()


@pytest.fixture
def occupied(slurm_cluster):
    """Occupy two nodes by a job of another program; return its number."""
    command = ("sbatch", "--parsable", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=sleep 1000")
    number = slurm_cluster.run(*command).strip()
    yield number
    slurm_cluster.run("scancel", number)


def test_pipeline_with_files_runs_as_jobs_and_is_reused(project) -> None:
    project.write(
        """tasks:
  make: {command: "echo $SLURM_JOB_NAME > made", outputs: [made]}
  copy: {command: [cp, made, copied], inputs: [made], outputs: [copied]}
"""
    )
    code, text = project.run()
    assert code == 0, text
    code, text = project.run("explain", "make")
    assert re.search(r"it is job [0-9]+ of the batch system", text), text
    assert (project.folder / "copied").read_text().startswith("weft-1-")
    assert project.queue() == []
    code, text = project.run()
    assert (code, "reused" in text) == (0, True)


def test_moldable_task_runs_on_the_planned_nodes(project) -> None:
    project.write(
        """tasks:
  wide:
    nodes: 3
    command: "echo $WEFT_NODES $SLURM_JOB_NUM_NODES $(srun hostname | sort -u | wc -l) > seen"
    outputs: [seen]
"""
    )
    code, text = project.run()
    assert code == 0, text
    found = (project.folder / "seen").read_text().split()
    assert found[:2] == ["3", "3"]
    if os.geteuid() == 0:  # each node has a host name of its own
        assert found[2] == "3"


def test_exit_code_and_missing_program_are_reported(project) -> None:
    project.write("tasks:\n  a: {command: exit 3}\n")
    code, text = project.run()
    assert (code, "exit code 3" in text) == (1, True)
    project.write("tasks:\n  a: {command: [/nowhere/program]}\n")
    code, text = project.run()
    assert (code, "command not found" in text) == (1, True)


def test_program_is_ended_at_its_time_limit(project) -> None:
    project.write("tasks:\n  slow: {command: sleep 1000, time_limit: 2s}\n")
    code, text = project.run()
    assert (code, "time" in text) == (1, True), text


def test_interrupted_run_leaves_nothing_in_the_queue(project) -> None:
    project.write(f"tasks:\n  'a': {{command: 'touch {project.folder}/ready; sleep 1000'}}\n")
    engine = project.begin()
    project.await_file("ready")
    engine.send_signal(signal.SIGINT)
    code, text = project.finish(engine)
    assert code == 75, text
    project.await_queue(lambda jobs: not jobs)


def test_failure_of_a_task_cancels_the_jobs_of_the_others(project) -> None:
    tasks = "".join(f"  s{number}: {{command: sleep 1000}}\n" for number in range(3))
    project.write(f"tasks:\n{tasks}  bad: {{command: sleep 2; exit 3}}\n")
    code, text = project.run()
    assert code == 1, text
    project.await_queue(lambda jobs: not jobs)


def test_interrupted_run_cancels_pending_jobs(project, occupied) -> None:
    project.write_platform("main", cores=4)
    project.write("tasks:\n" + "".join(f"  s{number}: {{command: sleep 1000}}\n" for number in range(4)))
    engine = project.begin()
    project.await_queue(lambda jobs: {each.split()[0] for each in jobs} == {"RUNNING", "PENDING"})
    engine.send_signal(signal.SIGINT)
    code, text = project.finish(engine)
    assert code == 75, text
    project.await_queue(lambda jobs: not jobs)


def test_engine_killed_before_it_knew_the_number_of_a_job_submits_it_once(project, occupied) -> None:
    folder = project.folder
    project.write_platform("main", cores=4)
    project.write(STEPS.format(PROGRAM.format(folder)).replace("a: {", "a: {nodes: 3, ", 1))
    engine = project.begin()
    project.await_queue(lambda jobs: len(jobs) == 1)
    engine.kill()
    engine.wait()
    for number in folder.glob(".weft/runners/1/cluster/*/engine/job"):
        number.unlink()
    engine = project.start("resume")
    end = time.monotonic() + PATIENCE_S
    while not list(folder.glob(".weft/runners/1/cluster/*/engine/job")):
        assert time.monotonic() < end
        time.sleep(0.1)
    assert len(project.queue()) == 1
    project.cluster.run("scancel", occupied)
    code, text = project.finish(engine)
    assert code == 0, text
    assert (folder / "ran").read_text() == "x\n"


def test_run_survives_a_restart_of_the_controller(project) -> None:
    folder = project.folder
    project.write(STEPS.format(PROGRAM.format(folder)))
    engine = project.begin()
    project.await_file("ready")
    project.cluster.kill_controller()
    try:
        time.sleep(6)  # the program ends meanwhile
        assert engine.poll() is None
    finally:
        project.cluster.start_controller()
    code, text = project.finish(engine)
    assert code == 0, text
    assert ((folder / "b").read_text(), (folder / "ran").read_text()) == ("a\n", "x\n")


def test_run_that_starts_without_a_controller_waits_for_it(project) -> None:
    project.write("tasks:\n  a: {command: echo a > a, outputs: [a]}\n")
    project.cluster.kill_controller()
    try:
        engine = project.begin()
        end = time.monotonic() + PATIENCE_S
        while not list(project.folder.glob(".weft/runners/1/cluster/*/order")):
            assert time.monotonic() < end, (project.folder / "engine.log").read_text()
            time.sleep(0.1)
    finally:
        project.cluster.start_controller()
    code, text = project.finish(engine)
    assert code == 0, text


def test_killed_engine_resumes_its_jobs(project) -> None:
    folder = project.folder
    project.write(STEPS.format(PROGRAM.format(folder)))
    engine = project.begin()
    project.await_file("ready")
    engine.kill()
    engine.wait()
    code, text = project.run("resume")
    assert code == 0, text
    assert ((folder / "b").read_text(), (folder / "ran").read_text()) == ("a\n", "x\n")
    assert project.queue() == []


def test_task_of_a_dead_node_runs_again(fragile_cluster, tmp_path) -> None:
    project = SlurmProject(tmp_path, fragile_cluster)
    folder = project.folder
    project.write(
        f"""tasks:
  a:
    command: "test -e {folder}/node && exit 0; echo $SLURMD_NODENAME > {folder}/node; sleep 1000"
    retries: 2
"""
    )
    engine = project.begin()
    path = project.await_file("node")
    while not (name := path.read_text().strip()):
        time.sleep(0.05)
    project.cluster.kill_node(name)
    try:
        code, text = project.finish(engine)
    finally:
        project.close()
    assert code == 0, text


def test_wrong_partition_is_refused(project) -> None:
    project.write("tasks:\n  a: {command: exit 0}\n")
    project.write_platform("mian")
    code, text = project.run()
    assert code == 2
    assert re.search(r"no partition 'mian'.*\s+.*did you mean 'main'", text), text


def test_missing_slurm_is_reported(tmp_path) -> None:
    (tmp_path / "flow.yaml").write_text("weft: 1\nname: flow\ntasks:\n  a: {command: exit 0}\n")
    (tmp_path / "cluster.yaml").write_text(PLATFORM.format(partition="main", cores=1, more=""))
    done = subprocess.run(
        [sys.executable, "-m", "weft", "run", "flow.yaml", "--on", "cluster.yaml"],
        cwd=tmp_path, env={**os.environ, "PATH": str(tmp_path)}, capture_output=True, text=True,
        timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "Slurm is not installed here" in done.stderr + done.stdout
