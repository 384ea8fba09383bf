"""Crossover: two parents exchange some of their genes.

``single-point`` exchanges everything from a cut on (S1 section 4.5), ``uniform`` every gene or not, evenly
(S2 section 8). A pair exchanges nothing at all with one minus the rate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from weft.search.space import Points

__all__ = ["CROSSOVERS", "Crossover", "crossed", "single_point", "uniform"]

Crossover = Literal["single-point", "uniform"]
_Mask = NDArray[np.bool_]


def crossed(parents: Points, kind: Crossover, rate: float, rng: np.random.Generator) -> Points:
    """Let consecutive parents have two children each; the number of parents is even."""
    couples = parents.reshape(-1, 2, parents.shape[1])
    pairs, _, genes = couples.shape
    exchanged = CROSSOVERS[kind](pairs, genes, rng)
    exchanged &= rng.random((pairs, 1)) < rate
    return np.where(exchanged[:, None], couples[:, ::-1], couples).reshape(parents.shape)


def single_point(pairs: int, genes: int, rng: np.random.Generator) -> _Mask:
    """Draw a cut between two genes; what lies behind it is exchanged."""
    if genes == 1:
        return np.zeros((pairs, 1), dtype=np.bool_)
    cut = rng.integers(1, genes, pairs)
    behind: _Mask = np.arange(genes) >= cut[:, None]
    return behind


def uniform(pairs: int, genes: int, rng: np.random.Generator) -> _Mask:
    """Draw for every gene whether it is exchanged."""
    return rng.random((pairs, genes)) < 0.5


CROSSOVERS: dict[str, Callable[[int, int, np.random.Generator], _Mask]] = {
    "single-point": single_point,
    "uniform": uniform,
}
