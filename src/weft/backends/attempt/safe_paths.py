"""Safe access to the files of tasks: every name from a workflow or a task is opened through this module.

A task may create any names and links and may change them at any time. Therefore no path is opened as a whole.
Each component is opened relative to the descriptor of its parent directory, without following links, and
checks are made on the descriptor, not on the name. Links are resolved here, component by component; a link
that leads out of its root is refused. Files are opened for reading only after they are known to be regular
files, so a FIFO never blocks and a device is never opened.

A root must be an absolute path without symbolic links (resolve it once, when it is created). If the kernel
reports another path for its descriptor, a link was put in its place, and the root is refused.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from weft.errors import WeftError
from weft.records import dataclass
from weft.redaction import redact, redact_start

if TYPE_CHECKING:
    from typing import Self, TypeAlias

_LONGEST_NAME = 200


class StagingProblem(WeftError):
    """A file could not be staged, verified or removed."""

    def __init__(
        self,
        what: str,
        file: str,
        why: str,
        *,
        advice: str = "",
        number: int | None = None,
        lasting: bool = False,
    ) -> None:
        self.what = what
        """The failed operation, such as ``cannot be linked``."""
        self.file = file
        self.why = redact(why)
        self.number = number
        """The ``errno`` of the failure, such as ``errno.ENOSPC``; ``EAGAIN``: the file changed while it was
        read.
        """
        self.lasting = lasting
        """Whether a retry cannot succeed until the user changes something."""
        self.holder = ""
        """Name of the machine that holds the file, an output of a task; "": no machine holds it."""
        tail = f"; {advice}" if advice else ""
        super().__init__(f"{quote_name(redact(file))} {what}: {self.why}{tail}")

    @property
    def is_missing(self) -> bool:
        """Return whether the file does not exist."""
        return self.number in (errno.ENOENT, errno.ENOTDIR)


def quote_name(name: str) -> str:
    """Return a file name in the form for messages: quoted, shortened, unprintable characters escaped."""
    text = repr(name)
    if len(text) > _LONGEST_NAME:
        text = repr(redact_start(name, _LONGEST_NAME))
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 2]}…{text[0]}"


def staging_errors(what: str, file: str) -> _StagingErrors:
    """Return a context manager that turns an OSError into a StagingProblem for ``file``."""
    return _StagingErrors(what, file)


class _StagingErrors:
    """Context manager of ``staging_errors``; a class, because ``contextmanager`` would be slower."""

    __slots__ = ("_file", "_what")

    def __init__(self, what: str, file: str) -> None:
        self._what = what
        self._file = file

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise staging_problem(self._what, self._file, error) from error


def staging_problem(what: str, file: str, error: OSError, *, lasting: bool = False) -> StagingProblem:
    """Return a StagingProblem that describes an OSError; ``what`` names the failed operation."""
    why = os.strerror(error.errno) if error.errno else str(error) or type(error).__name__
    return StagingProblem(what, file, why, number=error.errno, lasting=lasting)


def wrong_kind(what: str, file: str, status: os.stat_result) -> StagingProblem:
    """Return a StagingProblem for an entry that is neither a file nor a directory."""
    return StagingProblem(what, file, f"it is {describe_kind(status)}, not a file or directory")


Parts: TypeAlias = "tuple[str, ...]"
"""Components of a name below a root; no component is empty, ``.`` or ``..``."""

_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_ENTER = os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
_OTHERS = 0o077
_LIST = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MOST_LINKS = 40
MAX_DEPTH = 100
"""Maximal directory depth below a root; every level keeps a descriptor open while a name is resolved."""
_KINDS = {
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def describe_kind(status: os.stat_result) -> str:
    """Return the kind of file system entry in words, such as "a FIFO"."""
    return _KINDS.get(stat.S_IFMT(status.st_mode), "an unknown kind of entry")


def split_name(name: str) -> Parts:
    """Split a name into components; raise StagingProblem if it is absolute, empty or contains ``..``."""
    why = ""
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if not name.strip() or not all(part.strip() for part in parts):
        why = "a name must not be empty or blank"
    elif "\0" in name:
        why = "a name must not contain a NUL character"
    elif name.startswith("/"):
        why = "only names relative to the directory are allowed"
    elif ".." in parts:
        why = "'..' leads out of the directory"
    elif not parts:
        why = "it names the directory itself"
    elif not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name):
        why = "a name must be UTF-8"
    if why:
        raise StagingProblem("is not a valid file name", name, why, lasting=True)
    return parts


def open_root(root: Path, *, listing: bool = False) -> int:
    """Open a root directory; raise StagingProblem if its path contains a link.

    With ``listing`` the entries of the directory can be listed through the descriptor.
    """
    with staging_errors("cannot be opened", str(root)):
        top = os.open(root, _LIST if listing else _ENTER)
    place = os.readlink(f"/proc/self/fd/{top}")
    if place != os.path.normpath(root):
        os.close(top)
        why = f"its path resolves to {place!r}, so it contains a link"
        raise StagingProblem("cannot be opened", str(root), why)
    return top


class FileDescriptor:
    """Context manager that closes a descriptor at the end; a class, as ``contextmanager`` would be slower."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __enter__(self) -> int:
        return self._fd

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


