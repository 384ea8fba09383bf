"""Work over speed, and the assumed work of tasks without an estimate."""

from __future__ import annotations

import pytest

from predictors.small_graphs import graph_of
from weft.platform.machine import Machine
from weft.predictors.predictor import TaskFeatures
from weft.predictors.seconds import RelatedSeconds
from weft.predictors.work import AssumedWork, WorkOverSpeed
from weft.workflow.task import Amdahl, CommunicationOverhead, MeasuredSeconds, Roofline, Task, TaskKind

FAST = Machine(name="fast", speed=2.5, availability=0.8, nodes=64, speeds={"dock": 5.0})


def seconds(work, law=None, nodes=1, service=None, machine=FAST):
    known = TaskFeatures(name="t", kind="t", work=work, law=law, counts=tuple(range(1, 65)), service=service)
    return WorkOverSpeed().predict(known, machine, nodes)


def test_seconds_are_work_over_speed_and_availability():
    assert seconds(100.0).p50_s == 50.0
    assert seconds(100.0).p90_s is None
    assert seconds(100.0).source == "work/speed"
    assert seconds(100.0, service="dock").p50_s == 25.0


@pytest.mark.parametrize(
    ("law", "nodes", "expected"),
    [
        (None, 4, 50.0),
        (Amdahl(serial=0.0), 4, 12.5),
        (Amdahl(serial=0.5), 2, 37.5),
        (Roofline(limit=4), 16, 12.5),
        (CommunicationOverhead(overhead=0.1), 2, 30.0),
        (MeasuredSeconds(seconds={1: 2100.0, 4: 560.0}), 4, 50.0 * 560 / 2100),
        (MeasuredSeconds(seconds={1: 2100.0, 4: 525.0}), 2, 25.0),
    ],
)
def test_duration_is_divided_by_the_speedup_law(law, nodes, expected):
    assert seconds(100.0, law, nodes).p50_s == pytest.approx(expected, rel=1e-12)


def test_node_counts_above_a_measured_table_are_impossible():
    beyond = seconds(100.0, MeasuredSeconds(seconds={1: 8.0, 4: 3.0}), 5)
    assert beyond is not None
    assert not beyond.possible


def test_unknown_work_gives_no_estimate():
    assert seconds(float("nan")) is None


def test_predictor_applies_to_tasks_with_known_work():
    graph = graph_of(
        Task(name="a", work=0.0),
        Task(name="b"),
        Task(name="c", seconds=3.0),
        Task(name="v", kind=TaskKind.VIRTUAL),
    )
    assert [graph.names[i] for i in WorkOverSpeed().applies(graph).nonzero()[0]] == ["a"]
    assert [graph.names[i] for i in AssumedWork().applies(graph).nonzero()[0]] == ["a", "b", "c"]


def test_table_contains_work_rates_and_laws():
    law = Amdahl(serial=0.5)
    graph = graph_of(
        *(Task(name=f"t{i}", work=10.0 + i, nodes=(1, 2), speedup=law, service="dock") for i in range(3)),
        Task(name="u", nodes=(1, 1000)),
    )
    table = WorkOverSpeed().table(graph, [FAST, Machine(name="slow")])
    assert isinstance(table, RelatedSeconds)
    assert table.speedup.shape == (2, 65)  # no law and one law; counts up to the largest machine
    assert table.rate.tolist() == [[4.0, 1.0], [2.0, 1.0]]
    unknown = graph.index("u")
    assert table.sources[table.source[unknown]] == "unknown"
    assert len(table.modes(unknown)[0]) == 0


def test_assumed_work_is_one_second_and_marked_as_assumed():
    known = TaskFeatures(name="t", kind="t", law=Roofline(limit=8), counts=(1, 8))
    found = AssumedWork().predict(known, FAST, 8)
    assert (found.p50_s, found.source) == (1 / 16, "assumed")
