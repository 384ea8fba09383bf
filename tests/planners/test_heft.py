"""HEFT beyond the paper: gaps, node counts, resources, abstract machines, transfers, pins."""

from __future__ import annotations

import math

import numpy as np
import pytest

from planning_examples import MAKESPAN, instance, lines, planned, platform
from weft.errors import Infeasible
from weft.instance import BusyInterval
from weft.planners.heft import Heft
from weft.planners.ranks import mean_communication_s, upward_ranks
from weft.platform.platform import Share
from weft.schedule.objective import make_objective
from weft.schedule.verification import verify

ONLY = {f"m{index}": {"requirements": f'name == "m{index}"'} for index in range(3)}
"""Requirements that allow one machine only."""


def plan_of(tasks, on, **options):
    """Return HEFT's plan, which is verified, as {task: (machine, nodes, start, finish)}."""
    made = instance(tasks, on, **options)
    schedule = planned(made)
    assert verify(schedule, made.graph, made.platform) == []
    return lines(schedule)


class TestOrderAndGaps:
    def test_later_task_is_inserted_into_an_earlier_gap(self):
        tasks = {
            "early": {"work": 2, "outputs": {"x": {"seconds": 6}}, **ONLY["m0"]},
            "far": {"work": 4, "inputs": ["x"], "outputs": {"y": {"seconds": 6}}, **ONLY["m1"]},
            "back": {"work": 3, "inputs": ["y"], **ONLY["m0"]},
            "filler": {"work": 5, **ONLY["m0"]},
        }
        found = plan_of(tasks, platform({}, {}))
        assert found["back"][2:] == (18, 21)
        assert found["filler"][2:] == (2, 7)

    def test_task_too_long_for_a_gap_is_placed_after_it(self):
        tasks = {
            "early": {"work": 2, "outputs": {"x": {"seconds": 6}}, **ONLY["m0"]},
            "far": {"work": 4, "inputs": ["x"], "outputs": {"y": {"seconds": 6}}, **ONLY["m1"]},
            "back": {"work": 3, "inputs": ["y"], **ONLY["m0"]},
            "tail": {"work": 30, "after": "back", **ONLY["m1"]},
            "filler": {"work": 17, **ONLY["m0"]},
        }
        assert plan_of(tasks, platform({}, {}))["filler"][2:] == (21, 38)

    def test_ties_are_broken_by_the_lower_index_of_task_and_machine(self):
        found = plan_of({name: {"work": 1} for name in "cab"}, "identical:3")
        assert {name: found[name][0] for name in "cab"} == {"c": "m1", "a": "m2", "b": "m3"}

    def test_task_of_zero_seconds_delays_no_other_task(self):
        tasks = {"a": {"work": 4}, "nothing": {"seconds": 0}, "b": {"work": 4, "after": "nothing"}}
        assert plan_of(tasks, "identical:2")["b"][2] == 0

    def test_ranks_average_over_candidate_machines_only(self):
        made = instance(
            {"a": {"work": 6, "requirements": "speed >= 2"}}, platform({"speed": 1}, {"speed": 2})
        )
        assert upward_ranks(made).tolist() == [3]

    def test_communication_is_averaged_over_pairs_of_different_machines(self):
        tasks = {"a": {"work": 1, "outputs": {"x": "6MB"}}, "b": {"work": 1, "inputs": ["x"]}}
        assert mean_communication_s(instance(tasks, platform({}, {}))).tolist() == [6]
        assert mean_communication_s(instance(tasks, platform({"nodes": 2}))).tolist() == [0]

    def test_other_objectives_than_the_makespan_are_refused(self):
        made = instance({"a": {"work": 1}}, "identical:1")
        assert Heft().supports(made, MAKESPAN) is None
        assert "cost" in Heft().supports(made, make_objective("cost")).reason


