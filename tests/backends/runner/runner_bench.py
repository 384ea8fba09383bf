"""A runner with a link to it, for tests with real processes and timeouts."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from patience import PATIENCE_S
from weft.backends.runner.processes import read_process
from weft.backends.runner.records import RecordLog, SealedRecords
from weft.backends.runner.runner_link import RunnerLink

__all__ = ["TOKEN", "Bench", "is_running", "wait_until"]

TOKEN = "a secret of the tests"


def wait_until(happened: Callable[[], object], what: str) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < end_s, f"never: {what}"
        time.sleep(0.01)


class Bench:
    """A link to a runner, and a directory for its tasks."""

    def __init__(self, root: Path, **settings: Any) -> None:
        self.work = root / "work"
        self.work.mkdir(parents=True, exist_ok=True)
        self.directory = root / "runner"
        self.settings = {"idle_s": 60.0, "grace_s": 5.0} | settings
        self.link = self.new_link()
        self.here = self.link.connect()
        self.received: list[dict[str, Any]] = []

    def new_link(self, token: str = TOKEN) -> RunnerLink:
        environment = {"PATH": os.environ["PATH"], "BASE": "base"}
        return RunnerLink(self.directory, token, environment=environment, **self.settings)

    def start(self, attempt: int, *argv: str, **more: Any) -> None:
        order: Mapping[str, Any] = {
            "do": "start", "attempt": attempt, "argv": list(argv), "env": {}, "cwd": str(self.work), "stdin": None,
            "stdout": str(self.work / f"out{attempt}"), "stderr": str(self.work / f"err{attempt}"), "append": False,
            "time_s": None, "memory_bytes": None, "cores": None, "reports_start": True,
        }  # fmt: skip
        self.send({**order, **more})

    def sh(self, attempt: int, script: str, **more: Any) -> None:
        self.start(attempt, "/bin/sh", "-c", script, **more)

    def python(self, attempt: int, program: str, **more: Any) -> None:
        self.start(attempt, sys.executable, "-I", "-S", "-c", program, **more)

    def send(self, message: Mapping[str, Any]) -> None:
        self.link.send(message)
        self.link.flush()

    def wait_for(self, kind: str, attempt: int | None = None) -> dict[str, Any]:
        """Wait for a message and return it; other messages are kept."""
        end_s = time.monotonic() + PATIENCE_S
        while True:
            for at, message in enumerate(self.received):
                if message["is"] == kind and (attempt is None or message["attempt"] == attempt):
                    return self.received.pop(at)
            assert time.monotonic() < end_s, f"no {kind} of {attempt}, but {self.received}"
            select.select([self.link], [], [], 0.2)
            self.received += self.link.receive()

    def records(self, log: str) -> dict[int, dict[str, Any]]:
        """Return the records in a log of the runner (``starts``, ``ends``), by attempt."""
        records = SealedRecords(str(self.directory), TOKEN)
        try:
            return RecordLog.read(records, log)
        finally:
            records.close()

    def wait_for_end(self, attempt: int) -> dict[str, Any]:
        return self.wait_for("ended", attempt)

    def out(self, attempt: int) -> str:
        return (self.work / f"out{attempt}").read_text()

    def written(self, name: str) -> str:
        """Wait for a file of a task and return its first line."""
        path = self.work / name
        wait_until(lambda: path.exists() and path.read_text().endswith("\n"), f"{name} is written")
        return path.read_text().strip()

    def wait_for_pid(self, name: str) -> int:
        """Wait until a task has written a process number, and return it."""
        return int(self.written(name))

    def close(self) -> None:
        try:
            self.link.kill()
        finally:
            self.link.close()


def is_running(pid: int) -> bool:
    return read_process(pid) is not None
