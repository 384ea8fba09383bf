"""Neighbours: points that differ in one gene."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.search.space import Points, Space

__all__ = ["all_changes", "changed"]


def changed(points: Points, space: Space, rng: np.random.Generator) -> Points:
    """Give every point another value of one gene, drawn evenly; a space of one point has no other.

    Where values are numbers, every other change is to the next smaller or larger one.
    """
    rows = np.arange(len(points))
    choosing = np.flatnonzero(space.sizes > 1)
    gene = choosing[rng.integers(0, len(choosing), len(points))]
    size = space.sizes[gene].astype(np.int64)
    old = points[rows, gene].astype(np.int64)
    # One of the others: a distance of 1 to size - 1, around the end.
    new = (old + 1 + (rng.random(len(points)) * (size - 1)).astype(np.int64)) % size
    if space.scale is not None:
        beside = old + np.where(rng.random(len(points)) < 0.5, 1, -1)
        beside = np.where((beside < 0) | (beside >= size), 2 * old - beside, beside)
        new = np.where(rng.random(len(points)) < 0.5, beside, new)
    result = points.copy()
    result[rows, gene] = new
    return result


def all_changes(point: Points, space: Space) -> tuple[NDArray[np.intp], Points]:
    """Give every other value of every gene of a point: the genes and the values."""
    gene = np.repeat(np.arange(space.genes), space.sizes)
    ends = np.cumsum(space.sizes, dtype=np.int64)
    value = np.arange(len(gene)) - np.repeat(ends - space.sizes, space.sizes)
    other = value != point[gene]
    return gene[other], value[other].astype(np.uint32)
