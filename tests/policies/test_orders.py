"""Orders within a workflow: index, rank, and pM-S priority against a slow reference."""

from __future__ import annotations

import numpy as np
import pytest

from planning_examples import instance
from weft.planners.ranks import upward_ranks
from weft.policies.orders import ORDERS, ByIndex, ByPriority, ByRank


def random_instance(rng, tasks=25):
    described = {}
    for index in range(tasks):
        before = sorted(set(rng.integers(0, index, size=2).tolist())) if index > 4 else []
        described[f"t{index:02}"] = {"work": float(rng.integers(1, 5)), "after": [f"t{b:02}" for b in before]}
    return instance(described, "identical:2")


def ancestors(graph, task):
    """Return all direct and indirect predecessors, computed slowly."""
    found = set(graph.predecessors(task).tolist())
    while True:
        more = {other for task in found for other in graph.predecessors(task).tolist()} | found
        if more == found:
            return found
        found = more


def test_order_by_index_gives_all_tasks_the_same_key():
    order = ByIndex().of(random_instance(np.random.default_rng(0)))
    assert {order.key(task) for task in range(25)} == {0.0}
    assert list(order.completed(3)) == []


def test_order_by_rank_places_the_longest_path_first():
    made = instance({"a": {"work": 1}, "b": {"work": 5}, "c": {"work": 7, "after": "a"}}, "identical:2")
    order = ByRank().of(made)
    a, b, c = map(made.graph.index, "abc")
    assert [order.key(task) for task in (a, b, c)] == [-8.0, -5.0, -7.0]
    assert list(order.completed(a)) == []


def test_ranks_are_cached_per_instance():
    made = random_instance(np.random.default_rng(1))
    keys = [[ByRank().of(made).key(task) for task in range(25)] for _ in range(2)]
    assert keys[0] == keys[1] == (-upward_ranks(made)).tolist()


@pytest.mark.parametrize("seed", range(8))
def test_pm_s_priorities_equal_the_definition(seed):
    rng = np.random.default_rng(seed)
    made = random_instance(rng)
    graph, order = made.graph, ByPriority().of(made)
    expected = [0.0] * len(graph)
    done: set[int] = set()
    while len(done) < len(graph):
        ready = [
            t for t in range(len(graph)) if t not in done and done >= set(graph.predecessors(t).tolist())
        ]
        task = int(rng.choice(ready))
        done.add(task)
        changed = list(order.completed(task))
        urgent = {other for child in graph.successors(task).tolist() for other in ancestors(graph, child)}
        for other in urgent:
            expected[other] -= 1.0
        assert sorted(changed) == sorted(urgent - done), (
            "each once, and only those that may be requested again"
        )
        left = [task for task in range(len(graph)) if task not in done]
        assert [order.key(task) for task in left] == [expected[task] for task in left]


def test_a_repeated_task_does_not_change_the_keys_of_its_finished_sibling():
    made = instance(
        {"a": {"work": 1}, "b": {"work": 1}, "c": {"work": 1, "after": ["a", "b"]}}, "identical:1"
    )
    a, b, c = map(made.graph.index, "abc")
    order = ByPriority().of(made)
    assert list(order.completed(a)) == [b]
    assert list(order.completed(b)) == []
    assert list(order.completed(c)) == []
    assert list(order.completed(a)) == [], "b has not run again yet, but no event reports it"
    assert list(order.completed(b)) == []
    assert (order.key(a), order.key(b)) == (0.0, -1.0)


def test_descendants_of_a_repeated_task_are_unfinished_again():
    chain = {
        "a": {"work": 1},
        "b": {"work": 1, "after": "a"},
        "c": {"work": 1},
        "d": {"after": ["b", "c"], "work": 1},
    }
    made = instance(chain, "identical:1")
    a, b, c, d = map(made.graph.index, "abcd")
    order = ByPriority().of(made)
    for task in (a, b, c, d):
        order.completed(task)
    before = order.key(b)
    assert list(order.completed(a)) == []
    assert list(order.completed(c)) == [b], "its child d waits for b again"
    assert order.key(b) == before - 1.0


def test_every_order_is_registered_by_name():
    assert {name: type(order) for name, order in ORDERS.items()} == {
        "rank": ByRank,
        "index": ByIndex,
        "priority": ByPriority,
    }
