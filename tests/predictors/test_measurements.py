"""Predictions that users write: measured, interpolated, fitted, and refused with file and line."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import weft
from weft.errors import InvalidInput
from weft.formats.predictions import read_predictions
from weft.platform.machine import Machine
from weft.predictions import Prediction, make_prediction, write_prediction
from weft.predictors.measurements import Measurements
from weft.predictors.predictor import TaskFeatures
from weft.workflow.task import Amdahl

SLOW, FAST = Machine(name="slow", nodes=64), Machine(name="fast", speed=2.0, nodes=64)


def rows(*stated):
    return [Prediction(**{"kind": "sim", **each}) for each in stated]


def task(kind="sim", law=None, **parameters):
    return TaskFeatures(name=kind, kind=kind, parameters=parameters, law=law)


SCALING = rows({"nodes": 1, "seconds": 100.0}, {"nodes": 4, "seconds": 40.0}, {"nodes": 16, "seconds": 20.0})


def test_time_of_a_measured_node_count_is_the_measured_time_scaled_by_the_speed():
    table = Measurements(SCALING)
    found = table.predict(task(), SLOW, 4)
    assert (found.p50_s, found.source) == (40.0, "predictions")
    assert table.predict(task(), FAST, 4).p50_s == 20.0


def test_times_between_measured_counts_are_interpolated_in_log_log_space():
    found = Measurements(SCALING).predict(task(), SLOW, 2)
    assert found.p50_s == pytest.approx(math.sqrt(100.0 * 40.0))
    assert (found.p90_s, found.source) == (100.0, "interpolated")


def test_node_count_above_the_measured_counts_is_impossible():
    assert not Measurements(SCALING).predict(task(), SLOW, 17).possible


def test_single_measured_count_is_scaled_by_the_law_of_the_task():
    table = Measurements(rows({"seconds": 100.0}))
    assert table.predict(task(law=Amdahl(serial=0.0)), SLOW, 4).p50_s == 25.0
    assert table.predict(task(), SLOW, 4).p50_s == 100.0


def test_measurements_of_a_machine_take_precedence_on_it_and_are_not_scaled():
    table = Measurements([*SCALING, *rows({"machine": "fast", "seconds": 33.0})])
    assert table.predict(task(), FAST, 1).p50_s == 33.0
    assert table.predict(task(), SLOW, 1).p50_s == 100.0


SIZES = rows(*({"parameters": {"size": x}, "seconds": 2.0 * x} for x in (10.0, 20.0, 40.0)))


def test_times_are_interpolated_between_measured_parameters_and_fitted_outside_them():
    table = Measurements(SIZES)
    assert table.predict(task(size=20), SLOW, 1).source == "predictions"
    between = table.predict(task(size=30), SLOW, 1)
    assert (between.p50_s, between.source) == (pytest.approx(60.0), "interpolated")
    beyond = table.predict(task(size=400), SLOW, 1)
    assert (beyond.p50_s, beyond.source) == (pytest.approx(800.0), "fitted")
    assert table.predict(task(), SLOW, 1) is None
    assert table.predict(task(kind="other", size=20), SLOW, 1) is None


def test_repeated_rows_give_median_and_spread():
    table = Measurements(rows(*({"seconds": each} for each in (10.0, 11.0, 12.0, 13.0, 30.0))))
    found = table.predict(task(), SLOW, 1)
    assert found.p50_s == 12.0
    assert found.p90_s == pytest.approx(23.2)


def test_rows_with_different_columns_are_refused():
    with pytest.raises(InvalidInput, match="the same columns"):
        Measurements([*SIZES, *rows({"seconds": 1.0})])


def test_written_prediction_is_read_back_unchanged():
    row = Prediction(kind="a", machine="m", nodes=3, seconds=2.5, p90_seconds=3.0, parameters={"x": 4.0})
    assert make_prediction(write_prediction(row), "") == (row, [])


CSV = """# measured on 2 May
kind,machine,nodes,size,seconds,p90_seconds
sim,*,1,10,100,
sim,,4,10,40,55
post,fast,1,10,1m30s,
"""


def test_csv_file_is_read(tmp_path: Path):
    file = tmp_path / "measured.csv"
    file.write_text(CSV)
    found = read_predictions(file)
    assert [(row.kind, row.machine, row.nodes, row.seconds, row.p90_seconds) for row in found] == [
        ("sim", "*", 1, 100.0, None),
        ("sim", "*", 4, 40.0, 55.0),
        ("post", "fast", 1, 90.0, None),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind,seconds\na,-5\n", r":2: seconds is '-5'; must be a time above 0"),
        ("kind,seconds\na,\n", r":2: seconds is missing; must be a time above 0"),
        ("kind,size,seconds\na,,5\n", r":2: size is missing; must be a finite number"),
        ("kind,size,seconds\na,big,5\n", r":2: size is 'big'; must be a finite number"),
        ("kind,nodes,seconds\na,1.5,5\n", r":2: nodes is '1\.5'; must be a whole number"),
        ("kind,second\na,5\n", r":1: there is no column 'seconds'; rename column 'second'"),
        ("kind,seconds\na,5,6\n", r":2: 3 cells; the header has 2 columns"),
        ("kind,seconds,p90_seconds\na,5,4\n", r":2: p90_seconds 4 is below seconds 5"),
        ("", "no column 'kind'"),
        ("kind,seconds\n", "no predictions"),
    ],
)
def test_error_about_a_wrong_csv_file_names_line_value_and_rule(tmp_path: Path, text: str, message: str):
    file = tmp_path / "measured.csv"
    file.write_text(text)
    with pytest.raises(InvalidInput, match=message):
        read_predictions(file)


WORKFLOW = """
weft: 1
name: flow
params: {size: 10}
predictions: measured.csv
tasks:
  sim: {command: "true", nodes: [1, 4], work: 7, outputs: {raw: 5MB}}
  post: {command: "true", inputs: [raw], work: 3}
