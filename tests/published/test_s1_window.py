"""The worked examples of static DAG generation at run time (Prodan and Fahringer 2005;
docs/papers/dynamic-grid.md, A1.1).
"""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from weft.engine.replan.window import RunSituation, TaskStanding, build_graph, build_window, initial_dag

CASES = ("JS5 violates contract", "JS5 healthy", "plain loop A-B-C-A")


@pytest.fixture(scope="module")
def figure(spec_data):
    return json.loads((spec_data / "s1_fig5.json").read_text())


class Drawing:
    """A graph with named tasks and machines."""

    def __init__(self, names, edges, machines=None, declared=()):
        self.names = list(names)
        index = {name: position for position, name in enumerate(self.names)}
        machines = machines or {name: [name] for name in names}
        numbers = {
            name: number for number, name in enumerate(sorted({m for two in machines.values() for m in two}))
        }
        self.machine_names = list(numbers)
        self.index = index
        self.graph = build_graph(
            machine=[numbers[machines[name][-1]] for name in self.names],
            source=[numbers[machines[name][0]] if len(machines[name]) == 2 else None for name in self.names],
            edges=[(index[a], index[b]) for a, b in edges],
            declared=[(index[a], index[b]) for a, b in declared],
        )

    def window(self, state, violating=(), iteration=None, decided=()):
        return build_window(
            RunSituation(
                graph=self.graph,
                standing=tuple(TaskStanding(state[name]) for name in self.names),
                iteration=tuple((iteration or {}).get(name, 1) for name in self.names),
                violating=frozenset(self.index[name] for name in violating),
                decided=frozenset((self.index[a], self.index[b]) for a, b in decided),
            )
        )

    def tasks(self, found):
        return {self.names[task] for task in found}

    def edges(self, found):
        return {(self.names[a], self.names[b]) for a, b in found}

    def pins(self, window):
        return {(self.machine_names[one.machine], one.iteration) for one in window.bindings.pinned}


def pairs(listed):
    return {(a, b) for a, b in listed}


def drawn(figure, case):
    one = next(one for one in figure["cases"] if one["name"] == case)
    own = "nodes" in one
    nodes, edges = (one["nodes"], one["edges"]) if own else (figure["nodes"], figure["edges"])
    return one, Drawing(nodes, edges, None if own else figure["machines"])


def test_initial_graph_equals_the_figure(figure):
    one, drawing = drawn(figure, "initial")
    assert drawing.edges(drawing.graph.back) == pairs(one["edges_removed"])
    assert drawing.edges(initial_dag(drawing.graph)) == pairs(one["edges_0"])


@pytest.mark.parametrize("case", CASES)
def test_task_sets_of_the_window_equal_the_figure(figure, case):
    one, drawing = drawn(figure, case)
    window = drawing.window(one["state"], one["migrate"])
    assert drawing.tasks(window.moving) == set(one["nodes_migr"])
    assert drawing.tasks(window.queued) == set(one["nodes_queued"])
    assert drawing.edges(window.cut_moving) == pairs(one["edges_migr"])
    assert drawing.edges(window.cut_queued) == pairs(one["edges_queued"])
    assert drawing.edges(window.edges) == pairs(one["edges_t"])


def test_machines_of_the_window_equal_the_figure(figure):
    one, drawing = drawn(figure, "JS5 violates contract")
    window = drawing.window(one["state"], one["migrate"])
    assert drawing.edges(window.inner) == {
        ("N1", "N2"), ("N6", "N1"), ("N1", "FT4"), ("FT4", "JS5"), ("JS5", "N6"), ("JS5", "FT4"),
    }  # fmt: skip
    # N3 keeps running; FT4 runs again and reads the output of N1 of this iteration.
    assert drawing.pins(window) == {("M4", 1), ("M1", 1)}
    assert drawing.tasks(window.fresh) == {"N1", "N2"}
    ft4, js5, n1 = (drawing.index[name] for name in ("FT4", "JS5", "N1"))
    bound = window.bindings
    assert bound.machine[ft4] == bound.machine[js5] == (drawing.machine_names.index("M2"), 1)
    assert bound.source[ft4] == (drawing.machine_names.index("M1"), 1)
    assert bound.machine[n1] == (drawing.machine_names.index("M1"), 2)


