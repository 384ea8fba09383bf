"""Content of open files: functions that hash, clone and copy it; holes of sparse files stay holes.

A clone (FICLONE) shares the blocks of its source until one of the two files is written, so it costs neither
time nor space. Btrfs, XFS and a few network file systems support clones. On other file systems the content is
copied; the kernel copies it if the digest is already known. A hard link is never made, because later changes
of one file would change the other.

Work on large files takes minutes. Inside ``interruptible`` it stops at the next chunk after the given
function returns True.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from weft.backends.attempt.safe_paths import StagingProblem
from weft.backends.attempt.trees import DIGEST_SIZE
from weft.units import format_bytes

if TYPE_CHECKING:
    from typing import TypeAlias

_CHUNK_BYTES = 1 << 20
_KERNEL_CHUNK_BYTES = 4 << 20
_ZEROS = memoryview(bytes(_CHUNK_BYTES))
_BLOCK_BYTES = 512
"""Number of bytes in one block of ``st_blocks``."""
_FICLONE = 0x40049409
_NO_CLONE = (
    errno.EOPNOTSUPP,
    errno.ENOTTY,
    errno.EXDEV,
    errno.EINVAL,
    errno.EPERM,
    errno.ENOSYS,
    errno.ETXTBSY,
)
"""Errors of ``ioctl`` and ``copy_file_range`` after which this process copies the content itself."""

_LARGE_BYTES = 16 << 20
"""Before a copy of at least this number of bytes, the free space of the disk is checked."""
_MOST_RESERVED_BYTES = 256 << 20
_RESERVED_SHARE = 0.01
"""Copies leave this share of the disk free for the journal, but at most 256 MiB."""


class Interrupted(StagingProblem):
    """The work on a file was stopped because its result is no longer needed."""

    def __init__(self) -> None:
        super().__init__("was not staged", "a file", "its task was cancelled or the engine stops")


_is_interrupted: ContextVar[Callable[[], bool]] = ContextVar("is_interrupted", default=lambda: False)


@contextmanager
def interruptible(is_interrupted: Callable[[], bool]) -> Iterator[None]:
    """Make this module's functions raise Interrupted in this thread once ``is_interrupted()`` is True."""
    token = _is_interrupted.set(is_interrupted)
    try:
        yield
    finally:
        _is_interrupted.reset(token)


def check_interruption() -> None:
    """Raise Interrupted if the function passed to the enclosing ``interruptible`` returns True."""
    if _is_interrupted.get()():
        raise Interrupted


def bind_interruption() -> Callable[[], None]:
    """Return a function that other threads call to raise Interrupted when this thread is interrupted."""
    is_interrupted = _is_interrupted.get()

    def check() -> None:
        if is_interrupted():
            raise Interrupted

    return check


def write_all(content: bytes | memoryview, target: int, offset: int | None = None) -> None:
    """Write all of ``content`` to an open file at ``offset``, or at the current position if it is None."""
    rest = memoryview(content)
    while rest:
        written = os.write(target, rest) if offset is None else os.pwrite(target, rest, offset)
        rest = rest[written:]
        offset = None if offset is None else offset + written


def is_sparse(status: os.stat_result) -> bool:
    """Return whether a file is sparse: its blocks hold fewer bytes than its size."""
    return status.st_blocks * _BLOCK_BYTES < status.st_size


Piece: TypeAlias = "tuple[int, bytes | memoryview, bool]"
"""A part of a file: its offset, its content, and whether it is a hole."""


def read_pieces(source: int, status: os.stat_result) -> Iterator[Piece]:
    """Read an open file in chunks; holes are not read.

    The caller checks afterwards whether the file changed while it was read.
    """
    if not is_sparse(status):
        yield from _read_data(source, 0, status.st_size, at_end=True)
        return
    at = 0
    for start, end in _data_ranges(source, status.st_size):
        yield from _read_hole(at, start)
        yield from _read_data(source, start, end)
        at = end
    yield from _read_hole(at, status.st_size)


def _read_data(source: int, at: int, end: int, *, at_end: bool = False) -> Iterator[Piece]:
    """Read a range of an open file.

    If ``at_end`` is True, the range ends at the end of the file; if the file has grown, the new part is read
    too.
    """
    most = min(end - at + at_end, _CHUNK_BYTES)
    while most and (chunk := os.pread(source, most, at)):
        check_interruption()
        yield at, chunk, False
        at += len(chunk)
        if at_end and len(chunk) < most and at == end:
            return
        most = _CHUNK_BYTES if at_end else min(end - at, _CHUNK_BYTES)


