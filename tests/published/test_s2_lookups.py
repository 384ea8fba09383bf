"""The measured seconds of simulation and processing tasks that the reference figures use (A2.1, A2.2)."""

from __future__ import annotations

import json

import numpy as np
import pytest

from weft.platform.machine import Machine
from weft.predictors.performance import PerformanceTable
from weft.predictors.predictor import task_features
from weft.workflow.builder import Builder
from weft.workflow.unfold import unfold


@pytest.fixture(scope="module")
def figures(spec_data):
    return json.loads((spec_data / "s2_perfdb_and_expected.json").read_text())


@pytest.fixture(scope="module")
def table(figures):
    processing = {files: {1: 60 + 8 * files, 2: 0.6 * (60 + 8 * files)} for files in range(1, 65)}
    simulation = dict(enumerate(figures["ST"], start=1))
    return PerformanceTable({"ST": {1: simulation}, "PT": processing}, size="n")


def test_every_measured_time_is_looked_up_exactly(figures, table):
    counts = np.arange(1, 37)
    assert table.seconds("ST", 1, counts).tolist() == figures["ST"]
    assert table.seconds("PT", [3, 7, 31], 1).tolist() == [84, 116, 308]
    assert table.seconds("PT", [3, 7, 31], 2).tolist() == pytest.approx([50.4, 69.6, 184.8])


def test_best_counts_and_limits_equal_those_of_the_paper(table):
    assert table.best("ST", 1) == 35
    assert table.best("PT", 2) == 2
    assert table.limit("ST", 1) == 36
    assert table.efficiency("ST", 1, 35) == pytest.approx(0.57, abs=0.005)


def test_node_counts_beyond_the_limit_have_no_estimate(table):
    assert table.lookup("ST", 1, 37) is None
    assert table.lookup("PT", 2, 3) is None


@pytest.mark.parametrize("case", ["local", "all_one", "ST4_PT1"])
@pytest.mark.parametrize("name", ["tree7", "barrier8", "tree15", "barrier16"])
def test_node_seconds_of_the_reference_runs_follow_from_the_table(figures, table, name, case):
    fixture = figures["workflows"][name]
    counts = fixture[case].get("R", [1] * len(fixture["kinds"]))
    spent = [
        nodes * table.lookup("ST" if kind == "S" else "PT", files if kind == "P" else 1, nodes).p50_s
        for kind, files, nodes in zip(fixture["kinds"], fixture["inputs"], counts, strict=True)
    ]
    assert sum(spent) == pytest.approx(fixture[case]["cost"], rel=1e-6)


def test_a_task_of_a_workflow_is_looked_up_by_kind_and_size(table):
    flow = Builder("two kinds")
    flow.task("ST", nodes="1..36", sweep={"n": [1]})
    flow.task("PT", nodes="1..2", sweep={"n": [2, 7]}, after="ST")
    graph = unfold(flow.build())
    requested = [
        table.predict(task_features(graph, task), Machine(name="c", nodes=64, speed=2), 2)
        for task in range(3)
    ]
    assert [estimate.p50_s for estimate in requested] == pytest.approx([1073.3333333 / 2, 45.6 / 2, 69.6 / 2])
    assert {estimate.source for estimate in requested} == {"measured"}
