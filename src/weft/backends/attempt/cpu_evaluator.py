"""The built-in evaluator ``cpu:50%``: whether competing processes take the processor from a task.

Called as ``python -m weft.backends.attempt.cpu_evaluator PID PERCENT``. For a second it measures which share
of one processor the process and its descendants use, and which share of all processors is idle. The verdict
is "too slow" (exit code 1) if both shares are below the limit. Then the task gets little processor time, but
not because it waits for files or other tasks (CPULOAD_THRESHOLD in docs/papers/adaptive-jobs.md, section 6).
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

_MEASURED_S = 1.0
_IDLE_FIELDS = (3, 4)
"""Columns of ``/proc/stat`` with the idle time and the time of waiting for input and output."""


def measure_shares(pid: int, seconds: float = _MEASURED_S) -> tuple[float, float]:
    """Return the share of one processor that a process tree uses, and the idle share of all processors."""
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    used, (idle, total), began_s = _used_ticks(pid), _processor_ticks(), time.monotonic()
    time.sleep(seconds)
    passed_s = time.monotonic() - began_s
    used_now, (idle_now, total_now) = _used_ticks(pid), _processor_ticks()
    share = max(0, used_now - used) / ticks_per_s / passed_s
    return share, (idle_now - idle) / max(1, total_now - total)


def _processor_ticks() -> tuple[int, int]:
    """Return the idle and the total time of all processors since boot, in clock ticks."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(fields[place] for place in _IDLE_FIELDS), sum(fields)


def _used_ticks(pid: int) -> int:
    """Return the processor time of a process and its descendants, in clock ticks; 0: the process has ended.

    The time of descendants that have ended counts once their parents have waited for them.
    """
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            # The name is in parentheses and may itself contain parentheses.
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        children.setdefault(int(fields[1]), []).append(int(entry.name))
        ticks[int(entry.name)] = sum(map(int, fields[11:15]))
    waiting, total = [pid], 0
    while waiting:
        each = waiting.pop()
        total += ticks.get(each, 0)
        waiting += children.get(each, ())
    return total


def main(arguments: list[str]) -> int:
    """Evaluate a process; return the exit code: 0 not too slow, 1 too slow, 2 wrong arguments."""
    try:
        pid, limit = int(arguments[0]), float(arguments[1]) / 100.0
    except (IndexError, ValueError):
        sys.stderr.write("usage: cpu_evaluator PID PERCENT\n")
        return 2
    share, idle = measure_shares(pid)
    sys.stdout.write(f"it gets {share:.0%} of a processor, and {idle:.0%} of the processors are idle\n")
    return int(share < limit and idle < limit)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
