"""Objectives: values of a schedule by hand, names, alpha and limits."""

from __future__ import annotations

import pickle

import pytest

from planning_examples import instance, planned, platform
from weft.errors import InvalidInput
from weft.schedule.metrics import measure_schedule
from weft.schedule.objective import OBJECTIVES, make_objective

S1 = {
    "makespan": "makespan_s",
    "speedup": "speedup",
    "efficiency": "efficiency",
    "communication": "communication_s",
    "synchronisation": "synchronisation_s",
    "overhead": "overhead_s",
    "lost-parallelism": "lost_parallelism_s",
    "throughput": "throughput",
}
S2 = ("on-demand", "static", "static-literal", "static-idle-fraction")
MIXED = {
    "a": {"work": 12, "outputs": {"x": "2MB"}, "requirements": 'name == "m0"'},
    "b": {"work": 6, "inputs": ["x"], "requirements": 'name == "m1"'},
    "c": {"work": 30, "nodes": 3, "requirements": 'name == "m1"'},
}
UNLIKE = platform({"price_per_node_hour": 3600.0}, {"speed": 2.0, "nodes": 3, "price_per_node_hour": 7200.0})


@pytest.fixture
def moldable():
    """Return two tasks in sequence on 2 of 4 nodes, 6 and 3 seconds; one node would need 10 and 5."""
    laws = [{"seconds": {1: 10, 2: 6}}, {"seconds": {1: 5, 2: 3}}]
    tasks = {
        "a": {"nodes": [1, 2], "speedup": laws[0]},
        "b": {"nodes": [1, 2], "speedup": laws[1], "after": "a"},
    }
    made = instance(tasks, "cluster:4")
    schedule = planned(made)
    assert schedule.nodes.tolist() == [2, 2]
    assert schedule.makespan_s == 9
    return schedule, made


def value(name, example, alpha=None):
    return make_objective(name, alpha).value(*example)


def test_s1_objectives_equal_the_metrics_of_the_same_name():
    made = instance(MIXED, UNLIKE)
    schedule = planned(made)
    found = measure_schedule(schedule, made)
    assert len({getattr(found, key) for key in S1.values()}) == 8, "the example distinguishes them"
    for name, key in S1.items():
        assert OBJECTIVES[name].value(schedule, made) == getattr(found, key), name


def test_s1_objectives_equal_values_computed_by_hand():
    # c holds m1 for 15 s; b reads 2 MB that a has written in 12 s, and ends after 3 s. One after another they
    # take 30 s and 12 + 3 + 3 * 15 = 60 node-seconds; 1 + 3 nodes are used at once.
    made = instance(MIXED, UNLIKE)
    example = planned(made), made
    by_hand = {
        "makespan": 18,
        "speedup": 30 / 18,
        "efficiency": 60 / (4 * 18),
        "communication": 2,
        "synchronisation": 1,
        "overhead": 18 - 60 / 4,
        "lost-parallelism": 0,
        "throughput": 0.5 * 60 / (4 * 18) + 0.5 * (1 - 18 / 60),
    }
    assert {name: value(name, example) for name in S1} == pytest.approx(by_hand)


def test_cost_is_the_price_of_the_occupied_node_seconds():
    made = instance({"a": {"work": 10, "nodes": 2}}, UNLIKE)
    assert value("cost", (planned(made), made)) == pytest.approx(5 * 2 * 2.0)


def test_local_objective_sums_the_times_of_tasks(moldable):
    assert value("local", moldable) == 9


def test_local_objective_ignores_transfers():
    tasks = {
        "a": {"work": 3, "machine": "A", "outputs": ["x"]},
        "move": {"kind": "transfer", "from_": "A", "to": "B", "file": "x", "size": "8MB"},
        "b": {"work": 4, "machine": "B", "inputs": ["x"]},
    }
    made = instance(tasks, platform({}, {}), pinned={"A": "m0", "B": "m1"})
    assert value("local", (planned(made), made)) == 7


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.5, 1.0])
def test_weighted_objectives_equal_values_computed_by_hand(moldable, alpha):
    time, taken, idle, nodes = 9 / 15, 18, 4 * 9 - 18, 4
    expected = {
        "on-demand": taken / 15,
        "static": idle / (15 * nodes),
        "static-literal": 1 - taken / (15 * nodes),
        "static-idle-fraction": idle / (4 * 9),
    }
    assert set(expected) == set(S2)
    for name, cost in expected.items():
        assert value(name, moldable, alpha) == pytest.approx(alpha * time + (1 - alpha) * cost, rel=1e-12)


def test_alpha_given_to_value_replaces_the_alpha_of_the_objective(moldable):
    assert make_objective("on-demand", 0.2).value(*moldable, 0.9) == value("on-demand", moldable, 0.9)
    assert value("on-demand", moldable) == value("on-demand", moldable, 0.5)


