"""Search spaces: a point has one integer per gene, the position of a value in the gene's list of values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.errors import InvalidInput

Points = NDArray[np.uint32]
"""Array (points x genes) of positions in the lists of values; a single point is one row."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Space:
    """A finite search space.

    The evaluation function interprets the positions. Only numeric values are stored here (``scale``), because
    some methods need distances.
    """

    sizes: Points
    """Per gene: the number of its values, at least 1."""
    scale: tuple[Floats, ...] | None = None
    """Per gene: the numeric value of each position, ascending; None if values are not numeric."""

    def __post_init__(self) -> None:
        if self.sizes.ndim != 1 or not len(self.sizes) or int(self.sizes.min()) < 1:
            what = f"a search space with {self.sizes.tolist()} values per gene"
            raise InvalidInput(what, rule="must have genes, each with at least one value")

    @property
    def genes(self) -> int:
        """Return the number of genes."""
        return len(self.sizes)

    @property
    def points(self) -> int:
        """Return the number of points."""
        return math.prod(self.sizes.tolist())

    def draw(self, rng: np.random.Generator, number: int) -> Points:
        """Return ``number`` points drawn uniformly at random."""
        # A factor below 1 times an integer stays below that integer after rounding.
        drawn: Points = (rng.random((number, self.genes)) * self.sizes).astype(np.uint32)
        return drawn

    def repair(self, points: ArrayLike) -> Points:
        """Return the nearest points of the space: positions are rounded and clipped to the valid range."""
        rows = np.asarray(points)
        if rows.shape[-1:] != (self.genes,):
            what = f"an array of points of shape {rows.shape}"
            raise InvalidInput(what, rule=f"must have {self.genes} genes in the last dimension")
        whole = rows if rows.dtype.kind in "iu" else np.rint(rows)
        inside: Points = np.clip(whole, 0, self.sizes.astype(np.int64) - 1).astype(np.uint32)
        return inside

    def first_points(self, rng: np.random.Generator, number: int, starts: Iterable[ArrayLike]) -> Points:
        """Return ``number`` points: repaired starts first, then random points."""
        given = [self.repair(start) for start in starts][:number]
        drawn = self.draw(rng, number - len(given))
        return np.concatenate([np.array(given, dtype=np.uint32), drawn]) if given else drawn


def make_space(sizes: Sequence[int] | NDArray[np.integer]) -> Space:
    """Return a space; ``sizes`` is the number of values of each gene."""
    return Space(sizes=np.asarray(sizes, dtype=np.uint32))


def make_numeric_space(values: Iterable[ArrayLike]) -> Space:
    """Return a space with the given numeric values of each gene, sorted and without duplicates."""
    scale = tuple(np.unique(np.asarray(numbers, dtype=np.float64)) for numbers in values)
    return Space(sizes=np.array([len(numbers) for numbers in scale], dtype=np.uint32), scale=scale)


def change_one_gene(points: Points, space: Space, rng: np.random.Generator) -> Points:
    """Return a copy of the points in which one random gene of each point has another random value.

    The space must have more than one point. For numeric values, half of the changes are to the next smaller
    or larger value.
    """
    rows = np.arange(len(points))
    choosing = np.flatnonzero(space.sizes > 1)
    gene = choosing[rng.integers(0, len(choosing), len(points))]
    size = space.sizes[gene].astype(np.int64)
    old = points[rows, gene].astype(np.int64)
    # One of the other values: a distance of 1 to size - 1, modulo size.
    new = (old + 1 + (rng.random(len(points)) * (size - 1)).astype(np.int64)) % size
    if space.scale is not None:
        beside = old + np.where(rng.random(len(points)) < 0.5, 1, -1)
        beside = np.where((beside < 0) | (beside >= size), 2 * old - beside, beside)
        new = np.where(rng.random(len(points)) < 0.5, beside, new)
    result = points.copy()
    result[rows, gene] = new
    return result


def list_changes(point: Points, space: Space) -> tuple[NDArray[np.intp], Points]:
    """Return all changes of a single gene of a point: the genes, and their new values."""
    gene = np.repeat(np.arange(space.genes), space.sizes)
    ends = np.cumsum(space.sizes, dtype=np.int64)
    value = np.arange(len(gene)) - np.repeat(ends - space.sizes, space.sizes)
    other = value != point[gene]
    return gene[other], value[other].astype(np.uint32)
