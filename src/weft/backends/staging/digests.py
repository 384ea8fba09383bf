"""Digests: content in one word, by BLAKE2b of 20 bytes; a file that has not changed is not read again.

A file counts as unchanged if device, inode, size and time of change are the same. Times are coarse: one that
was changed a moment ago could be changed once more without showing it, so such a one is not remembered.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from threading import Lock

from weft.backends.staging.problem import StagingProblem, telling
from weft.backends.staging.safe_paths import Parts, Reached, parts_of, reached, reopened
from weft.backends.staging.trees import DIGEST_SIZE, Leaf, leaves_of, tree_digest

__all__ = ["DIGESTS", "Digests", "digest_file", "digest_tree", "unchanged"]

_CHUNK_BYTES = 1 << 20
_SETTLED_NS = 1_000_000_000
"""How old a change must be before a file's digest is remembered."""
_MOST_REMEMBERED = 65_536

_Key = tuple[int, int, int, int]


class Digests:
    """The digests of the files that were read last."""

    def __init__(self, most: int = _MOST_REMEMBERED) -> None:
        self._most = most
        self._known: OrderedDict[_Key, str] = OrderedDict()
        self._lock = Lock()

    def of(self, fd: int, name: str) -> str:
        """Give the digest of an open file."""
        with telling("cannot be read", name):
            before = os.fstat(fd)
        if not stat.S_ISREG(before.st_mode):
            raise StagingProblem("cannot be read", name, "it is no plain file")
        key = before.st_dev, before.st_ino, before.st_size, before.st_mtime_ns
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
                return known
        settled = 0 <= before.st_mtime_ns <= time.time_ns() - _SETTLED_NS
        with telling("cannot be read", name):
            digest = _read(fd)
            after = os.fstat(fd)
        if not unchanged(before, after):
            raise StagingProblem("cannot be read", name, "it changed while it was read", number=errno.EAGAIN)
        if settled:
            self._remember(key, digest)
        return digest

    def of_reached(self, found: Reached, name: str) -> str:
        """Give the digest of a file that was reached."""
        fd = reopened(found, name)
        try:
            return self.of(fd, name)
        finally:
            os.close(fd)

    def of_leaves(self, root: Path, leaves: Iterable[Leaf]) -> str:
        """Give the digest of a directory from what is in it."""
        return tree_digest([(leaf, self._at(root, leaf.lies) if leaf.is_file else "") for leaf in leaves])

    def of_path(self, root: Path, name: str) -> str:
        """Give the digest of a file or a directory below a root."""
        with reached(root, parts_of(name)) as found:
            if found.is_directory:
                return self.of_leaves(root, leaves_of(root, found.parts))
            return self.of_reached(found, name)

    def _at(self, root: Path, parts: Parts) -> str:
        with reached(root, parts) as found:
            return self.of_reached(found, "/".join(parts))

    def _remember(self, key: _Key, digest: str) -> None:
        with self._lock:
            self._known[key] = digest
            if len(self._known) > self._most:
                self._known.popitem(last=False)


DIGESTS = Digests()
"""Those of this process."""


def digest_file(source: int | Path) -> str:
    """Give the digest of a file, by its path or open."""
    if isinstance(source, int):
        return DIGESTS.of(source, f"descriptor {source}")
    return DIGESTS.of_path(Path(os.path.realpath(source.parent)), source.name)


def digest_tree(root: Path, name: str) -> str:
    """Give the digest of a file or a directory below a root."""
    return DIGESTS.of_path(root, name)


def unchanged(before: os.stat_result, after: os.stat_result) -> bool:
    """Say whether a file is the same and nobody has written to it."""
    return (before.st_dev, before.st_ino, before.st_size, before.st_mtime_ns) == (
        after.st_dev,
        after.st_ino,
        after.st_size,
        after.st_mtime_ns,
    )


def _read(fd: int) -> str:
    whole = hashlib.blake2b(digest_size=DIGEST_SIZE)
    at = 0
    while chunk := os.pread(fd, _CHUNK_BYTES, at):
        whole.update(chunk)
        at += len(chunk)
    return whole.hexdigest()
