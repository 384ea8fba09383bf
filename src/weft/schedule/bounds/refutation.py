"""Refutation: a makespan that leads to a contradiction is too short; the longest refuted one is a bound."""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["SLACK", "crossing", "longest_refuted"]

SLACK = 1e-9
"""Times are sums of doubles: what differs by less, relative to the whole, is equal."""
_PRECISION = 1e-10
"""To which share of itself a bound is found."""
_FIRST_STEP = 2e-3
_TINY_STEP = 1e-6
"""If even so little more cannot be refuted, no more is tried."""


def crossing(low: float, at: Callable[[float], float]) -> float:
    """Give the T where a falling function of T meets T, from below; ``low`` if it lies below already."""
    high = at(low)
    while high - low > _PRECISION * high:
        middle = 0.5 * (low + high)
        value = at(middle)
        # The function falls: it meets T somewhere between this T and the value here.
        low, high = max(low, min(middle, value)), min(high, max(middle, value))
    return low


def longest_refuted(low: float, refuted: Callable[[float], bool], *, whole: bool, tries: int) -> float:
    """Raise a bound by trying longer makespans; ``refuted`` must say no with ``SLACK`` to spare.

    ``whole``: the optimum is a whole number, so beyond the last refuted one the next is the bound. After so
    many ``tries`` the bound is good enough.
    """
    if low <= 0.0:
        return low
    if whole:
        return _longest_whole(math.ceil(low * (1 - SLACK)), refuted, tries)
    step, known = _FIRST_STEP * low, low
    if not refuted(low * (1 + _TINY_STEP)):
        return low
    while tries and refuted(low + step):
        low, step, tries = low + step, 2 * step, tries - 1
    high = low + step
    for _ in range(tries):
        if high - low <= _PRECISION * high:
            break
        middle = 0.5 * (low + high)
        low, high = (middle, high) if refuted(middle) else (low, middle)
    # Nothing within the slack above a refuted makespan is possible either.
    return low * (1 + SLACK) if low > known else low


def _longest_whole(bound: int, refuted: Callable[[float], bool], tries: int) -> float:
    """Give the first whole number that is not refuted, or a little less when tries run out."""
    if not refuted(bound):
        return float(bound)
    low, step = bound, max(1, int(_FIRST_STEP * bound))
    while tries and refuted(low + step):
        low, step, tries = low + step, 2 * step, tries - 1
    high = low + step
    for _ in range(tries):
        if high - low <= 1:
            break
        middle = (low + high) // 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return float(low + 1)
