"""The least cost equals a computation by hand and an enumeration, and is not above any plan."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given

from planning_examples import instance, planned, platform
from planning_strategies import platforms, workflows
from weft.errors import Infeasible
from weft.instance import compile_instance
from weft.schedule import costs
from weft.schedule.costs import cheapest_cost, relative_prices, schedule_cost
from weft.workflow.unfold import unfold

PRICED = platform(
    {"price_per_node_hour": 3600.0},
    {"speed": 3.0, "price_per_node_hour": 7200.0, "nodes": 4},
    {"speed": 10.0, "price_per_node_hour": 36000.0},
)


def enumerated(made):
    """Return the least cost over every machine of each binding variable and every count of each task."""
    price = made.price_per_node_s.tolist()
    total = 0.0
    for variable in range(len(made.graph.variables)):
        tasks = [
            task
            for task in range(len(made))
            if made.graph.variable[task] == variable and made.group[task] >= 0
        ]
        choices = []
        for machine in made.candidates_of(variable).tolist():
            if made.pinned.get(variable, machine) != machine:
                continue
            spent = 0.0
            for task in tasks:
                modes = made.modes(task)
                counts = zip(
                    modes.machine.tolist(), modes.nodes.tolist(), modes.seconds.tolist(), strict=True
                )
                spent += min(
                    (
                        seconds * nodes * price[machine]
                        for where, nodes, seconds in counts
                        if where == machine
                    ),
                    default=float("inf"),
                )
            choices.append(spent)
        total += min(choices)
    return total


def test_least_cost_uses_the_cheapest_machine_of_every_task():
    made = instance({"a": {"work": 6}, "b": {"work": 9, "after": "a"}}, PRICED)
    assert cheapest_cost(made) == pytest.approx((6 + 9) / 3 * 2)


def test_least_cost_uses_the_cheapest_node_count():
    made = instance({"a": {"work": 6, "nodes": [1, 2, 4], "speedup": {"amdahl": 0.5}}}, PRICED)
    assert cheapest_cost(made) == pytest.approx(6 / 3 * 2)


def test_least_cost_of_an_abstract_machine_uses_the_cheapest_machine_for_all_its_tasks():
    seconds = [{"m0": 1, "m1": 4, "m2": 9}, {"m0": 20, "m1": 4, "m2": 9}]
    apart = {f"t{index}": {"seconds": row} for index, row in enumerate(seconds)}
    together = {name: {**keys, "machine": "A"} for name, keys in apart.items()}
    assert cheapest_cost(instance(apart, PRICED)) == 1 * 1 + 4 * 2
    assert cheapest_cost(instance(together, PRICED)) == (4 + 4) * 2


def test_a_pinned_task_costs_the_price_of_its_machine():
    made = instance({"a": {"work": 6}}, PRICED, pinned={"a": "m2"})
    assert cheapest_cost(made) == pytest.approx(6 / 10 * 10)


def test_least_cost_is_0_if_machines_have_no_prices():
    made = instance({"a": {"work": 6}}, "identical:2")
    assert cheapest_cost(made) == 0
    assert relative_prices(made).tolist() == [1, 1]


def test_mean_relative_price_of_a_node_is_1():
    made = instance({"a": {"work": 6}}, PRICED)
    found = relative_prices(made)
    assert (found * made.capacity).sum() == pytest.approx(made.capacity.sum())
    assert (found / found[0]).tolist() == pytest.approx([1, 2, 10])


@given(workflows(), platforms())
def test_least_cost_is_minimal_over_bindings_and_not_above_any_plan(flow, where):
    try:
        made = compile_instance(unfold(flow), where)
        schedule = planned(made)
    except Infeasible:
        assume(False)
    least = cheapest_cost(made)
    assert least == pytest.approx(enumerated(made), rel=1e-9)
    assert least <= schedule_cost(schedule, made) * (1 + 1e-9)


def test_least_cost_does_not_depend_on_the_chunk_size(monkeypatch):
    tasks = {
        f"t{index}": {"seconds": {"m0": a, "m1": b, "m2": c}, "machine": f"M{index % 5}"}
        for index, (a, b, c) in enumerate(itertools.product([1, 4, 8], repeat=3))
    }
    made = instance(tasks, PRICED)
    whole = cheapest_cost(made)
    assert whole == pytest.approx(enumerated(made))
    monkeypatch.setattr(costs, "_CHUNK", 6)
    assert cheapest_cost(made) == pytest.approx(whole)
    assert np.isfinite(whole)
