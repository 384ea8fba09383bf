"""The layout ``classes``: tasks that are alike and machines that are alike share their seconds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from weft.workflow.unfolding.task_graph import Floats, Indices

__all__ = ["Classes"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Classes:
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
