"""Elitism: the best are not lost.

``keep_best`` is the elitist model of S1 section 4.7, ``elite`` the percentage of S2 section 8.
"""

from __future__ import annotations

from weft.search.space import Floats, Points

__all__ = ["elite", "keep_best"]


def keep_best(points: Points, values: Floats, best: Points, value: float) -> None:
    """Put the best so far in the place of the worst, in place, if all of a generation are worse."""
    if float(values.max()) < value:
        worst = int(values.argmin())
        points[worst], values[worst] = best, value


def elite(points: Points, values: Floats, number: int) -> Points:
    """Give the best points of a generation, the best first, ties by number."""
    return points[(-values).argsort(kind="stable")[:number]]
