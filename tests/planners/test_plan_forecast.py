"""Forecasts: P50 and P90 of makespan and cost from sampled durations."""

from __future__ import annotations

import math

import numpy as np
import pytest

import weft
from planning_examples import instance, lines, planned, platform, workflow
from unsure_predictor import Unsure
from weft.api.plan import plan_facts
from weft.planners import forecast
from weft.planners.forecast import forecast_schedule
from weft.platform.platform import Share
from weft.predictors.performance import PerformanceTable
from weft.predictors.regression import Regression, fit
from weft.randomness import generator

Z90 = 1.2815515655446004


def outlook_for(tasks, on, believed, seed=0, **options):
    made = instance(tasks, on, predictor=believed, **options)
    schedule = planned(made)
    return schedule, made, forecast_schedule(schedule, made, seed=seed)


FORK = {
    "prepare": {"work": 20, "outputs": {"x": "1MB"}},
    "run": {"sweep": {"k": "1..9"}, "work": "30 + 7*k", "inputs": ["x"], "outputs": {"y.{k}": "2MB"}},
    "collect": {"work": 10, "inputs": ["y.1", "y.4", "y.9"], "after": "run"},
}
UNLIKE = platform(
    {"price_per_node_hour": 3600.0}, {"speed": 2.0, "price_per_node_hour": 9000.0}, {"speed": 1.5}
)


def test_a_single_task_has_the_p50_and_p90_of_its_estimate():
    _, _, found = outlook_for({"a": {"work": 100}}, "identical:1", Unsure())
    # The error of a quantile of 200 samples: 0.12 standard deviations at P90, 0.09 at P50.
    assert found.makespan_p50_s == pytest.approx(100, rel=0.07)
    assert found.makespan_p90_s == pytest.approx(150, rel=0.10)
    assert (found.tasks, found.exact) == (1, 0)


def test_mean_quantiles_over_many_seeds_equal_those_of_the_estimate():
    found = [outlook_for({"a": {"work": 100}}, "identical:1", Unsure(), seed)[2] for seed in range(40)]
    assert np.mean([each.makespan_p50_s for each in found]) == pytest.approx(100, rel=0.015)
    assert np.mean([each.makespan_p90_s for each in found]) == pytest.approx(150, rel=0.02)


def test_uncertainty_common_to_all_tasks_of_a_machine_does_not_average_out():
    chain = {f"t{index}": {"work": 10, "after": [f"t{index - 1}"] * (index > 0)} for index in range(64)}
    _, _, found = outlook_for(chain, "identical:1", Unsure())
    ratio = found.makespan_p90_s / found.makespan_p50_s
    # Half of the variance remains; the other half averages out over 64 tasks.
    assert ratio == pytest.approx(1.5 ** math.sqrt(0.5), rel=0.06)
    apart = {name: {**keys, "machine": name} for name, keys in chain.items()}
    pins = {name: f"m{1 + index % 16}" for index, name in enumerate(chain)}
    _, _, spread_out = outlook_for(apart, "identical:16", Unsure(), pinned=pins)
    assert 1.02 < spread_out.makespan_p90_s / spread_out.makespan_p50_s < 1 + (ratio - 1) / 2


def test_join_starts_after_its_latest_predecessor():
    tasks = {"run": {"sweep": {"k": "1..16"}, "work": 10}, "join": {"work": 1, "after": "run"}}
    schedule, _, found = outlook_for(tasks, "identical:16", Unsure())
    assert schedule.makespan_s == 11
    assert found.makespan_p50_s > 1.4 * schedule.makespan_s


def reference_samples(schedule, made, spreads, seed, samples=200):
    """Return P50 and P90 of makespan and cost: draw the same numbers and replay the schedule by task."""
    rng = generator(seed, "outlook")
    common = rng.standard_normal((samples, len(made.machines)))
    unsure = [task for task in range(len(made)) if spreads[task] > 1]
    own = rng.standard_normal((samples, len(unsure)))
    graph, makespans, costs = made.graph, [], []
    order = sorted(range(len(made)), key=lambda task: (schedule.start_s[task], schedule.finish_s[task], task))
    for sample in range(samples):
        finish, free, cost = {}, dict.fromkeys(range(len(made.machines)), 0.0), 0.0
        for task in order:
            machine = int(schedule.machine[task])
            spent = float(schedule.finish_s[task] - schedule.start_s[task])
            if task in unsure:
                mixed = common[sample, machine] + own[sample, unsure.index(task)]
                spent *= math.exp(math.log(spreads[task]) / Z90 * math.sqrt(0.5) * mixed)
            start = free[machine]
            first = int(graph.predecessor_pointer[task])
            for edge, before in enumerate(graph.predecessors(task).tolist(), start=first):
                moved = made.edge_s(edge, int(schedule.machine[before]), machine)
                start = max(start, finish[before] + moved)
            finish[task] = free[machine] = start + spent
            cost += spent * float(made.price_per_node_s[machine])
        makespans.append(max(finish.values()))
        costs.append(cost)
    return (*np.quantile(makespans, [0.5, 0.9]), *np.quantile(costs, [0.5, 0.9]))


