"""Workflows on a real Slurm that is reached through a real sshd on a login node.

The login node has a private disk. Its only folder in common with the compute nodes is /srv, which is another
folder on the computer of the engine.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from backends.slurm.test_slurm_runs import SlurmProject
from backends.test_bundle import find_old_python
from patience import PATIENCE_S
from slurm_cluster import SlurmCluster
from ssh_hosts import SshHosts, need_ssh_hosts
from ssh_projects import wait_until
from weft.backends.bundle import make_bundle

SANDBOX = "/srv/weft"
RUN = ("run", "flow.yaml", "--on", "cluster.yaml")


@pytest.fixture(scope="module")
def login_node(shared_slurm_cluster: SlurmCluster, tmp_path_factory: pytest.TempPathFactory):
    need_ssh_hosts()
    hosts = SshHosts(tmp_path_factory.mktemp("login"), 1, 1 << 28)
    hosts.user = "root"
    hosts.shared = {
        shared_slurm_cluster.folder: str(shared_slurm_cluster.folder),
        shared_slurm_cluster.disk: "/srv",
    }
    address = hosts.network.address(-9)  # of this computer
    hosts.environment = {"SLURM_CONF": str(shared_slurm_cluster.write_remote_configuration(address))}
    try:
        hosts.start()
        yield hosts[0]
    finally:
        hosts.stop()


class LoginProject(SlurmProject):
    """A project on a computer without Slurm; the cluster is behind a login node."""

    def __init__(self, folder: Path, cluster: SlurmCluster, host) -> None:
        self.host = host
        super().__init__(folder, cluster)
        self.environment = {
            key: value for key, value in self.environment.items() if not key.startswith("SLURM")
        }

    def write_platform(self, partition, cores=1, more=None, **machine) -> None:
        backend = {
            "kind": "slurm", "partition": partition, "commands_per_s": 20, "poll_every": 0.5,
            "via": self.host.name, "config": self.host.backend["config"], "sandbox": SANDBOX, **(more or {}),
        }  # fmt: skip
        machine = {"nodes": 4, "cores": cores, "memory": "8GB", **machine, "backend": backend}
        (self.folder / "cluster.yaml").write_text(json.dumps({"machines": {"cluster": machine}}))

    def queue(self):
        """Return the states and names of all jobs that have not ended."""
        found = self.cluster.run("squeue", "-h", "-o", "%k %T %j").splitlines()
        return [line.partition(" ")[2] for line in found if line.startswith("weft-")]

    def await_shared(self, name):
        """Wait for a file on the file system of the cluster."""
        return wait_until(lambda: next(iter(self.cluster.disk.glob(name)), None), name)


@pytest.fixture
def project(slurm_cluster, login_node, tmp_path):
    found = LoginProject(tmp_path, slurm_cluster, login_node)
    yield found
    found.close()


def test_files_travel_to_the_cluster_and_back(project) -> None:
    (project.folder / "data").write_text("abc\n")
    project.write(
        """tasks:
  make: {command: "cat data > made; hostname >> made", inputs: [data], outputs: [made]}
  wide:
    nodes: 3
    command: "cat made > seen; echo $WEFT_NODES $(srun hostname | sort -u | wc -l) >> seen"
    inputs: [made]
    outputs: [seen]
"""
    )
    code, text = project.run()
    assert code == 0, text
    assert re.fullmatch(r"abc\nnode[1-4]\n3 3\n", (project.folder / "seen").read_text())
    code, text = project.run("explain", "make")
    assert re.search(r"it is job [0-9]+ of the batch system", text), text
    assert not list(Path("/srv").glob("weft*"))
    assert project.queue() == []
    code, text = project.run("clean")
    assert code == 0, text
    assert not [each for each in (project.cluster.disk / "weft").glob("*/*/*") if each.is_dir()]


LONG = """tasks:
  x: {command: "echo begun >> /srv/ran; touch /srv/begun; while ! [ -e /srv/go ]; do sleep 0.1; done; cp /srv/ran x", outputs: [x]}
  y: {command: "cat x x > y", inputs: [x], outputs: [y]}
"""
SWEEP = """tasks:
  t: {sweep: {i: 1..12}, command: "echo {i} > out{i}", outputs: ["out{i}"], work: 1s}
