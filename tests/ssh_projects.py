"""Projects whose machines are ssh hosts; weft is called through its command line."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cli import warm_process
from patience import PATIENCE_S
from ssh_hosts import SshHosts

__all__ = ["find_processes", "run", "start", "wait_for", "wait_until", "weft", "write_grid"]


def write_grid(project: Path, hosts: SshHosts, *, name: str = "grid.yaml", **backend: object) -> None:
    """Write a platform with a machine per host; ``backend`` has more keys of each machine's backend."""
    machines = {
        host.name: {
            "nodes": 2,
            "arch": f"x{host.number}",
            "backend": {"kind": "ssh", **host.backend, **backend},
        }
        for host in hosts
    }
    (project / name).write_text(json.dumps({"machines": machines}))


def start(project: Path, *words: str) -> subprocess.Popen[str]:
    """Start weft in a project."""
    return subprocess.Popen(
        [sys.executable, "-m", "weft", *words],
        cwd=project,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def weft(project: Path, *words: str, code: int = 0) -> str:
    """Return the output of a command that must end with this exit code."""
    done = warm_process.weft(*words, folder=project)
    assert done.code == code, done
    return done.out + done.err


def run(project: Path, workflow: str | dict[str, Any], *words: str) -> subprocess.Popen[str]:
    """Start a run of a workflow, given as text or by its tasks, on the machines of ``grid.yaml``."""
    if not isinstance(workflow, str):
        workflow = json.dumps({"weft": 1, "name": "flow", "tasks": workflow})
    (project / "flow.yaml").write_text(workflow)
    return start(project, "run", "flow.yaml", "--on", "grid.yaml", *words)


def find_processes(hosts: SshHosts, words: str) -> list[str]:
    """Return the hosts on which a process has these words in its command line."""
    return [host.name for host in hosts if words in host.run("ps", "-eo", "args")]


def wait_for(hosts: SshHosts, words: str) -> str:
    """Return the first host on which a process with these words runs, as soon as there is one."""
    return wait_until(lambda: find_processes(hosts, words), f"process {words}")[0]


def wait_until(find: Callable[[], Any], what: str) -> Any:
    """Return the result of a function as soon as it is true."""
    end_s = time.monotonic() + PATIENCE_S
    while not (found := find()):
        assert time.monotonic() < end_s, f"no {what}"
        time.sleep(0.1)
    return found
