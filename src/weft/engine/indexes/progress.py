"""What the running tasks of a run have done of their mean seconds by now, if each goes on as expected.

Each does its share per second until it should have ended; from then on it counts as done, though it still
runs. So the sum grows evenly between two events: kept are its growth and its beginning, in whole units
(``totals``), which do not depend on the order in which tasks began and ended.
"""

from __future__ import annotations

from heapq import heappop, heappush

from weft.engine.indexes.totals import as_seconds, as_units

__all__ = ["Progress"]

_Share = tuple[int, int, int]
"""Units of mean seconds per second, the unit of time since when, all its units."""


class Progress:
    """A task that begins or ends costs O(log n)."""

    __slots__ = ("_ends", "_full", "_growth", "_origin", "_overdue", "_shares")

    def __init__(self) -> None:
        self._shares: dict[int, _Share] = {}
        self._overdue: set[int] = set()
        """Those that should have ended."""
        self._ends: list[tuple[float, int, _Share]] = []
        """A heap of the others (end, task, share); who has ended before goes when it comes to the top."""
        self._growth = self._origin = self._full = 0

    def begin(self, task: int, mean_s: float, started_s: float, seconds: float) -> None:
        """Hear that a task runs since then and is expected to take so long."""
        self.stop(task)
        share = (as_units(mean_s / seconds), as_units(started_s), as_units(mean_s))
        self._shares[task] = share
        self._count(share, 1)
        heappush(self._ends, (started_s + seconds, task, share))

    def stop(self, task: int) -> None:
        """Forget a task, if it runs."""
        share = self._shares.pop(task, None)
        if share is None:
            return
        if task in self._overdue:
            self._overdue.remove(task)
            self._full -= share[2]
        else:
            self._count(share, -1)

    def done_s(self, now: float) -> float:
        """Give the mean seconds that are done."""
        while self._ends and self._ends[0][0] <= now:
            _, task, share = heappop(self._ends)
            if self._shares.get(task) is share:
                self._overdue.add(task)
                self._count(share, -1)
                self._full += share[2]
        # Growth times time is in units of units.
        return as_seconds(self._full) + as_seconds(as_seconds(self._growth * as_units(now) - self._origin))

    def _count(self, share: _Share, change: int) -> None:
        growth, since, _ = share
        self._growth += change * growth
        self._origin += change * growth * since
