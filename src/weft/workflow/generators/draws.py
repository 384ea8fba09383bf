"""Random work and sizes, as short numbers that are the same in memory and in a file."""

from __future__ import annotations

import numpy as np

__all__ = ["draw_around", "draw_bytes", "shortened"]

_DIGITS = 6
"""Enough for a time or a size that nobody measured; the whole double would only fill the file."""


def shortened(number: float) -> float:
    """Round to the digits worth writing."""
    return float(f"{number:.{_DIGITS}g}")


def draw_around(rng: np.random.Generator, mean: float, spread: float, count: int) -> list[float]:
    """Draw numbers evenly between ``mean * (1 - spread)`` and ``mean * (1 + spread)``."""
    factors = rng.uniform(1.0 - spread, 1.0 + spread, size=count)
    return [shortened(mean * factor) for factor in factors.tolist()]


def draw_bytes(rng: np.random.Generator, mean_bytes: float, spread: float, count: int) -> list[int]:
    """Draw file sizes in whole bytes, evenly around their mean."""
    return [round(size) for size in draw_around(rng, mean_bytes, spread, count)]
