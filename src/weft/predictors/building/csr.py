"""Rows of unequal length stored one after the other: the index arithmetic they need."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Integers", "pointers", "ranges"]

Integers = NDArray[np.int64]


def pointers(lengths: Integers) -> Integers:
    """Give where each row starts, and behind the last one where it ends."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths, dtype=np.int64)])


def ranges(starts: Integers, lengths: Integers) -> Integers:
    """Give ``starts[i], starts[i] + 1, ...`` for ``lengths[i]`` steps, for one row after the other."""
    shift = np.repeat(starts - pointers(lengths)[:-1], lengths)
    return shift + np.arange(len(shift), dtype=np.int64)
