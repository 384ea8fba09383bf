"""Lanes of the Gantt chart: tasks in one lane never overlap."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from reports.plan_views import HEFT, packed, view_of
from weft.reports.gantt_layout import Lanes, pack_lanes
from weft.schedule.schedule import Schedule


def assert_no_overlap(schedule: Schedule, lanes: Lanes) -> None:
    taken: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for task, lane, height in zip(lanes.task, lanes.lane, lanes.height, strict=True):
        for one in range(lane, lane + height):
            at = (int(schedule.machine[task]), one)
            taken.setdefault(at, []).append((float(schedule.start_s[task]), float(schedule.finish_s[task])))
    for spans in taken.values():
        spans.sort()
        assert all(before[1] <= after[0] + 1e-6 for before, after in itertools.pairwise(spans))


@given(st.integers(0, 10_000), st.lists(st.integers(1, 9), min_size=1, max_size=3))
def test_tasks_in_a_lane_never_overlap_and_lanes_stay_within_the_machine(
    seed: int, machine_nodes: list[int]
) -> None:
    view = view_of(packed(np.random.default_rng(seed), 40, machine_nodes), machine_nodes)
    lanes = pack_lanes(view.schedule, machine_nodes)
    assert_no_overlap(view.schedule, lanes)
    assert lanes.count == tuple(machine_nodes)
    heights = np.bincount(lanes.task, weights=lanes.height, minlength=len(view.schedule))
    assert heights.tolist() == view.schedule.nodes.tolist()


def test_adjacent_lanes_are_preferred() -> None:
    lines = [("a", 0, 1, 0, 9, "k"), ("b", 0, 1, 0, 2, "k"), ("c", 0, 1, 0, 9, "k"), ("d", 0, 2, 3, 5, "k")]
    lanes = pack_lanes(view_of(lines, [5]).schedule, [5])
    assert list(zip(lanes.task, lanes.lane, lanes.height, strict=True))[-1] == (3, 3, 2)


def test_a_task_without_adjacent_lanes_is_drawn_in_pieces() -> None:
    lines = [("a", 0, 1, 0, 2, "k"), ("b", 0, 1, 0, 9, "k"), ("c", 0, 1, 0, 2, "k"), ("d", 0, 2, 3, 5, "k")]
    lanes = pack_lanes(view_of(lines, [3]).schedule, [3])
    assert list(zip(lanes.task, lanes.lane, lanes.height, strict=True))[3:] == [(3, 0, 1), (3, 2, 1)]


def test_machine_without_node_limit_gets_more_lanes() -> None:
    view = view_of([("a", 0, 1, 0, 5, "k"), ("b", 0, 2, 1, 5, "k")], [1])
    lanes = pack_lanes(view.schedule, [1])
    assert lanes.count == (3,)
    assert_no_overlap(view.schedule, lanes)


def test_tasks_without_nodes_have_no_bar() -> None:
    lanes = pack_lanes(view_of([("move", 0, 0, 0, 5, "k"), ("a", 0, 1, 1, 2, "k")], [1]).schedule, [1])
    assert lanes.task == (1,)


def test_machine_of_one_node_has_one_lane() -> None:
    lanes = pack_lanes(view_of(HEFT, [1, 1, 1]).schedule, [1, 1, 1])
    assert lanes.task == (1, 7, 3, 5, 8, 9, 0, 2, 4, 6)
    assert set(lanes.lane) == {0}


def test_empty_plan_has_no_lanes() -> None:
    assert pack_lanes(view_of([], [2]).schedule, [2]) == Lanes(task=(), lane=(), height=(), count=(2,))
