"""The last lines that a program wrote, from weft's records of its attempt.

Whatever lies there was written by a program that nobody trusts: only regular files are read, no link is
followed, little is read, and what a terminal would obey is taken out.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from weft.backends.layout import Layout
from weft.reports.labels import printable

__all__ = ["LastLines", "Logs"]

_LINES = 10
_MOST_BYTES = 16_384
_LONGEST = 500
"""Characters of one line."""
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


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
            path = folder / name
            text = _end_of(self.layout.project, path)
            found = _last_lines(text, lines)
            if found:
                return LastLines(path=str(path), lines=found)
        return None


def _last_lines(data: bytes, most: int) -> tuple[str, ...]:
    text = data.decode("utf-8", "replace").rstrip()
    if not text:
        return ()
    # A tab is shown as blanks; a carriage return begins a line, as programs that count on one line mean it.
    found = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")[-most:]
    return tuple(printable(line.expandtabs(4))[:_LONGEST] for line in found)


def _end_of(root: Path, path: Path) -> bytes:
    """Read the end of a regular file below a directory, through directories that are none of them links."""
    opened: list[int] = []
    try:
        opened.append(os.open(root, _FLAGS | os.O_DIRECTORY))
        for part in path.parts[:-1]:
            opened.append(os.open(part, _FLAGS | os.O_DIRECTORY, dir_fd=opened[-1]))
        opened.append(os.open(path.parts[-1], _FLAGS, dir_fd=opened[-1]))
        found = os.fstat(opened[-1])
        if not stat.S_ISREG(found.st_mode):
            return b""
        return os.pread(opened[-1], _MOST_BYTES, max(0, found.st_size - _MOST_BYTES))
    except OSError:
        return b""  # no log is no error: the report says what else is known
    finally:
        for descriptor in opened:
            os.close(descriptor)
