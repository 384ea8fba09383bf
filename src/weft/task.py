"""For programs that weft runs: read the allocation, report progress and results, write checkpoints.

>>> from weft import task
>>> for step in range(task.restore(0), 3):
...     task.progress(step, 3)
>>> task.nodes()
1

All functions also work outside weft: there is one node, progress and results are discarded, and restart files
are in the current directory. Programs in other languages read the environment variables ``WEFT_...`` and
write the same files (docs/papers/adaptive-jobs.md, section 2).
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

__all__ = [
    "CHECKPOINTED",
    "REQUEUE",
    "attempt",
    "checkpoint",
    "checkpointed_exit",
    "cores",
    "iteration",
    "memory_mb",
    "name",
    "nodes",
    "on_checkpoint",
    "progress",
    "rank",
    "requeue",
    "require",
    "restarted",
    "restore",
    "result",
    "time_left_s",
]

CHECKPOINTED, REQUEUE = 85, 99
"""Exit codes that request another run of the task: from its restart files (85), from the start (99)."""

_IMPORTED_S = time.monotonic()
_DEFAULT_RESTART_FILE = "restart.json"
_MOST_RESULT_BYTES = 65_536
_last_step: tuple[float, float] | None = None
"""Number of iterations in the last call of ``progress``, and the time of the call (``time.monotonic``)."""


def name() -> str:
    """Return the name of the task; empty outside weft."""
    return os.environ.get("WEFT_TASK", "")


def nodes() -> int:
    """Return the number of allocated nodes."""
    return _whole("WEFT_NODES", 1)


def cores() -> int:
    """Return the number of allocated cores per node."""
    return _whole("WEFT_CORES", len(os.sched_getaffinity(0)))


def memory_mb() -> int | None:
    """Return the allocated memory in millions of bytes; None if there is no limit."""
    return _whole("WEFT_MEM_MB", 0) or None


def iteration() -> int:
    """Return the number of the current iteration of the enclosing loop, counted from 1."""
    return _whole("WEFT_ITERATION", 1)


def attempt() -> int:
    """Return the number of this attempt, counted from 1."""
    return _whole("WEFT_ATTEMPT", 1)


def restarted() -> bool:
    """Return whether restart files of an earlier attempt are available."""
    return os.environ.get("WEFT_RESTART", "0") not in ("", "0")


def time_left_s() -> float:
    """Return the seconds until the time limit; infinite without one."""
    try:
        limit_s = float(os.environ["WEFT_TIME_LEFT_S"])
    except (KeyError, ValueError):
        return math.inf
    return max(0.0, limit_s - _running_s())


def progress(done: float, of: float | None = None, *, last_iteration_s: float | None = None) -> None:
    """Report progress: ``progress(0.4)`` is a fraction of the work, ``progress(3, 10)`` counts iterations.

    ``last_iteration_s`` is the duration of the last iteration; by default it is measured between two calls.
    """
    global _last_step
    if of is None:
        report: dict[str, float] = {"done": done}
    else:
        now_s = time.monotonic()
        if last_iteration_s is None and _last_step is not None and done > _last_step[0]:
            last_iteration_s = (now_s - _last_step[1]) / (done - _last_step[0])
        _last_step = (done, now_s)
        report = {"done": done / of if of else 1.0, "iterations": int(done), "all_iterations": int(of)}
    if last_iteration_s is not None:
        report["last_iteration_s"] = last_iteration_s
    if file := os.environ.get("WEFT_PROGRESS_FILE"):
        _write(Path(file), (json.dumps(report) + "\n").encode())


def checkpoint(state: object, file: str | None = None) -> None:
    """Write a restart file atomically: bytes unchanged, any other state as JSON.

    ``file`` is a restart file that the task declares; by default the first declared one.
    """
    content = bytes(state) if isinstance(state, (bytes, bytearray)) else json.dumps(state).encode()
    _write(_restart_file(file), content)


def restore(default: Any = None, file: str | None = None, *, raw: bool = False) -> Any:
    """Return the state in a restart file (``raw``: as bytes), or ``default`` if the file does not exist."""
    try:
        content = _restart_file(file).read_bytes()
    except FileNotFoundError:
        return default
    return content if raw else json.loads(content)


def result(**values: float | str | bool | None) -> None:
    """Store named values, which conditions and commands of other tasks can use (``conv.result.delta``).

    Later calls add values or replace those of the same name.
    """
    if not (file := os.environ.get("WEFT_RESULT_FILE")):
        return
    try:
        known = json.loads(Path(file).read_bytes())
    except FileNotFoundError:
        known = {}
    content = json.dumps({**known, **values}, allow_nan=False).encode()
    if len(content) > _MOST_RESULT_BYTES:
        raise ValueError(
            f"the result has {len(content)} bytes, but at most {_MOST_RESULT_BYTES} are allowed; use a file"
        )
    _write(Path(file), content)


def require(text: str, mandatory: bool = True) -> None:
    """Change the requirements of the task: ``require("memory >= 512*MB")``; ``""`` withdraws the change.

    If the current machine does not meet a mandatory requirement, the task is migrated; write a checkpoint
    first. With ``mandatory=False`` the task is migrated only if a machine that meets the requirement is free.
    """
    _write_request("gw_reqs", text if mandatory else f"# optional\n{text}")


def rank(text: str) -> None:
    """Change the rank expression of the task; machines for which its value is higher are preferred."""
    _write_request("gw_rank", text)


def on_checkpoint(function: Callable[[], object]) -> None:
    """Register a function that writes restart files; it is called on SIGUSR1 (checkpoint) and SIGTERM (stop).

    The function runs in the main thread as a signal handler; after SIGTERM the program exits with code 85.
    """

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 -- signature of a signal handler
        function()
        if number == signal.SIGTERM:
            checkpointed_exit()

    signal.signal(signal.SIGUSR1, handle)
    signal.signal(signal.SIGTERM, handle)


def checkpointed_exit() -> NoReturn:
    """Exit with the code that requests another run from the restart files just written."""
    sys.exit(CHECKPOINTED)


def requeue() -> NoReturn:
    """Exit with the code that requests another run from the start, because this machine is unsuitable."""
    sys.exit(REQUEUE)


def _whole(variable: str, default: int) -> int:
    try:
        return int(os.environ[variable])
    except (KeyError, ValueError):
        return default


def _directory() -> Path:
    return Path(os.environ.get("WEFT_CHECKPOINT_DIR") or ".")


def _restart_file(file: str | None) -> Path:
    declared = os.environ.get("WEFT_CHECKPOINT_FILES", "").split("\n")[0]
    return _directory() / (file or declared or _DEFAULT_RESTART_FILE)


def _write_request(file: str, text: str) -> None:
    if name():
        _write(_directory() / file, text.encode())


def _write(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(content)
    temporary.replace(path)


def _running_s() -> float:
    """Return the seconds since the task started: the age of its process group leader."""
    try:
        status = Path(f"/proc/{os.getpgrp()}/stat").read_text()
        began_s = int(status.rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        up_s = float(Path("/proc/uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return time.monotonic() - _IMPORTED_S
    return max(0.0, up_s - began_s)
