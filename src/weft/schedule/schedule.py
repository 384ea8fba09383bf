"""Schedules: machine, nodes, start and finish of every task, and the expected time of all loop iterations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from weft.records import dataclass
from weft.workflow.task_graph import Floats, LoopBody, TaskGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One row of a schedule: where and when a task runs."""

    task: str
    machine: str
    nodes: int
    start_s: float
    finish_s: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Schedule:
    """Machine, nodes, start and finish of every task, as columns in the order of the task graph."""

    tasks: tuple[str, ...]
    machines: tuple[str, ...]
    """Names of the machines of the platform; a share (virtual resource) counts as a machine."""
    machine: NDArray[np.uint32]
    """Per task: index into ``machines``; for a transfer, the destination."""
    nodes: NDArray[np.uint32]
    """Per task: occupied nodes; 0 for transfers and virtual tasks."""
    start_s: Floats
    finish_s: Floats

    def __len__(self) -> int:
        return len(self.tasks)

    @property
    def makespan_s(self) -> float:
        """Return the finish of the last task; 0 if there are no tasks."""
        return float(self.finish_s.max(initial=0.0))

    @property
    def machines_used(self) -> int:
        """Return the number of machines with at least one occupied node."""
        return len(np.unique(self.machine[self.nodes > 0]))

    def __iter__(self) -> Iterator[Assignment]:
        numbers = (self.machine.tolist(), self.nodes.tolist(), self.start_s.tolist(), self.finish_s.tolist())
        for task, machine, nodes, start, finish in zip(self.tasks, *numbers, strict=True):
            yield Assignment(
                task=task, machine=self.machines[machine], nodes=nodes, start_s=start, finish_s=finish
            )


def expected_total_seconds(schedule: Schedule, graph: TaskGraph) -> float | None:
    """Return the makespan including all expected iterations; None if the number of a loop is unknown.

    A schedule contains one iteration of every loop. A loop with n expected iterations adds (n - 1) times the
    seconds from the first start to the last finish of its body. An inner loop adds this time once per
    iteration of the outer loop.
    """
    if any(body.expect is None for body in graph.loops):
        return None
    return float(total_seconds(schedule.start_s, schedule.finish_s, graph.loops))


def total_seconds(start_s: Floats, finish_s: Floats, loops: Sequence[LoopBody]) -> Floats:
    """Return the makespan of the tasks with all expected iterations of their loops.

    A loop without an expected number counts as one iteration. The arrays have one row of times per task, or
    one row per sample; in the latter case the result has one value per sample.
    """
    total = np.asarray(finish_s.max(axis=-1, initial=0.0))
    for body in loops:
        if len(body.tasks):
            span = finish_s[..., body.tasks].max(axis=-1) - start_s[..., body.tasks].min(axis=-1)
            outer = math.prod(other.expect or 1 for other in loops if _contains(other, body))
            total = total + outer * ((body.expect or 1) - 1) * span
    return total


def expected_executions(tasks: int, loops: Sequence[LoopBody]) -> Floats:
    """Return how often each task is expected to run; a loop without an expected number runs once."""
    times = np.ones(tasks)
    for body in loops:
        times[body.tasks] *= body.expect or 1
    return times


def _contains(outer: LoopBody, inner: LoopBody) -> bool:
    return len(inner.tasks) < len(outer.tasks) and bool(np.isin(inner.tasks, outer.tasks).all())
