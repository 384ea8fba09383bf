"""The performance database: lookups, limits, interpolation (docs/papers/moldable.md, S2.2, S2.10, A2.1)."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictors.small_graphs import assert_agrees, graph_of
from weft.errors import InvalidInput
from weft.platform.machine import Machine
from weft.predictors.performance import PerformanceTable
from weft.predictors.predictor import TaskFeatures
from weft.workflow.quantity import Sweep
from weft.workflow.task import Task, interpolate_log_log

FIXTURE = Path(__file__).parents[3] / "shared" / "spec" / "fixtures" / "s2_perfdb_and_expected.json"
SERIAL = 1 / 45
WIGGLE = {16: 0.94, 32: 0.97, 36: 1.03}


def simulation_seconds(nodes):
    return 2100 * (SERIAL + (1 - SERIAL) / nodes) * WIGGLE.get(nodes, 1)


SIMULATION = {nodes: simulation_seconds(nodes) for nodes in range(1, 37)}
PROCESSING = {n: {1: 60.0 + 8 * n, 2: 0.6 * (60 + 8 * n)} for n in (2, 3, 7, 15)}
REFERENCE = PerformanceTable({"ST": {1: SIMULATION}, "PT": PROCESSING}, size="files")


def test_reference_database_has_the_published_sizes_and_limits():
    assert REFERENCE.lookup("ST", 1, 1).p50_s == 2100.0
    assert REFERENCE.lookup("ST", 1, 35).p50_s == pytest.approx(105.33333333333333, rel=1e-12)
    assert REFERENCE.lookup("ST", 1, 16).p50_s == pytest.approx(164.5, rel=1e-12)
    assert REFERENCE.lookup("ST", 1, 36).p50_s == pytest.approx(106.81481481481481, rel=1e-12)
    assert REFERENCE.lookup("PT", 7, 2).p50_s == pytest.approx(69.6, rel=1e-12)
    assert REFERENCE.lookup("ST", 1, 35).source == "measured"
    assert REFERENCE.lookup("ST", 1, 35).p90_s is None


def test_largest_count_best_count_and_efficiency_are_as_published():
    assert REFERENCE.limit("ST", 1) == 36
    assert REFERENCE.best("ST", 1) == 35
    assert REFERENCE.efficiency("ST", 1, 35) == pytest.approx(0.5696, abs=1e-4)
    assert REFERENCE.efficiency("PT", 2, 2) == pytest.approx(1 / 1.2, rel=1e-12)
    assert (REFERENCE.limit("PT", 3), REFERENCE.best("PT", 3)) == (2, 2)
    assert REFERENCE.lookup("ST", 1, 37) is None
    assert REFERENCE.efficiency("ST", 1, 37) is None
    assert REFERENCE.limit("ST", 2) is None
    assert REFERENCE.limit("other", 1) is None


@pytest.mark.skipif(not FIXTURE.exists(), reason="the reference database is not here")
def test_every_time_and_cost_equals_the_fixture():
    fixture = json.loads(FIXTURE.read_text())
    np.testing.assert_allclose(REFERENCE.seconds("ST", 1, np.arange(1, 37)), fixture["ST"], rtol=1e-12)
    for workflow in fixture["workflows"].values():
        nodes = workflow["local"]["R"]
        rows = zip(workflow["kinds"], workflow["inputs"], nodes, strict=True)
        cost = sum(
            REFERENCE.lookup("ST", 1, count).p50_s * count
            if kind == "S"
            else REFERENCE.lookup("PT", files, count).p50_s * count
            for kind, files, count in rows
        )
        assert cost == pytest.approx(workflow["local"]["cost"], rel=1e-9)


def test_times_between_measured_counts_are_interpolated_and_marked():
    table = PerformanceTable({"a": {1: {1: 800.0, 4: 200.0, 16: 100.0}}}, size="n")
    found = table.lookup("a", 1, 2)
    assert found.p50_s == pytest.approx(400.0, rel=1e-12)
    assert (found.p90_s, found.source) == (800.0, "interpolated")
    assert table.lookup("a", 1, 8).p50_s == pytest.approx(math.sqrt(200 * 100), rel=1e-12)
    assert table.lookup("a", 1, 17) is None
    assert table.lookup("a", 1, 0) is None


def test_sizes_are_interpolated_within_the_limits_of_both_neighbours():
    table = PerformanceTable({"a": {10: {1: 10.0, 2: 6.0}, 1000: {1: 1000.0, 2: 500.0, 4: 300.0}}}, size="n")
    assert table.lookup("a", 100, 1).p50_s == pytest.approx(100.0, rel=1e-12)
    assert table.lookup("a", 100, 2).p90_s == 500.0
    assert (table.limit("a", 100), table.limit("a", 1000), table.limit("a", 10)) == (2, 4, 2)
    assert table.lookup("a", 100, 4) is None
    assert table.lookup("a", 1000, 4).source == "measured"
    for outside in (9.9, 1001, 0, -1):
        assert table.lookup("a", outside, 1) is None
        assert table.limit("a", outside) is None


def test_size_of_zero_is_looked_up_but_not_interpolated():
    table = PerformanceTable({"a": {0: {1: 5.0}, 8: {1: 9.0}}}, size="n")
    assert table.lookup("a", 0, 1).p50_s == 5.0
    assert table.lookup("a", 4, 1) is None
    assert table.limit("a", 4) is None


@given(
    st.dictionaries(st.integers(1, 40), st.floats(0.1, 1e4), min_size=1, max_size=6),
    st.integers(-1, 50),
)
def test_node_counts_are_interpolated_as_in_measured_laws(row, nodes):
    table = PerformanceTable({"a": {1: row}}, size="n")
    counts = sorted(row)
    wanted = interpolate_log_log(counts, [row[count] for count in counts], nodes)
    found = table.lookup("a", 1, nodes)
    assert (found is None) == (wanted is None)
    if found is not None:
        assert found.p50_s == pytest.approx(wanted, rel=1e-9)
        assert found.p90_s is None or found.p90_s >= found.p50_s * (1 - 1e-12)


@given(
    st.dictionaries(
        st.integers(0, 30),
        st.dictionaries(st.integers(1, 8), st.floats(0.1, 1e4), min_size=1, max_size=4),
        min_size=1,
        max_size=4,
    )
)
def test_arrays_agree_with_single_lookups(entries):
    table = PerformanceTable({"a": entries}, size="n")
    sizes, nodes = np.arange(0, 31, 1.5)[:, None], np.arange(0, 10)
    found = table.seconds("a", sizes, nodes)
    for row, size in enumerate(sizes[:, 0].tolist()):
        known = [
            math.nan if (one := table.lookup("a", size, count)) is None else one.p50_s
            for count in nodes.tolist()
        ]
        np.testing.assert_allclose(found[row], known, rtol=1e-12)
        counts = table.counts("a", size)
        assert not np.isnan(table.seconds("a", size, counts)).any()


def test_prediction_uses_the_size_parameter_and_the_speed_of_the_machine():
    fast = Machine(name="fast", speed=2.0, nodes=64)
    requested = TaskFeatures(name="t", kind="PT", parameters={"files": 7}, counts=(1, 2, 3))
    assert REFERENCE.predict(requested, fast, 2).p50_s == pytest.approx(34.8, rel=1e-12)
    between = TaskFeatures(name="t", kind="PT", parameters={"files": 5}, counts=(1, 2))
    assert REFERENCE.predict(between, fast, 1).source == "interpolated"
    assert REFERENCE.predict(between, fast, 1).p90_s == 58.0
    assert not REFERENCE.predict(requested, fast, 3).possible


@pytest.mark.parametrize(
    "parameters", [{}, {"files": "7"}, {"files": True}, {"files": 99}, {"files": math.inf}]
)
def test_unknown_sizes_have_no_estimate(parameters):
    requested = TaskFeatures(name="t", kind="PT", parameters=parameters)
    assert REFERENCE.predict(requested, Machine(name="m"), 1) is None


def test_table_of_a_sweep_agrees_with_single_predictions():
    graph = graph_of(
        Task(name="PT", sweep=Sweep(variables=(("files", (2, 3, 5, 7, 40)),)), nodes=(1, 2, 3)),
        Task(name="other", work=3.0),
    )
    machines = [Machine(name="m", nodes=2), Machine(name="f", nodes=4, speed=3.0)]
    assert REFERENCE.applies(graph).sum() == 5
    assert_agrees(REFERENCE.table(graph, machines), REFERENCE, graph, machines)


def test_table_of_one_size_needs_no_size_parameter():
    table = PerformanceTable({"ST": {"512": {"1": 10.0, "2": 6.0}}})
    assert table.predict(TaskFeatures(name="t", kind="ST"), Machine(name="m"), 2).p50_s == 6.0
    assert table.limit("ST", 512) == 2


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"a": {}}, "at least one"),
        ({"a": 3}, "the measurements of kind 'a' are 3"),
        ({"a": {1: {}}}, r"a\.1.*at least one"),
        ({"a": {"x": {1: 2.0}}}, "an input size is x; must be a number"),
        ({"a": {-1: {1: 2.0}}}, "an input size is -1"),
        ({"a": {1: {0: 2.0}}}, "a node count is 0; must be a whole number"),
        ({"a": {1: {1.5: 2.0}}}, "a node count is 1.5"),
        ({"a": {1: {"1": 0.0}}}, "a measured time is 0.0 s; must be a number above 0"),
        ({"a": {1: {1: "fast"}}}, "a measured time is fast s"),
        ({"a": {1: {1: math.nan}}}, "a measured time is nan s"),
        ({"a": {1: {1: 1.0}, 2: {1: 1.0}}}, "one input size; state the name of the parameter"),
    ],
)
def test_invalid_measurements_are_reported(entries, message):
    with pytest.raises(InvalidInput, match=message):
        PerformanceTable(entries)
