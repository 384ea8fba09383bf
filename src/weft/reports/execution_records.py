"""Records of an execution besides its journal: resource usage, products and logs.

Records may be missing, as for a simulation; reports then show ``-``. Logs are written by
untrusted programs: only regular files are read, no link is followed, the size is limited and control
characters are removed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from weft.backends.attempt.safe_paths import StagingProblem, open_inside
from weft.backends.backend import Product
from weft.backends.layout import ProjectLayout
from weft.engine.replan.promise import Promise
from weft.engine.states import Cause
from weft.engine.stored_fields import LAST_MOMENT_S
from weft.records import dataclass
from weft.redaction import redact_tail, tail_bytes
from weft.reports.text import printable

_LINES = 10
_MOST_BYTES = 16_384
_LONGEST = 500
"""Maximal number of characters per line of a log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTail:
    """The last lines of a log."""

    path: str
    """Path of the log relative to the project."""
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLogs:
    """Logs of the attempts of one execution."""

    layout: ProjectLayout
    execution: int
    nonce: Callable[[int], str]
    """Returns the nonce of an attempt, which is part of the path of its logs."""

    def last(self, attempt: int, cause: str = "", lines: int = _LINES) -> LogTail | None:
        """Return the last lines of an attempt's standard error; if it is empty, of its standard output.

        Return None if both are empty or missing. ``cause`` is the cause of the failure: for a prolog or an
        epilog, the logs of that module are read instead of those of the program.
        """
        folder = self.layout.records(self.execution, attempt, self.nonce(attempt))
        folder = folder.relative_to(self.layout.project)
        module = f"{cause}." if cause in (Cause.PROLOG, Cause.EPILOG) else ""
        for name in (f"{module}err", f"{module}out"):
            path = str(folder / name)
            if found := _last_lines(_end_of(self.layout.project, path), lines):
                return LogTail(path=path, lines=found)
        return None


def _last_lines(data: bytes, most: int) -> tuple[str, ...]:
    if not (text := redact_tail(data, _MOST_BYTES).rstrip()):
        return ()
    # A carriage return starts a new line, because programs use it to redraw progress displays.
    found = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")[-most:]
    return tuple(printable(line.expandtabs(4))[:_LONGEST] for line in found)


def _end_of(project: Path, path: str) -> bytes:
    try:
        descriptor = open_inside(project, path)
    except (OSError, StagingProblem):
        return b""  # a missing log is no error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return b""
        read_bytes = tail_bytes(_MOST_BYTES)
        return os.pread(descriptor, read_bytes, max(0, found.st_size - read_bytes))
    except OSError:
        return b""
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessUsage:
    """Resource usage and end of one attempt's process; unknown values are None."""

    cpu_s: float | None = None
    max_rss_bytes: float | None = None
    pid: int | None = None
    signal: int | None = None
    """Number of the signal that ended the process; None: no signal."""
    text: str = ""
    """Message of the runner, such as why the program could not start."""

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> ProcessUsage:
        """Return the usage in the end record of a runner (``user_s``, ``system_s``, ``pid``, ...)."""
        times = [record.get(key) for key in ("user_s", "system_s")]
        known = [float(seconds) for seconds in times if seconds is not None]
        return cls(
            cpu_s=sum(known) if known else None,
            max_rss_bytes=record.get("max_rss_bytes"),
            pid=record.get("pid"),
            signal=record.get("signal"),
            text=str(record.get("text") or ""),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionRecords:
    """Records of an execution besides its journal."""

    promises: Mapping[int, Promise] = field(default_factory=dict)
    """Promises by run index; reports derive a missing promise from the run's first plan."""
    measured: Mapping[int, ProcessUsage] = field(default_factory=dict)
    """Resource usage by attempt number."""
    products: Mapping[int, Product] = field(default_factory=dict)
    """Products by number of the attempt that produced them."""
    logs: AttemptLogs | None = None
    numbers: Mapping[int, int] = field(default_factory=dict)
    """Numbers shown to users, by run index; a run without a number is shown with its index."""
    zero_at_s: float | None = None
    """Unix time of the engine's time 0; None if unknown."""

    def wall(self, time_s: float | None) -> datetime | None:
        """Return the UTC time of a time on the engine's clock; None if unknown."""
        if time_s is None or self.zero_at_s is None:
            return None
        return to_datetime(self.zero_at_s + time_s)


def to_datetime(unix_s: float) -> datetime:
    """Return a Unix time as a UTC datetime; a time after the year 9999 becomes the end of that year."""
    return datetime.fromtimestamp(min(unix_s, LAST_MOMENT_S), UTC)


NO_RECORDS = ExecutionRecords()
"""Records of an execution that has nothing besides its journal."""
