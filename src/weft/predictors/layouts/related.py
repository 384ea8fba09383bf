"""The layout ``related``: seconds = work / rate / speed-up, so that a million modes cost a few arrays."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from weft.workflow.unfolding.task_graph import Floats, Indices

__all__ = ["Related"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Related:
    """Work per task, rate per service and machine, speed-up per law and node count."""

    layout: ClassVar[str] = "related"

    sources: tuple[str, ...]
    source: NDArray[np.uint8]
    spread: Floats
    work: Floats
    service: Indices
    """Per task: row of ``rate``."""
    rate: Floats
    """Services x machines."""
    law: Indices
    """Per task: row of ``speedup``."""
    speedup: Floats
    """Laws x node counts from 0; nan where the law knows nothing."""
    counts: Indices
    """Per task: index into ``count_sets``."""
    count_sets: tuple[tuple[int, ...], ...]
    capacity: Indices | None = None
    """Nodes per machine; None: no limit."""

    @property
    def entries(self) -> int:
        """Count the stored numbers."""
        return self.work.size + self.rate.size + self.speedup.size

    def at(self, task: int, machine: int, count: int) -> float:
        """Give the seconds of one mode; nan: not possible."""
        allowed = self.count_sets[self.counts[task]]
        position = bisect_left(allowed, count)
        if position == len(allowed) or allowed[position] != count or count >= self.speedup.shape[1]:
            return math.nan
        if self.capacity is not None and count > self.capacity[machine]:
            return math.nan
        seconds = self.work[task] / self.rate[self.service[task], machine]
        return float(seconds / self.speedup[self.law[task], count])

    def modes(self, task: int) -> tuple[Indices, Indices, Floats]:
        """Give machine, count and seconds of all possible modes, by machine, then count."""
        counts = self._known_counts(int(self.counts[task]))
        rates = self.rate[self.service[task]]
        seconds = self.work[task] / rates[:, None] / self.speedup[self.law[task], counts]
        possible = np.isfinite(seconds)
        if self.capacity is not None:
            possible &= counts <= self.capacity[:, None]
        machine, position = np.nonzero(possible)
        return machine.astype(np.uint32), counts[position].astype(np.uint32), seconds[machine, position]

    def least(self, task: int, machines: Indices) -> Floats:
        """Give the least seconds over the allowed counts on each of these machines; nan: not possible."""
        law = self.law[task : task + 1].astype(np.int64)
        gain = self._gain(law, int(self.counts[task]), self._capacities(machines))[0]
        rates = self.rate[self.service[task], machines]
        return np.asarray(self.work[task] / rates / gain, dtype=np.float64)

    def mean_over(self, task: int, machines: Indices) -> float:
        """Give the mean of the least seconds over those of these machines that can run it; nan: none can."""
        least = self.least(task, machines)
        possible = least[~np.isnan(least)]
        return float(possible.mean()) if possible.size else math.nan

    def fastest(self) -> Floats:
        """Give per task the least seconds over all machines and counts; nan: no mode."""
        machines = np.arange(self.rate.shape[1], dtype=np.uint32)
        patterns = self._patterns(machines)
        rates = np.zeros((patterns.gain.shape[1], len(self.rate)))
        np.maximum.at(rates, patterns.group, self.rate.T)
        best = rates.T[patterns.service]
        speed = np.nan_to_num(best * patterns.gain)
        # Divide as ``at`` does, so that the result is the very number of the fastest mode.
        chosen = (np.arange(len(speed)), speed.argmax(axis=1)) if speed.size else (slice(0), slice(0))
        rate, gain = (_spread_out(values[chosen], patterns.pattern) for values in (best, patterns.gain))
        return np.asarray(self.work / rate / gain, dtype=np.float64)

    def means_over(self, machines: Indices) -> Floats:
        """Give ``mean_over`` of every task for one set of machines."""
        patterns = self._patterns(machines)
        groups = patterns.gain.shape[1]
        inverse = [np.bincount(patterns.group, 1.0 / row[machines], groups) for row in self.rate]
        weight = np.array(inverse).reshape(len(self.rate), groups)[patterns.service]
        possible = ~np.isnan(patterns.gain)
        total = np.where(possible, weight / np.where(possible, patterns.gain, 1.0), 0.0).sum(axis=1)
        number = np.where(possible, np.bincount(patterns.group, minlength=groups), 0).sum(axis=1)
        factor = np.where(number > 0, total / np.maximum(number, 1), np.nan)
        return np.asarray(self.work * factor[patterns.pattern], dtype=np.float64)

    def _patterns(self, machines: Indices) -> _Patterns:
        laws, sets = len(self.speedup), len(self.count_sets)
        code = (self.service.astype(np.int64) * laws + self.law) * sets + self.counts
        codes, pattern = np.unique(code, return_inverse=True)
        pairs, pair = np.unique(codes % (laws * sets), return_inverse=True)
        capacities, group = np.unique(self._capacities(machines), return_inverse=True)
        law_of, counts_of = np.divmod(pairs, sets)
        gain = np.full((len(pairs), len(capacities)), np.nan)
        for counts in np.unique(counts_of).tolist():
            rows = np.flatnonzero(counts_of == counts)
            gain[rows] = self._gain(law_of[rows], counts, capacities)
        return _Patterns(pattern=pattern, service=codes // (laws * sets), gain=gain[pair], group=group)

    def _gain(self, laws: NDArray[np.int64], counts: int, capacities: NDArray[np.int64]) -> Floats:
        """Give the best speed-up that laws reach within capacities: laws x capacities; nan: none."""
        known = self._known_counts(counts)
        best = np.fmax.accumulate(self.speedup[laws[:, None], known], axis=1)
        best = np.concatenate([np.full((len(laws), 1), np.nan), best], axis=1)
        return np.asarray(best[:, np.searchsorted(known, capacities, side="right")], dtype=np.float64)

    def _known_counts(self, counts: int) -> NDArray[np.int64]:
        allowed = np.asarray(self.count_sets[counts], dtype=np.int64)
        return np.asarray(allowed[allowed < self.speedup.shape[1]])

    def _capacities(self, machines: Indices) -> NDArray[np.int64]:
        if self.capacity is None:
            return np.full(len(machines), self.speedup.shape[1], dtype=np.int64)
        return self.capacity[machines].astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Patterns:
    """Tasks of one (service, law, counts) differ only by work, machines of one capacity only by rate."""

    pattern: NDArray[np.intp]
    """Per task."""
    service: NDArray[np.int64]
    """Per pattern."""
    gain: Floats
    """Patterns x capacities: the best speed-up; nan: none."""
    group: NDArray[np.intp]
    """Per machine: its capacity."""


def _spread_out(values: Floats, index: NDArray[np.intp]) -> Floats:
    """Give the value of each task's pattern; nan everywhere when there are none, as without machines."""
    return values[index] if len(values) else np.full(len(index), np.nan)
