"""Selection: which points become parents.

``remainder``: remainder stochastic sampling with replacement (D. E. Goldberg 1989; S1 section 4.4). The
others carry the names of the PyGAD library (S2 section 8): ``steady-state``, the best; ``rank``, by lot,
weighed by the place among all; ``tournament``, the best of a few drawn; ``roulette``, by lot, weighed by
fitness.

Each gives the numbers of as many parents as are asked for. Fitness is nowhere negative. Ties go to the lower
number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from weft.search.space import Floats

__all__ = [
    "SELECTIONS",
    "Numbers",
    "Selection",
    "rank",
    "remainder",
    "roulette",
    "steady_state",
    "tournament",
]

Numbers = NDArray[np.intp]
Selection = Literal["remainder", "steady-state", "rank", "tournament", "roulette"]
_ROUNDING = 1e-9
_DRAWN = 3
"""How many compete in a tournament."""


def remainder(fitness: Floats, number: int, rng: np.random.Generator) -> Numbers:
    """Give everyone the whole part of its expected copies; draw the rest by the fractions."""
    most = float(fitness.max())
    if not most > 0.0:
        return rng.integers(0, len(fitness), number)
    # By shares of the best, so that no sum is too small or too large for a number.
    shares = fitness / most
    expected = shares * (number / float(shares.sum()))
    # Rounding must not take a sure copy away from whoever expects a whole number of them.
    whole = np.floor(expected + _ROUNDING)
    copies = np.repeat(np.arange(len(fitness)), whole.astype(np.intp))
    return np.concatenate([copies, _lots(np.maximum(expected - whole, 0.0), number - len(copies), rng)])


def steady_state(fitness: Floats, number: int, rng: np.random.Generator) -> Numbers:  # noqa: ARG001
    """Give the best."""
    return (-fitness).argsort(kind="stable")[:number]


def rank(fitness: Floats, number: int, rng: np.random.Generator) -> Numbers:
    """Draw with weights 1 for the worst, 2 for the next, and so on."""
    weights = np.empty(len(fitness))
    weights[(-fitness).argsort(kind="stable")] = np.arange(len(fitness), 0, -1)
    return _lots(weights, number, rng)


def tournament(fitness: Floats, number: int, rng: np.random.Generator) -> Numbers:
    """Draw a few for every parent and give the best of them."""
    drawn = rng.integers(0, len(fitness), (number, _DRAWN))
    best: Numbers = drawn[np.arange(number), fitness[drawn].argmax(axis=1)]
    return best


def roulette(fitness: Floats, number: int, rng: np.random.Generator) -> Numbers:
    """Draw with the fitness as weights."""
    return _lots(fitness, number, rng)


def _lots(weights: Floats, number: int, rng: np.random.Generator) -> Numbers:
    """Draw with replacement; where all weights are 0, evenly."""
    ends = np.cumsum(weights)
    if not ends[-1] > 0.0:
        return rng.integers(0, len(weights), number)
    drawn = np.searchsorted(ends, rng.random(number) * ends[-1], side="right")
    found: Numbers = np.minimum(drawn, len(weights) - 1)
    return found


SELECTIONS: dict[str, Callable[[Floats, int, np.random.Generator], Numbers]] = {
    "remainder": remainder,
    "steady-state": steady_state,
    "rank": rank,
    "tournament": tournament,
    "roulette": roulette,
}
