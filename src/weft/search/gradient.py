"""The gradient method, for numeric spaces: slopes are measured, and SciPy's L-BFGS-B follows them.

R. H. Byrd, P. Lu, J. Nocedal, C. Zhu, A Limited Memory Algorithm for Bound Constrained Optimization, SIAM
Journal on Scientific Computing 16(5), 1995; gradient descent is named by S1 section 4 as a method to plug in.
The slope along an axis is that between the points next to the nearest one; between points values are taken to
follow the slopes. Where it comes to rest, it starts again elsewhere.
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
from weft.search.space import Floats, Points, Space
from weft.search.tally import Tally

__all__ = ["Gradient"]

_NOT_ALLOWED = 1e300
"""What a point counts that is not allowed; infinity would leave no slope."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradient:
    """Follows the slope."""

    name: ClassVar[str] = "gradient"
    title: ClassVar[str] = "gradient method for numbers (L-BFGS-B, Byrd et al. 1995)"

    restarts: int = 9
    """How often it starts again elsewhere."""

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
        """Follow slopes from the best start, then from places drawn at random."""
        from scipy.optimize import minimize

        given = list(starts)
        points = space.first_points(rng, max(1, len(given)), given)
        tally = Tally(evaluate, limit=limit, tell=tell, pool=pool, batch=batch)
        axes = Coordinates(space)

        def loss(place: Floats) -> tuple[float, Floats]:
            return _loss_and_slopes(place, axes, space, tally)

        with tally:
            tally.see(points)
            place = axes.of(tally.best)
            for _ in range(self.restarts + 1 if len(axes) else 0):
                minimize(loss, place, jac=True, method="L-BFGS-B", bounds=[(0.0, 1.0)] * len(axes))
                place = rng.random(len(axes))
        return tally.found(tally.best[None])


def _loss_and_slopes(place: Floats, axes: Coordinates, space: Space, tally: Tally) -> tuple[float, Floats]:
    """Evaluate the nearest point and both neighbours on every axis; give loss and slopes at a place."""
    point = axes.nearest(place)
    below, above = _beside(point, axes, space)
    losses = np.minimum(-tally.see(np.concatenate([point[None], below, above])), _NOT_ALLOWED)
    many, rows = len(axes), np.arange(len(axes))
    here = axes.of(point)
    width = np.array([axes.of(row) for row in above])[rows, rows]
    width -= np.array([axes.of(row) for row in below])[rows, rows]
    slopes = (losses[1 + many :] - losses[1 : 1 + many]) / width
    return float(losses[0] + slopes @ (place - here)), slopes


def _beside(point: Points, axes: Coordinates, space: Space) -> tuple[Points, Points]:
    """Give the neighbours below and above on every axis; at an end the point itself."""
    rows, genes = np.arange(len(axes)), axes.choosing
    below = np.repeat(point[None], len(axes), axis=0)
    above = below.copy()
    below[rows, genes] -= (point[genes] > 0).astype(np.uint32)
    above[rows, genes] += (point[genes] + 1 < space.sizes[genes]).astype(np.uint32)
    return below, above
