"""Rows of numbers, given by columns: which of them are equal."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["numbered"]


def numbered(first: NDArray[Any], *others: NDArray[Any]) -> NDArray[np.int64]:
    """Number the rows from 0 in ascending order, equal ones alike.

    A column at a time: sorting a million whole rows takes a second, ten times as long.
    """
    found = np.unique(first, return_inverse=True)[1].astype(np.int64)
    for column in others:
        kinds, number = np.unique(column, return_inverse=True)
        found = np.unique(found * len(kinds) + number, return_inverse=True)[1].astype(np.int64)
    return found
