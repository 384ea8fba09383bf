"""Descents: methods that follow numbers downhill from one place, and start again elsewhere.

What they have in common: the first descent begins at the best start, every place counts as the point nearest
to it, and a point that is not allowed counts as very bad (infinity would leave no direction).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import ArrayLike

from weft.errors import InvalidInput, Problem
from weft.search.coordinates import Coordinates
from weft.search.optimiser import Evaluate, Found, Limit, Tell
from weft.search.pool import Pool
from weft.search.space import Floats, Points, Space
from weft.search.tally import Tally

__all__ = ["Descend", "check_restarts", "descended"]

Descend = Callable[[Coordinates, Callable[[Points], Floats], Floats], None]
"""Goes downhill: the axes, what points lose, and the place to start from."""

_NOT_ALLOWED = 1e300


def check_restarts(restarts: int) -> None:
    """Refuse a number that cannot be."""
    if restarts < 0:
        raise InvalidInput(Problem(what=f"restarts is {restarts}", rule="must be at least 0"))


def descended(
    space: Space,
    evaluate: Evaluate,
    descend: Descend,
    *,
    restarts: int,
    rng: np.random.Generator,
    limit: Limit,
    starts: Iterable[ArrayLike],
    tell: Tell | None,
    pool: Pool,
    batch: int | None,
) -> Found:
    """Descend from the best start, then from places drawn at random; give the best point of all."""
    given = list(starts)
    points = space.first_points(rng, max(1, len(given)), given)
    tally = Tally(evaluate, limit=limit, tell=tell, pool=pool, batch=batch)
    axes = Coordinates(space)

    def losses(points: Points) -> Floats:
        return np.minimum(-tally.see(points), _NOT_ALLOWED)

    with tally:
        tally.see(points)
        place = axes.of(tally.best)
        for _ in range(restarts + 1 if len(axes) else 0):
            descend(axes, losses, place)
            place = rng.random(len(axes))
    return tally.found(tally.best[None])
