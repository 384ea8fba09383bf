"""The lock of a project; at most one engine holds it.

It is a kernel lock (flock), which the kernel releases when the process of its owner ends. The lock file names
the owner. On file systems without flock the file itself is the lock: it is created atomically under its final
name, and a file whose owner (process number and start time) has ended is removed.
"""

from __future__ import annotations

import errno
import fcntl
import getpass
import json
import logging
import os
import shlex
import socket
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Self

from weft.errors import Locked, WeftError
from weft.private_files import (
    UnsafeFile,
    close_to_others,
    create_file,
    make_folder,
    open_in_place,
    read_state,
    set_in_use,
    write_file,
)
from weft.records import dataclass

_log = logging.getLogger(__name__)
_PROCESSES = Path("/proc")
_FIRST_AFTER_NAME = 22 - 3
"""Index of the start time among the fields of ``/proc/PID/stat`` that follow the process name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockOwner:
    """The process that holds a lock; process number and start time together identify it."""

    pid: int
    start_ticks: int
    """Start time of the process in clock ticks since boot."""
    boot: str
    """Identifier of the boot during which the process was started."""
    host: str
    user: str
    command: str
    since_s: float
    """Wall-clock time at which the lock was acquired."""
    inode: int = 0
    """Inode of the lock file, which a copy of the project does not have; 0: unknown."""

    @classmethod
    def this_process(cls, command: Sequence[str]) -> LockOwner:
        """Return an owner that describes this process; ``command`` is the user's command line."""
        pid = os.getpid()
        return cls(
            pid=pid,
            start_ticks=_read_start_ticks(pid) or 0,
            boot=_read_boot_id(),
            host=socket.gethostname(),
            user=user_name(),
            command=shlex.join(command),
            since_s=time.time(),
        )

    @classmethod
    def of_text(cls, text: str) -> LockOwner | None:
        """Return the owner described by an output of ``as_text``; None: the text is not such an output."""
        try:
            record = json.loads(text)
            found = cls(**record)
        except (TypeError, ValueError, RecursionError):
            return None
        kinds = {name: type(value) for name, value in _FIELD_EXAMPLES.items()}
        right = all(isinstance(getattr(found, name), kind) for name, kind in kinds.items())
        return found if right else None

    def as_text(self) -> str:
        """Return the owner as one line of JSON."""
        return json.dumps(asdict(self)) + "\n"

    @property
    def alive(self) -> bool:
        """Return whether the process may be running.

        The result is True for a process on another host, which cannot be checked.
        """
        if self.host != socket.gethostname():
            return True
        if self.boot != _read_boot_id():
            return False
        return _read_start_ticks(self.pid) == self.start_ticks

    def __str__(self) -> str:
        try:
            since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since_s))
        except (OverflowError, ValueError, OSError):  # the file was damaged
            since = f"second {self.since_s!r}"
        what = f"`{self.command}` " if self.command else ""
        return f"{what}of {self.user} (process {self.pid} on {self.host}, since {since})"


_FIELD_EXAMPLES: dict[str, object] = {
    "pid": 1, "start_ticks": 1, "boot": "", "host": "", "user": "", "command": "", "since_s": 1.0, "inode": 1,
}  # fmt: skip


def _read_start_ticks(pid: int) -> int | None:
    """Return the start time of a process in clock ticks; None if it does not exist or is a zombie."""
    try:
        text = (_PROCESSES / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[_FIRST_AFTER_NAME])


