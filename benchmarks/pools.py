"""Efficiency of a pool of two processes for evaluations of 1 ms and more, against one process.

The efficiency is the speed-up over two. Other load may take part of the cores, so two independent processes
do the same work, alternating with the pool: theirs is the possible efficiency, and the share of it that the
pool reaches is judged. Prints one JSON line per length of an evaluation: medians of wall-clock seconds, and
the CPU time for dispatching one evaluation.

    python benchmarks/pools.py [--repeat 5] [--workers 2] [--milliseconds 1,5,20]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable

from measurement import calibration_s
from weft.pools.processes import ProcessPool

__all__ = ["evaluation", "main", "measured"]

_LEAST = 0.8
"""Required share of the possible efficiency."""
_WHOLE_S = 1.0
"""Seconds of work per measurement."""


def evaluation(additions: int) -> int:
    """Do an amount of work."""
    total = 0
    for number in range(additions):
        total += number
    return total


def _several(additions: int, times: int) -> None:
    for _ in range(times):
        evaluation(additions)


def _bare(additions: int, items: int, workers: int) -> None:
    """Do the work in independent processes."""
    context = multiprocessing.get_context("fork")
    shares = [items // workers + (rank < items % workers) for rank in range(workers)]
    started = [context.Process(target=_several, args=(additions, share)) for share in shares]
    for process in started:
        process.start()
    for process in started:
        process.join()


def _wall_s(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def measured(milliseconds: float, per_ms: float, workers: int, repeat: int) -> dict[str, float | int | bool]:
    """Measure one length of an evaluation."""
    additions, items = max(1, round(milliseconds * per_ms)), round(_WHOLE_S * 1000 / milliseconds)
    alone, bare, pooled, handing_s = [], [], [], []
    with ProcessPool(workers) as pool:
        list(pool.map(evaluation, [1] * workers))  # start the workers before measuring
        for _ in range(repeat):
            alone.append(_wall_s(lambda: _several(additions, items)))
            bare.append(_wall_s(lambda: _bare(additions, items, workers)))
            before_s = time.process_time()
            pooled.append(_wall_s(lambda: list(pool.map(evaluation, [additions] * items))))
            handing_s.append(time.process_time() - before_s)
    one, two, pool_s = (statistics.median(times) for times in (alone, bare, pooled))
    efficiency, possible = one / pool_s / workers, one / two / workers
    return {
        "milliseconds": round(one / items * 1000, 3),
        "items": items,
        "workers": workers,
        "efficiency": round(efficiency, 3),
        "possible": round(possible, 3),
        "share": round(efficiency / possible, 3),
        "handing_ms": round(statistics.median(handing_s) / items * 1000, 3),
        "within": efficiency / possible >= _LEAST,
    }


def main() -> int:
    """Print one line per length; return 1 if the pool costs too much."""
    parser = argparse.ArgumentParser(description="Measure a pool of processes.")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--milliseconds", default="1,5,20")
    asked = parser.parse_args()
    calibrated_s = calibration_s()
    per_ms = 2_000_000 / (calibrated_s * 1000)
    wrong = 0
    for text in asked.milliseconds.split(","):
        found = measured(float(text), per_ms, asked.workers, asked.repeat)
        wrong += not found["within"]
        print(
            json.dumps({"benchmark": "pools", **found, "calibration_s": round(calibrated_s, 4)}), flush=True
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
