"""Simulated annealing: walkers change one gene at a time and accept losses with falling probability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from weft.errors import InvalidInput
from weft.search.optimiser import Evaluator, OptimiserBase
from weft.search.space import Floats, Points, Space, change_one_gene


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnealingSettings:
    """Settings of simulated annealing: number of steps and walkers, and the cooling schedule."""

    steps: int = 100_000
    """Approximate number of points to evaluate."""
    walkers: int = 16
    """Number of points that are changed in parallel."""
    coolings: int = 5
    """Number of coolings, each twice as long as the one before."""
    hot: float = 1.5
    """First temperature, as a multiple of the mean absolute change of the value in the first moves."""
    milder: float = 0.33
    """First temperature of a cooling, as a share of the first temperature of the cooling before."""
    cold: float = 1e-2
    """Last temperature of a cooling, as a share of the first temperature of the same cooling."""

    def __post_init__(self) -> None:
        for name in ("steps", "walkers", "coolings", "hot", "milder", "cold"):
            if not 0 < getattr(self, name) < np.inf:
                raise InvalidInput(f"{name} of annealing is {getattr(self, name)!r}", rule="must be above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedAnnealing(OptimiserBase):
    """Simulated annealing with several walkers and restarts from the best point.

    S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi, Optimization by Simulated Annealing, Science 220, 1983; one of
    the methods named in docs/papers/dynamic-grid.md, section 4. A change that lowers the value by d is
    accepted with probability exp(-d / T). The temperature T falls geometrically; it starts at a multiple of
    the mean absolute change of the value in the first moves. When T is low, the search restarts from the best
    point, each time for twice as many moves and from a lower first T. This suits short and long searches on
    small and large spaces.

    Deviations: there are several walkers, because points are evaluated in batches. For numeric values, every
    second change is to an adjacent value.
    """

    name: ClassVar[str] = "annealing"
    title: ClassVar[str] = "simulated annealing (Kirkpatrick et al. 1983)"

    settings: AnnealingSettings = AnnealingSettings()

    def search(
        self, space: Space, evaluator: Evaluator, rng: np.random.Generator, starts: list[ArrayLike]
    ) -> None:
        """Change one gene per walker and step, at falling temperatures, until the steps are used up."""
        settings = self.settings
        # A random walker would be far behind one that begins at a given start.
        shared = [starts[number % len(starts)] for number in range(settings.walkers)] if starts else ()
        points = evaluator.last = space.first_points(rng, settings.walkers, shared)
        values = evaluator.evaluate(points)
        if space.points == 1:
            return
        tried = change_one_gene(points, space, rng)
        new = evaluator.evaluate(tried)
        temperature = settings.hot * _mean_loss(values, new)
        _accept(points, values, tried, new, tolerance=np.zeros(len(points)))
        for moves in _cooling_lengths(settings):
            for move in range(moves):
                tried = change_one_gene(points, space, rng)
                new = evaluator.evaluate(tried)
                warmth = temperature * settings.cold ** (move / moves)
                _accept(points, values, tried, new, rng.standard_exponential(len(points)) * warmth)
            points[:], values[:] = evaluator.best, evaluator.value
            temperature *= settings.milder


def _cooling_lengths(settings: AnnealingSettings) -> list[int]:
    """Return the number of moves of each cooling; each has twice as many as the one before."""
    moves = max(1, settings.steps // settings.walkers - 2)
    units = 2**settings.coolings - 1
    return [max(1, moves * 2**number // units) for number in range(settings.coolings)]


def _mean_loss(values: Floats, new: Floats) -> float:
    """Return the mean absolute difference of old and new values where both are finite; 0 if no pair is."""
    both = np.isfinite(values) & np.isfinite(new)
    return float(np.abs(new[both] - values[both]).mean()) if both.any() else 0.0


def _accept(points: Points, values: Floats, tried: Points, new: Floats, tolerance: Floats) -> None:
    """Replace, in place, the points and values for which the change loses at most ``tolerance``."""
    # An exponential variate times T exceeds a loss with probability exp(-loss / T), so no exp is needed.
    taken = new >= values - tolerance
    points[taken], values[taken] = tried[taken], new[taken]
