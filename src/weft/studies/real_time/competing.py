"""Competing: processes that compete for a core with whatever runs there, for as long as they are wanted."""

from __future__ import annotations

import subprocess
import sys
from types import TracebackType
from typing import Self

__all__ = ["Competitors"]

_PROGRAM = """
import os, sys, threading
os.sched_setaffinity(0, {int(sys.argv[1])})
try:
    if os.cpu_count() > 1:
        os.setpriority(os.PRIO_PROCESS, 0, -15)
        open("/proc/self/autogroup", "w").write("-15")
except OSError:
    pass
def wait():
    sys.stdin.read()
    os._exit(0)
threading.Thread(target=wait, daemon=True).start()
while True:
    for _ in range(100_000):
        pass
"""
"""Each comes first on the host as the jobs do (``search_program``), so that they compete with these alone.
They end when nobody holds the other end of their input any more, whatever becomes of weft."""


class Competitors:
    """So many processes on one core, once they are let loose."""

    def __init__(self, core: int, number: int) -> None:
        self._core = core
        self._number = number
        self._running: list[subprocess.Popen[bytes]] = []

    def begin(self) -> None:
        """Let them loose; a second time changes nothing."""
        if not self._running:
            command = [sys.executable, "-I", "-S", "-c", _PROGRAM, str(self._core)]
            self._running = [
                # The scheduler weighs sessions: each is to count as much as the job.
                subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)  # noqa: S603
                for _ in range(self._number)
            ]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._running:
            process.kill()
            process.communicate()
        self._running = []
