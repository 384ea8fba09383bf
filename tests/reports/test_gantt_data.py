"""Chart data of the page: complete for small plans, reduced and compressed for large ones."""

from __future__ import annotations

import base64
import itertools
import json
import zlib

import numpy as np
import pytest

from reports.plan_views import packed, view_of
from weft.reports.gantt_html import HtmlGantt, pack_plan, plan_columns
from weft.reports.gantt_layout import build_bars, pack_lanes
from weft.reports.report import GanttView
from weft.schedule.schedule import Schedule


def wide_plan(tasks: int, machines: int, sites: int = 8) -> GanttView:
    """Return a plan of many short tasks of ten kinds on machines with one node."""
    rng = np.random.default_rng(7)
    machine = rng.integers(0, machines, tasks)
    seconds = rng.uniform(1.0, 20.0, tasks)
    order = np.argsort(machine, kind="stable")
    until = np.cumsum(seconds[order])
    before = np.concatenate([[0.0], until])[np.searchsorted(machine[order], np.arange(machines))]
    finish = np.empty(tasks)
    finish[order] = until - before[machine[order]]
    schedule = Schedule(
        tasks=tuple(f"simulate{index % 10}[{index}]" for index in range(tasks)),
        machines=tuple(f"node{index:04}" for index in range(machines)),
        machine=machine.astype(np.uint32),
        nodes=np.ones(tasks, dtype=np.uint32),
        start_s=finish - seconds,
        finish_s=finish,
    )
    return GanttView(
        title="wide",
        schedule=schedule,
        kinds=tuple(f"simulate{index % 10}" for index in range(tasks)),
        machine_nodes=(1,) * machines,
        machine_sites=tuple(f"site{index * sites // machines}" for index in range(machines)),
        critical=(3, 5),
    )


def test_page_of_ten_thousand_tasks_is_small_and_contains_every_task() -> None:
    view = wide_plan(10_000, 256)
    page = HtmlGantt().render(view)
    assert len(page) < 1_000_000
    data = plan_columns(view)
    assert data["tasks"] == len(data["bars"]["name"]) == 10_000
    assert sorted(data["bars"]["name"]) == sorted(view.schedule.tasks)
    assert [band["name"] for band in data["bands"]] == [f"site{index}" for index in range(8)]
    assert [len(band["machines"]) for band in data["bands"]] == [32] * 8
    start = dict(zip(view.schedule.tasks, view.schedule.start_s.tolist(), strict=True))
    for name, written in zip(data["bars"]["name"], data["bars"]["start"], strict=True):
        assert written == pytest.approx(start[name], abs=2e-7 * view.schedule.makespan_s)


def test_equal_plans_give_equal_pages() -> None:
    assert HtmlGantt().render(wide_plan(3_000, 100)) == HtmlGantt().render(wide_plan(3_000, 100))


def test_large_plans_are_compressed_without_loss() -> None:
    view = wide_plan(30_000, 100)
    how, text = pack_plan(view)
    assert how == "deflate"
    assert json.loads(zlib.decompress(base64.b64decode(text))) == plan_columns(view)
    assert 'data-packed="deflate"' in HtmlGantt().render(view)
    assert pack_plan(wide_plan(100, 5))[0] == ""


def test_page_is_below_three_megabytes_for_every_plan() -> None:
    page = HtmlGantt().render(wide_plan(150_000, 300))
    assert len(page) < 3_000_000
    text = page.split('data-packed="deflate">')[1].split("</script>")[0]
    bars = json.loads(zlib.decompress(base64.b64decode(text)))["bars"]
    assert len(bars["name"]) <= 100_000
    assert sum(bars["tasks"]) == 150_000


class TestJoinedBars:
    def test_few_tasks_are_drawn_as_separate_bars(self) -> None:
        view = view_of(packed(np.random.default_rng(2), 40, [1, 4]), [1, 4])
        lanes = pack_lanes(view.schedule, view.machine_nodes)
        bars = build_bars(view, lanes, np.zeros(40, dtype=np.int64), most=1_000)
        assert bars.task.tolist() == list(lanes.task)
        assert bars.lane.tolist() == list(lanes.lane)
        assert set(bars.tasks.tolist()) == {1}

    def test_adjacent_short_tasks_are_joined_into_a_bar_of_the_kind_with_the_most_time(self) -> None:
        lines = [
            ("a", 0, 1, 0, 1, "x"),
            ("b", 0, 1, 1, 4, "y"),
            ("c", 0, 1, 4, 5, "x"),
            ("d", 0, 1, 900, 1000, "x"),
        ]
        view = view_of(lines, [1])
        kinds = np.array([0, 1, 0, 0])
        bars = build_bars(view, pack_lanes(view.schedule, [1]), kinds, most=2)
        assert list(zip(bars.start_s, bars.finish_s, bars.tasks, bars.kind, bars.task, strict=True)) == [
            (0, 5, 3, 1, 0),
            (900, 1000, 1, 0, 3),
        ]

    @pytest.mark.parametrize("seed", range(5))
    def test_joined_bars_keep_the_total_time_and_do_not_mix_lanes(self, seed: int) -> None:
        nodes = [1, 3, 8]
        view = view_of(packed(np.random.default_rng(seed), 300, nodes), nodes)
        lanes = pack_lanes(view.schedule, nodes)
        bars = build_bars(view, lanes, np.arange(300) % 4, most=80)
        assert len(bars) <= 80
        assert bars.tasks.sum() == len(lanes.task)
        spans: dict[tuple[int, int], list[tuple[float, float]]] = {}
        rows = zip(bars.machine, bars.lane, bars.height, bars.start_s, bars.finish_s, strict=True)
        for machine, lane, height, start, finish in rows:
            for one in range(lane, lane + height):
                spans.setdefault((int(machine), one), []).append((float(start), float(finish)))
        by_start = list(zip(bars.machine.tolist(), bars.start_s.tolist(), strict=True))
        assert by_start == sorted(by_start)
        covered = sum(finish - start for found in spans.values() for start, finish in found)
        schedule = view.schedule
        assert covered >= float((schedule.nodes * (schedule.finish_s - schedule.start_s)).sum()) - 1e-6
        assert all(len(found) == len(set(found)) for found in spans.values())


def test_machines_of_one_node_need_no_lane_assignment() -> None:
    view = wide_plan(2_000, 40)
    lanes = pack_lanes(view.schedule, view.machine_nodes)
    assert set(lanes.lane) == {0}
    for before, after in itertools.pairwise(lanes.task):
        if view.schedule.machine[before] == view.schedule.machine[after]:
            assert view.schedule.finish_s[before] <= view.schedule.start_s[after] + 1e-6
