"""Staging primitives: atomic file creation, independent copies of files and trees, records of task outputs.

A staged file is a clone or a copy, so a change of it never changes its source. It appears under its name only
when it is complete. A directory is merged into an existing one file by file; other files in the existing
directory are not changed.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

from weft.backends.attempt.content import transfer
from weft.backends.attempt.digests import (
    DIGESTS,
    LARGE_BYTES,
    DigestCache,
    FileVersion,
    boot_id,
    file_version,
    find_version,
    is_settled,
    is_unchanged,
    tree_version,
    wait_for_clock,
)
from weft.backends.attempt.file_sync import is_sync_enabled, sync_files
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
from weft.backends.attempt.temporary_files import remove_stale, temporary_name
from weft.backends.attempt.trees import (
    TreeEntry,
    digest_entries,
    is_wildcard,
    match_names,
    open_tree_file,
    remove_tree,
    walk_tree,
)
from weft.backends.file_record import FileRecord
from weft.errors import nearest
from weft.records import dataclass

_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_TRIES = 1000


@contextmanager
def atomic_file(directory: int, name: str, *, mode: int = 0o666, synced: bool = False) -> Iterator[int]:
    """Open a file for writing; it is renamed to ``name`` when the block succeeds and removed otherwise.

    With ``synced``, the content is synced to the disk before the file is renamed, so that a power failure
    leaves either the old or the new content under the name.
    """
    temporary, fd = _create_temporary(directory, mode)
    try:
        with FileDescriptor(fd):
            yield fd
            if synced and is_sync_enabled():
                os.fsync(fd)
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise


@contextmanager
def unnamed_file(directory: int) -> Iterator[int]:
    """Open an unlinked temporary file for writing and reading; it is removed at the end of the block."""
    temporary, fd = _create_temporary(directory, 0o600)
    with FileDescriptor(fd):
        os.unlink(temporary, dir_fd=directory)
        yield fd


def _create_temporary(directory: int, mode: int) -> tuple[str, int]:
    remove_stale(directory)
    # Another process may have left a file of this name.
    for _ in range(_MOST_TRIES):
        temporary = temporary_name()
        with suppress(FileExistsError):
            return temporary, os.open(temporary, _CREATE, mode, dir_fd=directory)
    raise FileExistsError(temporary)


CopyPermissions = Literal["kept", "read-only", "own"]
"""``kept``: a copy gets the permissions and times of its source; ``read-only``: the same without write
permission; ``own``: a copy gets the permissions of a new file of the user.
"""


def clone_or_copy(
    source_root: Path,
    source: str,
    target_root: Path,
    name: str,
    *,
    digest: str | None = None,
    modes: CopyPermissions = "kept",
    synced: bool = False,
) -> int:
    """Stage a file or directory under another name; return the number of bytes copied (0: clones only).

    If ``digest`` is given, a copy with different content is refused before it gets its name. With ``synced``,
    the copy is synced to the disk before it gets its name, and the directory that contains it is synced
    before the function returns.
    """
    parts = split_name(name)
    with open_entry(source_root, split_name(source)) as found:
        if found.is_file:
            copied_bytes, _ = copy_file(
                found, source, target_root, parts, modes=modes, digest=digest, synced=synced
            )
        elif found.is_directory:
            tree = _TreeCopy(source_root, found.parts, found.status, target_root, parts, modes, synced)
            copied_bytes = tree.place(source, digest)
        else:
            raise wrong_kind("cannot be staged", source, found.status)
    if synced:
        sync_files(target_root, [name], content=False)
    return copied_bytes


def copy_file(
    found: OpenEntry,
    source: str,
    root: Path,
    parts: Parts,
    *,
    modes: CopyPermissions = "kept",
    digest: str | None = None,
    synced: bool = False,
) -> tuple[int, str]:
    """Stage one open file; return the number of bytes copied (0: a clone) and the digest."""
    mode = _first_mode(found, modes)
    with open_parent(root, parts) as parent, staging_errors("cannot be staged", "/".join(parts)):
        with atomic_file(parent, parts[-1], mode=mode, synced=synced) as target:
            return _copy(found, source, target, modes, digest)


def _first_mode(found: OpenEntry, modes: CopyPermissions) -> int:
    """Return the permissions of a copy while it is written; the final ones are set afterwards."""
    if modes != "own":
        return 0o600
    return 0o777 if found.status.st_mode & 0o111 else 0o666


def _copy(
    found: OpenEntry, source: str, target: int, modes: CopyPermissions, digest: str | None
) -> tuple[int, str]:
    before = found.status
    with FileDescriptor(reopen_for_reading(found, source)) as fd:
        began_ns = time.time_ns()
        known = DIGESTS.find(before)
        copied_bytes, made = transfer(fd, target, before, name=source, known=known)
        if not is_unchanged(before, os.fstat(fd)):
            why = "it changed while it was read"
            raise StagingProblem("cannot be copied", source, why, number=errno.EAGAIN)
    if known is None and is_settled(before, began_ns):
        DIGESTS.add(before, made)
    if digest and made != digest:
        raise _checksum_problem(source)
    if modes != "own":
        os.fchmod(target, stat.S_IMODE(before.st_mode) & (0o777 if modes == "kept" else 0o555))
        os.utime(target, ns=(before.st_mtime_ns, before.st_mtime_ns))
    return copied_bytes, made


def _checksum_problem(source: str) -> StagingProblem:
    why = "its checksum differs from the recorded one, so it was modified"
    return StagingProblem("cannot be staged", source, why)


@dataclass(frozen=True, slots=True)
class _TreeCopy:
    """A directory that is being staged: it is built under a temporary name, then moved to its target."""

    source_root: Path
    source_parts: Parts
    status: os.stat_result
    root: Path
    parts: Parts
    modes: CopyPermissions
    synced: bool

    def place(self, source: str, digest: str | None) -> int:
        temporary = (*self.parts[:-1], temporary_name())
        with open_parent(self.root, temporary) as parent:
            remove_stale(parent)
        make_directory(self.root, "/".join(temporary))
        try:
            entries, copied_bytes, made = self._build(temporary)
            if digest and made != digest:
                raise _checksum_problem(source)
            if self.modes != "own":
                self._date(temporary, entries)
            if self.synced:
                sync_files(self.root, ["/".join(temporary)])
            if not self._try_move(temporary):
                self._merge(temporary, entries)
                if self.synced:
                    sync_files(self.root, ["/".join(self.parts)])
        finally:
            remove_tree(self.root, "/".join(temporary))
        return copied_bytes

    def _build(self, temporary: Parts) -> tuple[list[TreeEntry], int, str]:
        """Build the copy; return its entries, the number of bytes copied, and its digest."""
        pairs: list[tuple[TreeEntry, str]] = []
        total_bytes = 0
        with DirectoryCursor(self.root, make=True) as held:
            for directory, entry in walk_tree(self.source_root, self.source_parts):
                goal = (*temporary, *entry.parts)
                with staging_errors("cannot be staged", "/".join(goal)):
                    size_bytes, digest = self._put(directory, entry, held.at(goal[:-1]))
                pairs.append((entry, digest))
                total_bytes += size_bytes
        return [entry for entry, _ in pairs], total_bytes, digest_entries(pairs)

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
        # No temporary name is needed: the directory around the file is not visible yet.
        mode = _first_mode(found, self.modes)
        with FileDescriptor(os.open(last, _CREATE, mode, dir_fd=parent)) as target:
            return _copy(found, "/".join(found.parts), target, self.modes, None)

    def _date(self, temporary: Parts, entries: list[TreeEntry]) -> None:
        """Set the times of directories to those of their sources, deepest directories first.

        By these times a later check recognises that the staged directory is unchanged.
        """
        dated = [(entry.parts, entry.status) for entry in entries if entry.is_directory]
        for parts, status in reversed([((), self.status), *dated]):
            with open_directory(self.root, (*temporary, *parts)) as directory:
                os.utime(directory, ns=(status.st_mtime_ns, status.st_mtime_ns))

    def _try_move(self, temporary: Parts) -> bool:
        """Rename the finished tree to its target; return False if the target is a non-empty directory."""
        name = "/".join(self.parts)
        with open_parent(self.root, self.parts) as parent, staging_errors("cannot be staged", name):
            try:
                os.rename(temporary[-1], self.parts[-1], src_dir_fd=parent, dst_dir_fd=parent)
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise
                return False
            return True

    def _merge(self, temporary: Parts, entries: list[TreeEntry]) -> None:
        """Move the files into the existing target directory; files of the same name are replaced."""
        with DirectoryCursor(self.root) as sources, DirectoryCursor(self.root, make=True) as targets:
            for entry in entries:
                goal = (*self.parts, *entry.parts)
                if entry.is_directory:
                    targets.at(goal)
                    continue
                source, target = sources.at((*temporary, *entry.parts)[:-1]), targets.at(goal[:-1])
                with staging_errors("cannot be staged", "/".join(goal)):
                    os.rename(goal[-1], goal[-1], src_dir_fd=source, dst_dir_fd=target)


def move(root: Path, source: str, name: str) -> None:
    """Rename an entry below a root; missing parent directories of the new name are created."""
    old, new = split_name(source), split_name(name)
    with open_directory(root, old[:-1]) as before, open_parent(root, new) as after:
        with staging_errors("cannot be moved", source):
            os.rename(old[-1], new[-1], src_dir_fd=before, dst_dir_fd=after)


_WRITING = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


def collect_outputs(
    workdir: Path, patterns: Sequence[str], *, missing_ok: bool = False, read_only: bool = False
) -> tuple[FileRecord, ...]:
    """Return the records of the declared outputs, in declared order; a directory is one output.

    With ``read_only``, the outputs are made read-only first. Raises StagingProblem for an output that is
    missing (unless ``missing_ok``), for a link that leads out of the directory, and for an entry that is
    neither a file nor a directory.
    """
    found: dict[str, bool] = {}
    for pattern in patterns:
        if not (names := match_names(workdir, pattern)) and not missing_ok:
            raise _missing_output(workdir, pattern)
        for name in names:
            found.setdefault(name, pattern.endswith("/"))
    for name in found if read_only else ():
        # Permissions are part of the status, so they must be final before it is measured.
        make_read_only(workdir, name)
    return tuple(measure_file(workdir, name, directory=directory) for name, directory in found.items())


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
    """Return the record of a file or directory; if ``directory`` is True, it must be a directory."""
    with open_entry(workdir, split_name(name)) as found:
        if found.is_directory:
            return _measure_tree(workdir, name, found)
        if directory:
            raise StagingProblem("was not written", f"{name}/", "it is a file, not a directory")
        digest = DIGESTS.of_entry(found, name)
        # The cache holds only digests that are out of doubt.
        return file_record(name, digest, file_version(found.status, settled=DIGESTS.has(found.status)))


def _measure_tree(workdir: Path, name: str, found: OpenEntry) -> FileRecord:
    before = tree_version(found, [entry for _, entry in walk_tree(workdir, found.parts)])
    if before.size_bytes >= LARGE_BYTES:
        wait_for_clock(before.changed_ns)
        before = tree_version(found, [entry for _, entry in walk_tree(workdir, found.parts)])
    digest, entries = DIGESTS.of_tree(workdir, found.parts)
    after = tree_version(found, entries)
    return file_record(name, digest, replace(after, settled=before.settled and before.is_same(after)))


def file_record(name: str, digest: str, version: FileVersion) -> FileRecord:
    """Return the record of a file with this digest and version."""
    return FileRecord(
        name=name,
        size_bytes=version.size_bytes,
        digest=digest,
        modified_ns=version.modified_ns,
        inode=version.inode,
        changed_ns=version.changed_ns if version.settled else 0,
    )


def is_intact(directory: Path, file: FileRecord, *, boot: str | None = None, thorough: bool = False) -> bool:
    """Return whether a file still has the recorded content.

    The content is read if the status of the file does not prove that it is unchanged, and always with
    ``thorough``. ``boot`` identifies the boot of the system during which the file was recorded; if it is
    None, this is the current boot. After another boot the status proves nothing.
    """
    try:
        version = find_version(directory, file.name)
        if not version.looks_like(file):
            return False
        if not thorough and version.describes(file, boot_id() if boot is None else boot):
            return True
        # A new cache, so that the content is read again.
        return (DigestCache() if thorough else DIGESTS).of_path(directory, file.name) == file.digest
    except StagingProblem:
        return False


def looks_intact(directory: Path, file: FileRecord) -> bool:
    """Return whether a file has the recorded size and modification time; its content is not checked."""
    try:
        return find_version(directory, file.name).looks_like(file)
    except StagingProblem:
        return False


def make_read_only(workdir: Path, name: str) -> None:
    """Make a file, or all files of a directory, read-only; directories stay writable."""
    with open_entry(workdir, split_name(name)) as found:
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
    """Make a file read-only; if the file has further hard links, it is first replaced by a copy.

    The other links may be outside the directory, where permissions must not change.
    """
    with open_entry(workdir, parts) as found:
        if _try_make_read_only(found):
            return
    name = "/".join(parts)
    with open_directory(workdir, parts[:-1]) as parent:
        before = os.fstat(parent)
        clone_or_copy(workdir, name, workdir, name)
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
