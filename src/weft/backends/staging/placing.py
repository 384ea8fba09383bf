"""Placing: a file or a directory gets a second place, by a hard link where one will do, else by a copy.

What is placed is seen under its name only when it is whole. A directory that is there already is added to,
file by file; nothing else in it is touched.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from weft.backends.staging.digests import unchanged
from weft.backends.staging.new_files import copied, hidden_name, new_file, unseen_file
from weft.backends.staging.problem import StagingProblem, refusal, telling
from weft.backends.staging.removing import remove_tree
from weft.backends.staging.safe_paths import (
    Held,
    Parts,
    Reached,
    directory_at,
    kind_of,
    make_directory,
    parent_of,
    parts_of,
    reached,
    reopened,
)  # fmt: skip
from weft.backends.staging.trees import Leaf, taken_hold_of, tree_digest, walked

__all__ = ["How", "Modes", "place"]

How = Literal["link", "copy"]
Modes = Literal["kept", "own"]
"""Whether a copy may be written as its source may, or as any new file of the user."""

_COPY_INSTEAD = (errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS)
"""Other file system, somebody else's file, too many links, no links at all."""


def place(
    source_root: Path,
    source: str,
    target_root: Path,
    name: str,
    *,
    how: How = "link",
    digest: str | None = None,
    modes: Modes = "kept",
) -> int:
    """Give what lies under one name another place; give the bytes that were copied (0: all are links).

    A copy whose content has not this ``digest`` is refused before it gets its name; links are not read.
    """
    parts = parts_of(name)
    with reached(source_root, parts_of(source)) as found:
        if found.is_file:
            return _placed_file(found, source, target_root, parts, how, modes, digest)[0]
        if found.is_directory:
            tree = _Tree(source_root, found.parts, found.status, target_root, parts, how, modes)
            return tree.place(source, digest)
        why = f"it is {kind_of(found.status)}, no file or directory"
        raise StagingProblem("cannot be placed", source, why)


def _placed_file(
    found: Reached, source: str, root: Path, parts: Parts, how: How, modes: Modes, digest: str | None
) -> tuple[int, str]:
    """Place one file; give the bytes that were copied and, if it was copied, its digest."""
    with parent_of(root, parts) as parent, telling("cannot be placed", "/".join(parts)):
        if how == "link" and _is_linked(found.fd, parent, parts[-1]):
            return 0, ""
        with new_file(parent, parts[-1], mode=_first_mode(found, modes)) as target:
            return _copy(found, source, target, modes, digest)


def _is_linked(fd: int, parent: int, last: str) -> bool:
    # The handle of what was looked at is linked: a name could lead elsewhere by now.
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
    hidden = hidden_name()
    os.link(handle, hidden, dst_dir_fd=parent, follow_symlinks=True)
    try:
        os.rename(hidden, last, src_dir_fd=parent, dst_dir_fd=parent)
    finally:
        # Renaming does nothing where both are names of one file.
        with suppress(FileNotFoundError):
            os.unlink(hidden, dir_fd=parent)


def _first_mode(found: Reached, modes: Modes) -> int:
    """Give what a copy may be used for while it is written; the rest comes when it is whole."""
    if modes == "kept":
        return 0o600
    return 0o777 if found.status.st_mode & 0o111 else 0o666


def _copy(found: Reached, source: str, target: int, modes: Modes, digest: str | None) -> tuple[int, str]:
    before = found.status
    fd = reopened(found, source)
    try:
        size_bytes, made = copied(fd, target, before.st_size)
        if not unchanged(before, os.fstat(fd)):
            why = "it changed while it was read"
            raise StagingProblem("cannot be copied", source, why, number=errno.EAGAIN)
    finally:
        os.close(fd)
    if digest and made != digest:
        raise _differs(source)
    if modes == "kept":
        os.fchmod(target, stat.S_IMODE(before.st_mode) & 0o777)
        os.utime(target, ns=(before.st_mtime_ns, before.st_mtime_ns))
    return size_bytes, made


def _differs(source: str) -> StagingProblem:
    why = "its checksum is not that of what was made, so somebody has changed it since"
    return StagingProblem("cannot be placed", source, why)