@pytest.mark.parametrize("seed", [0, 7])
def test_the_samples_equal_those_of_a_simple_implementation(seed):
    ratios = {"prepare": None, "run": 1.4, "collect": 2.0}
    made = instance(FORK, UNLIKE, predictor=Unsure(ratios))
    schedule = planned(made)
    spreads = [ratios[made.graph.description(task).name] or 1.0 for task in range(len(made))]
    found = forecast_schedule(schedule, made, seed=seed)
    numbers = (found.makespan_p50_s, found.makespan_p90_s, found.cost_p50, found.cost_p90)
    assert numbers == pytest.approx(reference_samples(schedule, made, spreads, seed), rel=1e-12)
    assert (found.tasks, found.exact) == (11, 1)


def test_forecast_depends_only_on_the_seed(monkeypatch):
    schedule, made, found = outlook_for(FORK, UNLIKE, Unsure(), seed=3)
    assert forecast_schedule(schedule, made, seed=3) == found
    assert forecast_schedule(schedule, made, seed=4) != found
    monkeypatch.setattr(forecast, "_CHUNK", 70)
    assert forecast_schedule(schedule, made, seed=3) == found


def test_estimates_without_p90_count_as_exact():
    schedule, _, found = outlook_for(FORK, UNLIKE, Unsure(other=None))
    assert found.makespan_p50_s == found.makespan_p90_s == schedule.makespan_s
    assert found.cost_p50 == found.cost_p90 > 0
    assert (found.tasks, found.exact) == (11, 11)


def test_forecast_does_not_change_if_p90_equals_p50():
    schedule, _, found = outlook_for(FORK, UNLIKE, Unsure(other=1.0))
    assert found.makespan_p90_s == schedule.makespan_s
    assert found.exact == 0


def test_tasks_of_zero_duration_are_not_counted():
    tasks = {"a": {"work": 5}, "b": {"work": 0, "after": "a"}, "c": {"kind": "virtual", "after": "b"}}
    _, _, found = outlook_for(tasks, "identical:1", Unsure(other=None))
    assert (found.tasks, found.exact) == (1, 1)


def test_forecast_includes_transfer_times():
    tasks = {
        "a": {"work": 5, "machine": "A", "outputs": ["x"]},
        "move": {"kind": "transfer", "from_": "A", "to": "B", "file": "x", "size": "300MB"},
        "b": {"work": 5, "machine": "B", "inputs": ["x"]},
    }
    schedule, _, found = outlook_for(tasks, UNLIKE, Unsure(), pinned={"A": "m0", "B": "m2"})
    assert lines(schedule)["move"][3] == 305
    assert 300 < found.makespan_p90_s < 300 + 2 * (5 + 5 / 1.5)


def test_shares_of_one_machine_have_a_common_uncertainty_factor():
    # Both layers on shares of one machine, or each on its own machine.
    tasks = {
        "dock": {"sweep": {"k": "1..4"}, "work": 10, "service": "dock"},
        "score": {"sweep": {"k": "1..4"}, "work": 10, "service": "score", "after": "dock"},
    }
    shared = platform(
        {"nodes": 2, "services": ("dock", "score")},
        virtual=(Share(machine="m0", service="dock", nodes=1), Share(machine="m0", service="score", nodes=1)),
    )
    own = platform({"services": ("dock",)}, {"services": ("score",)})
    ratios = []
    for where in (shared, own):
        _, _, found = outlook_for(tasks, where, Unsure(other=2.0))
        ratios.append(found.makespan_p90_s / found.makespan_p50_s)
    assert ratios[0] > ratios[1] * 1.05


def test_cost_of_a_task_is_multiplied_by_its_nodes():
    where = platform({"nodes": 4, "price_per_node_hour": 3600.0})
    schedule, _, found = outlook_for({"a": {"work": 10, "nodes": 4}}, where, Unsure())
    assert schedule.makespan_s == 10
    assert found.cost_p90 == pytest.approx(4 * found.makespan_p90_s)
    assert found.cost_p50 == pytest.approx(4 * found.makespan_p50_s)


