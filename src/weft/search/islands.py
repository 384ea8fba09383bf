"""The island model: parallel searches that exchange their best points."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from weft.errors import InvalidInput
from weft.search.genetic import GeneticAlgorithm
from weft.search.optimiser import (
    NO_LIMIT,
    Evaluate,
    Limit,
    Optimiser,
    ProgressCallback,
    SearchResult,
    SearchState,
    StepLimit,
)
from weft.search.pool import INLINE_POOL, Pool
from weft.search.space import Points, Space

_SEARCH = GeneticAlgorithm()
_Round = tuple[np.random.Generator, Points]
"""The generator of an island and the points it starts from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Islands:
    """Parallel searches that exchange their best points.

    Every island has its own random generator. In each round an island starts from its own last points and
    from the best point of all islands. The result depends on the seed, the number of islands and the steps,
    not on the pool (docs/papers/dynamic-grid.md, section 4, parallel version).
    """

    name: ClassVar[str] = "islands"
    title: ClassVar[str] = "parallel searches that exchange their best points"

    search: Optimiser = _SEARCH
    """The optimiser of every island."""
    islands: int = 2
    steps_per_round: int = 1000
    """Approximate number of points an island evaluates between two exchanges."""
    rounds: int = 25
    """Largest number of rounds."""

    def __post_init__(self) -> None:
        for name in ("islands", "steps_per_round", "rounds"):
            if getattr(self, name) < 1:
                what = f"{name} of the island search is {getattr(self, name)}"
                raise InvalidInput(what, rule="must be at least 1")

    def refuses(self, space: Space) -> str | None:
        """Return why the optimiser of the islands cannot search a space; None if it can."""
        return self.search.refuses(space)

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
        """Return the best point of all islands (see ``Optimiser.optimise``); a generation is a round."""
        rngs = rng.spawn(self.islands)
        given = np.array([space.repair(start) for start in starts], dtype=np.uint32).reshape(-1, space.genes)
        held, log, cut = [given] * self.islands, _IslandLog(), False
        while not cut and len(log.rounds) < self.rounds:
            steps = self._affordable(limit, log.visited)
            advance = partial(_advance_island, self.search, space, evaluate, steps, batch)
            done: list[tuple[SearchResult, np.random.Generator]] = []
            try:
                for one in pool.map(advance, list(zip(rngs, held, strict=True))):
                    done.append(one)
                    # Cut short before its step limit: the search was interrupted.
                    if one[0].cut and one[0].visited < steps:
                        break
            except KeyboardInterrupt:
                if not done and not log.rounds:
                    raise
            cut = len(done) < self.islands
            if done:
                standing = log.add([found for found, _ in done])
                held = [np.concatenate([standing.best[None], found.last]) for found, _ in done]
                rngs = [used for _, used in done]
                if on_progress is not None:
                    on_progress(standing)
            cut = cut or not limit.allows(log.visited)
        return log.result(np.concatenate(held), cut=cut)

    def _affordable(self, limit: Limit, visited: int) -> int:
        """Return the number of steps of each island in the next round.

        It is ``steps_per_round``, halved as long as a round of half as many steps would still reach the
        limit.
        """
        steps = self.steps_per_round
        while steps > 1 and not limit.allows(visited + self.islands * (steps // 2)):
            steps //= 2
        return steps


class _IslandLog:
    """The results of all rounds so far."""

    def __init__(self) -> None:
        self.rounds: list[SearchState] = []
        self.visited = 0
        self._first_best = -np.inf

    def add(self, round_: list[SearchResult]) -> SearchState:
        """Add the results of a round and return the progress.

        Of equally good points, the one of the earlier round, then of the lower island is kept.
        """
        best = max(round_, key=lambda found: found.value)
        if not self.rounds:
            self._first_best = max(found.first_best for found in round_)
        self.visited += sum(found.visited for found in round_)
        better = not self.rounds or best.value > self.rounds[-1].value
        point, value = (best.best, best.value) if better else self.rounds[-1][2:]
        self.rounds.append(SearchState(len(self.rounds) + 1, self.visited, point, value))
        return self.rounds[-1]

    def result(self, last: Points, *, cut: bool) -> SearchResult:
        """Return the results of all rounds as one search result whose last points are ``last``."""
        history = np.array([standing.value for standing in self.rounds])
        return SearchResult(
            best=self.rounds[-1].best,
            value=self.rounds[-1].value,
            visited=self.visited,
            generations=len(self.rounds),
            generation_of_best=int(history.argmax()),
            first_best=self._first_best,
            history=history,
            last=last,
            cut=cut,
        )


def _advance_island(
    search: Optimiser, space: Space, evaluate: Evaluate, steps: int, batch: int | None, start: _Round
) -> tuple[SearchResult, np.random.Generator]:
    """Return the result of one island in a round, and the island's random generator after the round.

    The generator is a copy if another process ran the island.
    """
    rng, points = start
    found = search.optimise(space, evaluate, rng=rng, limit=StepLimit(most=steps), starts=points, batch=batch)
    return found, rng
