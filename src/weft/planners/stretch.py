"""A stretch: the part of a clock that one search gets, which ends early when nothing better can be found."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from weft.planners.planner import Progress

__all__ = ["CLOSED", "Stretch"]

CLOSED = 1e-9
"""Share by which a plan and a bound that are equal may differ by rounding."""


@dataclass(slots=True, kw_only=True)
class Stretch:
    """A stretch of a clock, which ends early when a plan as short as the bound is found."""

    left: Callable[[], float] | None
    """The clock of the whole; None: there is none."""
    until_s: float = 0.0
    """What the whole shall have left at the end of the stretch."""
    goal_s: float = 0.0
    """No makespan is below it; 0: nothing is known, or something else counts."""
    listener: Callable[[Progress], None] | None = None
    reached: bool = False

    def remaining_s(self) -> float:
        """Give the seconds that are left."""
        if self.reached:
            return 0.0
        return math.inf if self.left is None else self.left() - self.until_s

    def hear(self, news: Progress) -> None:
        """Notice when the goal is reached, and pass the news on."""
        if self.goal_s > 0 and news.makespan_s <= max(self.goal_s, news.bound_s) * (1.0 + CLOSED):
            self.reached = True
        if self.listener is not None:
            self.listener(news)
