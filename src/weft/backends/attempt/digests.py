"""Digests of files, and rules for when an earlier digest still describes a file.

A digest is the BLAKE2b hash (20 bytes) of a file's content. It is computed again unless device, inode, size,
modification time and status change time are those at the time of hashing. Programs can set the modification
time of a file, but not its status change time.

Timestamps are coarse: a file that changed a moment ago could change again while its timestamps stay the same.
The digest of such a file, or of a file with a time in the future, is not reused. After a restart of the
system, content that was not yet on disk may be lost although the timestamps are unchanged, so digests of an
earlier boot are not reused.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from weft.backends.attempt.content import hash_content
from weft.backends.attempt.safe_paths import (
    FileDescriptor,
    OpenEntry,
    Parts,
    StagingProblem,
    open_entry,
    reopen_for_reading,
    split_name,
    staging_errors,
    wrong_kind,
)
from weft.backends.attempt.trees import TreeEntry, digest_entries, open_tree_file, walk_tree
from weft.backends.file_record import FileRecord
from weft.records import dataclass

if TYPE_CHECKING:
    from typing import TypeAlias

_TICK_NS = 20_000_000
"""Granularity of file timestamps with fractions of a second."""
_COARSE_TICK_NS = 2_000_000_000
"""Granularity of file systems that store whole seconds (FAT stores even ones)."""
_SECOND_NS = 1_000_000_000
LARGE_BYTES = 8 << 20
"""Size from which hashing waits until the timestamps are settled, because hashing again would take longer."""
_MAX_CACHED = 65_536

_INTEGER_MASK = (1 << 63) - 1
"""Mask for the 63 bits, besides the sign, that an integer in the database has."""

_Key: TypeAlias = "tuple[int, int, int, int, int]"


@lru_cache(maxsize=None)
def boot_id() -> str:
    """Return the identifier of the current boot of the system; "" if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def is_settled(status: os.stat_result, now_ns: int) -> bool:
    """Return whether any change of a file after ``now_ns`` would change its timestamps."""
    changed_ns = max(status.st_mtime_ns, status.st_ctime_ns)
    tick_ns = _TICK_NS if status.st_ctime_ns % _SECOND_NS else _COARSE_TICK_NS
    return status.st_mtime_ns >= 0 and changed_ns <= now_ns - tick_ns


def wait_for_clock(changed_ns: int) -> None:
    """Sleep, at most 20 ms, until a change of a file would get a later timestamp than ``changed_ns``."""
    age_ns = time.time_ns() - changed_ns
    if 0 <= age_ns < _TICK_NS:
        time.sleep((_TICK_NS - age_ns) / 1e9)


class DigestCache:
    """Least-recently-used cache of file digests. Threads may share it."""

    def __init__(self, most: int = _MAX_CACHED) -> None:
        self._most = most
        self._digests: OrderedDict[_Key, str] = OrderedDict()
        self._lock = Lock()

    def of(self, fd: int, name: str) -> str:
        """Return the digest of an open file; ``name`` is used in error messages."""
        with staging_errors("cannot be read", name):
            status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise StagingProblem("cannot be read", name, "it is not a regular file")
        return self.find(status) or self._read(fd, name, status)

    def of_entry(self, found: OpenEntry, name: str) -> str:
        """Return the digest of an entry that ``open_entry`` opened; ``name`` is used in error messages."""
        known = self.find(found.status) if found.is_file else None
        if known is not None:
            return known
        with FileDescriptor(reopen_for_reading(found, name)) as fd:
            return self._read(fd, name, found.status) if found.is_file else self.of(fd, name)

    def of_tree(self, root: Path, parts: Parts) -> tuple[str, list[TreeEntry]]:
        """Return the digest of a directory, and the list of its entries."""
        pairs = [
            (entry, self._of_tree_entry(root, directory, entry) if entry.is_file else "")
            for directory, entry in walk_tree(root, parts)
        ]
        return digest_entries(pairs), [entry for entry, _ in pairs]

    def of_path(self, root: Path, name: str) -> str:
        """Return the digest of a file or directory below a root."""
        with open_entry(root, split_name(name)) as found:
            if found.is_directory:
                return self.of_tree(root, found.parts)[0]
            return self.of_entry(found, name)

    def find(self, status: os.stat_result) -> str | None:
        """Return the cached digest of a file with this status; None: the file must be read."""
        key = _key(status)
        with self._lock:
            if (known := self._digests.get(key)) is not None:
                self._digests.move_to_end(key)
        return known

    def has(self, status: os.stat_result) -> bool:
        """Return whether the digest of a file with this status is cached."""
        return self.find(status) is not None

    def add(self, status: os.stat_result, digest: str) -> None:
        """Store the digest of a file whose ``status`` was settled (``is_settled``) when it was hashed."""
        with self._lock:
            self._digests[_key(status)] = digest
            if len(self._digests) > self._most:
                self._digests.popitem(last=False)

    def _of_tree_entry(self, root: Path, directory: int, entry: TreeEntry) -> str:
        with open_tree_file(root, directory, entry) as found:
            return self.of_entry(found, "/".join(entry.location))

    def _read(self, fd: int, name: str, before: os.stat_result) -> str:
        if before.st_size >= LARGE_BYTES:
            wait_for_clock(max(before.st_mtime_ns, before.st_ctime_ns))
        settled = is_settled(before, time.time_ns())
        with staging_errors("cannot be read", name):
            digest = hash_content(fd, before)
            after = os.fstat(fd)
        if not is_unchanged(before, after):
            raise StagingProblem("cannot be read", name, "it changed while it was read", number=errno.EAGAIN)
        if settled:
            self.add(before, digest)
        return digest


