"""Sums of seconds that do not depend on the order in which things came and went.

Floating point sums drift: what is added and taken out again leaves a trace, and a state that was rebuilt
would say something else in the last digits. So seconds are counted in whole units of 2**-60 s.
"""

from __future__ import annotations

__all__ = ["as_seconds", "as_units"]

_UNITS = 1 << 60


def as_units(seconds: float) -> int:
    """Give seconds in units; what is shorter than one unit counts as nothing or one."""
    return round(seconds * _UNITS)


def as_seconds(units: float) -> float:
    """Give a sum of units in seconds, rounded once."""
    return units / _UNITS