"""


@pytest.fixture
def marks(slurm_cluster):
    """Remove the marks of programs before and after a test."""

    def remove():
        for name in ("go", "begun", "ran", "on"):
            (slurm_cluster.disk / name).unlink(missing_ok=True)

    remove()
    yield slurm_cluster.disk
    remove()


def finish_long(project, engine, marks):
    (marks / "go").touch()
    code, text = project.finish(engine)
    assert code == 0, text
    assert (project.folder / "y").read_text() == "begun\nbegun\n"
    assert project.queue() == []


def test_killed_engine_resumes_its_jobs(project, marks) -> None:
    project.write(LONG)
    engine = project.begin()
    project.await_shared("begun")
    engine.kill()
    engine.wait()
    finish_long(project, project.start("resume"), marks)


def test_job_continues_when_the_connection_is_cut(project, marks, login_node) -> None:
    project.write(LONG)
    engine = project.begin()
    project.await_shared("begun")
    login_node.cut_connections()
    finish_long(project, engine, marks)


def test_job_continues_when_the_login_node_dies_and_returns(project, marks, login_node) -> None:
    project.write(LONG)
    engine = project.begin()
    project.await_shared("begun")
    login_node.kill(silently=True)
    (marks / "go").touch()
    time.sleep(3.0)
    assert engine.poll() is None
    login_node.restart()
    finish_long(project, engine, marks)


@pytest.mark.parametrize("work", ["1s", "100s"], ids=["pilot", "job"])
def test_outage_does_not_count_as_run_time(project, marks, login_node, work) -> None:
    """Estimates of later runs rest on this time. The outage is shorter than any time limit of a connection."""
    project.write(f"tasks:\n  t: {{command: 'touch /srv/on; sleep 3.25', contract: none, work: {work}}}\n")
    engine = project.begin()
    project.await_shared("on")
    login_node.drop_packets()
    try:
        time.sleep(12.0)
    finally:
        login_node.pass_packets()
    code, text = project.finish(engine)
    assert code == 0, text
    code, text = project.run("report", "1", "--json")
    [attempt] = json.loads(text)["attempts"]
    assert 3.2 <= attempt["ended_s"] - attempt["started_s"] < 8.0


def test_new_process_on_the_login_node_replaces_one_that_hangs(project, marks, login_node) -> None:
    project.write(LONG)
    engine = project.begin()
    project.await_shared("begun")
    (server,) = find_servers(login_node)
    login_node.run("kill", "-STOP", server)  # like one that waits for a connection that is gone
    login_node.cut_connections()
    wait_until(lambda: set(find_servers(login_node)) - {server}, "other process")
    finish_long(project, engine, marks)
    wait_until(lambda: not find_servers(login_node), "end of the processes")


def find_servers(login_node):
    """Return the ids, on the login node, of the processes that serve an engine."""
    lines = [line.split(None, 1) for line in login_node.run("ps", "-eo", "pid,args").splitlines()]
    return [pid for pid, words in lines if " slurm /srv" in words and "python" in words]


def test_cancelled_run_leaves_nothing_in_the_queue(project, marks) -> None:
    project.write(LONG)
    engine = project.begin()
    project.await_shared("begun")
    engine.kill()
    engine.wait()
    code, text = project.run("cancel")
    assert code == 0, text
    project.await_queue(lambda jobs: not jobs)


def test_interrupted_run_leaves_nothing_in_the_queue(project, marks) -> None:
    project.write(LONG)
    engine = project.begin()
    project.await_shared("begun")
    engine.send_signal(signal.SIGINT)
    code, text = project.finish(engine)
    assert code == 75, text
    project.await_queue(lambda jobs: not jobs)


def test_short_tasks_run_in_pilots(project) -> None:
    project.write(SWEEP)
    code, text = project.run()
    assert code == 0, text
    assert {(project.folder / f"out{i}").read_text() for i in range(1, 13)} == {
        f"{i}\n" for i in range(1, 13)
    }
    project.await_queue(lambda jobs: not jobs)


def test_exit_code_is_reported(project) -> None:
    project.write("tasks:\n  a: {command: echo wrong >&2; exit 3}\n")
    code, text = project.run()
    assert (code, "exit code 3" in text) == (1, True), text
    code, text = project.run("logs", "a", "--stderr")
    assert "wrong" in text


def test_wrong_partition_is_reported_before_the_run(project) -> None:
    project.write("tasks:\n  a: {command: exit 0}\n")
    project.write_platform("mian")
    code, text = project.run(*RUN)
    assert code == 2, text
    assert "there is no partition 'mian'" in " ".join(text.split()), text
    assert "did you mean 'main'?" in text
    assert not (project.folder / ".weft/executions").exists()
    code, text = project.run("sites", "check", "cluster.yaml")
    assert (code, "there is no partition 'mian'" in " ".join(text.split())) == (1, True), text
    assert not (project.folder / "cluster.measured.yaml").exists()


def test_missing_slurm_on_a_login_node_is_reported_before_the_run(project, tmp_path_factory) -> None:
    hosts = SshHosts(tmp_path_factory.mktemp("plain"), 1, 1 << 26)
    hosts.environment = {"PATH": "/nowhere"}
    try:
        hosts.start()
        project.write("tasks:\n  a: {command: exit 0}\n")
        more = {"via": hosts[0].name, "config": hosts[0].backend["config"]}
        project.write_platform("main", more=more)
        code, text = project.run(*RUN)
        assert (code, f"Slurm is not installed on {hosts[0].name}" in text) == (2, True), text
    finally:
        hosts.stop()


def test_unknown_login_node_is_reported(project) -> None:
    project.write("tasks:\n  a: {command: exit 0}\n")
    project.write_platform("main", more={"via": "nowhere.invalid", "silence": "2s"})
    code, text = project.run(*RUN, "--set", "timeouts.machines=2")
    assert code == 1, text
    assert "nowhere.invalid" in text, text


@pytest.mark.parametrize("more", [{"via": 5}, {"silence": "x"}, {"port": 0}])
def test_wrong_settings_of_the_login_node_are_refused(project, more) -> None:
    project.write("tasks:\n  a: {command: exit 0}\n")
    project.write_platform("main", more=more)
    code, text = project.run()
    assert (code, next(iter(more)) in text) == (2, True), text


def test_checkpoint_migrates_from_the_cluster_to_this_computer(project) -> None:
    project.write(
        """tasks:
  x:
    command: "test -e restart && cat restart > x || { echo half > restart; echo 0.5 > $WEFT_PROGRESS_FILE; sleep 1000; }"
    outputs: [x]
    checkpoint: {files: [restart]}
    seconds: 100
