"""Simulated annealing: a few walkers that change one gene at a time and seldom accept what is worse.

S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi, Optimization by Simulated Annealing, Science 220, 1983; named
by S1 section 4 as a method to plug in. A change that loses d is accepted with probability exp(-d / T). T
falls geometrically from a share of what changes at the start lose on average; then everything cools once
more from the best point, each time for twice as long and from a lower T, so that short and long searches,
on small and large spaces, are served alike.

Deviations: walkers go side by side, because points are evaluated many at a time. Where values are numbers,
every other change goes to a neighbouring value.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from weft.errors import InvalidInput, Problem
from weft.search.optimiser import NO_LIMIT, Evaluate, Evaluator, Limit, ProgressCallback, SearchResult
from weft.search.pool import INLINE_POOL, Pool
from weft.search.space import Floats, Points, Space, change_one_gene

__all__ = ["AnnealingSettings", "SimulatedAnnealing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnealingSettings:
    """How annealing cools."""

    steps: int = 100_000
    """Points that are evaluated, if no limit comes before."""
    walkers: int = 16
    """How many go side by side."""
    coolings: int = 5
    """How often everything cools, each time for twice as long."""
    hot: float = 1.5
    """The first temperature, as a share of what changes lose on average at the start."""
    milder: float = 0.33
    """The first temperature of every other cooling, as a share of the one before."""
    cold: float = 1e-2
    """The last temperature of a cooling, as a share of its first."""

    def __post_init__(self) -> None:
        for name in ("steps", "walkers", "coolings", "hot", "milder", "cold"):
            if not 0 < getattr(self, name) < np.inf:
                what = f"{name} of annealing is {getattr(self, name)!r}"
                raise InvalidInput(Problem(what=what, rule="must be above 0"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedAnnealing:
    """Walks at random, ever more choosy."""

    name: ClassVar[str] = "annealing"
    title: ClassVar[str] = "simulated annealing (Kirkpatrick et al. 1983)"

    settings: AnnealingSettings = AnnealingSettings()

    def refuses(self, space: Space) -> str | None:  # noqa: ARG002
        """Search every space."""
        return None

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
        """Walk and cool until the steps are used up or the limit ends it."""
        settings = self.settings
        given = list(starts)
        # A walker drawn at random would be far behind one that starts from something good.
        shared = [given[number % len(given)] for number in range(settings.walkers)] if given else ()
        points = space.first_points(rng, settings.walkers, shared)
        tally = Evaluator(evaluate, limit=limit, tell=tell, pool=pool, batch=batch)
        with tally:
            values = tally.see(points)
            if space.points == 1:
                return tally.found(points)
            tried = change_one_gene(points, space, rng)
            new = tally.see(tried)
            warm = settings.hot * _mean_loss(values, new)
            _accept(points, values, tried, new, losable=np.zeros(len(points)))
            for moves in _cooling_lengths(settings):
                for move in range(moves):
                    warmth = warm * settings.cold ** (move / moves)
                    tried = change_one_gene(points, space, rng)
                    new = tally.see(tried)
                    _accept(points, values, tried, new, rng.standard_exponential(len(points)) * warmth)
                points[:], values[:] = tally.best, tally.value
                warm *= settings.milder
        return tally.found(points)


def _cooling_lengths(settings: AnnealingSettings) -> list[int]:
    """Give how many moves each cooling has; each has twice as many as the one before."""
    moves = max(1, settings.steps // settings.walkers - 2)
    units = 2**settings.coolings - 1
    return [max(1, moves * 2**number // units) for number in range(settings.coolings)]


def _mean_loss(values: Floats, new: Floats) -> float:
    """Give by how much values differ from new ones on average, where both are allowed."""
    both = np.isfinite(values) & np.isfinite(new)
    return float(np.abs(new[both] - values[both]).mean()) if both.any() else 0.0


def _accept(points: Points, values: Floats, tried: Points, new: Floats, losable: Floats) -> None:
    """Take the changes that lose no more than may be lost."""
    # A loss below an exponential variate times T has probability exp(-loss / T), and no exp is needed.
    taken = new >= values - losable
    points[taken], values[taken] = tried[taken], new[taken]
