"""Creation of the files that weft writes, safe from planted links and from other users.

A file is created exclusively under a temporary name and renamed, so that a link or a hard link with the final
name is replaced and its target is never written. Below ``.weft`` no directory is entered through a link;
files have mode 0600 and directories 0700, whatever the umask. A journal outside ``.weft``, and a workflow
with a password or token in a URL, have mode 0600, too.
A ``.weft`` of another user is not used, not even by root: its owner could replace any file in it at any time.

Any other file outside ``.weft`` has a name that the user stated. It keeps the permissions of the file that it
replaces; the permissions of a new file follow the umask. The path of its directory may contain links, but a
link as the last component is refused, because a task may have planted it. Devices, pipes and ``/dev/stdout``
are written in place.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

STATE_FOLDER = ".weft"
FILE_MODE, FOLDER_MODE = 0o600, 0o700
_OTHERS = 0o077
_ENTER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_KEEP = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Flags to open or create a file; without O_TRUNC, so that the file can be checked before it is changed."""
_OLD = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_IN_PLACE = ("/dev", "/proc")
"""Directories whose links lead to open files of the process, such as ``/dev/stdout``."""


_in_use: set[Path] = set()
"""Folders ``.weft`` that this process has locked: a missing one was moved away, and is not created again."""


class UnsafeFile(OSError):
    """A file or directory that weft does not use: a link, a hard link, or the file of another user."""


def is_state(path: Path) -> bool:
    """Return whether a path has a component ``.weft``."""
    return STATE_FOLDER in path.absolute().parts


