"""A short dynamic evaluation: migration under perturbations (A1.9), a loop with one violation (A1.10).

R. Prodan, T. Fahringer, SAC 2005; docs/papers/dynamic-grid.md, sections 13 and 15. ``weft reproduce
s1-dynamic`` has all seeds and the genetic search; here a few runs planned by HEFT must stay within the same
tolerances.
"""

from __future__ import annotations

from statistics import fmean

import pytest

from weft.papers.dynamic_grid_migration import MigrationStudy
from weft.randomness import generator

RUNS = 4


def measured(name, runs):
    cell = next(cell for cell in MigrationStudy().cells(full=False) if cell.name == name)
    return [
        MigrationStudy().run(cell, generator(2, "published", name, str(number))) for number in range(runs)
    ]


@pytest.fixture(scope="module")
def perturbed():
    return measured("DAG1 heft", RUNS)


def test_a1_9_migration_shortens_the_run(perturbed):
    assert all(found["completed"] for found in perturbed)
    assert fmean(found["migration_gain"] for found in perturbed) >= 1.4
    assert fmean(found["checkpoints_gain"] for found in perturbed) >= 1.4


def test_a1_9_makespan_is_close_to_the_first_prediction(perturbed):
    assert 1.2 <= fmean(found["migration_over_predicted"] for found in perturbed) <= 2.5


def test_a1_9_rescheduling_costs_less_than_replicated_work(perturbed):
    assert all(found["rescheduling_percent"] < 10.0 for found in perturbed)
    assert all(found["replicated_percent"] > 0.0 for found in perturbed)


def test_migration_saves_more_time_if_completed_tasks_are_not_repeated(perturbed):
    assert fmean(found["lost_gain"] for found in perturbed) > fmean(
        found["migration_gain"] for found in perturbed
    )


def test_the_predicted_remaining_time_decreases_at_every_event(perturbed):
    assert fmean(found["falling_percent"] for found in perturbed) > 80.0


def test_a1_10_loop_completes_all_its_iterations():
    for found in measured("one violation", 2):
        assert (found["completed"], found["iterations"]) == (1.0, 3.0)
        assert found["iteration_spread"] <= 1.5
        assert found["migrations"] >= 1
