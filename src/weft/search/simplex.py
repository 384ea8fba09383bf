"""The simplex method of Nelder and Mead, for numeric spaces; SciPy does the work.

J. A. Nelder, R. Mead, A Simplex Method for Function Minimization, The Computer Journal 7(4), 1965; named by
S1 section 4 as a method to plug in. Every place is evaluated at the point nearest to it. When the simplex has
shrunk to less than a step of the space, another starts elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.search.coordinates import Coordinates
from weft.search.descent import Descent, Losses
from weft.search.space import Floats, Space

__all__ = ["Simplex"]

_WIDTH = 0.25
"""The first simplex spans this share of each axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simplex(Descent):
    """Goes downhill without slopes."""

    name: ClassVar[str] = "simplex"
    title: ClassVar[str] = "simplex method for numbers (Nelder and Mead 1965)"

    def descend(self, space: Space, axes: Coordinates, losses: Losses, place: Floats) -> None:
        """Let a simplex around a place move until it is smaller than a step of the space."""
        from scipy.optimize import minimize

        finest = 0.5 / max(1, int(space.sizes.max()))
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
