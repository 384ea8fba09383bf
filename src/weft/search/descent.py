"""Descent methods for numeric spaces: L-BFGS-B and Nelder-Mead of SciPy, with restarts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from weft.errors import InvalidInput
from weft.search.optimiser import Evaluator, OptimiserBase
from weft.search.space import Floats, Points, Space


class Coordinates:
    """The genes with more than one value in a numeric space, each scaled to 0 (least) to 1 (largest)."""

    def __init__(self, space: Space) -> None:
        assert space.scale is not None
        self.choosing = np.flatnonzero(space.sizes > 1)
        self._genes = space.genes
        self._units = [_scale_to_unit(space.scale[gene]) for gene in self.choosing]

    def __len__(self) -> int:
        return len(self.choosing)

    def of(self, point: Points) -> Floats:
        """Return the coordinates of a point, each from 0 to 1."""
        pairs = zip(self._units, point[self.choosing], strict=True)
        return np.array([unit[position] for unit, position in pairs])

    def nearest(self, place: Floats) -> Points:
        """Return the point nearest to the coordinates ``place``; of two values equally near, the smaller."""
        point = np.zeros(self._genes, dtype=np.uint32)
        for gene, unit, share in zip(self.choosing, self._units, place, strict=True):
            point[gene] = np.searchsorted((unit[1:] + unit[:-1]) / 2, share)
        return point


def _scale_to_unit(numbers: Floats) -> Floats:
    unit: Floats = (numbers - numbers[0]) / (numbers[-1] - numbers[0])
    return unit


_LossFunction = Callable[[Points], Floats]
"""Function that returns the loss of every point: the negated value."""

_NOT_ALLOWED = 1e300


@dataclass(frozen=True, slots=True, kw_only=True)
class _Descent(OptimiserBase):
    """Base of the descent methods for numeric spaces.

    The first descent begins at the best start, the others at random positions. A continuous position is
    evaluated at the nearest point of the space. A forbidden point has a very large, finite loss, so that
    slopes can be computed.
    """

    restarts: int = 9
    """Number of restarts at random positions."""

    def __post_init__(self) -> None:
        if self.restarts < 0:
            raise InvalidInput(f"restarts is {self.restarts}", rule="must be at least 0")

    @abstractmethod
    def descend(self, space: Space, axes: Coordinates, losses: _LossFunction, place: Floats) -> None:
        """Minimise the loss by a descent that starts at the coordinates ``place``."""

    def refuses(self, space: Space) -> str | None:
        """Return a reason if the values of the space are not numeric, else None."""
        return "the method needs distances, but the values are not numbers" if space.scale is None else None

    def search(
        self, space: Space, evaluator: Evaluator, rng: np.random.Generator, starts: list[ArrayLike]
    ) -> None:
        """Descend from the best start, then from random positions."""
        axes = Coordinates(space)

        def losses(points: Points) -> Floats:
            return np.minimum(-evaluator.evaluate(points), _NOT_ALLOWED)

        evaluator.evaluate(space.first_points(rng, max(1, len(starts)), starts))
        place = axes.of(evaluator.best)
        for _ in range(self.restarts + 1 if len(axes) else 0):
            self.descend(space, axes, losses, place)
            place = rng.random(len(axes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradient(_Descent):
    """Gradient descent by L-BFGS-B, with restarts.

    R. H. Byrd, P. Lu, J. Nocedal, C. Zhu, A Limited Memory Algorithm for Bound Constrained Optimization,
    SIAM Journal on Scientific Computing 16(5), 1995 (named in docs/papers/dynamic-grid.md, section 4). The
    slope along an axis is the difference quotient between the two neighbours of the nearest point. Losses
    between points are interpolated linearly with the slopes.
    """

    name: ClassVar[str] = "gradient"
    title: ClassVar[str] = "gradient method for numbers (L-BFGS-B, Byrd et al. 1995)"

    def descend(self, space: Space, axes: Coordinates, losses: _LossFunction, place: Floats) -> None:
        """Run L-BFGS-B from a position until it converges."""
        from scipy.optimize import minimize

        def loss_and_slopes(where: Floats) -> tuple[float, Floats]:
            return _loss_and_slopes(where, axes, space, losses)

        minimize(loss_and_slopes, place, jac=True, method="L-BFGS-B", bounds=[(0.0, 1.0)] * len(axes))


def _loss_and_slopes(
    place: Floats, axes: Coordinates, space: Space, losses: _LossFunction
) -> tuple[float, Floats]:
    """Return loss and slopes at a position, from the nearest point and its neighbours on every axis."""
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
    """Return the neighbours of a point below and above it on every axis; at a boundary the point itself."""
    rows, genes = np.arange(len(axes)), axes.choosing
    below = np.repeat(point[None], len(axes), axis=0)
    above = below.copy()
    below[rows, genes] -= (point[genes] > 0).astype(np.uint32)
    above[rows, genes] += (point[genes] + 1 < space.sizes[genes]).astype(np.uint32)
    return below, above


_WIDTH = 0.25
"""Length of the first simplex along each axis, as a share of the axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simplex(_Descent):
    """Descent with restarts by the simplex method of Nelder and Mead, without derivatives.

    J. A. Nelder, R. Mead, A Simplex Method for Function Minimization, The Computer Journal 7(4), 1965 (named
    in docs/papers/dynamic-grid.md, section 4).
    """

    name: ClassVar[str] = "simplex"
    title: ClassVar[str] = "simplex method for numbers (Nelder and Mead 1965)"

    def descend(self, space: Space, axes: Coordinates, losses: _LossFunction, place: Floats) -> None:
        """Run Nelder-Mead from a position until the simplex is smaller than a step of the space."""
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
    """Return the corners of the first simplex: a position and one neighbour on every axis, from 0 to 1."""
    corners = np.repeat(place[None], len(place) + 1, axis=0)
    steps = np.where(place + _WIDTH <= 1.0, _WIDTH, -_WIDTH)
    corners[np.arange(1, len(place) + 1), np.arange(len(place))] += steps
    return corners
