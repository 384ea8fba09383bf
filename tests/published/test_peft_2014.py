"""The example of PEFT, under PEFT and HEFT: H. Arabnejad, J. G. Barbosa, IEEE TPDS 25(3), 2014, figure 1."""

from __future__ import annotations

import json

import pytest

from planning_examples import instance, lines, matrix_tasks, planned, processors
from weft.schedule.bounds import lower_bounds
from weft.schedule.verification import verify

SECONDS = [
    (22, 21, 36), (22, 18, 18), (32, 27, 43), (7, 10, 4), (29, 27, 35),
    (26, 17, 24), (14, 25, 30), (29, 23, 36), (15, 21, 8), (13, 16, 33),
]  # fmt: skip
COMMUNICATION = {
    (1, 2): 17, (1, 3): 31, (1, 4): 29, (1, 5): 13, (1, 6): 7, (2, 8): 3, (2, 9): 30, (3, 7): 16,
    (4, 8): 11, (4, 9): 7, (5, 9): 57, (6, 8): 5, (7, 10): 9, (8, 10): 42, (9, 10): 7,
}  # fmt: skip
SCHEDULE = {
    "n1": ("P1", 0, 22), "n2": ("P1", 29, 51), "n3": ("P1", 51, 83), "n4": ("P1", 22, 29), "n5": ("P3", 35, 70),
    "n6": ("P2", 29, 46), "n7": ("P1", 83, 97), "n8": ("P2", 54, 77), "n9": ("P3", 81, 89),
    "n10": ("P2", 106, 122),
}  # fmt: skip


@pytest.fixture(scope="module")
def example():
    return instance(matrix_tasks(SECONDS, COMMUNICATION), processors(3))


def test_makespan_of_heft_is_133_as_published(example):
    schedule = planned(example)
    assert schedule.makespan_s == 133
    assert verify(schedule, example.graph, example.platform) == []


def test_every_task_of_the_peft_schedule_is_placed_as_published(example):
    schedule = planned(example, "peft")
    found = {task: (machine, start, finish) for task, (machine, _, start, finish) in lines(schedule).items()}
    assert found == SCHEDULE
    assert schedule.makespan_s == 122
    assert verify(schedule, example.graph, example.platform) == []


def test_lower_bound_of_the_peft_example_is_not_above_the_optimum(example):
    assert 0 < lower_bounds(example).best_s <= 113


def test_expected_figures_of_peft_equal_the_data_set(bench_data):
    facts = json.loads((bench_data / "papers" / "published.json").read_text())["peft2014"]
    assert facts["published_makespan"] == {"PEFT": 122, "HEFT": 133}
    assert {
        f"n{int(k) + 1}": (f"P{p + 1}", s, e) for k, (p, s, e) in facts["peft_schedule"].items()
    } == SCHEDULE
