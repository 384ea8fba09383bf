"""One workflow on this computer, ssh hosts, Slurm and Dask at once: staging, migration, resume, new machines."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dask_clusters import DaskProcesses
from patience import PATIENCE_S
from slurm_cluster import SlurmCluster
from ssh_hosts import SshHosts

HERE = "  here: {nodes: 2, arch: here, backend: {kind: local}}\n"
CLUSTER = (
    "  cluster: {nodes: 4, arch: cluster, memory: 8GB, "
    "backend: {kind: slurm, partition: main, commands_per_s: 20, poll_every: 0.5}}\n"
)
CIRCLE = """\
tasks:
  first: {command: "wc -w < words.txt > one", inputs: [words.txt], outputs: [one], requirements: 'arch == "here"'}
  second:
    command: "cat one > two; echo $SLURM_JOB_NUM_NODES >> two"
    inputs: [one]
    outputs: [two]
    nodes: 2
    requirements: 'arch == "cluster"'
  third: {command: "cat two > three; hostname >> three", inputs: [two], outputs: [three], requirements: 'arch == "host1"'}
  fourth:
    command: "cat three > four; hostname >> four"
    inputs: [three]
    outputs: [four]
    requirements: 'arch == "host2"'
  fifth: {command: "cat four > five; pwd >> five", inputs: [four], outputs: [five], requirements: 'arch == "worker1"'}
  sixth: {command: "cat five one > six", inputs: [five, one], outputs: [six], requirements: 'arch == "cluster"'}
  last: {command: "cat six three > last.txt", inputs: [six, three], outputs: [last.txt], requirements: 'arch == "here"'}
"""
LONG = """\
tasks:
  on:
    sweep: {place: [here, cluster, host1, worker1]}
    command: "echo begun >> log; touch ready; while ! [ -e go ]; do sleep 0.2; done; cp log on.{place}"
    outputs: ["on.{place}"]
    requirements: 'arch == place'
  all: {command: "cat {inputs} > all.txt", inputs: ["on.*"], after: on, outputs: [all.txt]}
"""
RESTARTING = """\
tasks:
  x:
    command: >-
      if [ -e restart ]; then cat restart > x.out; hostname >> x.out; exit 0; fi;
      echo half > restart; echo 0.5 > $WEFT_PROGRESS_FILE; sleep 1000
    outputs: [x.out]
    checkpoint: {files: [restart]}
    seconds: 10
    requirements: 'arch in ["host1", "WHERE"]'
    rank: "1 if arch == 'FIRST' else 0"
"""
MOLDABLE = """\
tasks:
  x:
    command: >-
      if [ -e restart ]; then cat restart > x.out; echo done on $WEFT_NODES of $SLURM_JOB_NUM_NODES >> x.out; exit 0; fi;
      echo half on $WEFT_NODES > restart; echo 0.5 > $WEFT_PROGRESS_FILE; sleep 1000
    outputs: [x.out]
    nodes: [1, 3]
    memory: 1200MB
    checkpoint: {files: [restart], nodes: any}
    work: 300
    speedup: {amdahl: 0}
    requirements: 'arch in ["worker1", "cluster"]'
    rank: "1 if arch == 'worker1' else 0"
"""
TOGETHER = """\
tasks:
  first:
    command: "hostname > first.out"
    outputs: [first.out]
    machine: pair
    requirements: 'arch in ["host1", "worker2"]'
    rank: "1 if arch == 'host1' else 0"
  middle:
    command: >-
      if [ -e restart ]; then cat restart > middle.out; pwd >> middle.out; exit 0; fi;
      echo half > restart; echo 0.5 > $WEFT_PROGRESS_FILE; sleep 1000
    inputs: [first.out]
    outputs: [middle.out]
    machine: pair
    checkpoint: {files: [restart]}
    seconds: 10
    requirements: 'arch in ["host1", "worker2"]'
  last:
    command: "cat first.out middle.out > last.out; pwd >> last.out"
    inputs: [first.out, middle.out]
    outputs: [last.out]
    machine: pair
    rank: "1 if arch == 'host1' else 0"
  beside1: {command: "hostname > beside1", outputs: [beside1], machine: other, requirements: 'arch == "cluster"'}
  beside2: {command: "cat beside1 > beside2; hostname >> beside2", inputs: [beside1], outputs: [beside2], machine: other}
