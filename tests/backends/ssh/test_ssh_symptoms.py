"""What users see when a host cannot be used: the message, the exit code, and that ``weft resume`` goes on."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from patience import PATIENCE_S
from ssh_hosts import SshHost, SshHosts, make_key
from ssh_projects import run, start, wait_until, weft


@pytest.fixture
def host(ssh_hosts: SshHosts) -> SshHost:
    return ssh_hosts[3]


def write_machine(grid: Path, at: SshHost, **backend: object) -> None:
    machine = {"nodes": 2, "backend": {"kind": "ssh", **at.backend, "silence": 5, **backend}}
    (grid / "grid.yaml").write_text(json.dumps({"machines": {at.name: machine}}))


TASKS = {"a": {"command": "hostname > out", "inputs": ["data.txt"], "outputs": ["out"]}}


def run_and_resume(grid: Path, words: str, mend: Callable[[], object]) -> None:
    """Run a task on a host that cannot be used; end the run, mend the cause, and resume the run."""
    engine = run(grid, TASKS)
    wait_until(lambda: words in start(grid, "explain", "a").communicate()[0], f"explanation with {words!r}")
    engine.send_signal(signal.SIGINT)
    out, _ = engine.communicate(timeout=PATIENCE_S)
    assert engine.returncode == 75, out
    assert words in " ".join(out.split()), out
    assert "weft resume" in out
    mend()
    weft(grid, "resume")
    assert (grid / "out").read_text() == "host4\n"


def test_run_ends_when_no_host_can_be_used_for_the_stated_time(grid: Path, host: SshHost) -> None:
    write_machine(grid, host, python="/tmp/python")
    engine = run(grid, TASKS, "--set", "timeouts.machines=2")
    out, _ = engine.communicate(timeout=PATIENCE_S)
    assert engine.returncode == 1, out
    assert "the run cannot continue" in out
    assert "no command '/tmp/python'" in out


def write_jump(grid: Path, host: SshHost, jump: str) -> None:
    """Write a configuration in which a host is reached through another one that does not exist."""
    (grid / "config").write_text(
        f"{host.client_config()}  ProxyJump {jump}\n" if jump else host.client_config()
    )


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"port": 9}, "connection refused"),
        ({"host": "gone.invalid"}, "gone.invalid: cannot resolve"),
        ({"user": "stranger"}, "key refused (Permission denied for user stranger"),
        ({"config": "config"}, "the host gone.invalid before it (ProxyJump): cannot resolve"),
    ],
)
def test_cause_is_shown_at_once(
    grid: Path, host: SshHost, monkeypatch, wrong: dict[str, object], words: str
) -> None:
    """The host counts as lost only after the test has ended."""
    silence = {"silence": 4 * PATIENCE_S}
    monkeypatch.chdir(grid)
    write_jump(grid, host, "gone.invalid")
    write_machine(grid, host, **silence, **wrong)
    out = weft(grid, "sites", "check", "grid.yaml", code=1)
    assert words in out
    engine = run(grid, TASKS)
    wait_until(lambda: words in start(grid, "explain", "a").communicate()[0], f"explanation with {words!r}")
    engine.send_signal(signal.SIGINT)
    out, _ = engine.communicate(timeout=PATIENCE_S)
    assert engine.returncode == 75, out
    assert words in " ".join(out.split())


def test_host_that_is_corrected_is_used_by_the_same_run(grid: Path, host: SshHost) -> None:
    write_jump(grid, host, "gone.invalid")
    write_machine(grid, host, silence=4 * PATIENCE_S, config=str(grid / "config"))
    run_and_resume(grid, "(ProxyJump): cannot resolve", lambda: write_jump(grid, host, ""))


def test_key_refused(grid: Path, host: SshHost, ssh_hosts: SshHosts) -> None:
    wrong = grid / "wrong"
    make_key(wrong)

    def mend() -> None:
        wrong.write_text(ssh_hosts.identity.read_text())
        wrong.with_suffix(".pub").unlink()

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


def test_disk_full_there(grid: Path, host: SshHost) -> None:
    host.run("rm", "-rf", "/home/carol/.cache")
    host.run("sh", "-c", "head -c 500M /dev/zero > /tmp/filling || :")
    write_machine(grid, host)
    run_and_resume(grid, "its disk is full", lambda: host.run("rm", "/tmp/filling"))


def test_disk_that_becomes_full_while_tasks_run_there(grid: Path, host: SshHost) -> None:
    write_machine(grid, host)
    host.run("rm", "-f", "/tmp/go")
    tasks = {"first": {"command": "echo begun; until [ -e /tmp/go ]; do sleep 0.1; done"}}
    engine = run(grid, {**tasks, "a": {**TASKS["a"], "after": ["first"]}})
    wait_until(lambda: "echo begun" in host.run("ps", "-eo", "args"), "first task")
    host.run("sh", "-c", "head -c 500M /dev/zero > /tmp/filling || :; touch /tmp/go")
    try:
        words = "its disk is full: nothing can be written below"
        wait_until(lambda: words in weft(grid, "machines", "ls"), "lost machine")
    finally:
        host.run("rm", "/tmp/filling")
    out, _ = engine.communicate(timeout=PATIENCE_S)
    assert engine.returncode == 0, out
    assert "machine host4 is back" in out
    assert (grid / "out").read_text() == "host4\n"


def test_input_is_larger_than_the_disk_there(grid: Path, host: SshHost, ssh_hosts: SshHosts) -> None:
    write_machine(grid, host)
    host.run("sh", "-c", f"head -c {ssh_hosts.disk_bytes - (24 << 20)} /dev/zero > /tmp/filling")
    with (grid / "data.txt").open("wb") as data:
        data.truncate(32 << 20)
    engine = run(grid, {"a": {**TASKS["a"], "retries": 0}})
    out, _ = engine.communicate(timeout=PATIENCE_S)
    assert engine.returncode == 1, out
    assert "'data.txt' cannot be sent: it has 34 MB, but the disk of" in " ".join(out.split())
    host.run("rm", "/tmp/filling")
    weft(grid, "run", "flow.yaml", "--on", "grid.yaml")
    assert (grid / "out").read_text() == "host4\n"


def test_host_that_never_answers(grid: Path, host: SshHost) -> None:
    write_machine(grid, host)
    host.drop_packets()
    try:
        run_and_resume(grid, "no answer", host.pass_packets)
    finally:
        host.pass_packets()


def test_sandbox_that_cannot_be_created(grid: Path, host: SshHost) -> None:
    write_machine(grid, host, sandbox="/proc/x")
    engine = run(grid, TASKS, "--set", "timeouts.machines=2")
    out, _ = engine.communicate(timeout=PATIENCE_S)
    assert engine.returncode == 1, out
    text = " ".join(out.split())
    assert "its sandbox /proc/x cannot be created there" in text
    assert "set `sandbox` to a directory in which you may write" in text
