"""Objectives that users write: formulas in linear form, over populations and schedules, and functions."""

from __future__ import annotations

import numpy as np
import pytest

from planning_examples import MAKESPAN, instance, planned, platform
from weft.errors import InvalidInput
from weft.planners.decoding import decode, decode_population
from weft.planners.evaluation import PopulationEvaluator, linearise_objective
from weft.planners.genetic import BindingEncoding
from weft.planners.planner import Budget, PlanRequest, make_planner
from weft.randomness import generator
from weft.schedule.objective import QUANTITIES, make_objective, measure_quantities

PRICED = platform(
    {"price_per_node_hour": 3600.0},
    {"speed": 2.0, "price_per_node_hour": 9000.0},
    {"speed": 4.0, "price_per_node_hour": 36000.0},
)
TASKS = {f"t{index}": {"work": 2 + index % 3, "outputs": {f"f{index}": "1MB"}} for index in range(6)} | {
    "end": {"work": 1, "inputs": [f"f{index}" for index in range(6)]}
}


@pytest.fixture(scope="module")
def made():
    return instance(TASKS, PRICED)


def best(made, planner, goal, steps=2000):
    chosen = make_planner(planner)
    assert chosen.supports(made, goal) is None
    found = chosen.plan(
        PlanRequest(instance=made, objective=goal, rng=generator(1, "formula"), budget=Budget(steps=steps))
    )
    return goal.value(found.schedule, made)


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        ("makespan", None),
        ("makespan + 0.5*cost", (0.0, 1.0, 0.0, 0.5)),
        ("2*(makespan - 3)/4 - node_seconds", (-1.5, 0.5, -1.0, 0.0)),
        ("-(cost - 1)*-2", (-2.0, 0.0, 0.0, 2.0)),
        ("cost*nodes + makespan/t_max", (0.0, 0.2, 0.0, 3.0)),
        ("makespan + max(3, 4)", (4.0, 1.0, 0.0, 0.0)),
        ("makespan*cost", ()),
        ("max(makespan, 3)", ()),
        ("1/makespan", ()),
        ("makespan/(cost - cost)", ()),
        ("makespan + communication", ()),
        ("makespan if cost > 3 else cost", ()),
    ],
)
def test_linear_formulas_are_recognised(text, weights):
    # One after another on the fastest machine: 20 s of work at speed 4 take 5 s.
    small = instance({"a": {"work": 20}}, PRICED)
    linear = linearise_objective(small, make_objective(text))
    if weights is None:
        assert (linear.per_second, linear.is_makespan) == (1.0, True)
    elif not weights:
        assert linear is None
    else:
        assert linear[:4] == pytest.approx(weights)


@pytest.mark.parametrize(
    "text",
    [
        "makespan + 0.1*cost",
        "makespan*cost + 1",
        "max(makespan, 4) ** 2 + node_seconds",
        "makespan + communication*2",
        "1 - efficiency",
        "machines_used + local",
    ],
)
def test_values_of_populations_equal_those_of_their_schedules(made, text):
    goal = make_objective(text)
    encoding = BindingEncoding(made, goal)
    points = encoding.space.draw(generator(2, "points"), 9)
    values = encoding.values(points)
    expected = [-goal.value(encoding.schedule(point), made) for point in points]
    assert values.tolist() == pytest.approx(expected)
    assert len(set(values.tolist())) > 3


@pytest.mark.parametrize("planner", ["auto", "genetic", "annealing"])
@pytest.mark.parametrize("text", ["makespan + 3*cost", "makespan + cost**2", "1 - efficiency"])
def test_planners_find_better_formula_values_than_the_plan_with_the_shortest_makespan(made, planner, text):
    goal = make_objective(text)
    fast = goal.value(planned(made), made)
    assert best(made, planner, goal) < fast


@pytest.mark.parametrize("planner", ["weave", "cp-sat"])
def test_linear_formulas_are_minimised_by_weave_and_cp_sat(made, planner):
    goal = make_objective("makespan + 3*cost")
    assert best(made, planner, goal) <= best(made, "genetic", goal) * (1 + 1e-9)
    reason = make_planner(planner).supports(made, make_objective("makespan*cost")).reason
    assert "makespan * cost" in reason


@pytest.mark.parametrize("planner", ["heft", "minmin", "shuffle", "cheapest"])
def test_planners_with_fixed_objectives_refuse_formulas_and_state_the_reason(made, planner):
    refusal = make_planner(planner).supports(made, make_objective("makespan + cost"))
    assert "makespan + cost" in refusal.reason


def function_of_machines(schedule, instance):
    return schedule.makespan_s + 100.0 * schedule.machines_used


def test_functions_of_users_are_minimised(made):
    goal = make_objective(function_of_machines)
    assert goal.name == "function_of_machines"
    assert best(made, "auto", goal) < 200, "one machine is used"
    assert "function_of_machines" in make_planner("heft").supports(made, goal).reason


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "text", None])
def test_functions_must_return_finite_numbers(made, value):
    goal = make_objective(lambda schedule, instance: value)
    with pytest.raises(InvalidInput, match=r"gives .* for a schedule; .* must be a finite number"):
        goal.value(planned(made), made)


def test_formula_that_overflows_in_a_population_is_an_error(made):
    encoding = BindingEncoding(made, make_objective("cost * 1e308 * makespan * 1e308"))
    with pytest.raises(InvalidInput, match="the result is too large"):
        encoding.values(encoding.space.draw(generator(1, "points"), 3))


def test_deadline_is_met_under_a_formula_objective(made):
    free = best(made, "genetic", make_objective("node_seconds"))
    goal = make_objective("node_seconds", deadline_s=planned(made).makespan_s * 1.2)
    chosen = make_planner("genetic")
    found = chosen.plan(
        PlanRequest(instance=made, objective=goal, rng=generator(1, "formula"), budget=Budget(steps=2000))
    )
    assert found.schedule.makespan_s <= goal.deadline_s
    assert goal.value(found.schedule, made) >= free


def test_every_quantity_of_formulas_is_measured_on_a_schedule(made):
    schedule = planned(made)
    found = measure_quantities(schedule, made, tuple(QUANTITIES))
    assert set(found) >= set(QUANTITIES)
    cheap = measure_quantities(schedule, made, ("makespan", "cost"))
    assert cheap == {name: found[name] for name in cheap}
    assert make_objective("t_max + 0*makespan").value(schedule, made) == found["t_max"]


def test_evaluator_builds_schedules_only_for_formulas_that_need_them(made):
    cheap, whole = (
        PopulationEvaluator(made, make_objective(text)) for text in ("makespan*cost", "local + 1")
    )
    assert (cheap.of_schedules, whole.of_schedules) == (False, True)
    genomes = BindingEncoding(made, MAKESPAN)
    bound, modes = genomes._genomes(genomes.space.draw(generator(3, "points"), 4))
    decoded = decode_population(made, None, bound, modes, priced=True)
    nothing = np.zeros((0, 0), dtype=np.uint32)
    expected = [make_objective("makespan*cost").value(decode(made, None, row, None), made) for row in bound]
    assert (-cheap.values(decoded, nothing, nothing)).tolist() == pytest.approx(expected)
