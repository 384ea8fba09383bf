"""A real Dask cluster on this host: a scheduler and workers, each a process of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from patience import PATIENCE_S

TESTS = Path(__file__).parent


@contextmanager
def cluster(folder: Path, *, workers: int = 1, threads: int = 2, weft: bool = True) -> Iterator[str]:
    """Start a cluster, yield its address, and end exactly the processes that were started."""
    contact = folder / "scheduler.json"
    paths = [str(TESTS), *sys.path] if weft else [path for path in sys.path if path.endswith("-packages")]
    variables = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "DASK_DISTRIBUTED__WORKER__DAEMON": "False",
        "DASK_TEMPORARY_DIRECTORY": str(folder),
    }
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *arguments: str) -> None:
        command = [sys.executable, "-m", f"distributed.cli.dask_{name}", *arguments]
        with (folder / f"{name}-{len(started)}.log").open("wb") as log:
            started.append(
                subprocess.Popen(command, env=variables, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
            )

    try:
        start(
            "scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            "--no-dashboard",
            "--scheduler-file",
            str(contact),
        )
        address = _address(contact)
        for _ in range(workers):
            start(
                "worker",
                address,
                "--host",
                "127.0.0.1",
                "--nthreads",
                str(threads),
                "--no-nanny",
                "--no-dashboard",
            )
        await_workers(address, workers)
        yield address
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _address(contact: Path) -> str:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if contact.exists() and contact.read_text().strip():
            return str(json.loads(contact.read_text())["address"])
        time.sleep(0.1)
    raise AssertionError(
        f"no scheduler within {PATIENCE_S} s: {(contact.parent / 'scheduler-0.log').read_text()}"
    )


def await_workers(address: str, workers: int) -> None:
    """Wait until so many workers are connected to a scheduler."""
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        if workers:
            client.wait_for_workers(workers, timeout=PATIENCE_S)


class DaskProcesses:
    """A scheduler and named workers with fixed ports and local directories, which can be killed and restarted."""

    def __init__(self, folder: Path, names: Sequence[str], *, threads: int = 2) -> None:
        self.folder = folder
        self.threads = threads
        self._ports = _free_ports(len(names) + 1)
        self._port = dict(zip(["", *names], self._ports, strict=True))
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        # A package of this name that cannot be imported hides weft from the workers.
        hidden = folder / "hidden" / "weft"
        hidden.mkdir(parents=True)
        (hidden / "__init__.py").write_text("raise ImportError('weft is not installed on this worker')")
        self._variables = {
            **{key: value for key, value in os.environ.items() if not key.startswith("WEFT_")},
            "PYTHONPATH": str(hidden.parent),
            "DASK_TEMPORARY_DIRECTORY": str(folder),
            "HOME": str(folder),
        }

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self._port['']}"

    def pid(self, name: str) -> int:
        return self._started[name].pid

    def start_scheduler(self) -> None:
        self._start("", "scheduler", "--port", str(self._port[""]))

    def start_worker(self, name: str, *prefix: str, options: Sequence[str] = ()) -> None:
        """Start a worker; one of the same name has the same port and directory as before.

        ``prefix`` are words before its command, ``options`` further options of `dask worker`.
        """
        local = self.folder / f"local-{name}"
        local.mkdir(exist_ok=True)
        self._start(
            name, "worker", self.address, "--name", name, "--worker-port", str(self._port[name]),
            "--nthreads", str(self.threads), "--no-nanny", "--local-directory", str(local), *options,
            prefix=prefix,
        )  # fmt: skip

    def _start(self, name: str, kind: str, *arguments: str, prefix: Sequence[str] = ()) -> None:
        assert name not in self._started or self._started[name].poll() is not None
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *arguments, "--host", "127.0.0.1"]
        with (self.folder / f"{name or 'scheduler'}.log").open("ab") as log:
            self._started[name] = subprocess.Popen(
                [*prefix, *command, "--no-dashboard"],
                env=self._variables,
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def kill(self, name: str) -> None:
        """Kill a worker, or the scheduler (""), and wait for its end."""
        self._started[name].kill()
        self._started[name].wait()

    def stop(self, name: str) -> None:
        self._started[name].send_signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self._started[name].send_signal(signal.SIGCONT)

    def wait_end(self, name: str) -> None:
        """Wait for a process that ends by itself, as workers do when their scheduler has ended."""
        self._started[name].wait(PATIENCE_S)

    def end_all(self) -> None:
        for process in self._started.values():
            if process.poll() is None:
                process.kill()
            process.wait()


class DaskDisk:
    """The disk of a worker that does not share the files of the project, with the interface of an ssh host."""

    def __init__(self, cluster: DaskProcesses, name: str) -> None:
        self.backend = {"scheduler": cluster.address, "worker": name}
        self.sandbox = cluster.folder / ".cache" / "weft" / "sandbox" / name

    def run(self, *command: str) -> str:
        """Run a command on the host of the worker; return its output."""
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@contextmanager
def dask_processes(
    folder: Path, names: Sequence[str], *, threads: int = 2, options: Mapping[str, Sequence[str]] = {}
) -> Iterator[DaskProcesses]:
    """Start a scheduler and named workers without weft, and end exactly these processes at the end.

    ``options`` are further options of `dask worker` by name.
    """
    found = DaskProcesses(folder, names, threads=threads)
    try:
        found.start_scheduler()
        for name in names:
            found.start_worker(name, options=options.get(name, ()))
        await_workers(found.address, len(names))
        yield found
    finally:
        found.end_all()


@pytest.fixture(scope="module")
def dask_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskProcesses]:
    """A scheduler and the workers m0 and m1 for all tests of a file; idle workers use processor time."""
    with dask_processes(tmp_path_factory.mktemp("dask"), ("m0", "m1")) as found:
        yield found


def _free_ports(count: int) -> list[int]:
    """Return free ports below those that the kernel gives to outgoing connections."""
    ports: list[int] = []
    port = 20_000 + os.getpid() * 37 % 12_000
    while len(ports) < count:
        port = port + 1 if port < 32_000 else 20_000
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        ports.append(port)
    return ports
