"""A real Dask cluster on this host: a scheduler and a worker, each a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
        _await_workers(address, workers)
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


def _await_workers(address: str, workers: int) -> None:
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        if workers:
            client.wait_for_workers(workers, timeout=PATIENCE_S)