class TestMoldable:
    def test_smallest_node_count_within_five_percent_of_the_best_finish_is_used(self):
        found = plan_of(
            {"a": {"nodes": [1, 2, 4, 8], "speedup": {"seconds": {1: 100, 2: 60, 4: 57.5, 8: 57}}}},
            "cluster:8",
        )
        assert found["a"] == ("cluster", 4, 0, 57.5)

    def test_two_nodes_are_used_when_they_finish_soon_enough(self):
        found = plan_of(
            {"a": {"nodes": [1, 2, 8], "speedup": {"seconds": {1: 100, 2: 59.8, 8: 57}}}}, "cluster:8"
        )
        assert found["a"] == ("cluster", 2, 0, 59.8)

    def test_node_count_is_chosen_together_with_the_start(self):
        tasks = {
            "wide": {"seconds": 50, "nodes": 7},
            "a": {"nodes": [1, 8], "seconds": 60, "speedup": {"roofline": 8}},
        }
        found = plan_of(tasks, "cluster:8")
        assert found["a"][1:3] in ((1, 0), (8, 0))
        assert max(line[3] for line in found.values()) <= 60

    def test_rigid_task_is_placed_at_its_earliest_finish(self):
        found = plan_of({"a": {"work": 100}}, platform({"speed": 1.0}, {"speed": 1.001}))
        assert found["a"][0] == "m1"

    def test_node_counts_above_the_size_of_a_machine_are_not_used_there(self):
        found = plan_of(
            {"a": {"work": 8, "nodes": [1, 4], "speedup": {"roofline": 4}}},
            platform({"speed": 3}, {"nodes": 4}),
        )
        assert found["a"] == ("m1", 4, 0, 2)


class TestResources:
    def test_memory_is_never_exceeded(self):
        tasks = {name: {"work": 5, "memory": "3GB"} for name in "abc"}
        found = plan_of(tasks, platform({"nodes": 4, "memory": 7e9}))
        assert sorted(line[2] for line in found.values()) == [0, 0, 5]

    def test_licences_limit_concurrent_tasks(self):
        tasks = {name: {"work": 5, "resources": {"licence": 1}} for name in "abc"}
        found = plan_of(tasks, platform({"nodes": 4, "resources": {"licence": 1}}))
        assert sorted(line[2] for line in found.values()) == [0, 5, 10]

    def test_cores_of_a_shared_host_are_nodes(self):
        tasks = {name: {"work": 5, "cores": 2} for name in "abc"}
        found = plan_of(tasks, platform({"nodes": 4, "backend": {"kind": "local"}}))
        assert sorted(line[2] for line in found.values()) == [0, 0, 5]
        assert {line[1] for line in found.values()} == {2}

    def test_unlimited_machine_runs_all_tasks_at_once(self):
        found = plan_of({name: {"work": 5} for name in "abc"}, platform({"occupancy": "unlimited"}))
        assert {line[2] for line in found.values()} == {0}


class TestAbstractMachines:
    def test_tasks_of_an_abstract_machine_use_the_machine_of_the_first(self):
        tasks = {
            "a": {"work": 4, "machine": "A"},
            "b": {"work": 4, "machine": "A"},
            "c": {"work": 1, "machine": "B"},
        }
        found = plan_of(tasks, "identical:2")
        assert found["a"][0] == found["b"][0]
        assert found["c"][0] != found["a"][0]

    def test_first_task_of_an_abstract_machine_is_placed_where_all_its_tasks_can_run(self):
        tasks = {
            "a": {"work": 9, "machine": "A"},
            "b": {"work": 1, "machine": "A", "after": "a", "requirements": "speed == 1"},
        }
        assert plan_of(tasks, platform({"speed": 5.0}, {"speed": 1.0}))["a"][0] == "m1"


def moving(source, target, after=None, size="6MB", file="x"):
    keys = {"kind": "transfer", "from_": source, "to": target, "file": file, "size": size}
    return keys if after is None else keys | {"after": after}


