"""Searches: one run of the genetic search, to its own end or until it has found what is known to be best.

A search that is interrupted gives the best so far. That is no run of an experiment: here the interruption is
raised again, so that nobody writes it down.
"""

from __future__ import annotations

import numpy as np

from weft.search.genetic import Genetic, Settings
from weft.search.optimiser import ENDLESS, Evaluate, Found, Standing
from weft.search.space import Space

__all__ = ["searched"]


def searched(
    settings: Settings,
    space: Space,
    evaluate: Evaluate,
    rng: np.random.Generator,
    optimum: float | None = None,
) -> Found:
    """Search; it ends early with the generation that reaches the optimum, where that is given."""
    search = Genetic(settings=settings)
    if optimum is None:
        found = search.optimise(space, evaluate, rng=rng, limit=ENDLESS)
    else:
        watch = _UntilReached(optimum)
        found = search.optimise(space, evaluate, rng=rng, limit=watch, tell=watch.look)
    if found.cut and (optimum is None or found.value < optimum):
        raise KeyboardInterrupt
    return found


class _UntilReached:
    """A limit that is reached with a value."""

    def __init__(self, value: float) -> None:
        self._goal = value
        self._value = -np.inf

    def look(self, standing: Standing) -> None:
        self._value = standing.value

    def allows(self, steps_taken: int) -> bool:  # noqa: ARG002
        return self._value < self._goal
