"""The gradient method, for numeric spaces: slopes are measured, and SciPy's L-BFGS-B follows them.

R. H. Byrd, P. Lu, J. Nocedal, C. Zhu, A Limited Memory Algorithm for Bound Constrained Optimization, SIAM
Journal on Scientific Computing 16(5), 1995; gradient descent is named by S1 section 4 as a method to plug in.
The slope along an axis is that between the points next to the nearest one; between points values are taken to
follow the slopes. Where it comes to rest, it starts again elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.search.coordinates import Coordinates
from weft.search.descent import Descent, Losses
from weft.search.space import Floats, Points, Space

__all__ = ["Gradient"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradient(Descent):
    """Follows the slope."""

    name: ClassVar[str] = "gradient"
    title: ClassVar[str] = "gradient method for numbers (L-BFGS-B, Byrd et al. 1995)"

    def descend(self, space: Space, axes: Coordinates, losses: Losses, place: Floats) -> None:
        """Follow the slopes from a place until it comes to rest."""
        from scipy.optimize import minimize

        def loss_and_slopes(where: Floats) -> tuple[float, Floats]:
            return _loss_and_slopes(where, axes, space, losses)

        minimize(loss_and_slopes, place, jac=True, method="L-BFGS-B", bounds=[(0.0, 1.0)] * len(axes))


def _loss_and_slopes(place: Floats, axes: Coordinates, space: Space, losses: Losses) -> tuple[float, Floats]:
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
