"""Strong scaling of one kind of task: seconds measured by input size and node count, and in between.

A performance database: seconds measured by kind of task, input size and node count.

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.errors import InvalidInput, Problem, shorten
from weft.platform.machine import Machine
from weft.predictors.predictor import (
    Estimate,
    Flags,
    PredictorInputs,
    TaskFeatures,
    impossible,
    numeric_parameter,
    select_tasks,
)
from weft.predictors.seconds import ClassSeconds, TableSeconds
from weft.predictors.tabulation import tabulate
from weft.workflow.task_graph import Floats, TaskGraph

__all__ = [
    "INTERPOLATED",
    "MEASURED",
    "Given",
    "MeasuredRow",
    "MeasuredScaling",
    "MeasuredTimes",
    "PerformanceTable",
    "read_scaling",
]


Given = str | float
"""A number as a key; documents write keys as text."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredTimes:
    """Seconds of modes (nan: unknown), the largest measured time around each, and if it was measured."""

    seconds: Floats
    upper: Floats
    measured: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredRow:
    """Seconds by node count for one input size; counts ascend."""

    counts: NDArray[np.int64]
    seconds: Floats

    def at(self, nodes: Floats) -> MeasuredTimes:
        """Look counts up; between measured ones interpolate in log-log space."""
        last = len(self.counts) - 1
        above = np.minimum(np.searchsorted(self.counts, nodes), last)
        below = np.maximum(above - 1, 0)
        measured = self.counts[above] == nodes
        inside = (nodes >= self.counts[0]) & (nodes <= self.counts[-1])
        logs = np.interp(np.log(np.maximum(nodes, 1.0)), np.log(self.counts), np.log(self.seconds))
        seconds = np.where(measured, self.seconds[above], np.where(inside, np.exp(logs), np.nan))
        around = np.maximum(self.seconds[below], self.seconds[above])
        upper = np.where(measured | ~inside, seconds, around)
        return MeasuredTimes(seconds=seconds, upper=upper, measured=measured)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredScaling:
    """Rows by input size; sizes ascend."""

    sizes: Floats
    rows: tuple[MeasuredRow, ...]

    def at(self, sizes: Floats, nodes: Floats) -> MeasuredTimes:
        """Look modes up; between measured sizes interpolate in log-log space."""
        seconds, upper = np.full(sizes.shape, np.nan), np.full(sizes.shape, np.nan)
        measured = np.zeros(sizes.shape, dtype=np.bool_)
        above = np.searchsorted(self.sizes, sizes)
        for index in np.unique(above[above < len(self.sizes)]).tolist():
            exact = sizes == self.sizes[index]
            found = self.rows[index].at(nodes[exact])
            seconds[exact], upper[exact], measured[exact] = found.seconds, found.upper, found.measured
            between = (above == index) & ~exact
            # No size lies between nothing and something on a logarithmic scale.
            if index > 0 and self.sizes[index - 1] > 0:
                seconds[between], upper[between] = self._between(index, sizes[between], nodes[between])
        return MeasuredTimes(seconds=seconds, upper=upper, measured=measured)

    def _between(self, index: int, sizes: Floats, nodes: Floats) -> tuple[Floats, Floats]:
        low, high = self.rows[index - 1].at(nodes), self.rows[index].at(nodes)
        start, end = np.log(self.sizes[index - 1]), np.log(self.sizes[index])
        share = (np.log(sizes) - start) / (end - start)
        seconds = np.exp((1.0 - share) * np.log(low.seconds) + share * np.log(high.seconds))
        return seconds, np.maximum(np.maximum(low.upper, high.upper), seconds)

    def counts(self, size: float) -> NDArray[np.int64]:
        """Give the counts measured for a size, or for its neighbours within the limits of both; or none."""
        above = int(np.searchsorted(self.sizes, size))
        if above < len(self.sizes) and self.sizes[above] == size:
            return self.rows[above].counts
        if not 0 < above < len(self.sizes) or self.sizes[above - 1] <= 0:
            return np.zeros(0, dtype=np.int64)
        low, high = self.rows[above - 1].counts, self.rows[above].counts
        counts = np.union1d(low, high)
        return np.asarray(counts[(counts >= max(low[0], high[0])) & (counts <= min(low[-1], high[-1]))])


