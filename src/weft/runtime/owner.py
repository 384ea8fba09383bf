"""The owner of a lock: a process, named so that it can be told from another that got its number later."""

from __future__ import annotations

import getpass
import json
import os
import shlex
import socket
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["Owner"]

_PROCESSES = Path("/proc")
_FIRST_AFTER_NAME = 22 - 3
"""Where the start time stands in ``/proc/PID/stat``, counted behind the name, which may hold anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
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
    def this_process(cls, command: Sequence[str]) -> Owner:
        """Describe this process; ``command`` is what the user called."""
        pid = os.getpid()
        return cls(
            pid=pid,
            start_ticks=_start_ticks(pid) or 0,
            boot=_boot(),
            host=socket.gethostname(),
            user=_user(),
            command=shlex.join(command),
            since_s=time.time(),
        )

    @classmethod
    def of_text(cls, text: str) -> Owner | None:
        """Read what ``as_text`` gives; None: it is not that."""
        try:
            record = json.loads(text)
            found = cls(**record)
        except (TypeError, ValueError, RecursionError):
            return None
        kinds = {name: type(value) for name, value in _EXAMPLE.items()}
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
        if self.boot != _boot():
            return False
        return _start_ticks(self.pid) == self.start_ticks

    def __str__(self) -> str:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since_s))
        what = f"`{self.command}` " if self.command else ""
        return f"{what}of {self.user} (process {self.pid} on {self.host}, since {since})"


_EXAMPLE: dict[str, object] = {
    "pid": 1, "start_ticks": 1, "boot": "", "host": "", "user": "", "command": "", "since_s": 1.0,
}  # fmt: skip


def _start_ticks(pid: int) -> int | None:
    """Give when a process began; None: there is none, or only what is left of one that ended."""
    try:
        text = (_PROCESSES / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[_FIRST_AFTER_NAME])


def _boot() -> str:
    try:
        return (_PROCESSES / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())  # a user without a name, as in many containers
