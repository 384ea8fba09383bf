"""Small problems that tests of optimisers share."""

from __future__ import annotations

import numpy as np

from weft.search.space import make_numeric_space

__all__ = ["HILLS", "LINE", "PLANE", "VALUES", "Asked", "wave"]

VALUES = [np.sin(np.arange(size) * 1.3) * weight for size, weight in ((5, 1.0), (7, 2.0), (4, 0.5), (9, 3.0))]
"""Per gene: the contribution of each of its values to ``wave``."""
PLANE = make_numeric_space([np.arange(len(numbers), dtype=float) for numbers in VALUES])
LINE = make_numeric_space([np.arange(4000.0), np.arange(3.0)])


def wave(points):
    """Return the sum of the contributions of all genes; it has ties and several local optima."""
    return sum(numbers[points[:, gene]] for gene, numbers in enumerate(VALUES))


class Asked:
    """An evaluation that records its points and can raise an interrupt at some call."""

    def __init__(self, evaluate, interrupted_at=None):
        self._evaluate = evaluate
        self._interrupted_at = interrupted_at
        self.points = []

    def __call__(self, points):
        self.points.append(points.copy())
        if len(self.points) == self._interrupted_at:
            raise KeyboardInterrupt
        return self._evaluate(points)


def _parabola(points):
    x = np.linspace(-2, 2, 21)[points]
    return 5.0 - ((x - np.array([0.4, -1.0])) ** 2).sum(axis=1)


HILLS = {
    "parabola": (make_numeric_space([np.linspace(-2, 2, 21)] * 2), _parabola, 5.0),
    "flat": (make_numeric_space([[1.0, 2.0, 5.0]] * 2), lambda points: np.zeros(len(points)), 0.0),
}