"""


class MixedProject:
    """A project whose platform has machines of several kinds."""

    def __init__(self, folder: Path, cluster: SlurmCluster, hosts: SshHosts, workers: DaskProcesses) -> None:
        self.folder = folder
        self.hosts = hosts
        self.workers = workers
        self.environment = {**cluster.environment, "NO_COLOR": "1"}
        self.started: list[subprocess.Popen[str]] = []
        self.remote = "".join(
            f"  {host.name}: {{nodes: 2, arch: {host.name}, backend: {self.describe(host.name)}}}\n"
            for host in hosts
        )
        self.remote += "".join(
            f"  {name}: {{nodes: 2, arch: {name}, backend: {{kind: dask, scheduler: '{workers.address}', "
            f"worker: {name}, silence: 8}}}}\n"
            for name in ("worker1", "worker2")
        )
        (folder / "words.txt").write_text("some words here\n")
        self.write_platform(HERE + CLUSTER + self.remote)

    def describe(self, host: str) -> str:
        return f"{{kind: ssh, host: {host}, config: {self.hosts.config}, silence: 12}}"

    def write_platform(self, machines: str) -> None:
        (self.folder / "grid.yaml").write_text(f"weft: 1\nmachines:\n{machines}")

    def write(self, tasks: str) -> None:
        (self.folder / "flow.yaml").write_text(f"weft: 1\nname: flow\n{tasks}")

    def start(self, *words: str) -> subprocess.Popen[str]:
        found = subprocess.Popen(
            [sys.executable, "-m", "weft", *words],
            cwd=self.folder,
            env=self.environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.started.append(found)
        return found

    def begin(self) -> subprocess.Popen[str]:
        return self.start("run", "flow.yaml", "--on", "grid.yaml")

    def finish(self, process: subprocess.Popen[str], code: int = 0) -> str:
        out, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == code, out
        return out

    def run(self, *words: str, code: int = 0) -> str:
        return self.finish(self.start(*words), code)

    def close(self) -> None:
        """End what a failed test leaves."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.communicate()

    def workdirs(self, name: str) -> list[Path]:
        """Return the working directories that contain a file, on this computer and the nodes of Slurm."""
        return [found.parent for found in self.folder.glob(f".weft/sandbox/*/*/*/*/{name}")]

    def remote_workdirs(self, name: str) -> list[tuple[int, str]]:
        """Return the working directories on ssh hosts that contain a file, with the number of the host."""
        found = []
        for number, host in enumerate(self.hosts):
            paths = host.run("find", "/home", "-path", "*/sandbox/*", "-name", name).split()
            found += [(number, path.rpartition("/")[0]) for path in paths]
        return found

    def worker_workdirs(self, name: str) -> list[Path]:
        """Return the working directories on Dask workers that contain a file."""
        return [path.parent for path in self.workers.folder.glob(f".cache/weft/sandbox/*/*/*/*/{name}")]

    def runs_everywhere(self) -> bool:
        places = self.remote_workdirs("ready"), self.worker_workdirs("ready")
        return len(self.workdirs("ready")) == 2 and all(places)

    def release(self, name: str = "go") -> None:
        for workdir in (*self.workdirs("ready"), *self.worker_workdirs("ready")):
            (workdir / name).touch()
        for number, workdir in self.remote_workdirs("ready"):
            self.hosts[number].run("touch", f"{workdir}/{name}")


@pytest.fixture
def project(tmp_path: Path, slurm_cluster: SlurmCluster, two_hosts: SshHosts, two_workers: DaskProcesses):
    for host in two_hosts:
        host.run("sh", "-c", "rm -rf /home/*/.cache/weft/sandbox")
    shutil.rmtree(two_workers.folder / ".cache/weft/sandbox", ignore_errors=True)
    made = MixedProject(tmp_path, slurm_cluster, two_hosts, two_workers)
    yield made
    made.close()


def wait_until(engine: subprocess.Popen[str], reached, what: str) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not reached():
        assert engine.poll() is None, engine.communicate()[0]
        assert time.monotonic() < end_s, what
        time.sleep(0.2)


def test_files_pass_between_all_kinds_and_results_are_reused(project: MixedProject) -> None:
    project.write(CIRCLE)
    assert "no problems" in project.run("check", "flow.yaml", "--on", "grid.yaml")
    project.finish(project.begin())
    three = ["3", "2", "host1"]
    found = (project.folder / "last.txt").read_text().splitlines()
    assert "/sandbox/worker1/" in found[4]
    assert [*found[:4], *found[5:]] == [*three, "host2", "3", *three]
    assert "reused" in project.finish(project.begin())
    runners = project.folder / ".weft" / "runners" / "1"
    assert {each.name for each in runners.iterdir()} <= {"here", "cluster"}
    assert not (runners / "cluster" / "pid").exists(), "a local runner serves a Slurm machine"
    project.run("clean")
    assert project.workdirs("one") == []


LARGE = """\
tasks:
  one:
    command: "head -c 400000 /dev/urandom > big"
    outputs: [big]
    requirements: 'arch == "host1"'
  two: {command: "cat big > copy", inputs: [big], outputs: [copy], requirements: 'arch == "worker1"'}
"""


def test_large_file_for_a_worker_is_not_said_to_lack_a_setting(project: MixedProject) -> None:
    """Only ssh hosts have the key ``direct``."""
    project.write(LARGE)
    project.finish(project.begin())
    explained = " ".join(project.run("explain", "two").split())
    assert "from host1 through this computer: Dask workers accept no direct copies" in explained


