"""Speed-up laws: values, limits and problems."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.workflow.task import Amdahl, CommunicationOverhead, MeasuredSeconds, Roofline, interpolate_log_log
from workflow.workflow_texts import graph_of, messages_of


@pytest.mark.parametrize(
    ("law", "nodes", "speedup"),
    [
        (Amdahl(serial=0.0), 8, 8.0),
        (Amdahl(serial=1.0), 8, 1.0),
        (Amdahl(serial=0.5), 2, 4 / 3),
        (Roofline(limit=16), 8, 8.0),
        (Roofline(limit=16), 64, 16.0),
        (CommunicationOverhead(overhead=0.0), 4, 4.0),
        (CommunicationOverhead(overhead=0.05), 4, 2.5),
        (MeasuredSeconds(seconds={1: 2100.0, 2: 1050.0, 8: 300.0}), 8, 7.0),
        (MeasuredSeconds(seconds={2: 10.0, 4: 5.0}), 2, 1.0),
    ],
)
def test_speedup_laws_give_the_expected_values(law, nodes, speedup):
    assert law.speedup(nodes) == pytest.approx(speedup)


@pytest.mark.parametrize("law", [Amdahl(serial=0.3), Roofline(limit=5), CommunicationOverhead(overhead=0.2)])
def test_the_speedup_of_one_node_is_1(law):
    assert law.speedup(1) == pytest.approx(1.0)


def test_measured_seconds_are_interpolated_in_log_log_space_and_are_nan_outside():
    law = MeasuredSeconds(seconds={8: 25.0, 2: 100.0})
    assert law.speedup(4) == pytest.approx(2.0)
    assert math.isnan(law.speedup(1))
    assert math.isnan(law.speedup(16))
    assert law.first_seconds == 100.0


@given(st.dictionaries(st.integers(1, 100), st.floats(0.1, 1e4), min_size=2, max_size=5), st.integers(1, 100))
def test_interpolated_values_lie_between_their_neighbours(table, x):
    xs = sorted(table)
    ys = [table[known] for known in xs]
    found = interpolate_log_log(xs, ys, x)
    assert (found is None) == (x < xs[0] or x > xs[-1])
    if found is not None:
        below = max(known for known in xs if known <= x)
        above = min(known for known in xs if known >= x)
        low, high = sorted((table[below], table[above]))
        assert low * (1 - 1e-9) <= found <= high * (1 + 1e-9)


@pytest.mark.parametrize(
    "law",
    [
        Amdahl(serial=-0.1),
        Amdahl(serial=1.1),
        Amdahl(serial=math.nan),
        Roofline(limit=0),
        CommunicationOverhead(overhead=-1.0),
        CommunicationOverhead(overhead=math.inf),
        MeasuredSeconds(seconds={}),
        MeasuredSeconds(seconds={0: 1.0}),
        MeasuredSeconds(seconds={1: 0.0}),
    ],
)
def test_invalid_laws_are_reported(law):
    assert len(list(law.find_problems())) == 1


def test_node_counts_are_unique_and_ascending():
    graph = graph_of(
        "params: {n: 3}\ntasks: {t: {nodes: [8, 1..n, 2, 2*n, 4..8 step 4]}, u: , v: {nodes: 4}}"
    )
    assert [graph.count_sets[index] for index in graph.counts] == [(1, 2, 3, 4, 6, 8), (1,), (4,)]


@pytest.mark.parametrize(
    ("nodes", "what"),
    [
        ("n - 3", "node count 0"),
        ("n/2", "node count 1.5"),
        ("1e9*n", "node count 3e+09"),
        ("5..n", "the list of node counts is empty"),
        ("0..2", "node count 0"),
    ],
)
def test_invalid_node_counts_are_reported(nodes, what):
    assert messages_of(f"params: {{n: 3}}\ntasks: {{t: {{nodes: {nodes}}}}}") == [what]
