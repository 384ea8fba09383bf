"""The queue of a machine equals a reference that tries every start, bit for bit, compiled and plain."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from kernels.queue_reference import jobs_of, queue_by_reference
from kernels.two_forms import in_both_forms
from planning_examples import instance, lines, platform
from planning_strategies import workflows
from random_genomes import random_order
from weft.errors import Infeasible, InvalidInput
from weft.instance import BusyInterval, compile_instance
from weft.planners.queue_decoding import run_queue, run_queue_population, submission_order
from weft.platform.machine import QUEUES, Machine
from weft.platform.platform import Platform
from weft.schedule.verification import verify
from weft.workflow.unfold import unfold

SEARCH = settings(max_examples=50, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
LARGE = Machine(
    name="m0",
    nodes=6,
    cores=8,
    speed=2.0,
    speeds={"dock": 2.0},
    memory=4e9,
    resources={"licence": 2.0},
    arch="x86_64",
)


def random_counts(made, rng):
    """Draw an allowed count per task."""
    return np.array(
        [
            rng.choice(made.modes(task).count) if made.group[task] >= 0 else 0
            for task in range(len(made.graph))
        ],
        dtype=np.uint32,
    )


def by_reference(made, order, counts, rule):
    busy = [(one.finish_s, one.nodes, one.amounts) for one in made.busy]
    totals = made.amounts[0].tolist()
    nodes = 10**9 if made.unlimited[0] else int(made.capacity[0])
    jobs = jobs_of(made, counts.tolist())
    if made.unlimited[0]:
        for job in jobs:
            job.amounts = ()
        busy = []
    return queue_by_reference(jobs, order.tolist(), nodes, rule, totals, busy)


@given(
    flow=workflows(),
    seed=st.integers(0, 99),
    occupancy=st.sampled_from(["exclusive", "exclusive", "unlimited"]),
    ends=st.lists(st.sampled_from([0.5, 3.0]), max_size=2),
    late=st.booleans(),
)
@SEARCH
def test_instances_with_all_features_are_queued_as_by_the_reference(
    monkeypatch, flow, seed, occupancy, ends, late
):
    machine = Machine(**{**{name: getattr(LARGE, name) for name in LARGE.__slots__}, "occupancy": occupancy})
    busy = tuple(BusyInterval(machine=0, start_s=0.0, finish_s=end, nodes=2) for end in ends)
    try:
        graph = unfold(flow)
        earliest = np.array([float(task % 3) * late for task in range(len(graph))])
        made = compile_instance(graph, Platform(machines=(machine,)), busy=busy, earliest_start_s=earliest)
    except (Infeasible, InvalidInput):
        assume(False)
    rng = np.random.default_rng(seed)
    counts, order = random_counts(made, rng), random_order(made, rng)
    for rule in QUEUES:
        expected = by_reference(made, order, counts, rule)
        for form in in_both_forms(monkeypatch):
            found = run_queue(made, counts, rule, order=order)
            assert found.start_s.tolist() == expected[0], (rule, form)
            assert found.finish_s.tolist() == expected[1], (rule, form)
            assert verify(found, made.graph, made.platform) == []


def crowded(seed, *, integers, resources=True, tasks=40):
    """Return moldable tasks for a machine of 8 nodes; integers make many ties."""
    rng = np.random.default_rng(seed)
    described = {}
    for index in range(tasks):
        seconds = rng.integers(1, 5, 8).astype(float) if integers else rng.uniform(1, 5, 8)
        before = rng.integers(0, index, size=2).tolist() if index and rng.integers(2) else []
        described[f"t{index}"] = {
            "nodes": "1..8",
            "speedup": {"seconds": dict(enumerate(seconds.tolist(), start=1))},
            "after": [f"t{other}" for other in sorted(set(before))],
        }
        if resources:
            described[f"t{index}"]["memory"] = f"{rng.integers(0, 3)}GB"
            described[f"t{index}"]["resources"] = {"licence": int(rng.integers(0, 2))}
    held = (
        BusyInterval(machine=0, start_s=0.0, finish_s=2.0, nodes=3, amounts=(1.0, 1e9) if resources else ()),
    )
    return instance(described, platform({"nodes": 8, "memory": 4e9, "resources": {"licence": 3}}), busy=held)


@pytest.mark.parametrize("rule", QUEUES)
@pytest.mark.parametrize("integers", [True, False])
def test_populations_are_queued_like_single_individuals(monkeypatch, integers, rule):
    for seed in range(6):
        made = crowded(seed, integers=integers, resources=seed % 2 == 0)
        assert made.busy[0].amounts == () or made.graph.resource_names == ("licence", "memory")
        rng = np.random.default_rng(seed)
        counts = np.array([random_counts(made, rng) for _ in range(4)])
        orders = np.array([rng.permutation(len(made)) for _ in range(4)])
        references = [by_reference(made, orders[index], counts[index], rule) for index in range(4)]
        for form in in_both_forms(monkeypatch):
            found = run_queue_population(made, counts, rule, order=orders, times=True)
            for index, expected in enumerate(references):
                assert found.start_s[index].tolist() == expected[0], form
                assert found.finish_s[index].tolist() == expected[1], form
                assert found.makespan_s[index] == max(expected[1])
                jobs = jobs_of(made, counts[index].tolist())
                assert found.node_seconds[index] == sum(job.nodes * job.seconds for job in jobs)
                alone = run_queue(made, counts[index], rule, order=orders[index])
                assert alone.start_s.tolist() == expected[0], form
            without = run_queue_population(made, counts, rule, order=orders)
            assert without.start_s is None
            assert without.makespan_s.tolist() == found.makespan_s.tolist()


def test_node_counts_are_looked_up_one_by_one_if_a_table_would_be_too_large(form, monkeypatch):
    made = crowded(2, integers=False)
    counts = np.array([random_counts(made, np.random.default_rng(seed)) for seed in range(3)])
    expected = run_queue_population(made, counts, "easy", times=True)
    monkeypatch.setattr("weft.planners.queue_decoding._MAX_CHOICES", 0)
    made = crowded(2, integers=False)
    found = run_queue_population(made, counts, "easy", times=True)
    assert found.start_s.tolist() == expected.start_s.tolist()
    assert found.node_seconds.tolist() == expected.node_seconds.tolist()
    assert run_queue_population(made, counts, "easy").start_s is None


RACE = {
    "head": {"work": 4, "nodes": 3},
    "wide": {"work": 2, "nodes": 4},
    "long": {"work": 9, "nodes": 1},
    "short": {"work": 3, "nodes": 1},
    "narrow": {"work": 1, "nodes": 1},
}
"""On 4 nodes: wide waits for head until 4; long would delay it, short and narrow would not."""


@pytest.mark.parametrize(
    ("rule", "starts"),
    [
        ("fifo", {"head": 0, "wide": 4, "long": 6, "short": 6, "narrow": 6}),
        ("first-fit", {"head": 0, "wide": 9, "long": 0, "short": 4, "narrow": 4}),
        ("easy", {"head": 0, "wide": 4, "long": 6, "short": 0, "narrow": 3}),
        ("conservative", {"head": 0, "wide": 4, "long": 6, "short": 0, "narrow": 3}),
    ],
)
def test_each_backfilling_rule_lets_the_expected_tasks_overtake(form, rule, starts):
    made = instance(RACE, platform({"nodes": 4, "queue": rule}))
    counts = [int(made.modes(task).count[0]) for task in range(5)]
    found = lines(run_queue(made, counts))
    assert {name: line[2] for name, line in found.items()} == starts


def test_easy_backfilling_may_delay_later_tasks_and_conservative_backfilling_delays_no_task(form):
    # 4 nodes, 3 of them busy until 4. The first waits until 4 and leaves one node free; the second would start
    # beside it at 4. EASY lets the last one have that node from 0 to 9, conservative backfilling does not.
    tasks = {
        "first": {"work": 4, "nodes": 2},
        "second": {"work": 4, "nodes": 2},
        "last": {"work": 9, "nodes": 1},
    }
    held = (BusyInterval(machine=0, start_s=0.0, finish_s=4.0, nodes=3),)
    made = instance(tasks, platform({"nodes": 4}), busy=held)
    starts = {rule: run_queue(made, [2, 2, 1], rule).start_s.tolist() for rule in QUEUES[2:]}
    assert starts == {"easy": [4.0, 8.0, 0.0], "conservative": [4.0, 4.0, 8.0]}


def test_nodes_of_tasks_that_finish_together_are_freed_together(form):
    # Both of the running end at 4: then 2 nodes are left beside the first, and a long task may have them now.
    tasks = {
        "half": {"work": 4, "nodes": 3},
        "other": {"work": 4, "nodes": 2},
        "first": {"work": 1, "nodes": 4},
        "long": {"work": 9, "nodes": 2},
    }
    made = instance(tasks, platform({"nodes": 7}))
    assert run_queue(made, [3, 2, 4, 2], "easy").start_s.tolist() == [0.0, 0.0, 4.0, 0.0]


@pytest.mark.parametrize("rule", QUEUES)
def test_three_queued_amounts_of_a_tenth_fit_into_three_tenths_despite_rounding(form, rule):
    tasks = {f"t{index}": {"work": 1, "resources": {"share": 0.1}} for index in range(4)}
    made = instance(tasks, platform({"nodes": 9, "resources": {"share": 0.3}}))
    assert run_queue(made, [1] * 4, rule).start_s.tolist() == [0.0, 0.0, 0.0, 1.0]


def test_all_queue_rules_give_the_same_schedule_on_one_node(form):
    made = instance({f"t{index}": {"work": index + 1} for index in range(5)}, platform({}))
    schedules = [run_queue(made, [1] * 5, rule, order=[3, 1, 4, 0, 2]).start_s.tolist() for rule in QUEUES]
    assert schedules == [[11.0, 4.0, 12.0, 0.0, 6.0]] * 4


def test_tasks_are_submitted_breadth_first():
    made = instance(
        {"a": {}, "a2": {"after": "a"}, "b": {}, "b2": {"after": "b"}, "c": {"after": ["a2", "b"]}},
        platform({}),
    )
    names = [made.graph.names[task] for task in submission_order(made)]
    assert names == ["a", "b", "a2", "b2", "c"]


@pytest.mark.parametrize(
    ("counts", "rule", "order", "message"),
    [
        ([1, 9], "fifo", None, r"the given mode of b does not exist on m0; .* \[1, 2\]"),
        ([0, 1], "fifo", None, "the given mode of a does not exist on m0"),
        (
            [1, 1],
            "lifo",
            None,
            "the queue rule is 'lifo'; must be one of fifo, first-fit, easy, conservative",
        ),
        ([1, 1], "easy", [0, 0], "the order lacks b; every task must occur once"),
        ([1], "fifo", None, r"counts is an array of shape \(1,\)"),
        ([[1, 1]], "fifo", None, "must be one row"),
    ],
)
def test_invalid_individuals_are_refused(form, counts, rule, order, message):
    made = instance({"a": {"work": 1}, "b": {"work": 1, "nodes": [1, 2]}}, platform({"nodes": 4}))
    with pytest.raises(InvalidInput, match=message):
        run_queue(made, counts, rule, order=order)


def test_instances_that_need_several_queues_are_refused():
    tasks = {"a": {"work": 1}}
    with pytest.raises(InvalidInput, match=r"an instance with 2 machines .*; must have one machine"):
        run_queue(instance(tasks, "identical:2"), [1])
    later = (BusyInterval(machine=0, start_s=3.0, finish_s=4.0, nodes=1),)
    with pytest.raises(InvalidInput, match="m0 is reserved from 3 s on"):
        run_queue(instance(tasks, platform({"nodes": 2}), busy=later), [1])
    much = (BusyInterval(machine=0, start_s=0.0, finish_s=4.0, nodes=3),)
    with pytest.raises(Infeasible, match="m0 has 2 nodes, but its busy intervals use 3"):
        run_queue(instance(tasks, platform({"nodes": 2}), busy=much), [1])
    connection = {"a": {"work": 1, "resources": {"licence": 1}}}
    licences = (BusyInterval(machine=0, start_s=0.0, finish_s=4.0, nodes=1, amounts=(3.0,)),)
    with pytest.raises(Infeasible, match="m0 has 2 of licence, but its busy intervals use 3"):
        run_queue(
            instance(connection, platform({"nodes": 2, "resources": {"licence": 2}}), busy=licences), [1]
        )
    forever = (BusyInterval(machine=0, start_s=0.0, finish_s=float("inf"), nodes=2),)
    with pytest.raises(Infeasible, match="a never fits on m0"):
        run_queue(instance(tasks, platform({"nodes": 2}), busy=forever), [1])
