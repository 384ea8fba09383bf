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
from pathlib import Path
from threading import Lock

from weft.backends.staging.new_files import chunks
from weft.backends.staging.problem import StagingProblem, refusal, telling
from weft.backends.staging.safe_paths import Parts, Reached, parts_of, reached, reopened
from weft.backends.staging.trees import DIGEST_SIZE, Leaf, taken_hold_of, tree_digest, walked

__all__ = ["DIGESTS", "Digests", "digest_file", "digest_tree", "unchanged"]

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
            status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise StagingProblem("cannot be read", name, "it is no plain file")
        return self._remembered(status) or self._read(fd, name, status)

    def of_reached(self, found: Reached, name: str) -> str:
        """Give the digest of a file that was reached."""
        known = self._remembered(found.status) if found.is_file else None
        if known is not None:
            return known
        fd = reopened(found, name)
        try:
            return self._read(fd, name, found.status) if found.is_file else self.of(fd, name)
        finally:
            os.close(fd)

    def of_tree(self, root: Path, parts: Parts) -> tuple[str, list[Leaf]]:
        """Give the digest of a directory, and what is in it."""
        pairs = [
            (leaf, self._of_leaf(root, directory, leaf) if leaf.is_file else "")
            for directory, leaf in walked(root, parts)
        ]
        return tree_digest(pairs), [leaf for leaf, _ in pairs]

    def of_path(self, root: Path, name: str) -> str:
        """Give the digest of a file or a directory below a root."""
        with reached(root, parts_of(name)) as found:
            if found.is_directory:
                return self.of_tree(root, found.parts)[0]
            return self.of_reached(found, name)

    def _of_leaf(self, root: Path, directory: int, leaf: Leaf) -> str:
        found = taken_hold_of(root, directory, leaf)
        try:
            return self.of_reached(found, "/".join(leaf.lies))
        finally:
            os.close(found.fd)

    def _read(self, fd: int, name: str, before: os.stat_result) -> str:
        settled = 0 <= before.st_mtime_ns <= time.time_ns() - _SETTLED_NS
        whole = hashlib.blake2b(digest_size=DIGEST_SIZE)
        try:
            for chunk in chunks(fd, before.st_size):
                whole.update(chunk)
            after = os.fstat(fd)
        except OSError as error:
            raise refusal("cannot be read", name, error) from error
        if not unchanged(before, after):
            raise StagingProblem("cannot be read", name, "it changed while it was read", number=errno.EAGAIN)
        digest = whole.hexdigest()
        if settled:
            self._remember(_key(before), digest)
        return digest

    def _remembered(self, status: os.stat_result) -> str | None:
        key = _key(status)
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
        return known

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


def _key(status: os.stat_result) -> _Key:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
