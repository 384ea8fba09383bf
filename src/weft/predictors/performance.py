"""A performance database: measured seconds for each kind of task, input size and node count."""

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

_Key = str | float
"""An input size or node count as a key; keys in documents are text."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _MeasuredTimes:
    """For each mode: its seconds (nan if unknown), an upper estimate of them, and whether they are measured.

    The upper estimate of an interpolated time is the largest neighbouring measured time.
    """

    seconds: Floats
    upper: Floats
    measured: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _MeasuredRow:
    """Measured seconds for one input size; node counts are in ascending order."""

    counts: NDArray[np.int64]
    seconds: Floats

    def at(self, nodes: Floats) -> _MeasuredTimes:
        """Return the times for node counts, interpolated in log-log space between measured counts.

        Beyond the measured counts the times are unknown (nan).
        """
        last = len(self.counts) - 1
        above = np.minimum(np.searchsorted(self.counts, nodes), last)
        below = np.maximum(above - 1, 0)
        measured = self.counts[above] == nodes
        inside = (nodes >= self.counts[0]) & (nodes <= self.counts[-1])
        logs = np.interp(np.log(np.maximum(nodes, 1.0)), np.log(self.counts), np.log(self.seconds))
        seconds = np.where(measured, self.seconds[above], np.where(inside, np.exp(logs), np.nan))
        around = np.maximum(self.seconds[below], self.seconds[above])
        upper = np.where(measured | ~inside, seconds, around)
        return _MeasuredTimes(seconds=seconds, upper=upper, measured=measured)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _MeasuredScaling:
    """The measurements of one kind of task: a row per input size, in ascending order of size."""

    sizes: Floats
    rows: tuple[_MeasuredRow, ...]

    def at(self, sizes: Floats, nodes: Floats) -> _MeasuredTimes:
        """Return the times for pairs of size and count, interpolated in log-log space; nan if unknown."""
        seconds, upper = np.full(sizes.shape, np.nan), np.full(sizes.shape, np.nan)
        measured = np.zeros(sizes.shape, dtype=np.bool_)
        above = np.searchsorted(self.sizes, sizes)
        for index in np.unique(above[above < len(self.sizes)]).tolist():
            exact = sizes == self.sizes[index]
            found = self.rows[index].at(nodes[exact])
            seconds[exact], upper[exact], measured[exact] = found.seconds, found.upper, found.measured
            between = (above == index) & ~exact
            # A size of 0 has no place on a logarithmic scale.
            if index > 0 and self.sizes[index - 1] > 0:
                seconds[between], upper[between] = self._between(index, sizes[between], nodes[between])
        return _MeasuredTimes(seconds=seconds, upper=upper, measured=measured)

    def _between(self, index: int, sizes: Floats, nodes: Floats) -> tuple[Floats, Floats]:
        low, high = self.rows[index - 1].at(nodes), self.rows[index].at(nodes)
        start, end = np.log(self.sizes[index - 1]), np.log(self.sizes[index])
        share = (np.log(sizes) - start) / (end - start)
        seconds = np.exp((1.0 - share) * np.log(low.seconds) + share * np.log(high.seconds))
        return seconds, np.maximum(np.maximum(low.upper, high.upper), seconds)

    def counts(self, size: float) -> NDArray[np.int64]:
        """Return the node counts measured for a size, in ascending order; empty if the size is unknown.

        For a size between two measured sizes, the counts of both sizes are returned, within the range of
        counts that both sizes cover.
        """
        above = int(np.searchsorted(self.sizes, size))
        if above < len(self.sizes) and self.sizes[above] == size:
            return self.rows[above].counts
        if not 0 < above < len(self.sizes) or self.sizes[above - 1] <= 0:
            return np.zeros(0, dtype=np.int64)
        low, high = self.rows[above - 1].counts, self.rows[above].counts
        counts = np.union1d(low, high)
        return np.asarray(counts[(counts >= max(low[0], high[0])) & (counts <= min(low[-1], high[-1]))])


def _read_scaling(
    kind: str, sizes: Mapping[_Key, Mapping[_Key, float]], *, one_size: bool
) -> tuple[_MeasuredScaling | None, list[Problem]]:
    """Return the measurements of one kind and no problems; None and all problems if they are invalid."""
    if problems := list(_find_problems(kind, sizes, one_size)):
        return None, problems
    rows = {_number(size): _row(times) for size, times in sizes.items()}
    order = sorted(rows)
    return _MeasuredScaling(sizes=np.array(order), rows=tuple(rows[size] for size in order)), []


def _row(times: Mapping[_Key, float]) -> _MeasuredRow:
    known = sorted({int(_number(count)): seconds for count, seconds in times.items()}.items())
    counts, seconds = zip(*known, strict=True)
    return _MeasuredRow(counts=np.array(counts, dtype=np.int64), seconds=np.array(seconds, dtype=np.float64))


def _find_problems(kind: str, sizes: object, one_size: bool) -> Iterator[Problem]:
    if not isinstance(sizes, Mapping) or not sizes:
        what = f"the measurements of kind {shorten(kind)!r} are {shorten(sizes)}"
        yield Problem(
            what=what, advice="give at least one entry {input size: {nodes: seconds}}", path=(kind,)
        )
        return
    if one_size and len(sizes) > 1:
        yield Problem(
            what=f"kind {shorten(kind)!r} has {len(sizes)} input sizes",
            rule="without a size parameter every kind must have one input size",
            advice="state the name of the parameter that is the input size",
            path=(kind,),
        )
    for size, times in sizes.items():
        path = (kind, str(size))
        if not _number(size) >= 0:
            what = f"an input size is {shorten(size)}"
            yield Problem(what=what, rule="must be a number, at least 0", path=path)
        if not isinstance(times, Mapping) or not times:
            what = f"the measurements of an input size are {shorten(times)}"
            yield Problem(what=what, advice="give at least one entry {nodes: seconds}", path=path)
        else:
            yield from _find_time_problems(times, path)


def _find_time_problems(times: Mapping[object, object], path: tuple[str, str]) -> Iterator[Problem]:
    for count, seconds in times.items():
        nodes, at = _number(count), (*path, str(count))
        if not (nodes >= 1 and nodes == int(nodes)):
            what = f"a node count is {shorten(count)}"
            yield Problem(what=what, rule="must be a whole number, at least 1", path=at)
        if isinstance(seconds, str) or not _number(seconds) > 0:
            what = f"a measured time is {shorten(seconds)} s"
            yield Problem(what=what, rule="must be a number above 0", path=at)


def _number(value: object) -> float:
    """Return a number, which may be given as text; nan if it is no finite number."""
    try:
        number = float(value) if isinstance(value, str | int | float) else math.nan
    except (ValueError, OverflowError):
        return math.nan
    return number if math.isfinite(number) else math.nan


_MEASURED = "measured"
_INTERPOLATED = "interpolated"


@dataclass(frozen=True, slots=True)
class PerformanceTable:
    """Estimates tasks from measurements: ``{kind: {input size: {nodes: seconds}}}``.

    M. Jaros, J. Jaros, Performance-Cost Optimization of Moldable Scientific Workflows, section on the
    performance database (docs/papers/moldable.md, sections 3 and 11). Times are those of a machine of rate 1.

    Deviations: the paper leaves missing sizes and counts to future work; here they are interpolated,
    piecewise linear in log-log space, over node counts and over input sizes, and marked as ``interpolated``.
    Nothing is extrapolated: a size outside the measured range is left to other predictors, and a count
    outside the measured range is impossible (its upper end is the scalability limit). P90 of an interpolated
    time is the largest of the neighbouring measured times.

    ``size`` names the parameter with the input size. Without it every kind has one size, the same for all
    tasks.
    """

    entries: Mapping[str, Mapping[_Key, Mapping[_Key, float]]] = field(default_factory=dict)
    size: str | None = None
    _kinds: dict[str, _MeasuredScaling] = field(init=False, repr=False, compare=False, default_factory=dict)

    name: ClassVar[str] = "performance"
    final: ClassVar[bool] = False

    def __post_init__(self) -> None:
        problems = []
        for kind, sizes in self.entries.items():
            scaling, found = _read_scaling(kind, sizes, one_size=self.size is None)
            problems += found
            if scaling is not None:
                self._kinds[kind] = scaling
        if problems:
            raise InvalidInput(problems)

    @property
    def reads(self) -> PredictorInputs:
        """Return the inputs of an estimate: kind of task, input size, and rate of the machine."""
        return PredictorInputs(kind=True, parameters=() if self.size is None else (self.size,))

    def seconds(self, kind: str, sizes: ArrayLike, nodes: ArrayLike) -> Floats:
        """Return the seconds on a machine of rate 1 for arrays of sizes and node counts; nan if unknown."""
        size, count = np.broadcast_arrays(
            np.asarray(sizes, dtype=np.float64), np.asarray(nodes, dtype=np.float64)
        )
        scaling = self._kinds.get(kind)
        return np.full(size.shape, np.nan) if scaling is None else scaling.at(size, count).seconds

    def lookup(self, kind: str, size: float, nodes: int) -> Estimate | None:
        """Return the estimate on a machine of rate 1; None if it is unknown."""
        if (scaling := self._kinds.get(kind)) is None:
            return None
        found = scaling.at(np.array([size]), np.array([float(nodes)]))
        seconds, upper, measured = float(found.seconds[0]), float(found.upper[0]), bool(found.measured[0])
        if math.isnan(seconds):
            return None
        if measured:
            return Estimate(p50_s=seconds, source=_MEASURED)
        return Estimate(p50_s=seconds, p90_s=upper, source=_INTERPOLATED)

    def limit(self, kind: str, size: float) -> int | None:
        """Return the largest node count with a known time (scalability limit); None for an unknown size."""
        counts = self.counts(kind, size)
        return int(counts[-1]) if len(counts) else None

    def counts(self, kind: str, size: float) -> NDArray[np.int64]:
        """Return the node counts measured for an input size or its neighbours; empty for an unknown size."""
        scaling = self._kinds.get(kind)
        return np.zeros(0, dtype=np.int64) if scaling is None else scaling.counts(size)

    def best(self, kind: str, size: float) -> int | None:
        """Return the measured node count with the least seconds (ties: the smallest); None if unknown."""
        counts = self.counts(kind, size)
        return int(counts[self.seconds(kind, size, counts).argmin()]) if len(counts) else None

    def efficiency(self, kind: str, size: float, nodes: int) -> float | None:
        """Return the parallel efficiency relative to the smallest measured count; None if unknown."""
        if (found := self.lookup(kind, size, nodes)) is None:
            return None
        smallest = int(self.counts(kind, size)[0])
        return float(self.seconds(kind, size, smallest)) * smallest / (found.p50_s * nodes)

    def applies(self, graph: TaskGraph) -> Flags:
        """Return a mask of the tasks that have a measured kind and an input size."""
        return select_tasks(graph, self._kinds, self.size)

    def predict(self, features: TaskFeatures, machine: Machine, nodes: int) -> Estimate | None:
        """Return the measured or interpolated time divided by the machine's rate.

        None if the kind or input size is unknown; "impossible" for a node count beyond the measured ones.
        """
        if (scaling := self._kinds.get(features.kind)) is None:
            return None
        size = float(scaling.sizes[0]) if self.size is None else numeric_parameter(features, self.size)
        if size is None or not len(scaling.counts(size)):
            return None
        if (found := self.lookup(features.kind, size, nodes)) is None:
            return impossible(_MEASURED)
        rate = machine.rate(features.service)
        p90_s = None if found.p90_s is None else found.p90_s / rate
        return Estimate(p50_s=found.p50_s / rate, p90_s=p90_s, source=found.source)

    def table(self, graph: TaskGraph, machines: Sequence[Machine]) -> ClassSeconds | TableSeconds:
        """Return the estimates of all modes; ``predict`` is called once per class of equivalent tasks."""
        return tabulate(self, graph, machines)
