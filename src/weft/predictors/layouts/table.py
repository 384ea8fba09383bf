"""The layout ``table``: every possible mode written down, row after row of tasks (CSR)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from weft.workflow.unfolding.task_graph import Floats, Indices

__all__ = ["Table"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
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
