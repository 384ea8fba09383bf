"""Operators of genetic search: selection, fitness scaling, crossover, mutation and elitism.

Sections refer to docs/papers/dynamic-grid.md ("grid") and docs/papers/moldable.md ("moldable").

- *Selection* returns the indices of parents. ``remainder``: remainder stochastic sampling with replacement
  (D. E. Goldberg 1989; grid, section 4.4). The others have the names of PyGAD (moldable, section 8):
  ``steady-state``, the best; ``rank``, weighted by rank; ``tournament``, the best of three; ``roulette``,
  weighted by fitness. Fitness is never negative. Ties: lower index.
- *Scaling* is linear (Goldberg 1989; grid, section 4.3): ``f' = a f + b`` keeps the mean and makes the best
  ``factor`` times the mean; if the worst would become negative, it becomes 0 instead. A factor of 1 disables
  scaling.
- *Crossover*: ``single-point`` exchanges all genes from a cut on (grid, section 4.5), ``uniform`` each gene
  with probability 1/2 (moldable, section 8).
- *Mutation* replaces a gene by a random value, possibly the same (grid, section 4.6; moldable, section 8).
  The distance to the next mutated gene is drawn, which has the same distribution with fewer random draws.
- *Elitism*: ``keep_best`` is the elitist model of grid, section 4.7, ``select_elite`` the share of moldable,
  section 8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from weft.search.space import Floats, Points, Space

ParentIndices = NDArray[np.intp]
Selection = Literal["remainder", "steady-state", "rank", "tournament", "roulette"]
_COPY_ROUNDING = 1e-9
_TOURNAMENT_SIZE = 3


def select_by_remainder(fitness: Floats, number: int, rng: np.random.Generator) -> ParentIndices:
    """Return the indices of parents: each point as often as its expected number of copies, rounded down.

    The remaining parents are drawn with the fractional parts of the expected numbers as weights.
    """
    if not (most := float(fitness.max())) > 0.0:
        return rng.integers(0, len(fitness), number)
    # Divide by the best, so that the sum neither underflows nor overflows.
    shares = fitness / most
    expected = shares * (number / float(shares.sum()))
    # Rounding must not remove a copy if the expected number is an integer.
    whole = np.floor(expected + _COPY_ROUNDING)
    copies = np.repeat(np.arange(len(fitness)), whole.astype(np.intp))
    return np.concatenate(
        [copies, _draw_weighted(np.maximum(expected - whole, 0.0), number - len(copies), rng)]
    )


def select_steady_state(fitness: Floats, number: int, rng: np.random.Generator) -> ParentIndices:  # noqa: ARG001
    """Return the indices of the ``number`` points with the highest fitness, best first."""
    return (-fitness).argsort(kind="stable")[:number]


def select_by_rank(fitness: Floats, number: int, rng: np.random.Generator) -> ParentIndices:
    """Return indices of points drawn with weight 1 for the worst point, 2 for the next, and so on."""
    weights = np.empty(len(fitness))
    weights[(-fitness).argsort(kind="stable")] = np.arange(len(fitness), 0, -1)
    return _draw_weighted(weights, number, rng)


def select_by_tournament(fitness: Floats, number: int, rng: np.random.Generator) -> ParentIndices:
    """Return indices of parents, each the best of three points drawn at random."""
    drawn = rng.integers(0, len(fitness), (number, _TOURNAMENT_SIZE))
    best: ParentIndices = drawn[np.arange(number), fitness[drawn].argmax(axis=1)]
    return best


def select_by_roulette(fitness: Floats, number: int, rng: np.random.Generator) -> ParentIndices:
    """Return indices of points drawn with their fitness as weight."""
    return _draw_weighted(fitness, number, rng)


def _draw_weighted(weights: Floats, number: int, rng: np.random.Generator) -> ParentIndices:
    """Return indices drawn by weight, with replacement; drawn uniformly if all weights are 0."""
    ends = np.cumsum(weights)
    if not ends[-1] > 0.0:
        return rng.integers(0, len(weights), number)
    drawn = np.searchsorted(ends, rng.random(number) * ends[-1], side="right")
    found: ParentIndices = np.minimum(drawn, len(weights) - 1)
    return found


SELECTIONS: dict[str, Callable[[Floats, int, np.random.Generator], ParentIndices]] = {
    "remainder": select_by_remainder,
    "steady-state": select_steady_state,
    "rank": select_by_rank,
    "tournament": select_by_tournament,
    "roulette": select_by_roulette,
}


_MEAN_ROUNDING = 1e-12


def compute_fitness(values: Floats, const: float) -> Floats:
    """Return the fitness of each point: ``const + value``, at least 0.

    The value of a point is the negated metric, so a smaller metric gives a larger fitness.
    """
    fitness: Floats = np.maximum(values + const, 0.0)
    return fitness


def scale_fitness(fitness: Floats, factor: float) -> Floats:
    """Return linearly scaled fitness: the best becomes ``factor`` times the mean; no value is negative."""
    if factor == 1.0:
        return fitness
    mean, most, least = float(fitness.mean()), float(fitness.max()), float(fitness.min())
    # Equivalent to least > (factor mean - most) / (factor - 1), without a division.
    if least * (factor - 1.0) > factor * mean - most:
        spread, gain = most - mean, factor - 1.0
    else:
        spread, gain = mean - least, 1.0
    # Values that differ by the rounding of the mean are equal.
    if not spread > _MEAN_ROUNDING * mean:
        return fitness
    # a f + b, computed from distances to the mean to keep precision; rounding may make the worst slightly
    # negative.
    result: Floats = np.maximum(mean + (fitness - mean) * (gain * (mean / spread)), 0.0)
    return result


Crossover = Literal["single-point", "uniform"]
_Mask = NDArray[np.bool_]


def cross_pairs(parents: Points, kind: Crossover, rate: float, rng: np.random.Generator) -> Points:
    """Return two children per pair of parents; a pair exchanges genes with probability ``rate``."""
    couples = parents.reshape(-1, 2, parents.shape[1])
    pairs, _, genes = couples.shape
    exchanged = CROSSOVERS[kind](pairs, genes, rng)
    exchanged &= rng.random((pairs, 1)) < rate
    return np.where(exchanged[:, None], couples[:, ::-1], couples).reshape(parents.shape)


def _draw_single_point(pairs: int, genes: int, rng: np.random.Generator) -> _Mask:
    """Return a mask (pairs x genes) of exchanged genes: those after a random cut in each pair."""
    if genes == 1:
        return np.zeros((pairs, 1), dtype=np.bool_)
    cut = rng.integers(1, genes, pairs)
    behind: _Mask = np.arange(genes) >= cut[:, None]
    return behind


def _draw_uniform(pairs: int, genes: int, rng: np.random.Generator) -> _Mask:
    """Return a mask (pairs x genes) of exchanged genes, each drawn with probability 1/2."""
    return rng.random((pairs, genes)) < 0.5


CROSSOVERS: dict[str, Callable[[int, int, np.random.Generator], _Mask]] = {
    "single-point": _draw_single_point,
    "uniform": _draw_uniform,
}


def mutate(points: Points, space: Space, rate: float, rng: np.random.Generator) -> None:
    """Replace each gene, in place, by a random value with probability ``rate``."""
    hit = draw_hits(points.size, rate, rng)
    if len(hit):
        values = rng.random(len(hit)) * space.sizes[hit % space.genes]
        points.reshape(-1)[hit] = values.astype(np.uint32)


def draw_hits(number: int, rate: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return positions below ``number``, each selected with probability ``rate``, in ascending order."""
    if rate <= 0.0:
        return np.zeros(0, dtype=np.int64)
    mean = number * rate
    # In rare cases these are too few; then draw the same number again.
    enough = int(mean + 4.0 * mean**0.5) + 4
    found = _distances(number, rate, enough, rng).cumsum() - 1
    while found[-1] < number - 1:
        found = np.concatenate([found, found[-1] + _distances(number, rate, enough, rng).cumsum()])
    return found[: int(found.searchsorted(number))]


def _distances(number: int, rate: float, enough: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return ``enough`` random distances between selected positions, each at most ``number + 1``."""
    return np.minimum(rng.geometric(rate, enough), number + 1)


def keep_best(points: Points, values: Floats, best: Points, value: float) -> None:
    """Replace the worst point of a generation by ``best``, in place, if ``best`` is better than all."""
    if float(values.max()) < value:
        worst = int(values.argmin())
        points[worst], values[worst] = best, value


def select_elite(points: Points, values: Floats, number: int) -> Points:
    """Return the ``number`` best points of a generation, best first; ties by lower index."""
    return points[(-values).argsort(kind="stable")[:number]]
