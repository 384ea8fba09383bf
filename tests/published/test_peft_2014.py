"""The example of PEFT under HEFT: H. Arabnejad, J. G. Barbosa, IEEE TPDS 25(3), 2014, figure 1."""

from __future__ import annotations

import json

import pytest

from planning_examples import instance, matrix_tasks, planned, processors
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


@pytest.fixture(scope="module")
def example():
    return instance(matrix_tasks(SECONDS, COMMUNICATION), processors(3))


def test_heft_needs_133_as_published(example):
    schedule = planned(example)
    assert schedule.makespan_s == 133
    assert verify(schedule, example.graph, example.platform) == []


def test_the_bound_lies_below_the_known_optimum(example):
    assert 0 < lower_bounds(example).best_s <= 113


def test_the_figure_here_is_that_of_the_data_set(bench_data):
    facts = json.loads((bench_data / "papers" / "published.json").read_text())["peft2014"]
    assert facts["published_makespan"]["HEFT"] == 133
