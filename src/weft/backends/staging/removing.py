"""Removing a tree that a task has left, without ever reaching out of it.

A path is never used twice: directories are opened below the one opened before, without following links, so a
link that is put in a directory's place while it is being removed is removed itself. Directories that are
not empty are first moved up to the top of the tree: so one needs no more than two descriptors and no
recursion however deep a task has nested them, and a file system mounted below is not entered (it cannot be
moved).
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from itertools import count
from pathlib import Path

from weft.backends.staging.problem import StagingProblem, telling
from weft.backends.staging.safe_paths import directory_at, parts_of

__all__ = ["remove_tree"]

_LIST = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
_MOST_ROUNDS = 20
"""How often a directory is gone through when somebody still writes into it."""
_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR)
_NO_DIRECTORY = (errno.ENOTDIR, errno.ELOOP)


def remove_tree(root: Path, name: str) -> None:
    """Remove what lies under a name below a root, whatever it is; nothing there is no problem."""
    parts = parts_of(name)
    try:
        with directory_at(root, parts[:-1]) as parent, telling("cannot be removed", name):
            _remove(parent, parts[-1], name)
    except StagingProblem as problem:
        # Only of the name itself: what vanishes inside the tree is passed over there.
        if problem.number != errno.ENOENT:
            raise


def _remove(parent: int, last: str, name: str) -> None:
    for _ in range(_MOST_ROUNDS):
        top = _opened(parent, last)
        if top is None:
            os.unlink(last, dir_fd=parent)
            return
        try:
            _empty(top)
        finally:
            os.close(top)
        if _is_rid_of(parent, last):
            return
    raise StagingProblem("cannot be removed", name, "something keeps writing into it")


def _opened(parent: int, name: str) -> int | None:
    """Open a directory so that it can be emptied; None: it is something else."""
    try:
        fd = os.open(name, _LIST, dir_fd=parent)
    except PermissionError:
        fd = _opened_by_force(parent, name)
    except OSError as error:
        if error.errno in _NO_DIRECTORY:
            return None
        raise
    if os.fstat(fd).st_mode & stat.S_IRWXU != stat.S_IRWXU:
        os.fchmod(fd, stat.S_IRWXU)
    return fd


def _opened_by_force(parent: int, name: str) -> int:
    """Open a directory that a task has closed to its own user."""
    closed = os.open(name, _LOOK, dir_fd=parent)
    try:
        handle = f"/proc/self/fd/{closed}"
        # Through the handle: by its name, a link in its place would be followed.
        os.chmod(handle, stat.S_IRWXU)  # noqa: PTH101
        return os.open(handle, _LIST & ~os.O_NOFOLLOW)
    finally:
        os.close(closed)


def _empty(top: int) -> None:
    """Remove everything in a directory; what is nested comes up to it and is emptied there."""
    numbers = count()
    todo = _cleared(top, top, numbers)
    while todo:
        name = todo.pop()
        # What somebody else has removed meanwhile is gone, which is what was wanted.
        with suppress(FileNotFoundError):
            fd = _opened(top, name)
            if fd is None:
                os.unlink(name, dir_fd=top)
                continue
            try:
                todo.extend(_cleared(fd, top, numbers))
            finally:
                os.close(fd)
            _is_rid_of(top, name)


def _cleared(directory: int, top: int, numbers: count[int]) -> list[str]:
    """Unlink what is no directory, remove empty ones and move the others up; name those."""
    moved = []
    for name in os.listdir(directory):
        with suppress(FileNotFoundError):
            if not _is_unlinked(directory, name) and not _is_rid_of(directory, name):
                moved.append(name if directory == top else _moved_up(directory, name, top, numbers))
    return moved


def _is_unlinked(directory: int, name: str) -> bool:
    """Unlink what is no directory."""
    try:
        os.unlink(name, dir_fd=directory)
        return True
    except (IsADirectoryError, PermissionError):
        # Linux says EISDIR of a directory, other systems EPERM.
        if stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            return False
        raise


def _is_rid_of(directory: int, name: str) -> bool:
    """Remove a directory if it is empty."""
    try:
        os.rmdir(name, dir_fd=directory)
        return True
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        raise


def _moved_up(directory: int, name: str, top: int, numbers: count[int]) -> str:
    """Move a directory to the top, under a name that is not taken."""
    # One that its user may not write cannot be moved: its ".." changes.
    opened = _opened(directory, name)
    if opened is not None:
        os.close(opened)
    while True:
        new = f".weft-removed-{next(numbers)}"
        try:
            os.rename(name, new, src_dir_fd=directory, dst_dir_fd=top)
            return new
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
