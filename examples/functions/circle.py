"""Functions as tasks: the area of a circle, estimated from random points in the square around it.

    python examples/functions/circle.py

Every call of ``throw`` is a task that runs in a process of its own, on one of the machines in machines.yaml;
``together`` waits for all of them. The state is stored in .weft of the current folder: a second run reuses
all results and returns at once.
"""

from __future__ import annotations

import random
from pathlib import Path

from weft.api import task


@task(work="0.2s", retries=1)
def throw(seed: int, points: int) -> int:
    """Count how many of the points lie in the circle."""
    dice = random.Random(seed)  # noqa: S311 -- not used for cryptography
    return sum(dice.random() ** 2 + dice.random() ** 2 <= 1.0 for _ in range(points))


@task(work="0.1s")
def together(inside: list[int], points: int) -> float:
    """Return the area of a circle of radius 1."""
    return 4.0 * sum(inside) / (points * len(inside))


if __name__ == "__main__":
    points = 20_000
    handles = [throw(seed, points) for seed in range(6)]
    area = together(handles, points).result(on=Path(__file__).with_name("machines.yaml"))
    print(f"area {area:.3f} from {len(handles)} tasks")
