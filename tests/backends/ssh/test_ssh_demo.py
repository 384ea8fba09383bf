"""The workflow of ``make demo``, unchanged, on ssh hosts, of which one is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path

from patience import PATIENCE_S
from ssh_hosts import USER, SshHost, SshHosts
from ssh_projects import start, wait_until, weft
from weft.api.project import OpenProject
from weft.engine import messages
from weft.repository.journal_store import JournalStore

DEMO = Path(__file__).parents[3] / "examples" / "convergence"
NAMES = ("workstation1", "workstation2", "attic")


def write_machines(project: Path, hosts: SshHosts) -> None:
    """Write the machines of the demo, on hosts; the programs find the name of their machine in their path."""
    machines = {
        name: {
            "nodes": 2,
            "backend": {"kind": "ssh", "silence": 4, "sandbox": f"/home/{USER}/{name}", **host.backend},
        }
        for name, host in zip(NAMES, hosts, strict=False)
    }
    (project / "hosts.yaml").write_text(json.dumps({"machines": machines}))


def request_restart_file(host: SshHost, asked: set[int]) -> bool:
    """Send SIGUSR1 to the solvers of a host that handle it, once to each; return whether one got it."""
    for pid in host.processes():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        except OSError:
            continue
        caught = next((line.split()[1] for line in status.splitlines() if line.startswith("SigCgt")), "0")
        if b"scf:solve" in words and pid not in asked and int(caught, 16) >> (signal.SIGUSR1 - 1) & 1:
            asked.add(pid)
            os.kill(pid, signal.SIGUSR1)
    return bool(asked)


def kill_with_restart_file(project: Path, hosts: SshHosts) -> str:
    """Kill a host as soon as a restart file of one of its solvers is kept; return the name of its machine."""
    asked: set[int] = set()
    index = wait_until(
        lambda: next((number for number in (1, 2) if request_restart_file(hosts[number - 1], asked)), None),
        "solver",
    )
    end_s = time.monotonic() + PATIENCE_S
    while not list(project.glob(".weft/checkpoints/*/*/current")):
        assert time.monotonic() < end_s, "no restart file is kept"
        request_restart_file(hosts[index - 1], asked)
        time.sleep(0.02)
    hosts[index - 1].kill()
    return NAMES[index - 1]


def test_demo_gives_the_same_result_when_a_host_is_killed(tmp_path: Path, ssh_hosts: SshHosts) -> None:
    undisturbed, project = tmp_path / "undisturbed", tmp_path / "killed"
    for folder in (undisturbed, project):
        shutil.copytree(DEMO, folder)
    weft(undisturbed, "run", "workflow.yaml", "--on", "machines.yaml", "--param", "step_s=0.002")
    write_machines(project, ssh_hosts)
    engine = start(project, "run", "workflow.yaml", "--on", "hosts.yaml", "--param", "step_s=0.045")
    killed = ""
    try:
        killed = kill_with_restart_file(project, ssh_hosts)
        out, _ = engine.communicate(timeout=PATIENCE_S)
    finally:
        engine.kill()
        engine.communicate()
        if killed:
            ssh_hosts[NAMES.index(killed)].restart()
    assert engine.returncode == 0, out
    assert (project / "density.txt").read_bytes() == (undisturbed / "density.txt").read_bytes()
    with OpenProject.at(str(project)) as opened:
        entries = list(JournalStore(opened.database).all_after(1))
    lost = [each.event.machine for each in entries if isinstance(each.event, messages.MachineChanged)]
    assert NAMES.index(killed) in lost
    starts = [each for entry in entries for each in entry.commands if isinstance(each, messages.Start)]
    assert any(each.restart_from > 0 and each.machine != NAMES.index(killed) for each in starts)
