"""Checkpoints: copies of a running task's restart files, so that the task can resume on another machine.

A program may write while its files are copied. A copy is accepted only if no file changed between the first
and the last read; otherwise the previous copy stays and the copy is repeated later. Each copy is made in a
directory of its own, and a pointer file is then replaced atomically.

    NUMBER/...     the files
    current        the pointer: the directory and the records of its files
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from weft.backends.attempt.safe_paths import (
    FileDescriptor,
    StagingProblem,
    list_names,
    open_directory,
    open_inside,
    staging_errors,
)
from weft.backends.attempt.staging import DIGESTS, atomic_file, extent, link_or_copy, write_all
from weft.backends.attempt.trees import match_names, remove_tree
from weft.backends.backend import FileRecord

_POINTER = "current"
_LONGEST_POINTER_BYTES = 1 << 26
_TICK_NS = 20_000_000
"""Granularity of file timestamps: within it, a second modification would not be visible."""

_CHANGING = (errno.ENOENT, errno.EAGAIN)
_Extents = dict[str, tuple[int, int]]


def keep_checkpoint(workdir: Path, names: Sequence[str], into: Path) -> bool:
    """Copy the restart files if one has changed and none changes meanwhile; return whether it was done."""
    was = {file.name: (file.size_bytes, file.modified_ns) for file in list_checkpoint(into)}
    if not (before := _extents(workdir, names)) or before == was:
        return False
    _wait_for_clock(before)
    with staging_errors("cannot be created", str(into)):
        into.mkdir(parents=True, exist_ok=True)
    number = _next_number(into)
    try:
        before = _extents(workdir, names)
        for name in before:
            link_or_copy(workdir, name, into, f"{number}/{name}", how="copy")
        if not before or _extents(workdir, names) != before:
            return False
        _write_pointer(into, number, before)
        return True
    except StagingProblem as problem:
        if problem.number in _CHANGING:
            return False
        raise
    finally:
        _remove_old_copies(into)


def list_checkpoint(kept: Path) -> tuple[FileRecord, ...]:
    """Return the records of the kept restart files, with the names they had in the task's directory."""
    return _read_pointer(kept)[1]


def restore_checkpoint(kept: Path, workdir: Path) -> bool:
    """Copy the kept files into a task's directory; return whether there were any."""
    number, files = _read_pointer(kept)
    for file in files:
        link_or_copy(kept, f"{number}/{file.name}", workdir, file.name, how="copy", digest=file.digest)
    return bool(files)


def _extents(workdir: Path, names: Sequence[str]) -> _Extents:
    """Return size and modification time of each existing restart file."""
    found: _Extents = {}
    for pattern in names:
        for name in match_names(workdir, pattern):
            try:
                found[name] = extent(workdir, name)
            except StagingProblem as problem:
                # A program that replaces a file may leave it missing for a moment.
                if problem.number != errno.ENOENT:
                    raise
    return found


def _wait_for_clock(extents: _Extents) -> None:
    """Sleep until the file system clock has advanced beyond the last modification."""
    age_ns = time.time_ns() - max(modified_ns for _, modified_ns in extents.values())
    if 0 <= age_ns < _TICK_NS:
        time.sleep((_TICK_NS - age_ns) / 1e9)


def _next_number(into: Path) -> int:
    with open_directory(into, ()) as listing:
        return max((int(name) for name in list_names(listing) if name.isdecimal()), default=0) + 1


def _write_pointer(into: Path, number: int, extents: _Extents) -> None:
    files = [
        FileRecord(
            name=name,
            size_bytes=size_bytes,
            digest=DIGESTS.of_path(into, f"{number}/{name}"),
            modified_ns=modified_ns,
        )
        for name, (size_bytes, modified_ns) in extents.items()
    ]
    text = json.dumps({"directory": str(number), "files": [asdict(file) for file in files]})
    with (
        staging_errors("cannot be kept", str(into)),
        open_directory(into, ()) as listing,
        atomic_file(listing, _POINTER) as fd,
    ):
        write_all(text.encode(), fd)


def _read_pointer(kept: Path) -> tuple[str, tuple[FileRecord, ...]]:
    try:
        with FileDescriptor(open_inside(kept, _POINTER)) as fd:
            record = json.loads(os.pread(fd, _LONGEST_POINTER_BYTES, 0))
        return str(record["directory"]), tuple(FileRecord(**file) for file in record["files"])
    except StagingProblem as problem:
        if problem.number == errno.ENOENT:
            return "", ()
        raise
    except (ValueError, KeyError, TypeError) as error:
        why = "its content was not written by weft"
        raise StagingProblem("cannot be read", str(kept / _POINTER), why) from error


def _remove_old_copies(into: Path) -> None:
    """Remove the copies that the pointer does not name."""
    current = _read_pointer(into)[0]
    with open_directory(into, ()) as listing:
        names = list_names(listing)
    for name in names:
        if name not in (current, _POINTER):
            remove_tree(into, name)
