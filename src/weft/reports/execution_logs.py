"""The last lines that a program wrote, from weft's records of its attempt.

Whatever lies there was written by a program that nobody trusts: only plain files are read, no link out of the
project is followed, little is read, and what a terminal would obey is taken out.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from weft.backends.layout import Layout
from weft.backends.staging.problem import StagingProblem
from weft.backends.staging.safe_paths import open_inside
from weft.reports.labels import printable

__all__ = ["LastLines", "Logs"]

_LINES = 10
_MOST_BYTES = 16_384
_LONGEST = 500
"""Characters of one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastLines:
    """The end of a log."""

    path: str
    """Of the log, relative to the project."""
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """The records of one execution's attempts."""

    layout: Layout
    execution: int

    def last(self, attempt: int, lines: int = _LINES) -> LastLines | None:
        """Give the end of what a program said of its errors, else of its output; None: it said nothing."""
        folder = self.layout.records(self.execution, attempt).relative_to(self.layout.project)
        for name in ("err", "out"):
            path = str(folder / name)
            found = _last_lines(_end_of(self.layout.project, path), lines)
            if found:
                return LastLines(path=path, lines=found)
        return None


def _last_lines(data: bytes, most: int) -> tuple[str, ...]:
    text = data.decode("utf-8", "replace").rstrip()
    if not text:
        return ()
    # A tab is shown as blanks; a carriage return begins a line, as programs that count on one line mean it.
    found = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")[-most:]
    return tuple(printable(line.expandtabs(4))[:_LONGEST] for line in found)


def _end_of(project: Path, path: str) -> bytes:
    try:
        descriptor = open_inside(project, path)
    except (OSError, StagingProblem):
        return b""  # no log is no error: the report says what else is known
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return b""
        return os.pread(descriptor, _MOST_BYTES, max(0, found.st_size - _MOST_BYTES))
    except OSError:
        return b""
    finally:
        os.close(descriptor)
