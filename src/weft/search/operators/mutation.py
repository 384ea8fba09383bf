"""Mutation: every gene is replaced, with some probability, by one of its values drawn evenly.

S1 section 4.6 and S2 section 8 (random mutation). The value drawn may be the one it has. Genes are hit
independently of each other; as few are, the distance to the next is drawn, which has the same distribution.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.search.space import Points, Space

__all__ = ["hits", "mutate"]


def mutate(points: Points, space: Space, rate: float, rng: np.random.Generator) -> None:
    """Replace genes in place."""
    hit = hits(points.size, rate, rng)
    if len(hit):
        values = rng.random(len(hit)) * space.sizes[hit % space.genes]
        points.reshape(-1)[hit] = values.astype(np.uint32)


def hits(number: int, rate: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Give which of so many are hit, ascending."""
    if rate <= 0.0:
        return np.zeros(0, dtype=np.int64)
    mean = number * rate
    # Rarely too few; then as many again.
    enough = int(mean + 4.0 * mean**0.5) + 4
    found = _distances(number, rate, enough, rng).cumsum() - 1
    while found[-1] < number - 1:
        found = np.concatenate([found, found[-1] + _distances(number, rate, enough, rng).cumsum()])
    return found[: int(found.searchsorted(number))]


def _distances(number: int, rate: float, enough: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw distances to the next hit; none needs to lead further than behind the end."""
    return np.minimum(rng.geometric(rate, enough), number + 1)
