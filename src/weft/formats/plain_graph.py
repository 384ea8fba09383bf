"""What simple formats can say of a workflow: a time per task, and edges that carry bytes or take seconds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from weft.documents import placed
from weft.errors import InvalidInput, Problem, shorten
from weft.workflow.records.workflow import Workflow
from weft.workflow.unfolding.task_graph import EVERYWHERE, TRANSFER, VIRTUAL, TaskGraph
from weft.workflow.unfolding.unfold import unfold

__all__ = ["Edge", "PlainGraph", "plain_graph"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """An edge into a task."""

    source: int
    size: float
    """Bytes of all its files."""
    seconds: float
    """Fixed seconds between different machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainGraph:
    """Columns over the tasks of an unfolded workflow, in topological order."""

    graph: TaskGraph
    seconds: tuple[float, ...]
    """Time on a machine of speed 1; nan: unknown."""
    edges: tuple[tuple[Edge, ...], ...]
    """Per task: the edges that lead to it, by source."""


def plain_graph(workflow: Workflow, title: str) -> PlainGraph:
    """Unfold a workflow for a format of this title. Raises InvalidInput for what no simple format can say."""
    graph = unfold(workflow)
    problems = list(_unsayable(graph, title))
    if problems:
        raise InvalidInput(list(placed(problems, workflow.document)))
    pointer = graph.predecessor_pointer.tolist()
    columns = (graph.predecessor.tolist(), graph.edge_bytes.tolist(), graph.edge_seconds.tolist())
    edges = [
        Edge(source=source, size=size, seconds=fixed) for source, size, fixed in zip(*columns, strict=True)
    ]
    return PlainGraph(
        graph=graph,
        seconds=tuple(_seconds(graph)),
        edges=tuple(tuple(edges[start:end]) for start, end in itertools.pairwise(pointer)),
    )


def _seconds(graph: TaskGraph) -> Iterator[float]:
    pointer = graph.explicit_pointer.tolist()
    for task, (kind, work) in enumerate(zip(graph.kind.tolist(), graph.work.tolist(), strict=True)):
        if kind == VIRTUAL:
            yield 0.0
        elif pointer[task] < pointer[task + 1]:
            yield float(graph.explicit_seconds[pointer[task]])
        else:
            yield work


def _unsayable(graph: TaskGraph, title: str) -> Iterator[Problem]:
    advice = "write yaml instead, or a picture: dot-picture, mermaid"
    for body in graph.loops:
        what, path = f"loop {body.loop.name}", ("loops", body.loop.name)
        yield Problem(what=what, rule=f"{title} has no loops", advice=advice, path=path)
    described = graph.workflow.tasks
    if graph.edge_condition:
        conditional = [task for task in described if any(edge.condition is not None for edge in task.after)]
        for task in conditional:
            rule = f"{title} has no conditions"
            yield Problem(
                what=f"task {task.name} depends on a condition",
                rule=rule,
                advice=advice,
                path=("tasks", task.name),
            )
    for index in sorted(set(graph.template[graph.kind == TRANSFER].tolist())):
        name = described[index].name
        rule = f"{title} has no transfer tasks"
        yield Problem(what=f"transfer {shorten(name)}", rule=rule, advice=advice, path=("tasks", name))
    machines = [name for name in graph.explicit_names if name != EVERYWHERE]
    if machines:
        what = f"times that differ by machine ({shorten(', '.join(machines))})"
        yield Problem(what=what, rule=f"{title} has one time per task", advice=advice)
