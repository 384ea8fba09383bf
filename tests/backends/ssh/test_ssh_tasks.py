"""What a task may state works on ssh hosts as on this host: functions, modules, shares, sensors; or is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patience import PATIENCE_S
from ssh_hosts import SshHosts
from ssh_projects import run, wait_for, wait_until, weft


def finish(grid: Path, tasks: dict[str, object], *words: str) -> str:
    engine = run(grid, tasks, *words)
    out, _ = engine.communicate(timeout=PATIENCE_S)
    assert engine.returncode == 0, out
    return out


def test_function_of_a_file_beside_the_workflow_is_called(grid: Path) -> None:
    (grid / "steps.py").write_text(
        "import socket\n"
        "from weft import task\n"
        "def count(inputs, factor):\n"
        "    task.progress(0.5)\n"
        "    words = len(open(inputs[0]).read().split())\n"
        "    return {'count': factor * words, 'host': socket.gethostname()}\n"
    )
    tasks = {
        "count": {"call": "steps:count", "inputs": ["data.txt"], "requirements": 'arch == "x2"'},
        "show": {"command": "echo {count.result.count} {count.result.host} > shown", "after": ["count"],
                 "outputs": ["shown"]},
    }  # fmt: skip
    (grid / "flow.yaml").write_text(
        json.dumps({"weft": 1, "name": "flow", "params": {"factor": 2}, "tasks": tasks})
    )
    weft(grid, "run", "flow.yaml", "--on", "grid.yaml")
    assert (grid / "shown").read_text() == "6 host2\n"


@pytest.mark.parametrize("command", ["check", "run"])
def test_isolation_is_refused_with_the_reason(grid: Path, command: str) -> None:
    task = {"command": "true", "isolate": "unshare"}
    (grid / "flow.yaml").write_text(json.dumps({"weft": 1, "name": "flow", "tasks": {"a": task}}))
    out = weft(grid, command, "flow.yaml", "--on", "grid.yaml", code=3)
    assert "4 of 4 machines fail 'has the disk of this computer, as `isolate` needs'" in out
    assert "use local machines" in out


def test_function_of_a_python_program_is_refused_with_the_reason(grid: Path) -> None:
    task = {"call": "weft.api.functions.child:call"}
    (grid / "flow.yaml").write_text(json.dumps({"weft": 1, "name": "flow", "tasks": {"a": task}}))
    assert "as `call` needs" in weft(grid, "check", "flow.yaml", "--on", "grid.yaml", code=3)


def test_prolog_and_epilog_run_on_the_host(grid: Path) -> None:
    task = {
        "prolog": "hostname > before",
        "command": "cat before > out",
        "epilog": "echo after >> out; echo said",
        "outputs": ["out"],
        "requirements": 'arch == "x3"',
    }
    finish(grid, {"a": task})
    assert (grid / "out").read_text() == "host3\nafter\n"
    assert [path.read_text() for path in grid.glob(".weft/attempts/1/*/epilog.out")] == ["said\n"]


def test_failed_prolog_fails_the_task_with_its_output(grid: Path) -> None:
    task = {"prolog": "echo no licence >&2; exit 7", "command": "true", "retries": 0}
    engine = run(grid, {"a": task})
    out, _ = engine.communicate(timeout=PATIENCE_S)
    assert engine.returncode == 1, out
    assert "prolog" in out
    assert "no licence" in out


def test_verdict_of_an_evaluator_on_the_host_moves_the_task(grid: Path) -> None:
    task = {
        "command": "if [ $WEFT_ATTEMPT -gt 1 ]; then hostname > out; else sleep 1000; fi",
        "outputs": ["out"],
        "seconds": 5,
        "evaluator": "sh judge.sh",
    }
    (grid / "judge.sh").write_text(
        "if [ $WEFT_ATTEMPT = 1 ]; then kill -0 $WEFT_PID; echo it crawls; exit 1; fi\n"
    )
    finish(grid, {"a": task}, "--set", "poll_every=1")
    assert "it crawls" in weft(grid, "explain", "a")
    assert (grid / "out").read_text().startswith("host")


def test_built_in_evaluator_measures_on_the_host(grid: Path, ssh_hosts: SshHosts) -> None:
    for host in ssh_hosts:
        host.run("rm", "-f", "/tmp/go")
    work = "while ! [ -e /tmp/go ]; do sleep 0.1; done"
    engine = run(grid, {"a": {"command": work, "evaluator": "cpu:0%", "seconds": 5}}, "--set", "poll_every=1")
    outputs = wait_until(
        lambda: [path for path in grid.glob(".weft/attempts/1/*/evaluator.out") if path.stat().st_size],
        "output of the evaluator",
    )
    assert "of a processor" in outputs[0].read_text()
    for host in ssh_hosts:
        host.run("touch", "/tmp/go")
    out, _ = engine.communicate(timeout=PATIENCE_S)
    assert engine.returncode == 0, out


def test_output_of_a_running_task_is_shown(grid: Path, ssh_hosts: SshHosts) -> None:
    for host in ssh_hosts:
        host.run("rm", "-f", "/tmp/go")
    work = "echo begun; while ! [ -e /tmp/go ]; do sleep 0.1; done; echo ended; echo warning >&2"
    engine = run(grid, {"a": {"command": work}})
    wait_for(ssh_hosts, "echo begun")
    wait_until(lambda: "begun" in weft(grid, "logs", "a"), "output of the running task")
    for host in ssh_hosts:
        host.run("touch", "/tmp/go")
    out, _ = engine.communicate(timeout=PATIENCE_S)
    assert engine.returncode == 0, out
    [records] = grid.glob(".weft/attempts/1/*")
    assert (records / "out").read_text() == "begun\nended\n"
    assert (records / "err").read_text() == "warning\n"


def test_shares_of_a_host_and_its_sensors_are_used(grid: Path, ssh_hosts: SshHosts) -> None:
    machine = {"nodes": 4, "memory": "2GB", "backend": {"kind": "ssh", **ssh_hosts[0].backend}}
    platform = {"machines": {"m": machine}, "virtual": [{"machine": "m", "service": "s", "nodes": 2}]}
    (grid / "grid.yaml").write_text(json.dumps(platform))
    common = {"requirements": "free_memory > 1*MB and free_disk > 1*MB and load >= 0", "rank": "-load"}
    tasks = {
        f"t{number}": {"command": f"hostname > t{number}", "outputs": [f"t{number}"], **common}
        for number in range(4)
    }
    tasks["t0"]["service"] = tasks["t1"]["service"] = "s"
    tasks["all"] = {"command": "cat t0 t1 t2 t3 > all", "inputs": list(tasks), "outputs": ["all"]}
    finish(grid, tasks)
    assert (grid / "all").read_text() == "host1\n" * 4
    assert "m/s" in weft(grid, "explain", "t0")


def test_sweep_with_equal_files_moves_each_of_them(grid: Path) -> None:
    """Equal contents arrive under the same name: at most one thread may move such a content at a time."""
    (grid / "large").write_bytes(b"large" * 100_000)
    task = {
        "sweep": {"n": list(range(12))},
        "command": "cat data.txt > small.{n}; cat large > large.{n}",
        "inputs": ["data.txt", "large"],
        "outputs": ["small.{n}", "large.{n}"],
        "requirements": 'arch == "x1"',
    }
    finish(grid, {"t": task})
    assert {(grid / f"small.{n}").read_text() for n in range(12)} == {"some words here\n"}
    assert {(grid / f"large.{n}").stat().st_size for n in range(12)} == {500_000}
    assert "retried" not in weft(grid, "status")


def test_host_behind_another_host_is_used(grid: Path, ssh_hosts: SshHosts) -> None:
    """The second host is reached through the first one, as through a login node (ProxyJump)."""
    config = grid / "config"
    config.write_text(
        ssh_hosts[0].client_config() + ssh_hosts[1].client_config().rstrip("\n") + "\n  ProxyJump host1\n"
    )
    machine = {"nodes": 2, "backend": {"kind": "ssh", "host": "host2", "config": str(config)}}
    (grid / "grid.yaml").write_text(json.dumps({"machines": {"m": machine}}))
    work = "echo $SSH_CONNECTION > from; cat data.txt > copy"
    finish(grid, {"a": {"command": work, "inputs": ["data.txt"], "outputs": ["from", "copy"]}})
    assert (grid / "from").read_text().split()[0] == ssh_hosts[0].address
    assert (grid / "copy").read_text() == "some words here\n"
