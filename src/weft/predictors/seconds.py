"""The layout ``related``: seconds = work / rate / speed-up, so that a million modes cost a few arrays.

The layout ``classes``: tasks that are alike and machines that are alike share their seconds.

The layout ``table``: every possible mode written down, row after row of tasks (CSR).

How many seconds may be stored: a layout beyond the limit is refused before memory is taken for it.

Estimated seconds of all modes of all tasks, in one of three layouts with one interface (design section 5).

``RelatedSeconds`` keeps work, rates and speed-ups; ``ClassSeconds`` keeps one row per class of like
tasks; ``TableSeconds``
keeps every mode. Machines and tasks are indices; a mode with more nodes than the machine has is not possible.

Estimates of some tasks at what machines are believed to be worth now: the layout stays what it is.

A task of which a share of the work is left takes that share of its seconds; a machine at half its speed takes
twice as long.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from weft.errors import InvalidInput, Problem
from weft.workflow.task_graph import Floats, Indices

__all__ = [
    "MAX_ENTRIES",
    "ClassSeconds",
    "RelatedSeconds",
    "Seconds",
    "TableSeconds",
    "check_entries",
    "rescale_seconds",
]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RelatedSeconds:
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
        rate, gain = (_spread_to_tasks(values[chosen], patterns.pattern) for values in (best, patterns.gain))
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

    def _patterns(self, machines: Indices) -> _RelatedPatterns:
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
        return _RelatedPatterns(pattern=pattern, service=codes // (laws * sets), gain=gain[pair], group=group)

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
class _RelatedPatterns:
    """Tasks of one (service, law, counts) differ only by work, machines of one capacity only by rate."""

    pattern: NDArray[np.intp]
    """Per task."""
    service: NDArray[np.int64]
    """Per pattern."""
    gain: Floats
    """Patterns x capacities: the best speed-up; nan: none."""
    group: NDArray[np.intp]
    """Per machine: its capacity."""


def _spread_to_tasks(values: Floats, index: NDArray[np.intp]) -> Floats:
    """Give the value of each task's pattern; nan everywhere when there are none, as without machines."""
    return values[index] if len(values) else np.full(len(index), np.nan)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClassSeconds:
    """Seconds per task class, machine class and node count."""

    layout: ClassVar[str] = "classes"

    sources: tuple[str, ...]
    source: NDArray[np.uint8]
    spread: Floats
    task_class: Indices
    machine_class: Indices
    seconds: Floats
    """Task classes x machine classes x node counts from 0; nan: not possible."""

    @property
    def entries(self) -> int:
        """Count the stored seconds."""
        return self.seconds.size

    def at(self, task: int, machine: int, count: int) -> float:
        """Give the seconds of one mode; nan: not possible."""
        if not 0 <= count < self.seconds.shape[2]:
            return math.nan
        return float(self.seconds[self.task_class[task], self.machine_class[machine], count])

    def modes(self, task: int) -> tuple[Indices, Indices, Floats]:
        """Give machine, count and seconds of all possible modes, by machine, then count."""
        seconds = self.seconds[self.task_class[task]][self.machine_class]
        machine, count = np.nonzero(~np.isnan(seconds))
        return machine.astype(np.uint32), count.astype(np.uint32), seconds[machine, count]

    def least(self, task: int, machines: Indices) -> Floats:
        """Give the least seconds over the allowed counts on each of these machines; nan: not possible."""
        by_class = np.fmin.reduce(self.seconds[self.task_class[task]], axis=1)
        return np.asarray(by_class[self.machine_class[machines]], dtype=np.float64)

    def mean_over(self, task: int, machines: Indices) -> float:
        """Give the mean of the least seconds over those of these machines that can run it; nan: none can."""
        least = self.least(task, machines)
        possible = least[~np.isnan(least)]
        return float(possible.mean()) if possible.size else math.nan

    def fastest(self) -> Floats:
        """Give per task the least seconds over all machines and counts; nan: no mode."""
        by_class = np.fmin.reduce(self.seconds, axis=(1, 2), initial=np.nan)
        return np.asarray(by_class[self.task_class], dtype=np.float64)

    def means_over(self, machines: Indices) -> Floats:
        """Give ``mean_over`` of every task for one set of machines."""
        least = np.fmin.reduce(self.seconds, axis=2)
        members = np.bincount(self.machine_class[machines], minlength=least.shape[1])
        possible = ~np.isnan(least)
        number = (possible * members).sum(axis=1)
        total = (np.where(possible, least, 0.0) * members).sum(axis=1)
        mean = np.where(number > 0, total / np.maximum(number, 1), np.nan)
        return np.asarray(mean[self.task_class], dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableSeconds:
    """The modes of task t stand at ``pointer[t]:pointer[t + 1]``, sorted by machine, then count."""

    layout: ClassVar[str] = "table"

    sources: tuple[str, ...]
    source: NDArray[np.uint8]
    spread: Floats
    pointer: NDArray[np.int64]
    machine: Indices
    count: Indices
    seconds: Floats

    @property
    def entries(self) -> int:
        """Count the stored seconds."""
        return self.seconds.size

    def at(self, task: int, machine: int, count: int) -> float:
        """Give the seconds of one mode; nan: not possible."""
        machines, counts, seconds = self.modes(task)
        first, end = np.searchsorted(machines, [machine, machine + 1])
        position = first + np.searchsorted(counts[first:end], count)
        return float(seconds[position]) if position < end and counts[position] == count else math.nan

    def modes(self, task: int) -> tuple[Indices, Indices, Floats]:
        """Give machine, count and seconds of all possible modes, by machine, then count."""
        row = slice(self.pointer[task], self.pointer[task + 1])
        return self.machine[row], self.count[row], self.seconds[row]

    def least(self, task: int, machines: Indices) -> Floats:
        """Give the least seconds over the allowed counts on each of these machines; nan: not possible."""
        machine, _, seconds = self.modes(task)
        found = np.full(len(machines), np.nan)
        if seconds.size:
            known, starts = np.unique(machine, return_index=True)
            position = np.minimum(np.searchsorted(known, machines), len(known) - 1)
            least = np.minimum.reduceat(seconds, starts)[position]
            found = np.where(known[position] == machines, least, np.nan)
        return found

    def mean_over(self, task: int, machines: Indices) -> float:
        """Give the mean of the least seconds over those of these machines that can run it; nan: none can."""
        least = self.least(task, machines)
        possible = least[~np.isnan(least)]
        return float(possible.mean()) if possible.size else math.nan

    def fastest(self) -> Floats:
        """Give per task the least seconds over all machines and counts; nan: no mode."""
        found = np.full(len(self.pointer) - 1, np.nan)
        filled = np.flatnonzero(np.diff(self.pointer))
        if filled.size:
            found[filled] = np.minimum.reduceat(self.seconds, self.pointer[filled])
        return found

    def means_over(self, machines: Indices) -> Floats:
        """Give ``mean_over`` of every task for one set of machines."""
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
"""No layout of seconds is built, or expanded into another, above this many entries (design section 5)."""


def check_entries(entries: int, shape: str) -> None:
    """Refuse a layout that is too large; ``shape`` says where the entries come from."""
    if entries > MAX_ENTRIES:
        raise InvalidInput(
            Problem(
                what=f"{entries:,} estimated seconds would have to be stored: {shape}",
                rule=f"at most {MAX_ENTRIES:,} are",
                advice="give `work` instead of `seconds` per machine, or fewer counts or unlike machines",
            )
        )


class Seconds(Protocol):
    """What every layout can be asked."""

    @property
    def layout(self) -> str:
        """``related``, ``classes`` or ``table``."""
        ...

    @property
    def sources(self) -> tuple[str, ...]:
        """Where the estimates come from."""
        ...

    @property
    def source(self) -> NDArray[np.uint8]:
        """Per task: index into ``sources``; of several, that of the mode with the widest spread."""
        ...

    @property
    def spread(self) -> Floats:
        """Per task: the largest P90/P50 of its modes; nan: no P90 known, the estimates count as exact."""
        ...

    @property
    def entries(self) -> int:
        """Count the stored numbers."""
        ...

    def at(self, task: int, machine: int, count: int) -> float:
        """Give the seconds of one mode; nan: not possible."""
        ...

    def modes(self, task: int) -> tuple[Indices, Indices, Floats]:
        """Give machine, count and seconds of all possible modes, by machine, then count."""
        ...

    def least(self, task: int, machines: Indices) -> Floats:
        """Give the least seconds over the allowed counts on each of these machines; nan: not possible."""
        ...

    def mean_over(self, task: int, machines: Indices) -> float:
        """Give the mean of the least seconds over those of these machines that can run it; nan: none can."""
        ...

    def fastest(self) -> Floats:
        """Give per task the least seconds over all machines and counts; nan: no mode."""
        ...

    def means_over(self, machines: Indices) -> Floats:
        """Give ``mean_over`` of every task for one set of machines."""
        ...


def rescale_seconds(seconds: Seconds, tasks: Indices, left: Floats, speed: Floats) -> Seconds:
    """Give the estimates of some tasks, with the share of their work that is left.

    ``speed``: per machine, relative to what the estimates assume; above 0.
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
    """Split the classes by what is left of tasks, and by the speed of machines."""
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
    """Number the pairs of class and factor; give both of each number (2 x numbers), and the numbers."""
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
