"""The dynamic-grid experiments: testbed and workflow equal the reference data, the grid has 2,880 points."""

from __future__ import annotations

import json
import math

import pytest

from published.wien2k import grid_of
from published.wien2k import wien2k as reference_workflow
from weft.papers.dynamic_grid import FAST_MACHINES, grid_testbed, lapw1_stage, wien2k
from weft.papers.dynamic_grid_migration import MigrationStudy
from weft.papers.dynamic_grid_tuning import (
    FACTORS,
    GRID,
    TRENDS,
    VARIANTS,
    TuningStudy,
    grid_cells,
    measure_operators,
    reference_s,
)
from weft.papers.reproduction import Results
from weft.randomness import generator
from weft.workflow.unfold import unfold


def test_generated_testbed_equals_the_testbed_of_the_reference_data(spec_data):
    facts = json.loads((spec_data / "s1_testbed.json").read_text())
    assert grid_testbed() == grid_of(facts)


def test_the_testbed_has_the_properties_stated_in_the_paper():
    machines = grid_testbed().machines
    assert len(machines) == 314
    assert [machine.speed for machine in machines[:FAST_MACHINES]] == [3e9] * 16
    assert max(machine.speed for machine in machines[FAST_MACHINES:]) < 2e9


def test_generated_workflow_equals_the_workflow_of_the_reference_data():
    ours, theirs = unfold(wien2k(shared=True)), unfold(reference_workflow())
    assert ours.names == theirs.names
    assert ours.variables == theirs.variables
    assert len(ours.variables) == 56
    assert len(unfold(wien2k(shared=False)).variables) == 106


@pytest.mark.parametrize(
    "flow", [wien2k(shared=True, watched=True), lapw1_stage(restartable=True)], ids=["DAG1", "LAPW1"]
)
def test_contracts_of_tasks_equal_those_of_the_paper(flow):
    owed = [task.recovery.contract for task in flow.tasks]
    assert {(contract.factor, contract.grace_s) for contract in owed} == {(0.5, 0.0)}
    assert all(task.recovery.progress is not None for task in flow.tasks)


@pytest.mark.parametrize(
    ("full", "judged"),
    [(False, ["LAPW1 genetic", "DAG1 heft"]), (True, ["LAPW1 genetic", "DAG1 heft", "DAG1 genetic"])],
)
def test_cells_judged_in_acceptance_row_a1_9_have_ten_runs(full, judged):
    cells = MigrationStudy().cells(full=full)
    assert {cell.name: cell.runs for cell in cells if cell.name.startswith(("LAPW1", "DAG1"))} == (
        dict.fromkeys(judged, 10)
    )
    rows = MigrationStudy().rows(
        Results({cell.name: [Same(value=1.0)] * cell.runs for cell in cells}), full=full
    )
    perturbed = [row for row in rows if row.accepts == "A1.9" and "perturbed" in row.table]
    assert {row.runs for row in perturbed} == {10}
    assert len({row.table for row in perturbed}) == len(judged)


def test_rescheduling_share_is_shown_for_serial_and_for_parallel_evaluation_of_points():
    cells = MigrationStudy().cells(full=False)
    rows = MigrationStudy().rows(Results({cell.name: [Same(value=1.0)] for cell in cells}), full=False)
    costs = [row for row in rows if row.table.startswith("LAPW1") and "per point" in row.figure]
    assert [row.figure.partition(" at ")[2].partition(" per")[0] for row in costs] == [
        "7 ms / 59", "7 ms / 16", "7 ms",
    ]  # fmt: skip
    assert [row.accepts for row in costs] == ["A1.9", "", ""]
    assert "serial" in costs[-1].figure


def test_loop_experiments_are_planned_by_heft_and_by_the_genetic_search():
    cells = {cell.name for cell in MigrationStudy().cells(full=False)}
    assert {"DG heft", "DG genetic", "one violation", "one violation, genetic"} <= cells


class Same(dict):
    """Measures that all have the same value."""

    def __missing__(self, key):
        return self["value"]

    def __contains__(self, key):
        return True


def test_computed_reference_time_matches_the_reference_data(spec_data):
    values = json.loads((spec_data / "s1_expected.json").read_text())["values"]
    assert reference_s() == pytest.approx(values["round_robin_16_fast"]["exclusive"], rel=1e-9)


def test_the_grid_has_2880_experiments_of_30_runs():
    cells = grid_cells()
    assert len(cells) == math.prod(map(len, GRID.values())) == 2880
    assert {cell.runs for cell in cells} == {30}
    assert len({tuple(cell.settings.values()) for cell in cells}) == 2880
    assert cells[0].name == (
        "population=50 crossover_rate=0.4 mutation_rate=0.001 generations=100 steady_share=0.1 "
        "scaling=1.0 elitist=False"
    )


def test_quick_tuning_study_has_one_cell_per_value_of_a_factor():
    names = [cell.name for cell in TuningStudy().cells(full=False)]
    alone = sum(len(factor.others) for factor in FACTORS)
    assert len(names) == 2 + alone + len(VARIANTS)
    for trend in TRENDS:
        assert f"{trend.setting}={trend.value}" in names


def test_measured_operators_include_both_cases_of_fitness_scaling():
    found = measure_operators(generator(3, "operators"))
    assert min(found["usual"], found["other"]) > 50


def rows_with(precision):
    """Return the rows of the full experiment; the precision of a cell is a function of its settings."""
    cells = TuningStudy().cells(full=True)
    measures = {
        "improvement_percent": 600.0, "visited": 70_000, "generation_of_best": 400, "best_deviation": 0.0,
        "mean_deviation": 0.0, "worst_deviation": 0.0, "parents_deviation": 0.0, "copies_missing": 0.0,
        "usual": 1, "other": 1,
    }  # fmt: skip
    results = Results({
        cell.name: [measures | {"precision_percent": precision(cell.settings)}] for cell in cells
    })  # fmt: skip
    return TuningStudy().rows(results, full=True)


def test_grid_rows_are_means_over_all_experiments_with_the_same_value():
    rows = rows_with(lambda settings: settings.get("population", 150) + 10.0 * settings.get("elitist", True))
    found = {(row.table, row.figure): row.ours for row in rows}
    grid = "P, mean of the grid by "
    assert found[f"{grid}population", "population 50"] == 55.0
    assert found[f"{grid}elitist", "elitist no"] == 125.0
    assert found[f"{grid}elitist", "elitist yes"] == 135.0
    (best,) = [row for row in rows if row.table == "P, best experiment of the grid"]
    assert (best.ours, best.figure.split()[0], best.figure.split()[-1]) == (
        50.0,
        "population=50",
        "elitist=False",
    )
    trends = {row.figure: row.ours for row in rows if row.accepts == "A1.8"}
    assert trends["population 50"] == pytest.approx(60 / 160)
    assert trends["generations at most 100"] == 1.0


def test_ratio_rows_have_a_verdict_if_the_chosen_settings_are_better_than_the_reference_time():
    rows = rows_with(lambda settings: -1.0 if not settings else 5.0)
    assert {row.within for row in rows if row.accepts == "A1.8"} == {True}
    rows = rows_with(lambda settings: -1.0)
    assert {row.within for row in rows if row.accepts == "A1.8"} == {False}
