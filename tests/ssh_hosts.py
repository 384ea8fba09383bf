"""Real ssh hosts for tests: ``sshd`` in namespaces of its own, with a private disk and a network of the test.

A host is one ``unshare`` process. Its processes, host name, mounts and network interface live in namespaces
that disappear with it: SIGKILL of that process is the death of the host. The interfaces of all hosts are ports
of a bridge, which lies in a namespace of its own; one more pair of interfaces leads from there to the test.
All processes die with the test process, and the namespaces and interfaces with them.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from patience import PATIENCE_S

__all__ = ["SshHost", "SshHosts", "need_ssh_hosts", "ssh_hosts", "start_ssh_hosts"]

USER = "carol"
SANDBOX = f"/home/{USER}/.cache/weft/sandbox"
"""The sandbox on a host, unless a machine states another one."""
_UID = 61217
_PROGRAMS = ("sshd", "ssh-keygen", "ip", "unshare", "nsenter", "setpriv", "mount")
_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
_UNSHARE = ("setpriv", "--pdeathsig", "KILL", "unshare")

_SSHD_CONFIG = """\
Port 22
HostKey /run/sshd/host_key
AuthorizedKeysFile /run/sshd/authorized_keys
PidFile none
StrictModes no
UsePAM no
UseDNS no
PasswordAuthentication no
KbdInteractiveAuthentication no
Subsystem sftp internal-sftp
{environment}"""

_START_SCRIPT = """\
set -e
hostname {name}
mount -t tmpfs -o mode=0755 none /run
mkdir /run/sshd
cp {folder}/* /run/sshd
{keep_shared}
mount --bind /run/sshd/passwd /etc/passwd
mount --bind /run/sshd/hosts /etc/hosts
mount -t tmpfs -o mode=0755,size={disk_bytes} none /mnt
mkdir -p /mnt/home/{user}
mkdir -m 1777 /mnt/tmp
chown {uid}:65534 /mnt/home/{user}
mount --bind /mnt/tmp /var/tmp
mount --bind /mnt/home /home
cd /
exec 2>>{folder}/log
mount --bind /mnt/tmp /tmp
{mount_shared}
echo ready
read go
ip -batch /run/sshd/network
exec {sshd} -D -e -f /run/sshd/config <&- >/dev/null
"""


def find_missing_for_hosts() -> str:
    """Return why hosts cannot be started here; "": they can."""
    missing = [program for program in _PROGRAMS if shutil.which(program, path=_PATH) is None]
    reason = f"no {', '.join(missing)} (apt-get install openssh-server iproute2)" if missing else ""
    if os.geteuid() != 0:
        reason = "ssh hosts need root: namespaces, mounts and interfaces are made"
    elif not missing and _run("unshare", "-pfumn", "true", check=False).returncode:
        reason = "ssh hosts need namespaces; `unshare -pfumn true` fails here"
    return reason


def need_ssh_hosts() -> None:
    """Skip the test where hosts cannot be started; with CI=true the test fails."""
    reason = find_missing_for_hosts()
    if reason and os.environ.get("CI"):
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)


@contextlib.contextmanager
def start_ssh_hosts(folder: Path, count: int = 4, *, disk_bytes: int = 1 << 28) -> Generator[SshHosts]:
    """Yield hosts that accept connections; stop them and remove everything at the end."""
    need_ssh_hosts()
    folder.mkdir(exist_ok=True)
    hosts = SshHosts(folder, count, disk_bytes)
    try:
        hosts.start()
        yield hosts
    finally:
        hosts.stop()


@pytest.fixture(scope="session")
def ssh_hosts(tmp_path_factory: pytest.TempPathFactory) -> Generator[SshHosts]:
    """Return four hosts; a test that kills one restarts it."""
    with start_ssh_hosts(tmp_path_factory.mktemp("ssh")) as hosts:
        yield hosts


class SshHosts:
    """Hosts ``host1``, ``host2``, ... of one network, and the files with which a client reaches them.

    ``config`` is a client configuration that names the hosts, ``identity`` a key they accept, ``known_hosts``
    has their keys.
    """

    def __init__(self, folder: Path, count: int, disk_bytes: int) -> None:
        self.folder = folder
        self.config = folder / "config"
        self.identity = folder / "identity"
        self.known_hosts = folder / "known_hosts"
        self.disk_bytes = disk_bytes
        self.user = USER
        self.shared: dict[Path, str] = {}
        """Folders of this computer that the hosts see, too, with their paths there."""
        self.environment: dict[str, str] = {}
        """More environment variables of commands that ssh runs there."""
        self.network = _Network()
        self.hosts = [SshHost(self, number) for number in range(1, count + 1)]

    def __iter__(self) -> Iterator[SshHost]:
        return iter(self.hosts)

    def __getitem__(self, index: int) -> SshHost:
        return self.hosts[index]

    def start(self) -> None:
        """Start all hosts at the same time; return when each of them answers."""
        self._write_files()
        for host in self.hosts:
            host.launch()
        self.network.create()
        for host in self.hosts:
            host.join_network()
        for host in self.hosts:
            host.wait_until_it_answers()

    def stop(self) -> None:
        """Kill what still runs; remove the network and the CPU quotas."""
        for host in self.hosts:
            host.kill()
        self.network.remove()

    def _write_files(self) -> None:
        make_key(self.identity)
        entries = "".join(f"{host.address} {host.name}\n" for host in self.hosts)
        for host in self.hosts:
            host.folder.mkdir()
            make_key(host.folder / "host_key")
            host.write_files(f"127.0.0.1 localhost\n{entries}")
        self.config.write_text("".join(host.client_config() for host in self.hosts), encoding="utf-8")
        self.known_hosts.write_text("".join(host.known_hosts_line() for host in self.hosts), encoding="utf-8")


class SshHost:
    """One host. It can be killed and restarted, cut off, and slowed down."""

    def __init__(self, hosts: SshHosts, number: int) -> None:
        self.name = f"host{number}"
        self.folder = hosts.folder / self.name
        self.number = number
        self._hosts = hosts
        self._network = hosts.network
        self._process: subprocess.Popen[str] | None = None
        self._starts = itertools.count()
        self._port = ""
        self.quota: Path | None = None

    @property
    def address(self) -> str:
        """Address of the host in the network of its ``SshHosts``."""
        return self._network.address(self.number)

    @property
    def host_key(self) -> str:
        """Return the type and the text of the public host key."""
        return " ".join((self.folder / "host_key.pub").read_text(encoding="utf-8").split()[:2])

    def known_hosts_line(self) -> str:
        """Return the line of a known_hosts file for this host."""
        return f"{self.name},{self.address} {self.host_key}\n"

    def client_config(self) -> str:
        """Return the section of a client configuration for this host."""
        hosts = self._hosts
        return (
            f"Host {self.name}\n  HostName {self.address}\n  User {hosts.user}\n  IdentityFile {hosts.identity}\n"
            f"  IdentitiesOnly yes\n  IdentityAgent none\n  UserKnownHostsFile {hosts.known_hosts}\n"
        )

    @property
    def backend(self) -> dict[str, str]:
        """Return the ``backend`` of a machine on this host, without its kind."""
        return {"host": self.name, "config": str(self._hosts.config)}

    def write_files(self, hosts_file: str) -> None:
        """Write the files that the host copies to its own disk when it starts."""
        write = {
            "config": _SSHD_CONFIG.format(environment=self._environment_line()),
            "authorized_keys": self._hosts.identity.with_suffix(".pub").read_text(encoding="utf-8"),
            "passwd": _accounts(),
            "hosts": hosts_file,
            "network": self._network.host_commands(self.number, len(self._hosts.hosts)),
        }
        for name, text in write.items():
            (self.folder / name).write_text(text, encoding="utf-8")

    def _environment_line(self) -> str:
        words = " ".join(f'"{name}={value}"' for name, value in self._hosts.environment.items())
        return f"SetEnv {words}\n" if words else ""

    def launch(self) -> None:
        """Start the process of the host; it waits for its network."""
        shared = list(self._hosts.shared.items())
        keep = [
            f"mkdir /run/shared{number}; mount --bind {shlex.quote(str(source))} /run/shared{number}"
            for number, (source, _) in enumerate(shared)
        ]
        mount = [
            f"mkdir -p {shlex.quote(target)}; mount --bind /run/shared{number} {shlex.quote(target)}"
            for number, (_, target) in enumerate(shared)
        ]
        if self._hosts.user == "root":
            mount.insert(0, "mount -t tmpfs -o mode=0700 none /root")
        script = _START_SCRIPT.format(
            keep_shared="\n".join(keep),
            mount_shared="\n".join(mount),
            name=self.name,
            folder=shlex.quote(str(self.folder)),
            disk_bytes=self._hosts.disk_bytes,
            user=USER,
            uid=_UID,
            sshd=shutil.which("sshd", path=_PATH),
        )
        self._process = subprocess.Popen(
            [*_UNSHARE, "-pfumn", "--mount-proc", "--kill-child", "sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PATH": _PATH, "LC_ALL": "C"},
        )

    def join_network(self) -> None:
        """Connect the host to the bridge and let it continue."""
        process = self._running()
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n", self.read_log()
        self._port = f"p{self.number}x{next(self._starts)}"
        self._network.connect(self._port, process.pid, self.number)
        process.stdin.write("go\n")
        process.stdin.flush()

    def wait_until_it_answers(self) -> None:
        """Return when sshd accepts connections."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            assert self._running().poll() is None, self.read_log()
            assert time.monotonic() < deadline, self.read_log()
            with contextlib.suppress(OSError), socket.create_connection((self.address, 22), timeout=1):
                return
            time.sleep(0.02)

    def read_log(self) -> str:
        """Return what sshd wrote."""
        log = self.folder / "log"
        return log.read_text(encoding="utf-8") if log.exists() else "no log"

    def kill(self, *, silently: bool = False) -> None:
        """Kill all processes; the disk is lost. Silently: connections are not closed, as in a power cut."""
        if self._process is None:
            return
        if silently:
            self.drop_packets()
        first = _children(self._process.pid)
        self._process.kill()
        self._process.communicate()
        for pid in first:
            _wait_for_end(pid)
        self._process = None
        if self.quota is not None:
            self.quota.rmdir()
            self.quota = None

    def restart(self) -> None:
        """Start the host again, with an empty disk and the same host key; kill it before if it runs."""
        self.kill()
        self.launch()
        self.join_network()
        self.wait_until_it_answers()

    def cut_connections(self) -> None:
        """Kill the sshd processes of all connections; the programs they started go on."""
        [first] = _children(self._running().pid)
        sessions = [pid for pid in _children(first) if _program(pid) == "sshd"]
        for pid in [child for session in sessions for child in _children(session)] + sessions:
            if _program(pid) == "sshd":
                _kill(pid)

    def drop_packets(self) -> None:
        """Drop all packets from and to this host."""
        self._network.run("ip", "link", "set", self._port, "nomaster")

    def pass_packets(self) -> None:
        """Pass packets again."""
        self._network.run("ip", "link", "set", self._port, "master", "bridge")

    def limit_cpu(self, share: float, *, weight: int = 1) -> None:
        """Limit all processes of the host together to ``share`` of one core; skip the test where this fails.

        Against other processes of this computer they count ``weight`` times as much as usual. They use one core,
        because the kernel divides a quota among the processes of a core evenly, and among cores by chance.
        """
        if self.quota is None:
            self.quota = _make_cpu_group(f"weft-{os.getpid()}-{self._network.number}-{self.name}")
        period_us = 20_000
        quota_us = max(1000, round(share * period_us))
        if (self.quota / "cpu.max").exists():
            (self.quota / "cpu.max").write_text(f"{quota_us} {period_us}", encoding="utf-8")
            (self.quota / "cpu.weight").write_text(str(min(10_000, 100 * weight)), encoding="utf-8")
        else:
            (self.quota / "cpu.cfs_period_us").write_text(str(period_us), encoding="utf-8")
            (self.quota / "cpu.cfs_quota_us").write_text(str(quota_us), encoding="utf-8")
            (self.quota / "cpu.shares").write_text(str(1024 * weight), encoding="utf-8")
        core = sorted(os.sched_getaffinity(0))[self.number % len(os.sched_getaffinity(0))]
        while late := set(self.processes()) - _members(self.quota):
            for pid in late:
                with contextlib.suppress(ProcessLookupError):
                    (self.quota / "cgroup.procs").write_text(str(pid), encoding="utf-8")
                    os.sched_setaffinity(pid, {core})

    def processes(self) -> list[int]:
        """Return the ids, outside of the host, of all processes of the host."""
        found = _children(self._running().pid)
        for pid in found:
            found.extend(_children(pid))
        return found

    def path(self, path: str) -> Path:
        """Return the path by which this process reads a file of the host; links must not be absolute."""
        [first] = _children(self._running().pid)
        return Path(f"/proc/{first}/root", path.lstrip("/"))

    @property
    def sandbox(self) -> Path:
        """Return the path by which this process reads the sandbox of machines on the host."""
        return self.path(SANDBOX)

    def run(self, *command: str) -> str:
        """Run a command as root on the host, not through ssh; return its output."""
        [first] = _children(self._running().pid)
        entered = ("nsenter", "-t", str(first), "-p", "-u", "-m", "-n", "--wd=/", *command)
        return _run(*entered).stdout

    def _running(self) -> subprocess.Popen[str]:
        assert self._process is not None, f"{self.name} does not run"
        return self._process


class _Network:
    """A bridge in a namespace of its own. The test has the address 1, the hosts have the addresses from 11.

    The name of the interface is the lock of the network's number: two tests cannot create it both.
    """

    def __init__(self) -> None:
        self.number = -1
        for number in range(os.getpid() % 256, os.getpid() % 256 + 256):
            self.number = number % 256
            if not self._is_in_use() and self._create_interface():
                return
        pytest.fail("all networks from 10.213.0.0 to 10.213.255.0 are in use")

    def address(self, host: int) -> str:
        return f"10.213.{self.number}.{10 + host}"

    def _hardware_address(self, host: int) -> str:
        return f"02:57:45:46:{self.number:02x}:{host:02x}"

    def _is_in_use(self) -> bool:
        routes = _run("ip", "-4", "route", "show", "root", f"10.213.{self.number}.0/24").stdout
        return bool(routes.strip())

    def _create_interface(self) -> bool:
        self.interface = f"weft{self.number}"
        self._process = subprocess.Popen(
            [*_UNSHARE, "-n", "sh", "-c", "echo ready; exec sleep 86400"],
            stdout=subprocess.PIPE,
            text=True,
            env={"PATH": _PATH},
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()
        peer = ("type", "veth", "peer", "name", "test", "netns", str(self._process.pid))
        if _run("ip", "link", "add", self.interface, *peer, check=False).returncode == 0:
            return True
        self._process.kill()
        self._process.communicate()
        return False

    def create(self) -> None:
        """Create the bridge and the way to it from the test."""
        self.run(
            "sh",
            "-ec",
            "ip link add bridge type bridge; ip link set bridge up;"
            "ip link set test master bridge; ip link set test up",
        )
        _run("ip", "addr", "add", f"10.213.{self.number}.1/24", "dev", self.interface)
        _run("ip", "link", "set", self.interface, "address", self._hardware_address(0), "up")

    def connect(self, port: str, host_process: int, host: int) -> None:
        """Add a port to the bridge; its other end is ``eth0`` in the namespace of the host."""
        peer = f"peer name eth0 address {self._hardware_address(host)} netns {host_process}"
        commands = (
            f"ip link add {port} type veth {peer}; ip link set {port} master bridge; ip link set {port} up"
        )
        self.run("sh", "-ec", commands)
        # Known neighbours: without packets a connection times out, as through a router, instead of failing.
        neighbour = (self.address(host), "lladdr", self._hardware_address(host), "dev", self.interface)
        _run("ip", "neigh", "replace", *neighbour, "nud", "permanent")

    def host_commands(self, host: int, count: int) -> str:
        """Return the commands of ``ip`` that set up the network inside a host."""
        lines = ["link set lo up", f"addr add {self.address(host)}/24 dev eth0", "link set eth0 up"]
        lines.append(
            f"neigh replace 10.213.{self.number}.1 lladdr {self._hardware_address(0)} dev eth0 nud permanent"
        )
        for other in range(1, count + 1):
            if other != host:
                hardware = self._hardware_address(other)
                lines.append(f"neigh replace {self.address(other)} lladdr {hardware} dev eth0 nud permanent")
        return "\n".join(lines) + "\n"

    def run(self, *command: str) -> str:
        """Run a command in the network namespace of the bridge."""
        return _run("nsenter", "-t", str(self._process.pid), "-n", *command).stdout

    def remove(self) -> None:
        """Remove the interface, and the bridge with its namespace."""
        _run("ip", "link", "del", self.interface, check=False)
        self._process.kill()
        self._process.communicate()


def make_key(path: Path) -> None:
    """Write a new private key, and the public one beside it."""
    _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "weft test", "-f", str(path))


def _accounts() -> str:
    accounts = Path("/etc/passwd").read_text(encoding="utf-8").rstrip("\n")
    if "\nsshd:" not in accounts:
        accounts += f"\nsshd:*:{_UID - 1}:65534::/run/sshd:/usr/sbin/nologin"
    return f"{accounts}\n{USER}:*:{_UID}:65534::/home/{USER}:/bin/sh\n"


def _run(*command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command,
        text=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={"PATH": _PATH, "LC_ALL": "C"},
        check=False,
    )
    assert not check or done.returncode == 0, f"{shlex.join(command)}: {done.stderr}"
    return done


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _wait_for_end(pid: int) -> None:
    """Return when a process of another parent has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], PATIENCE_S)[0], f"process {pid} does not end"
    finally:
        os.close(descriptor)


def _make_cpu_group(name: str) -> Path:
    """Return a new control group with a CPU quota, of version 1 or 2."""
    for parent in (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")):
        group = parent / name
        try:
            group.mkdir()
        except OSError:
            continue
        if (group / "cpu.cfs_quota_us").exists() or (group / "cpu.max").exists():
            return group
        group.rmdir()
    pytest.skip("no control group with a CPU quota can be made here")


def _members(group: Path) -> set[int]:
    return {int(pid) for pid in (group / "cgroup.procs").read_text(encoding="utf-8").split()}
