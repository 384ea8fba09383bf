"""Lower bounds of small instances computed by hand; each argument in a case where it is the best."""

from __future__ import annotations

import numpy as np
import pytest

from planning_examples import instance, planned, platform, workflow
from weft.instance import BusyInterval, compile_instance
from weft.platform.platform import Link, Share
from weft.schedule.bounds import lower_bounds
from weft.workflow.unfold import unfold

ONLY = 'name == "m{}"'


def bounds_of(tasks, where, **options):
    return lower_bounds(instance(tasks, where, **options))


def closed(tasks, where, **options):
    """Return the bounds of an instance whose HEFT schedule attains them."""
    made = instance(tasks, where, **options)
    found = lower_bounds(made)
    assert planned(made).makespan_s == pytest.approx(found.best_s, rel=1e-8)
    return found


class TestCriticalPath:
    def test_critical_path_bound_uses_the_fastest_modes_and_no_transfer_times(self):
        tasks = {
            "a": {"work": 6, "outputs": {"x": "1GB"}},
            "b": {"work": 4, "inputs": ["x"]},
            "c": {"work": 2},
        }
        found = closed(tasks, platform({}, {"speed": 2.0}))
        assert found.critical_path_s == 5
        assert found.argument == "critical path"

    def test_earliest_starts_lengthen_the_critical_path(self):
        found = bounds_of({"a": {"work": 6}}, "identical:1", earliest_start_s=np.array([3.0]))
        assert found.critical_path_s == 9

    @pytest.mark.parametrize("by", ["requirements", "pins"])
    def test_critical_path_includes_the_transfer_between_tasks_without_a_common_host(self, by):
        tasks = {"a": {"work": 4, "outputs": {"x": "5MB"}}, "b": {"work": 5, "inputs": ["x"]}}
        pinned = {"a": "m0", "b": "m1"}
        if by == "requirements":
            tasks["a"]["requirements"], tasks["b"]["requirements"] = ONLY.format(0), ONLY.format(1)
            pinned = {}
        found = closed(tasks, platform({}, {}), pinned=pinned)
        assert found.critical_path_s == pytest.approx(4 + 5 + 5)

    def test_critical_path_contains_no_transfer_between_shares_of_one_host(self):
        where = platform(
            {"nodes": 4, "speeds": {"dock": 1.0, "fold": 1.0}},
            virtual=(
                Share(machine="m0", service="dock", nodes=1),
                Share(machine="m0", service="fold", nodes=1),
            ),
        )
        tasks = {
            "a": {"work": 4, "outputs": {"x": "5MB"}, "service": "dock"},
            "b": {"work": 5, "inputs": ["x"], "service": "fold"},
        }
        assert bounds_of(tasks, where, pinned={"a": "m0/dock", "b": "m0/fold"}).critical_path_s == 9

    def test_critical_path_uses_the_fastest_link(self):
        where = platform(
            {"site": "s"},
            {"site": "s"},
            {"site": "far"},
            links=(("s", "far", Link(bandwidth_Bps=1e5, latency_s=2)),),
        )
        tasks = {
            "a": {"work": 4, "outputs": {"x": "5MB"}, "requirements": ONLY.format(0)},
            "b": {"work": 5, "inputs": ["x"], "requirements": 'name != "m0"'},
            "c": {"work": 5, "inputs": ["x"], "requirements": ONLY.format(2)},
        }
        assert bounds_of(tasks, where).critical_path_s == pytest.approx(4 + 2 + 50 + 5)
        del tasks["c"]
        assert bounds_of(tasks, where).critical_path_s == pytest.approx(4 + 5 + 5)

    def test_critical_path_bound_chooses_the_machine_of_every_task_on_the_path(self):
        # Each on its fast machine: 1 + 5 + 1; both on one: 1 + 9.
        tasks = {
            "a": {"seconds": {"m0": 1, "m1": 9}, "outputs": {"x": "5MB"}},
            "b": {"seconds": {"m0": 9, "m1": 1}, "inputs": ["x"]},
        }
        assert closed(tasks, platform({}, {})).critical_path_s == pytest.approx(7)

    def test_tasks_of_one_abstract_machine_need_no_transfer(self):
        tasks = {
            "a": {"seconds": {"m0": 1, "m1": 9}, "machine": "A"},
            "b": {"seconds": {"m0": 9, "m1": 1}, "machine": "A", "after": "a"},
        }
        assert closed(tasks, platform({}, {})).critical_path_s == 10

    @pytest.mark.parametrize("limit", [10**6, 0], ids=["paths over machines", "too large for them"])
    def test_transfers_take_at_least_the_time_of_their_fastest_link(self, limit, monkeypatch):
        monkeypatch.setattr("weft.schedule.bounds.paths._CELLS", limit)
        tasks = {
            "a": {"work": 1, "machine": "A", "requirements": ONLY.format(0), "outputs": ["x"]},
            "move": {"kind": "transfer", "from_": "A", "to": "B", "file": "x", "size": "3MB", "after": "a"},
            "b": {"work": 1, "machine": "B", "requirements": ONLY.format(1), "after": "move"},
        }
        assert closed(tasks, platform({}, {})).critical_path_s == pytest.approx(1 + 3 + 1)


