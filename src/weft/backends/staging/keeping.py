"""Keeping: the restart files of a running task are copied to our side, so that another machine can go on.

A program may write while weft copies. So a copy counts only if no file has changed from before the first was
read until after the last was; else the one kept before stays, and weft comes back later. A new copy is made
in a directory of its own, and a pointer is then renamed to it.

    NUMBER/...     the files
    current        the pointer: the directory and what is in it
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from weft.backends.products import MadeFile
from weft.backends.staging.digests import digest_tree
from weft.backends.staging.made import extent
from weft.backends.staging.new_files import new_file, written
from weft.backends.staging.placing import place
from weft.backends.staging.problem import StagingProblem, telling
from weft.backends.staging.removing import remove_tree
from weft.backends.staging.safe_paths import directory_at, names_in, open_inside
from weft.backends.staging.wildcards import matching

__all__ = ["keep", "kept_files", "restore"]

_POINTER = "current"
_LONGEST_POINTER_BYTES = 1 << 26
_TICK_NS = 20_000_000
"""Times of change may be this coarse: a file written within it could be written again unseen."""

_CHANGING = (errno.ENOENT, errno.EAGAIN)
_Extents = dict[str, tuple[int, int]]


def keep(workdir: Path, names: Sequence[str], into: Path) -> bool:
    """Copy the restart files that are there, if any has changed and none changes now; say if it was done."""
    was = {file.name: (file.size_bytes, file.modified_ns) for file in kept_files(into)}
    before = _extents(workdir, names)
    if not before or before == was:
        return False
    _let_settle(before)
    with telling("cannot be made", str(into)):
        into.mkdir(parents=True, exist_ok=True)
    number = _next_number(into)
    try:
        before = _extents(workdir, names)
        for name in before:
            place(workdir, name, into, f"{number}/{name}", how="copy")
        if not before or _extents(workdir, names) != before:
            return False
        _point(into, number, before)
        return True
    except StagingProblem as problem:
        if problem.number in _CHANGING:
            return False
        raise
    finally:
        _tidy(into)


def kept_files(kept: Path) -> tuple[MadeFile, ...]:
    """List the restart files that are kept, as they were in the task's directory; empty: none are."""
    return _pointed(kept)[1]


def restore(kept: Path, workdir: Path) -> bool:
    """Copy what is kept into a task's directory; say whether there was anything."""
    number, files = _pointed(kept)
    for file in files:
        place(kept, f"{number}/{file.name}", workdir, file.name, how="copy", digest=file.digest)
    return bool(files)


def _extents(workdir: Path, names: Sequence[str]) -> _Extents:
    """Measure the restart files that are there."""
    found: _Extents = {}
    for pattern in names:
        for name in matching(workdir, pattern):
            try:
                found[name] = extent(workdir, name)
            except StagingProblem as problem:
                # A program may write a new one and rename it: for a moment there is none.
                if problem.number != errno.ENOENT:
                    raise
    return found


def _let_settle(extents: _Extents) -> None:
    """Wait until the clock of the file system has moved on since the last change."""
    age_ns = time.time_ns() - max(modified_ns for _, modified_ns in extents.values())
    if 0 <= age_ns < _TICK_NS:
        time.sleep((_TICK_NS - age_ns) / 1e9)


def _next_number(into: Path) -> int:
    with directory_at(into, ()) as listing:
        return max((int(name) for name in names_in(listing) if name.isdecimal()), default=0) + 1


def _point(into: Path, number: int, extents: _Extents) -> None:
    files = [
        MadeFile(
            name=name,
            size_bytes=size_bytes,
            digest=digest_tree(into, f"{number}/{name}"),
            modified_ns=modified_ns,
        )
        for name, (size_bytes, modified_ns) in extents.items()
    ]
    text = json.dumps({"directory": str(number), "files": [asdict(file) for file in files]})
    with (
        telling("cannot be kept", str(into)),
        directory_at(into, ()) as listing,
        new_file(listing, _POINTER) as fd,
    ):
        written(text.encode(), fd)


def _pointed(kept: Path) -> tuple[str, tuple[MadeFile, ...]]:
    try:
        fd = open_inside(kept, _POINTER)
    except StagingProblem as problem:
        if problem.number == errno.ENOENT:
            return "", ()
        raise
    try:
        record = json.loads(os.pread(fd, _LONGEST_POINTER_BYTES, 0))
        return str(record["directory"]), tuple(MadeFile(**file) for file in record["files"])
    except (ValueError, KeyError, TypeError) as error:
        why = "it is not what weft wrote there"
        raise StagingProblem("cannot be read", str(kept / _POINTER), why) from error
    finally:
        os.close(fd)


def _tidy(into: Path) -> None:
    """Remove the copies that the pointer does not name."""
    current = _pointed(into)[0]
    with directory_at(into, ()) as listing:
        names = names_in(listing)
    for name in names:
        if name not in (current, _POINTER):
            remove_tree(into, name)
