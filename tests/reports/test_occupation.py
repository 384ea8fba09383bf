"""Share of the time in which machines are busy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.plan_views import HEFT, packed, view_of
from weft.reports.gantt_layout import busy_seconds, busy_shares, occupation, tasks_by_machine


def test_busy_shares_refer_to_the_whole_plan() -> None:
    view = view_of(HEFT, [1, 1, 1])
    assert busy_seconds(view.schedule).tolist() == [18, 43, 49]
    assert busy_shares(view.schedule, [1, 1, 2]).tolist() == pytest.approx([18 / 80, 43 / 80, 49 / 160])


def test_plan_of_zero_length_has_busy_share_0() -> None:
    assert busy_shares(view_of([("a", 0, 1, 0, 0, "k")], [1]).schedule, [1]).tolist() == [0]


def test_tasks_of_a_machine_are_ordered_by_start_then_index() -> None:
    lines = [("a", 0, 1, 5, 6, "k"), ("b", 0, 1, 0, 1, "k"), ("c", 0, 1, 0, 1, "k"), ("d", 0, 0, 0, 1, "k")]
    assert [tasks.tolist() for tasks in tasks_by_machine(view_of(lines, [3, 1]).schedule)] == [[1, 2, 0], []]


@given(st.integers(0, 10_000), st.integers(1, 8), st.integers(1, 30))
def test_busy_shares_equal_a_sum_over_tasks(seed: int, nodes: int, columns: int) -> None:
    schedule = view_of(packed(np.random.default_rng(seed), 20, [nodes]), [nodes]).schedule
    edges = np.linspace(0, schedule.makespan_s, columns + 1)
    expected = np.zeros(columns)
    for line in schedule:
        inside = np.minimum(edges[1:], line.finish_s) - np.maximum(edges[:-1], line.start_s)
        expected += line.nodes * np.maximum(inside, 0)
    found = occupation(schedule, tasks_by_machine(schedule)[0], nodes, edges)
    np.testing.assert_allclose(found, expected / (np.diff(edges) * nodes), atol=1e-9)