@dataclass(frozen=True, slots=True)
class OpenEntry:
    """A file system entry below a root, with an ``O_PATH`` descriptor, which allows no reading or writing.

    As a context manager it closes the descriptor.
    """

    fd: int
    status: os.stat_result
    parts: Parts
    """Location of the entry below the root, with links resolved."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)

    @property
    def is_file(self) -> bool:
        """Return whether the entry is a regular file."""
        return stat.S_ISREG(self.status.st_mode)

    @property
    def is_directory(self) -> bool:
        """Return whether the entry is a directory."""
        return stat.S_ISDIR(self.status.st_mode)


def open_entry(root: Path, parts: Sequence[str]) -> OpenEntry:
    """Open an entry below a root; links that stay below the root are followed. The caller closes the entry.

    Raises StagingProblem if the entry is missing or a link leads out of the root.
    """
    name = "/".join(parts)
    with FileDescriptor(open_root(root)) as top, staging_errors("cannot be opened", name):
        walk = _PathWalk(top, str(root), name)
        try:
            walk.resolve(parts)
            status = os.fstat(walk.fds[-1])
            return OpenEntry(walk.fds.pop(), status, tuple(walk.names))
        finally:
            walk.close_all()


class _PathWalk:
    """Stack of the descriptors that are opened while a name is resolved."""

    def __init__(self, top: int, root: str, name: str) -> None:
        self._top = top
        self._root = os.path.normpath(root)
        self._name = name
        self.fds: list[int] = []
        self.names: list[str] = []

    def resolve(self, parts: Sequence[str]) -> None:
        todo = list(reversed(parts))
        links = 0
        while todo:
            if (part := todo.pop()) == "..":
                if not self.fds:
                    self._refuse_target("..")
                os.close(self.fds.pop())
                self.names.pop()
            elif part not in ("", ".") and (target := self._enter(part)) is not None:
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, "")
                todo.extend(reversed(self._split_target(target)))
        if not self.fds:
            raise StagingProblem("cannot be used", self._name, "it is a link to the directory it lies in")

    def close_all(self) -> None:
        while self.fds:
            os.close(self.fds.pop())
        self.names.clear()

    def _enter(self, part: str) -> str | None:
        """Open the next component and return None; if it is a symbolic link, return the link's target."""
        if len(self.fds) >= MAX_DEPTH:
            raise StagingProblem(
                "cannot be opened", self._name, f"it is more than {MAX_DEPTH} directories deep"
            )
        fd = os.open(part, _LOOK, dir_fd=self.fds[-1] if self.fds else self._top)
        self.fds.append(fd)
        if not stat.S_ISLNK(os.fstat(fd).st_mode):
            self.names.append(part)
            return None
        with FileDescriptor(self.fds.pop()):
            # An empty name reads the link behind the descriptor, not a link that has replaced it since.
            return os.readlink("", dir_fd=fd)

    def _split_target(self, target: str) -> list[str]:
        if not target.startswith("/"):
            return target.split("/")
        if target != self._root and not target.startswith(self._root + "/"):
            self._refuse_target(target)
        self.close_all()
        return target[len(self._root) :].split("/")

    def _refuse_target(self, target: str) -> None:
        why = f"a link leads out of {self._root!r} (to {target!r}), and weft does not follow such links"
        advice = "replace the link by a copy of its target"
        raise StagingProblem("cannot be used", self._name, why, advice=advice)