class TestArea:
    def test_area_of_identical_machines_is_work_over_nodes(self):
        found = bounds_of({"a": {"sweep": {"k": "1..9"}, "work": 2}}, "identical:4")
        assert found.area_s == pytest.approx(4.5)

    def test_area_of_related_machines_is_work_over_the_sum_of_speeds(self):
        where = platform({"speed": 1.0}, {"speed": 3.0, "nodes": 2})
        found = bounds_of({"a": {"sweep": {"k": "1..14"}, "work": 2}}, where)
        assert found.area_s == pytest.approx(28 / 7)
        assert found.argument == "area"

    def test_area_of_unrelated_machines_uses_the_best_prices(self):
        # At prices 0.8 and 0.2 every task costs 1.6 on either machine; no other prices give more.
        tasks = {name: {"seconds": {"m0": 2, "m1": 8}} for name in "abcd"}
        found = bounds_of(tasks, platform({}, {})).area_s
        assert 6.4 * 0.999 <= found <= 6.4 * (1 + 1e-9)

    def test_area_bound_counts_moldable_tasks_by_their_least_node_seconds(self):
        tasks = {"a": {"sweep": {"k": "1..4"}, "work": 10, "nodes": [1, 2, 4], "speedup": {"amdahl": 0.2}}}
        found = bounds_of(tasks, "cluster:4")
        assert found.area_s == pytest.approx(10.0)
        assert found.critical_path_s == pytest.approx(4.0)

    @pytest.mark.parametrize("by", ["requirements", "pins"])
    def test_tasks_restricted_to_one_machine_need_their_area_there(self, by):
        tasks = {name: {"work": 4} for name in "abcde"} | {"f": {"work": 1}}
        pinned = dict.fromkeys("abcde", "m0")
        if by == "requirements":
            tasks = {name: keys | {"requirements": ONLY.format(0)} for name, keys in tasks.items()}
            pinned = {}
        found = closed(tasks, platform({}, {}, {}), pinned=pinned)
        assert found.area_s == pytest.approx(21 if by == "requirements" else 20)

    def test_tasks_wider_than_half_a_machine_count_as_the_whole_machine(self):
        found = closed({"a": {"sweep": {"k": "1..5"}, "work": 4, "nodes": 3}}, "cluster:4")
        assert found.area_s == pytest.approx(20)

    def test_scarce_resources_give_an_area_bound_as_nodes_do(self):
        machine = platform({"nodes": 8, "resources": {"licence": 2}})
        tasks = {"a": {"sweep": {"k": "1..6"}, "work": 5, "resources": {"licence": 1}}}
        assert closed(tasks, machine).area_s == pytest.approx(15.0)

    def test_amount_of_more_than_half_of_a_resource_counts_as_the_whole_resource(self):
        machine = platform({"nodes": 8, "resources": {"licence": 5}})
        tasks = {"a": {"sweep": {"k": "1..6"}, "work": 5, "resources": {"licence": 3}}}
        assert closed(tasks, machine).area_s == pytest.approx(30.0)

    def test_area_uses_the_amounts_of_each_node_count(self):
        machine = platform({"nodes": 8, "resources": {"licence": 4}})
        tasks = {
            "a": {
                "sweep": {"k": "1..4"},
                "work": 6,
                "nodes": [1, 2],
                "speedup": {"seconds": {1: 6, 2: 4}},
                "resources": {"licence": {1: 2, 2: 4}},
            }
        }
        # 2 x 6 licence-seconds on one node, 4 x 4 on two.
        assert bounds_of(tasks, machine).area_s == pytest.approx(4 * 12 / 4)

    def test_unstated_memory_gives_no_bound(self):
        tasks = {"a": {"sweep": {"k": "1..6"}, "work": 5, "memory": "1GB"}}
        assert bounds_of(tasks, "cluster:8").area_s == pytest.approx(30 / 8)

    def test_unlimited_machines_give_no_area_bound(self):
        tasks = {"a": {"sweep": {"k": "1..9"}, "work": 2}}
        found = bounds_of(tasks, platform({"occupancy": "unlimited"}))
        assert (found.area_s, found.combined_s, found.best_s) == (0, 0, 2)

    def test_area_bound_ignores_tasks_that_can_run_on_an_unlimited_machine(self):
        where = platform({"occupancy": "unlimited"}, {})
        tasks = {"a": {"sweep": {"k": "1..9"}, "work": 2, "requirements": ONLY.format(1)}, "b": {"work": 3}}
        assert bounds_of(tasks, where).area_s == pytest.approx(18)


