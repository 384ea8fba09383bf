"""Selection: which points become parents.

``select_by_remainder``: remainder stochastic sampling with replacement (D. E. Goldberg 1989; S1 section
4.4). The
others carry the names of the PyGAD library (S2 section 8): ``steady-state``, the best;
``select_by_rank``, by lot,
weighed by the place among all; ``select_by_tournament``, the best of a few drawn;
``select_by_roulette``, by lot, weighed by
fitness.

Each gives the numbers of as many parents as are asked for. Fitness is nowhere negative. Ties go to the lower
number.

Scaling: how much better the best is than the average, as selection sees it.

Linear fitness scaling, D. E. Goldberg, Genetic Algorithms in Search, Optimization and Machine Learning, 1989,
as R. Prodan, T. Fahringer, SAC 2005 use it (S1 section 4.3): ``f' = a f + b`` keeps the average and makes the
best ``factor`` times the average; where the worst would become negative, the worst becomes 0 instead. A
factor of 1 means no scaling (as in the formula all would become equal).

Crossover: two parents exchange some of their genes.

``single-point`` exchanges everything from a cut on (S1 section 4.5), ``draw_uniform`` every gene or
not, evenly
(S2 section 8). A pair exchanges nothing at all with one minus the rate.

Mutation: every gene is replaced, with some probability, by one of its values drawn evenly.

S1 section 4.6 and S2 section 8 (random mutation). The value drawn may be the one it has. Genes are hit
independently of each other; as few are, the distance to the next is drawn, which has the same distribution.

Elitism: the best are not lost.

``keep_best`` is the elitist model of S1 section 4.7, ``select_elite`` the percentage of S2 section 8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from weft.search.space import Floats, Points, Space

__all__ = [
    "CROSSOVERS",
    "SELECTIONS",
    "Crossover",
    "ParentIndices",
    "Selection",
    "compute_fitness",
    "cross_pairs",
    "draw_hits",
    "draw_single_point",
    "draw_uniform",
    "keep_best",
    "mutate",
    "scale_fitness",
    "select_by_rank",
    "select_by_remainder",
    "select_by_roulette",
    "select_by_tournament",
    "select_elite",
    "select_steady_state",
]


ParentIndices = NDArray[np.intp]
Selection = Literal["remainder", "steady-state", "rank", "tournament", "roulette"]
_COPY_ROUNDING = 1e-9
_TOURNAMENT_SIZE = 3
"""How many compete in a tournament."""


def select_by_remainder(fitness: Floats, number: int, rng: np.random.Generator) -> ParentIndices:
    """Give everyone the whole part of its expected copies; draw the rest by the fractions."""
    most = float(fitness.max())
    if not most > 0.0:
        return rng.integers(0, len(fitness), number)
    # By shares of the best, so that no sum is too small or too large for a number.
    shares = fitness / most
    expected = shares * (number / float(shares.sum()))
    # Rounding must not take a sure copy away from whoever expects a whole number of them.
    whole = np.floor(expected + _COPY_ROUNDING)
    copies = np.repeat(np.arange(len(fitness)), whole.astype(np.intp))
    return np.concatenate(
        [copies, _draw_weighted(np.maximum(expected - whole, 0.0), number - len(copies), rng)]
    )


def select_steady_state(fitness: Floats, number: int, rng: np.random.Generator) -> ParentIndices:  # noqa: ARG001
    """Give the best."""
    return (-fitness).argsort(kind="stable")[:number]


def select_by_rank(fitness: Floats, number: int, rng: np.random.Generator) -> ParentIndices:
    """Draw with weights 1 for the worst, 2 for the next, and so on."""
    weights = np.empty(len(fitness))
    weights[(-fitness).argsort(kind="stable")] = np.arange(len(fitness), 0, -1)
    return _draw_weighted(weights, number, rng)


def select_by_tournament(fitness: Floats, number: int, rng: np.random.Generator) -> ParentIndices:
    """Draw a few for every parent and give the best of them."""
    drawn = rng.integers(0, len(fitness), (number, _TOURNAMENT_SIZE))
    best: ParentIndices = drawn[np.arange(number), fitness[drawn].argmax(axis=1)]
    return best


def select_by_roulette(fitness: Floats, number: int, rng: np.random.Generator) -> ParentIndices:
    """Draw with the fitness as weights."""
    return _draw_weighted(fitness, number, rng)


def _draw_weighted(weights: Floats, number: int, rng: np.random.Generator) -> ParentIndices:
    """Draw with replacement; where all weights are 0, evenly."""
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
    """Give ``const + value``, at least 0: where values are negative metrics, that is ``Const - metric``."""
    fitness: Floats = np.maximum(values + const, 0.0)
    return fitness


def scale_fitness(fitness: Floats, factor: float) -> Floats:
    """Scale fitness, which is nowhere negative."""
    if factor == 1.0:
        return fitness
    mean, most, least = float(fitness.mean()), float(fitness.max()), float(fitness.min())
    # The same as least > (factor mean - most) / (factor - 1), without dividing.
    if least * (factor - 1.0) > factor * mean - most:
        spread, gain = most - mean, factor - 1.0
    else:
        spread, gain = mean - least, 1.0
    # What differs only by the rounding of the mean is equal.
    if not spread > _MEAN_ROUNDING * mean:
        return fitness
    # a f + b as distances from the mean, which loses no digits; rounding may leave the worst a hair below 0.
    result: Floats = np.maximum(mean + (fitness - mean) * (gain * (mean / spread)), 0.0)
    return result


Crossover = Literal["single-point", "uniform"]
_Mask = NDArray[np.bool_]


def cross_pairs(parents: Points, kind: Crossover, rate: float, rng: np.random.Generator) -> Points:
    """Let consecutive parents have two children each; the number of parents is even."""
    couples = parents.reshape(-1, 2, parents.shape[1])
    pairs, _, genes = couples.shape
    exchanged = CROSSOVERS[kind](pairs, genes, rng)
    exchanged &= rng.random((pairs, 1)) < rate
    return np.where(exchanged[:, None], couples[:, ::-1], couples).reshape(parents.shape)


def draw_single_point(pairs: int, genes: int, rng: np.random.Generator) -> _Mask:
    """Draw a cut between two genes; what lies behind it is exchanged."""
    if genes == 1:
        return np.zeros((pairs, 1), dtype=np.bool_)
    cut = rng.integers(1, genes, pairs)
    behind: _Mask = np.arange(genes) >= cut[:, None]
    return behind


def draw_uniform(pairs: int, genes: int, rng: np.random.Generator) -> _Mask:
    """Draw for every gene whether it is exchanged."""
    return rng.random((pairs, genes)) < 0.5


CROSSOVERS: dict[str, Callable[[int, int, np.random.Generator], _Mask]] = {
    "single-point": draw_single_point,
    "uniform": draw_uniform,
}


def mutate(points: Points, space: Space, rate: float, rng: np.random.Generator) -> None:
    """Replace genes in place."""
    hit = draw_hits(points.size, rate, rng)
    if len(hit):
        values = rng.random(len(hit)) * space.sizes[hit % space.genes]
        points.reshape(-1)[hit] = values.astype(np.uint32)


def draw_hits(number: int, rate: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Give which of so many are hit, ascending."""
    if rate <= 0.0:
        return np.zeros(0, dtype=np.int64)
    mean = number * rate
    # Rarely too few; then as many again.
    enough = int(mean + 4.0 * mean**0.5) + 4
    found = _distances(number, rate, enough, rng).cumsum() - 1
    while found[-1] < number - 1:
        found = np.concatenate([found, found[-1] + _distances(number, rate, enough, rng).cumsum()])
    return found[: int(found.searchsorted(number))]


def _distances(number: int, rate: float, enough: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw distances to the next hit; none needs to lead further than behind the end."""
    return np.minimum(rng.geometric(rate, enough), number + 1)


def keep_best(points: Points, values: Floats, best: Points, value: float) -> None:
    """Put the best so far in the place of the worst, in place, if all of a generation are worse."""
    if float(values.max()) < value:
        worst = int(values.argmin())
        points[worst], values[worst] = best, value


def select_elite(points: Points, values: Floats, number: int) -> Points:
    """Give the best points of a generation, the best first, ties by number."""
    return points[(-values).argsort(kind="stable")[:number]]
