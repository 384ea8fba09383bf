"""A real Slurm on this host: munged, slurmctld and one slurmd for each virtual node.

Every cluster has its own ports, munge key and socket, and state directories, so several can run at once.
As root each slurmd runs in its own PID, UTS and mount namespace: its SIGKILL is the death of the node with all
its processes. Without root, ``kill_node`` ends the processes that carry the node's name in their environment.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from patience import PATIENCE_S

__all__ = [
    "SlurmCluster",
    "fragile_cluster",
    "need_slurm",
    "shared_slurm_cluster",
    "slurm16_cluster",
    "slurm_cluster",
]

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "sinfo", "unshare")
ADMIN_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"))
PORTS = range(10_000, 32_000)
"""Below the ports that Linux gives to outgoing connections: a killed daemon gets its port back."""
CORES = 4
MEMORY_MB = 4000
CONFIGURATION = """\
ClusterName={name}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=batch_sched_delay=1,sched_interval=1,bf_interval=1
SlurmdTimeout={timeout}
KillWait=2
MessageTimeout=5
EnforcePartLimits=ALL
MailProg=/bin/true
MpiDefault=none
ReturnToService=2
GresTypes=gpu
DebugFlags=NO_CONF_HASH
DefMemPerCPU=100
"""


def need_slurm() -> None:
    """Skip the test where Slurm is not installed; with CI=true it fails."""
    missing = [program for program in PROGRAMS if shutil.which(program, path=ADMIN_PATH) is None]
    if not missing:
        return
    reason = f"no {', '.join(missing)} (apt-get install slurmctld slurmd slurm-client munge)"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


class SlurmCluster:
    """A running Slurm with the nodes ``node1``, ``node2``, ...

    Partitions: ``main`` (default; all nodes, at most 2 h, 10 min by default), ``short`` (all nodes, at most
    1 min) and ``gpu`` (the last two nodes, two fake GPUs each). The first half of the nodes has the features
    ``fast,avx``, the other half ``slow``. A node has 4 cores and 4,000 MiB.

    As root, all nodes see the folder ``disk`` of the cluster as /srv, unlike this host.

    ``node_timeout_s`` is the silence after which slurmctld looks for a dead node; see SlurmdTimeout.
    """

    def __init__(self, nodes: int = 4, *, node_timeout_s: int = 6) -> None:
        self.nodes = tuple(f"node{number + 1}" for number in range(nodes))
        self.folder = Path(tempfile.mkdtemp(prefix="slurm-"))  # short: the path of a socket has 107 bytes
        self.folder.chmod(0o755)
        self.environment: Mapping[str, str] = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("SLURM", "SBATCH"))},
            "PATH": ADMIN_PATH,
            "SLURM_CONF": str(self.folder / "slurm.conf"),
        }
        self._timeout = node_timeout_s
        self._first_job = 1 - 1000
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        for left in (2, 1, 0):
            try:
                self._start()
                break
            except BaseException as error:
                self.stop()
                # Another program can take a port before the daemon for which it was chosen.
                if not left or "Address already in use" not in str(error):
                    raise
                self.folder.mkdir(mode=0o755)

    @property
    def disk(self) -> Path:
        """Return the folder with the files of the cluster's file system, which is /srv on all nodes."""
        return self.folder / "disk"

    def write_remote_configuration(self, address: str) -> Path:
        """Write the configuration for commands on another host, which reaches this one by an address."""
        path = self.folder / "remote.conf"
        text = (self.folder / "slurm.conf").read_text()
        path.write_text(text.replace("(127.0.0.1)", f"({address})", 1))
        return path

    def run(self, *command: str, check: bool = True) -> str:
        """Return the standard output of a command of this cluster."""
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
        if check and done.returncode:
            raise AssertionError(f"{command}: exit code {done.returncode}: {done.stderr}{done.stdout}")
        return done.stdout

    def kill_node(self, name: str) -> None:
        """Kill a node: its slurmd and every process of its jobs, at once. Its state stays on disk."""
        self._kill(name)
        for process in self._find_processes(f"SLURMD_NODENAME={name}"):
            _send(process, signal.SIGKILL)

    def return_node(self, name: str) -> None:
        """Start a killed node again and wait until it accepts jobs."""
        self._start_node(name)
        self._await(lambda: self._usable(name), name)

    def await_nodes(self) -> None:
        """Wait until slurmctld has an answer of every node; on a busy computer a node can be late.

        Slurm drains a node that refuses a job, as it does if slurmctld forgot in a crash that the job runs there
        already. Such a node is resumed, as its administrator would do.
        """
        for name in self.nodes:
            self._await(lambda name=name: self._usable(name), name)

    def kill_controller(self) -> None:
        """Kill slurmctld with SIGKILL; jobs continue, commands fail."""
        self._kill("slurmctld")

    def start_controller(self) -> None:
        """Start slurmctld and wait until it answers.

        A killed slurmctld has not saved the last numbers of jobs. Slurm would use them again, and kill the new
        jobs on nodes that remember the old ones.
        """
        self._first_job += 1000
        configuration = self.folder / "slurm.conf"
        lines = configuration.read_text().splitlines(keepends=True)
        kept = [line for line in lines if not line.startswith("FirstJobId=")]
        configuration.write_text("".join([*kept, f"FirstJobId={self._first_job}\n"]))
        self._spawn("slurmctld", ["slurmctld", "-D"])
        self._await(lambda: "UP" in self.run("scontrol", "ping", check=False).split(), "slurmctld")

    def read_logs(self) -> str:
        """Return the last lines of the logs of all daemons, and the state of each node with its reason."""
        logs = sorted((*self.folder.glob("*.log"), *self.folder.glob("*.out")))
        lines = [f"{log.name}: {log.read_text(errors='replace')[-3000:]}" for log in logs]
        return "\n".join([*lines, self.run("sinfo", "-h", "-N", "-p", "main", "-o", "%N %T %E", check=False)])

    def stop(self) -> None:
        """End every process of the cluster and its jobs, and remove its files."""
        for name in reversed(list(self._running)):  # nodes, slurmctld, munged
            self._kill(name)
        for process in self._find_processes():
            _send(process, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self) -> None:
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(64))
        (self.folder / "state").mkdir(mode=0o755)
        self.disk.mkdir(mode=0o755)
        ports = _free_ports(len(self.nodes) + 1)
        (self.folder / "slurm.conf").write_text(self._configuration(ports))
        (self.folder / "gres.conf").write_text(
            f"NodeName={','.join(self._gpu_nodes)} Name=gpu "
            + ("File=/dev/tty[0-1]\n" if Path("/dev/tty1").exists() else "Count=2\n")
        )
        munge = self.folder / "munge.socket"
        files = [f"--{each}-file={self.folder}/munge.{each}" for each in ("key", "log", "pid", "seed")]
        self._spawn("munged", ["munged", "--foreground", "--force", f"--socket={munge}", *files])
        self._await(munge.is_socket, "munged")
        self.start_controller()
        for name in self.nodes:
            self._start_node(name)
        self.await_nodes()

    @property
    def _gpu_nodes(self) -> tuple[str, ...]:
        return self.nodes[-2:]

    def _configuration(self, ports: list[int]) -> str:
        lines = [
            CONFIGURATION.format(
                name=self.folder.name.replace("_", "-"),
                host=socket.gethostname(),
                port=ports[0],
                user=getpass.getuser() if os.geteuid() else "root",
                folder=self.folder,
                timeout=self._timeout,
            )
        ]
        for position, name in enumerate(self.nodes):
            features = "fast,avx" if position < len(self.nodes) / 2 else "slow"
            lines.append(
                f"NodeName={name} NodeHostname={name} NodeAddr=127.0.0.1 Port={ports[position + 1]} "
                f"CPUs={CORES} RealMemory={MEMORY_MB} Feature={features}"
                + (" Gres=gpu:2" if name in self._gpu_nodes else "")
                + "\n"
            )
        nodes, gpus = ",".join(self.nodes), ",".join(self._gpu_nodes)
        lines += (
            f"PartitionName=main Default=YES Nodes={nodes} MaxTime=2:00:00 DefaultTime=0:10:00\n",
            f"PartitionName=short Nodes={nodes} MaxTime=1\n",
            f"PartitionName=gpu Nodes={gpus} MaxTime=2:00:00\n",
        )
        return "".join(lines)

    def _start_node(self, name: str) -> None:
        command = ["slurmd", "-D", "-N", name]
        if os.geteuid() == 0:
            script = 'hostname "$1" && mount --bind disk /srv && shift && exec "$@"'
            command = [
                *("unshare", "-pfum", "--mount-proc", "--kill-child", "sh", "-c", script, "sh", name),
                *command,
            ]
        self._spawn(name, command)

    def _spawn(self, name: str, command: list[str]) -> None:
        with (self.folder / f"{name}.out").open("ab") as log:
            self._running[name] = subprocess.Popen(
                command,
                env=self.environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _kill(self, name: str) -> None:
        process = self._running.pop(name)
        inner = _children(process.pid) if name in self.nodes and os.geteuid() == 0 else []
        for each in inner or [process.pid]:
            _send(each, signal.SIGKILL)  # unshare ends after the first process of its namespace
        process.wait()

    def _usable(self, name: str) -> bool:
        state = self.run("sinfo", "-h", "-N", "-n", name, "-p", "main", "-o", "%T", check=False).strip()
        if state.startswith("drain"):
            self.run("scontrol", "update", f"NodeName={name}", "State=RESUME", check=False)
        return state in {"idle", "mixed", "allocated", "completing"}

    def _await(self, reached: Callable[[], object], name: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while not reached():
            code = self._running[name].poll()
            if code is not None or time.monotonic() > end:
                raise AssertionError(f"{name} does not answer (exit code {code})\n{self.read_logs()}")
            time.sleep(0.1)

    def _find_processes(self, *also: str) -> list[int]:
        """Return the processes with the environment of this cluster (slurmd gives it to its jobs)."""
        wanted = {f"SLURM_CONF={self.environment['SLURM_CONF']}".encode(), *(each.encode() for each in also)}
        found = []
        for folder in Path("/proc").iterdir():
            try:
                if folder.name.isdecimal() and wanted <= set((folder / "environ").read_bytes().split(b"\0")):
                    found.append(int(folder.name))
            except OSError:
                continue  # it has ended, or belongs to another user
        return [process for process in found if process != os.getpid()]


def _children(process: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def _send(process: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, number)


def _free_ports(count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        port = secrets.choice(PORTS)
        with socket.socket() as tried:
            try:
                tried.bind(("0.0.0.0", port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found


def _clusters(nodes: int, node_timeout_s: int = 6) -> Iterator[SlurmCluster]:
    need_slurm()
    cluster = SlurmCluster(nodes, node_timeout_s=node_timeout_s)
    try:
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="session")
def shared_slurm_cluster() -> Iterator[SlurmCluster]:
    """A Slurm of four nodes for all tests of a process."""
    yield from _clusters(4)


@pytest.fixture
def slurm_cluster(shared_slurm_cluster: SlurmCluster) -> SlurmCluster:
    """The shared Slurm, with all its nodes, whatever the tests before have done to them."""
    shared_slurm_cluster.await_nodes()
    return shared_slurm_cluster


@pytest.fixture(scope="session")
def slurm16_cluster() -> Iterator[SlurmCluster]:
    """A Slurm of 16 nodes for all tests of a process."""
    yield from _clusters(16)


@pytest.fixture
def fragile_cluster() -> Iterator[SlurmCluster]:
    """A Slurm of four nodes that notices a dead node after some seconds, for one test that kills a node."""
    yield from _clusters(4, node_timeout_s=2)
