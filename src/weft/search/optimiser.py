"""The contract of the shelf ``optimisers``: read it first.

An optimiser looks for a point of a space whose value is large. It knows nothing of what a point means: it
asks ``evaluate`` for the values of many points at once. Its random numbers come from the generator passed in;
ties go to the point seen first. It can be ended at any time and then gives the best so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

from numpy.typing import ArrayLike

from weft.search.pool import ALONE, Pool
from weft.search.space import Floats, Points, Space

if TYPE_CHECKING:
    import numpy as np

__all__ = ["ENDLESS", "Evaluate", "Found", "Limit", "Optimiser", "Standing", "Steps", "Tell"]

Evaluate = Callable[[Points], Floats]
"""Gives the value of every row of points x genes; minus infinity: not allowed."""


class Limit(Protocol):
    """How long a search may go on; it is asked before every generation but the first."""

    def allows(self, steps_taken: int) -> bool:
        """Say whether another generation may be evaluated after so many points."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """A limit that counts points; the generation that reaches it is still evaluated as a whole."""

    most: int | None = None
    """None: no limit."""

    def allows(self, steps_taken: int) -> bool:
        """Say whether another generation may be evaluated."""
        return self.most is None or steps_taken < self.most


ENDLESS = Steps()


class Standing(NamedTuple):
    """How far a search is, after each generation."""

    generations: int
    visited: int
    best: Points
    """One row."""
    value: float


Tell = Callable[[Standing], None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
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
        limit: Limit = ENDLESS,
        starts: Iterable[ArrayLike] = (),
        tell: Tell | None = None,
        pool: Pool = ALONE,
        batch: int | None = None,
    ) -> Found:
        """Maximise, never ending worse than the starts that find room in the first generation.

        At most ``batch`` points are evaluated between two looks at the limit (None: a generation). With more
        than one worker the points of a generation are evaluated side by side, with the same result.
        """
        ...
