"""Lower bounds of the makespan, valid for every schedule. Read ``lower_bounds.py`` first.

Every bound is valid for heterogeneous machines, communication, moldable tasks, countable resources, abstract
machines, pins, earliest starts, busy machines and unlimited machines. An argument that cannot count one of
these ignores it, which only lowers the bound.
"""

from __future__ import annotations

from weft.schedule.bounds.lower_bounds import Bounds, bound_arrivals, lower_bounds
from weft.schedule.bounds.paths import heads, tails

__all__ = ["Bounds", "bound_arrivals", "heads", "lower_bounds", "tails"]