def write_file(path: Path, content: bytes, *, is_private: bool = False) -> None:
    """Write a whole file; it becomes visible only when it is complete. Raises OSError.

    ``is_private``: only this user can read the file, also outside ``.weft``.
    """
    if _is_special(path):
        path.write_bytes(content)
        return
    with _open_folder(path.parent) as folder:
        temporary, file = _create(folder, path, is_private=is_private)
        try:
            with os.fdopen(file, "wb") as stream:
                stream.write(content)
            os.rename(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise


def check_target(path: Path) -> None:
    """Raise OSError if ``write_file`` cannot write this file now; an existing file is not changed."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"the folder '{path.parent}' does not exist", str(path))
    if _is_special(path):
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return
    with _open_folder(path.parent) as folder:
        temporary, file = _create(folder, path)
        os.close(file)
        os.unlink(temporary, dir_fd=folder)


def create_file(path: Path, content: bytes) -> None:
    """Write a new private file. Raises FileExistsError if it exists, OSError if it cannot be written."""
    with _open_folder(path.parent) as folder:
        file = os.open(path.name, _NEW, FILE_MODE, dir_fd=folder)
    with os.fdopen(file, "wb") as stream:
        stream.write(content)


def open_stream(path: Path) -> BinaryIO:
    """Open a new private file under its final name, so that others can read it while it grows.

    An existing file is replaced; a device or pipe is written in place. Raises OSError.
    """
    if _is_special(path):
        return path.open("wb")
    with _open_folder(path.parent) as folder:
        temporary, file = _create(folder, path, is_private=True)
        try:
            os.rename(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.close(file)
            os.unlink(temporary, dir_fd=folder)
            raise
    return os.fdopen(file, "wb")


def make_folder(folder: Path) -> None:
    """Create a private folder and its missing parents; an existing one is kept. Raises OSError.

    Inside ``.weft`` permissions of group and others are removed from existing folders, too. Outside only the
    folder itself is private, its parents follow the umask.
    """
    if not is_state(folder):
        folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        return
    with _open_folder(folder, make=True):
        pass


def set_in_use(home: Path, *, in_use: bool) -> None:
    """State whether a folder ``.weft`` exists and is used: if it is moved away, no new one is created."""
    if in_use:
        _in_use.add(home.absolute())
    else:
        _in_use.discard(home.absolute())


def close_to_others(path: Path) -> bool:
    """Remove the permissions of group and others from a file or folder; return whether there were any.

    Raises UnsafeFile for a link or for a file of another user, PermissionError for a folder of another user,
    and other kinds of OSError.
    """
    with _open_folder(path.parent) as folder:
        entry = os.open(path.name, _LOOK, dir_fd=folder)
        try:
            status = os.fstat(entry)
            if not stat.S_ISDIR(status.st_mode):
                _refuse_foreign(status, folder, path)
            if not status.st_mode & _OTHERS:
                return False
            # Through /proc, because fchmod does not accept a descriptor with O_PATH. Closing a descriptor
            # without O_PATH would release the locks that SQLite holds in this process.
            os.chmod(f"/proc/self/fd/{entry}", stat.S_IMODE(status.st_mode) & ~_OTHERS)  # noqa: PTH101
            return True
        finally:
            os.close(entry)


def check_file(path: Path) -> None:
    """Raise UnsafeFile for a file that is not regular, has hard links, or belongs to another user.

    Use this for a file that a library opens by name. A missing file is accepted.
    """
    with _open_folder(path.parent) as folder, suppress(FileNotFoundError):
        _refuse_foreign(os.stat(path.name, dir_fd=folder, follow_symlinks=False), folder, path)


def prepare_file(path: Path) -> None:
    """Create an empty private file, or check an existing file and remove permissions of other users.

    Use this for a file that a library opens by name, such as a database. Raises OSError.
    """
    with suppress(FileExistsError):
        create_file(path, b"")
    check_file(path)
    close_to_others(path)


def open_in_place(path: Path) -> int:
    """Open a file for changes in place, such as a lock file, and return its descriptor.

    A missing file is created; an existing file is not truncated. Raises UnsafeFile for a link, a hard link or
    the file of another user, and other kinds of OSError.
    """
    with _open_folder(path.parent) as folder:
        try:
            file = os.open(path.name, _KEEP, FILE_MODE, dir_fd=folder)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):
                raise UnsafeFile(errno.ELOOP, "it is a link or not a regular file", str(path)) from None
            raise
        try:
            status = os.fstat(file)
            _refuse_foreign(status, folder, path)
            if status.st_mode & _OTHERS:
                os.fchmod(file, FILE_MODE)
        except BaseException:
            os.close(file)
            raise
        return file


def read_state(path: Path, most_bytes: int) -> bytes:
    """Return the first ``most_bytes`` bytes of a regular file below ``.weft``; links are not followed.

    Raises OSError.
    """
    with _open_folder(path.parent) as folder:
        file = os.open(path.name, _OLD, dir_fd=folder)
    with os.fdopen(file, "rb") as stream:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise UnsafeFile(errno.EINVAL, "it is not a regular file", str(path))
        return stream.read(most_bytes)


def _refuse_foreign(status: os.stat_result, folder: int, path: Path) -> None:
    """Raise UnsafeFile for a file that is not regular, has hard links, or belongs to another user."""
    if not stat.S_ISREG(status.st_mode):
        raise UnsafeFile(errno.EINVAL, "it is a link or not a regular file", str(path))
    if status.st_nlink > 1:
        raise UnsafeFile(errno.EMLINK, "it has further hard links", str(path))
    # On some network file systems all files belong to the owner of the folder, also those of this process.
    if status.st_uid not in (os.geteuid(), os.fstat(folder).st_uid):
        raise UnsafeFile(errno.EPERM, f"it belongs to another user ({status.st_uid})", str(path))


@contextmanager
def _open_folder(folder: Path, *, make: bool = False) -> Iterator[int]:
    """Yield a descriptor of a folder; if ``make``, create missing folders.

    The component ``.weft`` and those below it must not be links. A ``.weft`` in use is not created.
    """
    parts = folder.absolute().parts
    depth = parts.index(STATE_FOLDER) if STATE_FOLDER in parts else len(parts)
    may_make = make and Path(*parts[: depth + 1]) not in _in_use
    if may_make:
        Path(*parts[:depth]).mkdir(parents=True, exist_ok=True)
    entered = os.open(Path(*parts[:depth]), _ENTER)
    try:
        for position in range(depth, len(parts)):
            may_make = may_make or (make and position > depth)
            entered = _enter(entered, Path(*parts[: position + 1]), make=may_make)
        yield entered
    finally:
        os.close(entered)


def _enter(above: int, path: Path, *, make: bool) -> int:
    """Return a descriptor of the folder ``path`` in the folder ``above``; on success close ``above``."""
    if make:
        with suppress(FileExistsError):
            os.mkdir(path.name, FOLDER_MODE, dir_fd=above)
    try:
        entered = os.open(path.name, _ENTER | os.O_NOFOLLOW, dir_fd=above)
    except NotADirectoryError:
        raise UnsafeFile(errno.ENOTDIR, f"'{path}' is a link or not a directory", str(path)) from None
    try:
        if path.name == STATE_FOLDER and (owner := _foreign_owner(entered)):
            raise UnsafeFile(errno.EPERM, f"'{path}' belongs to another user, {owner}", str(path))
        mode = stat.S_IMODE(os.fstat(entered).st_mode)
        if make and mode & _OTHERS and path.name != STATE_FOLDER:
            # A program has created it. See ``close_to_others`` about /proc and about the state folder itself.
            with suppress(PermissionError):
                os.chmod(f"/proc/self/fd/{entered}", mode & ~_OTHERS)  # noqa: PTH101
    except BaseException:
        os.close(entered)
        raise
    os.close(above)
    return entered


def find_foreign_owner(folder: Path) -> str:
    """Return the owner of a folder as text; "" if the folder counts as this user's own. Raises OSError."""
    entered = os.open(folder, _ENTER)
    try:
        return _foreign_owner(entered)
    finally:
        os.close(entered)


def name_user(number: int) -> str:
    """Return the name and number of a user as text; only the number if the user has no name."""
    try:
        return f"{pwd.getpwuid(number).pw_name} (uid {number})"
    except KeyError:
        return f"uid {number}"


def _foreign_owner(folder: int) -> str:
    owner = os.fstat(folder).st_uid
    return "" if owner == os.geteuid() or _assigns_owner(folder, owner) else name_user(owner)


def _assigns_owner(folder: int, owner: int) -> bool:
    """Return whether files that this process creates in a folder belong to ``owner``.

    This is so on some network file systems, on which all files have the same owner. Also True on a read-only
    file system, because no user can change files there.
    """
    name = f".weft-new-{os.urandom(8).hex()}"
    try:
        file = os.open(name, _NEW, FILE_MODE, dir_fd=folder)
    except OSError as error:
        return error.errno == errno.EROFS
    try:
        return os.fstat(file).st_uid == owner
    finally:
        os.close(file)
        os.unlink(name, dir_fd=folder)


def _create(folder: int, path: Path, *, is_private: bool = False) -> tuple[str, int]:
    """Create the temporary file that will replace ``path``; return its name and descriptor."""
    replaced = None if is_state(path) else _find_replaced(folder, path)
    name = f".weft-new-{os.urandom(8).hex()}"
    file = os.open(name, _NEW, FILE_MODE if is_private or is_state(path) else 0o666, dir_fd=folder)
    if replaced is not None and not is_private:
        os.fchmod(file, stat.S_IMODE(replaced.st_mode) & 0o777)
    return name, file


def _is_special(path: Path) -> bool:
    """Return whether a path outside ``.weft`` names a device, a pipe, or an open file of the process."""
    try:
        found = path.lstat().st_mode
    except OSError:
        return False
    if is_state(path) or stat.S_ISREG(found) or stat.S_ISDIR(found):
        return False
    if stat.S_ISLNK(found):
        parents = [str(each) for each in (path.parent.resolve() / path.name).parents]
        return any(folder in parents for folder in _IN_PLACE)
    return True


def _find_replaced(folder: int, path: Path) -> os.stat_result | None:
    """Return the status of the file that will be replaced; None if there is none.

    Raises OSError for a link or a read-only file.
    """
    try:
        status = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        target = os.readlink(path.name, dir_fd=folder)
        why = f"it is a symbolic link to '{target}', which is not followed; name the file itself"
        raise UnsafeFile(errno.ELOOP, why, str(path))
    if not os.access(path.name, os.W_OK, dir_fd=folder, follow_symlinks=False):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    return status