@pytest.mark.parametrize("name", S2)
def test_equal_prices_do_not_change_the_value(name):
    tasks = {"a": {"work": 12, "nodes": 2}, "b": {"work": 6}}
    free, paid = (
        instance(tasks, platform({"price_per_node_hour": price, "nodes": 2}, {"price_per_node_hour": price}))
        for price in (0.0, 7.5)
    )
    assert value(name, (planned(paid), paid)) == pytest.approx(value(name, (planned(free), free)), rel=1e-12)


def test_node_seconds_are_weighted_by_relative_price():
    made = instance({"a": {"work": 12}}, platform({"price_per_node_hour": 1.0}, {"price_per_node_hour": 3.0}))
    dear = instance(
        {"a": {"work": 12, "requirements": 'name == "m1"'}},
        platform({"price_per_node_hour": 1.0}, {"price_per_node_hour": 3.0}),
    )
    assert value("on-demand", (planned(made), made), 0.0) == pytest.approx(0.5)
    assert value("on-demand", (planned(dear), dear), 0.0) == pytest.approx(1.5)


def test_costs_are_relative_to_the_costs_of_the_smallest_allowed_node_counts():
    made = instance({"a": {"work": 12, "nodes": 3}}, "cluster:4")
    assert value("on-demand", (planned(made), made)) == pytest.approx(1.0)


@pytest.mark.parametrize("name", sorted(OBJECTIVES))
def test_a_workflow_of_0_seconds_has_a_finite_value(name):
    made = instance({"a": {"kind": "virtual"}}, "identical:2")
    assert 0 <= value(name, (planned(made), made)) <= 1


def test_objectives_have_the_expected_properties():
    assert {name for name, known in OBJECTIVES.items() if known.is_makespan} == {"makespan"}
    assert {name for name, known in OBJECTIVES.items() if known.has_alpha} == set(S2)
    larger = {name for name, known in OBJECTIVES.items() if known.sense == "maximise"}
    assert larger == {"speedup", "efficiency", "throughput"}


@pytest.mark.parametrize("name", sorted(OBJECTIVES))
def test_every_objective_has_a_title(name):
    found = make_objective(name, deadline_s=5.0, max_cost=2.0)
    assert (found.name, found.deadline_s, found.max_cost) == (name, 5.0, 2.0)
    assert len(found.title) > 10
    assert pickle.loads(pickle.dumps(found)) == found
    assert OBJECTIVES[name].deadline_s is None


@pytest.mark.parametrize(
    ("arguments", "limits", "message"),
    [
        (("makespam",), {}, "unknown objective 'makespam'; did you mean 'makespan'"),
        (("zzz",), {}, "use one of makespan, cost, local"),
        (("makespan", 0.5), {}, "has no alpha; omit it, or use one of on-demand, static"),
        (("static", 1.5), {}, "alpha is 1.5; must be from 0"),
        (("static", float("nan")), {}, "alpha is nan"),
        (("static",), {"deadline_s": -1.0}, "the deadline is -1; must be seconds, at least 0"),
        (("static",), {"deadline_s": float("inf")}, "the deadline is inf"),
        (("static",), {"max_cost": float("nan")}, "the maximal cost is nan; must be a price"),
    ],
)
def test_invalid_values_are_refused(arguments, limits, message):
    with pytest.raises(InvalidInput) as caught:
        make_objective(*arguments, **limits)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("makespan + kost", "unknown name 'kost'.*did you mean 'cost'"),
        ("makespann", "unknown objective 'makespann'; did you mean 'makespan'"),
        ("lost-paralelism", "unknown objective 'lost-paralelism'; did you mean 'lost-parallelism'"),
        ("makespan > 3", "'makespan > 3' is not a number"),
        ("2*t_max", r"'2\*t_max' is the same for all schedules"),
        ("makespan +", "invalid syntax"),
        ("'a' + makespan", "between a string and a number"),
        (3, "the objective 3; must be a name, a formula or a function"),
    ],
)
def test_invalid_formulas_are_refused(text, problem):
    with pytest.raises(InvalidInput, match=problem):
        make_objective(text)


def test_formulas_are_evaluated_over_the_quantities_of_a_schedule(moldable):
    schedule, made = moldable
    found = measure_schedule(schedule, made)
    assert value("makespan-3", moldable) == 6
    assert value("node_seconds", moldable) == 18
    assert value("1-efficiency", moldable) == 1 - found.efficiency
    assert value("(nodes_used + machines_used) * length_ratio", moldable) == 3 * found.length_ratio
    assert value("t_max / nodes + c_min + local", moldable) == 15 / 4 + 15 + 9
    with pytest.raises(InvalidInput, match="division by zero"):
        value("makespan / cost", moldable)


def test_formula_objectives_have_a_name_and_limits_but_no_alpha():
    goal = make_objective("makespan+cost", deadline_s=3.0, max_cost=4.0)
    assert (goal.name, goal.sense, goal.deadline_s, goal.max_cost) == ("makespan + cost", "minimise", 3, 4)
    assert pickle.loads(pickle.dumps(goal)) == goal
    with pytest.raises(InvalidInput, match="has no alpha"):
        make_objective("makespan+cost", 0.3)
