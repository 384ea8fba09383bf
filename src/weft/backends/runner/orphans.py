"""Orphans: tasks that go on after their runner was killed. Nobody can wait for them, so they are ended.

They are found by the records of their starts and by the session of the dead runner, never by a process number
alone: a number is believed only with the moment at which its process began, and a session only if its number
was not given away since (the kernel gives none away while a process of the session or group lives). A program
whose start was not recorded any more is found by the session and the moment of the runner's last beat; one
that has left the session, by the mark of the runner in its environment.
"""

from __future__ import annotations

import signal
import time
from pathlib import Path

from weft.backends.runner.process_groups import (
    TICKS_PER_S,
    Process,
    mark_of,
    marked,
    process,
    processes,
    tell_exactly,
    tell_group,
)
from weft.backends.runner.records import Ledger, Record, Records

__all__ = ["is_living", "kill_orphans", "orphans"]

_TICK_S = 2.0 / TICKS_PER_S
"""By so much the kernel's count may differ from the clock's."""
_AFTER_BEAT_S = 3.0
"""A runner that is not stopped beats once a second; a loaded computer is late."""


def is_living(identity: Record | None) -> bool:
    """Tell whether the runner of a ``pid`` record still lives, stopped or not."""
    if identity is None or identity.get("boot") != _boot():
        return False
    found = process(int(str(identity["pid"])))
    return found is not None and found.began_ticks == identity["began_ticks"]


def kill_orphans(records: Records, *, timeout_s: float = 10.0) -> tuple[int, ...]:
    """Kill what a dead runner has left, and wait until it is gone; gives the processes that were killed.

    Raises TimeoutError if some cannot be killed.
    """
    killed: list[int] = []
    end_s = time.monotonic() + timeout_s
    wait_s = 0.002
    session = int(str((records.read("pid") or {}).get("pid", 0)))
    while left := orphans(records):
        killed += [one.pid for one in left if one.pid not in killed]
        for group in sorted({one.group for one in left if one.session == session}):
            tell_group(group, signal.SIGKILL)  # all at once, so that none can make another meanwhile
        for one in left:
            if one.session != session:
                tell_exactly(one, signal.SIGKILL)
        if time.monotonic() > end_s:
            raise TimeoutError(f"processes that cannot be killed: {', '.join(str(one.pid) for one in left)}")
        time.sleep(wait_s)
        wait_s = min(2.0 * wait_s, 0.1)
    return tuple(killed)


def orphans(records: Records) -> list[Process]:
    """Give the living processes that a dead runner has started; none if it lives."""
    identity = records.read("pid")
    if identity is None or identity.get("boot") != _boot() or is_living(identity):
        return []
    session = int(str(identity["pid"]))
    first_ticks = int(str(identity["began_ticks"]))
    living, mark = processes(), mark_of(session, first_ticks)
    strays = [one for one in living if one.session != session and marked(one.pid, mark) is not None]
    # If its number was given away, nothing of its session was left.
    members = [] if process(session) is not None else [one for one in living if one.session == session]
    return strays + _started(records, members, first_ticks) if members else strays


def _started(records: Records, members: list[Process], first_ticks: int) -> list[Process]:
    """Give the members of a dead runner's session that it has started itself."""
    begun = [start for start in Ledger.read(records, "starts").values() if start["pid"] is not None]
    starts = {int(str(start["pid"])): start for start in begun}
    last_ticks = _last_moment_s(records) * TICKS_PER_S
    groups = {
        one.group
        for one in members
        if (one.group in starts and _is_its_leader(starts[one.group]))
        or first_ticks <= one.began_ticks <= last_ticks
    }
    return [one for one in members if one.group in groups]


def _is_its_leader(start: Record) -> bool:
    """Tell whether the number of a group's leader still belongs to it, or to nobody."""
    leader = process(int(str(start["pid"])))
    within = start["within"]
    if leader is None or not isinstance(within, list):
        return leader is None
    began_s = leader.began_ticks / TICKS_PER_S
    return bool(within[0] - _TICK_S <= began_s <= within[1] + _TICK_S)


def _last_moment_s(records: Records) -> float:
    """Give the latest moment, since the computer started, at which the runner can have started something."""
    beat = records.read_again("beat")
    if beat is None:
        return float("inf")
    age_s = time.monotonic() - float(str(beat["monotonic_s"]))
    return time.clock_gettime(time.CLOCK_BOOTTIME) - age_s + _AFTER_BEAT_S


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
