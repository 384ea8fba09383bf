"""One genetic search of an experiment; not in ``runs``, so that ledgers depend on the search code only."""

from __future__ import annotations

import numpy as np

from weft.search.genetic import GeneticAlgorithm, GeneticSettings
from weft.search.optimiser import NO_LIMIT, Evaluate, SearchResult, SearchState
from weft.search.space import Space


def run_search(
    settings: GeneticSettings,
    space: Space,
    evaluate: Evaluate,
    rng: np.random.Generator,
    optimum: float | None = None,
) -> SearchResult:
    """Run the genetic search to its end, or until the generation that reaches ``optimum``.

    Raises KeyboardInterrupt if the search was interrupted: a partial result must not be recorded.
    """
    search = GeneticAlgorithm(settings=settings)
    if optimum is None:
        found = search.optimise(space, evaluate, rng=rng, limit=NO_LIMIT)
    else:
        watch = _TargetLimit(optimum)
        found = search.optimise(space, evaluate, rng=rng, limit=watch, on_progress=watch.look)
    if found.cut and (optimum is None or found.value < optimum):
        raise KeyboardInterrupt
    return found


class _TargetLimit:
    """A search limit that ends the search with the first value that reaches the target."""

    def __init__(self, value: float) -> None:
        self._goal = value
        self._value = -np.inf

    def look(self, standing: SearchState) -> None:
        self._value = standing.value

    def allows(self, steps_taken: int) -> bool:  # noqa: ARG002
        return self._value < self._goal
