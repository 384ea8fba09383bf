"""The task graph: the acyclic, integer-indexed unfolding of a workflow, read by predictors and planners.

All data are columns over tasks or edges, so that 100,000 tasks need a few arrays and not a million objects.
Tasks are in topological order: every predecessor has a lower index. ``build_subgraph`` makes the task graph
of a part of a run for re-planning.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.expressions import Expression, Value
from weft.records import dataclass
from weft.workflow.cycles import topological_order
from weft.workflow.quantity import Context, SweepPoints
from weft.workflow.task import SpeedUp, Task, TaskKind
from weft.workflow.workflow import Loop, Workflow

Floats = NDArray[np.float64]
Indices = NDArray[np.uint32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AmountsByCount:
    """Amounts that depend on the node count: CSR over tasks with one row per allowed count, ascending."""

    pointer: NDArray[np.int64]
    """CSR pointer; a task whose amounts do not depend on the count has no rows."""
    rows: NDArray[np.float64]
    """Amounts: rows x names."""

    def of(self, task: int) -> NDArray[np.float64]:
        """Return the amounts of a task, one row per allowed count; no rows if the count does not matter."""
        return self.rows[self.pointer[task] : self.pointer[task + 1]]


class AmountTable:
    """Collects amounts by name and row while tasks are expanded."""

    def __init__(self) -> None:
        self._stated: dict[str, _Amounts] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names for which any task states an amount, sorted."""
        return tuple(sorted(self._stated))

    def add(self, name: str, start: int, column: Sequence[float]) -> None:
        """Add amounts of consecutive rows that do not depend on the node count."""
        stated = self._of(name)
        stated.row.extend(range(start, start + len(column)))
        stated.least.extend(column)

    def add_by_count(
        self, name: str, start: int, lengths: NDArray[np.int64], amounts: NDArray[np.float64]
    ) -> None:
        """Add amounts of consecutive rows that depend on the node count.

        Row ``start + i`` has ``lengths[i]`` amounts, in the order of its node counts. ``amounts`` has those
        of all rows, one row after the other.
        """
        stated = self._of(name)
        first = np.cumsum(lengths) - lengths
        least = np.minimum.reduceat(amounts, first)
        varied = np.maximum.reduceat(amounts, first) > least
        stated.row.extend(range(start, start + len(lengths)))
        stated.least.extend(least.tolist())
        stated.varied_row.extend((start + np.flatnonzero(varied)).tolist())
        stated.varied_length.extend(lengths[varied].tolist())
        stated.varied.extend(amounts[np.repeat(varied, lengths)].tolist())

    def _of(self, name: str) -> _Amounts:
        return self._stated.setdefault(name, _Amounts())

    def columns(
        self, names: tuple[str, ...], order: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], AmountsByCount]:
        """Return, for rows in ``order``, the least amounts over node counts, and the amounts by count."""
        least = np.zeros((len(order), len(names)))
        length = np.zeros(len(order), dtype=np.int64)
        stated = [self._stated.get(name) or _Amounts() for name in names]
        for column, each in enumerate(stated):
            least[np.array(each.row, dtype=np.int64), column] = each.least
            length[np.array(each.varied_row, dtype=np.int64)] = each.varied_length
        least, length = least[order], length[order]
        pointer = np.concatenate(([0], np.cumsum(length)))
        rows = np.repeat(least, length, axis=0)
        if len(rows):
            position = np.empty(len(order), dtype=np.int64)
            position[order] = np.arange(len(order))
            for column, each in enumerate(stated):
                lengths = np.array(each.varied_length, dtype=np.int64)
                first = pointer[position[np.array(each.varied_row, dtype=np.int64)]]
                places = np.repeat(first - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())
                rows[places, column] = each.varied
        return least, AmountsByCount(pointer=pointer, rows=rows)


class _Amounts:
    """The amounts under one name, in compact columns: a sweep may have a million rows."""

    def __init__(self) -> None:
        self.row = array("I")
        self.least = array("d")
        self.varied_row = array("I")
        """Rows whose amounts depend on the node count."""
        self.varied_length = array("I")
        """Per varied row: the number of its node counts."""
        self.varied = array("d")
        """Amounts of the varied rows, count by count."""


class ExplicitTable:
    """Collects explicit seconds by row and machine while tasks are expanded."""

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        self._row = array("I")
        self._machine = array("I")
        self._seconds = array("d")

    def add(self, machine: str, row: int, seconds: float) -> None:
        """Add the seconds of one row on a machine."""
        self._row.append(row)
        self._machine.append(self._names.setdefault(machine, len(self._names)))
        self._seconds.append(seconds)

    def add_many(self, machine: str, start: int, seconds: Floats) -> None:
        """Add the seconds of consecutive rows on a machine."""
        number = self._names.setdefault(machine, len(self._names))
        self._row.extend(range(start, start + len(seconds)))
        self._machine.extend([number] * len(seconds))
        self._seconds.extend(seconds.tolist())

    def columns(self, order: NDArray[np.int64]) -> dict[str, Any]:
        """Return the columns of a TaskGraph with explicit seconds, for rows in ``order``."""
        names = sorted(self._names)
        index = {name: position for position, name in enumerate(names)}
        ranks = np.array([index[name] for name in self._names], dtype=np.uint32)
        position = np.empty(len(order), dtype=np.int64)
        position[order] = np.arange(len(order))
        row = position[np.array(self._row, dtype=np.int64)]
        by_row = np.argsort(row, kind="stable")
        return {
            "explicit_pointer": np.concatenate(([0], np.cumsum(np.bincount(row, minlength=len(order))))),
            "explicit_machine": ranks[np.array(self._machine, dtype=np.int64)][by_row],
            "explicit_seconds": np.array(self._seconds)[by_row],
            "explicit_names": tuple(names),
        }