@dataclass(frozen=True, slots=True)
class _Tree:
    """The placing of a directory: built under a hidden name beside its place, and then moved there."""

    source_root: Path
    source_parts: Parts
    status: os.stat_result
    root: Path
    parts: Parts
    how: How
    modes: Modes

    def place(self, source: str, digest: str | None) -> int:
        hidden = (*self.parts[:-1], hidden_name())
        make_directory(self.root, "/".join(hidden))
        try:
            leaves, copied_bytes, made = self._build(hidden)
            if digest and made and made != digest:
                raise _differs(source)
            if self.modes == "kept":
                self._date(hidden, leaves)
            if not self._is_moved(hidden):
                self._merge(hidden, leaves)
        finally:
            remove_tree(self.root, "/".join(hidden))
        return copied_bytes

    def _build(self, hidden: Parts) -> tuple[list[Leaf], int, str]:
        """Build the tree; give its entries, the bytes copied and, if every file was copied, its digest."""
        pairs: list[tuple[Leaf, str]] = []
        total_bytes = 0
        with Held(self.root, make=True) as held:
            for directory, leaf in walked(self.source_root, self.source_parts):
                goal = (*hidden, *leaf.parts)
                try:
                    size_bytes, digest = self._put(directory, leaf, held.at(goal[:-1]))
                except OSError as error:
                    raise refusal("cannot be placed", "/".join(goal), error) from error
                pairs.append((leaf, digest))
                total_bytes += size_bytes
        whole = all(digest or not leaf.is_file for leaf, digest in pairs)
        return [leaf for leaf, _ in pairs], total_bytes, tree_digest(pairs) if whole else ""

    def _put(self, directory: int, leaf: Leaf, parent: int) -> tuple[int, str]:
        last = leaf.parts[-1]
        if leaf.is_file:
            found = taken_hold_of(self.source_root, directory, leaf)
            try:
                return self._put_file(found, parent, last)
            finally:
                os.close(found.fd)
        if leaf.link:
            os.symlink(leaf.link, last, dir_fd=parent)
        else:
            os.mkdir(last, dir_fd=parent)
        return 0, ""

    def _put_file(self, found: Reached, parent: int, last: str) -> tuple[int, str]:
        if self.how == "link" and _is_linked(found.fd, parent, last):
            return 0, ""
        # Under its own name: the tree around it is seen by nobody before it is whole.
        with unseen_file(parent, last, mode=_first_mode(found, self.modes)) as target:
            return _copy(found, "/".join(found.parts), target, self.modes, None)

    def _date(self, hidden: Parts, leaves: list[Leaf]) -> None:
        """Give directories the times they had: what was made is known by them. The deepest come first."""
        dated = [(leaf.parts, leaf.status) for leaf in leaves if leaf.is_directory]
        for parts, status in reversed([((), self.status), *dated]):
            with directory_at(self.root, (*hidden, *parts)) as directory:
                os.utime(directory, ns=(status.st_mtime_ns, status.st_mtime_ns))

    def _is_moved(self, hidden: Parts) -> bool:
        """Give the whole tree its name, unless there is a directory of that name."""
        with parent_of(self.root, self.parts) as parent, telling("cannot be placed", "/".join(self.parts)):
            try:
                os.rename(hidden[-1], self.parts[-1], src_dir_fd=parent, dst_dir_fd=parent)
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise
                return False
            return True

    def _merge(self, hidden: Parts, leaves: list[Leaf]) -> None:
        """Move every file into the directory that is there, over the one of its name."""
        with Held(self.root) as sources, Held(self.root, make=True) as targets:
            for leaf in leaves:
                goal = (*self.parts, *leaf.parts)
                if leaf.is_directory:
                    targets.at(goal)
                    continue
                source, target = sources.at((*hidden, *leaf.parts)[:-1]), targets.at(goal[:-1])
                with telling("cannot be placed", "/".join(goal)):
                    os.rename(goal[-1], goal[-1], src_dir_fd=source, dst_dir_fd=target)
