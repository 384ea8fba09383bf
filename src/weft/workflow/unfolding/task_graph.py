"""The task graph: the acyclic, integer-indexed unfolding of a workflow that predictors and planners read.

Everything is a column over tasks or edges, so that a graph of 100,000 tasks costs a few arrays and not a
million objects. Tasks stand in topological order: every predecessor has a lower index.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.expressions import Expression, Value
from weft.workflow.records.loop import Loop
from weft.workflow.records.moldable import SpeedUp
from weft.workflow.records.quantity import Context
from weft.workflow.records.task import Kind, Task
from weft.workflow.records.workflow import Workflow
from weft.workflow.unfolding.amounts import ByCount

__all__ = [
    "COMPUTE",
    "EVERYWHERE",
    "KINDS",
    "TRANSFER",
    "VIRTUAL",
    "Floats",
    "Indices",
    "LoopBody",
    "TaskGraph",
]

Floats = NDArray[np.float64]
Indices = NDArray[np.uint32]

KINDS = (Kind.COMPUTE, Kind.TRANSFER, Kind.VIRTUAL)
COMPUTE, TRANSFER, VIRTUAL = range(3)
"""Codes of the column ``kind``: positions in KINDS."""

EVERYWHERE = "*"
"""The machine name under which seconds that hold on every machine are kept."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoopBody:
    """A loop and the tasks of one of its iterations."""

    loop: Loop
    tasks: Indices
    expect: int | None
    """Expected iterations; None: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaskGraph:
    """Tasks in topological order with their predecessors and successors in CSR form."""

    workflow: Workflow
    params: Context
    """Every parameter with its value."""

    names: tuple[str, ...]
    """``lapw0``, ``lapw1[3]``, ``t[2,0.4]``."""
    template: Indices
    """Per task: index of the description in ``workflow.tasks``; also its kind in the sense of statistics."""
    points: tuple[tuple[Value, ...], ...]
    """Per task: the values of its sweep variables, in the order of ``sweep.names``; () without a sweep."""
    kind: NDArray[np.uint8]
    """Per task: COMPUTE, TRANSFER or VIRTUAL."""

    work: Floats
    """Per task: seconds on a machine of speed 1 with one node (or the law's first count); nan: unknown."""
    explicit_pointer: NDArray[np.int64]
    explicit_machine: Indices
    explicit_seconds: Floats
    """Seconds given per machine, CSR over tasks; ``explicit_machine`` indexes ``explicit_names``."""
    explicit_names: tuple[str, ...]
    """Machine names (or EVERYWHERE) that occur in ``seconds:`` keys."""

    counts: Indices
    """Per task: index into ``count_sets``."""
    count_sets: tuple[tuple[int, ...], ...]
    """Allowed node counts, ascending."""
    cores: Floats
    """Per task: cores needed on each node; 0: not said."""
    resource_names: tuple[str, ...]
    demand: Floats
    """Tasks x resources: amounts taken while running; where the node count matters, the least of each."""
    demand_by_count: ByCount
    """The amounts of the tasks for which the node count matters."""
    budget_names: tuple[str, ...]
    budgets: Floats
    """Per budget: what all tasks together may consume."""
    consumption: Floats
    """Tasks x budgets: amounts used up for good; where the node count matters, the least of each."""
    consumption_by_count: ByCount
    """The consumption of the tasks for which the node count matters."""

    variable: Indices
    """Per task: its binding variable; of a transfer: that of the destination."""
    source_variable: Indices
    """Per task: of a transfer, the binding variable of the source; else ``len(variables)``."""
    variables: tuple[str, ...]
    """Names of the binding variables: abstract machines, or the name of the only task."""
    transfer_bytes: Floats
    """Per task: bytes a transfer moves; 0 for other tasks and where nobody said (see ``unsized_files``)."""

    predecessor_pointer: NDArray[np.int64]
    predecessor: Indices
    successor_pointer: NDArray[np.int64]
    successor: Indices
    successor_edge: Indices
    """Per successor entry: the edge's position in the predecessor arrays, where its data are."""
    edge_bytes: Floats
    """Per edge: bytes of all files it carries."""
    edge_files: Floats
    """Per edge: number of files; each pays the latency once."""
    edge_seconds: Floats
    """Per edge: fixed seconds between different machines, whatever the network."""
    edge_condition: Mapping[int, Expression]
    """Edges that are taken only if the condition holds."""

    loops: tuple[LoopBody, ...]
    unsized_files: int
    """Files whose size nobody said; they count as 0 bytes, and reports say so."""

    def __len__(self) -> int:
        return len(self.names)

    @property
    def edge_count(self) -> int:
        """Count the edges."""
        return len(self.predecessor)

    def predecessors(self, task: int) -> Indices:
        """Give the direct predecessors of a task."""
        return self.predecessor[self.predecessor_pointer[task] : self.predecessor_pointer[task + 1]]

    def successors(self, task: int) -> Indices:
        """Give the direct successors of a task."""
        return self.successor[self.successor_pointer[task] : self.successor_pointer[task + 1]]

    def description(self, task: int) -> Task:
        """Give the user's description behind a task."""
        return self.workflow.tasks[int(self.template[task])]

    def law(self, task: int) -> SpeedUp | None:
        """Give the speed-up law of a task."""
        return self.description(task).speedup

    def demand_of(self, task: int, count: int) -> Floats:
        """Give what a task takes of each resource on an allowed node count."""
        return self._amounts(self.demand, self.demand_by_count, task, count)

    def consumption_of(self, task: int, count: int) -> Floats:
        """Give what a task consumes of each budget on an allowed node count."""
        return self._amounts(self.consumption, self.consumption_by_count, task, count)

    def _amounts(self, least: Floats, by_count: ByCount, task: int, count: int) -> Floats:
        rows = by_count.of(task)
        position = self.count_sets[self.counts[task]].index(count)
        found: Floats = rows[position] if len(rows) else least[task]
        return found

    def context(self, task: int) -> dict[str, Any]:
        """Give the names a task's expressions may use: parameters and the values of its sweep variables."""
        sweep = self.description(task).sweep
        point = zip(sweep.names, self.points[task], strict=True) if sweep else ()
        return {**self.params, **dict(point)}

    def index(self, name: str) -> int:
        """Find a task by its name."""
        return self.names.index(name)
