"""CPA: node counts by critical path and area, and the plans with these counts."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from kernels.allotment_reference import allotment
from planning_examples import instance, lines, planned, platform
from weft.formats.files import load_platform, read_workflow_file
from weft.instance import BusyInterval, compile_instance
from weft.planners.cpa import plan_allotment, restrict_to_counts
from weft.schedule.verification import verify
from weft.workflow.unfold import unfold

EIGHT = {"nodes": "1..8", "speedup": {"roofline": 8}}
"""Keys of a task with linear speed-up on up to 8 nodes."""


def counts_of(made):
    return dict(zip(made.graph.names, plan_allotment(made).counts.tolist(), strict=True))


def test_chain_uses_all_nodes_and_parallel_tasks_share_them():
    chain = {"a": {"work": 8, **EIGHT}, "b": {"work": 8, "after": "a", **EIGHT}}
    assert counts_of(instance(chain, "cluster:8")) == {"a": 8, "b": 8}
    beside = {name: {"work": 8, **EIGHT} for name in "abcdefgh"}
    assert set(counts_of(instance(beside, "cluster:8")).values()) == {1}
    assert set(counts_of(instance(beside, "cluster:16")).values()) == {2}


def test_nodes_are_added_where_they_save_most_time_per_node():
    # Path a-b; both halve with two nodes, and a saves more. Area: (12 + 4) / 4, the path 16, then 10, 8, 6.
    tasks = {
        "a": {"nodes": [1, 2, 4], "speedup": {"seconds": {1: 12, 2: 6, 4: 4}}},
        "b": {"nodes": [1, 2], "speedup": {"seconds": {1: 4, 2: 2}}, "after": "a"},
    }
    made = instance(tasks, "cluster:4")
    allotment_made = plan_allotment(made)
    assert allotment_made.counts.tolist() == [4, 2]
    assert allotment_made.bottom_s.tolist() == [6.0, 2.0]


def test_node_counts_that_are_not_faster_than_smaller_counts_are_ignored():
    law = {"seconds": {1: 10, 2: 10, 3: 12, 4: 5}}
    made = instance({"a": {"nodes": "1..4", "speedup": law}}, "cluster:4")
    assert counts_of(made) == {"a": 4}
    slower = instance({"a": {"nodes": "1..3", "speedup": {"seconds": {1: 10, 2: 10, 3: 12}}}}, "cluster:4")
    assert counts_of(slower) == {"a": 1}


def test_allotment_on_a_cluster_equals_the_published_allotment(bench_data):
    file = bench_data / "peers" / "moldable_64_barrier.json"
    made = compile_instance(unfold(read_workflow_file(file)), load_platform(file))
    ways, counts, nodes = [], [], int(made.capacity[0])
    for task in range(len(made)):
        modes = made.modes(task)
        pairs = list(zip(modes.count.tolist(), modes.seconds.tolist(), strict=True))
        faster = [pair for place, pair in enumerate(pairs) if all(pair[1] < s for _, s in pairs[:place])]
        per_node = [spent / count for count, spent in faster]
        gains = [*(here - there for here, there in pairwise(per_node)), 0.0]
        shares = [1.0 / (nodes / count / spent) for count, spent in faster]
        ways.append(list(zip((spent for _, spent in faster), shares, gains, strict=True)))
        counts.append([count for count, _ in faster])
    after = [made.graph.successors(task).tolist() for task in range(len(made))]
    no_data = {(task, other): 0.0 for task in range(len(made)) for other in after[task]}
    # The path is measured after every single step, as printed.
    taken, steps = allotment(ways, after, no_data, 1.0)
    assert plan_allotment(made).counts.tolist() == [own[way] for own, way in zip(counts, taken, strict=True)]
    assert steps > 50


def test_task_uses_the_nearest_smaller_count_that_its_machine_allows():
    tasks = {"a": {"work": 12, "nodes": [2, 3, 6]}}
    made = instance(tasks, platform({"nodes": 8}, {"nodes": 4}, {"nodes": 2}))
    for count, expected in ((6, [6, 3, 2]), (3, [3, 3, 2]), (2, [2, 2, 2]), (5, [3, 3, 2]), (1, [2, 2, 2])):
        modes = restrict_to_counts(made, np.array([count], dtype=np.uint32)).modes
        assert (modes.machine.tolist(), modes.count.tolist()) == ([0, 1, 2], expected)


def test_tasks_of_an_abstract_machine_and_their_transfers_stay_together():
    tasks = {
        "a": {"work": 8, "machine": "A", "outputs": ["x"], **EIGHT},
        "move": {"kind": "transfer", "from_": "A", "to": "B", "file": "x", "size": "4MB"},
        "b": {"work": 8, "machine": "B", "inputs": ["x"], **EIGHT},
        "c": {"work": 4, "machine": "A", "after": "a"},
    }
    made = instance(tasks, platform({"nodes": 4}, {"nodes": 2, "speed": 2.0}))
    schedule = planned(made, "cpa")
    assert verify(schedule, made.graph, made.platform) == []
    found = lines(schedule)
    assert found["a"][0] == found["c"][0]


def test_tasks_never_wait_on_unlimited_machines():
    wide = {f"t{index}": {"work": 8, **EIGHT} for index in range(20)}
    made = instance(wide, platform({"nodes": 8, "occupancy": "unlimited"}))
    assert set(plan_allotment(made).counts.tolist()) == {8}


def test_smaller_node_count_is_used_if_some_nodes_are_busy_forever():
    made = instance(
        {"a": {"work": 8, **EIGHT}},
        "cluster:8",
        busy=(BusyInterval(machine=0, start_s=0.0, finish_s=np.inf, nodes=6),),
    )
    assert lines(planned(made, "cpa"))["a"] == ("cluster", 2, 0.0, 4.0)


@pytest.mark.parametrize("where", ["cluster:16", "identical:4"])
def test_tasks_of_zero_seconds_are_planned(where):
    made = instance({"a": {"work": 0, **EIGHT}, "b": {"work": 0, "after": "a"}}, where)
    assert planned(made, "cpa").makespan_s == 0
