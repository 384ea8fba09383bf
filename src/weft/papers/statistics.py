"""Statistics over repetitions.

Precision and improvement: R. Prodan, T. Fahringer, SAC 2005 (docs/papers/dynamic-grid.md, section 12), on
predicted times. Success rates and medians: M. Jaros, J. Jaros (docs/papers/moldable.md, sections 8 and 12).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft.errors import InvalidInput
from weft.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Mean, dispersion and quartiles of a sample."""

    number: int
    mean: float
    standard_error: float
    """Standard error of the mean; NaN for a single value."""
    standard_deviation: float
    """Standard deviation of the values themselves (divisor n), not an estimate for a population."""
    mean_absolute_deviation: float
    """Mean distance from the mean."""
    least: float
    lower_quartile: float
    median: float
    upper_quartile: float
    most: float


def summarise(values: Sequence[float]) -> Summary:
    """Return the statistics of a sample; quartiles are interpolated linearly."""
    if not values:
        raise InvalidInput("there are no values to summarise", rule="a summary needs at least one value")
    ordered = sorted(values)
    number = len(ordered)
    mean = math.fsum(ordered) / number
    squares = math.fsum((value - mean) ** 2 for value in ordered)
    error = math.sqrt(squares / (number - 1) / number) if number > 1 else math.nan
    return Summary(
        number=number,
        mean=mean,
        standard_error=error,
        standard_deviation=math.sqrt(squares / number),
        mean_absolute_deviation=math.fsum(abs(value - mean) for value in ordered) / number,
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
    """Return the precision P: by how many percent the best time exceeds the reference time."""
    return (best_s - reference_s) / reference_s * 100.0


def improvement_percent(first_s: float, best_s: float) -> float:
    """Return the improvement I: percentage by which the first generation's best time exceeds the best."""
    return (first_s - best_s) / best_s * 100.0


def share_percent(flags: Sequence[float]) -> float:
    """Return the percentage of ones among flags of 0 and 1."""
    return summarise(flags).mean * 100.0
