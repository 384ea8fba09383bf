"""The owner of a lock: a process, named so that it can be told from another that got its number later.

The lock of a project: one engine at a time, by name.

The lock is the kernel's (flock), so it ends with its process, however that dies. Who holds it stands in the
file. Where the file system knows no flock, the owner named in the file counts: a file that appears whole,
under its name, for one process only, and that is taken away when its process is found to be dead (number and
start time).
"""

from __future__ import annotations

import errno
import fcntl
import getpass
import json
import os
import shlex
import socket
import time
import weakref
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Self

from weft.errors import Locked, WeftError
from weft.records import dataclass

__all__ = ["Lock", "LockOwner", "find_holder"]


_PROCESSES = Path("/proc")
_FIRST_AFTER_NAME = 22 - 3
"""Where the start time stands in ``/proc/PID/stat``, counted behind the name, which may hold anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockOwner:
    """Who holds a lock."""

    pid: int
    start_ticks: int
    """When the process began, as the kernel counts since its own start."""
    boot: str
    """Which start of the kernel that was."""
    host: str
    user: str
    command: str
    since_s: float
    """Wall time."""

    @classmethod
    def this_process(cls, command: Sequence[str]) -> LockOwner:
        """Describe this process; ``command`` is what the user called."""
        pid = os.getpid()
        return cls(
            pid=pid,
            start_ticks=_read_start_ticks(pid) or 0,
            boot=_read_boot_id(),
            host=socket.gethostname(),
            user=_user_name(),
            command=shlex.join(command),
            since_s=time.time(),
        )

    @classmethod
    def of_text(cls, text: str) -> LockOwner | None:
        """Read what ``as_text`` gives; None: it is not that."""
        try:
            record = json.loads(text)
            found = cls(**record)
        except (TypeError, ValueError, RecursionError):
            return None
        kinds = {name: type(value) for name, value in _FIELD_EXAMPLES.items()}
        right = all(isinstance(getattr(found, name), kind) for name, kind in kinds.items())
        return found if right else None

    def as_text(self) -> str:
        """Give it as one line of JSON."""
        return json.dumps(asdict(self)) + "\n"

    @property
    def alive(self) -> bool:
        """Say whether the process may still be there; of another host nobody knows, so it may."""
        if self.host != socket.gethostname():
            return True
        if self.boot != _read_boot_id():
            return False
        return _read_start_ticks(self.pid) == self.start_ticks

    def __str__(self) -> str:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since_s))
        what = f"`{self.command}` " if self.command else ""
        return f"{what}of {self.user} (process {self.pid} on {self.host}, since {since})"


_FIELD_EXAMPLES: dict[str, object] = {
    "pid": 1, "start_ticks": 1, "boot": "", "host": "", "user": "", "command": "", "since_s": 1.0,
}  # fmt: skip


def _read_start_ticks(pid: int) -> int | None:
    """Give when a process began; None: there is none, or only what is left of one that ended."""
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


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())  # a user without a name, as in many containers


_NO_FLOCK = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_NO_LINKS = (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP)
_LONGEST_BYTES = 65_536
_TRIES, _PAUSE_S = 20, 0.01


class Lock:
    """Held from its making to ``release``, or as a context."""

    def __init__(self, path: Path, command: Sequence[str] = ()) -> None:
        """Take the lock; raise Locked if another engine has it. ``command``: what the user called."""
        self.path = path
        self.owner = LockOwner.this_process(command)
        self.took_over: LockOwner | None = None
        """Who had it and died without letting go."""
        self._descriptor: int | None = None
        self._by_name = False
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._take()
        except OSError as error:
            raise WeftError(
                f"cannot lock the project with '{path}': {error.strerror}; check that you may write there"
            ) from None
        _held.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Let go. The file stays where flock works: to remove it would let two hold two files of one name."""
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
        elif self._by_name and _read_owner(self.path) == self.owner:
            self.path.unlink()
        self.forget()

    def forget(self) -> None:
        """Let go without a word: in a forked child, which must not hold its parent's lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor, self._by_name = None, False

    def _take(self) -> None:
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            works = self._wait_for(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        if not works:
            os.close(descriptor)
            self._take_by_name()
            return
        self.took_over = _read_owner(self.path)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, self.owner.as_text().encode(), 0)
        self._descriptor = descriptor

    def _wait_for(self, descriptor: int) -> bool:
        """Get the kernel's lock; False: this file system has none."""
        for _ in range(_TRIES):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                found = _read_owner(self.path)
                if found is not None and found.alive:
                    raise _locked_error(self.path, found) from None
                # Its owner is on the way in or out, or somebody looks at it: that takes a moment only.
                time.sleep(_PAUSE_S)
            except OSError as error:
                if error.errno in _NO_FLOCK:
                    return False
                raise
        raise _locked_error(self.path, _read_owner(self.path))

    def _take_by_name(self) -> None:
        """Take the lock without flock: by a file that only one process can have made."""
        for _ in range(_TRIES):
            before = _read_owner(self.path)
            if before is not None and before.alive:
                raise _locked_error(self.path, before)
            _remove_stale(self.path, before)
            self.took_over = before or self.took_over
            # Whoever was faster stands in the file now; who that is decides.
            if _create_linked(self.path, self.owner) and _read_owner(self.path) == self.owner:
                self._by_name = True
                return
        raise _locked_error(self.path, _read_owner(self.path))


_held: weakref.WeakSet[Lock] = weakref.WeakSet()


def _forget_locks() -> None:
    for lock in list(_held):
        lock.forget()


os.register_at_fork(after_in_child=_forget_locks)


def find_holder(path: Path) -> LockOwner | None:
    """Say which engine holds a lock; None: none does."""
    found = _read_owner(path)
    return found if found is not None and found.alive else None


def _create_linked(path: Path, owner: LockOwner) -> bool:
    """Make the file that names the owner, whole and under its name at once; False: there is one."""
    own = path.with_name(f"{path.name}.{owner.pid}")
    try:
        own.write_text(owner.as_text())
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
        with path.open("x") as stream:
            stream.write(owner.as_text())
    except FileExistsError:
        return False
    return True


def _remove_stale(path: Path, stale: LockOwner | None) -> None:
    """Remove the file of an owner that is dead, or of none; if it is not that file any more put it back."""
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
        with path.open("rb") as stream:
            return LockOwner.of_text(stream.read(_LONGEST_BYTES).decode(errors="replace"))
    except OSError:
        return None


def _locked_error(path: Path, owner: LockOwner | None) -> Locked:
    who = f"{owner} is at work" if owner is not None else "another engine is at work"
    advice = "wait for it, follow it with `weft watch`, or end it with `weft cancel`"
    return Locked(f"{path.parent.parent}: {who} in this project; {advice}")
