"""CPOP on its own example: H. Topcuoglu, S. Hariri, M.-Y. Wu, IEEE TPDS 13(3), 2002, figure 2 and section 4.2."""

from __future__ import annotations

import csv
import json

import pytest

from planning_examples import instance, lines, matrix_tasks, planned, processors
from weft.planners.cpop import critical_tasks
from weft.planners.ranks import downward_ranks, upward_ranks
from weft.schedule.verification import verify


@pytest.fixture(scope="module")
def folder(bench_data):
    return bench_data / "papers"


@pytest.fixture(scope="module")
def example(folder):
    """Read the example: seconds per task and processor, communication per edge."""
    seconds, edges = (
        [[float(cell) for cell in row[1:]] for row in _rows(folder / f"heft2002_{name}.csv")]
        for name in ("task_exe_time", "task_connectivity")
    )
    communication = {
        (before, after): cost
        for before, row in enumerate(edges, start=1)
        for after, cost in enumerate(row, start=1)
        if cost > 0
    }
    return instance(matrix_tasks(seconds, communication), processors(3))


def _rows(path):
    with path.open() as text:
        return list(csv.reader(text))[1:]


def test_makespan_of_cpop_is_86_as_published(example, folder):
    facts = json.loads((folder / "published.json").read_text())["heft2002"]
    schedule = planned(example, "cpop")
    assert schedule.makespan_s == facts["published_makespan"]["CPOP"] == 86
    assert verify(schedule, example.graph, example.platform) == []


def test_critical_path_is_n1_n2_n9_n10_on_the_second_processor(example):
    upward = upward_ranks(example)
    path = critical_tasks(example, upward)
    assert [example.graph.names[task] for task in path] == ["n1", "n2", "n9", "n10"]
    priority = upward + downward_ranks(example)
    assert priority[path] == pytest.approx(108)
    assert priority.max() == pytest.approx(108)
    found = lines(planned(example, "cpop"))
    assert {found[name][0] for name in ("n1", "n2", "n9", "n10")} == {"P2"}
