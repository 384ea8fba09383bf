"""Staging primitives: atomic file creation, digests, hard links or copies, and measured task outputs.

A digest is the BLAKE2b hash (20 bytes) of a file's content, cached by device, inode, size and modification
time. Timestamps are coarse: a file modified a moment ago could change again without a visible change of its
time, so its digest is not cached.

A staged file appears under its name only when it is complete. A directory is merged into an existing one file
by file; other files in it stay untouched.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Literal

from weft.backends.attempt.safe_paths import (  # fmt: skip
    DirectoryCursor,
    FileDescriptor,
    OpenEntry,
    Parts,
    StagingProblem,
    list_names,
    make_directory,
    open_directory,
    open_entry,
    open_parent,
    quote_name,
    reopen_for_reading,
    split_name,
    staging_errors,
    wrong_kind,
)
from weft.backends.attempt.trees import (
    DIGEST_SIZE,
    TreeEntry,
    digest_entries,
    is_wildcard,
    match_names,
    open_tree_file,
    remove_tree,
    walk_tree,
)
from weft.backends.backend import FileRecord
from weft.errors import nearest
from weft.records import dataclass

_NUMBERS = count()
_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK_BYTES = 1 << 20
_MOST_TRIES = 1000


def temporary_name() -> str:
    """Return a process-unique hidden name, which wildcards do not match."""
    return f".weft-new-{os.getpid()}-{next(_NUMBERS)}"


@contextmanager
def atomic_file(directory: int, name: str, *, mode: int = 0o666) -> Iterator[int]:
    """Open a file for writing; it is renamed to ``name`` when the block succeeds and removed otherwise."""
    temporary, fd = _create_temporary(directory, mode)
    try:
        with FileDescriptor(fd):
            yield fd
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise


@contextmanager
def unnamed_file(directory: int) -> Iterator[int]:
    """Open an unlinked temporary file for writing and reading; it vanishes with the block."""
    temporary, fd = _create_temporary(directory, 0o600)
    with FileDescriptor(fd):
        os.unlink(temporary, dir_fd=directory)
        yield fd


def _create_temporary(directory: int, mode: int) -> tuple[str, int]:
    # A process that died earlier may have left a file with the same process number in its name.
    for _ in range(_MOST_TRIES):
        temporary = temporary_name()
        with suppress(FileExistsError):
            return temporary, os.open(temporary, _CREATE, mode, dir_fd=directory)
    raise FileExistsError(temporary)


def write_all(content: bytes, target: int) -> None:
    """Write ``content`` to an open file, continuing after partial writes."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(target, rest) :]


def read_chunks(source: int, expected_bytes: int) -> Iterator[bytes]:
    """Read an open file in chunks; a file of exactly ``expected_bytes`` needs no additional read.

    The caller checks afterwards whether the file changed while it was read.
    """
    at = 0
    most = min(expected_bytes + 1, _CHUNK_BYTES)
    while chunk := os.pread(source, most, at):
        yield chunk
        at += len(chunk)
        if len(chunk) < most and at == expected_bytes:
            return
        most = _CHUNK_BYTES


def copy_content(source: int, target: int, expected_bytes: int) -> tuple[int, str]:
    """Copy one open file to another; return the number of bytes and the digest."""
    whole = hashlib.blake2b(digest_size=DIGEST_SIZE)
    size_bytes = 0
    for chunk in read_chunks(source, expected_bytes):
        whole.update(chunk)
        size_bytes += len(chunk)
        write_all(chunk, target)
    return size_bytes, whole.hexdigest()


_SETTLED_NS = 1_000_000_000
"""Minimum age of a file's last modification before its digest is cached."""
_MAX_CACHED = 65_536

_Key = tuple[int, int, int, int]


class DigestCache:
    """Least-recently-used cache of file digests. Threads may share it."""

    def __init__(self, most: int = _MAX_CACHED) -> None:
        self._most = most
        self._digests: OrderedDict[_Key, str] = OrderedDict()
        self._lock = Lock()

    def of(self, fd: int, name: str) -> str:
        """Return the digest of an open file."""
        with staging_errors("cannot be read", name):
            status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise StagingProblem("cannot be read", name, "it is not a regular file")
        return self._lookup(status) or self._read(fd, name, status)

    def of_entry(self, found: OpenEntry, name: str) -> str:
        """Return the digest of an entry opened by ``open_entry``."""
        known = self._lookup(found.status) if found.is_file else None
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

    def _of_tree_entry(self, root: Path, directory: int, entry: TreeEntry) -> str:
        with open_tree_file(root, directory, entry) as found:
            return self.of_entry(found, "/".join(entry.location))

    def _read(self, fd: int, name: str, before: os.stat_result) -> str:
        settled = 0 <= before.st_mtime_ns <= time.time_ns() - _SETTLED_NS
        whole = hashlib.blake2b(digest_size=DIGEST_SIZE)
        with staging_errors("cannot be read", name):
            for chunk in read_chunks(fd, before.st_size):
                whole.update(chunk)
            after = os.fstat(fd)
        if not is_unchanged(before, after):
            raise StagingProblem("cannot be read", name, "it changed while it was read", number=errno.EAGAIN)
        digest = whole.hexdigest()
        if settled:
            with self._lock:
                self._digests[_key(before)] = digest
                if len(self._digests) > self._most:
                    self._digests.popitem(last=False)
        return digest

    def _lookup(self, status: os.stat_result) -> str | None:
        key = _key(status)
        with self._lock:
            if (known := self._digests.get(key)) is not None:
                self._digests.move_to_end(key)
        return known


