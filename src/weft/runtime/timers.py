"""Timers that the engine has set: the earliest first, one per name."""

from __future__ import annotations

import heapq
import math

__all__ = ["Timers"]


class Timers:
    """Named times; setting a name again replaces it."""

    def __init__(self) -> None:
        self._at: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def set(self, name: str, at_s: float) -> None:
        """Set or replace a timer."""
        self._at[name] = at_s
        heapq.heappush(self._heap, (at_s, name))

    def next_s(self) -> float:
        """Give when the next one is due; infinity: never."""
        while self._heap and self._at.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else math.inf

    def due(self, now_s: float) -> list[str]:
        """Take the timers that are due, the earliest first."""
        found = []
        while self.next_s() <= now_s:
            _, name = heapq.heappop(self._heap)
            del self._at[name]
            found.append(name)
        return found
