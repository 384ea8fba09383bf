"""Statistics over repetitions of a search: how good, how sure, how often.

Precision and improvement are those of R. Prodan, T. Fahringer, SAC 2005 (S1 section 12), in predicted times;
success rates and medians those of M. Jaros, J. Jaros (S2 sections 8 and 12).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from weft.errors import InvalidInput, Problem

__all__ = ["Summary", "improvement_percent", "precision_percent", "share_percent", "summarise"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What many numbers are like."""

    number: int
    mean: float
    standard_error: float
    """Of the mean; not a number where there is only one."""
    least: float
    lower_quartile: float
    median: float
    upper_quartile: float
    most: float


def summarise(values: Sequence[float]) -> Summary:
    """Sum up some numbers. Quartiles lie between neighbours, by the share of the way."""
    if not values:
        raise InvalidInput(Problem(what="statistics of no numbers", rule="there must be at least one"))
    ordered = sorted(values)
    number = len(ordered)
    mean = math.fsum(ordered) / number
    squares = math.fsum((value - mean) ** 2 for value in ordered)
    error = math.sqrt(squares / (number - 1) / number) if number > 1 else math.nan
    return Summary(
        number=number,
        mean=mean,
        standard_error=error,
        least=ordered[0],
        lower_quartile=_quantile(ordered, 0.25),
        median=_quantile(ordered, 0.5),
        upper_quartile=_quantile(ordered, 0.75),
        most=ordered[-1],
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def precision_percent(best_s: float, reference_s: float) -> float:
    """Give S1's P: by how much the best time found is above a time known to be good."""
    return (best_s - reference_s) / reference_s * 100.0


def improvement_percent(first_s: float, best_s: float) -> float:
    """Give S1's I: by how much the best of the first generation is above the best found."""
    return (first_s - best_s) / best_s * 100.0


def share_percent(flags: Sequence[float]) -> float:
    """Give the share of repetitions in which something holds (1, else 0)."""
    return summarise(flags).mean * 100.0
