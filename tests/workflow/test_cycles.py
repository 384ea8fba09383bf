"""Cycle elimination and topological order, on figure 5 of the dynamic-grid paper and on random graphs."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from strategies import digraphs
from weft.workflow.cycles import back_edges, find_cycle, reachable, reversed_edges, topological_order

NODES = ("N1", "N2", "N3", "FT4", "JS5", "N6")
EDGES = (
    ("N1", "N2"),
    ("N2", "N3"),
    ("N3", "N6"),
    ("N6", "N1"),
    ("N1", "FT4"),
    ("FT4", "JS5"),
    ("JS5", "N6"),
    ("JS5", "FT4"),
)


def figure_5():
    return [[NODES.index(there) for here, there in EDGES if here == node] for node in NODES]


def named(edges):
    return {(NODES[source], NODES[target]) for source, target in edges}


def without(successors, removed):
    gone = set(removed)
    return [
        [child for child in children if (node, child) not in gone] for node, children in enumerate(successors)
    ]


def test_back_edges_of_figure_5_equal_the_paper():
    removed = back_edges(figure_5(), [NODES.index("N1")])
    assert named(removed) == {("N6", "N1"), ("JS5", "FT4")}


def test_figure_5_has_the_edges_of_the_paper(spec_data):
    reported = json.loads((spec_data / "s1_fig5.json").read_text())
    assert reported["nodes"] == list(NODES)
    assert [tuple(edge) for edge in reported["edges"]] == list(EDGES)
    initial = next(case for case in reported["cases"] if case["name"] == "initial")
    removed = back_edges(figure_5(), [0])
    assert named(removed) == {tuple(edge) for edge in initial["edges_removed"]}
    left = {(i, j) for i, children in enumerate(without(figure_5(), removed)) for j in children}
    assert named(left) == {tuple(edge) for edge in initial["edges_0"]}


def test_cycle_is_cut_at_the_edge_into_the_node_where_the_search_starts():
    loop = [[1], [2], [0]]
    assert back_edges(loop, []) == [(2, 0)]
    assert back_edges(loop, [1]) == [(0, 1)]
    assert back_edges(loop, [2]) == [(1, 2)]


@given(digraphs(), st.data())
def test_removing_back_edges_makes_the_graph_acyclic_and_removes_only_edges_of_cycles(graph, data):
    frontier = data.draw(st.lists(st.integers(0, len(graph) - 1), max_size=3, unique=True))
    removed = back_edges(graph, frontier)
    left = without(graph, removed)
    order = topological_order(left)
    assert order is not None
    assert all(target in graph[source] for source, target in removed)
    # The first task of the frontier keeps no incoming edge from its descendants.
    for head in frontier[:1]:
        assert all(head not in left[node] for node in reachable(left, [head]))
    # Every removed edge closed a cycle: its source is reachable from its target.
    assert all(source in reachable(left, [target]) for source, target in removed)


@given(digraphs())
def test_topological_order_is_valid_and_lexicographically_smallest(graph):
    left = without(graph, back_edges(graph, ()))
    order = topological_order(left)
    place = {node: position for position, node in enumerate(order)}
    assert sorted(order) == list(range(len(left)))
    assert all(place[node] < place[child] for node, children in enumerate(left) for child in children)
    assert order == topological_order(left)
    done = set()
    for node in order:
        ready = [n for n in range(len(left)) if n not in done and set(reversed_edges(left)[n]) <= done]
        assert node == min(ready)
        done.add(node)


@given(digraphs())
def test_find_cycle_agrees_with_topological_order(graph):
    cycle = find_cycle(graph)
    assert (cycle is None) == (topological_order(graph) is not None)
    if cycle is not None:
        assert len(set(cycle)) == len(cycle)
        assert all(after in graph[node] for node, after in zip(cycle, [*cycle[1:], cycle[0]], strict=True))


def test_depth_is_not_limited_by_the_recursion_limit():
    count = 50_000
    ring = [[(node + 1) % count] for node in range(count)]
    assert back_edges(ring, []) == [(count - 1, 0)]
    assert len(find_cycle(ring)) == count
    assert topological_order(ring) is None
    assert reachable(ring, [7]) == set(range(count))


def test_edges_are_reversed():
    assert reversed_edges([[1, 2], [2], []]) == [[], [0], [0, 1]]
