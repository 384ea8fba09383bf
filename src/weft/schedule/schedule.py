"""A schedule: which task runs where, on how many nodes, from when to when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.workflow.unfolding.task_graph import Floats

__all__ = ["Assignment", "Schedule"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One line of a schedule."""

    task: str
    machine: str
    nodes: int
    start_s: float
    finish_s: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Schedule:
    """Columns over the tasks of a graph, in its order."""

    tasks: tuple[str, ...]
    machines: tuple[str, ...]
    """Names of the platform's machines (as planners see them: virtual shares are machines)."""
    machine: NDArray[np.uint32]
    """Per task: index into ``machines``; of a transfer: the destination."""
    nodes: NDArray[np.uint32]
    """Per task: nodes taken; 0 for transfers and virtual tasks."""
    start_s: Floats
    finish_s: Floats

    def __len__(self) -> int:
        return len(self.tasks)

    @property
    def makespan_s(self) -> float:
        """Give the time from 0 to the end of the last task."""
        return float(self.finish_s.max(initial=0.0))

    @property
    def machines_used(self) -> int:
        """Count the machines on which at least one node is taken."""
        return len(np.unique(self.machine[self.nodes > 0]))

    def __iter__(self) -> Iterator[Assignment]:
        numbers = (self.machine.tolist(), self.nodes.tolist(), self.start_s.tolist(), self.finish_s.tolist())
        for task, machine, nodes, start, finish in zip(self.tasks, *numbers, strict=True):
            yield Assignment(
                task=task, machine=self.machines[machine], nodes=nodes, start_s=start, finish_s=finish
            )
