"""The window (the part of a run that is planned again): acyclic, equal to its definition, edge cases."""

from __future__ import annotations

import pytest

from weft.engine.replan.window import (
    RunSituation,
    TaskStanding,
    build_graph,
    build_window,
    initial_dag,
)
from weft.randomness import generator
from weft.workflow.cycles import strong_components
from window_reference import acyclic, initial_back_edges, window_sets

WORDS = ("queued", "running", "completed", "failed")


def drawn(rng, largest, iterations=2):
    """Return a random directed graph in a random state, which need not be reachable."""
    count = int(rng.integers(1, largest + 1))
    density = rng.uniform(0.05, 0.5)
    edges = [(a, b) for a in range(count) for b in range(count) if rng.random() < density]
    machines = max(1, count // 2)

    def some(share):
        return frozenset(edge for edge in edges if rng.random() < share)

    transfers = rng.random(count) < 0.3
    return {
        "count": count,
        "edges": edges,
        "declared": some(rng.choice([0.0, 0.2])),
        "machine": rng.integers(machines, size=count).tolist(),
        "source": [int(rng.integers(machines)) if transfer else None for transfer in transfers],
        "state": [WORDS[word] for word in rng.choice(4, size=count, p=rng.dirichlet((1, 1, 1, 1)))],
        "iteration": rng.integers(iterations, size=count).tolist(),
        "violating": frozenset(rng.permutation(count)[: count // 2].tolist()),
        "decided": some(rng.choice([0.0, 0.2])),
    }


def situation_of(case):
    graph = build_graph(
        machine=case["machine"], source=case["source"], edges=case["edges"], declared=case["declared"]
    )
    return RunSituation(
        graph=graph,
        standing=tuple(TaskStanding(word) for word in case["state"]),
        iteration=tuple(case["iteration"]),
        violating=case["violating"],
        decided=case["decided"],
    )


@pytest.mark.parametrize("part", range(3))
def test_window_of_a_thousand_random_graphs_is_acyclic(part):
    rng = generator(part, "acyclic")
    with_cycles = 0
    for _ in range(1000):
        case = drawn(rng, 14)
        window = build_window(situation_of(case))
        with_cycles += not acyclic(window.tasks, window.inner)
        assert acyclic(window.tasks, window.edges), case
        assert set(window.edges) == set(window.inner) - set(window.cut_moving) - set(window.cut_queued)
        assert not set(window.moving) & set(window.queued)
    assert with_cycles > 300  # enough graphs have cycles


@pytest.mark.parametrize("iterations", [1, 3])
def test_window_equals_its_definition(iterations):
    rng = generator(iterations, "twin")
    for _ in range(400):
        case = drawn(rng, 9, iterations)
        window = build_window(situation_of(case))
        twin = window_sets(**case)
        assert set(window.moving) == twin.nodes_migr, case
        assert set(window.queued) == twin.nodes_queued, case
        assert set(window.tasks) == twin.nodes_migr | twin.nodes_queued
        assert set(window.inner) == twin.edges_dag, case
        assert set(window.cut_moving) == twin.edges_migr, case
        assert set(window.cut_queued) == twin.edges_queued, case
        assert set(window.edges) == twin.edges_t, case
        assert set(window.unreached) == twin.dropped, case
        assert set(window.fresh) == twin.fresh, case
        assert set(window.repeated) == twin.repeated, case


def test_initial_graph_equals_its_definition():
    rng = generator(0, "initial")
    for _ in range(300):
        case = drawn(rng, 9)
        graph = situation_of(case).graph
        back = initial_back_edges(case["count"], case["edges"], case["declared"])
        assert graph.back == back
        assert set(initial_dag(graph)) == set(case["edges"]) - back
        assert acyclic(range(case["count"]), initial_dag(graph))
        place = {task: position for position, task in enumerate(graph.order)}
        assert all(place[a] < place[b] for a, b in initial_dag(graph))


def test_tasks_on_a_cycle_share_a_component():
    rng = generator(1, "components")
    for _ in range(200):
        case = drawn(rng, 9)
        edges = set(case["edges"])
        ways = {(a, b) for a in range(case["count"]) for b in range(case["count"]) if leads(edges, a, b)}
        number = strong_components(
            [sorted(b for a, b in edges if a == task) for task in range(case["count"])]
        )
        for a in range(case["count"]):
            for b in range(case["count"]):
                assert (number[a] == number[b]) == (a == b or {(a, b), (b, a)} <= ways)


def leads(edges, start, goal):
    seen, queue = set(), [start]
    for task in queue:
        for a, b in edges:
            if a == task and b not in seen:
                seen.add(b)
                queue.append(b)
    return goal in seen


def test_window_of_a_deep_graph_needs_no_recursion():
    count = 20_000
    edges = [(task, task + 1) for task in range(count - 1)] + [(count - 1, 0)]
    graph = build_graph(machine=range(count), edges=edges)
    standing = (TaskStanding.COMPLETED,) * (count // 2) + (TaskStanding.QUEUED,) * (count // 2)
    window = build_window(RunSituation(graph=graph, standing=standing, iteration=(1,) * count))
    assert window.cut_queued == ((count // 2 - 1, count // 2),)
    assert len(window.edges) == count - 1


def simple(edges, state, declared=(), decided=(), machine=None, violating=(), iteration=None):
    names = sorted(state)
    index = {name: position for position, name in enumerate(names)}

    def numbered(listed):
        return [(index[a], index[b]) for a, b in listed]

    made = build_window(
        RunSituation(
            graph=build_graph(
                machine=[(machine or {}).get(name, index[name]) for name in names],
                edges=numbered(edges),
                declared=numbered(declared),
            ),
            standing=tuple(TaskStanding(state[name]) for name in names),
            iteration=tuple((iteration or {}).get(name, 1) for name in names),
            violating=frozenset(index[name] for name in violating),
            decided=frozenset(numbered(decided)),
        )
    )
    return made, names


def named(names, tasks):
    return "".join(names[task] for task in tasks)


BRANCH = ("AB", "AC", "BD", "CE", "DE")


def test_tasks_reachable_only_through_an_untaken_branch_are_removed():
    state = dict.fromkeys("BCDE", "queued") | {"A": "completed"}
    window, names = simple(BRANCH, state, decided=["AB"])
    assert named(names, window.unreached) == "BD"
    assert named(names, window.tasks) == "CE"
    other, names = simple(BRANCH, state, decided=["AC"])
    assert named(names, other.unreached) == "C"
    assert named(names, other.tasks) == "BDE"


def test_loop_behind_an_untaken_branch_is_removed():
    state = {"A": "completed", "B": "queued", "C": "queued", "D": "queued"}
    window, names = simple(("AB", "BC", "CB", "AD"), state, decided=["AB"])
    assert named(names, window.unreached) == "BC"
    assert named(names, window.tasks) == "D"


def test_first_task_of_an_exhausted_loop_still_runs():
    state = {"A": "queued", "B": "queued"}
    window, names = simple(("AB",), state, declared=["BA"], decided=["BA"])
    assert window.unreached == ()
    assert named(names, window.tasks) == "AB"
    assert window.edges == ((0, 1),)


def test_failed_task_moves_only_completed_ancestors_that_ran_on_its_machine():
    # A and B ran on the machine of D, C elsewhere; E, also on that machine, is no ancestor of D.
    state = dict.fromkeys("ABCE", "completed") | {"D": "failed"}
    machine = dict.fromkeys("ABDE", 7) | {"C": 8}
    window, names = simple(("AB", "BC", "CD", "AE"), state, machine=machine)
    assert named(names, window.moving) == "ABD"
    # C and E are descendants of A, which runs again: the paper repeats them on their machines.
    assert named(names, window.queued) == named(names, window.repeated) == "CE"
    assert window.fresh == ()
    assert window.bindings.machine[names.index("C")] == (8, 1)
    assert window.bindings.pinned == ((8, 1),)


def test_completed_ancestors_in_an_earlier_iteration_are_not_moved():
    state = {"A": "completed", "B": "running"}
    window, names = simple(("AB",), state, machine=dict.fromkeys("AB", 1), violating="B", iteration={"B": 2})
    assert named(names, window.moving) == "B"


def test_duplicate_edges_count_once():
    graph = build_graph(machine=(0, 1), edges=[(0, 1), (0, 1)])
    assert initial_dag(graph) == ((0, 1),)
