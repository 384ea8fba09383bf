"""Strays: processes that have left the group of their task, and are counted to it all the same.

A program that calls ``setsid``, or forks twice to become a daemon, leaves the group and the session of its
task, and its parent ends. The runner is a child subreaper (``prctl(2)``): such a process becomes its own
child and not that of ``init``. To which attempt it belongs is told by its parents as long as they live, by
what was seen before, and by the mark in its environment. One that has cleaned its environment before anybody
looked belongs to no attempt, and ends with the runner. On a kernel without subreapers or without lists of
children nobody is found here, and who leaves the session is left alone.
Read by the runner only: no other part of weft, and only light modules.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Container, Mapping

from weft.backends.runner.process_groups import (
    Process,
    mark_of,
    marked,
    process,
    processes,
    tell_exactly,
)

__all__ = ["Strays"]

_SET_CHILD_SUBREAPER = 36
_PART_BYTES = 65536
_PAGE_BYTES = 2048
"""The kernel gives a list of children in pieces; one longer than this may go on."""
_ENDING_S = 5.0
_LOOK_S = 0.005

_Identity = tuple[int, int]


class Strays:
    """Knows which processes belong to which attempt of this runner."""

    def __init__(self) -> None:
        self._own = os.getpid()
        self._session = os.getsid(0)
        own = process(self._own)
        self.mark = mark_of(self._own, own.began_ticks if own is not None else 0)
        """How the marks of all programs of this runner begin."""
        self._known: dict[_Identity, int | None] = {}
        """Strays that were seen, by number and begin, and their attempts; None: nobody knows."""
        self._children = _opened_children() if _is_subreaper() else -1

    def any_of(self, attempt: int, leaders: Mapping[int, object]) -> bool:
        """Say whether something that an attempt has left has become a child of this process.

        ``leaders``: the children that it has started itself, none of which was waited for yet.
        """
        return any(self._attempt_of(one) == attempt for one in self._adopted(leaders))

    def end_late(self, leaders: Mapping[int, object], running: Container[int]) -> None:
        """Kill what an attempt that is over has left: it was born while everybody else was looked at."""
        for one in self._adopted(leaders):
            attempt = self._attempt_of(one)
            if attempt is not None and attempt not in running:
                tell_exactly(one, signal.SIGKILL)

    def _adopted(self, leaders: Mapping[int, object]) -> list[Process]:
        """Give the children that others have started; it takes few millionths of a second if none are."""
        if self._children < 0:
            return []
        text = os.pread(self._children, _PART_BYTES, 0)
        if text.count(b" ") == len(leaders):
            return []
        while len(text) > _PAGE_BYTES and (more := os.pread(self._children, _PART_BYTES, len(text))):
            text += more
        found = (process(int(word)) for word in text.split() if int(word) not in leaders)
        return [one for one in found if one is not None]

    def members(self, groups: Mapping[int, int]) -> dict[int | None, list[Process]]:
        """Give all living processes below this one, by attempt; of None is what belongs to nobody.

        ``groups``: the attempt of every process group of this session that belongs to one.
        """
        living = {one.pid: one for one in processes()}
        decided: dict[int, int | None] = {}
        sorted_out: dict[int | None, list[Process]] = {}
        known: dict[_Identity, int | None] = {}
        for one in living.values():
            if not self._decide(one, living, groups, decided):
                continue
            attempt = decided[one.pid]
            sorted_out.setdefault(attempt, []).append(one)
            if one.session != self._session:
                known[one.pid, one.began_ticks] = attempt
        self._known = known
        return sorted_out

    def _decide(
        self,
        one: Process,
        living: Mapping[int, Process],
        groups: Mapping[int, int],
        decided: dict[int, int | None],
    ) -> bool:
        """Find the attempt of a process and of those above it; False: it does not come from here."""
        way: list[Process] = []
        while one.pid not in decided:
            if one.session == self._session and one.group in groups:
                decided[one.pid] = groups[one.group]
            elif one.parent == self._own:
                decided[one.pid] = self._attempt_of(one)
            elif one.parent in living and one.pid != self._own:
                way.append(one)
                one = living[one.parent]
            else:
                return False
        attempt = decided[one.pid]
        for each in reversed(way):
            attempt = self._attempt_of(each) if attempt is None else attempt
            decided[each.pid] = attempt
        return True

    def _attempt_of(self, one: Process) -> int | None:
        """Give the attempt of a process by what was seen of it before, or by its mark."""
        if one.session == self._session:
            return None  # its group says it
        identity = one.pid, one.began_ticks
        if identity not in self._known:
            self._known[identity] = marked(one.pid, self.mark)
        return self._known[identity]

    def end_all(self) -> None:
        """Kill what is still there, whomever it belongs to, and wait for it."""
        end_s = time.monotonic() + _ENDING_S
        while self._children >= 0 and time.monotonic() < end_s:
            left = [one for ones in self.members({}).values() for one in ones]
            for one in left:
                tell_exactly(one, signal.SIGKILL)
            _reap()
            if not left:
                return
            time.sleep(_LOOK_S)


def _is_subreaper() -> bool:
    """Become the parent of all processes below this one whose own parents end; False: it cannot be."""
    try:
        import ctypes

        return bool(ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def _opened_children() -> int:
    """Open the kernel's list of the children of this process, which has one thread; -1: there is none."""
    try:
        return os.open(f"/proc/self/task/{os.getpid()}/children", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return
