"""The contract of the registry ``optimisers``: read it first.

An optimiser looks for a point of a space whose value is large. It knows nothing of what a point means: it
asks ``evaluate`` for the values of many points at once. Its random numbers come from the generator passed in;
ties go to the point seen first. It can be ended at any time and then gives the best so far.

Tallies: what a search has seen so far. Every optimiser evaluates its points through one.

It counts the points, keeps the best, tells who listens, asks the limit, and spreads points over a pool. Used
as a context it turns the end of the limit, and Ctrl-C, into the end of the search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from weft.search.pool import INLINE_POOL, Pool
from weft.search.space import Floats, Points, Space

__all__ = [
    "NO_LIMIT",
    "Evaluate",
    "Evaluator",
    "Limit",
    "LimitReached",
    "Optimiser",
    "ProgressCallback",
    "SearchResult",
    "SearchState",
    "StepLimit",
]


Evaluate = Callable[[Points], Floats]
"""Gives the value of every row of points x genes; minus infinity: not allowed."""


class Limit(Protocol):
    """How long a search may go on; it is asked before every generation but the first."""

    def allows(self, steps_taken: int) -> bool:
        """Say whether another generation may be evaluated after so many points."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLimit:
    """A limit that counts points; the generation that reaches it is still evaluated as a whole."""

    most: int | None = None
    """None: no limit."""

    def allows(self, steps_taken: int) -> bool:
        """Say whether another generation may be evaluated."""
        return self.most is None or steps_taken < self.most


NO_LIMIT = StepLimit()


class SearchState(NamedTuple):
    """How far a search is, after each generation."""

    generations: int
    visited: int
    best: Points
    """One row."""
    value: float


ProgressCallback = Callable[[SearchState], None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SearchResult:
    """What a search found."""

    best: Points
    """One row: the best point, the first seen if several."""
    value: float
    visited: int
    """How many points were evaluated (S1 section 4: population times generations run)."""
    generations: int
    """How many generations were evaluated, the first included."""
    generation_of_best: int
    """0: the best point was in the first generation."""
    first_best: float
    """The best value of the first generation."""
    history: Floats
    """The best value so far after each generation."""
    last: Points
    """The points held at the end: a search that starts from them goes on."""
    cut: bool
    """Whether a limit or an interruption ended the search, not its own rule."""


class Optimiser(Protocol):
    """Looks for the best point of a space."""

    name: ClassVar[str]
    title: ClassVar[str]
    """One line for lists."""

    def refuses(self, space: Space) -> str | None:
        """Say why a space cannot be searched; None: it can."""
        ...

    def optimise(
        self,
        space: Space,
        evaluate: Evaluate,
        *,
        rng: np.random.Generator,
        limit: Limit = NO_LIMIT,
        starts: Iterable[ArrayLike] = (),
        tell: ProgressCallback | None = None,
        pool: Pool = INLINE_POOL,
        batch: int | None = None,
    ) -> SearchResult:
        """Maximise, never ending worse than the starts that find room in the first generation.

        At most ``batch`` points are evaluated between two looks at the limit (None: a generation). With more
        than one worker the points of a generation are evaluated side by side, with the same result.
        """
        ...


class LimitReached(Exception):
    """The limit is reached; whoever searches inside a tally's context need not care."""


class Evaluator:
    """The points seen, and the best of them."""

    def __init__(
        self,
        evaluate: Evaluate,
        *,
        limit: Limit,
        tell: ProgressCallback | None,
        pool: Pool,
        batch: int | None,
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
        ended = kind is LimitReached or (kind is KeyboardInterrupt and self.visited > 0)
        self.cut = self.cut or ended
        if ended and self._is_open:
            self._close()
        return ended

    def see(self, points: Points) -> Floats:
        """Evaluate a generation and give its values. Raises Spent where the limit allows no more."""
        if self.visited and not self._limit.allows(self.visited):
            raise LimitReached
        size = len(points) if self._batch is None else self._batch
        values = self._look_at(points) if size >= len(points) else self._in_batches(points, size)
        self._close()
        return values

    def _in_batches(self, points: Points, size: int) -> Floats:
        """Ask the limit also within a generation, so that its end is not missed by long."""
        parts = [self._look_at(points[:size])]
        for start in range(size, len(points), size):
            if not self._limit.allows(self.visited):
                raise LimitReached
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
            self._tell(SearchState(self.generations, self.visited, self.best, self.value))

    def _side_by_side(self, points: Points) -> Floats:
        workers = min(self._pool.workers, len(points))
        if workers == 1:
            return self._evaluate(points)
        return np.concatenate(list(self._pool.map(self._evaluate, np.array_split(points, workers))))

    def found(self, last: Points) -> SearchResult:
        """Give what was found; ``last`` are the points held at the end."""
        return SearchResult(
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
