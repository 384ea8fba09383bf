"""Estimated seconds of all modes of all tasks, in one of three layouts with one interface."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import replace
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from weft.errors import InvalidInput
from weft.records import dataclass
from weft.workflow.task_graph import Floats, Indices


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RelatedSeconds:
    """The layout ``related``: work per task / rate per service and machine / speed-up per law and count."""

    layout: ClassVar[str] = "related"

    sources: tuple[str, ...]
    source: NDArray[np.uint8]
    spread: Floats
    work: Floats
    service: Indices
    """Per task: its row of ``rate``."""
    rate: Floats
    """Services x machines: work per second."""
    law: Indices
    """Per task: its row of ``speedup``."""
    speedup: Floats
    """Laws x node counts from 0: speed-up; nan where a law is undefined."""
    counts: Indices
    """Per task: index of its allowed node counts in ``count_sets``."""
    count_sets: tuple[tuple[int, ...], ...]
    capacity: Indices | None = None
    """Per machine: its nodes; None for no limit."""

    def at(self, task: int, machine: int, count: int) -> float:
        """Return the seconds of one mode; nan if it is impossible."""
        allowed = self.count_sets[self.counts[task]]
        position = bisect_left(allowed, count)
        if position == len(allowed) or allowed[position] != count or count >= self.speedup.shape[1]:
            return math.nan
        if self.capacity is not None and count > self.capacity[machine]:
            return math.nan
        seconds = self.work[task] / self.rate[self.service[task], machine]
        return float(seconds / self.speedup[self.law[task], count])

    def modes(self, task: int) -> tuple[Indices, Indices, Floats]:
        """Return machine, count and seconds of all possible modes, ordered by machine, then count."""
        counts = self._known_counts(int(self.counts[task]))
        rates = self.rate[self.service[task]]
        seconds = self.work[task] / rates[:, None] / self.speedup[self.law[task], counts]
        possible = np.isfinite(seconds)
        if self.capacity is not None:
            possible &= counts <= self.capacity[:, None]
        machine, position = np.nonzero(possible)
        return machine.astype(np.uint32), counts[position].astype(np.uint32), seconds[machine, position]

    def means_over(self, machines: Indices) -> Floats:
        """Return each task's fastest seconds, averaged over the machines that can run it; nan if none can."""
        patterns = self._patterns(machines)
        groups = patterns.speedup.shape[1]
        inverse = [np.bincount(patterns.group, 1.0 / row[machines], groups) for row in self.rate]
        weight = np.array(inverse).reshape(len(self.rate), groups)[patterns.service]
        possible = ~np.isnan(patterns.speedup)
        total = np.where(possible, weight / np.where(possible, patterns.speedup, 1.0), 0.0).sum(axis=1)
        number = np.where(possible, np.bincount(patterns.group, minlength=groups), 0).sum(axis=1)
        factor = np.where(number > 0, total / np.maximum(number, 1), np.nan)
        return np.asarray(self.work * factor[patterns.pattern], dtype=np.float64)

    def _patterns(self, machines: Indices) -> _RelatedPatterns:
        laws, sets = len(self.speedup), len(self.count_sets)
        code = (self.service.astype(np.int64) * laws + self.law) * sets + self.counts
        codes, pattern = np.unique(code, return_inverse=True)
        pairs, pair = np.unique(codes % (laws * sets), return_inverse=True)
        capacities, group = np.unique(self._capacities(machines), return_inverse=True)
        law_of, counts_of = np.divmod(pairs, sets)
        best = np.full((len(pairs), len(capacities)), np.nan)
        for counts in np.unique(counts_of).tolist():
            rows = np.flatnonzero(counts_of == counts)
            best[rows] = self._best_speedup(law_of[rows], counts, capacities)
        return _RelatedPatterns(
            pattern=pattern, service=codes // (laws * sets), speedup=best[pair], group=group
        )

    def _best_speedup(self, laws: NDArray[np.int64], counts: int, capacities: NDArray[np.int64]) -> Floats:
        """Return the best speed-up of laws within capacities (laws x capacities); nan if there is none."""
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
class _RelatedPatterns:
    """Patterns of tasks, which differ only by work, and classes of machines, which differ only by rate."""

    pattern: NDArray[np.intp]
    """Per task: its pattern (service, law and allowed node counts)."""
    service: NDArray[np.int64]
    """Per pattern: its service."""
    speedup: Floats
    """Patterns x capacities: best speed-up; nan if there is none."""
    group: NDArray[np.intp]
    """Per machine: the class of its capacity."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClassSeconds:
    """The layout ``classes``: seconds per class of tasks, class of machines and node count."""

    layout: ClassVar[str] = "classes"

    sources: tuple[str, ...]
    source: NDArray[np.uint8]
    spread: Floats
    task_class: Indices
    machine_class: Indices
    seconds: Floats
    """Task classes x machine classes x node counts from 0: seconds; nan if impossible."""

    def at(self, task: int, machine: int, count: int) -> float:
        """Return the seconds of one mode; nan if it is impossible."""
        if not 0 <= count < self.seconds.shape[2]:
            return math.nan
        return float(self.seconds[self.task_class[task], self.machine_class[machine], count])

    def modes(self, task: int) -> tuple[Indices, Indices, Floats]:
        """Return machine, count and seconds of all possible modes, ordered by machine, then count."""
        seconds = self.seconds[self.task_class[task]][self.machine_class]
        machine, count = np.nonzero(~np.isnan(seconds))
        return machine.astype(np.uint32), count.astype(np.uint32), seconds[machine, count]

    def means_over(self, machines: Indices) -> Floats:
        """Return each task's fastest seconds, averaged over the machines that can run it; nan if none can."""
        least = np.fmin.reduce(self.seconds, axis=2)
        members = np.bincount(self.machine_class[machines], minlength=least.shape[1])
        possible = ~np.isnan(least)
        number = (possible * members).sum(axis=1)
        total = (np.where(possible, least, 0.0) * members).sum(axis=1)
        mean = np.where(number > 0, total / np.maximum(number, 1), np.nan)
        return np.asarray(mean[self.task_class], dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableSeconds:
    """The layout ``table``: a list of all modes; ``pointer[t]:pointer[t + 1]`` are those of task t."""

    layout: ClassVar[str] = "table"

    sources: tuple[str, ...]
    source: NDArray[np.uint8]
    spread: Floats
    pointer: NDArray[np.int64]
    machine: Indices
    count: Indices
    seconds: Floats

    def at(self, task: int, machine: int, count: int) -> float:
        """Return the seconds of one mode; nan if it is impossible."""
        machines, counts, seconds = self.modes(task)
        first, end = np.searchsorted(machines, [machine, machine + 1])
        position = first + np.searchsorted(counts[first:end], count)
        return float(seconds[position]) if position < end and counts[position] == count else math.nan

    def modes(self, task: int) -> tuple[Indices, Indices, Floats]:
        """Return machine, count and seconds of all possible modes, ordered by machine, then count."""
        row = slice(self.pointer[task], self.pointer[task + 1])
        return self.machine[row], self.count[row], self.seconds[row]

    def means_over(self, machines: Indices) -> Floats:
        """Return each task's fastest seconds, averaged over the machines that can run it; nan if none can."""
        tasks = len(self.pointer) - 1
        times = np.bincount(machines, minlength=int(self.machine.max(initial=0)) + 1)
        rows = np.repeat(np.arange(tasks), np.diff(self.pointer))
        changes = (np.diff(rows, prepend=-1) != 0) | (np.diff(self.machine.astype(np.int64), prepend=-1) != 0)
        starts = np.flatnonzero(changes)
        least = np.minimum.reduceat(self.seconds, starts) if starts.size else self.seconds
        weight = times[self.machine[starts]]
        total = np.bincount(rows[starts], least * weight, tasks)
        number = np.bincount(rows[starts], weight, tasks)
        return np.where(number > 0, total / np.maximum(number, 1), np.nan)


MAX_ENTRIES = 10_000_000
"""Largest number of seconds that a layout may store; it is checked before the layout is built."""


def check_entries(entries: int, shape: str) -> None:
    """Raise InvalidInput if a layout has too many entries; ``shape`` describes its dimensions."""
    if entries > MAX_ENTRIES:
        raise InvalidInput(
            f"{entries:,} estimated seconds would have to be stored: {shape}",
            rule=f"at most {MAX_ENTRIES:,} are allowed",
            advice="give `work` instead of `seconds` per machine, or fewer node counts or machines",
        )


class Seconds(Protocol):
    """Estimated seconds of all modes of all tasks: the interface of the three layouts.

    ``RelatedSeconds`` stores work, rates and speed-ups; ``ClassSeconds`` one row per class of equivalent
    tasks; ``TableSeconds`` every mode. Tasks and machines are indices. A mode with more nodes than the
    machine has is impossible.
    """

    @property
    def layout(self) -> str:
        """Return the name of the layout: ``related``, ``classes`` or ``table``."""
        ...

    @property
    def sources(self) -> tuple[str, ...]:
        """Return the names of the sources of estimates."""
        ...

    @property
    def source(self) -> NDArray[np.uint8]:
        """Return for each task the index of its source.

        If the modes of a task have several sources, it is the source with the largest spread.
        """
        ...

    @property
    def spread(self) -> Floats:
        """Return for each task the largest P90/P50 of its modes; nan if the estimates count as exact."""
        ...

    def at(self, task: int, machine: int, count: int) -> float:
        """Return the seconds of one mode; nan if it is impossible."""
        ...

    def modes(self, task: int) -> tuple[Indices, Indices, Floats]:
        """Return machine, count and seconds of all possible modes, ordered by machine, then count."""
        ...

    def means_over(self, machines: Indices) -> Floats:
        """Return each task's fastest seconds, averaged over the machines that can run it; nan if none can."""
        ...


def add_startup(seconds: Seconds, startup_s: Floats, parallel_startup_s: Floats) -> Seconds:
    """Return the estimates with the time that a program waits on each machine before it starts.

    ``parallel_startup_s`` is that of programs on several nodes. Estimates by work and speed cannot express
    such a time; they become a table of classes.
    """
    if not startup_s.any() and not parallel_startup_s.any():
        return seconds
    if isinstance(seconds, TableSeconds):
        own = np.where(seconds.count > 1, parallel_startup_s[seconds.machine], startup_s[seconds.machine])
        return replace(seconds, seconds=seconds.seconds + own)
    if isinstance(seconds, RelatedSeconds):
        seconds = _tabulate_related(seconds)
    if isinstance(seconds, ClassSeconds):
        several = np.arange(seconds.seconds.shape[2]) > 1
        for startup, counts in ((startup_s, ~several), (parallel_startup_s, several)):
            pairs, machine_class = _split_classes(seconds.machine_class, startup)
            cells = seconds.seconds[:, pairs[0].astype(np.int64)] + pairs[1][None, :, None] * counts
            seconds = replace(seconds, machine_class=machine_class, seconds=cells)
        return seconds
    raise TypeError(f"estimates in an unknown layout: {seconds.layout}")


def _tabulate_related(seconds: RelatedSeconds) -> ClassSeconds:
    """Return the same estimates by class of tasks; each machine is a class of its own."""
    columns = (seconds.service, seconds.law, seconds.counts)
    rows = np.stack([seconds.work, *(column.astype(np.float64) for column in columns)])
    kinds, first, task_class = np.unique(rows, axis=1, return_index=True, return_inverse=True)
    machines, counts = seconds.rate.shape[1], seconds.speedup.shape[1]
    shape = f"{kinds.shape[1]:,} kinds of tasks x {machines:,} machines x {counts:,} node counts"
    check_entries(kinds.shape[1] * machines * counts, shape)
    cells = np.full((kinds.shape[1], machines, counts), np.nan)
    for row, example in enumerate(first.tolist()):
        machine, count, spent = seconds.modes(example)
        cells[row, machine, count] = spent
    return ClassSeconds(
        sources=seconds.sources,
        source=seconds.source,
        spread=seconds.spread,
        task_class=task_class.reshape(-1).astype(np.uint32),
        machine_class=np.arange(machines, dtype=np.uint32),
        seconds=cells,
    )


def rescale_seconds(seconds: Seconds, tasks: Indices, left: Floats, speed: Floats) -> Seconds:
    """Return the estimates of the given tasks for the rest of their work, in the same layout.

    ``left`` is the remaining share of the work of each task; ``speed`` is the current speed of each machine
    as a factor of the estimated speed, above 0.
    """
    if isinstance(seconds, RelatedSeconds):
        return replace(
            seconds,
            source=seconds.source[tasks],
            spread=seconds.spread[tasks],
            work=seconds.work[tasks] * left,
            service=seconds.service[tasks],
            rate=seconds.rate * speed,
            law=seconds.law[tasks],
            counts=seconds.counts[tasks],
        )
    if isinstance(seconds, ClassSeconds):
        return _rescale_classes(seconds, tasks, left, speed)
    if isinstance(seconds, TableSeconds):
        return _rescale_table(seconds, tasks, left, speed)
    raise TypeError(f"estimates in an unknown layout: {seconds.layout}")


def _rescale_classes(seconds: ClassSeconds, tasks: Indices, left: Floats, speed: Floats) -> ClassSeconds:
    """Return rescaled estimates; classes are split by remaining work of tasks and speed of machines."""
    of_task, task_class = _split_classes(seconds.task_class[tasks], left)
    of_machine, machine_class = _split_classes(seconds.machine_class, speed)
    cells = seconds.seconds[of_task[0].astype(np.int64)][:, of_machine[0].astype(np.int64)]
    return replace(
        seconds,
        source=seconds.source[tasks],
        spread=seconds.spread[tasks],
        task_class=task_class,
        machine_class=machine_class,
        seconds=cells * of_task[1][:, None, None] / of_machine[1][None, :, None],
    )


def _split_classes(classes: Indices, factor: Floats) -> tuple[Floats, Indices]:
    """Return the distinct pairs of class and factor (2 x pairs), and the index of each element's pair."""
    pairs = np.stack([classes.astype(np.float64), factor])
    found, number = np.unique(pairs, axis=1, return_inverse=True)
    return found, number.reshape(-1).astype(np.uint32)


def _rescale_table(seconds: TableSeconds, tasks: Indices, left: Floats, speed: Floats) -> TableSeconds:
    length = np.diff(seconds.pointer)[tasks]
    pointer = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
    first = np.repeat(seconds.pointer[:-1][tasks] - pointer[:-1], length)
    cell = first + np.arange(pointer[-1])
    machine = seconds.machine[cell]
    return replace(
        seconds,
        source=seconds.source[tasks],
        spread=seconds.spread[tasks],
        pointer=pointer,
        machine=machine,
        count=seconds.count[cell],
        seconds=seconds.seconds[cell] * np.repeat(left, length) / speed[machine],
    )
