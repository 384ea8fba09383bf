"""Outputs are copied directly between hosts that reach each other, and through this computer otherwise."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from patience import PATIENCE_S
from ssh_hosts import SANDBOX, USER, SshHost, SshHosts
from ssh_projects import run, wait_until, weft, write_grid
from weft.backends.attempt.safe_paths import StagingProblem
from weft.backends.layout import ProjectLayout
from weft.backends.ssh.backend import SshMachine
from weft.backends.ssh.connection import HostConnections, list_routes
from weft.backends.ssh.host import HostSettings
from weft.platform.machine import Machine

SIZE_BYTES = 1_000_000
TASKS = {
    "make": {
        "command": f"head -c {SIZE_BYTES} /dev/urandom > big; mkdir d; cp big d/a; ln -s a d/b",
        "outputs": ["big", "d/"],
        "requirements": 'arch == "x1"',
    },
    "check": {
        "command": "cksum < big > sums; cksum < d/b >> sums; cksum < big >> sums; stat -c %A big >> sums",
        "inputs": ["big", "d/"],
        "outputs": ["sums"],
        "requirements": 'arch == "x2"',
    },
}


def let_reach(host: SshHost, other: SshHost, hosts: SshHosts) -> None:
    """Give the user of a host a key and the host keys with which ``other`` is reached from there."""
    folder = f"/home/{USER}/.ssh"
    host.run("rm", "-rf", folder)
    host.run("mkdir", "-m", "700", folder)
    names = {"id_ed25519": hosts.identity.read_text(), "known_hosts": other.known_hosts_line()}
    for name, text in names.items():
        path = host.path(f"{folder}/{name}")
        path.write_text(text)
        path.chmod(0o600)
    host.run("chown", "-R", f"{USER}:65534", folder)


@pytest.fixture
def pair(ssh_hosts: SshHosts) -> Generator[tuple[SshHost, SshHost]]:
    """Return two hosts, of which the second one reaches the first one."""
    let_reach(ssh_hosts[1], ssh_hosts[0], ssh_hosts)
    yield ssh_hosts[0], ssh_hosts[1]
    ssh_hosts[1].run("rm", "-rf", f"/home/{USER}/.ssh")


def finish(grid: Path) -> str:
    """Run the tasks; return what is explained about the one that reads the files."""
    engine = run(grid, TASKS)
    out, _ = engine.communicate(timeout=PATIENCE_S)
    assert engine.returncode == 0, out
    sums = (grid / "sums").read_text().splitlines()
    assert len(set(sums[:3])) == 1, sums
    assert sums[3] == "-r--r--r--"
    return " ".join(weft(grid, "explain", "-v", "check").split())


def mirrored(grid: Path) -> list[str]:
    """Return the names of the large files that passed through this computer."""
    found = (grid / ".weft/mirror/host1").rglob("*")
    return sorted(each.name for each in found if each.is_file() and each.stat().st_size >= SIZE_BYTES)


def test_output_is_copied_directly_between_hosts_that_reach_each_other(grid: Path, pair) -> None:
    assert "directly from host1" in finish(grid)
    assert "big" not in mirrored(grid)
    for host in pair:
        left = host.run("find", f"/home/{USER}/.cache/weft/sandbox", "-path", "*/arrivals/*").split()
        assert left == [], "neither archives nor proofs are left"
    assert pair[1].run("ls", f"/home/{USER}/.ssh").split() == ["id_ed25519", "known_hosts"]


def test_output_passes_through_this_computer_if_hosts_do_not_reach_each_other(
    grid: Path, ssh_hosts: SshHosts
) -> None:
    ssh_hosts[1].run("rm", "-rf", f"/home/{USER}/.ssh")
    explained = finish(grid)
    assert "from host1 through this computer: " in explained
    assert "Host key verification failed" in explained


def test_host_that_answers_in_place_of_the_other_one_is_not_used(grid: Path, ssh_hosts: SshHosts) -> None:
    """The address of the first host is that of another host for the second one, as with private networks."""
    first, second, third = ssh_hosts[0], ssh_hosts[1], ssh_hosts[2]
    let_reach(second, third, ssh_hosts)
    second.run("ip", "addr", "add", f"{first.address}/32", "dev", "lo")
    path = second.path(f"/home/{USER}/.ssh/known_hosts")
    path.write_text(f"{first.address} {second.host_key}\n")
    try:
        explained = finish(grid)
    finally:
        second.run("ip", "addr", "del", f"{first.address}/32", "dev", "lo")
        second.run("rm", "-rf", f"/home/{USER}/.ssh")
    assert "through this computer: " in explained
    assert "No such file" in explained


def test_direct_copies_can_be_switched_off(grid: Path, pair, ssh_hosts: SshHosts) -> None:
    write_grid(grid, ssh_hosts, silence=15, direct=False)
    assert "through this computer: `direct` is off" in finish(grid)


def test_changed_output_is_refused(grid: Path, pair) -> None:
    first, second = pair
    second.run("rm", "-f", "/tmp/go")
    first.run("sh", "-c", f"rm -rf {SANDBOX}; mkdir -p {SANDBOX}; chown -R {USER} /home/{USER}/.cache")
    wait = {"command": "while ! [ -e /tmp/go ]; do sleep 0.1; done", "requirements": 'arch == "x2"'}
    tasks = {**TASKS, "wait": wait}
    tasks["check"] = {**TASKS["check"], "after": ["wait"], "retries": 0}
    engine = run(grid, tasks)
    wait_until(lambda: first.run("find", SANDBOX, "-name", "big", "-perm", "444"), "collected output")
    [big] = first.run("find", SANDBOX, "-name", "big").split()
    first.run("sh", "-c", f"chmod u+w {big}; echo x | dd of={big} conv=notrunc 2>/dev/null")
    second.run("touch", "/tmp/go")
    out, _ = engine.communicate(timeout=PATIENCE_S)
    assert engine.returncode == 1, out
    assert "checksum" in " ".join(out.split())


def test_interrupted_direct_copy_is_resumed(
    ssh_hosts: SshHosts, pair, tmp_path: Path, connections: HostConnections
) -> None:
    """The connection between the hosts is cut; the bytes that have arrived are not sent again."""
    first, second = pair
    size_bytes = 120_000_000
    first.run("sh", "-c", f"head -c {size_bytes} /dev/urandom > /tmp/source; chmod 444 /tmp/source")
    content = first.path("/tmp/source").read_bytes()
    digest = hashlib.blake2b(content, digest_size=20).hexdigest()
    machine = Machine(name="b", backend={"kind": "ssh", **second.backend})
    host = SshMachine(ProjectLayout(project=tmp_path), machine, connections, lambda *_: True)
    command = list_routes(HostSettings(host=first.name, config=str(ssh_hosts.config)))[0]
    folder = f"/home/{USER}/arrivals"
    fetch = {"command": command, "path": "/tmp/source", "folder": folder, "digest": digest}
    part = second.path(f"{folder}/{digest}.part")

    def cut() -> None:
        end_s = time.monotonic() + PATIENCE_S
        while not (part.exists() and part.stat().st_size):
            assert time.monotonic() < end_s
            time.sleep(0.002)
        first.cut_connections()

    cutter = threading.Thread(target=cut)
    cutter.start()
    try:
        with pytest.raises(StagingProblem, match="cannot be received"):
            host.call_once("fetch", **fetch, size_bytes=size_bytes)
        cutter.join()
        arrived = part.stat().st_size
        assert 0 < arrived < size_bytes
        assert host.call_once("fetch", **fetch, size_bytes=size_bytes) == size_bytes - arrived
        host.call_once("accept", folder=folder, digest=digest)
        assert [each.name for each in second.path(folder).iterdir()] == [digest]
    finally:
        host.close(wait_s=0.0)
        first.run("rm", "-f", "/tmp/source")
        second.run("rm", "-rf", folder)
