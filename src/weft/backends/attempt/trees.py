"""Directory trees: walk, match wildcards, digest and remove, without following links out of a root.

A tree is staged as one unit. A link to a file inside the task's directory is treated as that file; a link to
a directory inside the tree stays a link. Any other link, FIFO, socket or device is refused.

Wildcards follow shell rules: ``*`` and ``?`` match within one component and never match a hidden name.
``[ab]`` is a wildcard only in a name that also contains ``*`` or ``?``. ``**`` matches any number of
directories. A name without ``*`` and ``?`` is taken literally, including brackets.
"""

from __future__ import annotations

import errno
import fnmatch
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

from weft.backends.attempt.safe_paths import (
    MAX_DEPTH,
    FileDescriptor,
    OpenEntry,
    Parts,
    StagingProblem,
    describe_kind,
    list_names,
    open_child,
    open_directory,
    open_entry,
    open_root,
    reopen_for_reading,
    split_name,
    staging_errors,
    wrong_kind,
)
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """An entry of a directory, found by ``walk_directories``."""

    parts: Parts
    """Location of the entry below the root."""
    status: os.stat_result
    """Status of the entry itself; a link is not followed."""


def walk_directories(root: Path, parts: Sequence[str] = ()) -> Iterator[tuple[int, list[DirectoryEntry]]]:
    """Yield (descriptor, entries) for each directory of a tree.

    A descriptor is valid until the next iteration.
    """
    todo = [tuple(parts)]
    while todo:
        here = todo.pop()
        if len(here) >= MAX_DEPTH:
            raise StagingProblem(
                "cannot be listed", "/".join(here), f"it is more than {MAX_DEPTH} directories deep"
            )
        with open_directory(root, here) as listing:
            found = list(_list_entries(listing, here))
            yield listing, found
        todo.extend(entry.parts for entry in reversed(found) if stat.S_ISDIR(entry.status.st_mode))


def _list_entries(directory: int, parts: Parts) -> Iterator[DirectoryEntry]:
    with staging_errors("cannot be listed", "/".join(parts)):
        names = list_names(directory)
    for name in names:
        try:
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            continue  # The entry was removed since the directory was listed.
        yield DirectoryEntry((*parts, name), status)


DIGEST_SIZE = 20
"""Length of a digest in bytes."""


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """An entry of a directory tree that is staged."""

    parts: Parts
    """Location of the entry relative to the top of the tree."""
    location: Parts
    """Location of the content below the root, with links resolved."""
    status: os.stat_result
    link: str = ""
    """Target of a link inside the tree; "": the entry is not a link."""

    @property
    def is_file(self) -> bool:
        """Return whether the entry is a file, or a link to a file."""
        return not self.link and stat.S_ISREG(self.status.st_mode)

    @property
    def is_directory(self) -> bool:
        """Return whether the entry is a directory and not a link to one."""
        return not self.link and stat.S_ISDIR(self.status.st_mode)


def walk_tree(root: Path, parts: Parts) -> Iterator[tuple[int, TreeEntry]]:
    """Yield the entries of a directory tree, sorted by name; a directory comes before its content.

    Each entry comes with the descriptor of the directory that contains it, which is valid until the next
    iteration. The descriptor is -1 for an entry that was found through a link.
    """
    depth = len(parts)
    for directory, entries in walk_directories(root, parts):
        for entry in entries:
            mode = entry.status.st_mode
            if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
                yield directory, TreeEntry(entry.parts[depth:], entry.parts, entry.status)
            elif stat.S_ISLNK(mode):
                yield -1, _resolve_link(root, parts, entry)
            else:
                raise wrong_kind("cannot be staged", "/".join(entry.parts), entry.status)


def open_tree_file(root: Path, directory: int, entry: TreeEntry) -> OpenEntry:
    """Open a file that ``walk_tree`` found. The caller closes the descriptor."""
    location = entry.location
    found = open_entry(root, location) if directory < 0 else open_child(directory, location)
    if not found.is_file:
        os.close(found.fd)
        why = f"it was replaced by {describe_kind(found.status)}"
        raise StagingProblem("cannot be staged", "/".join(location), why, number=errno.EAGAIN)
    return found