"""
    )
    grid = json.loads((project.folder / "cluster.yaml").read_text())
    grid["machines"]["cluster"]["speed"] = 2
    grid["machines"]["here"] = {"nodes": 1, "backend": {"kind": "local"}}
    (project.folder / "cluster.yaml").write_text(json.dumps(grid))
    engine = project.begin()
    wait_until(lambda: list(project.folder.glob(".weft/checkpoints/*/*/current")), "checkpoint")
    code, text = project.run_beside("machines", "remove", "cluster")
    assert code == 0, text
    code, text = project.finish(engine)
    assert code == 0, text
    assert (project.folder / "x").read_text() == "half\n"
    project.await_queue(lambda jobs: not jobs)


def test_site_is_detected_and_checked(project) -> None:
    words = (
        "--via",
        project.host.name,
        "--config",
        str(project.host.backend["config"]),
        "--sandbox",
        SANDBOX,
    )
    code, text = project.run("sites", "detect", "slurm", *words, "--out", "found.yaml")
    assert code == 0, text
    code, text = project.run(
        "sites", "check", "found.yaml", "--machine", "main-fast-avx", "--size", "1MB", "--json"
    )
    assert code == 0, text
    (found,) = json.loads(text)["machines"]
    assert found["works"]
    assert found["startup_s"] > 0
    code, text = project.run("sites", "detect", "slurm", "--user", "root")
    assert (code, "--via" in text) == (2, True)


@pytest.mark.parametrize("version", ["", "3.8"])
def test_missing_slurm_on_the_login_node_is_reported(tmp_path, version) -> None:
    python = sys.executable if not version else find_old_python()
    if python is None:
        pytest.skip("no Python from 3.8 to 3.10 is installed")
    bundle = tmp_path / "bundle.pyz"
    bundle.write_bytes(make_bundle())
    machine = {"name": "m", "nodes": 1, "cores": 1, "node_is_core": False, "backend": {}}
    greeting = {"token": "t", "scope": "home-1", "known": [], "machine": machine}
    done = subprocess.run(
        [python, "-I", "-S", str(bundle), "slurm", str(tmp_path / "jobs")],
        input=json.dumps(greeting) + "\n", text=True, capture_output=True, env={"PATH": str(tmp_path)},
        timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    answer = json.loads(done.stdout)
    assert (answer["is"], answer["lasting"]) == ("failed", True), done.stderr
    assert "Slurm is not installed on" in answer["text"]


def test_sandbox_that_cannot_be_created(project) -> None:
    project.write("settings: {timeouts: {machines: 2}}\ntasks:\n  a: {command: echo words}\n")
    project.write_platform("main", more={"sandbox": "/proc/x"})
    code, text = project.run()
    assert code == 1, text
    text = " ".join(text.split())
    assert "its sandbox /proc/x cannot be created there" in text
    assert "set `sandbox` to a directory in which you may write" in text
    assert "weft-programs" not in text
