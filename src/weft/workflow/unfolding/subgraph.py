"""A part of a task graph as a task graph of its own: what planners read when a run is planned again.

Rows are tasks of the whole graph, each with a name and a binding variable for the part; edges are given anew,
because a loop's window has others than the graph of one iteration. O(v log v + e).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.workflow.unfolding.amounts import ByCount
from weft.workflow.unfolding.cycles import topological_order
from weft.workflow.unfolding.task_graph import VIRTUAL, TaskGraph

__all__ = ["Link", "Row", "subgraph"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One task of the part."""

    task: int
    """Its index in the whole graph."""
    name: str
    variable: int
    """Its binding variable among those of the part."""
    source_variable: int | None = None
    """Of a transfer: the variable it reads from."""
    stands: bool = False
    """Whether it is only where data lie: it runs no more, takes no time and nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One edge of the part, between positions of rows."""

    tail: int
    head: int
    size_bytes: float = 0.0
    files: float = 0.0
    seconds: float = 0.0


def subgraph(
    graph: TaskGraph, rows: Sequence[Row], links: Sequence[Link], variables: Sequence[str]
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
    stands = np.array([rows[position].stands for position in order], dtype=np.bool_)
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


def _edges(order: list[int], links: Sequence[Link]) -> dict[str, Any]:
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


def _amounts(by_count: ByCount, tasks: NDArray[np.int64]) -> ByCount:
    return ByCount(
        pointer=_pointer(by_count.pointer, tasks), rows=by_count.rows[_rows_of(by_count.pointer, tasks)]
    )