class TestCombination:
    def test_combined_bound_adds_heads_and_tails_to_the_area(self):
        tasks = {
            "first": {"work": 3},
            "middle": {"sweep": {"k": "1..6"}, "work": 4, "after": "first"},
            "last": {"work": 2, "after": "middle"},
        }
        found = closed(tasks, "identical:2")
        assert found.critical_path_s == 9
        assert found.area_s == pytest.approx(14.5)
        assert found.combined_s == pytest.approx(3 + 12 + 2)
        assert found.argument == "heads, area and tails"

    def test_bound_considers_that_a_moldable_task_needs_enough_nodes_to_finish_in_time(self):
        # On one node the task takes 12; to end with the others by T it needs more nodes, and more area.
        tasks = {
            "long": {"work": 12, "nodes": [1, 2, 4], "speedup": {"seconds": {1: 12, 2: 8, 4: 6}}},
            "short": {"sweep": {"k": "1..8"}, "work": 2.5},
        }
        found = bounds_of(tasks, "cluster:4")
        assert found.area_s == pytest.approx(32 / 4)
        # Below 12 it takes 2 x 8 node-seconds at least: (16 + 20) / 4.
        assert found.combined_s == pytest.approx(9)

    def test_combined_bound_considers_that_few_tasks_cannot_use_all_machines(self):
        # Two tasks use at most the two fast ones of three machines.
        where = platform({"speed": 2.0}, {"speed": 1.0}, {"speed": 1.0})
        found = bounds_of({"a": {"work": 6.5}, "b": {"work": 6.5}}, where)
        assert found.area_s == pytest.approx(13 / 4)
        assert found.combined_s == pytest.approx(13 / 3)

    def test_combined_bound_counts_rounds_of_equal_tasks(self):
        found = closed({"a": {"sweep": {"k": "1..9"}, "work": 2.5}}, "identical:4")
        assert found.area_s == pytest.approx(9 * 2.5 / 4)
        assert found.combined_s == pytest.approx(7.5)


def barrier_tasks(levels, work, counts=None):
    """Return levels with one task per entry of ``work``, and a join task after every level."""
    tasks = {}
    for level in range(levels):
        before = {"after": f"join{level - 1}"} if level else {}
        for index, seconds in enumerate(work):
            tasks[f"t{level}.{index}"] = {"work": seconds} | (counts or {}) | before
        tasks[f"join{level}"] = {"work": 0.5, "after": [f"t{level}.{index}" for index in range(len(work))]}
    return tasks


