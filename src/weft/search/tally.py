"""Tallies: what a search has seen so far. Every optimiser evaluates its points through one.

It counts the points, keeps the best, tells who listens, asks the limit, and spreads points over a pool. Used
as a context it turns the end of the limit, and Ctrl-C, into the end of the search.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

import numpy as np

from weft.search.optimiser import Evaluate, Found, Limit, Standing, Tell
from weft.search.pool import Pool
from weft.search.space import Floats, Points

__all__ = ["Spent", "Tally"]


class Spent(Exception):
    """The limit is reached; whoever searches inside a tally's context need not care."""


class Tally:
    """The points seen, and the best of them."""

    def __init__(
        self, evaluate: Evaluate, *, limit: Limit, tell: Tell | None, pool: Pool, batch: int | None
    ) -> None:
        self._evaluate = evaluate
        self._limit = limit
        self._tell = tell
        self._pool = pool
        self._batch = batch
        self.best = np.zeros(0, dtype=np.uint32)
        self.value = -np.inf
        self.visited = 0
        self.generations = 0
        self.generation_of_best = 0
        self._history: list[float] = []
        self.cut = False
        self._is_open = False
        """Whether points of a generation that has not ended were evaluated."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        # Interrupted before anything is known, there is nothing to go home with.
        ended = kind is Spent or (kind is KeyboardInterrupt and self.visited > 0)
        self.cut = self.cut or ended
        if ended and self._is_open:
            self._close()
        return ended

    def see(self, points: Points) -> Floats:
        """Evaluate a generation and give its values. Raises Spent where the limit allows no more."""
        if self.visited and not self._limit.allows(self.visited):
            raise Spent
        size = len(points) if self._batch is None else self._batch
        values = self._look_at(points) if size >= len(points) else self._in_batches(points, size)
        self._close()
        return values

    def _in_batches(self, points: Points, size: int) -> Floats:
        """Ask the limit also within a generation, so that its end is not missed by long."""
        parts = [self._look_at(points[:size])]
        for start in range(size, len(points), size):
            if not self._limit.allows(self.visited):
                raise Spent
            parts.append(self._look_at(points[start : start + size]))
        return np.concatenate(parts)

    def _look_at(self, points: Points) -> Floats:
        """Evaluate points and keep the best."""
        values = self._side_by_side(points)
        number = int(values.argmax())
        if not self.visited or values[number] > self.value:
            self.best, self.value = points[number].copy(), float(values[number])
            self.generation_of_best = self.generations
        self.visited += len(points)
        self._is_open = True
        return values

    def _close(self) -> None:
        """End a generation, whole or not."""
        self._is_open = False
        self._history.append(self.value)
        self.generations += 1
        if self._tell is not None:
            self._tell(Standing(self.generations, self.visited, self.best, self.value))

    def _side_by_side(self, points: Points) -> Floats:
        workers = min(self._pool.workers, len(points))
        if workers == 1:
            return self._evaluate(points)
        return np.concatenate(list(self._pool.map(self._evaluate, np.array_split(points, workers))))

    def found(self, last: Points) -> Found:
        """Give what was found; ``last`` are the points held at the end."""
        return Found(
            best=self.best,
            value=self.value,
            visited=self.visited,
            generations=self.generations,
            generation_of_best=self.generation_of_best,
            first_best=self._history[0],
            history=np.array(self._history),
            last=last,
            cut=self.cut,
        )
