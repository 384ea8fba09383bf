"""Small files that a task leaves in its directory, read with care: only plain files, never too much."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from weft.backends.jobs.problem import JobProblem
from weft.backends.staging.problem import StagingProblem
from weft.backends.staging.safe_paths import open_inside
from weft.errors import shorten

__all__ = ["MOST_BYTES", "Signature", "look_at", "read_text"]

MOST_BYTES = 65_536
"""Larger files are no messages."""

Signature = tuple[int, int, int]
"""Inode, size and time of the last change: another one means another content."""


def look_at(workdir: Path, name: str) -> Signature | None:
    """Tell a file's present state without reading it; None: there is none that may be read."""
    try:
        fd = open_inside(workdir, name)
    except StagingProblem:
        return None
    try:
        return _signature(os.fstat(fd))
    finally:
        os.close(fd)


def read_text(workdir: Path, name: str, *, tail: bool = False, most_bytes: int = MOST_BYTES) -> str | None:
    """Read a file; None: there is none. ``tail``: of a longer one only the end, else it is refused."""
    try:
        fd = open_inside(workdir, name)
    except StagingProblem as problem:
        if problem.number in (errno.ENOENT, errno.ENOTDIR):
            return None
        raise JobProblem(str(problem)) from None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise JobProblem(f"{shorten(name)} is no plain file")
        if status.st_size > most_bytes and not tail:
            what = f"{shorten(name)} has {status.st_size} bytes"
            raise JobProblem(what, rule=f"at most {most_bytes} bytes are read")
        start = max(0, status.st_size - most_bytes)
        content = os.pread(fd, most_bytes, start)
    except OSError as error:
        raise JobProblem(f"{shorten(name)} cannot be read: {error.strerror}") from None
    finally:
        os.close(fd)
    return content.decode("utf-8", "replace")


def _signature(status: os.stat_result) -> Signature:
    return status.st_ino, status.st_size, status.st_mtime_ns