def _read_hole(at: int, end: int) -> Iterator[Piece]:
    while at < end:
        check_interruption()
        chunk = _ZEROS[: min(end - at, _CHUNK_BYTES)]
        yield at, chunk, True
        at += len(chunk)


def _data_ranges(source: int, size_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield the start and end offset of each part of a file that is not a hole."""
    end = 0
    while end < size_bytes:
        try:
            start = os.lseek(source, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                yield end, size_bytes  # This file system does not report holes.
            return
        if start >= size_bytes:
            return
        end = min(os.lseek(source, start, os.SEEK_HOLE), size_bytes)
        yield start, end


def hash_content(source: int, status: os.stat_result) -> str:
    """Return the digest of an open file; it depends on the bytes only, not on which of them are holes."""
    whole = hashlib.blake2b(digest_size=DIGEST_SIZE)
    for _, chunk, _ in read_pieces(source, status):
        whole.update(chunk)
    return whole.hexdigest()


def transfer(
    source: int, target: int, status: os.stat_result, *, name: str, known: str | None
) -> tuple[int, str]:
    """Fill a new open file with the content of another; return the number of bytes copied and the digest.

    The number is 0 if the file was cloned. ``name`` is used in error messages. ``known`` is the digest of the
    source, or None if the digest is not certain.
    """
    if status.st_size and _try_clone(source, target):
        return 0, known or hash_content(target, status)
    require_space(target, min(status.st_size, status.st_blocks * _BLOCK_BYTES), name)
    if known is not None and _try_copy_in_kernel(source, target, status):
        return status.st_size, known
    return _copy(source, target, status)


def _try_clone(source: int, target: int) -> bool:
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError as error:
        if error.errno in _NO_CLONE:
            return False
        raise
    return True


def _try_copy_in_kernel(source: int, target: int, status: os.stat_result) -> bool:
    """Copy a file with ``copy_file_range``; return False if the system or its disks do not support this."""
    if not hasattr(os, "copy_file_range"):  # old C libraries lack it
        return False
    ranges = _data_ranges(source, status.st_size) if is_sparse(status) else [(0, status.st_size)]
    try:
        for start, end in ranges:
            at = start
            while at < end:
                check_interruption()
                count = os.copy_file_range(source, target, min(end - at, _KERNEL_CHUNK_BYTES), at, at)
                if not count:
                    break  # The file has become shorter, which the caller detects.
                at += count
    except OSError as error:
        if error.errno in _NO_CLONE:
            return False
        raise
    os.ftruncate(target, status.st_size)
    return True


def _copy(source: int, target: int, status: os.stat_result) -> tuple[int, str]:
    whole = hashlib.blake2b(digest_size=DIGEST_SIZE)
    size_bytes = end = 0
    for at, chunk, is_hole in read_pieces(source, status):
        whole.update(chunk)
        size_bytes = at + len(chunk)
        if not is_hole:
            write_all(chunk, target, at)
            end = size_bytes
    if end < size_bytes:
        os.ftruncate(target, size_bytes)
    return size_bytes, whole.hexdigest()


def require_space(target: int, needed_bytes: int, name: str) -> None:
    """Raise StagingProblem if writing ``needed_bytes`` more would fill the disk of an open file.

    If ``needed_bytes`` is less than ``_LARGE_BYTES``, the disk is not checked. ``name`` is used in the
    message.
    """
    if needed_bytes < _LARGE_BYTES:
        return
    disk = os.fstatvfs(target)
    reserved_bytes = min(_MOST_RESERVED_BYTES, int(_RESERVED_SHARE * disk.f_blocks * disk.f_frsize))
    free_bytes = disk.f_bavail * disk.f_frsize
    if free_bytes < needed_bytes + reserved_bytes:
        needed, left, kept = map(format_bytes, (needed_bytes, free_bytes, reserved_bytes))
        why = f"it needs {needed}, but the disk has {left} left, of which {kept} stay free"
        raise StagingProblem("cannot be written", name, why, number=errno.ENOSPC)
