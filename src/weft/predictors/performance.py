"""A performance database: seconds measured by kind of task, input size and node count.

M. Jaros, J. Jaros, Performance-Cost Optimization of Moldable Scientific Workflows, section on the performance
database (S2 sections 3 and 11). Times are those of a machine of rate 1.

Deviations: the paper leaves missing sizes and counts to future work; here they are interpolated, piecewise
and linear in log-log space, over node counts and over input sizes, and marked as ``interpolated``. Nothing is
ever extrapolated: an unmeasured size is left to other predictors, a count beyond the scalability limit (the
largest measured count) is impossible. P90 of an interpolated time is the largest of the measured times around
it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.errors import InvalidInput
from weft.platform.machine import Machine
from weft.predictors.parameters import number, tasks_of
from weft.predictors.predictor import Estimate, Flags, Reads, Subject, impossible
from weft.predictors.scaling import Given, Scaling, read_scaling
from weft.predictors.seconds import Classes, Table
from weft.predictors.tabulate import tabulate
from weft.workflow.unfolding.task_graph import Floats, TaskGraph

__all__ = ["INTERPOLATED", "MEASURED", "PerformanceTable"]

MEASURED = "measured"
INTERPOLATED = "interpolated"


@dataclass(frozen=True, slots=True)
class PerformanceTable:
    """Answers for tasks whose kind was measured: ``{kind: {input size: {nodes: seconds}}}``.

    ``size`` names the parameter that holds the input size. Without it every kind has one size, which holds
    for all its tasks.
    """

    entries: Mapping[str, Mapping[Given, Mapping[Given, float]]] = field(default_factory=dict)
    size: str | None = None
    _kinds: dict[str, Scaling] = field(init=False, repr=False, compare=False, default_factory=dict)

    name: ClassVar[str] = "performance"
    final: ClassVar[bool] = False

    def __post_init__(self) -> None:
        problems = []
        for kind, sizes in self.entries.items():
            scaling, found = read_scaling(kind, sizes, one_size=self.size is None)
            problems += found
            if scaling is not None:
                self._kinds[kind] = scaling
        if problems:
            raise InvalidInput(problems)

    @property
    def reads(self) -> Reads:
        """The kind and the input size."""
        return Reads(kind=True, parameters=() if self.size is None else (self.size,))

    def seconds(self, kind: str, sizes: ArrayLike, nodes: ArrayLike) -> Floats:
        """Give the seconds on rate 1 for arrays of sizes and counts; nan where nothing is known."""
        size, count = np.broadcast_arrays(
            np.asarray(sizes, dtype=np.float64), np.asarray(nodes, dtype=np.float64)
        )
        scaling = self._kinds.get(kind)
        return np.full(size.shape, np.nan) if scaling is None else scaling.at(size, count).seconds

    def lookup(self, kind: str, size: float, nodes: int) -> Estimate | None:
        """Give the estimate on rate 1, or None where nothing is known."""
        scaling = self._kinds.get(kind)
        if scaling is None:
            return None
        found = scaling.at(np.array([size]), np.array([float(nodes)]))
        seconds, upper, measured = float(found.seconds[0]), float(found.upper[0]), bool(found.measured[0])
        if math.isnan(seconds):
            return None
        if measured:
            return Estimate(p50_s=seconds, source=MEASURED)
        return Estimate(p50_s=seconds, p90_s=upper, source=INTERPOLATED)

    def limit(self, kind: str, size: float) -> int | None:
        """Give the scalability limit: the largest count with a known time; None: the size is not known."""
        counts = self.counts(kind, size)
        return int(counts[-1]) if len(counts) else None

    def counts(self, kind: str, size: float) -> NDArray[np.int64]:
        """Give the counts measured for this input size, or for its neighbours within the limits of both."""
        scaling = self._kinds.get(kind)
        return np.zeros(0, dtype=np.int64) if scaling is None else scaling.counts(size)

    def best(self, kind: str, size: float) -> int | None:
        """Give the count of least seconds; of equals the smallest."""
        counts = self.counts(kind, size)
        return int(counts[self.seconds(kind, size, counts).argmin()]) if len(counts) else None

    def efficiency(self, kind: str, size: float, nodes: int) -> float | None:
        """Give the node-seconds on the smallest measured count over those on so many nodes."""
        found = self.lookup(kind, size, nodes)
        if found is None:
            return None
        smallest = int(self.counts(kind, size)[0])
        return float(self.seconds(kind, size, smallest)) * smallest / (found.p50_s * nodes)

    def applies(self, graph: TaskGraph) -> Flags:
        """Take the tasks whose kind was measured and whose input size is stated."""
        return tasks_of(graph, self._kinds, self.size)

    def predict(self, subject: Subject, machine: Machine, nodes: int) -> Estimate | None:
        """Look the time up and divide it by the machine's rate."""
        scaling = self._kinds.get(subject.kind)
        if scaling is None:
            return None
        size = float(scaling.sizes[0]) if self.size is None else number(subject, self.size)
        if size is None or not len(scaling.counts(size)):
            return None
        found = self.lookup(subject.kind, size, nodes)
        if found is None:
            return impossible(MEASURED)
        rate = machine.rate(subject.service)
        p90_s = None if found.p90_s is None else found.p90_s / rate
        return Estimate(p50_s=found.p50_s / rate, p90_s=p90_s, source=found.source)

    def table(self, graph: TaskGraph, machines: Sequence[Machine]) -> Classes | Table:
        """Ask class by class."""
        return tabulate(self, graph, machines)