def reopen_for_reading(found: OpenEntry, name: str) -> int:
    """Open the entry ``found`` for reading; raise StagingProblem unless it is a file or a directory."""
    if not (found.is_file or found.is_directory):
        raise wrong_kind("cannot be read", name, found.status)
    with staging_errors("cannot be read", name):
        return os.open(f"/proc/self/fd/{found.fd}", _READ)


def open_child(directory: int, parts: Parts) -> OpenEntry:
    """Open an entry of an open directory without following a link. The caller closes the descriptor.

    ``parts`` is the location below the root; its last component is opened.
    """
    with staging_errors("cannot be opened", "/".join(parts)):
        fd = os.open(parts[-1], _LOOK, dir_fd=directory)
        return OpenEntry(fd, os.fstat(fd), parts)


def open_inside(root: Path, name: str) -> int:
    """Open a file or directory below a root for reading; links inside the root are followed.

    The call never blocks.
    """
    with open_entry(root, split_name(name)) as found:
        return reopen_for_reading(found, name)


def open_directory(
    root: Path, parts: Sequence[str], *, make: bool = False, mode: int = 0o777
) -> FileDescriptor:
    """Open a directory below a root for listing and changes.

    With ``make``, missing directories are created with the permissions ``mode``. If ``mode`` gives none to
    group and others, they lose those that they have for existing directories, which a program may have made.
    No link is followed, not even one inside the root.
    """
    return FileDescriptor(_enter_directory(root, parts, make, mode))


class DirectoryCursor:
    """Context manager that keeps the last used directory open, for consecutive files in one directory."""

    def __init__(self, root: Path, *, make: bool = False) -> None:
        self._root = root
        self._make = make
        self._parts: Sequence[str] = ()
        self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def at(self, parts: Sequence[str]) -> int:
        """Return a descriptor of a directory, as ``open_directory`` does; it is valid until the next call."""
        if self._fd < 0 or parts != self._parts:
            self.__exit__()
            self._fd = _enter_directory(self._root, parts, self._make)
            self._parts = parts
        return self._fd


def _enter_directory(root: Path, parts: Sequence[str], make: bool, mode: int = 0o777) -> int:
    fd = open_root(root, listing=not parts)
    for depth, part in enumerate(parts, 1):
        flags = _LIST if depth == len(parts) else _ENTER
        with FileDescriptor(fd):
            fd = _enter_child(fd, part, flags, "/".join(parts[:depth]), make, mode)
        if make and not mode & _OTHERS:
            _close_to_others(fd)
    return fd


def _close_to_others(directory: int) -> None:
    mode = stat.S_IMODE(os.fstat(directory).st_mode)
    if mode & _OTHERS:
        # Through /proc, because fchmod does not accept a descriptor with O_PATH.
        with suppress(PermissionError):
            os.chmod(f"/proc/self/fd/{directory}", mode & ~_OTHERS)  # noqa: PTH101


def _enter_child(above: int, part: str, flags: int, name: str, make: bool, mode: int) -> int:
    try:
        return os.open(part, flags, dir_fd=above)
    except OSError as error:
        if error.errno == errno.ENOENT and make:
            return _make_child(above, part, flags, name, mode)
        what, why = "cannot be opened", os.strerror(error.errno or 0)
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            why = "it is a file or a link, not a directory"
        raise StagingProblem(what, name, why, number=error.errno) from error


def _make_child(above: int, part: str, flags: int, name: str, mode: int) -> int:
    with staging_errors("cannot be created", name):
        with suppress(FileExistsError):  # Another thread created it first.
            os.mkdir(part, mode, dir_fd=above)
        return os.open(part, flags, dir_fd=above)


def open_parent(root: Path, parts: Sequence[str]) -> FileDescriptor:
    """Open the parent directory of a name below a root; create the directory if it is missing."""
    return open_directory(root, parts[:-1], make=True)


def make_parents(root: Path, name: str) -> None:
    """Create the parent directories of a name."""
    with open_parent(root, split_name(name)):
        pass


def make_directory(root: Path, name: str) -> Path:
    """Create a directory and its parents below a root; it is no error if the directory exists."""
    parts = split_name(name)
    with open_directory(root, parts, make=True):
        return root.joinpath(*parts)


def list_names(directory: int) -> list[str]:
    """Return the sorted names in an open directory."""
    return sorted(os.listdir(directory))