KINDS = (TaskKind.COMPUTE, TaskKind.TRANSFER, TaskKind.VIRTUAL)
COMPUTE, TRANSFER, VIRTUAL = range(3)
"""Codes in the column ``kind``: positions in KINDS."""

EVERYWHERE = "*"
"""The machine name of explicit seconds that hold on every machine."""


class TaskPoints(Sequence[tuple[Value, ...]]):
    """Per task the values of its sweep variables, () without a sweep; computed when they are read."""

    __slots__ = ("_offset", "_sweeps", "_template")

    def __init__(self, sweeps: Sequence[SweepPoints | None], template: Indices, offset: Indices) -> None:
        self._sweeps = tuple(sweeps)
        """Per template: its points; None without a sweep."""
        self._template = template
        self._offset = offset
        """Per task: the position of its point among those of its template."""

    def __len__(self) -> int:
        return len(self._template)

    def __getitem__(self, task: Any) -> Any:
        if isinstance(task, slice):
            return list(self.take(np.arange(len(self))[task]))
        points = self._sweeps[self._template[task]]
        return () if points is None else points[self._offset[task]]

    def __iter__(self) -> Iterator[tuple[Value, ...]]:
        if not any(self._sweeps):
            yield from repeat((), len(self))
            return
        for template, offset in zip(self._template.tolist(), self._offset.tolist(), strict=True):
            points = self._sweeps[template]
            yield () if points is None else points[offset]

    def take(self, tasks: NDArray[np.int64]) -> TaskPoints:
        """Return the points of some tasks."""
        return TaskPoints(self._sweeps, self._template[tasks], self._offset[tasks])


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
    """Per task: its name, such as ``lapw0``, ``lapw1[3]`` or ``t[2,0.4]``."""
    template: Indices
    """Per task: index in ``workflow.tasks``; tasks of one template are one kind in statistics."""
    points: TaskPoints
    """Per task: the values of its sweep variables, in the order of ``sweep.names``; () without a sweep."""
    kind: NDArray[np.uint8]
    """Per task: COMPUTE, TRANSFER or VIRTUAL."""

    work: Floats
    """Per task: seconds on one node (or the first count of a measured law) of speed 1; NaN: unknown."""
    explicit_pointer: NDArray[np.int64]
    explicit_machine: Indices
    explicit_seconds: Floats
    """Explicit seconds by machine (CSR over tasks); ``explicit_machine`` holds indices into
    ``explicit_names``.
    """
    explicit_names: tuple[str, ...]
    """Machine names (or EVERYWHERE) that occur in ``seconds:`` keys."""

    counts: Indices
    """Per task: index into ``count_sets``."""
    count_sets: tuple[tuple[int, ...], ...]
    """Sets of allowed node counts, each ascending."""
    cores: Floats
    """Per task: cores per node; 0 if not stated."""
    resource_names: tuple[str, ...]
    demand: Floats
    """Tasks x resources: amounts that a task uses while it runs; the least over its node counts."""
    demand_by_count: AmountsByCount
    """The amounts used by tasks whose amounts depend on the node count."""
    budget_names: tuple[str, ...]
    budgets: Floats
    """Per budget: the total that all tasks may consume."""
    consumption: Floats
    """Tasks x budgets: amounts that a task consumes; the least over its node counts."""
    consumption_by_count: AmountsByCount
    """The amounts consumed by tasks whose consumption depends on the node count."""

    variable: Indices
    """Per task: its binding variable; for a transfer, the binding variable of its destination."""
    source_variable: Indices
    """Per task: for a transfer, the binding variable of its source; else ``len(variables)``."""
    variables: tuple[str, ...]
    """Names of the binding variables; each is the name of an abstract machine or of a task."""
    transfer_bytes: Floats
    """Per task: bytes that a transfer moves; 0 for other tasks and if not stated (see ``unsized_files``)."""

    predecessor_pointer: NDArray[np.int64]
    predecessor: Indices
    successor_pointer: NDArray[np.int64]
    successor: Indices
    successor_edge: Indices
    """Per successor entry: the position of the edge in the predecessor arrays and edge columns."""
    edge_bytes: Floats
    """Per edge: bytes of its files."""
    edge_files: Floats
    """Per edge: number of files; each file costs the latency of the link once."""
    edge_seconds: Floats
    """Per edge: fixed seconds between different machines, independent of the network."""
    edge_condition: Mapping[int, Expression]
    """By edge: the condition under which the edge is taken."""

    loops: tuple[LoopBody, ...]
    unsized_files: int
    """Number of files without a stated size; they count as 0 bytes."""

    def __len__(self) -> int:
        return len(self.names)

    @property
    def edge_count(self) -> int:
        """Return the number of edges."""
        return len(self.predecessor)

    def predecessors(self, task: int) -> Indices:
        """Return the direct predecessors of a task."""
        return self.predecessor[self.predecessor_pointer[task] : self.predecessor_pointer[task + 1]]

    def successors(self, task: int) -> Indices:
        """Return the direct successors of a task."""
        return self.successor[self.successor_pointer[task] : self.successor_pointer[task + 1]]

    def description(self, task: int) -> Task:
        """Return the description in the workflow from which a task was unfolded."""
        return self.workflow.tasks[int(self.template[task])]

    def law(self, task: int) -> SpeedUp | None:
        """Return the speed-up law of a task; None: its time does not depend on the node count."""
        return self.description(task).speedup

    def demand_of(self, task: int, count: int) -> Floats:
        """Return the amounts of each resource that a task uses on an allowed node count."""
        return self._amounts(self.demand, self.demand_by_count, task, count)

    def consumption_of(self, task: int, count: int) -> Floats:
        """Return the amounts of each budget that a task consumes on an allowed node count."""
        return self._amounts(self.consumption, self.consumption_by_count, task, count)

    def _amounts(self, least: Floats, by_count: AmountsByCount, task: int, count: int) -> Floats:
        rows = by_count.of(task)
        position = self.count_sets[self.counts[task]].index(count)
        found: Floats = rows[position] if len(rows) else least[task]
        return found

    def context(self, task: int) -> dict[str, Any]:
        """Return the parameters and sweep variables of a task, for its expressions."""
        sweep = self.description(task).sweep
        point = zip(sweep.names, self.points[task], strict=True) if sweep else ()
        return {**self.params, **dict(point)}

    def index(self, name: str) -> int:
        """Return the index of the task with this name; raise ValueError if there is none. O(v)."""
        return self.names.index(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubgraphTask:
    """One task of a subgraph."""

    task: int
    """Index in the whole graph."""
    name: str
    variable: int
    """Binding variable in the subgraph."""
    source_variable: int | None = None
    """For a transfer: the binding variable of its source."""
    finished: bool = False
    """Whether the task has ended; such a task takes no time and only marks the location of its outputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubgraphEdge:
    """One edge of a subgraph, between positions in the list of tasks."""

    tail: int
    head: int
    size_bytes: float = 0.0
    files: float = 0.0
    seconds: float = 0.0


def build_subgraph(
    graph: TaskGraph, rows: Sequence[SubgraphTask], links: Sequence[SubgraphEdge], variables: Sequence[str]
) -> tuple[TaskGraph, list[int]]:
    """Return the subgraph in topological order, and for each of its tasks the position in ``rows``.

    Edges are given in ``links``, because a part with several iterations of a loop has other edges than the
    whole graph. Conditions and loops are omitted: the caller has decided which branches are taken. O(v log v
    + e).
    """
    successors: list[list[int]] = [[] for _ in rows]
    for link in links:
        successors[link.tail].append(link.head)
    if (order := topological_order(successors)) is None:
        raise ValueError("the edges of a subgraph must not form a cycle")
    tasks = np.array([rows[position].task for position in order], dtype=np.int64)
    finished = np.array([rows[position].finished for position in order], dtype=np.bool_)
    kind = graph.kind[tasks].copy()
    kind[finished] = VIRTUAL
    no_source = len(variables)
    sources = (rows[position].source_variable for position in order)
    explicit = _rows_of(graph.explicit_pointer, tasks)
    part = replace(
        graph,
        names=tuple(rows[position].name for position in order),
        template=graph.template[tasks],
        points=graph.points.take(tasks),
        kind=kind,
        work=np.where(finished, 0.0, graph.work[tasks]),
        explicit_pointer=_pointer(graph.explicit_pointer, tasks),
        explicit_machine=graph.explicit_machine[explicit],
        explicit_seconds=graph.explicit_seconds[explicit],
        counts=graph.counts[tasks],
        cores=graph.cores[tasks],
        demand=np.where(finished[:, None], 0.0, graph.demand[tasks]),
        demand_by_count=_amounts(graph.demand_by_count, tasks),
        consumption=np.where(finished[:, None], 0.0, graph.consumption[tasks]),
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
    """Return the columns of a TaskGraph that describe its edges, sorted by target and then source."""
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
    """Return the positions in a CSR column of the entries of these tasks, task by task."""
    spans = [np.arange(pointer[task], pointer[task + 1]) for task in tasks.tolist()]
    return np.concatenate([np.zeros(0, dtype=np.int64), *spans]).astype(np.int64)


def _amounts(by_count: AmountsByCount, tasks: NDArray[np.int64]) -> AmountsByCount:
    return AmountsByCount(
        pointer=_pointer(by_count.pointer, tasks), rows=by_count.rows[_rows_of(by_count.pointer, tasks)]
    )
