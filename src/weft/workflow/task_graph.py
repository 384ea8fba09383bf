"""What unfolded tasks take of resources or budgets: a row per task, more where the node count matters.

The task graph: the acyclic, integer-indexed unfolding of a workflow that predictors and planners read.

Everything is a column over tasks or edges, so that a graph of 100,000 tasks costs a few arrays and not a
million objects. Tasks stand in topological order: every predecessor has a lower index.

A part of a task graph as a task graph of its own: what planners read when a run is planned again.

Rows are tasks of the whole graph, each with a name and a binding variable for the part; edges are given anew,
because a loop's window has others than the graph of one iteration. O(v log v + e).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.expressions import Expression, Value
from weft.workflow.cycles import topological_order
from weft.workflow.quantity import Context
from weft.workflow.task import SpeedUp, Task, TaskKind
from weft.workflow.workflow import Loop, Workflow

__all__ = [
    "COMPUTE",
    "EVERYWHERE",
    "KINDS",
    "TRANSFER",
    "VIRTUAL",
    "AmountTable",
    "AmountsByCount",
    "Floats",
    "Indices",
    "LoopBody",
    "SubgraphEdge",
    "SubgraphTask",
    "TaskGraph",
    "build_subgraph",
]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AmountsByCount:
    """Amounts that depend on the node count: CSR over tasks, one row per allowed count, in their order."""

    pointer: NDArray[np.int64]
    """Per task and one more; a task whose amounts do not depend on the count has no rows."""
    rows: NDArray[np.float64]
    """Rows x names."""

    def of(self, task: int) -> NDArray[np.float64]:
        """Give the rows of a task, one per allowed count; none: its amounts do not depend on the count."""
        return self.rows[self.pointer[task] : self.pointer[task + 1]]


class AmountTable:
    """Amounts by name over rows in program order, growing while descriptions are expanded."""

    def __init__(self) -> None:
        self._least: dict[str, dict[int, float]] = {}
        self._by_count: dict[str, dict[int, list[float]]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """List the names of which some task takes something, in alphabetical order."""
        return tuple(sorted(self._least))

    def add(self, name: str, start: int, column: Iterable[float]) -> None:
        """Note the amounts of consecutive rows, the same on every count."""
        self._least.setdefault(name, {}).update(enumerate(column, start))

    def add_by_count(self, name: str, row: int, amounts: list[float]) -> None:
        """Note the amounts of one row, in the order of its counts."""
        least = min(amounts)
        self._least.setdefault(name, {})[row] = least
        if max(amounts) > least:
            self._by_count.setdefault(name, {})[row] = amounts

    def columns(
        self, names: tuple[str, ...], order: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], AmountsByCount]:
        """Give the least amounts (rows x names) and those by count, of the rows in another order."""
        least = np.zeros((len(order), len(names)))
        length = np.zeros(len(order), dtype=np.int64)
        for column, name in enumerate(names):
            stated = self._least.get(name, {})
            least[list(stated), column] = list(stated.values())
            varied = self._by_count.get(name, {})
            length[list(varied)] = list(map(len, varied.values()))
        least, length = least[order], length[order]
        pointer = np.concatenate(([0], np.cumsum(length)))
        rows = np.repeat(least, length, axis=0)
        for column, name in enumerate(names):
            varied = self._by_count.get(name, {})
            if varied:
                listed = [varied.get(row) for row in order.tolist()]
                own = np.repeat([amounts is not None for amounts in listed], length)
                rows[own, column] = list(chain.from_iterable(amounts for amounts in listed if amounts))
        return least, AmountsByCount(pointer=pointer, rows=rows)


Floats = NDArray[np.float64]
Indices = NDArray[np.uint32]

KINDS = (TaskKind.COMPUTE, TaskKind.TRANSFER, TaskKind.VIRTUAL)
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
    demand_by_count: AmountsByCount
    """The amounts of the tasks for which the node count matters."""
    budget_names: tuple[str, ...]
    budgets: Floats
    """Per budget: what all tasks together may consume."""
    consumption: Floats
    """Tasks x budgets: amounts used up for good; where the node count matters, the least of each."""
    consumption_by_count: AmountsByCount
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

    def _amounts(self, least: Floats, by_count: AmountsByCount, task: int, count: int) -> Floats:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SubgraphTask:
    """One task of the part."""

    task: int
    """Its index in the whole graph."""
    name: str
    variable: int
    """Its binding variable among those of the part."""
    source_variable: int | None = None
    """Of a transfer: the variable it reads from."""
    finished: bool = False
    """Whether it is only where data lie: it runs no more, takes no time and nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubgraphEdge:
    """One edge of the part, between positions of rows."""

    tail: int
    head: int
    size_bytes: float = 0.0
    files: float = 0.0
    seconds: float = 0.0


