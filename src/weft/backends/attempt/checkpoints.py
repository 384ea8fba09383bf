"""Checkpoints: copies of a running task's restart files, so that the task can resume on another machine.

A program may write while its files are copied. A copy is accepted only if no file changed between the first
and the last read; otherwise the previous copy stays and the copy is repeated later. Each copy is made in a
directory of its own, and a pointer file is then replaced atomically. The pointer names the attempt that wrote
the files: after a lost tail of the journal they may be those of another task.

    NUMBER/...     the files
    current        the pointer: the directory, the attempt and its nonce, and the records of the files
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from weft.backends.attempt.content import write_all
from weft.backends.attempt.digests import DIGESTS, FileVersion, find_version, wait_for_clock
from weft.backends.attempt.file_sync import sync_files
from weft.backends.attempt.safe_paths import (
    FileDescriptor,
    StagingProblem,
    list_names,
    open_directory,
    open_inside,
    staging_errors,
)
from weft.backends.attempt.staging import atomic_file, clone_or_copy, file_record, is_intact
from weft.backends.attempt.trees import match_names, remove_tree
from weft.backends.backend import FileRecord
from weft.engine.stored_fields import DAMAGE, decode_record, decode_text
from weft.private_files import FILE_MODE, make_folder

_POINTER = "current"
_LONGEST_POINTER_BYTES = 1 << 26
_NEW_FOLDERS = 3
"""Number of folders above that may be new: of the execution, of all checkpoints, and ``.weft``."""
_CHANGING = (errno.ENOENT, errno.EAGAIN)
_Versions = dict[str, FileVersion]
CheckpointMaker = tuple[int, str]
"""Number and nonce of the attempt that wrote restart files."""
NO_MAKER: CheckpointMaker = -1, ""


def keep_checkpoint(
    workdir: Path, names: Sequence[str], into: Path, maker: CheckpointMaker = NO_MAKER
) -> bool:
    """Copy the restart files if one has changed and none changes meanwhile; return whether it was done.

    ``maker`` is the attempt that wrote them.
    """
    if not (before := _find_versions(workdir, names)) or _is_kept(workdir, before, into):
        return False
    wait_for_clock(max(version.changed_ns for version in before.values()))
    with staging_errors("cannot be created", str(into)):
        make_folder(into)
    number = _next_number(into)
    try:
        before = _find_versions(workdir, names)
        for name in before:
            clone_or_copy(workdir, name, into, f"{number}/{name}")
        if not before or not _are_same(before, _find_versions(workdir, names)):
            return False
        sync_files(into, [str(number)], above=into.parents[:_NEW_FOLDERS])
        _write_pointer(into, number, before, maker)
        return True
    except StagingProblem as problem:
        if problem.number in _CHANGING:
            return False
        raise
    finally:
        _remove_old_copies(into)


def list_checkpoint(kept: Path) -> tuple[FileRecord, ...]:
    """Return the records of the kept restart files, with the names they had in the task's directory."""
    return _read_pointer(kept)[2]


def find_maker(kept: Path) -> CheckpointMaker:
    """Return the attempt that wrote the kept restart files; ``NO_MAKER`` if it is unknown."""
    return _read_pointer(kept)[1]


def restore_checkpoint(kept: Path, workdir: Path) -> bool:
    """Copy the kept files into a task's directory; return whether there were any."""
    number, _, files = _read_pointer(kept)
    for file in files:
        clone_or_copy(kept, f"{number}/{file.name}", workdir, file.name, digest=file.digest)
    return bool(files)


def _is_kept(workdir: Path, versions: _Versions, into: Path) -> bool:
    """Return whether the last copy has the content of the restart files, which may be restored from it."""
    kept = list_checkpoint(into)
    return versions.keys() == {file.name for file in kept} and all(is_intact(workdir, file) for file in kept)


def _are_same(before: _Versions, after: _Versions) -> bool:
    return before.keys() == after.keys() and all(
        version.is_same(after[name]) for name, version in before.items()
    )


def _find_versions(workdir: Path, names: Sequence[str]) -> _Versions:
    """Return the version of each existing restart file."""
    found: _Versions = {}
    for pattern in names:
        for name in match_names(workdir, pattern):
            try:
                found[name] = find_version(workdir, name)
            except StagingProblem as problem:
                # A program that replaces a file may leave it missing for a moment.
                if problem.number != errno.ENOENT:
                    raise
    return found


def _next_number(into: Path) -> int:
    with open_directory(into, ()) as listing:
        return max((int(name) for name in list_names(listing) if name.isdecimal()), default=0) + 1


def _write_pointer(into: Path, number: int, versions: _Versions, maker: CheckpointMaker) -> None:
    files = [
        file_record(name, DIGESTS.of_path(into, f"{number}/{name}"), version)
        for name, version in versions.items()
    ]
    of = {"directory": str(number), "attempt": maker[0], "nonce": maker[1]}
    text = json.dumps({**of, "files": [asdict(file) for file in files]})
    with (
        staging_errors("cannot be kept", str(into)),
        open_directory(into, ()) as listing,
        atomic_file(listing, _POINTER, mode=FILE_MODE, synced=True) as fd,
    ):
        write_all(text.encode(), fd)
    sync_files(into, [_POINTER])


def _read_pointer(kept: Path) -> tuple[str, CheckpointMaker, tuple[FileRecord, ...]]:
    try:
        with FileDescriptor(open_inside(kept, _POINTER)) as fd:
            record = json.loads(os.pread(fd, _LONGEST_POINTER_BYTES, 0))
        # An older version of weft wrote no attempt.
        maker = int(record.get("attempt", -1)), str(record.get("nonce", ""))
        files = tuple(decode_record(FileRecord, file) for file in record["files"])
        return decode_text(record["directory"]), maker, files
    except StagingProblem as problem:
        if problem.number == errno.ENOENT:
            return "", NO_MAKER, ()
        raise
    except DAMAGE as error:
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
