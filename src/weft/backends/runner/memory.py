"""Memory of a runner's programs: what they use, what they used at most, and when the kernel had too little.

Resident sets are added up first, because that is cheap, and only where the sum is too large are shared pages
shared out. The kernel counts to the peak of a new process what the runner had resident when it started it: a
peak that is not larger than that may be the runner's, and says nothing.
Read by the runner only: no other part of weft, and only light modules.
"""

from __future__ import annotations

import os

from weft.backends.runner.process_groups import (
    Process,
    out_of_memory_kills,
    peak_bytes,
    proportional_bytes,
)

__all__ = ["Memory", "excess", "used_bytes"]

_UNSURE_BYTES = 1 << 20
"""The kernel counts memory on every core apart, so that its sums are off by a little."""


class Memory:
    """What is remembered from one look to the next."""

    def __init__(self) -> None:
        self._own_peak_bytes = 0
        self._kills = (out_of_memory_kills(),) * 2

    def program_peak_bytes(self, counted_bytes: int) -> int:
        """Give what the kernel has counted as a program's peak; 0: it may as well be this process's own."""
        if counted_bytes > self._own_peak_bytes + _UNSURE_BYTES:
            self._own_peak_bytes = peak_bytes(os.getpid())
        return counted_bytes if counted_bytes > self._own_peak_bytes + _UNSURE_BYTES else 0

    def count_kills(self) -> None:
        """Take note, once a second, of how often the kernel has killed for want of memory."""
        self._kills = (self._kills[1], out_of_memory_kills())

    def kernel_killed(self) -> bool:
        """Tell whether the kernel has killed for want of memory in the last two seconds; each counts once."""
        before, last = self._kills
        if out_of_memory_kills() <= before:
            return False
        self._kills = (before + 1, max(before + 1, last))
        return True


def used_bytes(members: list[Process], limit_bytes: float | None) -> int:
    """Give what the processes of a task have resident; exactly only if it seems more than the limit."""
    whole_bytes = sum(one.resident_bytes for one in members)
    if limit_bytes is None or whole_bytes <= limit_bytes:
        return whole_bytes
    shares = [(proportional_bytes(one.pid), one.resident_bytes) for one in members]
    return sum(whole if share is None else share for share, whole in shares)


def excess(used: int, limit_bytes: float) -> str:
    """Say that a task used more than it was given."""
    return f"it used {used / 1e6:.1f} MB of memory, and was given {limit_bytes / 1e6:.1f} MB"
