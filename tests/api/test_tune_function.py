"""``weft.tune``: experiments on a user's workflow, references, determinism and stored runs."""

from __future__ import annotations

import json
import math

import pytest

import weft
from planning_examples import platform, workflow
from weft.planners.tuning import TuningGrid

TASKS = {f"t{index}": {"work": 1 + index % 4} for index in range(12)}
MACHINES = platform({}, {"speed": 2.0}, {"speed": 3.0})
PLANNER = "genetic:preset=s1-tuned,generations=15"
GRID = {"population": (6, 20), "elitist": (True, False)}


def tuned(**options):
    given = {"on": MACHINES, "planner": PLANNER, "grid": GRID, "repeat": 4} | options
    return weft.tune(workflow(TASKS), **given)


def test_every_experiment_is_measured():
    found = tuned()
    assert [dict(one.options) for one in found.experiments] == [
        {"population": population, "elitist": elitist} for population in (6, 20) for elitist in (True, False)
    ]
    for one in found.experiments:
        assert len(one.values) == len(one.first_values) == len(one.visited) == 4
        assert all(value <= first for value, first in zip(one.values, one.first_values, strict=True))
        assert all(visited <= one.options["population"] * 15 for visited in one.visited)
        precision = [100 * (value / found.reference_value - 1) for value in one.values]
        assert found.precision(one).mean == pytest.approx(math.fsum(precision) / 4)
        improvement = [100 * (a / b - 1) for a, b in zip(one.first_values, one.values, strict=True)]
        assert found.improvement(one).mean == pytest.approx(math.fsum(improvement) / 4)
    assert found.reference_value == min(min(one.values) for one in found.experiments)
    assert max(map(found.success, found.experiments)) >= 25
    assert found.mean_loss(found.ranked[0]) <= found.mean_loss(found.ranked[-1])


def test_results_depend_on_the_seed_and_not_on_workers():
    first, again, other = tuned(), tuned(workers=2), tuned(seed=1)
    assert first.as_record() == again.as_record()
    assert first.as_record() != other.as_record()
    assert tuned(repeat=2).experiments[0].values == first.experiments[0].values[:2]


def test_mean_of_an_option_value_covers_all_experiments_with_that_value():
    found = tuned()
    by_value = {(name, value): (number, mean) for name, value, number, mean in found.by_value()}
    small = [sum(one.values) / 4 for one in found.experiments if one.options["population"] == 6]
    assert by_value["population", 6] == (2, pytest.approx(sum(small) / 2))
    assert set(by_value) == {("population", 6), ("population", 20), ("elitist", True), ("elitist", False)}


@pytest.mark.parametrize(
    ("reference", "expected"), [("bound", 30 / 6), (4.5, 4.5), ("4.5", 4.5), ("heft", None)]
)
def test_reference_is_a_bound_a_number_or_the_plan_of_a_planner(reference, expected):
    found = tuned(grid=None, repeat=2, reference=reference)
    if expected is None:
        expected = weft.plan(workflow(TASKS), on=MACHINES, planner="heft").makespan_s
    assert found.reference_value == pytest.approx(expected)
    assert len(found.experiments) == 1


def test_tuning_runs_stop_at_the_reference_and_count_as_successful_within_the_tolerance():
    whole = tuned(grid=None, repeat=3)
    found = tuned(grid=None, repeat=3, reference=whole.reference_value * 1.05, stop_at_reference=True)
    (one,), (all_of_it,) = found.experiments, whole.experiments
    assert max(one.values) <= max(all_of_it.first_values)
    assert sum(one.visited) < sum(all_of_it.visited)
    wide = tuned(grid=None, repeat=3, reference=whole.reference_value, tolerance=10.0)
    assert wide.success(wide.experiments[0]) == 100


def test_other_objectives_can_be_tuned():
    found = tuned(grid=None, repeat=2, objective="makespan + 10*machines_used")
    (one,) = found.experiments
    assert found.objective == "makespan + 10 * machines_used"
    assert min(one.values) >= 10
    maximised = tuned(grid=None, repeat=2, objective="speedup")
    (one,) = maximised.experiments
    assert maximised.maximised
    assert maximised.best_value == max(one.values)
    assert maximised.precision(one).least >= 0
    assert all(value >= first for value, first in zip(one.values, one.first_values, strict=True))


def test_precision_and_improvement_are_none_for_negative_values():
    found = tuned(grid=None, repeat=2, objective="-machines_used - makespan/1000")
    (one,) = found.experiments
    assert (found.precision(one), found.improvement(one)) == (None, None)
    assert found.best_value < 0
    json.dumps(found.as_record())


def test_stored_runs_are_reused_until_the_problem_changes(tmp_path):
    first = tuned(folder=tmp_path)
    again = tuned(folder=tmp_path, repeat=5)
    assert (first.reused, again.reused) == (0, 16)
    assert again.experiments[0].values[:4] == first.experiments[0].values
    assert tuned(folder=tmp_path, objective="cost + makespan").reused == 0
    assert tuned(folder=tmp_path, fresh=True).reused == 0
    assert weft.tune(workflow(TASKS | {"more": {"work": 1}}), on=MACHINES, planner=PLANNER, repeat=1,
                     folder=tmp_path).reused == 0  # fmt: skip


@pytest.mark.parametrize("planner", ["genetic:population=10,generations=3", "annealing:steps=200"])
def test_all_planners_with_an_encoding_can_be_tuned(planner):
    (one,) = tuned(planner=planner, grid=None, repeat=2).experiments
    assert min(one.values) > 0


def test_success_rate_is_measured_for_moldable_tasks():
    law = {"seconds": {1: 8, 2: 5, 3: 3, 4: 4}}
    flow = workflow({f"s{index}": {"nodes": [1, 2, 3, 4], "speedup": law} for index in range(4)})
    planner = "moldable-genetic:preset=s2-recommended,queue=fifo,generations=60"
    grid = TuningGrid(options={"selection": ("steady-state", "rank")})
    found = weft.tune(flow, on="cluster:8", planner=planner, grid=grid, repeat=3, objective="local",
                      reference="local-optimum", stop_at_reference=True)  # fmt: skip
    assert found.reference_value == 12.0
    assert found.success(found.experiments[0]) == 100


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"repeat": 0}, "repetitions: 0; must be at least 1"),
        ({"seed": -1}, "seed: -1"),
        ({"tolerance": -0.1}, "a tolerance of -0.1"),
        ({"planner": "heft"}, "'heft' is not an optimiser"),
        ({"planner": "moldable-genetic", "grid": None}, "supports one machine, not 3"),
        ({"reference": "hefd"}, "unknown planner 'hefd'"),
        ({"reference": "bound", "objective": "cost"}, "'cost' has no lower bound"),
        ({"stop_at_reference": True}, "known only after the last run"),
        ({"grid": "nothing.yaml"}, "no file 'nothing.yaml'"),
        ({"workers": 0}, "0 workers"),
    ],
)
def test_invalid_options_are_refused(options, problem):
    with pytest.raises(weft.InvalidInput, match=problem):
        tuned(**options)