def read_scaling(
    kind: str, sizes: Mapping[Given, Mapping[Given, float]], *, one_size: bool
) -> tuple[MeasuredScaling | None, list[Problem]]:
    """Check the measurements of one kind and sort them."""
    problems = list(_faults(kind, sizes, one_size))
    if problems:
        return None, problems
    rows = {_number(size): _row(times) for size, times in sizes.items()}
    order = sorted(rows)
    return MeasuredScaling(sizes=np.array(order), rows=tuple(rows[size] for size in order)), []


def _row(times: Mapping[Given, float]) -> MeasuredRow:
    known = sorted({int(_number(count)): seconds for count, seconds in times.items()}.items())
    counts, seconds = zip(*known, strict=True)
    return MeasuredRow(counts=np.array(counts, dtype=np.int64), seconds=np.array(seconds, dtype=np.float64))


def _faults(kind: str, sizes: object, one_size: bool) -> Iterator[Problem]:
    if not isinstance(sizes, Mapping) or not sizes:
        what = f"{shorten(sizes)} as the measurements of kind {shorten(kind)!r}"
        yield Problem(what=what, advice="give at least one {input size: {nodes: seconds}}", path=(kind,))
        return
    if one_size and len(sizes) > 1:
        yield Problem(
            what=f"{len(sizes)} input sizes of kind {shorten(kind)!r}",
            rule="without a size parameter every kind has one input size",
            advice="name the parameter that holds the input size",
            path=(kind,),
        )
    for size, times in sizes.items():
        path = (kind, str(size))
        if not _number(size) >= 0:
            yield Problem(what=f"input size {shorten(size)}", rule="must be a number, at least 0", path=path)
        if not isinstance(times, Mapping) or not times:
            what = f"{shorten(times)} as the measurements of a size"
            yield Problem(what=what, advice="give at least one {nodes: seconds}", path=path)
        else:
            yield from _time_faults(times, path)


def _time_faults(times: Mapping[object, object], path: tuple[str, str]) -> Iterator[Problem]:
    for count, seconds in times.items():
        nodes, at = _number(count), (*path, str(count))
        if not (nodes >= 1 and nodes == int(nodes)):
            what = f"node count {shorten(count)}"
            yield Problem(what=what, rule="must be a whole number, at least 1", path=at)
        if isinstance(seconds, str) or not _number(seconds) > 0:
            yield Problem(what=f"{shorten(seconds)} seconds", rule="must be a number above 0", path=at)


def _number(value: object) -> float:
    """Read a number; nan if it is no finite one. Keys of documents are text."""
    try:
        number = float(value) if isinstance(value, str | int | float) else math.nan
    except (ValueError, OverflowError):
        return math.nan
    return number if math.isfinite(number) else math.nan


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
    _kinds: dict[str, MeasuredScaling] = field(init=False, repr=False, compare=False, default_factory=dict)

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
    def reads(self) -> PredictorInputs:
        """The kind and the input size."""
        return PredictorInputs(kind=True, parameters=() if self.size is None else (self.size,))

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
        return select_tasks(graph, self._kinds, self.size)

    def predict(self, subject: TaskFeatures, machine: Machine, nodes: int) -> Estimate | None:
        """Look the time up and divide it by the machine's rate."""
        scaling = self._kinds.get(subject.kind)
        if scaling is None:
            return None
        size = float(scaling.sizes[0]) if self.size is None else numeric_parameter(subject, self.size)
        if size is None or not len(scaling.counts(size)):
            return None
        found = self.lookup(subject.kind, size, nodes)
        if found is None:
            return impossible(MEASURED)
        rate = machine.rate(subject.service)
        p90_s = None if found.p90_s is None else found.p90_s / rate
        return Estimate(p50_s=found.p50_s / rate, p90_s=p90_s, source=found.source)

    def table(self, graph: TaskGraph, machines: Sequence[Machine]) -> ClassSeconds | TableSeconds:
        """Ask class by class."""
        return tabulate(self, graph, machines)