DIGESTS = DigestCache()
"""The cache of this process."""


def is_unchanged(before: os.stat_result, after: os.stat_result) -> bool:
    """Return whether two statuses belong to the same, unmodified file."""
    return _key(before) == _key(after)


def _key(status: os.stat_result) -> _Key:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


CopyMethod = Literal["link", "copy"]
CopyPermissions = Literal["kept", "own"]
"""``kept``: a copy gets the permissions and times of its source; ``own``: those of a new file of the user."""

_COPY_INSTEAD = (errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS)
"""Errors of ``link`` after which a copy is made: other file system, foreign owner, link limit, no link
support.
"""


def link_or_copy(
    source_root: Path,
    source: str,
    target_root: Path,
    name: str,
    *,
    how: CopyMethod = "link",
    digest: str | None = None,
    modes: CopyPermissions = "kept",
) -> int:
    """Stage a file or directory under another name; return the number of bytes copied (0: hard links only).

    With ``digest``, a copy with different content is refused before it gets its name. Linked files are not
    read.
    """
    parts = split_name(name)
    with open_entry(source_root, split_name(source)) as found:
        if found.is_file:
            return _place_file(found, source, target_root, parts, how, modes, digest)[0]
        if found.is_directory:
            tree = _TreeCopy(source_root, found.parts, found.status, target_root, parts, how, modes)
            return tree.place(source, digest)
        raise wrong_kind("cannot be staged", source, found.status)


def _place_file(
    found: OpenEntry,
    source: str,
    root: Path,
    parts: Parts,
    how: CopyMethod,
    modes: CopyPermissions,
    digest: str | None,
) -> tuple[int, str]:
    """Stage one file; return the number of bytes copied and the digest of the copy ("" for a link)."""
    with open_parent(root, parts) as parent, staging_errors("cannot be staged", "/".join(parts)):
        if how == "link" and _try_link(found.fd, parent, parts[-1]):
            return 0, ""
        with atomic_file(parent, parts[-1], mode=_first_mode(found, modes)) as target:
            return _copy(found, source, target, modes, digest)


def _try_link(fd: int, parent: int, last: str) -> bool:
    # Link the open descriptor: the name could refer to another file by now.
    handle = f"/proc/self/fd/{fd}"
    try:
        try:
            os.link(handle, last, dst_dir_fd=parent, follow_symlinks=True)
        except FileExistsError:
            _link_over(handle, parent, last)
    except OSError as error:
        if error.errno in _COPY_INSTEAD:
            return False
        raise
    return True


def _link_over(handle: str, parent: int, last: str) -> None:
    temporary = temporary_name()
    os.link(handle, temporary, dst_dir_fd=parent, follow_symlinks=True)
    try:
        os.rename(temporary, last, src_dir_fd=parent, dst_dir_fd=parent)
    finally:
        # ``rename`` does nothing if both names refer to the same file.
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=parent)


def _first_mode(found: OpenEntry, modes: CopyPermissions) -> int:
    """Return the permissions of a copy while it is written; the final ones are set when it is complete."""
    if modes == "kept":
        return 0o600
    return 0o777 if found.status.st_mode & 0o111 else 0o666


def _copy(
    found: OpenEntry, source: str, target: int, modes: CopyPermissions, digest: str | None
) -> tuple[int, str]:
    before = found.status
    with FileDescriptor(reopen_for_reading(found, source)) as fd:
        size_bytes, made = copy_content(fd, target, before.st_size)
        if not is_unchanged(before, os.fstat(fd)):
            why = "it changed while it was read"
            raise StagingProblem("cannot be copied", source, why, number=errno.EAGAIN)
    if digest and made != digest:
        raise _checksum_problem(source)
    if modes == "kept":
        os.fchmod(target, stat.S_IMODE(before.st_mode) & 0o777)
        os.utime(target, ns=(before.st_mtime_ns, before.st_mtime_ns))
    return size_bytes, made