def _read_boot_id() -> str:
    try:
        return (_PROCESSES / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def user_name() -> str:
    """Return the name of the user, or the number of the user if there is no name."""
    try:
        # The variable USER may hold any bytes; those that are not UTF-8 cannot be stored.
        return getpass.getuser().encode(errors="replace").decode()
    except (KeyError, OSError):
        return str(os.getuid())  # user ids without a name are common in containers


_NO_FLOCK = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_LINKS = (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP)
_LONGEST_BYTES = 65_536
_TRIES, _PAUSE_S = 20, 0.01


class Lock:
    """A lock held from construction to ``release``; also a context manager."""

    def __init__(self, path: Path, command: Sequence[str] = ()) -> None:
        """Acquire the lock; raise Locked if another engine holds it.

        ``command`` is the command line that is shown to users who find the project locked.
        """
        self.path = path
        self.owner = LockOwner.this_process(command)
        self.previous_owner: LockOwner | None = None
        """Previous owner, if it ended without releasing the lock; otherwise None."""
        self._descriptor: int | None = None
        self._by_name = False
        try:
            make_folder(path.parent)
            _close_state_folder(path.parent)
            self._take()
        except UnsafeFile as error:
            what = f"cannot lock the project with the file '{path}': {error.strerror}"
            advice = "remove it if no engine is running"
            if error.filename == str(path.parent) and error.errno == errno.EPERM:
                advice = (
                    "run weft as that user, or use a copy of the project or another one with `--project DIR`"
                )
            raise WeftError(f"{what}; {advice}") from None
        except OSError as error:
            raise WeftError(
                f"cannot lock the project with the file '{path}': {error.strerror}; "
                "check that you may write to its folder"
            ) from None
        _held.add(self)
        set_in_use(path.parent, in_use=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Release the lock.

        With flock the file is kept: if it were removed, a second engine could lock a new file.
        """
        # Disk errors are ignored, so that they do not hide the error for which the lock is released; the name
        # of an ended owner in the file has no effect. Where locks do not work, the file may name another
        # engine by now.
        if _read_owner(self.path) == self.owner:
            self._remove_owner()
        self.forget()
        set_in_use(self.path.parent, in_use=False)

    def _remove_owner(self) -> None:
        with suppress(OSError):
            if self._descriptor is not None:
                os.ftruncate(self._descriptor, 0)
            elif self._by_name:
                self.path.unlink()

    def forget(self) -> None:
        """Close the lock file without releasing the lock; called in a forked child of the owner."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor, self._by_name = None, False

    def _take(self) -> None:
        descriptor = self._open()
        try:
            works = self._wait_for(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        if not works:
            os.close(descriptor)
            self._take_by_name()
            return
        self.previous_owner = _read_owner(self.path)
        self.owner = replace(self.owner, inode=os.fstat(descriptor).st_ino)
        os.ftruncate(descriptor, 0)
        try:
            os.pwrite(descriptor, self.owner.as_text().encode(), 0)
        except OSError as error:
            # The kernel lock holds without the name of its owner, and `weft clean` must work on a full disk.
            if error.errno not in _NO_SPACE:
                os.close(descriptor)
                raise
        self._descriptor = descriptor

    def _open(self) -> int:
        """Open the lock file; retry while it has a second hard link.

        A process that locks without flock creates such a link for a moment.
        """
        for _ in range(_TRIES):
            try:
                return open_in_place(self.path)
            except UnsafeFile as error:
                if error.errno != errno.EMLINK:
                    raise
                time.sleep(_PAUSE_S)
        return open_in_place(self.path)

    def _wait_for(self, descriptor: int) -> bool:
        """Acquire the kernel lock; return False if the file system does not support it."""
        for _ in range(_TRIES):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                if (found := _read_owner(self.path)) is not None and found.alive:
                    raise _locked_error(self.path, found) from None
                # The owner is being written or has just ended, or another process is checking the lock: wait
                # a moment.
                time.sleep(_PAUSE_S)
            except OSError as error:
                if error.errno in _NO_FLOCK:
                    return False
                raise
        raise _locked_error(self.path, _read_owner(self.path))

    def _take_by_name(self) -> None:
        """Acquire the lock without flock: create the lock file exclusively."""
        for _ in range(_TRIES):
            before = _read_owner(self.path)
            if before is not None and before.alive and _is_file_of(self.path, before):
                raise _locked_error(self.path, before)
            _remove_stale(self.path, before)
            self.previous_owner = before or self.previous_owner
            # Another process may have been faster: the owner in the file decides.
            if _create_linked(self.path, self.owner) and _read_owner(self.path) == self.owner:
                self._by_name = True
                return
        raise _locked_error(self.path, _read_owner(self.path))


_held: weakref.WeakSet[Lock] = weakref.WeakSet()


def _forget_locks() -> None:
    for lock in list(_held):
        lock.forget()


os.register_at_fork(after_in_child=_forget_locks)


def _close_state_folder(home: Path) -> None:
    """Remove the permissions of other users from ``.weft``.

    Otherwise another user could open the lock file and block the engine.
    """
    try:
        if close_to_others(home):
            _log.warning("'%s' was open to other users of this computer; now only you can enter it", home)
    except PermissionError as error:
        _log.warning("'%s' stays open to other users: %s", home, error.strerror)


def find_holder(path: Path) -> LockOwner | None:
    """Return the running process that holds the lock with this file; None: no process holds it."""
    found = _read_owner(path)
    return found if found is not None and found.alive and _is_file_of(path, found) else None


def _is_file_of(path: Path, owner: LockOwner) -> bool:
    """Return whether the file is the one that an owner has locked, not a copy of it."""
    try:
        return owner.inode in (0, path.stat(follow_symlinks=False).st_ino)
    except OSError:
        return False


def _create_linked(path: Path, owner: LockOwner) -> bool:
    """Create the lock file, with its owner as content, atomically; return False if the file exists."""
    own = path.with_name(f"{path.name}.{owner.pid}")
    try:
        write_file(own, owner.as_text().encode())
        os.link(own, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return _create_exclusive(path, owner)
    finally:
        own.unlink(missing_ok=True)
    return True


def _create_exclusive(path: Path, owner: LockOwner) -> bool:
    try:
        create_file(path, owner.as_text().encode())
    except FileExistsError:
        return False
    return True


def _remove_stale(path: Path, stale: LockOwner | None) -> None:
    """Remove the lock file of an owner that has ended.

    If another process has replaced the file meanwhile, the new file is put back.
    """
    aside = path.with_name(f"{path.name}.{os.getpid()}.old")
    try:
        path.rename(aside)
    except FileNotFoundError:
        return
    if _read_owner(aside) == stale:
        aside.unlink()
    else:
        aside.rename(path)


def _read_owner(path: Path) -> LockOwner | None:
    try:
        return LockOwner.of_text(read_state(path, _LONGEST_BYTES).decode(errors="replace"))
    except OSError:
        return None


def _locked_error(path: Path, owner: LockOwner | None) -> Locked:
    holder = str(owner) if owner is not None else "another engine"
    advice = "wait for it, follow it with `weft watch`, or end it with `weft cancel`"
    return Locked(f"{path.parent.parent}: the project is locked by {holder}; {advice}")
