"""Refutation: a makespan that leads to a contradiction is too short; the longest refuted one is a bound."""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["SLACK", "crossing", "longest_refuted"]

SLACK = 1e-9
"""Times are sums of doubles: what differs by less, relative to the whole, is equal."""
_PRECISION = 1e-7
_COARSE = 1e-4
"""Where each try is dear, the bound is found to this share of itself."""
_FIRST_STEP = 2e-3


def crossing(low: float, at: Callable[[float], float]) -> float:
    """Give the T where a falling function of T meets T, from below; ``low`` if it lies below already."""
    high = at(low)
    while high - low > _PRECISION * high:
        middle = 0.5 * (low + high)
        value = at(middle)
        # The function falls: it meets T somewhere between this T and the value here.
        low, high = max(low, min(middle, value)), min(high, max(middle, value))
    return low


def longest_refuted(low: float, refuted: Callable[[float], bool], *, whole: bool) -> float:
    """Raise a bound by trying longer makespans; whether one is refuted must not grow with its length.

    ``whole``: the optimum is a whole number, so beyond the last refuted one the next is the bound.
    """
    if low <= 0.0:
        return low
    if whole:
        return _longest_whole(math.ceil(low * (1 - SLACK)), refuted)
    step = _FIRST_STEP * low
    if not refuted(low + step):
        return low
    while refuted(low + step):
        low, step = low + step, 2 * step
    high = low + step
    while high - low > _COARSE * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def _longest_whole(bound: int, refuted: Callable[[float], bool]) -> float:
    """Give the first whole number that is not refuted, or a little less where numbers are large."""
    if not refuted(bound):
        return bound
    low, step = bound, max(1, int(_FIRST_STEP * bound))
    while refuted(low + step):
        low, step = low + step, 2 * step
    high = low + step
    while high - low > max(1.0, _COARSE * high):
        middle = (low + high) // 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low + 1
