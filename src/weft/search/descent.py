"""Descent: methods that follow numbers downhill from one place, and start again elsewhere.

What they have in common: the first descent begins at the best start, every place counts as the point nearest
to it, and a point that is not allowed counts as very bad (infinity would leave no direction).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from weft.errors import InvalidInput, Problem
from weft.search.coordinates import Coordinates, no_numbers
from weft.search.optimiser import ENDLESS, Evaluate, Found, Limit, Tell
from weft.search.pool import ALONE, Pool
from weft.search.space import Floats, Points, Space
from weft.search.tally import Tally

__all__ = ["Descent", "Losses"]

Losses = Callable[[Points], Floats]
"""Says what points lose."""

_NOT_ALLOWED = 1e300


@dataclass(frozen=True, slots=True, kw_only=True)
class Descent(ABC):
    """A method for numeric spaces; how it goes downhill is what is left open."""

    restarts: int = 9
    """How often it starts again elsewhere."""

    def __post_init__(self) -> None:
        if self.restarts < 0:
            raise InvalidInput(Problem(what=f"restarts is {self.restarts}", rule="must be at least 0"))

    @abstractmethod
    def descend(self, space: Space, axes: Coordinates, losses: Losses, place: Floats) -> None:
        """Go downhill from a place until it comes to rest."""

    def refuses(self, space: Space) -> str | None:
        """Refuse values that are no numbers."""
        return no_numbers(space)

    def optimise(
        self,
        space: Space,
        evaluate: Evaluate,
        *,
        rng: np.random.Generator,
        limit: Limit = ENDLESS,
        starts: Iterable[ArrayLike] = (),
        tell: Tell | None = None,
        pool: Pool = ALONE,
        batch: int | None = None,
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
            for _ in range(self.restarts + 1 if len(axes) else 0):
                self.descend(space, axes, losses, place)
                place = rng.random(len(axes))
        return tally.found(tally.best[None])