def _checksum_problem(source: str) -> StagingProblem:
    why = "its checksum differs from the recorded one, so it was modified"
    return StagingProblem("cannot be staged", source, why)


@dataclass(frozen=True, slots=True)
class _TreeCopy:
    """A directory being staged: built under a temporary name beside its target, then moved there."""

    source_root: Path
    source_parts: Parts
    status: os.stat_result
    root: Path
    parts: Parts
    how: CopyMethod
    modes: CopyPermissions

    def place(self, source: str, digest: str | None) -> int:
        temporary = (*self.parts[:-1], temporary_name())
        make_directory(self.root, "/".join(temporary))
        try:
            entries, copied_bytes, made = self._build(temporary)
            if digest and made and made != digest:
                raise _checksum_problem(source)
            if self.modes == "kept":
                self._date(temporary, entries)
            if not self._is_moved(temporary):
                self._merge(temporary, entries)
        finally:
            remove_tree(self.root, "/".join(temporary))
        return copied_bytes

    def _build(self, temporary: Parts) -> tuple[list[TreeEntry], int, str]:
        """Build the copy; return its entries, the bytes copied, and the digest if all files were copied."""
        pairs: list[tuple[TreeEntry, str]] = []
        total_bytes = 0
        with DirectoryCursor(self.root, make=True) as held:
            for directory, entry in walk_tree(self.source_root, self.source_parts):
                goal = (*temporary, *entry.parts)
                with staging_errors("cannot be staged", "/".join(goal)):
                    size_bytes, digest = self._put(directory, entry, held.at(goal[:-1]))
                pairs.append((entry, digest))
                total_bytes += size_bytes
        whole = all(digest or not entry.is_file for entry, digest in pairs)
        return [entry for entry, _ in pairs], total_bytes, digest_entries(pairs) if whole else ""

    def _put(self, directory: int, entry: TreeEntry, parent: int) -> tuple[int, str]:
        last = entry.parts[-1]
        if entry.is_file:
            with open_tree_file(self.source_root, directory, entry) as found:
                return self._put_file(found, parent, last)
        if entry.link:
            os.symlink(entry.link, last, dir_fd=parent)
        else:
            os.mkdir(last, dir_fd=parent)
        return 0, ""

    def _put_file(self, found: OpenEntry, parent: int, last: str) -> tuple[int, str]:
        if self.how == "link" and _try_link(found.fd, parent, last):
            return 0, ""
        # No temporary name is needed: the directory around the file is not visible yet.
        mode = _first_mode(found, self.modes)
        with FileDescriptor(os.open(last, _CREATE, mode, dir_fd=parent)) as target:
            return _copy(found, "/".join(found.parts), target, self.modes, None)

    def _date(self, temporary: Parts, entries: list[TreeEntry]) -> None:
        """Set the times of directories, deepest first; staged directories are identified by them."""
        dated = [(entry.parts, entry.status) for entry in entries if entry.is_directory]
        for parts, status in reversed([((), self.status), *dated]):
            with open_directory(self.root, (*temporary, *parts)) as directory:
                os.utime(directory, ns=(status.st_mtime_ns, status.st_mtime_ns))

    def _is_moved(self, temporary: Parts) -> bool:
        """Rename the finished tree to its target; return False if a non-empty directory exists there."""
        with (
            open_parent(self.root, self.parts) as parent,
            staging_errors("cannot be staged", "/".join(self.parts)),
        ):
            try:
                os.rename(temporary[-1], self.parts[-1], src_dir_fd=parent, dst_dir_fd=parent)
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise
                return False
            return True

    def _merge(self, temporary: Parts, entries: list[TreeEntry]) -> None:
        """Move the files into the existing directory and replace files of the same name."""
        with DirectoryCursor(self.root) as sources, DirectoryCursor(self.root, make=True) as targets:
            for entry in entries:
                goal = (*self.parts, *entry.parts)
                if entry.is_directory:
                    targets.at(goal)
                    continue
                source, target = sources.at((*temporary, *entry.parts)[:-1]), targets.at(goal[:-1])
                with staging_errors("cannot be staged", "/".join(goal)):
                    os.rename(goal[-1], goal[-1], src_dir_fd=source, dst_dir_fd=target)


_WRITING = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


def collect_outputs(
    workdir: Path, patterns: Sequence[str], *, missing_ok: bool = False
) -> tuple[FileRecord, ...]:
    """Find and measure the declared outputs, in declared order; a directory counts as one output.

    Raises StagingProblem for an output that is missing (unless ``missing_ok``), for a link that leads out of
    the directory, and for an entry that is neither file nor directory.
    """
    made: dict[str, FileRecord] = {}
    for pattern in patterns:
        if not (names := match_names(workdir, pattern)) and not missing_ok:
            raise _missing_output(workdir, pattern)
        for name in names:
            if name not in made:
                made[name] = measure_file(workdir, name, directory=pattern.endswith("/"))
    return tuple(made.values())