class TestTransfers:
    def test_a_transfer_is_placed_with_the_task_at_its_destination(self):
        tasks = {
            "a": {"work": 2, "machine": "A", "outputs": ["x"], **ONLY["m0"]},
            "move": moving("A", "B"),
            "b": {"work": 2, "machine": "B", "inputs": ["x"], **ONLY["m1"]},
        }
        found = plan_of(tasks, platform({}, {}))
        assert found["move"] == ("m1", 0, 2, 8)
        assert found["b"][2] == 8

    def test_task_is_placed_on_the_machine_of_its_data(self):
        tasks = {
            "a": {"work": 2, "machine": "A", "outputs": ["x"], **ONLY["m0"]},
            "move": moving("A", "B"),
            "b": {"work": 2, "machine": "B", "inputs": ["x"]},
        }
        found = plan_of(tasks, platform({}, {"speed": 1.5}))
        assert found["move"] == ("m0", 0, 2, 2)
        assert found["b"] == ("m0", 1, 2, 4)

    def test_chain_of_transfers_is_placed(self):
        tasks = {
            "a": {"work": 2, "machine": "A", "outputs": ["x"], **ONLY["m0"]},
            "one": moving("A", "B"),
            "two": moving("B", "C", after="one"),
            "c": {"work": 1, "machine": "C", "after": "two", **ONLY["m1"]},
            "b": {"work": 1, "machine": "B", "after": "two", **ONLY["m2"]},
        }
        found = plan_of(tasks, platform({}, {}, {}))
        assert found["one"][0] == "m2"
        assert found["two"] == ("m1", 0, 8, 14)
        assert found["c"][2] == 14

    def test_long_chain_of_postponed_transfers_needs_no_deep_recursion(self):
        tasks = {"a": {"work": 1, "machine": "M0"}}
        for index in range(1200):
            tasks[f"t{index}"] = moving(f"M{index}", f"M{index + 1}", after=f"t{index - 1}" if index else "a")
        for index in range(1, 1201):
            tasks[f"u{index}"] = {"work": 1, "machine": f"M{index}", "after": "t1199"}
        assert len(plan_of(tasks, "identical:2")) == 2401

    def test_unbound_destination_is_bound_to_the_machine_where_the_file_arrives_first(self):
        tasks = {"a": {"work": 2, "machine": "A", **ONLY["m1"]}, "move": moving("A", "archive", after="a")}
        assert plan_of(tasks, platform({}, {}))["move"] == ("m1", 0, 2, 2)

    def test_a_task_does_not_wait_for_a_transfer_to_another_machine(self):
        tasks = {
            "a": {"work": 2, "machine": "A", **ONLY["m0"]},
            "move": moving("A", "B", after="a"),
            "again": moving("A", "B", after="a", file="y"),
            "elsewhere": {"work": 1, "after": ["move", "again"], **ONLY["m1"]},
            "late": {"work": 1, "machine": "B", "after": "elsewhere"},
        }
        found = plan_of(tasks, platform({}, {}))
        assert found["move"][0] == found["again"][0] == found["late"][0]
        assert found["elsewhere"][2] >= max(found["move"][3], found["again"][3])

    def test_reader_starts_after_both_transfers_arrive(self):
        tasks = {
            "a": {"work": 2, "machine": "A", "outputs": ["x"], **ONLY["m0"]},
            "b": {"work": 3, "machine": "B", "outputs": ["y"], **ONLY["m1"]},
            "x-move": moving("A", "C"),
            "y-move": moving("B", "C", file="y", size="1MB"),
            "c": {"work": 1, "machine": "C", "inputs": ["x", "y"], **ONLY["m2"]},
        }
        assert plan_of(tasks, platform({}, {}, {}))["c"][2] == 8

    def test_transfers_between_shares_of_one_host_take_no_time(self):
        where = platform(
            {"nodes": 2, "services": ("dock",)}, virtual=(Share(machine="m0", service="dock", nodes=1),)
        )
        tasks = {
            "a": {
                "work": 2,
                "machine": "A",
                "outputs": {"x": "6MB", "z": "9MB"},
                "requirements": 'name == "m0"',
            },
            "move": moving("A", "B"),
            "b": {
                "work": 2,
                "machine": "B",
                "inputs": ["x", "z"],
                "requirements": 'name == "m0/dock"',
                "service": "dock",
            },
        }
        found = plan_of(tasks, where)
        assert found["move"][2:] == (2, 2)
        assert found["b"][0] == "m0/dock"
        assert found["b"][2] == 2

    def test_task_starts_when_data_from_all_hosts_have_arrived(self):
        tasks = {
            "a": {"work": 2, "outputs": {"x": "9MB"}, **ONLY["m0"]},
            "b": {"work": 4, "outputs": {"y": "1MB"}, **ONLY["m1"]},
            "join": {"work": 1, "inputs": ["x", "y"]},
        }
        assert plan_of(tasks, platform({}, {}, {}))["join"] == ("m0", 1, 5, 6)


