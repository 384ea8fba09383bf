"""The agenda of a simulated world: what happens next, in the order of time, then of cause."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from itertools import count

from weft.engine.messages.events import Event

__all__ = ["Action", "Agenda"]

Action = Callable[[], Event | None]
"""Something that happens at its time; it may give an event to report."""


class Agenda:
    """A clock and what is to happen."""

    def __init__(self) -> None:
        self.now = 0.0
        self._queue: list[tuple[float, int, Event | None, Action | None]] = []
        self._sequence = count()

    def report(self, event: Event, at_s: float | None = None) -> None:
        """Report an event, now or later."""
        heapq.heappush(self._queue, (self.now if at_s is None else at_s, next(self._sequence), event, None))

    def put(self, at_s: float, action: Action) -> None:
        """Let something happen at a time."""
        heapq.heappush(self._queue, (at_s, next(self._sequence), None, action))

    def next_s(self) -> float:
        """Give the time of the next thing; inf: there is none."""
        return self._queue[0][0] if self._queue else math.inf

    def take(self) -> Event | None:
        """Let the next thing happen; give the event to report, if there is one."""
        at_s, _, event, action = heapq.heappop(self._queue)
        self.now = max(self.now, at_s)
        return action() if action is not None else event