POINTS = (1, 2, 3)
BODY = (
    "LAPW0", *(f"LAPW1_{k}" for k in POINTS), "FERMI", *(f"LAPW2_{k}" for k in POINTS),
    "SUMPARA", "LCORE", "MIXER", "CONV",
)  # fmt: skip
LATER = ("FERMI", *(f"LAPW2_{k}" for k in POINTS), "SUMPARA", "LCORE", "MIXER", "CONV")


def wien2k(declared):
    edges = [*pairwise(("SUMPARA", "LCORE", "MIXER", "CONV", "STAGE_OUT"))]
    machines = {name: [name] for name in (*BODY, "STAGE_OUT")}
    for k in POINTS:
        edges += [
            ("LAPW0", f"LAPW1_{k}"), (f"LAPW1_{k}", "FERMI"), ("FERMI", f"LAPW2_{k}"),
            (f"LAPW1_{k}", f"LAPW2_{k}"), (f"LAPW2_{k}", "SUMPARA"),
        ]  # fmt: skip
        machines[f"LAPW1_{k}"] = machines[f"LAPW2_{k}"] = [f"kpoint-{k}"]
    back = [("CONV", "LAPW0")]
    names = (*BODY, "STAGE_OUT")
    return Drawing(names, edges, machines, back) if declared else Drawing(names, edges + back, machines)


def second_iteration(reset):
    """Return a state: LAPW1_1 is too slow, LAPW1_2 has completed, LAPW1_3 runs, others have not started
    this iteration.
    """
    state = dict.fromkeys(LATER, "queued" if reset else "completed") | {
        "LAPW0": "completed", "LAPW1_1": "running", "LAPW1_2": "completed", "LAPW1_3": "running", "STAGE_OUT": "queued",
    }  # fmt: skip
    return state, ["LAPW1_1"], dict.fromkeys(BODY, 2) | ({} if reset else dict.fromkeys(LATER, 1))


@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize("reset", [False, True], ids=["completed in iteration 1", "queued in iteration 2"])
def test_only_the_slow_k_point_of_wien2k_migrates(declared, reset):
    drawing = wien2k(declared)
    window = drawing.window(*second_iteration(reset))
    assert drawing.tasks(window.moving) == {"LAPW1_1"}
    assert drawing.tasks(window.queued) == {*BODY, "STAGE_OUT"} - {"LAPW1_1", "LAPW1_3"}
    edges = drawing.edges(window.edges)
    assert ("FERMI", "LAPW2_1") in edges
    assert ("LAPW0", "LAPW1_1") in drawing.edges(window.cut_moving)
    assert ("CONV", "LAPW0") in edges
    # LAPW1_1 and LAPW2_1 can get another machine, the same for both; LAPW1_3 keeps running.
    kpoint = drawing.machine_names.index("kpoint-1")
    assert {window.bindings.machine[drawing.index[name]] for name in ("LAPW1_1", "LAPW2_1")} == {(kpoint, 2)}
    assert ("kpoint-3", 2) in drawing.pins(window)
    assert ("kpoint-1", 2) not in drawing.pins(window)


@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize("reset", [False, True], ids=["completed in iteration 1", "queued in iteration 2"])
def test_the_remaining_tasks_of_wien2k_keep_their_order(declared, reset):
    drawing = wien2k(declared)
    window = drawing.window(*second_iteration(reset))
    edges = drawing.edges(window.edges)
    assert {(f"LAPW2_{k}", "SUMPARA") for k in POINTS} <= edges
    assert {("FERMI", f"LAPW2_{k}") for k in POINTS} <= edges
    assert drawing.edges(window.cut_queued) == {("LAPW1_2", "FERMI"), ("LAPW1_2", "LAPW2_2")}
    # LAPW1_2 has written its output on the machine where LAPW2_2 must run; in the next iteration it is not
    # bound.
    assert ("kpoint-2", 2) in drawing.pins(window)
    assert window.bindings.machine[drawing.index["LAPW1_2"]].iteration == 3


def test_a_finished_loop_is_not_entered_again():
    drawing = wien2k(True)
    state = dict.fromkeys(BODY, "completed") | {"CONV": "running", "STAGE_OUT": "queued"}
    assert len(drawing.window(state).tasks) == 12
    window = drawing.window(state, decided=[("CONV", "LAPW0")])
    assert drawing.tasks(window.tasks) == {"STAGE_OUT"}
    assert window.unreached == ()
