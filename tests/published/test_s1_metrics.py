"""The worked example of the eight metrics (Prodan and Fahringer 2005; docs/papers/dynamic-grid.md, A1.11).

JS1 on M1 sends 50 MB to JS2 on M2 and 10 MB to JS3 on M3; JS3 sends 20 MB to JS4 on M2, which follows JS2.
"""

from __future__ import annotations

import pytest

from planning_examples import instance, lines, planned
from weft.platform.machine import Machine
from weft.platform.platform import Link, Platform
from weft.schedule.metrics import critical_path, measure_schedule
from weft.schedule.verification import verify

TASKS = {
    "JS1": {"work": 100, "machine": "M1", "outputs": ["a", "b"]},
    "FT12": {"kind": "transfer", "from_": "M1", "to": "M2", "file": "a", "size": "50MB", "after": "JS1"},
    "JS2": {"work": 200, "machine": "M2", "after": "FT12"},
    "FT13": {"kind": "transfer", "from_": "M1", "to": "M3", "file": "b", "size": "10MB", "after": "JS1"},
    "JS3": {"work": 60, "machine": "M3", "after": "FT13", "outputs": ["c"]},
    "FT34": {"kind": "transfer", "from_": "M3", "to": "M2", "file": "c", "size": "20MB", "after": "JS3"},
    "JS4": {"work": 40, "machine": "M2", "after": ["JS2", "FT34"]},
}
GRID = Platform(
    machines=(Machine(name="m1", speed=10), Machine(name="m2", speed=20), Machine(name="m3", speed=10)),
    default_link=Link(bandwidth_Bps=10e6),
)
ENDS = {"JS1": 10, "FT12": 15, "JS2": 25, "FT13": 11, "JS3": 17, "FT34": 19, "JS4": 27}


@pytest.fixture(scope="module")
def example():
    made = instance(TASKS, GRID, pinned={"M1": "m1", "M2": "m2", "M3": "m3"})
    return made, planned(made)


def test_task_ends_equal_the_example(example):
    made, schedule = example
    assert {task: finish for task, (_, _, _, finish) in lines(schedule).items()} == ENDS
    assert verify(schedule, made.graph, GRID) == []


@pytest.mark.parametrize("through_machines", [False, True])
def test_metrics_equal_the_example(example, through_machines):
    made, schedule = example
    found = measure_schedule(schedule, made, through_machines=through_machines)
    path = critical_path(schedule, made, through_machines=through_machines)
    assert [made.graph.names[task] for task in path] == ["JS1", "FT12", "JS2", "JS4"]
    assert found.makespan_s == 27
    assert found.sequential_s == 20
    assert found.speedup == pytest.approx(0.7407, abs=1e-4)
    assert found.efficiency == pytest.approx(0.2469, abs=1e-4)
    assert found.communication_s == 5
    assert found.synchronisation_s == 0
    assert found.overhead_s == pytest.approx(20.333, abs=1e-3)
    assert found.lost_parallelism_s == pytest.approx(15.333, abs=1e-3)
    # The paper has no formula: Const is twice the sequential time here.
    assert found.throughput == pytest.approx(0.5 * 20 / 27 / 3 + 0.5 * (1 - 27 / 40))
    assert found.machines_used == 3


@pytest.mark.parametrize("through_machines", [False, True])
def test_overhead_is_communication_synchronisation_and_lost_parallelism(through_machines):
    # One machine runs b and c one after the other: by data alone c waits (SY > 0), by machines it does not.
    made = instance(
        {
            "a": {"work": 10, "outputs": {"x": "10MB"}},
            "b": {"work": 50, "inputs": ["x"], "requirements": 'name == "m2"'},
            "c": {"work": 30, "inputs": ["x"], "requirements": 'name == "m2"'},
        },
        GRID,
    )
    schedule = planned(made)
    found = measure_schedule(schedule, made, through_machines=through_machines)
    parts = found.communication_s + found.synchronisation_s + found.lost_parallelism_s
    assert found.overhead_s == pytest.approx(parts)
    waiting = 0.0 if through_machines else 2.5
    assert found.synchronisation_s == pytest.approx(waiting)