def test_all_iterations_of_a_sample_have_the_same_durations():
    tasks = {"a": {"work": 5}, "b": {"work": 20, "after": "a"}, "c": {"work": 7, "after": "b"}}
    once = {"last": "b", "first": "b", "until": "b.exit_code == 0", "max_iterations": 9}
    where = platform({"price_per_node_hour": 3600.0})
    _, _, plain = outlook_for(tasks, where, Unsure())
    assert (plain.total_p50_s, plain.total_p90_s) == (plain.makespan_p50_s, plain.makespan_p90_s)
    assert (plain.total_cost_p50, plain.total_cost_p90) == pytest.approx((plain.cost_p50, plain.cost_p90))
    _, _, found = outlook_for(tasks, where, Unsure(), loops={"l": once | {"expect": 4}})
    assert (found.makespan_p50_s, found.makespan_p90_s) == (plain.makespan_p50_s, plain.makespan_p90_s)
    # On one machine the time of all iterations is the sum of their tasks, and so is the cost.
    assert (found.total_p50_s, found.total_p90_s) == pytest.approx(
        (found.total_cost_p50, found.total_cost_p90)
    )
    only_b = {"b": {"work": 80}, "rest": {"work": 12, "after": "b"}}
    assert found.total_p50_s == pytest.approx(92, rel=0.1)
    _, _, like = outlook_for(only_b, where, Unsure())
    assert found.total_p90_s == pytest.approx(like.makespan_p90_s, rel=0.12)


class TestEndToEnd:
    """``weft.plan`` with predictors that return a spread."""

    def test_interpolated_duration_has_a_spread(self):
        flow = weft.Builder("measured")
        solve = flow.task("solve", sweep={"size": [100, 150, 200]}, nodes=[1, 2, 4])
        flow.task("collect", after=solve, work=10)
        table = PerformanceTable({"solve": {100: {1: 90, 4: 30}, 200: {1: 400, 4: 120}}}, size="size")
        found = weft.plan(flow.build(), on="cluster:8", planner="heft", predictor=table)
        record = found.as_record()
        assert record["estimate_sources"] == {"interpolated": 3, "work/speed": 1}
        assert record["makespan_s"] < record["makespan_p50_s"] < record["makespan_p90_s"]
        assert "the spread of 1 of 4 tasks is unknown: their times count as exact" in record["notes"]
        assert dict(plan_facts(found))["makespan"].endswith(")")
        assert " (P90 " in dict(plan_facts(found))["makespan"]

    def test_residuals_of_a_regression_give_a_spread(self):
        sizes = np.array([10.0, 20, 30, 40, 50, 60])
        noisy = 3 * sizes + np.array([4, -6, 5, -5, 6, -4.0])
        fitted = fit(sizes, noisy)
        flow = workflow({"a": {"sweep": {"n": [35]}, "command": "./a"}})
        found = weft.plan(
            flow,
            on=platform({"price_per_node_hour": 3600.0}),
            predictor=Regression(fits={"a": fitted}, parameter="n"),
        )
        assert found.makespan_s == pytest.approx(float(fitted.predict(35)))
        assert found.outlook.makespan_p90_s == pytest.approx(float(fitted.p90(35)), rel=0.03)
        assert found.outlook.cost_p90 == pytest.approx(found.outlook.makespan_p90_s)
        assert found.estimate_sources == {"regression": 1}
        assert found.notes == []
        assert " (P90 " in dict(plan_facts(found))["cost"]

    def test_spread_does_not_change_the_plan(self):
        sure = weft.plan(workflow(FORK), on=UNLIKE, planner="heft")
        unsure = weft.plan(workflow(FORK), on=UNLIKE, planner="heft", predictor=Unsure())
        assert lines(sure.schedule) == lines(unsure.schedule)
        assert unsure.outlook.makespan_p90_s > sure.outlook.makespan_p90_s == sure.makespan_s

    def test_exact_and_uncertain_estimates_are_counted_separately(self):
        ratios = {"prepare": 2.0}
        found = weft.plan(workflow(FORK), on=UNLIKE, planner="heft", predictor=Unsure(ratios, None))
        assert found.notes == ["the spread of 10 of 11 tasks is unknown: their times count as exact"]
        assert found.outlook.makespan_p90_s > found.makespan_s
