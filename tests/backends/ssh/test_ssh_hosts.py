"""The hosts of the tests behave like hosts of their own, and leave nothing behind."""

from __future__ import annotations

from pathlib import Path

from ssh_hosts import SshHosts, start_ssh_hosts


def runs(pid: int) -> bool:
    """Say whether a process exists and is not a zombie that its new parent has not yet waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_hosts_have_their_own_name_disk_and_processes(ssh_hosts: SshHosts, tmp_path: Path) -> None:
    one, two = ssh_hosts[0], ssh_hosts[1]
    assert [host.run("hostname") for host in ssh_hosts] == ["host1\n", "host2\n", "host3\n", "host4\n"]
    one.run("touch", "/tmp/mark", "/home/carol/mark")
    assert "mark" not in two.run("ls", "/tmp", "/home/carol").split()
    assert not Path("/tmp/mark").exists()
    assert not one.run("sh", "-c", f"ls -d {tmp_path} || true")
    assert one.run("cat", "/proc/1/comm") == "sshd\n"
    one.run("rm", "/tmp/mark", "/home/carol/mark")


def test_hosts_reach_each_other(ssh_hosts: SshHosts) -> None:
    banner = "import socket; print(socket.create_connection(('host4', 22)).recv(7).decode())"
    assert ssh_hosts[1].run("/usr/bin/env", "python3", "-c", banner) == "SSH-2.0\n"


def test_processor_quota_applies_to_processes_that_run_already(ssh_hosts: SshHosts) -> None:
    host = ssh_hosts[3]
    host.limit_cpu(0.2)
    group = host.quota
    assert group is not None
    assert str(host.processes()[0]) in (group / "cgroup.procs").read_text().split()
    host.restart()
    assert not group.exists()


def test_sets_of_hosts_are_independent_and_leave_nothing(ssh_hosts: SshHosts, tmp_path: Path) -> None:
    with start_ssh_hosts(tmp_path, 1) as others:
        assert others[0].address not in {host.address for host in ssh_hosts}
        interface = Path("/sys/class/net") / others.network.interface
        processes = others[0].processes()
        assert interface.exists()
        assert processes
    assert not interface.exists()
    assert not any(runs(pid) for pid in processes)
    assert ssh_hosts[0].run("hostname") == "host1\n"
