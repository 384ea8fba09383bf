"""For programs that weft runs: what they were given, and how they say what they are doing (S3 section 2).

>>> from weft import task
>>> for step in range(task.restore(0), 3):
...     task.progress(step, 3)
>>> task.nodes()
1

Everything works outside of weft too: there is one node, nobody hears of progress and results, and restart
files lie in the current directory. Programs in other languages read the variables ``WEFT_...`` and write the
same files.
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
"""Exit codes: "restart files are written, run me again" and "run me again from the beginning"."""

_IMPORTED_S = time.monotonic()
_DEFAULT_RESTART_FILE = "restart.json"
_MOST_RESULT_BYTES = 65_536
_last_step: tuple[float, float] | None = None
"""The step that was reported last, and when."""


def name() -> str:
    """Name the task; "": not run by weft."""
    return os.environ.get("WEFT_TASK", "")


def nodes() -> int:
    """Give the nodes that were allocated."""
    return _whole("WEFT_NODES", 1)


def cores() -> int:
    """Give the cores on each node that were allocated."""
    return _whole("WEFT_CORES", len(os.sched_getaffinity(0)))


def memory_mb() -> int | None:
    """Give the memory that may be used, in millions of bytes; None: nobody says."""
    return _whole("WEFT_MEM_MB", 0) or None


def iteration() -> int:
    """Give the iteration of the loop around the task, from 1."""
    return _whole("WEFT_ITERATION", 1)


def attempt() -> int:
    """Give how often the task has been started, this time included."""
    return _whole("WEFT_ATTEMPT", 1)


def restarted() -> bool:
    """Say whether restart files of an earlier attempt are in place."""
    return os.environ.get("WEFT_RESTART", "0") not in ("", "0")


def time_left_s() -> float:
    """Give the seconds until the time limit ends the task; infinite if it has none."""
    try:
        limit_s = float(os.environ["WEFT_TIME_LEFT_S"])
    except (KeyError, ValueError):
        return math.inf
    return max(0.0, limit_s - _running_s())


def progress(done: float, of: float | None = None, *, last_iteration_s: float | None = None) -> None:
    """Report progress: ``progress(0.4)`` is a share of all the work, ``progress(3, 10)`` counts iterations.

    What the last iteration took is measured between two reports unless it is given.
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
    file = os.environ.get("WEFT_PROGRESS_FILE")
    if file:
        _write(Path(file), (json.dumps(report) + "\n").encode())


def checkpoint(state: object, file: str | None = None) -> None:
    """Write a restart file, wholly or not at all: bytes as they are, everything else as JSON.

    ``file``: one of those that the task declares; the first of them by default.
    """
    content = bytes(state) if isinstance(state, bytes | bytearray) else json.dumps(state).encode()
    _write(_restart_file(file), content)


def restore(default: Any = None, file: str | None = None, *, raw: bool = False) -> Any:
    """Read what ``checkpoint`` wrote, in this attempt or an earlier one; ``raw``: as bytes."""
    try:
        content = _restart_file(file).read_bytes()
    except FileNotFoundError:
        return default
    return content if raw else json.loads(content)


def result(**values: float | str | bool | None) -> None:
    """Leave values for conditions and commands of other tasks (``conv.result.delta``), also bit by bit."""
    file = os.environ.get("WEFT_RESULT_FILE")
    if not file:
        return
    try:
        known = json.loads(Path(file).read_bytes())
    except FileNotFoundError:
        known = {}
    content = json.dumps({**known, **values}, allow_nan=False).encode()
    if len(content) > _MOST_RESULT_BYTES:
        raise ValueError(
            f"a result of {len(content)} bytes; at most {_MOST_RESULT_BYTES}: write a file instead"
        )
    _write(Path(file), content)


def require(text: str, mandatory: bool = True) -> None:
    """Demand other machines from now on: ``require("memory >= 512*MB")``; "" takes it back.

    A mandatory demand moves the task if its machine does not meet it; write a checkpoint first. Otherwise it
    stays, and may be moved if a better machine is free.
    """
    _tell("gw_reqs", text if mandatory else f"# optional\n{text}")


def rank(text: str) -> None:
    """Prefer other machines from now on: those with a higher value."""
    _tell("gw_rank", text)


def on_checkpoint(function: Callable[[], object]) -> None:
    """Have a function write restart files when weft asks for them (SIGUSR1) or ends the task (SIGTERM).

    It is called between two steps of the main thread; after SIGTERM the program ends with 85.
    """

    def asked(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 -- a handler is given both
        function()
        if number == signal.SIGTERM:
            checkpointed_exit()

    signal.signal(signal.SIGUSR1, asked)
    signal.signal(signal.SIGTERM, asked)


def checkpointed_exit() -> NoReturn:
    """End: restart files are written, run me again."""
    sys.exit(CHECKPOINTED)


def requeue() -> NoReturn:
    """End: this machine will not do, run me again from the beginning."""
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


def _tell(file: str, text: str) -> None:
    if name():
        _write(_directory() / file, text.encode())


def _write(path: Path, content: bytes) -> None:
    """Write a file so that nobody sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_bytes(content)
    beside.replace(path)


def _running_s() -> float:
    """Give how long the task runs: its first process leads the group."""
    try:
        status = Path(f"/proc/{os.getpgrp()}/stat").read_text()
        began_s = int(status.rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        up_s = float(Path("/proc/uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return time.monotonic() - _IMPORTED_S
    return max(0.0, up_s - began_s)