class TestLevels:
    def test_bound_adds_the_areas_of_successive_levels(self):
        found = bounds_of(barrier_tasks(3, [1.5, 2.0, 2.5, 3.25]), "identical:2")
        assert found.combined_s < 3 * (9.25 / 2 + 0.5)
        assert found.levels_s == pytest.approx(3 * (9.25 / 2 + 0.5))
        assert found.argument == "area of levels"

    def test_bound_adds_the_lengths_of_successive_levels(self):
        tasks = {
            "a": {"sweep": {"k": "1..6"}, "work": 4.5},
            "b": {"sweep": {"k": "1..3"}, "work": 7.5, "after": "a"},
            "c": {"sweep": {"k": "1..6"}, "work": 4.5, "after": "b"},
        }
        found = closed(tasks, "identical:4")
        assert found.levels_s == pytest.approx(9 + 7.5 + 9)
        assert found.argument == "area of levels"

    def test_bound_is_the_sum_of_the_areas_of_levels_with_moldable_tasks(self):
        law = {"nodes": [1, 2, 4], "speedup": {"seconds": {1: 12, 2: 8, 4: 6}}}
        tasks = barrier_tasks(2, [12])
        for level in range(2):
            tasks[f"t{level}.0"] |= law
            tasks[f"s{level}"] = {"sweep": {"k": "1..8"}, "work": 2.5}
            tasks[f"join{level}"]["after"].append(f"s{level}")
        tasks["s1"]["after"] = "join0"
        assert bounds_of(tasks, "cluster:4").levels_s == pytest.approx(2 * (9 + 0.5))

    def test_large_graphs_are_divided_into_stages(self):
        few, many = barrier_tasks(3, [1.5] * 5), barrier_tasks(200, [1.5] * 5)
        assert len(many) > 1_000
        each = bounds_of(few, "identical:2").levels_s / 3
        assert each == pytest.approx(3 * 1.5 + 0.5)
        assert bounds_of(many, "identical:2").levels_s == pytest.approx(200 * each)


class TestColocation:
    def test_bound_considers_that_one_machine_runs_all_tasks_of_an_abstract_machine(self):
        tasks = {"a": {"sweep": {"k": "1..4"}, "work": 2.5, "machine": "A"}, "b": {"work": 1}}
        found = closed(tasks, "identical:3")
        assert found.together_s == pytest.approx(10)
        assert found.argument == "tasks that must be together"

    def test_bound_of_an_abstract_machine_uses_its_best_machine(self):
        tasks = {"a": {"work": 3, "machine": "A"}, "b": {"work": 4, "machine": "A"}, "c": {"work": 1}}
        found = closed(tasks, platform({"speed": 2.0}, {}, {"nodes": 2}))
        assert found.together_s == pytest.approx(3.5)

    def test_an_unlimited_machine_runs_all_tasks_at_once(self):
        tasks = {"a": {"work": 3, "machine": "A"}, "b": {"work": 4, "machine": "A"}}
        assert closed(tasks, platform({"occupancy": "unlimited"}, {"speed": 0.4})).best_s == 4

    def test_transfer_does_not_force_its_neighbours_onto_one_machine(self):
        # The writer stays on m0 and the reader on m1, however late the data come; nothing ties them.
        tasks = {
            "write": {"work": 1, "outputs": {"x": "9MB"}, "requirements": ONLY.format(0)},
            "move": {"kind": "transfer", "from_": "A", "to": "B", "file": "x", "size": "9MB"},
            "hold": {"work": 1, "machine": "A", "requirements": ONLY.format(2)},
            "read": {"work": 1, "machine": "B", "inputs": ["x"], "requirements": ONLY.format(1)},
        }
        assert closed(tasks, platform({}, {}, {})).best_s == 1 + 9 + 9 + 1

    def test_tasks_share_a_host_when_their_data_would_arrive_too_late(self):
        tasks = {
            "a": {"work": 4, "outputs": {"x": "50MB"}},
            "b": {"work": 5, "outputs": {"y": "50MB"}},
            "c": {"work": 1, "inputs": ["x", "y"]},
        }
        found = bounds_of(tasks, platform({}, {}))
        assert found.critical_path_s == 6
        assert found.together_s == 10
        # If both fit on one host at the same time, the argument gains nothing.
        assert bounds_of(tasks, platform({"nodes": 2}, {})).best_s == 6

    def test_clusters_without_a_common_host_need_a_transfer(self):
        # The fork and both its tasks on one host take 1 + 3 + 3; else one of them waits 2.5 for its data.
        tasks = {
            "fork": {"work": 1, "outputs": {"x": "2.5MB"}},
            "a": {"work": 3, "inputs": ["x"]},
            "b": {"work": 3, "inputs": ["x"]},
        }
        found = closed(tasks, platform({}, {}))
        assert found.together_s == pytest.approx(6.5)


