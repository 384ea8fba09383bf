"""Exhaustive search: evaluate every point of the space in order (docs/papers/dynamic-grid.md, section 3).

The last gene changes fastest. Given starts are evaluated first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from weft.search.optimiser import NO_LIMIT, Evaluate, Evaluator, Limit, ProgressCallback, SearchResult
from weft.search.pool import INLINE_POOL, Pool
from weft.search.space import Points, Space

__all__ = ["ExhaustiveSearch", "list_points"]

_MOST_POINTS = 10**9
_TOGETHER = 1024
"""Points evaluated per batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExhaustiveSearch:
    """Evaluation of every point."""

    name: ClassVar[str] = "exhaustive"
    title: ClassVar[str] = "every point in order"

    def refuses(self, space: Space) -> str | None:
        """Refuse spaces of more than 10^9 points."""
        return None if space.points <= _MOST_POINTS else f"{float(space.points):.3g} points are too many"

    def optimise(
        self,
        space: Space,
        evaluate: Evaluate,
        *,
        rng: np.random.Generator,  # noqa: ARG002
        limit: Limit = NO_LIMIT,
        starts: Iterable[ArrayLike] = (),
        tell: ProgressCallback | None = None,
        pool: Pool = INLINE_POOL,
        batch: int | None = None,
    ) -> SearchResult:
        """Evaluate everything, some points at a time."""
        given = [space.repair(start) for start in starts]
        tally = Evaluator(evaluate, limit=limit, tell=tell, pool=pool, batch=batch)
        with tally:
            if given:
                tally.see(np.array(given, dtype=np.uint32))
            for first in range(0, space.points, _TOGETHER):
                tally.see(list_points(space, first, min(first + _TOGETHER, space.points)))
        return tally.found(tally.best[None])


def list_points(space: Space, first: int, end: int) -> Points:
    """Return the points with numbers from ``first`` to before ``end``; the last gene changes fastest."""
    numbers = np.arange(first, end)
    points = np.empty((len(numbers), space.genes), dtype=np.uint32)
    for gene in range(space.genes - 1, -1, -1):
        numbers, points[:, gene] = np.divmod(numbers, int(space.sizes[gene]))
    return points
