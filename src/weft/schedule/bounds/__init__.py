"""Lower bounds of the makespan: no schedule can be shorter, whatever planner made it.

Read ``lower_bounds`` first; each argument has a file of its own. All hold for unlike machines, communication,
moldable tasks, countable resources, abstract machines, pins, earliest starts, busy machines and machines
where tasks do not disturb each other: what an argument cannot count it leaves out, never guesses.
"""

from __future__ import annotations

from weft.schedule.bounds.lower_bounds import Bounds, lower_bounds
from weft.schedule.bounds.paths import heads, tails

__all__ = ["Bounds", "heads", "lower_bounds", "tails"]