def _missing_output(workdir: Path, pattern: str) -> StagingProblem:
    if is_wildcard(pattern):
        return StagingProblem("was not written", pattern, "no file in the task's directory matches it")
    *above, last = split_name(pattern)
    meant = None
    with suppress(StagingProblem), open_directory(workdir, above) as directory:
        meant = nearest(last, list_names(directory))
    advice = f"there is a file {quote_name('/'.join((*above, meant)))}" if meant else ""
    return StagingProblem("was not written", pattern, "the task ended without it", advice=advice)


def measure_file(workdir: Path, name: str, *, directory: bool = False) -> FileRecord:
    """Return the record of a file or directory; with ``directory`` it must be a directory."""
    with open_entry(workdir, split_name(name)) as found:
        if found.is_directory:
            digest, entries = DIGESTS.of_tree(workdir, found.parts)
            size_bytes, modified_ns = _tree_extent(found, entries)
        elif directory:
            raise StagingProblem("was not written", f"{name}/", "it is a file, not a directory")
        else:
            digest = DIGESTS.of_entry(found, name)
            size_bytes, modified_ns = found.status.st_size, found.status.st_mtime_ns
    return FileRecord(name=name, size_bytes=size_bytes, digest=digest, modified_ns=modified_ns)


def _tree_extent(found: OpenEntry, entries: Sequence[TreeEntry]) -> tuple[int, int]:
    """Return the total bytes of a directory and its latest modification time."""
    size_bytes = sum(entry.status.st_size for entry in entries if entry.is_file)
    times = [entry.status.st_mtime_ns for entry in entries if not entry.link]
    return size_bytes, max([found.status.st_mtime_ns, *times])


def extent(directory: Path, name: str) -> tuple[int, int]:
    """Return the bytes of a file or directory and its modification time."""
    with open_entry(directory, split_name(name)) as found:
        if found.is_directory:
            return _tree_extent(found, [entry for _, entry in walk_tree(directory, found.parts)])
        if found.is_file:
            return found.status.st_size, found.status.st_mtime_ns
        raise wrong_kind("cannot be used", name, found.status)


def is_intact(directory: Path, file: FileRecord, *, thorough: bool = False) -> bool:
    """Return whether a file still has the recorded size and time; ``thorough``: also the recorded content."""
    try:
        if extent(directory, file.name) != (file.size_bytes, file.modified_ns):
            return False
        # A new cache, so that the content is read again.
        return not thorough or DigestCache().of_path(directory, file.name) == file.digest
    except StagingProblem:
        return False


def make_read_only(workdir: Path, files: Sequence[FileRecord]) -> None:
    """Make output files read-only; the directories that contain them stay writable."""
    for file in files:
        with open_entry(workdir, split_name(file.name)) as found:
            parts, is_directory = found.parts, found.is_directory
        if is_directory:
            for directory, entry in walk_tree(workdir, parts):
                if entry.is_file and entry.status.st_mode & _WRITING:
                    _make_entry_read_only(workdir, directory, entry)
        else:
            _make_file_read_only(workdir, parts)


def _make_entry_read_only(workdir: Path, directory: int, entry: TreeEntry) -> None:
    with open_tree_file(workdir, directory, entry) as found:
        done = _try_make_read_only(found)
    if not done:
        _make_file_read_only(workdir, entry.location)


def _make_file_read_only(workdir: Path, parts: Parts) -> None:
    """Make a file read-only; one with further hard links, possibly outside, is first replaced by a copy."""
    with open_entry(workdir, parts) as found:
        if _try_make_read_only(found):
            return
    name = "/".join(parts)
    with open_directory(workdir, parts[:-1]) as parent:
        before = os.fstat(parent)
        link_or_copy(workdir, name, workdir, name, how="copy")
        # Restore the directory's time: it identifies the staged directory, and no entry was added or removed.
        os.utime(parent, ns=(before.st_atime_ns, before.st_mtime_ns))
    with open_entry(workdir, parts) as found:
        _try_make_read_only(found)


def _try_make_read_only(found: OpenEntry) -> bool:
    mode = stat.S_IMODE(found.status.st_mode)
    if not mode & _WRITING:
        return True
    if not found.is_file or found.status.st_nlink > 1:
        return False
    with staging_errors("cannot be made read-only", "/".join(found.parts)):
        # Use the descriptor: the name could refer to another file by now.
        os.chmod(f"/proc/self/fd/{found.fd}", mode & ~_WRITING)  # noqa: PTH101
    return True
