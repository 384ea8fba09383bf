"""The programs of the example: a small self-consistent field calculation in one dimension.

An electron in a box moves in a potential that depends on its own density. ``start`` guesses a density,
``potential`` computes the potential, ``solve`` computes the lowest state for one k-point, ``mix`` combines
the densities of all k-points and returns the difference from the previous iteration. The loop ends when the
difference is below the tolerance.

Every function is a task: it runs in its own directory and reads and writes the files that the workflow
declares. The problem is small, so ``solve`` sleeps between its steps to simulate a longer calculation,
half as long on two nodes. On the machine ``attic`` it is slowed down on purpose in the second iteration.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from weft import task

POINTS = 60
NEW = 0.8
"""Share of the new density in the next iteration."""
STEPS = 40
"""Steps of the solver for each k-point."""
SLOW_MACHINE, SLOW_ITERATION = "attic", 2


def start() -> None:
    """Guess a uniform density."""
    write("density", [1.0 / POINTS] * POINTS)


def potential(strength: float) -> None:
    """Compute the potential: a well in the middle plus the contribution of the electrons."""
    density = read("density")
    middle = (POINTS - 1) / 2
    well = [((x - middle) / middle) ** 2 for x in range(POINTS)]
    write("field", [deep + strength * POINTS * there for deep, there in zip(well, density, strict=True)])


def solve(k: int, slowness: float, step_s: float) -> None:
    """Compute the lowest state for a k-point step by step, continuing from the restart file."""
    field = [value + 0.05 * k for value in read("field")]
    there = SLOW_MACHINE in Path.cwd().parts  # a task runs in the sandbox of its machine
    slow = slowness if there and task.iteration() == SLOW_ITERATION else 1.0
    state = task.restore({"step": 0, "wave": [1.0] * POINTS})
    task.on_checkpoint(lambda: task.checkpoint(state))
    while state["step"] < STEPS:
        time.sleep(step_s * slow / task.nodes())
        state = {"step": state["step"] + 1, "wave": improved(state["wave"], field)}
        task.progress(state["step"], STEPS)
    write(f"wave.{k}", state["wave"])


def mix(kpoints: int) -> None:
    """Combine the k-points and return the difference from the density of the last iteration."""
    waves = [read(f"wave.{k}") for k in range(1, kpoints + 1)]
    found = [sum(wave[x] ** 2 for wave in waves) / kpoints for x in range(POINTS)]
    old = read("density")
    write("density", [(1 - NEW) * before + NEW * now for before, now in zip(old, found, strict=True)])
    task.result(delta=max(abs(now - before) * POINTS for before, now in zip(old, found, strict=True)))


def report(strength: float) -> None:
    """Draw the density."""
    density = read("density")
    most = max(density)
    lines = ["#" * round(50 * value / most) for value in density[::3]]
    title = f"self-consistent density, strength {strength:g}"
    Path("density.txt").write_text("\n".join([title, *lines, ""]))


def improved(wave: list[float], field: list[float]) -> list[float]:
    """Take one step of inverse iteration: solve (H + 1) x = wave, H being tridiagonal, and scale x to 1."""
    hop = -0.5 * (POINTS / 4) ** 2
    diagonal = [1.0 - 2.0 * hop + value for value in field]
    upper, right = [hop / diagonal[0]], [wave[0] / diagonal[0]]
    for x in range(1, POINTS):
        pivot = diagonal[x] - hop * upper[-1]
        upper.append(hop / pivot)
        right.append((wave[x] - hop * right[-1]) / pivot)
    found = [right[-1]]
    for x in range(POINTS - 2, -1, -1):
        found.append(right[x] - upper[x] * found[-1])
    size = sum(value * value for value in found) ** 0.5
    return [value / size for value in reversed(found)]


def read(name: str) -> list[float]:
    """Read the numbers of a file."""
    return json.loads(Path(name).read_text())


def write(name: str, values: list[float]) -> None:
    """Write numbers to a file."""
    Path(name).write_text(json.dumps(values))