def build_subgraph(
    graph: TaskGraph, rows: Sequence[SubgraphTask], links: Sequence[SubgraphEdge], variables: Sequence[str]
) -> tuple[TaskGraph, list[int]]:
    """Give the part, and for each of its tasks the position among the rows: the part is in topological order.

    Conditions and loops are left out: whoever makes the rows has decided what is followed.
    """
    successors: list[list[int]] = [[] for _ in rows]
    for link in links:
        successors[link.tail].append(link.head)
    order = topological_order(successors)
    if order is None:
        raise ValueError("the rows of a part must not form a cycle")
    tasks = np.array([rows[position].task for position in order], dtype=np.int64)
    stands = np.array([rows[position].finished for position in order], dtype=np.bool_)
    kind = graph.kind[tasks].copy()
    kind[stands] = VIRTUAL
    no_source = len(variables)
    sources = (rows[position].source_variable for position in order)
    explicit = _rows_of(graph.explicit_pointer, tasks)
    part = replace(
        graph,
        names=tuple(rows[position].name for position in order),
        template=graph.template[tasks],
        points=tuple(graph.points[task] for task in tasks.tolist()),
        kind=kind,
        work=np.where(stands, 0.0, graph.work[tasks]),
        explicit_pointer=_pointer(graph.explicit_pointer, tasks),
        explicit_machine=graph.explicit_machine[explicit],
        explicit_seconds=graph.explicit_seconds[explicit],
        counts=graph.counts[tasks],
        cores=graph.cores[tasks],
        demand=np.where(stands[:, None], 0.0, graph.demand[tasks]),
        demand_by_count=_amounts(graph.demand_by_count, tasks),
        consumption=np.where(stands[:, None], 0.0, graph.consumption[tasks]),
        consumption_by_count=_amounts(graph.consumption_by_count, tasks),
        variable=np.array([rows[position].variable for position in order], dtype=np.uint32),
        source_variable=np.array(
            [no_source if source is None else source for source in sources], dtype=np.uint32
        ),
        variables=tuple(variables),
        transfer_bytes=graph.transfer_bytes[tasks],
        edge_condition={},
        loops=(),
        **_edges(order, links),
    )
    return part, order


def _edges(order: list[int], links: Sequence[SubgraphEdge]) -> dict[str, Any]:
    """Give the columns of the edges, predecessor by predecessor of each task."""
    count = len(order)
    place = np.empty(count, dtype=np.int64)
    place[order] = np.arange(count)
    tail = place[np.array([link.tail for link in links], dtype=np.int64)]
    head = place[np.array([link.head for link in links], dtype=np.int64)]
    sorted_ = np.lexsort((tail, head))
    tail, head = tail[sorted_], head[sorted_]
    forward = np.lexsort((head, tail))
    columns = {
        "edge_bytes": [link.size_bytes for link in links],
        "edge_files": [link.files for link in links],
        "edge_seconds": [link.seconds for link in links],
    }
    return {
        "predecessor_pointer": _counted(head, count),
        "predecessor": tail.astype(np.uint32),
        "successor_pointer": _counted(tail, count),
        "successor": head[forward].astype(np.uint32),
        "successor_edge": forward.astype(np.uint32),
        **{name: np.array(values, dtype=np.float64)[sorted_] for name, values in columns.items()},
    }


def _counted(ends: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=count))]).astype(np.int64)


def _pointer(pointer: NDArray[np.int64], tasks: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(np.diff(pointer)[tasks])]).astype(np.int64)


def _rows_of(pointer: NDArray[np.int64], tasks: NDArray[np.int64]) -> NDArray[np.int64]:
    """List the entries of some tasks in a CSR column."""
    spans = [np.arange(pointer[task], pointer[task + 1]) for task in tasks.tolist()]
    return np.concatenate([np.zeros(0, dtype=np.int64), *spans]).astype(np.int64)


def _amounts(by_count: AmountsByCount, tasks: NDArray[np.int64]) -> AmountsByCount:
    return AmountsByCount(
        pointer=_pointer(by_count.pointer, tasks), rows=by_count.rows[_rows_of(by_count.pointer, tasks)]
    )