"""
GRID = "weft: 1\nmachines: {fast: {nodes: 4}}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flow.yaml").write_text(WORKFLOW)
    (tmp_path / "measured.csv").write_text(CSV)
    (tmp_path / "grid.yaml").write_text(GRID)
    return tmp_path


def test_plans_and_simulations_use_the_predictions_of_a_workflow(folder: Path):
    planned = weft.plan(folder / "flow.yaml", on=folder / "grid.yaml")
    assert planned.makespan_s == 130.0
    assert planned.estimate_sources == {"predictions": 2}
    assert planned.verify() == []
    simulated = weft.simulate(folder / "flow.yaml", on=folder / "grid.yaml", plan_steps=20)
    assert simulated.first.end_s == 130.0


def test_prediction_files_of_the_caller_take_precedence_over_the_workflow(folder: Path):
    better = folder / "better.yaml"
    better.write_text("weft: 1\npredictions:\n- {kind: post, size: 10, seconds: 5}\n")
    planned = weft.plan(folder / "flow.yaml", on=folder / "grid.yaml", predictions=better)
    assert planned.makespan_s == 45.0


def test_predictions_of_a_platform_are_used(folder: Path):
    (folder / "grid.yaml").write_text(GRID + "predictions: [{kind: post, machine: fast, seconds: 7}]\n")
    (folder / "flow.yaml").write_text(WORKFLOW.replace("predictions: measured.csv\n", ""))
    planned = weft.plan(folder / "flow.yaml", on=folder / "grid.yaml", planner="heft")
    assert planned.makespan_s == 14.0


def test_times_may_depend_on_the_bytes_of_the_inputs(folder: Path):
    lines = [f"post,{megabytes}000000,{3 * megabytes}" for megabytes in (1, 10)]
    (folder / "sized.csv").write_text("\n".join(["kind,input_bytes,seconds", *lines]) + "\n")
    planned = weft.plan(
        folder / "flow.yaml", on=folder / "grid.yaml", predictions=folder / "sized.csv", planner="heft"
    )
    assert planned.makespan_s == pytest.approx(40.0 + 15.0)


def test_column_that_is_no_parameter_is_refused(folder: Path):
    (folder / "measured.csv").write_text("kind,szie,seconds\nsim,10,5\n")
    with pytest.raises(InvalidInput, match=r"measured\.csv:2: column 'szie'.*did you mean 'size'"):
        weft.plan(folder / "flow.yaml", on=folder / "grid.yaml")
