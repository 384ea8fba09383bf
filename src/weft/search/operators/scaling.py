"""Scaling: how much better the best is than the average, as selection sees it.

Linear fitness scaling, D. E. Goldberg, Genetic Algorithms in Search, Optimization and Machine Learning, 1989,
as R. Prodan, T. Fahringer, SAC 2005 use it (S1 section 4.3): ``f' = a f + b`` keeps the average and makes the
best ``factor`` times the average; where the worst would become negative, the worst becomes 0 instead. A
factor of 1 means no scaling (as in the formula all would become equal).
"""

from __future__ import annotations

import numpy as np

from weft.search.space import Floats

__all__ = ["fitness_of", "scaled"]

_ROUNDING = 1e-12


def fitness_of(values: Floats, const: float) -> Floats:
    """Give ``const + value``, at least 0: where values are negative metrics, that is ``Const - metric``."""
    fitness: Floats = np.maximum(values + const, 0.0)
    return fitness


def scaled(fitness: Floats, factor: float) -> Floats:
    """Scale fitness, which is nowhere negative."""
    if factor == 1.0:
        return fitness
    mean, most, least = float(fitness.mean()), float(fitness.max()), float(fitness.min())
    # The same as least > (factor mean - most) / (factor - 1), without dividing.
    if least * (factor - 1.0) > factor * mean - most:
        spread, gain = most - mean, factor - 1.0
    else:
        spread, gain = mean - least, 1.0
    # What differs only by the rounding of the mean is equal.
    if not spread > _ROUNDING * mean:
        return fitness
    # a f + b as distances from the mean, which loses no digits; rounding may leave the worst a hair below 0.
    result: Floats = np.maximum(mean + (fitness - mean) * (gain * (mean / spread)), 0.0)
    return result
