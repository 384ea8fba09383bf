"""Round times for an axis, in the units in which people count time."""

from __future__ import annotations

import math

from weft.units import format_seconds

__all__ = ["tick_label", "tick_times"]

_STEPS_S = (
    10, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000,
)  # fmt: skip


def _step(least_s: float) -> float:
    """Give the smallest round step that is not below ``least_s``."""
    least_s *= 1 - 1e-9
    for step in _STEPS_S if 5 < least_s <= _STEPS_S[-1] else ():
        if step >= least_s:
            return step
    unit = 1.0 if least_s <= 5 else 86400.0
    power = 10.0 ** math.floor(math.log10(least_s / unit))
    return next(unit * power * factor for factor in (1, 2, 5, 10) if unit * power * factor >= least_s)


def tick_times(end_s: float, most: int) -> list[float]:
    """Give round times from 0 to the end, not more than ``most`` steps."""
    if end_s <= 0:
        return [0.0]
    step = _step(end_s / max(most, 1))
    count = int(end_s / step * (1 + 1e-12))
    return [index * step for index in range(count + 1)]


def tick_label(seconds: float) -> str:
    """Write a round time without the unit that is zero: ``2m``, not ``2m 0s``."""
    text = format_seconds(seconds)
    return text if seconds < 120 else text.removesuffix(" 0s").removesuffix(" 0m").removesuffix(" 0h")
