"""Whole runs on real ssh hosts, through the command line."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

from patience import PATIENCE_S
from ssh_hosts import SshHosts
from ssh_projects import find_processes, run, wait_for, weft

PIPELINE = """\
weft: 1
name: pipeline
tasks:
  a: {command: "wc -w < data.txt > count; hostname", inputs: [data.txt], outputs: [count], requirements: 'arch == "x1"'}
  b: {command: "cat count > b.txt; hostname >> b.txt", inputs: [count], outputs: [b.txt], requirements: 'arch == "x2"'}
  c: {command: "cat b.txt count > c.txt", inputs: [b.txt, count], outputs: [c.txt]}
"""
TWO_SANDBOXES = """\
weft: 1
name: sandboxes
tasks:
  a1: {command: "head -c 500000 /dev/zero > a1", outputs: [a1], requirements: 'arch == "x1"'}
  a2: {command: "head -c 500000 /dev/zero > a2", outputs: [a2], requirements: 'arch == "x2"'}
  b1: {command: "cp a2 b1", inputs: [a2], outputs: [b1], requirements: 'arch == "x1"'}
  b2: {command: "cp a1 b2", inputs: [a1], outputs: [b2], requirements: 'arch == "x2"'}
"""
LONG = """\
weft: 1
name: long
tasks:
  x: {command: "echo begun >> log; while ! [ -e /tmp/go ]; do sleep 0.1; done; cp log x.out", outputs: [x.out]}
  y: {command: "cat x.out x.out > y.out", inputs: [x.out], outputs: [y.out]}
"""
COUNTING = """\
weft: 1
name: counting
tasks:
  begin: {command: "echo 0 > n", outputs: [n], requirements: 'arch == "x1"'}
  count:
    command: 'echo $(($(cat n) + 1)) > m; mv -f m n; echo "{{\\"n\\": $(cat n)}}" > $WEFT_RESULT_FILE'
    inputs: [n]
    outputs: [n]
    requirements: 'arch == "x2"'
  show: {command: "cp n shown", after: again, inputs: [n], outputs: [shown]}
loops:
  again: {from: count, to: count, until: count.result.n >= 3, max_iterations: 5}
"""
TRAVELLING = """\
weft: 1
name: travelling
tasks:
  begin: {command: "echo begin > n", outputs: [n]}
  count:
    command: |
      if [ $(wc -l < n) = 2 ] && ! [ -e /tmp/go ]; then sleep 1000; fi
      {{ cat n; hostname; }} > m; mv -f m n; echo "{{\\"n\\": $(wc -l < n)}}" > $WEFT_RESULT_FILE
    inputs: [n]
    outputs: [n]
  show: {command: "cp n shown", after: again, inputs: [n], outputs: [shown]}
loops:
  again: {from: count, to: count, until: count.result.n >= 4, max_iterations: 5}
"""
RESTARTING = """\
weft: 1
name: restarting
tasks:
  x:
    command: "cat restart > x.out || {{ echo half > restart; echo 0.5 > $WEFT_PROGRESS_FILE; sleep 1000; }}"
    outputs: [x.out]
    checkpoint: {files: [restart]}
    seconds: 10
"""


def test_pipeline_over_two_hosts_is_published_and_reused(grid: Path) -> None:
    first = run(grid, PIPELINE)
    out, _ = first.communicate(timeout=PATIENCE_S)
    assert first.returncode == 0, out
    assert (grid / "c.txt").read_text() == "3\nhost2\n3\n"
    assert "host1" in weft(grid, "logs", "a")
    assert "reused" in weft(grid, "run", "flow.yaml", "--on", "grid.yaml")


def test_machines_on_one_host_have_sandboxes_of_their_own(tmp_path: Path, ssh_hosts: SshHosts) -> None:
    """Outputs are found in the sandbox of their machine, by tasks of both machines and as results."""
    backend = {"kind": "ssh", **ssh_hosts[0].backend}
    machines = {
        "m1": {"nodes": 2, "arch": "x1", "backend": backend},
        "m2": {"nodes": 2, "arch": "x2", "backend": {**backend, "sandbox": "/tmp/other"}},
    }
    (tmp_path / "grid.yaml").write_text(json.dumps({"machines": machines}))
    engine = run(tmp_path, TWO_SANDBOXES)
    out, _ = engine.communicate(timeout=PATIENCE_S)
    assert engine.returncode == 0, out
    assert {(tmp_path / name).stat().st_size for name in ("b1", "b2")} == {500_000}


def test_loop_on_a_host_reads_its_own_file_and_not_the_first_one_of_another_host(grid: Path) -> None:
    """Two tasks write the file on different disks; the later one is copied on the disk where it is."""
    engine = run(grid, COUNTING)
    out, _ = engine.communicate(timeout=PATIENCE_S)
    assert engine.returncode == 0, out
    assert (grid / "shown").read_text() == "3\n"


def test_killed_engine_is_resumed(grid: Path, ssh_hosts: SshHosts) -> None:
    for host in ssh_hosts:
        host.run("rm", "-f", "/tmp/go")
    engine = run(grid, LONG)
    wait_for(ssh_hosts, "/tmp/go")
    engine.send_signal(signal.SIGKILL)
    engine.communicate()
    for host in ssh_hosts:
        host.run("touch", "/tmp/go")
    weft(grid, "resume")
    assert (grid / "y.out").read_text() == "begun\nbegun\n"


def test_nothing_runs_on_the_hosts_after_cancel(grid: Path, ssh_hosts: SshHosts) -> None:
    engine = run(grid, "weft: 1\nname: end\ntasks: {z: {command: sleep 777}}\n")
    wait_for(ssh_hosts, "sleep 777")
    weft(grid, "cancel")
    engine.communicate(timeout=PATIENCE_S)
    assert find_processes(ssh_hosts, "sleep 777") == []
    end_s = time.monotonic() + PATIENCE_S
    while find_processes(ssh_hosts, str(grid)) or find_processes(ssh_hosts, " bridge "):
        assert time.monotonic() < end_s, "a bridge is left"
        time.sleep(0.1)


def test_task_goes_on_from_its_restart_files_after_its_host_was_killed(
    grid: Path, ssh_hosts: SshHosts
) -> None:
    engine = run(grid, RESTARTING)
    name = wait_for(ssh_hosts, "sleep 1000")
    end_s = time.monotonic() + PATIENCE_S
    while not list(grid.glob(".weft/checkpoints/*/*/current")):
        assert time.monotonic() < end_s, "the restart files are not kept"
        time.sleep(0.1)
    host = next(each for each in ssh_hosts if each.name == name)
    host.kill()
    try:
        out, _ = engine.communicate(timeout=PATIENCE_S)
        assert engine.returncode == 0, out
        assert (grid / "x.out").read_text() == "half\n"
    finally:
        host.restart()


def test_loop_goes_on_after_the_host_with_its_last_iteration_was_killed(
    grid: Path, ssh_hosts: SshHosts
) -> None:
    for host in ssh_hosts:
        host.run("rm", "-f", "/tmp/go")
    engine = run(grid, TRAVELLING)
    killed = wait_for(ssh_hosts, "sleep 1000")
    for host in ssh_hosts:
        if host.name != killed:
            host.run("touch", "/tmp/go")
    host = next(each for each in ssh_hosts if each.name == killed)
    host.kill()
    try:
        out, _ = engine.communicate(timeout=PATIENCE_S)
        assert engine.returncode == 0, out
        begin, first, *others = (grid / "shown").read_text().split()
        assert (begin, first, len(others)) == ("begin", killed, 2)
        assert killed not in others
    finally:
        host.restart()