def _resolve_link(root: Path, parts: Parts, entry: DirectoryEntry) -> TreeEntry:
    below, name = entry.parts[len(parts) :], "/".join(entry.parts)
    try:
        opened = open_entry(root, entry.parts)
    except StagingProblem as problem:
        if not problem.is_missing:
            raise
        what, advice = "it is a link to a file that does not exist", "correct or remove the link"
        raise StagingProblem("cannot be staged", name, what, advice=advice, number=problem.number) from None
    with opened as found:
        if found.is_file:
            return TreeEntry(below, found.parts, found.status)
        if found.is_directory and found.parts[: len(parts)] == parts:
            to = "/".join(found.parts[len(parts) :]) or "."
            return TreeEntry(
                below, found.parts, entry.status, os.path.relpath(f"/{to}", "/" + "/".join(below[:-1]))
            )
        what = "it is a link to a directory outside the staged directory"
        advice = "replace it by a copy of that directory, or name that directory as an input or output"
        if not found.is_directory:
            what, advice = f"it is a link to {describe_kind(found.status)}", "remove the link"
        raise StagingProblem("cannot be staged", name, what, advice=advice)


def digest_entries(entries: Iterable[tuple[TreeEntry, str]]) -> str:
    """Return the digest of a tree, computed from its entries and the digests of its files.

    The order of ``entries`` does not matter.
    """
    whole = hashlib.blake2b(digest_size=DIGEST_SIZE)
    for entry, digest in sorted(entries, key=lambda pair: pair[0].parts):
        name = os.fsencode("/".join(entry.parts))
        kind, content = ("f", digest) if entry.is_file else ("l", entry.link) if entry.link else ("d", "")
        text = os.fsencode(content)
        # Lengths come first, so that no name can be mistaken for the end of another entry.
        whole.update(f"{kind} {len(name)} {len(text)} ".encode() + name + text)
    return whole.hexdigest()


_LIST = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
_MOST_ROUNDS = 20
"""Maximal number of passes over a directory into which another process keeps writing."""
_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR)
_NO_DIRECTORY = (errno.ENOTDIR, errno.ELOOP)


def remove_tree(root: Path, name: str) -> None:
    """Remove an entry of any kind below a root; it is no error if the entry is missing.

    Directories are opened relative to their parent without following links. If a link replaces a directory
    during the removal, the link itself is removed. Non-empty directories are first moved to the top of the
    tree, so that two descriptors and no recursion are sufficient for any depth. A file system mounted below
    is not entered, because a mount point cannot be moved.
    """
    parts = split_name(name)
    try:
        with open_directory(root, parts[:-1]) as parent, staging_errors("cannot be removed", name):
            remove_entry(parent, parts[-1])
    except StagingProblem as problem:
        # Only the top entry can be missing here; entries that vanish inside the tree are skipped earlier.
        if problem.number != errno.ENOENT:
            raise


def remove_entry(parent: int, last: str) -> None:
    """Remove an entry of an open directory, as ``remove_tree`` does; may raise OSError."""
    for _ in range(_MOST_ROUNDS):
        if (top := _open_for_removal(parent, last)) is None:
            os.unlink(last, dir_fd=parent)
            return
        with FileDescriptor(top):
            _empty_directory(top)
        if _try_rmdir(parent, last):
            return
    raise StagingProblem("cannot be removed", last, "another process keeps writing into it")


def _open_for_removal(parent: int, name: str) -> int | None:
    """Open a directory to remove its entries; return None if the entry is not a directory."""
    try:
        fd = os.open(name, _LIST, dir_fd=parent)
    except PermissionError:
        fd = _open_by_force(parent, name)
    except OSError as error:
        if error.errno in _NO_DIRECTORY:
            return None
        raise
    if os.fstat(fd).st_mode & stat.S_IRWXU != stat.S_IRWXU:
        os.fchmod(fd, stat.S_IRWXU)
    return fd


def _open_by_force(parent: int, name: str) -> int:
    """Change the permissions of a directory that denies access to its owner, then open it."""
    with FileDescriptor(os.open(name, _LOOK, dir_fd=parent)) as closed:
        handle = f"/proc/self/fd/{closed}"
        # Use the descriptor: a path could have been replaced by a link.
        os.chmod(handle, stat.S_IRWXU)  # noqa: PTH101
        return os.open(handle, _LIST & ~os.O_NOFOLLOW)


