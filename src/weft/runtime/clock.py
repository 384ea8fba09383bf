"""The clock of an execution: seconds since it began, which never run backwards.

Inside a process the monotonic clock counts, so that a clock that is set changes nothing. Between two
processes only the wall clock is left; if it was set back meanwhile, time goes on where the journal ends.
"""

from __future__ import annotations

import time

__all__ = ["RunClock"]


class RunClock:
    """Seconds since an execution began."""

    def __init__(self, began_at: float, last_s: float = 0.0) -> None:
        """Begin, or go on: ``began_at`` is the wall time of the beginning, ``last_s`` the journal's end."""
        self.began_at = began_at
        self._base_s = max(last_s, time.time() - began_at)
        self._since = time.monotonic()

    def now(self) -> float:
        """Give the time."""
        return self._base_s + (time.monotonic() - self._since)

    def wall(self, now_s: float) -> float:
        """Give the wall time of a moment of the execution."""
        return self.began_at + now_s
