"""The simplex method of Nelder and Mead, for numeric spaces; SciPy does the work.

J. A. Nelder, R. Mead, A Simplex Method for Function Minimization, The Computer Journal 7(4), 1965; named by
S1 section 4 as a method to plug in. Every place is evaluated at the point nearest to it. When the simplex has
shrunk to less than a step of the space, another starts elsewhere.
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

__all__ = ["Simplex"]

_WIDTH = 0.25
"""The first simplex spans this share of each axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simplex:
    """Goes downhill without slopes."""

    name: ClassVar[str] = "simplex"
    title: ClassVar[str] = "simplex method for numbers (Nelder and Mead 1965)"

    restarts: int = 9
    """How often another simplex starts after one has shrunk to nothing."""

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
        """Shrink one simplex after the other, the first from the best start."""
        return descended(
            space,
            evaluate,
            partial(_shrink, 0.5 / max(1, int(space.sizes.max()))),
            restarts=self.restarts,
            rng=rng,
            limit=limit,
            starts=starts,
            tell=tell,
            pool=pool,
            batch=batch,
        )


def _shrink(finest: float, axes: Coordinates, losses: Callable[[Points], Floats], place: Floats) -> None:
    """Let a simplex around a place move downhill until it is smaller than a step of the space."""
    from scipy.optimize import minimize

    minimize(
        lambda where: float(losses(axes.nearest(where)[None])[0]),
        place,
        method="Nelder-Mead",
        bounds=[(0.0, 1.0)] * len(axes),
        options={"initial_simplex": _simplex(place), "xatol": finest, "fatol": np.inf},
    )


def _simplex(place: Floats) -> Floats:
    """Give a place and one beside it on every axis, all from 0 to 1."""
    corners = np.repeat(place[None], len(place) + 1, axis=0)
    steps = np.where(place + _WIDTH <= 1.0, _WIDTH, -_WIDTH)
    corners[np.arange(1, len(place) + 1), np.arange(len(place))] += steps
    return corners
