"""The simplex method of Nelder and Mead, for numeric spaces; SciPy does the work.

J. A. Nelder, R. Mead, A Simplex Method for Function Minimization, The Computer Journal 7(4), 1965; named by
S1 section 4 as a method to plug in. Every place is evaluated at the point nearest to it. When the simplex has
shrunk to less than a step of the space, another starts elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from weft.errors import InvalidInput, Problem
from weft.search.coordinates import Coordinates, no_numbers
from weft.search.optimiser import ENDLESS, Evaluate, Found, Limit, Tell
from weft.search.pool import ALONE, Pool
from weft.search.space import Floats, Space
from weft.search.tally import Tally

__all__ = ["Simplex"]

_WIDTH = 0.25
"""The first simplex spans this share of each axis."""
_NOT_ALLOWED = 1e300
"""What a point counts that is not allowed; infinity would leave no direction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simplex:
    """Goes downhill without slopes."""

    name: ClassVar[str] = "simplex"
    title: ClassVar[str] = "simplex method for numbers (Nelder and Mead 1965)"

    restarts: int = 9
    """How often another simplex starts after one has shrunk to nothing."""

    def __post_init__(self) -> None:
        if self.restarts < 0:
            raise InvalidInput(Problem(what=f"restarts is {self.restarts}", rule="must be at least 0"))

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
        """Shrink one simplex after the other, the first from the best start."""
        from scipy.optimize import minimize

        given = list(starts)
        points = space.first_points(rng, max(1, len(given)), given)
        tally = Tally(evaluate, limit=limit, tell=tell, pool=pool, batch=batch)
        axes = Coordinates(space)
        finest = 0.5 / max(1, int(space.sizes.max()))

        def loss(place: Floats) -> float:
            return min(_NOT_ALLOWED, -float(tally.see(axes.nearest(place)[None])[0]))

        with tally:
            tally.see(points)
            place = axes.of(tally.best)
            for _ in range(self.restarts + 1 if len(axes) else 0):
                minimize(
                    loss,
                    place,
                    method="Nelder-Mead",
                    bounds=[(0.0, 1.0)] * len(axes),
                    options={"initial_simplex": _simplex(place), "xatol": finest, "fatol": np.inf},
                )
                place = rng.random(len(axes))
        return tally.found(tally.best[None])


def _simplex(place: Floats) -> Floats:
    """Give a place and one beside it on every axis, all from 0 to 1."""
    corners = np.repeat(place[None], len(place) + 1, axis=0)
    steps = np.where(place + _WIDTH <= 1.0, _WIDTH, -_WIDTH)
    corners[np.arange(1, len(place) + 1), np.arange(len(place))] += steps
    return corners
