"""Processes as the kernel's ``/proc`` shows them: by group, by session and by mark.

A runner leads its own session and each of its tasks a group in it, so that whatever belongs to a task, and
whatever a dead runner has left behind, is found without having been its parent. Who leaves its session keeps
the mark that every program gets in its environment. A zombie still answers to signals and is counted as gone.
Read by the runner too: no other part of weft, and only light modules.
"""

from __future__ import annotations

import os
import signal

__all__ = [
    "MARK",
    "TICKS_PER_S",
    "Process",
    "catches",
    "mark_of",
    "marked",
    "of_session",
    "out_of_memory_kills",
    "peak_bytes",
    "process",
    "processes",
    "proportional_bytes",
    "tell_exactly",
    "tell_group",
    "tell_process",
]

MARK = "WEFT_MARK"
"""The variable by which a runner knows what it has started, wherever it has gone since."""
TICKS_PER_S: int = os.sysconf("SC_CLK_TCK")
"""The unit in which the kernel counts when a process has begun."""
_PAGE_BYTES: int = os.sysconf("SC_PAGE_SIZE")


class Process:
    """One living process."""

    __slots__ = ("began_ticks", "group", "parent", "pid", "resident_bytes", "session")

    def __init__(self, pid: int, fields: list[bytes]) -> None:
        self.pid = pid
        self.parent = int(fields[1])
        self.group = int(fields[2])
        self.session = int(fields[3])
        self.began_ticks = int(fields[19])
        """Since the computer was started: with the number it names a process for ever."""
        self.resident_bytes = int(fields[21]) * _PAGE_BYTES


def process(pid: int) -> Process | None:
    """Give a process by its number; None if there is none, or only what is left of one."""
    text = _read(f"/proc/{pid}/stat")
    # Its name stands in parentheses and may hold anything, parentheses too.
    fields = text[text.rfind(b")") + 2 :].split()
    return Process(pid, fields) if len(fields) > 21 and fields[0] not in (b"Z", b"X") else None


def processes() -> list[Process]:
    """Give all living processes of this computer that can be seen."""
    found = (process(int(name)) for name in os.listdir("/proc") if name.isdecimal())
    return [one for one in found if one is not None]


def of_session(session: int, group: int | None = None) -> list[Process]:
    """Give the living processes of a session, or of one group of it."""
    return [one for one in processes() if one.session == session and (group is None or one.group == group)]


def tell_group(group: int, number: int) -> bool:
    """Send a signal to a group, and say whether there is one (zombies count)."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # it has members, but they run as somebody else
    return True


def tell_process(pid: int, number: int) -> bool:
    """Send a signal to a process, and say whether it could be told."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def tell_exactly(one: Process, number: int) -> bool:
    """Send a signal to a process, and never to another that was given its number since; say if it was."""
    try:
        handle = os.pidfd_open(one.pid)
    except OSError:
        return False
    try:
        now = process(one.pid)
        if now is None or now.began_ticks != one.began_ticks:
            return False
        signal.pidfd_send_signal(handle, number)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def mark_of(pid: int, began_ticks: int) -> str:
    """Give how the marks of all that a runner starts begin; the number of the attempt follows."""
    return f"{pid}.{began_ticks}."


def marked(pid: int, mark: str) -> int | None:
    """Give the attempt that a process was started for by the runner of a mark; None: it was not."""
    for variable in _read(f"/proc/{pid}/environ").split(b"\0"):
        if variable.startswith(f"{MARK}={mark}".encode()):
            number = variable.rpartition(b".")[2]
            return int(number) if number.isdigit() else None
    return None


def catches(pid: int, number: int) -> bool:
    """Tell whether a process has a handler for a signal, so that the signal does not end it."""
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith(b"SigCgt:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def proportional_bytes(pid: int) -> int | None:
    """Give the memory of a process in which shared pages are shared out; None where it cannot be read."""
    for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return None


def peak_bytes(pid: int) -> int:
    """Give the most memory that a process had resident at a time; 0 where it cannot be read."""
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith(b"VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def out_of_memory_kills() -> int:
    """Give how often the kernel has killed for want of memory since the computer was started."""
    for line in _read("/proc/vmstat").splitlines():
        if line.startswith(b"oom_kill "):
            return int(line.split()[1])
    return 0


def _read(name: str) -> bytes:
    """Read a file of the kernel; empty where the process has gone meanwhile or may not be seen."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        parts = []
        while part := os.read(file, 65536):
            parts.append(part)
        return b"".join(parts)
    except OSError:
        return b""
    finally:
        os.close(file)