DIGESTS = DigestCache()
"""The cache of this process."""


def is_unchanged(before: os.stat_result, after: os.stat_result) -> bool:
    """Return whether two statuses belong to the same, unmodified file."""
    return _key(before) == _key(after)


def _key(status: os.stat_result) -> _Key:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


@dataclass(frozen=True, slots=True)
class FileVersion:
    """The state of a file or directory, by which a change of its content is noticed without reading it."""

    size_bytes: int
    modified_ns: int
    """Modification time; for a directory, the latest modification time in it."""
    inode: int
    """Inode; for a directory, a hash over inodes, sizes and times of all its entries."""
    changed_ns: int
    """Status change time; for a directory, the latest status change time in it."""
    settled: bool
    """Whether any later change of the file would also change this version."""

    def describes(self, file: FileRecord, boot: str) -> bool:
        """Return whether the file with this version certainly has the content recorded in ``file``.

        ``boot`` identifies the boot of the system during which the record was made.
        """
        return (
            self.looks_like(file)
            and (self.inode, self.changed_ns) == (file.inode, file.changed_ns)
            and file.changed_ns > 0
            and boot == boot_id()
        )

    def is_same(self, other: FileVersion) -> bool:
        """Return whether two versions are equal apart from ``settled``."""
        return replace(self, settled=other.settled) == other

    def looks_like(self, file: FileRecord) -> bool:
        """Return whether this version has the recorded size and modification time."""
        return (self.size_bytes, self.modified_ns) == (file.size_bytes, file.modified_ns)


def find_version(directory: Path, name: str) -> FileVersion:
    """Return the version of a file or directory; raise StagingProblem if it is missing."""
    with open_entry(directory, split_name(name)) as found:
        if found.is_directory:
            return tree_version(found, [entry for _, entry in walk_tree(directory, found.parts)])
        if found.is_file:
            return file_version(found.status)
        raise wrong_kind("cannot be used", name, found.status)


def file_version(status: os.stat_result, *, settled: bool | None = None) -> FileVersion:
    """Return the version of a file with this status.

    If ``settled`` is None, it is determined from the current time.
    """
    settled = is_settled(status, time.time_ns()) if settled is None else settled
    return FileVersion(
        status.st_size, status.st_mtime_ns, status.st_ino & _INTEGER_MASK, status.st_ctime_ns, settled
    )


def tree_version(found: OpenEntry, entries: Iterable[TreeEntry]) -> FileVersion:
    """Return the version of a directory with these entries."""
    entries = sorted(entries, key=lambda entry: entry.parts)
    statuses = [found.status, *(entry.status for entry in entries)]
    whole = hashlib.blake2b(digest_size=8)
    for parts, status in zip([(), *(entry.parts for entry in entries)], statuses):
        whole.update(repr((parts, _key(status)[1:])).encode(errors="surrogateescape"))
    now_ns = time.time_ns()
    return FileVersion(
        sum(entry.status.st_size for entry in entries if entry.is_file),
        max([found.status.st_mtime_ns, *(entry.status.st_mtime_ns for entry in entries if not entry.link)]),
        int.from_bytes(whole.digest(), "big") & _INTEGER_MASK,
        max(status.st_ctime_ns for status in statuses),
        all(is_settled(status, now_ns) for status in statuses),
    )
