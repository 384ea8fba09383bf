"""A fixed loop whose CPU seconds are printed beside every figure, so that machines can be compared."""

from __future__ import annotations

import statistics
import time

__all__ = ["calibration_s"]


def calibration_s(repeat: int = 5) -> float:
    """Give the median CPU seconds of two million additions in plain Python."""
    times = []
    for _ in range(repeat):
        started = time.process_time()
        total = 0
        for number in range(2_000_000):
            total += number
        times.append(time.process_time() - started)
    return statistics.median(times)