class TestFixedDecisions:
    def test_pinned_variables_keep_their_machine(self):
        tasks = {"a": {"work": 4, "machine": "A"}, "b": {"work": 4, "machine": "A"}, "c": {"work": 1}}
        found = plan_of(tasks, platform({"speed": 1}, {"speed": 9}), pinned={"A": "m0", "c": "m0"})
        assert {line[0] for line in found.values()} == {"m0"}

    def test_busy_nodes_are_not_used(self):
        held = (BusyInterval(machine=0, start_s=0.0, finish_s=7.0, nodes=3),)
        found = plan_of({"a": {"work": 4, "nodes": 2}}, platform({"nodes": 4}), busy=held)
        assert found["a"][2] == 7
        found = plan_of({"a": {"work": 4}}, platform({"nodes": 4}), busy=held)
        assert found["a"][2] == 0

    def test_amounts_occupied_by_busy_intervals_are_not_used(self):
        where = platform({"nodes": 4, "resources": {"licence": 2}})
        held = (BusyInterval(machine=0, start_s=0.0, finish_s=7.0, nodes=1, amounts=(1.0,)),)
        tasks = {"a": {"work": 4, "resources": {"licence": 2}}, "b": {"work": 4, "resources": {"licence": 1}}}
        found = plan_of(tasks, where, busy=held)
        assert found["a"][2] >= 7
        assert found["b"][2] == 0

    def test_gaps_before_busy_times_are_used(self):
        held = (BusyInterval(machine=0, start_s=3.0, finish_s=9.0, nodes=1),)
        found = plan_of({"a": {"work": 5}, "b": {"work": 2}}, "identical:1", busy=held)
        assert found["a"][2:] == (9, 14)
        assert found["b"][2:] == (0, 2)

    def test_machine_that_is_busy_forever_is_not_used_or_the_plan_is_infeasible(self):
        held = (BusyInterval(machine=0, start_s=0.0, finish_s=math.inf, nodes=1),)
        assert plan_of({"a": {"work": 5}}, platform({"speed": 9.0}, {}), busy=held)["a"][0] == "m1"
        with pytest.raises(Infeasible, match="cannot end at a finite time"):
            plan_of({"a": {"work": 5}}, "identical:1", busy=held)

    def test_no_task_starts_before_its_earliest_start(self):
        tasks = {"a": {"work": 2}, "b": {"work": 2, "after": "a"}, "v": {"kind": "virtual"}}
        found = plan_of(tasks, "identical:2", earliest_start_s=np.array([3.0, 0.0, 6.5]))
        assert found["a"][2] == 3
        assert found["b"][2] == 5
        assert found["v"][2:] == (6.5, 6.5)


def test_virtual_tasks_take_no_time_and_keep_dependencies():
    tasks = {
        "a": {"work": 2, "sweep": {"k": "1..3"}},
        "all": {"kind": "virtual", "after": "a"},
        "b": {"work": 1, "after": "all"},
    }
    found = plan_of(tasks, "identical:3")
    assert found["all"][1:] == (0, 2, 2)
    assert found["b"][2] == 2