class TestWindows:
    def test_busy_intervals_raise_the_bound(self):
        tasks = {"a": {"sweep": {"k": "1..3"}, "work": 4}}
        busy = (BusyInterval(machine=0, start_s=0.0, finish_s=5.0, nodes=1),)
        found = closed(tasks, "identical:1", busy=busy)
        assert found.windows_s == 17
        assert found.argument == "time windows"

    def test_busy_intervals_count_at_most_the_capacity(self):
        busy = tuple(BusyInterval(machine=0, start_s=0.0, finish_s=5.0, nodes=2) for _ in range(3))
        assert bounds_of({"a": {"work": 4}, "b": {"work": 4}}, "cluster:2", busy=busy).best_s == 9

    def test_work_that_must_run_in_a_time_window_raises_the_bound_if_it_does_not_fit(self):
        # To end by 5, between 2 and 5 there would be 3 of the long task, 2 x 3 of the wide one and 1: 10 of 9.
        tasks = {
            "first": {"work": 2},
            "long": {"work": 5},
            "wide": {"work": 3, "nodes": 2, "after": "first"},
            "small": {"work": 1, "after": "first"},
        }
        found = closed(tasks, "cluster:3")
        assert (found.critical_path_s, found.levels_s, found.windows_s) == (5, 5, 6)
        assert found.argument == "time windows"

    def test_window_bound_counts_long_tasks_on_heterogeneous_machines(self):
        # On heterogeneous machines: three tasks of 1 on the fast node or 3 on the slow one; two moments, one
        # platform.
        found = closed({"a": {"sweep": {"k": "1..4"}, "work": 3.3}}, platform({"speed": 3.0}, {"speed": 0.9}))
        assert found.windows_s == pytest.approx(3.3 / 0.9)


class TestRounding:
    def test_bound_is_rounded_up_when_all_times_are_integers(self):
        found = closed({"a": {"work": 5}, "b": {"work": 2}, "c": {"work": 4}}, "identical:2")
        assert found.area_s == pytest.approx(5.5)
        assert (found.whole, found.best_s) == (True, 6)

    @pytest.mark.parametrize(
        ("tasks", "where", "options"),
        [
            ({"a": {"work": 2.5}}, "identical:1", {}),
            ({"a": {"work": 3}}, platform({"speed": 2.0}), {}),
            ({"a": {"work": 3}}, "identical:1", {"earliest_start_s": np.array([0.5])}),
            (
                {"a": {"work": 3}},
                "identical:1",
                {"busy": (BusyInterval(machine=0, start_s=0, finish_s=1.5, nodes=1),)},
            ),
            (
                {"a": {"work": 3, "outputs": {"x": "1.5MB"}}, "b": {"work": 1, "inputs": ["x"]}},
                platform({}, {}),
                {},
            ),
        ],
        ids=["work", "speed", "earliest start", "busy", "data"],
    )
    def test_bound_is_not_rounded_when_one_time_is_not_an_integer(self, tasks, where, options):
        assert not bounds_of(tasks, where, **options).whole

    def test_transfers_of_whole_seconds_allow_rounding(self):
        tasks = {"a": {"work": 3, "outputs": {"x": "2MB"}}, "b": {"work": 1, "inputs": ["x"]}}
        assert bounds_of(tasks, platform({}, {})).whole


def test_modes_that_exceed_a_budget_are_excluded_from_the_bound():
    law = {"nodes": [1, 2], "speedup": {"seconds": {1: 9, 2: 3}}, "consumes": {"credit": {1: 1, 2: 5}}}
    made = instance_with_budget({"a": {"work": 9} | law, "b": {"work": 9} | law, "c": {"work": 9} | law}, 6)
    # Three tasks consume 3 at least; the 3 left do not pay the 4 more of two nodes.
    assert lower_bounds(made).critical_path_s == 9
    made = instance_with_budget({"a": {"work": 9} | law, "b": {"work": 9} | law, "c": {"work": 9} | law}, 7)
    assert lower_bounds(made).critical_path_s == 3


def instance_with_budget(tasks, credit):
    return compile_instance(unfold(workflow(tasks, budgets={"credit": credit})), platform({"nodes": 8}))


def test_an_empty_instance_has_bound_0():
    found = bounds_of({"a": {"kind": "virtual"}}, "identical:1")
    assert found.best_s == 0
    assert found.argument == "critical path"


@pytest.mark.parametrize("work", [5e-324, 5560e-324, 1e-310, 1e-300])
def test_bounds_of_the_smallest_times_are_not_above_the_makespan(work):
    made = instance({"a": {"work": work, "nodes": [1, 2]}}, platform({"nodes": 2}))
    assert lower_bounds(made).best_s <= planned(made).makespan_s
