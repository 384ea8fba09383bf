"""A predictor's answers per class of tasks and class of machines, and the layout of seconds they become."""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from weft.predictors.building.csr import Integers, pointers, ranges
from weft.predictors.building.likeness import Grouping
from weft.predictors.building.relating import NO_WORK, UNKNOWN
from weft.predictors.layouts.sizes import MAX_ENTRIES, check_entries
from weft.predictors.seconds import Classes, Table
from weft.workflow.unfolding.task_graph import Floats

__all__ = ["SMALL", "Answers"]

SMALL = 10_000
"""So few entries are kept by classes even if hardly any tasks share one."""


@dataclass(slots=True)
class Answers:
    """Collects the possible modes, one task class after the other; ``array`` keeps millions of them small."""

    starts: array[int] = field(default_factory=lambda: array("q"))
    group: array[int] = field(default_factory=lambda: array("I"))
    count: array[int] = field(default_factory=lambda: array("I"))
    seconds: array[float] = field(default_factory=lambda: array("d"))
    source: list[str] = field(default_factory=list)
    spread: list[float] = field(default_factory=list)

    def open_row(self) -> None:
        """Begin the next task class."""
        self.starts.append(len(self.seconds))
        self.source.append(UNKNOWN)
        self.spread.append(math.nan)

    def note(self, source: str, spread: float) -> None:
        """Keep the widest spread of the row and its source; of equals the first."""
        before = self.spread[-1]
        wider = spread > before or (math.isnan(before) and not math.isnan(spread))
        if wider or self.source[-1] == UNKNOWN:
            self.source[-1], self.spread[-1] = source, spread

    def add(self, group: int, count: int, seconds: float) -> None:
        """Add a possible mode: on every machine of a class, with so many nodes."""
        self.group.append(group)
        self.count.append(count)
        self.seconds.append(seconds)

    def add_idle(self, groups: int) -> None:
        """Make the row one of a task without work: no time, on one node, everywhere."""
        self.note(NO_WORK, math.nan)
        for group in range(groups):
            self.add(group, 1, 0.0)

    def laid_out(self, tasks: Grouping, machines: Grouping) -> Classes | Table:
        """Choose the layout: classes where many tasks share one, else a table; neither if it is too large."""
        pointer = np.array([*self.starts, len(self.seconds)], dtype=np.int64)
        group = np.array(self.group, dtype=np.int64)
        width = max(self.count, default=1) + 1
        dense = len(self.starts) * len(machines.first) * width
        modes = np.bincount(
            np.repeat(np.arange(len(self.starts)), np.diff(pointer)), machines.sizes[group], len(self.starts)
        )
        listed = int((modes * tasks.sizes).sum())
        shared = len(self.starts) * 2 <= len(tasks.group) or dense <= SMALL
        if dense <= MAX_ENTRIES and (shared or listed > MAX_ENTRIES):
            return self._classes(tasks, machines, pointer, group, width)
        check_entries(
            min(listed, dense),
            f"{len(tasks.group):,} tasks x {len(machines.group):,} machines x up to {width - 1:,} nodes",
        )
        return self._table(tasks, machines, pointer, group)

    def _sources(self, tasks: Grouping) -> tuple[tuple[str, ...], NDArray[np.uint8], Floats]:
        index = {source: position for position, source in enumerate(dict.fromkeys(self.source))}
        source = np.array([index[source] for source in self.source], dtype=np.uint8)
        return tuple(index), source[tasks.group], np.array(self.spread, dtype=np.float64)[tasks.group]

    def _classes(
        self, tasks: Grouping, machines: Grouping, pointer: Integers, group: Integers, width: int
    ) -> Classes:
        seconds = np.full((len(self.starts), len(machines.first), width), np.nan)
        row = np.repeat(np.arange(len(self.starts)), np.diff(pointer))
        seconds[row, group, np.array(self.count, dtype=np.int64)] = np.array(self.seconds)
        sources, source, spread = self._sources(tasks)
        return Classes(
            sources=sources,
            source=source,
            spread=spread,
            task_class=tasks.group.astype(np.uint32),
            machine_class=machines.group.astype(np.uint32),
            seconds=seconds,
        )

    def _table(self, tasks: Grouping, machines: Grouping, pointer: Integers, group: Integers) -> Table:
        # First the row of every task class with its machines written out, then one copy per task.
        members = np.argsort(machines.group, kind="stable")
        lengths = machines.sizes[group]
        machine = members[ranges(pointers(machines.sizes)[group], lengths)]
        row = np.repeat(np.repeat(np.arange(len(self.starts)), np.diff(pointer)), lengths)
        count = np.repeat(np.array(self.count, dtype=np.uint32), lengths)
        order = np.lexsort((count, machine, row))
        modes = np.bincount(row, minlength=len(self.starts))
        chosen = order[ranges(pointers(modes)[tasks.group], modes[tasks.group])]
        sources, source, spread = self._sources(tasks)
        return Table(
            sources=sources,
            source=source,
            spread=spread,
            pointer=pointers(modes[tasks.group]),
            machine=machine[chosen].astype(np.uint32),
            count=count[chosen],
            seconds=np.repeat(np.array(self.seconds, dtype=np.float64), lengths)[chosen],
        )
