"""Subgraphs of task graphs: rows, edges and variables in topological order."""

from __future__ import annotations

import numpy as np
import pytest

from planning_examples import workflow
from weft.randomness import generator
from weft.workflow.task_graph import VIRTUAL, SubgraphEdge, SubgraphTask, build_subgraph
from weft.workflow.unfold import unfold

TASKS = {
    "a": {"seconds": {"m0": 3, "m1": 4}, "outputs": {"x": 10}, "machine": "left"},
    "b": {"work": 2, "inputs": ["x"], "resources": {"licence": 1}, "nodes": [1, 2]},
    "c": {"work": 5, "after": ["a", "b"], "machine": "left"},
}


@pytest.fixture
def graph():
    return unfold(workflow(TASKS))


def edges(graph):
    """Return every edge by names with its data, from the predecessor arrays."""
    return {
        (graph.names[before], graph.names[task]): tuple(
            float(column[edge]) for column in (graph.edge_bytes, graph.edge_files, graph.edge_seconds)
        )
        for task in range(len(graph))
        for edge, before in enumerate(graph.predecessors(task).tolist(), int(graph.predecessor_pointer[task]))
    }


def test_a_subgraph_keeps_the_columns_of_its_tasks(graph):
    rows = [
        SubgraphTask(task=graph.index("c"), name="c#2", variable=1),
        SubgraphTask(task=graph.index("b"), name="b", variable=0),
    ]
    part, order = build_subgraph(
        graph, rows, [SubgraphEdge(tail=1, head=0, size_bytes=7.0, files=2.0)], ["free", "left#2"]
    )
    assert part.names == ("b", "c#2")
    assert order == [1, 0]
    assert part.work.tolist() == [2.0, 5.0]
    assert part.variable.tolist() == [0, 1]
    assert part.count_sets[part.counts[0]] == (1, 2)
    assert part.demand.tolist() == [[1.0], [0.0]]
    assert edges(part) == {("b", "c#2"): (7.0, 2.0, 0.0)}
    assert part.loops == ()


def test_a_subgraph_keeps_explicit_seconds(graph):
    part, _ = build_subgraph(graph, [SubgraphTask(task=graph.index("a"), name="a", variable=0)], [], ["left"])
    assert part.explicit_seconds.tolist() == [3.0, 4.0]
    assert part.explicit_pointer.tolist() == [0, 2]


def test_finished_task_has_no_duration_and_no_resources(graph):
    rows = [SubgraphTask(task=graph.index("b"), name="data of b", variable=0, finished=True)]
    part, _ = build_subgraph(graph, rows, [], ["where"])
    assert part.kind.tolist() == [VIRTUAL]
    assert part.work.tolist() == [0.0]
    assert part.demand.tolist() == [[0.0]]


def test_a_cycle_is_rejected(graph):
    rows = [SubgraphTask(task=task, name=str(task), variable=0) for task in (0, 1)]
    with pytest.raises(ValueError, match="cycle"):
        build_subgraph(graph, rows, [SubgraphEdge(tail=0, head=1), SubgraphEdge(tail=1, head=0)], ["v"])


@pytest.mark.parametrize("seed", range(20))
def test_random_subgraphs_have_consistent_predecessors_and_successors(seed):
    rng = generator(seed, "parts")
    count = int(rng.integers(1, 12))
    whole = unfold(workflow({f"t{number}": {"work": number + 1} for number in range(count)}))
    names = [f"r{number}" for number in range(count)]
    rows = [SubgraphTask(task=int(rng.integers(count)), name=name, variable=0) for name in names]
    # Edges follow a random order of the rows, so there is no cycle.
    place = rng.permutation(count).tolist()
    wanted = {
        (a, b): float(rng.integers(1, 9))
        for a in range(count)
        for b in range(count)
        if place[a] < place[b] and rng.random() < 0.4
    }
    links = [SubgraphEdge(tail=a, head=b, size_bytes=size) for (a, b), size in wanted.items()]
    part, order = build_subgraph(whole, rows, links, ["v"])
    assert {pair: data[0] for pair, data in edges(part).items()} == {
        (names[a], names[b]): size for (a, b), size in wanted.items()
    }
    backwards = {
        (part.names[task], part.names[after]): float(part.edge_bytes[edge])
        for task in range(count)
        for after, edge in zip(
            part.successors(task).tolist(),
            part.successor_edge[part.successor_pointer[task] : part.successor_pointer[task + 1]].tolist(),
            strict=True,
        )
    }
    assert backwards == {pair: data[0] for pair, data in edges(part).items()}
    assert all((part.predecessors(task) < task).all() for task in range(count))
    assert [rows[position].name for position in order] == list(part.names)
    assert np.array_equal(part.work, [rows[position].task + 1 for position in order])
