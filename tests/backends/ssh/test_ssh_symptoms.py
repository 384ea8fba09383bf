"""What users see when a host cannot be used: the message, the exit code, and that ``weft resume`` goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from patience import PATIENCE_S
from ssh_hosts import SshHost, SshHosts, make_key
from ssh_projects import run, start, weft

WAIT = {"timeouts": {"machines": 2}}


@pytest.fixture
def host(ssh_hosts: SshHosts) -> SshHost:
    return ssh_hosts[3]


def write_machine(grid: Path, host: SshHost, **backend: object) -> None:
    machine = {"nodes": 2, "backend": {"kind": "ssh", **host.backend, "silence": 5, **backend}}
    (grid / "grid.yaml").write_text(json.dumps({"machines": {host.name: machine}}))


def run_and_resume(
    grid: Path, words: str, mend: Callable[[], object], command: str = "hostname > out"
) -> None:
    """Run a task, which must fail with a message; mend the cause and resume the run."""
    flow = {
        "weft": 1,
        "name": "flow",
        "settings": WAIT,
        "tasks": {"a": {"command": command, "inputs": ["data.txt"], "outputs": ["out"], "retries": 0}},
    }
    engine = run(grid, json.dumps(flow))
    out, _ = engine.communicate(timeout=PATIENCE_S)
    assert engine.returncode in (1, 75), out
    assert words in out, out
    mend()
    resumed = start(grid, "resume")
    out, _ = resumed.communicate(timeout=PATIENCE_S)
    if "run it again" in out or resumed.returncode:
        weft(grid, "run", "flow.yaml", "--on", "grid.yaml")
    assert (grid / "out").read_text() == "host4\n", out


def test_key_refused(grid: Path, host: SshHost, ssh_hosts: SshHosts) -> None:
    wrong = grid / "wrong"
    make_key(wrong)

    def mend() -> None:
        wrong.write_text(ssh_hosts.identity.read_text())
        wrong.chmod(0o600)

    write_machine(grid, host, identity=str(wrong))
    run_and_resume(grid, "key refused", mend)


def test_host_key_changed(grid: Path, host: SshHost, ssh_hosts: SshHosts) -> None:
    before = ssh_hosts.known_hosts.read_text()
    ssh_hosts.known_hosts.write_text(before.replace(host.host_key, ssh_hosts[0].host_key))
    try:
        write_machine(grid, host)
        run_and_resume(
            grid, "is not the one in known_hosts", lambda: ssh_hosts.known_hosts.write_text(before)
        )
    finally:
        ssh_hosts.known_hosts.write_text(before)


def test_no_python_there(grid: Path, host: SshHost) -> None:
    write_machine(grid, host, python="/tmp/python")
    host.run("rm", "-f", "/tmp/python")
    run_and_resume(grid, "/tmp/python", lambda: host.run("ln", "-s", "/usr/bin/python3", "/tmp/python"))
    host.run("rm", "/tmp/python")


def test_disk_full_there(grid: Path, host: SshHost, ssh_hosts: SshHosts) -> None:
    write_machine(grid, host)
    fill = "head -c 500M /dev/zero > /tmp/filling || :"
    host.run("sh", "-c", fill)
    run_and_resume(grid, "space", lambda: host.run("rm", "/tmp/filling"))


def test_host_that_never_answers(grid: Path, host: SshHost) -> None:
    write_machine(grid, host)
    host.drop_packets()
    run_and_resume(grid, "no answer", host.pass_packets)
