"""Runs on ssh hosts while connections, hosts and engines fail: nothing is lost, and nothing runs twice at once."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import signal
import subprocess
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from patience import PATIENCE_S
from ssh_hosts import SshHost, SshHosts
from ssh_projects import find_processes, run, start, wait_for, wait_until, weft, write_grid

KILLS = int(os.environ.get("WEFT_KILLS", "5"))
"""How often the engine is killed; ``make chaos`` raises it."""
NOTE = "echo {mark} $(hostname) $(date +%s%N) $$ >> /var/tmp/weft-notes"


def chain_tasks(chains: int, seconds: float) -> dict[str, Any]:
    """Return chains of three tasks. Each notes its start and its end on the disk of its host."""
    tasks: dict[str, Any] = {}
    for chain in range(chains):
        for step in range(3):
            name, before = f"t{chain}x{step}", f"t{chain}x{step - 1}"
            work = f"cat {before} > {name}; " if step else f": > {name}; "
            begun, ended = (NOTE.replace("{mark}", f"{mark} {name}") for mark in ("begin", "end"))
            tasks[name] = {
                "command": f"{begun}; sleep {seconds}; {work}echo {name} >> {name}; {ended}",
                "inputs": [before] if step else [],
                "outputs": [name],
            }
    return tasks


def read_intervals(hosts: SshHosts) -> dict[str, list[tuple[int, float]]]:
    """Return by task the times in nanoseconds at which its programs began and ended on any host."""
    found: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for host in hosts:
        begun: dict[tuple[str, str], int] = {}
        for line in host.run("cat", "/var/tmp/weft-notes").splitlines():
            mark, name, _, at, process = line.split()
            if mark == "begin":
                begun[name, process] = int(at)
            else:
                found[name].append((begun.pop((name, process)), int(at)))
        for (name, _), at in begun.items():
            found[name].append((at, at))  # it was killed; its end is not known
    return found


@pytest.fixture
def notes(ssh_hosts: SshHosts) -> SshHosts:
    for host in ssh_hosts:
        host.run("sh", "-c", ": > /var/tmp/weft-notes; chmod 666 /var/tmp/weft-notes")
    return ssh_hosts


def check_results(grid: Path, hosts: SshHosts, chains: int) -> None:
    intervals = read_intervals(hosts)
    for chain in range(chains):
        names = [f"t{chain}x{step}" for step in range(3)]
        assert (grid / names[-1]).read_text().split() == names
        for name in names:
            ran = sorted(intervals[name])
            assert len(ran) >= 1
            assert all(first[1] <= second[0] for first, second in itertools.pairwise(ran)), (
                name,
                ran,
            )


def test_engine_killed_at_random_moments(grid: Path, notes: SshHosts) -> None:
    chance = random.Random(18)
    for host in notes:
        host.run("rm", "-f", "/var/tmp/weft-go")
    tasks = chain_tasks(20, 1.5 * KILLS / 5)
    waiting = "until [ -e /var/tmp/weft-go ]; do sleep 0.1; done"
    after = [f"t{chain}x2" for chain in range(20)]
    engine = run(grid, {**tasks, "last": {"command": waiting, "after": after}})
    wait_for(notes, "weft-notes")
    for _ in range(KILLS):
        time.sleep(chance.uniform(0.0, 3.0))
        assert engine.poll() is None, engine.communicate()[0]
        engine.send_signal(signal.SIGKILL)
        engine.communicate()
        engine = start(grid, "resume")
    for host in notes:
        host.run("touch", "/var/tmp/weft-go")  # without it the run does not end
    out, _ = engine.communicate(timeout=PATIENCE_S)
    assert engine.returncode == 0, out
    check_results(grid, notes, 20)
    counts = {name: len(ran) for name, ran in read_intervals(notes).items()}
    assert set(counts.values()) == {1}, counts
    assert not find_processes(notes, " bridge ")


def test_engine_killed_at_random_moments_leaves_nothing_after_cancel(grid: Path, notes: SshHosts) -> None:
    chance = random.Random(19)
    for turn in range(-(-KILLS // 5)):
        engine = run(grid, {f"z{n}": {"command": "sleep 775", "seconds": 9} for n in range(12)})
        if turn % 2 == 0:
            wait_for(notes, "sleep 775")
        time.sleep(chance.uniform(0.0, 2.0))
        engine.send_signal(signal.SIGKILL)
        engine.communicate()
        start(grid, "cancel").communicate(timeout=PATIENCE_S)
        wait_until(lambda: not find_processes(notes, "sleep 775"), "end of the programs")
        wait_until(lambda: not find_processes(notes, ".pyz serve"), "end of the runners")


def test_connections_cut_three_times(grid: Path, notes: SshHosts) -> None:
    write_grid(grid, notes, silence=90)
    engine = run(grid, chain_tasks(8, 0.5))
    wait_for(notes, "weft-notes")
    for _ in range(3):
        for host in notes:
            host.cut_connections()
        time.sleep(3.0)
    out, _ = engine.communicate(timeout=PATIENCE_S)
    assert engine.returncode == 0, out
    check_results(grid, notes, 8)
    assert {len(ran) for ran in read_intervals(notes).values()} == {1}


def test_packets_dropped_for_half_a_minute(grid: Path, notes: SshHosts) -> None:
    """Less than ``silence``: the state of the tasks is unknown, and none of them starts elsewhere."""
    write_grid(grid, notes, silence=90)
    engine = run(grid, chain_tasks(4, 2.0))
    name = wait_for(notes, "weft-notes")
    host = next(each for each in notes if each.name == name)
    host.drop_packets()
    try:
        time.sleep(30.0)
    finally:
        host.pass_packets()
    out, _ = engine.communicate(timeout=PATIENCE_S)
    assert engine.returncode == 0, out
    assert "is lost" not in out
    check_results(grid, notes, 4)
    assert {len(ran) for ran in read_intervals(notes).values()} == {1}


def test_outage_does_not_count_as_run_time(grid: Path, notes: SshHosts) -> None:
    """Estimates of later runs rest on this time."""
    write_grid(grid, notes, silence=90)
    engine = run(grid, {"t": {"command": "sleep 3.25", "contract": "none"}})
    host = next(each for each in notes if each.name == wait_for(notes, "sleep 3.25"))
    host.drop_packets()
    try:
        time.sleep(10.0)
    finally:
        host.pass_packets()
    out, _ = engine.communicate(timeout=PATIENCE_S)
    assert engine.returncode == 0, out
    [attempt] = json.loads(weft(grid, "report", "1", "--json"))["attempts"]
    assert 3.2 <= attempt["ended_s"] - attempt["started_s"] < 8.0


STEPS = """\
import time
from weft import task

