"""Whole runs on real ssh hosts, through the command line."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from patience import PATIENCE_S
from ssh_hosts import SshHosts

PIPELINE = """\
weft: 1
name: pipeline
tasks:
  a: {command: "wc -w < data.txt > count; hostname", inputs: [data.txt], outputs: [count], requirements: 'arch == "x1"'}
  b: {command: "cat count > b.txt; hostname >> b.txt", inputs: [count], outputs: [b.txt], requirements: 'arch == "x2"'}
  c: {command: "cat b.txt count > c.txt", inputs: [b.txt, count], outputs: [c.txt]}
"""
LONG = """\
weft: 1
name: long
tasks:
  x: {command: "echo begun >> log; while ! [ -e /tmp/go ]; do sleep 0.1; done; cp log x.out", outputs: [x.out]}
  y: {command: "cat x.out x.out > y.out", inputs: [x.out], outputs: [y.out]}
"""
RESTARTING = """\
weft: 1
name: restarting
tasks:
  x:
    command: "cat restart > x.out || { echo half > restart; echo 0.5 > $WEFT_PROGRESS_FILE; sleep 1000; }"
    outputs: [x.out]
    checkpoint: {files: [restart]}
    seconds: 10
"""


@pytest.fixture
def project(ssh_hosts: SshHosts, tmp_path: Path) -> Path:
    lines = [
        f"  {host.name}: {{nodes: 2, arch: x{host.number}, backend: "
        f"{{kind: ssh, host: {host.name}, config: {ssh_hosts.config}}}}}"
        for host in ssh_hosts
    ]
    (tmp_path / "grid.yaml").write_text("machines:\n" + "\n".join(lines) + "\n")
    (tmp_path / "data.txt").write_text("some words here\n")
    return tmp_path


def start(project: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "weft", *words],
        cwd=project,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def weft(project: Path, *words: str) -> str:
    done = start(project, *words)
    out, _ = done.communicate(timeout=PATIENCE_S)
    assert done.returncode == 0, out
    return out


def run(project: Path, text: str) -> subprocess.Popen[str]:
    (project / "flow.yaml").write_text(text.replace("{ echo", "{{ echo").replace("1000; }", "1000; }}"))
    return start(project, "run", "flow.yaml", "--on", "grid.yaml")


def find_processes(hosts: SshHosts, words: str) -> list[str]:
    return [host.name for host in hosts if words in host.run("ps", "-eo", "args")]


def wait_for(hosts: SshHosts, words: str) -> str:
    end_s = time.monotonic() + PATIENCE_S
    while not (found := find_processes(hosts, words)):
        assert time.monotonic() < end_s, f"no process {words}"
        time.sleep(0.1)
    return found[0]


def test_pipeline_over_two_hosts_is_published_and_reused(project: Path) -> None:
    first = run(project, PIPELINE)
    out, _ = first.communicate(timeout=PATIENCE_S)
    assert first.returncode == 0, out
    assert (project / "c.txt").read_text() == "3\nhost2\n3\n"
    assert "host1" in weft(project, "logs", "a")
    assert "reused" in weft(project, "run", "flow.yaml", "--on", "grid.yaml")


def test_killed_engine_is_resumed(project: Path, ssh_hosts: SshHosts) -> None:
    for host in ssh_hosts:
        host.run("rm", "-f", "/tmp/go")
    engine = run(project, LONG)
    wait_for(ssh_hosts, "/tmp/go")
    engine.send_signal(signal.SIGKILL)
    engine.communicate()
    for host in ssh_hosts:
        host.run("touch", "/tmp/go")
    weft(project, "resume")
    assert (project / "y.out").read_text() == "begun\nbegun\n"


def test_nothing_runs_on_the_hosts_after_cancel(project: Path, ssh_hosts: SshHosts) -> None:
    engine = run(project, "weft: 1\nname: end\ntasks: {z: {command: sleep 777}}\n")
    wait_for(ssh_hosts, "sleep 777")
    weft(project, "cancel")
    engine.communicate(timeout=PATIENCE_S)
    assert find_processes(ssh_hosts, "sleep 777") == []
    end_s = time.monotonic() + PATIENCE_S
    while find_processes(ssh_hosts, str(project)) or find_processes(ssh_hosts, " bridge "):
        assert time.monotonic() < end_s, "a bridge is left"
        time.sleep(0.1)


def test_task_goes_on_from_its_restart_files_after_its_host_was_killed(
    project: Path, ssh_hosts: SshHosts
) -> None:
    engine = run(project, RESTARTING)
    name = wait_for(ssh_hosts, "sleep 1000")
    end_s = time.monotonic() + PATIENCE_S
    while not list(project.glob(".weft/checkpoints/*/*/current")):
        assert time.monotonic() < end_s, "the restart files are not kept"
        time.sleep(0.1)
    host = next(each for each in ssh_hosts if each.name == name)
    host.kill()
    try:
        out, _ = engine.communicate(timeout=PATIENCE_S)
        assert engine.returncode == 0, out
        assert (project / "x.out").read_text() == "half\n"
    finally:
        host.restart()
