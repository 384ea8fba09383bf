"""New files: written under another name and renamed when they are whole, so that nobody sees half of one."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count

from weft.backends.staging.trees import DIGEST_SIZE

__all__ = ["chunks", "copied", "hidden_file", "hidden_name", "new_file", "unseen_file", "written"]

_NUMBERS = count()
_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK_BYTES = 1 << 20
_MOST_TRIES = 1000


def hidden_name() -> str:
    """Give a name that nobody else uses, and that wildcards pass over."""
    return f".weft-new-{os.getpid()}-{next(_NUMBERS)}"


@contextmanager
def new_file(directory: int, name: str, *, mode: int = 0o666) -> Iterator[int]:
    """Open a file to write in a directory; it gets its name when the block ends well, else it vanishes."""
    hidden, fd = _created(directory, mode)
    try:
        try:
            yield fd
        finally:
            os.close(fd)
        os.rename(hidden, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(hidden, dir_fd=directory)
        raise


@contextmanager
def unseen_file(directory: int, name: str, *, mode: int = 0o666) -> Iterator[int]:
    """Open a file to write in a directory that nobody looks at before it is whole, under its own name."""
    fd = os.open(name, _CREATE, mode, dir_fd=directory)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def hidden_file(directory: int) -> Iterator[int]:
    """Open a file to write and read in a directory that has no name and vanishes with the block."""
    hidden, fd = _created(directory, 0o600)
    try:
        os.unlink(hidden, dir_fd=directory)
        yield fd
    finally:
        os.close(fd)


def _created(directory: int, mode: int) -> tuple[str, int]:
    # An earlier process of the same number may have died over a file of this name.
    for _ in range(_MOST_TRIES):
        hidden = hidden_name()
        with suppress(FileExistsError):
            return hidden, os.open(hidden, _CREATE, mode, dir_fd=directory)
    raise FileExistsError(hidden)


def written(content: bytes, target: int) -> None:
    """Write all of a content to an open file."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(target, rest) :]


def chunks(source: int, expected_bytes: int) -> Iterator[bytes]:
    """Read an open file piece by piece; one as long as ``expected`` costs no call, and no room, too much.

    Whoever reads it looks afterwards whether it has changed meanwhile.
    """
    at = 0
    most = min(expected_bytes + 1, _CHUNK_BYTES)
    while chunk := os.pread(source, most, at):
        yield chunk
        at += len(chunk)
        if len(chunk) < most and at == expected_bytes:
            return
        most = _CHUNK_BYTES


def copied(source: int, target: int, expected_bytes: int) -> tuple[int, str]:
    """Copy the content of one open file to another; give its bytes and its digest."""
    whole = hashlib.blake2b(digest_size=DIGEST_SIZE)
    size_bytes = 0
    for chunk in chunks(source, expected_bytes):
        whole.update(chunk)
        size_bytes += len(chunk)
        written(chunk, target)
    return size_bytes, whole.hexdigest()
