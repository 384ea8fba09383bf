"""How long a task really takes: its estimate, times a bias, times noise.

The noise is lognormal with mean 1 (so the mean is preserved, not the median) and with the stated standard
deviation: ``exp(s z - s^2/2)``, ``s^2 = ln(1 + noise^2)``, z standard normal. It belongs to a task of one run
and one iteration, wherever and however often it is tried: a task that is long is long everywhere, and two
policies of one seed meet the same tasks. It is drawn in blocks of tasks, each from a generator of its own,
and so depends neither on the order of events nor on how many tasks there are; it costs about a microsecond.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log1p, sqrt

from weft.randomness import generator
from weft.simulation.scenario import Durations, of_task

__all__ = ["Truth"]

_BLOCK = 1024
"""Tasks whose noise is drawn together; a block costs about 0.1 ms."""


class Truth:
    """The true durations of the tasks of one run."""

    def __init__(self, durations: Durations, labels: Sequence[str], *, seed: int, run: int) -> None:
        """Take the tasks' names (``lapw1[3]``), a list that may grow, and the number of the run."""
        self._durations = durations
        self._by_task = bool(durations.tasks)
        self._labels = labels
        self._seed, self._run = seed, str(run)
        self._blocks: dict[tuple[int, int], list[float]] = {}
        self._laws: dict[str, tuple[float, float]] = {}
        self._common = _law(durations)
        self.exact = not durations.tasks and self._common == (1.0, 0.0)
        """Whether every estimate is true."""

    def seconds(self, task: int, estimate_s: float, iteration: int = 0) -> float:
        """Give the true seconds of a task for which somewhere ``estimate_s`` are expected."""
        return estimate_s * self.factor(task, iteration)

    def factor(self, task: int, iteration: int = 0) -> float:
        """Give the true time of a task relative to its estimate."""
        bias, spread = self._law_of(task) if self._by_task else self._common
        if spread == 0.0:
            return bias
        number, position = divmod(task, _BLOCK)
        block = self._blocks.get((iteration, number)) or self._draw(iteration, number)
        return bias * exp(spread * (block[position] - 0.5 * spread))

    def _draw(self, iteration: int, number: int) -> list[float]:
        rng = generator(self._seed, "truth", self._run, str(iteration), str(number))
        block: list[float] = rng.standard_normal(_BLOCK).tolist()
        self._blocks[iteration, number] = block
        return block

    def _law_of(self, task: int) -> tuple[float, float]:
        """Give the bias and the spread of a task, where tasks differ."""
        label = self._labels[task]
        law = self._laws.get(label)
        if law is None:
            law = self._laws[label] = _law(of_task(self._durations.tasks, label) or self._durations)
        return law


def _law(durations: Durations) -> tuple[float, float]:
    """Give the bias, and the standard deviation of the noise's logarithm."""
    return durations.bias, sqrt(log1p(durations.noise**2))
