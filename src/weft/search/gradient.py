"""The gradient method, for numeric spaces: slopes are measured, and SciPy's L-BFGS-B follows them.

R. H. Byrd, P. Lu, J. Nocedal, C. Zhu, A Limited Memory Algorithm for Bound Constrained Optimization, SIAM
Journal on Scientific Computing 16(5), 1995; gradient descent is named by S1 section 4 as a method to plug in.
The slope along an axis is that between the points next to the nearest one; between points values are taken to
follow the slopes. Where it comes to rest, it starts again elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from weft.search.coordinates import Coordinates, no_numbers
from weft.search.descents import check_restarts, descended
from weft.search.optimiser import ENDLESS, Evaluate, Found, Limit, Tell
from weft.search.pool import ALONE, Pool
from weft.search.space import Floats, Points, Space

__all__ = ["Gradient"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradient:
    """Follows the slope."""

    name: ClassVar[str] = "gradient"
    title: ClassVar[str] = "gradient method for numbers (L-BFGS-B, Byrd et al. 1995)"

    restarts: int = 9
    """How often it starts again elsewhere."""

    def __post_init__(self) -> None:
        check_restarts(self.restarts)

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
        return descended(
            space,
            evaluate,
            partial(_follow, space),
            restarts=self.restarts,
            rng=rng,
            limit=limit,
            starts=starts,
            tell=tell,
            pool=pool,
            batch=batch,
        )


def _follow(space: Space, axes: Coordinates, losses: Callable[[Points], Floats], place: Floats) -> None:
    """Follow the slopes from a place until it comes to rest."""
    from scipy.optimize import minimize

    def loss_and_slopes(where: Floats) -> tuple[float, Floats]:
        return _loss_and_slopes(where, axes, space, losses)

    minimize(loss_and_slopes, place, jac=True, method="L-BFGS-B", bounds=[(0.0, 1.0)] * len(axes))


def _loss_and_slopes(
    place: Floats, axes: Coordinates, space: Space, losses: Callable[[Points], Floats]
) -> tuple[float, Floats]:
    """Evaluate the nearest point and both neighbours on every axis; give loss and slopes at a place."""
    point = axes.nearest(place)
    below, above = _beside(point, axes, space)
    lost = losses(np.concatenate([point[None], below, above]))
    many, rows = len(axes), np.arange(len(axes))
    here = axes.of(point)
    width = np.array([axes.of(row) for row in above])[rows, rows]
    width -= np.array([axes.of(row) for row in below])[rows, rows]
    slopes = (lost[1 + many :] - lost[1 : 1 + many]) / width
    return float(lost[0] + slopes @ (place - here)), slopes


def _beside(point: Points, axes: Coordinates, space: Space) -> tuple[Points, Points]:
    """Give the neighbours below and above on every axis; at an end the point itself."""
    rows, genes = np.arange(len(axes)), axes.choosing
    below = np.repeat(point[None], len(axes), axis=0)
    above = below.copy()
    below[rows, genes] -= (point[genes] > 0).astype(np.uint32)
    above[rows, genes] += (point[genes] + 1 < space.sizes[genes]).astype(np.uint32)
    return below, above
