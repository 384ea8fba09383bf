"""Cycle elimination, topological order, reachability and strongly connected components.

Cycle elimination follows Prodan and Fahringer 2005 (docs/papers/dynamic-grid.md, section 10): a depth-first
search that starts at the frontier removes every edge to a task on the search stack. For the initial graph the
frontier is the first tasks of the declared loops, then all tasks in program order.

Deviations: none. Complexity O(v + e). The search is iterative, so its depth is not limited.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain

_Adjacency = Sequence[Sequence[int]]


def back_edges(successors: _Adjacency, frontier: Iterable[int]) -> list[tuple[int, int]]:
    """Return edges whose removal makes the graph acyclic; the search starts at the frontier."""
    unseen, on_stack, done = 0, 1, 2
    state = [unseen] * len(successors)
    removed: list[tuple[int, int]] = []
    for root in (*frontier, *range(len(successors))):
        if state[root] != unseen:
            continue
        state[root] = on_stack
        stack = [(root, iter(successors[root]))]
        while stack:
            node, rest = stack[-1]
            for child in rest:
                if state[child] == on_stack:
                    removed.append((node, child))
                elif state[child] == unseen:
                    state[child] = on_stack
                    stack.append((child, iter(successors[child])))
                    break
            else:
                state[node] = done
                stack.pop()
    return removed


def topological_order(successors: _Adjacency) -> list[int] | None:
    """Return a topological order that prefers low indices; None if there is a cycle."""
    waiting = [0] * len(successors)
    for children in successors:
        for child in children:
            waiting[child] += 1
    ready = [node for node, count in enumerate(waiting) if count == 0]
    order: list[int] = []
    while ready:
        node = heapq.heappop(ready)
        order.append(node)
        for child in successors[node]:
            waiting[child] -= 1
            if waiting[child] == 0:
                heapq.heappush(ready, child)
    return order if len(order) == len(successors) else None


def find_cycle(successors: _Adjacency) -> list[int] | None:
    """Return the nodes of one cycle in the order of its edges; None if the graph is acyclic."""
    if not (removed := back_edges(successors, ())):
        return None
    last, first = removed[0]
    parent = {first: first}
    queue = [first]
    for node in queue:
        for child in successors[node]:
            if child not in parent:
                parent[child] = node
                queue.append(child)
    cycle = [last]
    while cycle[-1] != first:
        cycle.append(parent[cycle[-1]])
    return cycle[::-1]


def reachable(successors: _Adjacency, starts: Iterable[int]) -> set[int]:
    """Return the nodes reachable from the starts, including the starts."""
    seen = set(starts)
    queue = list(seen)
    while queue:
        for child in successors[queue.pop()]:
            if child not in seen:
                seen.add(child)
                queue.append(child)
    return seen


def reversed_edges(successors: _Adjacency) -> list[list[int]]:
    """Return the predecessors of every node, in ascending order, from the successors of every node."""
    predecessors: list[list[int]] = [[] for _ in successors]
    for node, children in enumerate(successors):
        for child in children:
            predecessors[child].append(node)
    return predecessors


def strong_components(successors: _Adjacency) -> list[int]:
    """Return per node the number of its strongly connected component."""
    # Imported here because SciPy takes longer to import than most commands take to run.
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    heads = list(chain.from_iterable(successors))
    pointer = [0, *accumulate(map(len, successors))]
    graph = csr_array(([True] * len(heads), heads, pointer), shape=(len(successors), len(successors)))
    found: list[int] = connected_components(graph, connection="strong")[1].tolist()
    return found
