"""Exhaustive search: evaluate every point of the space in order (docs/papers/dynamic-grid.md, section 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from weft.search.optimiser import Evaluator, OptimiserBase
from weft.search.space import Points, Space

_MOST_POINTS = 10**9
_TOGETHER = 1024
"""Number of points evaluated per batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExhaustiveSearch(OptimiserBase):
    """Exhaustive search: evaluates every point of the space.

    The last gene changes fastest. Given starts are evaluated first.
    """

    name: ClassVar[str] = "exhaustive"
    title: ClassVar[str] = "every point in order"

    def refuses(self, space: Space) -> str | None:
        """Return a reason if the space has more than 10^9 points, else None."""
        return (
            None
            if space.points <= _MOST_POINTS
            else f"{float(space.points):.3g} points are too many (limit {_MOST_POINTS:.0e})"
        )

    def search(
        self,
        space: Space,
        evaluator: Evaluator,
        rng: np.random.Generator,  # noqa: ARG002
        starts: list[ArrayLike],
    ) -> None:
        """Evaluate the starts, then all points in batches."""
        if starts:
            evaluator.evaluate(np.array([space.repair(start) for start in starts], dtype=np.uint32))
        for first in range(0, space.points, _TOGETHER):
            evaluator.evaluate(_list_points(space, first, min(first + _TOGETHER, space.points)))


def _list_points(space: Space, first: int, end: int) -> Points:
    """Return the points with numbers from ``first`` to before ``end``; the last gene changes fastest."""
    numbers = np.arange(first, end)
    points = np.empty((len(numbers), space.genes), dtype=np.uint32)
    for gene in range(space.genes - 1, -1, -1):
        numbers, points[:, gene] = np.divmod(numbers, int(space.sizes[gene]))
    return points
