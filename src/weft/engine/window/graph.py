"""The directed graph of a workflow as the window reads it: tasks in program order, edges, what closes loops.

S1 (Prodan and Fahringer 2005, spec s1 sections 2 and 10). Back edges are those the workflow declares; where
cycles are left without them, a depth-first search from the entry tasks, then in program order, finds others.
Deviations: none. O(v + e) and a heap for the order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from weft.workflow.unfolding.cycles import back_edges, topological_order

__all__ = ["Edge", "Graph", "graph_of", "initial_dag"]

Edge = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Graph:
    """What does not change during a run; the indices of tasks are their program order."""

    machine: tuple[int, ...]
    """Per task: its abstract machine; of a transfer, the one it writes to."""
    source: tuple[int | None, ...]
    """Per task: of a transfer, the abstract machine it reads from; None: not a transfer."""
    successors: tuple[tuple[int, ...], ...]
    """Per task: where its edges lead, ascending, back edges included."""
    back: frozenset[Edge]
    """Edges that lead to the next iteration of a loop."""
    order: tuple[int, ...]
    """The tasks such that every other edge points forward."""

    def __len__(self) -> int:
        return len(self.machine)


def graph_of(
    *,
    machine: Sequence[int],
    edges: Iterable[Edge],
    source: Sequence[int | None] | None = None,
    declared: Iterable[Edge] = (),
) -> Graph:
    """Build the graph; an edge given twice counts once, a declared back edge need not be among the edges."""
    declared = frozenset(declared)
    targets: list[set[int]] = [set() for _ in machine]
    for tail, head in (*edges, *declared):
        targets[tail].add(head)
    successors = tuple(tuple(sorted(heads)) for heads in targets)
    forward = _without(successors, declared)
    entered = {head for heads in forward for head in heads}
    entries = (task for task in range(len(machine)) if task not in entered)
    back = declared | frozenset(back_edges(forward, entries))
    return Graph(
        machine=tuple(machine),
        source=tuple(source) if source is not None else (None,) * len(machine),
        successors=successors,
        back=back,
        order=tuple(topological_order(_without(successors, back)) or ()),
    )


def initial_dag(graph: Graph) -> tuple[Edge, ...]:
    """Give the edges planned first (A0): one iteration of every loop, ascending."""
    forward = _without(graph.successors, graph.back)
    return tuple((tail, head) for tail, heads in enumerate(forward) for head in heads)


def _without(successors: Sequence[Sequence[int]], removed: frozenset[Edge]) -> list[list[int]]:
    return [[head for head in heads if (tail, head) not in removed] for tail, heads in enumerate(successors)]
