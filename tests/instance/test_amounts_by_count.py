"""Amounts that depend on the node count restrict the modes; kernels read the matching rows."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from planning_examples import instance, platform
from weft.errors import Infeasible
from weft.planners.problem import compile_problem

TWO = platform({"nodes": 4, "memory": 4e9}, {"nodes": 2, "memory": 9e9, "resources": {"licence": 2}})
MOLDABLE = {"work": 8, "nodes": [1, 2, 4], "speedup": {"amdahl": 0.1}}


def modes(made, name):
    """Return the modes of a task as (machine, count)."""
    found = made.modes(made.graph.index(name))
    return list(zip(found.machine.tolist(), found.count.tolist(), strict=True))


def test_modes_whose_amounts_exceed_the_machine_are_dropped():
    made = instance({"a": MOLDABLE | {"memory": "3*GB*nodes"}}, TWO)
    assert modes(made, "a") == [(0, 1), (1, 1), (1, 2)]


def test_larger_node_count_may_need_a_smaller_amount():
    made = instance({"a": MOLDABLE | {"memory": {1: "8GB", 2: "5GB", 4: "2GB"}}}, TWO)
    assert modes(made, "a") == [(0, 4), (1, 1), (1, 2)]
    (group,) = made.groups
    assert group.demand.tolist() == [[2e9], [8e9], [5e9]]


def test_machine_without_a_fitting_count_cannot_run_the_task():
    tasks = {
        "a": MOLDABLE
        | {"memory": {1: "9GB", 2: "4GB", 4: "1GB"}, "resources": {"licence": {1: 1, 2: 3, 4: 1}}}
    }
    with pytest.raises(Infeasible) as caught:
        instance(tasks, platform({"nodes": 2, "memory": 8e9, "resources": {"licence": 2}}))
    assert "has the resources for a node count that fits" in str(caught.value)


def test_amounts_beyond_every_total_are_reported():
    with pytest.raises(Infeasible, match="has 10 GB of memory in total"):
        instance({"a": MOLDABLE | {"memory": "10*GB*nodes"}}, TWO)


def test_tasks_whose_amounts_depend_on_the_node_count_in_the_same_way_share_a_group():
    light, heavy = MOLDABLE | {"memory": "1*GB*nodes"}, MOLDABLE | {"memory": "2*GB*nodes"}
    tasks = {"a": light, "b": heavy, "c": light, "d": MOLDABLE, "e": MOLDABLE | {"memory": "1GB"}}
    made = instance(tasks, TWO)
    a, b, c, d, e = made.group.tolist()
    assert a == c
    assert d == e
    assert len({a, b, d}) == 3
    assert made.groups[d].demand is None
    assert made.groups[b].demand[:, 0].tolist() == [2e9, 4e9, 2e9, 4e9]


AMOUNTS = st.one_of(
    st.none(),
    st.integers(0, 3),
    st.tuples(st.integers(0, 3), st.integers(0, 2)).map(lambda pair: f"{pair[0]} + {pair[1]}*nodes"),
    st.fixed_dictionaries({count: st.integers(0, 4) for count in (1, 2, 4)}),
)
TIMES = st.sampled_from(
    [
        {"work": 8, "speedup": {"amdahl": 0.1}},
        {"seconds": 5},
        {"seconds": {"m0": 4, "*": 5}},
        {"speedup": {"seconds": {2: 9, 4: 5}}, "work": 9},
    ]
)


@st.composite
def random_instances(draw):
    """Draw tasks with three node counts and arbitrary amounts of two resources and two budgets."""
    tasks = {}
    for index in range(draw(st.integers(1, 5))):
        amounts = {key: {name: draw(AMOUNTS) for name in "xy"} for key in ("resources", "consumes")}
        kept = {
            key: {name: amount for name, amount in given_.items() if amount is not None}
            for key, given_ in amounts.items()
        }
        tasks[f"t{index}"] = {"nodes": [1, 2, 4], **draw(TIMES), **kept}
    return tasks


@given(
    random_instances(),
    st.lists(st.tuples(st.sampled_from([2, 4]), st.integers(2, 9)), min_size=1, max_size=3),
)
def test_only_modes_within_the_totals_remain_and_they_keep_their_amounts(tasks, machines):
    where = platform(*({"nodes": nodes, "resources": {"x": most, "y": most}} for nodes, most in machines))
    try:
        made = instance(tasks, where, budgets={"x": 1000, "y": 1000})
    except Infeasible:
        assume(False)
    graph, problem = made.graph, compile_problem(made)
    resources = len(graph.resource_names)
    for task in range(len(graph)):
        group = int(made.group[task])
        found = made.groups[group]
        possible = [
            (machine, count)
            for machine, count in zip(*(part.tolist() for part in made.seconds.modes(task)[:2]), strict=True)
            if all(graph.demand_of(task, count) <= machines[machine][1])
        ]
        assert list(zip(found.machine.tolist(), found.count.tolist(), strict=True)) == possible
        for mode, (_, count) in enumerate(possible):
            expected = graph.demand_of(task, count).tolist()
            demand = graph.demand[task] if found.demand is None else found.demand[mode]
            consumed = graph.consumption[task] if found.consumption is None else found.consumption[mode]
            assert demand.tolist() == expected
            assert consumed.tolist() == graph.consumption_of(task, count).tolist()
            # As in the kernels: the first row of the task plus the shift of the mode.
            row = int(problem.tasks.need[task]) + int(problem.modes.shift[problem.modes.first[group] + mode])
            assert problem.tasks.amount[row * resources : (row + 1) * resources].tolist() == expected
