"""Which edges lie on a cycle: those inside a strongly connected component.

R. Tarjan, Depth-First Search and Linear Graph Algorithms, SIAM Journal on Computing 1 (1972).
Deviations: iterative, so depth is not bounded by the interpreter's stack. O(v + e).
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["components"]


def components(successors: Sequence[Sequence[int]]) -> list[int]:
    """Give per node a number that exactly the nodes on common cycles share."""
    unseen = len(successors)
    rank = [unseen] * len(successors)
    component = [unseen] * len(successors)
    visited = found = 0
    for root in range(len(successors)):
        if rank[root] != unseen:
            continue
        open_nodes: list[int] = []
        low: dict[int, int] = {}
        stack = [(root, iter(successors[root]))]
        while stack:
            node, rest = stack[-1]
            if rank[node] == unseen:
                rank[node] = low[node] = visited
                visited += 1
                open_nodes.append(node)
            for child in rest:
                if rank[child] == unseen:
                    stack.append((child, iter(successors[child])))
                    break
                if component[child] == unseen:
                    low[node] = min(low[node], rank[child])
            else:
                stack.pop()
                if stack:
                    parent = stack[-1][0]
                    low[parent] = min(low[parent], low[node])
                if low[node] == rank[node]:
                    _close(open_nodes, node, component, found)
                    found += 1
    return component


def _close(open_nodes: list[int], root: int, component: list[int], number: int) -> None:
    """Number the nodes visited since a component's first one."""
    node = None
    while node != root:
        node = open_nodes.pop()
        component[node] = number
