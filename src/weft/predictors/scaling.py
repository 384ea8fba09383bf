"""Strong scaling of one kind of task: seconds measured by input size and node count, and in between."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.errors import Problem, shorten
from weft.workflow.unfolding.task_graph import Floats

__all__ = ["Given", "Row", "Scaling", "Times", "read_scaling"]

Given = str | float
"""A number as a key; documents write keys as text."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Times:
    """Seconds of modes (nan: unknown), the largest measured time around each, and if it was measured."""

    seconds: Floats
    upper: Floats
    measured: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Row:
    """Seconds by node count for one input size; counts ascend."""

    counts: NDArray[np.int64]
    seconds: Floats

    def at(self, nodes: Floats) -> Times:
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
        return Times(seconds=seconds, upper=upper, measured=measured)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scaling:
    """Rows by input size; sizes ascend."""

    sizes: Floats
    rows: tuple[Row, ...]

    def at(self, sizes: Floats, nodes: Floats) -> Times:
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
        return Times(seconds=seconds, upper=upper, measured=measured)

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
) -> tuple[Scaling | None, list[Problem]]:
    """Check the measurements of one kind and sort them."""
    problems = list(_faults(kind, sizes, one_size))
    if problems:
        return None, problems
    rows = {_number(size): _row(times) for size, times in sizes.items()}
    order = sorted(rows)
    return Scaling(sizes=np.array(order), rows=tuple(rows[size] for size in order)), []


def _row(times: Mapping[Given, float]) -> Row:
    known = sorted({int(_number(count)): seconds for count, seconds in times.items()}.items())
    counts, seconds = zip(*known, strict=True)
    return Row(counts=np.array(counts, dtype=np.int64), seconds=np.array(seconds, dtype=np.float64))


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
