"""Grids: seconds as whole numbers, which is all an exact solver counts in.

Where all times of an instance are whole or decimal numbers, a tick is their largest common measure and the
model is the problem itself. Otherwise a tick is a small power of two of a second and every time is rounded
*down*. That makes the model easier, never harder: take any schedule and round its starts down to ticks.
As ``floor(a) + floor(b) <= floor(a + b)``, whatever followed something else still does; and tasks that run at
tick i of the model all ran just before the end of that tick, so that they have room together. So the model
has a plan that is not longer than the shortest schedule, and its bounds are bounds of the makespan.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.workflow.unfolding.task_graph import Floats

__all__ = ["Grid", "grid_of", "whole_amounts"]

_DECIMALS = 6
"""Digits behind the point up to which times count as decimal."""
_EXACT_BITS = 40
"""A horizon of more ticks is not counted exactly."""
_ROUNDED_BITS = 40
"""How fine the horizon is cut where times are rounded: 2 ticks per task are lost, 2e-12 of it."""
_ROUNDING = 1e-12
"""Share by which a double may differ from the number it stands for."""
_NEARLY = 1e-3
"""Part of a tick by which a sum may differ from the tick it stands for."""
_AMOUNT_SHARE = 2.0**-30
"""How fine amounts of resources are counted that are no whole numbers."""

_Ticks = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """How long a tick is: ``measure / per_second`` seconds."""

    measure: int
    per_second: float
    exact: bool
    """Whether every time of the instance is a number of ticks."""

    def ticks(self, seconds: Floats) -> _Ticks:
        """Give times in ticks, rounded down where they are not exact."""
        scaled = np.asarray(seconds, dtype=np.float64) * self.per_second
        if self.exact:
            return np.rint(scaled).astype(np.int64) // self.measure
        return np.floor(scaled).astype(np.int64)

    def tick(self, seconds: float) -> int:
        """Give one time in ticks."""
        return int(self.ticks(np.array(seconds)))

    def begun(self, seconds: float) -> int:
        """Give the ticks that are over at a moment of a schedule."""
        return math.floor(self._counted(seconds))

    def ended(self, seconds: float) -> int:
        """Give the tick that is the first not to lie before a moment."""
        return math.ceil(-self._counted(-seconds))

    def _counted(self, seconds: float) -> float:
        """Count ticks; a moment is a sum: where times are exact, whole but for the last digits."""
        return seconds * self.per_second / self.measure + (_NEARLY if self.exact else 0.0)

    def seconds(self, ticks: float) -> float:
        """Give the seconds of a number of ticks."""
        return ticks * self.measure / self.per_second


def grid_of(times_s: Floats, horizon_s: float) -> Grid:
    """Find the grid of all times of an instance; the horizon is the latest moment of interest."""
    times = np.unique(times_s[times_s > 0])
    for decimals in range(_DECIMALS + 1):
        per_second = 10.0**decimals
        if horizon_s * per_second >= 2.0**_EXACT_BITS:
            break
        near = np.rint(times * per_second)
        if (np.abs(times * per_second - near) <= _ROUNDING * np.maximum(1.0, near)).all():
            measure = int(np.gcd.reduce(near.astype(np.int64))) if len(near) else 1
            return Grid(measure=max(1, measure), per_second=per_second, exact=True)
    # A power of two: multiplying by it rounds nothing.
    exponent = _ROUNDED_BITS - int(np.frexp(max(horizon_s, 1e-300))[1])
    return Grid(measure=1, per_second=float(np.ldexp(1.0, exponent)), exact=False)


def whole_amounts(taken: Floats, total: float) -> tuple[_Ticks, int]:
    """Give amounts and their limit as whole numbers: exact where they are, else rounded in favour of fitting.

    Nothing that fits is refused, so that bounds stay bounds.
    """
    for factor in (1.0, 10.0, 100.0, 1000.0):
        scaled = taken * factor
        near = np.rint(scaled)
        if (np.abs(scaled - near) <= _ROUNDING * np.maximum(1.0, near)).all() and (near < 2.0**40).all():
            amounts, limit = near.astype(np.int64), int(min(np.floor(total * factor * (1 + 1e-9)), 2.0**50))
            measure = int(np.gcd.reduce(amounts)) if amounts.any() else 1
            return amounts // max(1, measure), limit // max(1, measure)
    unit = max(float(total), float(taken.max(initial=0.0))) * _AMOUNT_SHARE
    return np.floor(taken / unit).astype(np.int64), int(np.floor(total * (1 + 1e-9) / unit)) + 1
