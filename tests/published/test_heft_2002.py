"""HEFT's own example: H. Topcuoglu, S. Hariri, M.-Y. Wu, IEEE TPDS 13(3), 2002, figure 2 and table 1."""

from __future__ import annotations

import json

import numpy as np
import pytest

from planning_examples import instance, lines, matrix_tasks, planned, processors
from weft.planners.ranks import upward_ranks
from weft.schedule.bounds import lower_bounds
from weft.schedule.verification import verify

SECONDS = [
    (14, 16, 9), (13, 19, 18), (11, 13, 19), (13, 8, 17), (12, 13, 10),
    (13, 16, 9), (7, 15, 11), (5, 11, 14), (18, 12, 20), (21, 7, 16),
]  # fmt: skip
COMMUNICATION = {
    (1, 2): 18, (1, 3): 12, (1, 4): 9, (1, 5): 11, (1, 6): 14, (2, 8): 19, (2, 9): 16, (3, 7): 23,
    (4, 8): 27, (4, 9): 23, (5, 9): 13, (6, 8): 15, (7, 10): 17, (8, 10): 11, (9, 10): 13,
}  # fmt: skip
RANKS = [108, 77, 80, 80, 69, 63.333, 42.667, 35.667, 44.333, 14.667]
SCHEDULE = {
    "n1": ("P3", 0, 9), "n2": ("P1", 27, 40), "n3": ("P3", 9, 28), "n4": ("P2", 18, 26), "n5": ("P3", 28, 38),
    "n6": ("P2", 26, 42), "n7": ("P3", 38, 49), "n8": ("P1", 57, 62), "n9": ("P2", 56, 68),
    "n10": ("P2", 73, 80),
}  # fmt: skip


@pytest.fixture(scope="module")
def example():
    return instance(matrix_tasks(SECONDS, COMMUNICATION), processors(3))


def test_upward_ranks_equal_the_published_ranks(example):
    ranks = dict(zip(example.graph.names, upward_ranks(example).tolist(), strict=True))
    assert [ranks[f"n{index}"] for index in range(1, 11)] == pytest.approx(RANKS, abs=1e-3)


def test_every_task_of_the_heft_schedule_is_placed_as_published(example):
    schedule = planned(example)
    found = {task: (machine, start, finish) for task, (machine, _, start, finish) in lines(schedule).items()}
    assert found == SCHEDULE
    assert schedule.makespan_s == 80
    assert verify(schedule, example.graph, example.platform) == []


def test_lower_bound_of_the_heft_example_is_not_above_the_optimum(example):
    assert 0 < lower_bounds(example).best_s <= 73


def test_expected_figures_of_heft_equal_the_data_set(bench_data):
    facts = json.loads((bench_data / "papers" / "published.json").read_text())["heft2002"]
    assert facts["published_makespan"]["HEFT"] == 80
    assert facts["upward_rank"] == RANKS
    assert {
        f"n{int(k) + 1}": (f"P{p + 1}", s, e) for k, (p, s, e) in facts["heft_schedule"].items()
    } == SCHEDULE
    table = np.genfromtxt(bench_data / "papers" / "heft2002_task_exe_time.csv", delimiter=",", skip_header=1)
    assert [tuple(row) for row in table[:, 1:]] == SECONDS
