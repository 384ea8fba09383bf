"""Placement kernels equal references in plain Python bit for bit, compiled and plain."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from kernels.heft_textbook import textbook_finish_s
from kernels.placement_reference import Placement
from kernels.two_forms import columns, in_both_forms
from planning_examples import instance, platform
from planning_strategies import platforms, workflows
from weft.errors import Infeasible, InvalidInput
from weft.instance import compile_instance
from weft.kernels import compilation
from weft.kernels.placement import place_in_order
from weft.planners.list_planner import _is_simple, make_rule, make_workspace, place_tasks, read_schedule
from weft.planners.problem import compile_problem
from weft.planners.ranks import (
    downward_ranks,
    mean_communication_s,
    mean_seconds,
    order_by_rank,
    upward_ranks,
)
from weft.platform.platform import Link
from weft.workflow.unfold import unfold

SEARCH = settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def reference(made, order, tolerance=0.0):
    board = Placement(made, tolerance=tolerance)
    for task in order.tolist():
        board.place(task)
    return board.schedule()


def through_the_general_kernel(made, order):
    problem = compile_problem(made)
    board = make_workspace(problem)
    stuck = compilation.run_kernel(place_in_order, (problem, make_rule(), order), (board,), work_s=0.0)
    return read_schedule(made, board.schedule, stuck)


@given(flow=workflows(), where=platforms(), tolerance=st.sampled_from([0.0, 0.05, 0.5]))
@SEARCH
def test_instances_with_all_features_are_placed_as_by_the_reference(monkeypatch, flow, where, tolerance):
    try:
        made = compile_instance(unfold(flow), where)
    except (Infeasible, InvalidInput):
        assume(False)
    assume(not len(made.graph.demand_by_count.rows))
    for form in in_both_forms(monkeypatch):
        order = order_by_rank(upward_ranks(made))
        found = place_tasks(made, order, rule=make_rule(factor=1.0 + tolerance))
        assert columns(found) == columns(reference(made, order, tolerance)), form


def layered(seed, *, integers, layout, machines=7, tasks=60, bound=True):
    """Return a graph on machines that run one task at a time; integers make many ties."""
    rng = np.random.default_rng(seed)
    draw = (lambda: float(rng.integers(0, 4))) if integers else (lambda: float(rng.uniform(0, 4)))
    speed = (lambda: float(rng.integers(1, 3))) if integers else (lambda: float(rng.uniform(1, 3)))
    where = platform(
        *({"speed": speed(), "site": f"s{index % 3}"} for index in range(machines)),
        link=Link(bandwidth_Bps=1e6, latency_s=1.0 if integers else 0.3),
        links=(("s0", "s1", Link(bandwidth_Bps=5e5)),) if seed % 2 else (),
    )
    described = {}
    for index in range(tasks):
        keys = {"outputs": {f"f{index}": 1e6 * draw()}} if rng.integers(3) else {}
        if layout == "related":
            keys["work"] = draw()
        elif layout == "classes":
            keys["seconds"] = {"m0": draw(), "*": 2.0}
        else:
            keys["seconds"] = {f"m{machine}": draw() for machine in range(machines) if rng.integers(4)}
            keys["seconds"]["m1"] = draw()
        before = rng.integers(0, index, size=min(index, 3)).tolist() if index else []
        keys["after"] = [f"t{other}" for other in sorted(set(before))]
        keys["inputs"] = [
            f"f{other}"
            for other in sorted(set(before))
            if f"f{other}" in described.get(f"t{other}", {}).get("outputs", {})
        ]
        described[f"t{index}"] = keys
        if bound and rng.integers(8) == 0:
            keys["machine"] = f"A{rng.integers(2)}"
    return instance(described, where)


@pytest.mark.parametrize("layout", ["related", "classes", "table"])
@pytest.mark.parametrize("integers", [True, False])
def test_fast_path_and_general_kernel_return_the_same_plan(form, layout, integers):
    for seed in range(6):
        made = layered(seed, integers=integers, layout=layout)
        order = order_by_rank(upward_ranks(made))
        assert _is_simple(compile_problem(made), make_rule())
        expected = columns(reference(made, order))
        assert columns(place_tasks(made, order)) == expected
        assert columns(through_the_general_kernel(made, order)) == expected


@pytest.mark.parametrize("layout", ["related", "classes", "table"])
@pytest.mark.parametrize("integers", [True, False])
def test_placement_by_earliest_finish_equals_the_textbook_algorithm(form, layout, integers):
    for seed in range(4):
        made = layered(seed, integers=integers, layout=layout, bound=False, tasks=150)
        order = order_by_rank(upward_ranks(made))
        assert place_tasks(made, order).finish_s.tolist() == textbook_finish_s(made, order.tolist())


def test_random_instances_have_the_intended_layouts():
    names = {
        layout: layered(0, integers=True, layout=layout).seconds.layout for layout in ("related", "table")
    }
    assert names == {"related": "related", "table": "table"}


@pytest.mark.parametrize("integers", [True, False])
def test_ranks_are_the_longest_paths(form, integers):
    made = layered(3, integers=integers, layout="related")
    graph, seconds, moving = made.graph, mean_seconds(made).tolist(), mean_communication_s(made).tolist()
    edges = [
        (int(before), task, moving[edge])
        for task in range(len(graph))
        for edge, before in enumerate(graph.predecessors(task), start=int(graph.predecessor_pointer[task]))
    ]

    @cache
    def up(task):
        return seconds[task] + max(
            (c + up(after) for before, after, c in edges if before == task), default=0.0
        )

    @cache
    def down(task):
        return max((down(b) + seconds[b] + c for b, after, c in edges if after == task), default=0.0)

    assert upward_ranks(made).tolist() == [up(task) for task in range(len(graph))]
    assert downward_ranks(made).tolist() == [down(task) for task in range(len(graph))]


def test_task_of_infinite_duration_is_infeasible(form):
    made = instance({"a": {"work": 1.0}, "b": {"work": 2.0, "after": "a"}}, "identical:2")
    problem = compile_problem(made)
    endless = problem._replace(modes=problem.modes._replace(work=np.array([1.0, np.inf])))
    board = make_workspace(endless)
    stuck = compilation.run_kernel(
        place_in_order, (endless, make_rule(), np.array([0, 1], dtype=np.uint32)), (board,), work_s=0.0
    )
    with pytest.raises(Infeasible, match="b cannot end at a finite time"):
        read_schedule(made, board.schedule, stuck)
