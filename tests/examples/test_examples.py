"""Every example can be read, planned and run unchanged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import weft
from patience import PATIENCE_S
from weft.backends.simulation.scenario_checks import check_scenario
from weft.backends.simulation.scenario_reader import load_arrival_workflows, load_scenario

EXAMPLES = Path(__file__).parents[2] / "examples"
PLATFORMS = {
    "dask-machines.yaml", "grid.yaml", "local-machines.yaml", "mixed-machines.yaml", "shares.yaml", "slurm-machines.yaml",
    "ssh-machines.yaml",
}  # fmt: skip
BROKEN = {"broken.yaml"}
SCENARIOS = {"scenario.yaml"}
WORKFLOWS = sorted(
    path.name for path in EXAMPLES.glob("*.yaml") if path.name not in PLATFORMS | BROKEN | SCENARIOS
)
ON = {"pipeline.yaml": "shares.yaml"}
"""Workflows that are written for a platform of their own; the others run on the grid."""


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_is_planned_and_its_schedule_verifies(name):
    planned = weft.plan(EXAMPLES / name, on=EXAMPLES / ON.get(name, "grid.yaml"), plan_steps=100)
    assert planned.verify() == []
    assert 0 < planned.lower_bound_s <= planned.makespan_s
    assert "assumed" not in planned.estimate_sources, "an example states the durations of its tasks"


@pytest.mark.parametrize("name", sorted(PLATFORMS))
def test_every_example_platform_can_be_read(name):
    assert weft.load_platform(EXAMPLES / name).machines


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_a_scenario_names_existing_machines_and_tasks(name):
    scenario = load_scenario(EXAMPLES / name)
    workflows = load_arrival_workflows(scenario)
    check_scenario(scenario, weft.load_platform(EXAMPLES / "grid.yaml"), workflows)
    assert workflows


def test_the_broken_example_reports_all_problems():
    with pytest.raises(weft.InvalidInput) as caught:
        weft.load_workflow(EXAMPLES / "broken.yaml")
    assert [problem.location.line for problem in caught.value.problems] == [5, 8, 9]


def test_the_python_example_prints_its_plan():
    script = EXAMPLES / "build_in_python.py"
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    head, *lines = done.stdout.splitlines()
    assert "above the optimum" in head
    assert [line.split()[0] for line in lines] == [
        "prepare",
        "run[1]",
        "run[2]",
        "run[3]",
        "run[4]",
        "collect",
    ]


def test_every_example_file_is_tested():
    assert {path.name for path in EXAMPLES.iterdir() if path.is_file()} == {
        *WORKFLOWS,
        *PLATFORMS,
        *BROKEN,
        *SCENARIOS,
        "build_in_python.py",
    }
