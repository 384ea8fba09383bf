"""The interface of optimisers, and the evaluator through which all of them evaluate points."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from weft.search.pool import INLINE_POOL, Pool
from weft.search.space import Floats, Points, Space

Evaluate = Callable[[Points], Floats]
"""Function that returns the value of every point; minus infinity for a forbidden point."""


class Limit(Protocol):
    """The limit of a search, checked before every batch of points except the first."""

    def allows(self, steps_taken: int) -> bool:
        """Return whether more points may be evaluated after ``steps_taken`` points."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLimit:
    """A limit on the number of points; the batch that reaches it is still evaluated completely."""

    most: int | None = None
    """Number of points after which the search ends; None for no limit."""

    def allows(self, steps_taken: int) -> bool:
        """Return whether fewer than ``most`` points have been evaluated."""
        return self.most is None or steps_taken < self.most


NO_LIMIT = StepLimit()


class SearchState(NamedTuple):
    """The progress of a search after a generation."""

    generations: int
    visited: int
    best: Points
    """The best point so far, as one row."""
    value: float


ProgressCallback = Callable[[SearchState], None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SearchResult:
    """The result of a search."""

    best: Points
    """The best point as one row; of several equally good points the one found first."""
    value: float
    visited: int
    """Number of evaluated points (docs/papers/dynamic-grid.md, section 4: population times generations)."""
    generations: int
    """Number of evaluated generations, including the first."""
    generation_of_best: int
    """Index of the generation in which the best point was found."""
    first_best: float
    """Best value of the first generation."""
    history: Floats
    """Best value so far after each generation."""
    last: Points
    """The points at the end of the search; another search that starts from them continues this one."""
    cut: bool
    """Whether a limit or an interruption ended the search before the optimiser's own stopping rule."""


class Optimiser(Protocol):
    """Maximises the value of points of a search space.

    An optimiser does not interpret points: ``evaluate`` returns the values of many points at once. Random
    numbers come from the generator passed in. Of points with equal values the one seen first is kept. A
    search that is cut short returns the best point so far.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    """One line about the optimiser, for listings."""

    def refuses(self, space: Space) -> str | None:
        """Return why a space cannot be searched; None if it can."""

    def optimise(
        self,
        space: Space,
        evaluate: Evaluate,
        *,
        rng: np.random.Generator,
        limit: Limit = NO_LIMIT,
        starts: Iterable[ArrayLike] = (),
        on_progress: ProgressCallback | None = None,
        pool: Pool = INLINE_POOL,
        batch: int | None = None,
    ) -> SearchResult:
        """Return the best point found, never worse than the starts that fit into the first generation.

        The limit is checked after every ``batch`` points; if ``batch`` is None, after every generation. With
        more than one worker, the points of a generation are evaluated in parallel with the same result.
        """


class _LimitReached(Exception):
    """Raised when the limit of a search is reached; ``Evaluator.__exit__`` suppresses it."""


@dataclass(slots=True, eq=False)
class Evaluator:
    """Evaluates points for an optimiser and keeps the best.

    It counts points, reports progress, checks the limit and distributes points over a pool.
    As a context manager it ends the search when the limit is reached or Ctrl-C is pressed.
    """

    function: Evaluate
    limit: Limit
    on_progress: ProgressCallback | None
    pool: Pool
    batch: int | None
    best: Points = field(default_factory=lambda: np.zeros(0, dtype=np.uint32), init=False)
    value: float = field(default=-np.inf, init=False)
    visited: int = field(default=0, init=False)
    generations: int = field(default=0, init=False)
    generation_of_best: int = field(default=0, init=False)
    last: Points | None = field(default=None, init=False)
    """The current points of the search; None if only the best point is kept."""
    cut: bool = field(default=False, init=False)
    _history: list[float] = field(default_factory=list, init=False)
    _is_open: bool = field(default=False, init=False)
    """Whether a generation is partly evaluated."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        # Without any evaluated point there is no result, so the interrupt propagates.
        ended = kind is _LimitReached or (kind is KeyboardInterrupt and self.visited > 0)
        self.cut = self.cut or ended
        if ended and self._is_open:
            self._close()
        return ended

    def evaluate(self, points: Points) -> Floats:
        """Evaluate a generation and return its values; raise ``_LimitReached`` if the limit is reached."""
        size = len(points) if self.batch is None else self.batch
        parts = []
        for start in range(0, len(points), size):
            if self.visited and not self.limit.allows(self.visited):
                raise _LimitReached
            parts.append(self._evaluate_batch(points[start : start + size]))
        self._close()
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _evaluate_batch(self, points: Points) -> Floats:
        if (workers := min(self.pool.workers, len(points))) == 1:
            values = self.function(points)
        else:
            parts = np.array_split(points, workers)
            values = np.concatenate(list(self.pool.map(self.function, parts)))
        number = int(values.argmax())
        if not self.visited or values[number] > self.value:
            self.best, self.value = points[number].copy(), float(values[number])
            self.generation_of_best = self.generations
        self.visited += len(points)
        self._is_open = True
        return values

    def _close(self) -> None:
        """End a generation, even if it is only partly evaluated, and report the progress."""
        self._is_open = False
        self._history.append(self.value)
        self.generations += 1
        if self.on_progress is not None:
            self.on_progress(SearchState(self.generations, self.visited, self.best, self.value))

    def result(self) -> SearchResult:
        """Return the result of the search so far."""
        return SearchResult(
            best=self.best,
            value=self.value,
            visited=self.visited,
            generations=self.generations,
            generation_of_best=self.generation_of_best,
            first_best=self._history[0],
            history=np.array(self._history),
            last=self.best[None] if self.last is None else self.last,
            cut=self.cut,
        )


class OptimiserBase(ABC):
    """An optimiser that evaluates its points through an ``Evaluator``."""

    def refuses(self, space: Space) -> str | None:  # noqa: ARG002
        """Return None: every space can be searched."""
        return None

    @abstractmethod
    def search(
        self, space: Space, evaluator: Evaluator, rng: np.random.Generator, starts: list[ArrayLike]
    ) -> None:
        """Evaluate points with ``evaluator`` until the search is finished.

        A search with several current points stores them in ``evaluator.last``.
        """

    def optimise(
        self,
        space: Space,
        evaluate: Evaluate,
        *,
        rng: np.random.Generator,
        limit: Limit = NO_LIMIT,
        starts: Iterable[ArrayLike] = (),
        on_progress: ProgressCallback | None = None,
        pool: Pool = INLINE_POOL,
        batch: int | None = None,
    ) -> SearchResult:
        """Return the best point that ``search`` finds within the limit (see ``Optimiser.optimise``)."""
        evaluator = Evaluator(evaluate, limit, on_progress, pool, batch)
        with evaluator:
            self.search(space, evaluator, rng, list(starts))
        return evaluator.result()