def _empty_directory(top: int) -> None:
    """Remove all entries of a directory; nested directories are moved into it and emptied there."""
    numbers = count()
    todo = _clear_directory(top, top, numbers)
    while todo:
        name = todo.pop()
        # An entry removed by another process needs no further work.
        with suppress(FileNotFoundError):
            if (fd := _open_for_removal(top, name)) is None:
                os.unlink(name, dir_fd=top)
                continue
            with FileDescriptor(fd):
                todo.extend(_clear_directory(fd, top, numbers))
            _try_rmdir(top, name)


def _clear_directory(directory: int, top: int, numbers: count[int]) -> list[str]:
    """Unlink files, remove empty directories and move all others to ``top``; return the moved names.

    The caller empties the moved directories next.
    """
    moved = []
    for name in os.listdir(directory):
        with suppress(FileNotFoundError):
            if not _try_unlink(directory, name) and not _try_rmdir(directory, name):
                moved.append(name if directory == top else _move_up(directory, name, top, numbers))
    return moved


def _try_unlink(directory: int, name: str) -> bool:
    """Unlink an entry; return False if it is a directory."""
    try:
        os.unlink(name, dir_fd=directory)
        return True
    except (IsADirectoryError, PermissionError):
        # Linux reports EISDIR for a directory, other systems EPERM.
        if stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            return False
        raise


def _try_rmdir(directory: int, name: str) -> bool:
    """Remove an empty directory; return False if it is not empty."""
    try:
        os.rmdir(name, dir_fd=directory)
        return True
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        raise


def _move_up(directory: int, name: str, top: int, numbers: count[int]) -> str:
    """Move a directory to ``top`` under an unused name and return the name."""
    # Opening makes the directory writable: moving it changes its ".." entry.
    if (opened := _open_for_removal(directory, name)) is not None:
        os.close(opened)
    while True:
        new = f".weft-removed-{next(numbers)}"
        try:
            os.rename(name, new, src_dir_fd=directory, dst_dir_fd=top)
            return new
        except OSError as error:
            if error.errno not in _TAKEN:
                raise


def is_wildcard(name: str) -> bool:
    """Return whether a declared name can match several files."""
    return "*" in name or "?" in name


def match_names(root: Path, pattern: str) -> list[str]:
    """Return the sorted names below a root that match a declared name; [] if there is no match."""
    parts = split_name(pattern)
    if not is_wildcard(pattern):
        return ["/".join(parts)] if _exists(root, parts) else []
    found: dict[Parts, None] = {}
    _expand(root, (), parts, found)
    return sorted("/".join(name) for name in found)


def _expand(root: Path, above: Parts, rest: Parts, found: dict[Parts, None]) -> None:
    if not rest:
        if _exists(root, above):
            found[above] = None
    elif rest[0] == "**":
        if above or len(rest) > 1:
            _expand(root, above, rest[1:], found)  # A trailing ``**`` matches the directory as a whole.
        if len(rest) > 1 or not above:
            for name in _visible_names(root, above, only_directories=len(rest) > 1):
                _expand(root, (*above, name), rest if len(rest) > 1 else (), found)
    elif any(letter in rest[0] for letter in "*?["):
        for name in _visible_names(root, above):
            if fnmatch.fnmatchcase(name, rest[0]):
                _expand(root, (*above, name), rest[1:], found)
    else:
        _expand(root, (*above, rest[0]), rest[1:], found)


def _exists(root: Path, parts: Parts) -> bool:
    """Return whether an entry exists; raise StagingProblem for a link that leads out of the root."""
    try:
        with open_entry(root, parts):
            return True
    except StagingProblem as problem:
        if problem.is_missing:
            return False
        raise


def _visible_names(root: Path, parts: Parts, *, only_directories: bool = False) -> list[str]:
    """Return the names in a directory that do not start with a dot; [] if the directory is missing.

    With ``only_directories``, files and links are left out.
    """
    if (fd := _open_listing(root, parts)) is None:
        return []
    with FileDescriptor(fd), suppress(NotADirectoryError), os.scandir(fd) as entries:
        visible = [entry for entry in entries if not entry.name.startswith(".")]
        return sorted(
            entry.name for entry in visible if not only_directories or entry.is_dir(follow_symlinks=False)
        )
    return []


def _open_listing(root: Path, parts: Parts) -> int | None:
    if not parts:
        return open_root(root, listing=True)
    try:
        with open_entry(root, parts) as found:
            return reopen_for_reading(found, "/".join(parts)) if found.is_directory else None
    except StagingProblem as problem:
        if problem.is_missing:
            return None
        raise