def test_programs_of_all_kinds_survive_the_engine_and_are_taken_over(project: MixedProject) -> None:
    project.write(LONG)
    engine = project.begin()
    wait_until(engine, project.runs_everywhere, "not all tasks run")
    engine.send_signal(signal.SIGKILL)
    engine.communicate()
    project.run("clean")  # the directories of running programs are kept
    assert project.runs_everywhere()
    resumed = project.start("resume")
    project.release()
    project.finish(resumed)
    assert (project.folder / "all.txt").read_text() == 4 * "begun\n"


def test_task_moves_from_a_dead_host_to_slurm(project: MixedProject) -> None:
    project.write(RESTARTING.replace("WHERE", "cluster").replace("FIRST", "host1"))
    engine = project.begin()
    wait_until(engine, lambda: list(project.folder.glob(".weft/checkpoints/*/*/current")), "no restart files")
    host = project.hosts[0]
    host.kill()
    try:
        project.finish(engine)
    finally:
        host.restart()
    assert (project.folder / "x.out").read_text().splitlines()[0] == "half"
    assert "node" in (project.folder / "x.out").read_text()


def test_task_moves_from_a_dead_worker_to_more_nodes_of_slurm(project: MixedProject) -> None:
    cluster = CLUSTER.replace("memory: 8GB", "memory_per_node: 500MB")  # one node has too little for the task
    project.write_platform(HERE + cluster + project.remote)
    project.write(MOLDABLE)
    engine = project.begin()
    wait_until(engine, lambda: list(project.folder.glob(".weft/checkpoints/*/*/current")), "no restart files")
    project.workers.kill("worker1")
    try:
        project.finish(engine)
    finally:
        project.workers.start_worker("worker1")
    begun, ended = (project.folder / "x.out").read_text().splitlines()
    assert (begun, ended) == ("half on 1", "done on 3 of 3")


def test_abstract_machine_moves_with_its_task_to_another_kind(project: MixedProject) -> None:
    project.write(TOGETHER)
    engine = project.begin()
    wait_until(engine, lambda: list(project.folder.glob(".weft/checkpoints/*/*/current")), "no restart files")
    project.run("migrate", "middle", "--to", "worker2")
    project.finish(engine)
    first, restart, middle, last = (project.folder / "last.out").read_text().splitlines()
    assert (first, restart) == ("host1", "half")
    assert "/sandbox/worker2/" in middle
    assert "/sandbox/worker2/" in last, "tasks of one abstract machine run on the same machine"
    beside = (project.folder / "beside2").read_text().split()
    assert len(beside) == 2
    assert all(each.startswith("node") for each in beside), "the other abstract machine stays on Slurm"


def test_task_moves_from_this_computer_to_an_ssh_host(project: MixedProject) -> None:
    project.write(RESTARTING.replace("WHERE", "here").replace("FIRST", "here"))
    engine = project.begin()
    wait_until(engine, lambda: list(project.folder.glob(".weft/checkpoints/*/*/current")), "no restart files")
    project.run("migrate", "x", "--to", "host1")
    project.finish(engine)
    assert (project.folder / "x.out").read_text() == "half\nhost1\n"


def test_machine_of_another_kind_joins(project: MixedProject) -> None:
    project.write_platform(HERE)
    project.write(
        "tasks:\n"
        "  wait: {command: 'touch ready; while ! [ -e go ]; do sleep 0.2; done; echo w > w', outputs: [w]}\n"
        "  after: {command: 'cat w > a; hostname >> a', inputs: [w], outputs: [a], rank: \"1 if arch == 'new' else 0\"}\n"
    )
    engine = project.begin()
    wait_until(engine, lambda: project.workdirs("ready"), "the task does not start")
    project.run("machines", "add", "host2", "arch=new", f"backend={project.describe('host2')}")
    assert "host2" in project.run("machines", "ls")
    project.release()
    project.finish(engine)
    assert (project.folder / "a").read_text() == "w\nhost2\n"


def test_nothing_runs_anywhere_after_cancel(project: MixedProject) -> None:
    project.write(LONG)
    engine = project.begin()
    wait_until(engine, project.runs_everywhere, "not all tasks run")
    project.run("cancel")
    project.finish(engine, code=1)

    def find_left() -> list[str]:
        found = []
        for each in Path("/proc").glob("[0-9]*"):
            try:
                where = str((each / "cwd").readlink())
            except OSError:
                continue
            if str(project.folder / ".weft" / "sandbox") in where or "/.cache/weft/sandbox/" in where:
                found.append(where)
        return found

    end_s = time.monotonic() + PATIENCE_S
    while left := find_left():
        assert time.monotonic() < end_s, left
        time.sleep(0.2)


def test_problems_of_all_kinds_are_reported_together(project: MixedProject) -> None:
    project.write(CIRCLE)
    project.write_platform(
        "  here: {backend: {kind: local, corse: [0]}}\n"
        "  cluster: {backend: {kind: slurm, partition: mian}}\n"
        "  away: {backend: {kind: ssh}}\n"
    )
    for words in (("check", "flow.yaml", "--on", "grid.yaml"), ("run", "flow.yaml", "--on", "grid.yaml")):
        out = project.run(*words, code=2)
        for part in ("'here': backend: unknown key 'corse'", "no partition 'mian'", "away"):
            assert part in out