state, value = task.restore([0, 1])
for step in range(state, 40):
    value = (value * 6364136223846793005 + step) % 2**64
    task.checkpoint([step + 1, value])
    task.progress(step + 1, 40)
    time.sleep({pause_s})
with open("value", "w") as out:
    out.write(str(value))
with open("from", "w") as out:
    out.write(str(state))
"""


def test_host_killed_for_real_with_migration_from_the_restart_file(
    grid: Path, ssh_hosts: SshHosts, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """All processes and the disk of the host are gone. The result equals that of an undisturbed run."""
    undisturbed = tmp_path_factory.mktemp("undisturbed")
    tasks = {
        "a": {
            "call": "steps:main",
            "outputs": ["value", "from"],
            "checkpoint": {"files": ["restart.json"]},
            "seconds": 20,
        },
        "b": {"command": "cat value value > twice", "inputs": ["value"], "outputs": ["twice"]},
    }
    for folder, pause_s in ((undisturbed, 0.0), (grid, 0.5)):
        body = "".join(f"    {line}\n" for line in STEPS.format(pause_s=pause_s).splitlines())
        (folder / "steps.py").write_text(f"def main():\n{body}")
        (folder / "grid.yaml").write_text((grid / "grid.yaml").read_text())
    out, _ = run(undisturbed, tasks).communicate(timeout=PATIENCE_S)
    engine = run(grid, tasks)
    name = wait_for(ssh_hosts, "steps:main")
    wait_until(lambda: list(grid.glob(".weft/checkpoints/*/*/current")), "kept restart files")
    host = next(each for each in ssh_hosts if each.name == name)
    host.kill(silently=True)
    try:
        out, _ = engine.communicate(timeout=PATIENCE_S)
        assert engine.returncode == 0, out
    finally:
        host.restart()
    assert int((grid / "from").read_text()) > 0
    assert (grid / "twice").read_text() == (undisturbed / "twice").read_text() != ""


def begin_waiting(grid: Path, hosts: SshHosts, word: str) -> tuple[subprocess.Popen[str], SshHost]:
    """Begin a run whose task ends when its host has /tmp/go; return the engine and the host of the task."""
    write_grid(grid, hosts, silence=300)
    for host in hosts:
        host.run("rm", "-f", "/tmp/go")
    engine = run(grid, {"t": {"command": f"echo {word}; until [ -e /tmp/go ]; do sleep 0.1; done"}})
    name = wait_for(hosts, f"echo {word}")
    return engine, next(each for each in hosts if each.name == name)


def test_outage_is_shown_with_the_time_at_which_the_host_counts_as_lost(
    grid: Path, ssh_hosts: SshHosts
) -> None:
    engine, host = begin_waiting(grid, ssh_hosts, "outage")
    host.drop_packets()
    try:
        wait_until(lambda: json.loads(weft(grid, "status", "--json"))["silent"], "silent host")
        status = json.loads(weft(grid, "status", "--json"))
        [silent], [task] = status["silent"], status["running"]
        assert silent["machine"] == task["machine"] == host.name
        assert silent["since_s"] == task["silent_since_s"] < status["now_s"] < silent["lost_at_s"]
        assert silent["lost_at_s"] - silent["since_s"] == pytest.approx(300)
        text = weft(grid, "status")
        assert "unknown since" in text
        assert re.search(
            rf"{host.name} has not answered since \d\d:\d\d:\d\d.*: its tasks are unknown; "
            r"it counts as lost at \d\d:\d\d:\d\d",
            text,
        )
        assert f"an answer of {host.name}, which has not answered since" in weft(grid, "explain", "t")
        machines = weft(grid, "machines", "ls")
        assert re.search(rf"{host.name} +unknown ", machines)
        assert re.search(
            rf"{host.name} has not answered since \d\d:\d\d:\d\d.*lost at \d\d:\d\d:\d\d", machines
        )
    finally:
        host.pass_packets()
    host.run("touch", "/tmp/go")
    out, _ = engine.communicate(timeout=PATIENCE_S)
    assert engine.returncode == 0, out
    assert f"machine {host.name} does not answer" in out
    assert f"machine {host.name} answers again" in out
    [note] = [line for line in out.splitlines() if line.startswith(f"note: machine {host.name}")]
    assert "did not answer for" in note
    assert json.loads(weft(grid, "status", "--json"))["silent"] == []


def test_outage_violates_no_contract(grid: Path, ssh_hosts: SshHosts) -> None:
    """The outage is longer than the time that the contract allows."""
    write_grid(grid, ssh_hosts, silence=300)
    work = {"command": "echo faithful; sleep 14; hostname > out", "outputs": ["out"], "seconds": 14}
    engine = run(grid, {"t": {**work, "contract": 0.2}}, "--set", "poll_every=1")
    host = next(each for each in ssh_hosts if each.name == wait_for(ssh_hosts, "echo faithful"))
    host.drop_packets()
    try:
        time.sleep(22.0)
    finally:
        host.pass_packets()
    out, _ = engine.communicate(timeout=PATIENCE_S)
    assert engine.returncode == 0, out
    assert json.loads(weft(grid, "report", "1", "--json"))["migrations"] == []
    assert "violates its contract" not in weft(grid, "explain", "t")
    assert (grid / "out").read_text() == f"{host.name}\n"


def test_silence_ends_with_the_engine_that_noticed_it(grid: Path, ssh_hosts: SshHosts) -> None:
    """The next engine reports a host that still does not answer."""
    engine, host = begin_waiting(grid, ssh_hosts, "silence")
    host.drop_packets()
    try:
        wait_until(lambda: json.loads(weft(grid, "status", "--json"))["silent"], "silent host")
        engine.send_signal(signal.SIGKILL)
        engine.communicate()
    finally:
        host.pass_packets()
    engine = start(grid, "resume")
    wait_until(lambda: json.loads(weft(grid, "status", "--json"))["running"], "task that was taken over")
    wait_until(lambda: not json.loads(weft(grid, "status", "--json"))["silent"], "host that answers")
    host.run("touch", "/tmp/go")
    out, _ = engine.communicate(timeout=PATIENCE_S)
    assert engine.returncode == 0, out
    assert f"{host.name} has not answered" not in weft(grid, "machines", "ls")


def test_programs_on_hosts_end_if_the_state_of_their_run_is_moved(grid: Path, ssh_hosts: SshHosts) -> None:
    number = f"{5000 + os.getpid() % 4000}.25"
    go = "/var/tmp/weft-moved"
    command = f"test -e {go} || sleep {number}; echo 1 > a"
    engine = run(grid, {"a": {"command": command, "outputs": ["a"], "requirements": 'arch == "x2"'}})
    wait_for(ssh_hosts, f"sleep {number}")
    (grid / ".weft").rename(grid / "taken")
    out, _ = engine.communicate(timeout=PATIENCE_S)
    assert engine.returncode == 1, out
    assert "was moved to" in out
    assert not (grid / ".weft").exists()
    wait_until(lambda: not find_processes(ssh_hosts, f"sleep {number}"), "end of the program")
    (grid / "taken").rename(grid / ".weft")
    ssh_hosts[1].run("touch", go)
    try:
        weft(grid, "resume")
    finally:
        ssh_hosts[1].run("rm", go)
    assert (grid / "a").read_text() == "1\n"
