"""Coordinates: points of a numeric space as numbers from 0 to 1, for methods that go by distances."""

from __future__ import annotations

import numpy as np

from weft.search.space import Floats, Points, Space

__all__ = ["Coordinates", "no_numbers"]


def no_numbers(space: Space) -> str | None:
    """Say why a space has no coordinates; None: it has."""
    if space.scale is None:
        return "its values are no numbers, so there is no way from one to the next"
    return None


class Coordinates:
    """The genes of a numeric space that have a choice, each from 0 (least number) to 1 (largest)."""

    def __init__(self, space: Space) -> None:
        assert space.scale is not None
        self.choosing = np.flatnonzero(space.sizes > 1)
        self._genes = space.genes
        self._units = [_unit(space.scale[gene]) for gene in self.choosing]

    def __len__(self) -> int:
        return len(self.choosing)

    def of(self, point: Points) -> Floats:
        """Give the coordinates of a point."""
        pairs = zip(self._units, point[self.choosing], strict=True)
        return np.array([unit[position] for unit, position in pairs])

    def nearest(self, place: Floats) -> Points:
        """Give the point nearest to some coordinates; halfway, the one of the smaller numbers."""
        point = np.zeros(self._genes, dtype=np.uint32)
        for gene, unit, share in zip(self.choosing, self._units, place, strict=True):
            point[gene] = np.searchsorted((unit[1:] + unit[:-1]) / 2, share)
        return point


def _unit(numbers: Floats) -> Floats:
    unit: Floats = (numbers - numbers[0]) / (numbers[-1] - numbers[0])
    return unit
