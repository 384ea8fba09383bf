"""The decoder equals a reference that tries every start, bit for bit, with compiled and plain kernels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernels.decoder_reference import decode_by_reference
from kernels.two_forms import in_both_forms
from planning_examples import instance, platform
from planning_strategies import BUSY, compiled_busy, platforms, workflows
from random_genomes import random_genome
from weft.errors import Infeasible, InvalidInput
from weft.instance import BusyInterval
from weft.planners.decoding import (
    APPEND,
    EXCLUSIVE,
    INSERTION,
    UNLIMITED,
    decode,
    decode_population,
    find_fast_path,
)
from weft.platform.platform import Link, Share

RULES = {"append": APPEND, "insertion": INSERTION, "exclusive": EXCLUSIVE, "unlimited": UNLIMITED}
SEARCH = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@given(flow=workflows(), where=platforms(), held=BUSY, seed=st.integers(0, 99))
@SEARCH
def test_instances_with_all_features_are_decoded_as_by_the_reference(monkeypatch, flow, where, held, seed):
    made = compiled_busy(flow, where, held)
    rng = np.random.default_rng(seed)
    order, bound, modes = random_genome(made, rng)
    seconds = rng.integers(0, 5, len(made)).astype(float) if seed % 3 == 0 else None
    for name, rule in RULES.items():
        expected = decode_by_reference(made, order.tolist(), bound.tolist(), modes.tolist(), name, seconds)
        for form in in_both_forms(monkeypatch):
            found = decode(made, order, bound, modes, rule=rule, seconds=seconds)
            assert found.start_s.tolist() == expected[0], (name, form)
            assert found.finish_s.tolist() == expected[1], (name, form)


def crowded(seed, *, integers, nodes, tasks=40):
    """Return a graph whose tasks compete for few machines, with two resources; integers make many ties."""
    rng = np.random.default_rng(seed)

    def draw(most):
        return float(rng.integers(0, most + 1)) if integers else float(rng.uniform(0, most))

    where = platform(
        *(
            {
                "nodes": nodes,
                "speed": float(rng.integers(1, 3)) if integers else float(rng.uniform(1, 3)),
                "site": f"s{index % 2}",
                "memory": 4e9,
                "resources": {"licence": 2.0},
                "price_per_node_hour": float(index),
            }
            for index in range(3)
        ),
        link=Link(bandwidth_Bps=1e6, latency_s=1.0 if integers else 0.3),
    )
    described = {}
    for index in range(tasks):
        before = sorted(set(rng.integers(0, index, size=min(index, 2)).tolist())) if index else []
        described[f"t{index}"] = {
            "work": draw(6),
            **({"nodes": [1, 2, 4], "speedup": {"amdahl": 0.5}} if nodes > 1 else {}),
            "memory": f"{rng.integers(0, 3)}GB",
            "resources": {"licence": int(rng.integers(0, 2))},
            "inputs": [f"f{other}" for other in before],
            "outputs": {f"f{index}": 1e6 * draw(2) if index % 3 else {"seconds": draw(2)}},
        }
    return instance(described, where, busy=(BusyInterval(machine=0, start_s=3.0, finish_s=8.0, nodes=1),))


@pytest.mark.parametrize("nodes", [1, 4])
@pytest.mark.parametrize("integers", [True, False])
def test_populations_are_decoded_like_single_genomes(form, integers, nodes):
    for seed in range(3):
        made = crowded(seed, integers=integers, nodes=nodes)
        rng = np.random.default_rng(seed)
        genomes = [random_genome(made, rng) for _ in range(5)]
        orders, bounds, modes = (np.array(part) for part in zip(*genomes, strict=True))
        for name, rule in RULES.items():
            found = decode_population(made, orders, bounds, modes, rule=rule, times=True)
            for index, genome in enumerate(genomes):
                reference = decode_by_reference(made, *(part.tolist() for part in genome), name)
                assert found.start_s[index].tolist() == reference[0], name
                assert found.finish_s[index].tolist() == reference[1], name
                assert found.makespan_s[index] == max(reference[1])
                assert found.node_seconds[index] == reference[2]
                assert found.cost[index] == reference[3]
            without = decode_population(made, orders, bounds, modes, rule=rule, priced=False)
            assert without.makespan_s.tolist() == found.makespan_s.tolist()
            assert without.start_s is None
            assert not without.cost.any()


def test_order_and_binding_can_be_shared_by_all_individuals(form):
    made = crowded(1, integers=True, nodes=4)
    rng = np.random.default_rng(5)
    order, bound, modes = random_genome(made, rng)
    seconds = rng.uniform(0, 9, (6, len(made)))
    together = decode_population(made, order, bound, modes, seconds=seconds, rule=APPEND, times=True)
    for index, row in enumerate(seconds):
        alone = decode(made, order, bound, modes, seconds=row, rule=APPEND)
        assert together.start_s[index].tolist() == alone.start_s.tolist()
        assert together.makespan_s[index] == alone.makespan_s


def test_tasks_without_a_chosen_mode_use_the_smallest_count_of_their_machine(form, monkeypatch):
    made = crowded(2, integers=True, nodes=4)
    bound = np.array([task % 3 for task in range(len(made.graph.variables))])
    least = [int(np.flatnonzero(made.modes(task).machine == bound[task])[0]) for task in range(len(made))]
    expected = decode(made, None, bound, least, rule=INSERTION)
    assert decode(made, None, bound, rule=INSERTION).finish_s.tolist() == expected.finish_s.tolist()
    # Where the table would be too large the modes are looked up one by one.
    monkeypatch.setattr("weft.planners.decoding._MAX_CELLS", 0)
    assert decode(made, None, bound, rule=INSERTION).finish_s.tolist() == expected.finish_s.tolist()


def single_machines(seed, *, integers, latency_s, **options):
    """Return a graph on single-node machines, two of them shares of a host, one unlimited."""
    rng = np.random.default_rng(seed)

    def draw(most):
        return float(rng.integers(0, most + 1)) if integers else float(rng.uniform(0, most))

    speeds = rng.integers(1, 3, 5).astype(float) if integers else rng.uniform(1, 3, 5)
    where = platform(
        *({"speed": float(speed), "site": f"s{index % 2}"} for index, speed in enumerate(speeds)),
        {"nodes": 2, "services": ("dock",)},
        {"occupancy": "unlimited", "speeds": {"dock": 0.5}},
        link=Link(bandwidth_Bps=1e6, latency_s=latency_s),
        sites={"s0": Link(bandwidth_Bps=4e6, latency_s=latency_s)},
        virtual=tuple(Share(machine="m5", service="dock", nodes=1, name=f"half{part}") for part in (1, 2)),
    )
    described = {}
    for index in range(40):
        before = sorted(set(rng.integers(0, index, size=min(index, 2)).tolist())) if index else []
        described[f"t{index}"] = {
            "work": draw(6),
            "inputs": [f"f{other}" for other in before],
            "outputs": {f"f{index}": 1e6 * draw(2) if index % 3 or not latency_s else {"seconds": draw(2)}},
            **[{"service": "dock"}, {"machine": "together"}, {}, {}][rng.integers(4)],
        }
    return instance(described, where, **options)


@pytest.mark.parametrize("latency_s", [0.0, 1.0])
@pytest.mark.parametrize("integers", [True, False])
def test_makespans_of_bindings_equal_the_reference(form, integers, latency_s):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        earliest = rng.integers(0, 9, 40).astype(float) if seed else None
        made = single_machines(seed, integers=integers, latency_s=latency_s, earliest_start_s=earliest)
        genomes = [random_genome(made, rng) for _ in range(5)]
        bounds, order = np.array([genome.bound for genome in genomes]), genomes[0].order
        for name, rule in RULES.items():
            route = find_fast_path(made, rule, order)
            assert (route is None) == (rule == INSERTION)
            assert route is None or (route.latency is None) == (latency_s == 0)
            found = decode_population(made, order, bounds, rule=rule, priced=False)
            by_index = decode_population(made, None, bounds, rule=rule, priced=False)
            for index, (_, bound, modes) in enumerate(genomes):
                reference = decode_by_reference(made, order.tolist(), bound.tolist(), modes.tolist(), name)
                assert found.makespan_s[index] == max(reference[1]), name
                reference = decode_by_reference(made, range(40), bound.tolist(), modes.tolist(), name)
                assert by_index.makespan_s[index] == max(reference[1]), name


@pytest.mark.parametrize("integers", [True, False])
def test_busy_intervals_from_0_and_pins_are_decoded_as_by_the_reference(form, integers):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        until = (rng.integers(0, 30, 5) if integers else rng.uniform(0, 30, 5)).tolist()
        busy = [
            BusyInterval(machine=index, start_s=-1.0, finish_s=float(end), nodes=1)
            for index, end in enumerate(until)
        ]
        busy.append(BusyInterval(machine=0, start_s=until[0], finish_s=until[0] + 3.0, nodes=1))
        made = single_machines(
            seed, integers=integers, latency_s=0.0, busy=tuple(busy), pinned={"together": "m0"}
        )
        genomes = [random_genome(made, rng) for _ in range(5)]
        bounds, order = np.array([genome.bound for genome in genomes]), genomes[0].order
        for name, rule in RULES.items():
            assert (find_fast_path(made, rule, order) is None) == (rule == INSERTION)
            found = decode_population(made, order, bounds, rule=rule, priced=False)
            for index, (_, bound, modes) in enumerate(genomes):
                reference = decode_by_reference(made, order.tolist(), bound.tolist(), modes.tolist(), name)
                assert found.makespan_s[index] == max(reference[1]), name
        (pinned,) = made.pinned
        bounds[3, pinned] = 1
        with pytest.raises(InvalidInput, match="is pinned to"):
            decode_population(made, order, bounds, rule=APPEND, priced=False)


def test_fast_path_is_used_for_simple_instances_only(form):
    simple = single_machines(0, integers=True, latency_s=0.0)
    assert find_fast_path(simple, APPEND, None) is not None
    assert find_fast_path(simple, APPEND, range(40)[::-1]) is None
    assert find_fast_path(simple, APPEND, [0] * 40) is None
    assert find_fast_path(simple, APPEND, [range(40)]) is None
    assert find_fast_path(crowded(0, integers=True, nodes=1), APPEND, None) is None
    late = (BusyInterval(machine=0, start_s=1.0, finish_s=2.0, nodes=1),)
    broken = (*late, BusyInterval(machine=0, start_s=0.0, finish_s=0.5, nodes=1))
    for busy in (late, broken):
        made = single_machines(0, integers=True, latency_s=0.0, busy=busy)
        assert find_fast_path(made, APPEND, None) is find_fast_path(made, EXCLUSIVE, None) is None
    orders = [random_genome(simple, np.random.default_rng(seed)).order for seed in range(6)]
    assert all(find_fast_path(simple, APPEND, order) is not None for order in orders)


@pytest.mark.parametrize(
    ("order", "bound", "error", "message"),
    [
        ([1, 0], [0, 0], InvalidInput, "the order puts b before a"),
        (None, [0, 5], InvalidInput, "'b' is bound to machine number 5"),
        (None, [[0, 0], [1, 0]], Infeasible, "a cannot run on m1"),
    ],
)
def test_invalid_bindings_are_refused(form, order, bound, error, message):
    tasks = {"a": {"work": 2, "requirements": 'name == "m0"'}, "b": {"work": 1, "after": "a"}}
    with pytest.raises(error, match=message):
        decode_population(instance(tasks, platform({}, {})), order, bound, rule=EXCLUSIVE, priced=False)


def test_append_rule_leaves_gaps_and_insertion_rule_fills_them(form):
    tasks = {"late": {"work": 2, "after": "other"}, "other": {"work": 5}, "early": {"work": 3}}
    made = instance(tasks, platform({}, {}))
    index = {name: made.graph.names.index(name) for name in tasks}
    order = [index["other"], index["late"], index["early"]]
    bound = np.zeros(3, dtype=np.uint32)
    bound[made.graph.variable[index["other"]]] = 1
    ends = {
        rule: decode(made, order, bound, rule=rule).finish_s[index["early"]] for rule in (APPEND, INSERTION)
    }
    assert ends == {APPEND: 10.0, INSERTION: 3.0}


def test_append_rule_starts_a_task_when_enough_nodes_are_free_from_then_on(form):
    # One of three nodes is permanently free from the start, so a narrow task starts at once although a wide one,
    # placed before it, starts later; a second wide one would fit before the first, but that is a gap.
    tasks = {
        "first": {"work": 4},
        "wide": {"work": 3, "nodes": 2, "after": "first"},
        "narrow": {"work": 1},
        "again": {"work": 1, "nodes": 2},
    }
    made = instance(tasks, platform({"nodes": 3}))
    order = [made.graph.names.index(name) for name in tasks]
    found = decode(made, order, np.zeros(4, dtype=np.uint32), rule=APPEND)
    start = {name: found.start_s[made.graph.names.index(name)] for name in tasks}
    assert start == {"first": 0, "wide": 4, "narrow": 0, "again": 7}


def test_a_later_busy_interval_does_not_delay_appended_tasks(form):
    made = instance(
        {"a": {"work": 2}, "b": {"work": 3}},
        platform({"nodes": 2}),
        busy=(BusyInterval(machine=0, start_s=4.0, finish_s=9.0, nodes=2),),
    )
    found = decode(made, None, [0, 0], rule=EXCLUSIVE)
    assert found.start_s.tolist() == [0.0, 9.0]
    assert decode(made, None, [0, 0], rule=APPEND).start_s.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("rule", [APPEND, INSERTION])
def test_three_amounts_of_a_tenth_fit_into_three_tenths_of_a_resource_despite_rounding(form, rule):
    assert 0.3 - 0.1 - 0.1 < 0.1
    tasks = {f"t{index}": {"work": 1, "resources": {"share": 0.1}} for index in range(4)}
    made = instance(tasks, platform({"nodes": 9, "resources": {"share": 0.3}}))
    found = decode(made, None, [0] * 4, rule=rule)
    assert found.start_s.tolist() == [0.0, 0.0, 0.0, 1.0]


def test_a_task_that_never_fits_is_infeasible(form):
    forever = (BusyInterval(machine=0, start_s=1.0, finish_s=float("inf"), nodes=1),)
    made = instance({"a": {"work": 2}, "b": {"work": 1, "after": "a"}}, platform({}, {}), busy=forever)
    with pytest.raises(Infeasible, match="a never fits on m0 beside its busy intervals"):
        decode(made, None, [0, 0])
    found = decode_population(made, None, [[0, 0], [1, 1]])
    assert found.makespan_s.tolist() == [float("inf"), 3.0]


SMALL = {"a": {"work": 2, "requirements": 'name == "m0"'}, "b": {"work": 1, "after": "a", "nodes": [1, 2]}}


@pytest.mark.parametrize(
    ("order", "bound", "modes", "error", "message"),
    [
        ([1, 0], [0, 0], None, InvalidInput, "the order puts b before a; predecessors must come first"),
        ([0, 0], [0, 0], None, InvalidInput, "the order contains task 0 twice; every task from 0 to 1"),
        ([0, 7], [0, 0], None, InvalidInput, "the order contains task 7; every task"),
        (None, [0, 5], None, InvalidInput, "'b' is bound to machine number 5; there are 2 machines"),
        (None, [1, 0], None, Infeasible, "a cannot run on m1: bind it to one of its candidates"),
        (None, [0, 0], [0, 1], InvalidInput, r"the given mode of b does not exist on m0; .* \[1\]"),
        (None, [0, 0], [0, 9], InvalidInput, "the given mode of b does not exist on m0"),
        (None, [0], None, InvalidInput, r"bound is an array of shape \(1,\); must be a row of 2 numbers"),
        (None, [0, -1], None, InvalidInput, "bound has values from -1 to 0; must be integers from 0 to"),
        ([[0, 1]] * 2, [[0, 0]] * 3, None, InvalidInput, "the arrays have 2 and 3 individuals"),
        ([[0, 1]] * 2, [0, 0], None, InvalidInput, "2 genomes; must be one"),
    ],
)
def test_invalid_genomes_are_refused(form, order, bound, modes, error, message):
    made = instance(SMALL, platform({}, {"nodes": 2}))
    with pytest.raises(error, match=message):
        decode(made, order, bound, modes, rule=INSERTION)


def test_error_names_the_invalid_individual(form):
    made = instance(SMALL, platform({}, {"nodes": 2}), pinned={"b": "m1"})
    with pytest.raises(InvalidInput, match="'b' is bound to machine number 0; it is pinned to number 1"):
        decode_population(made, None, [[0, 1], [0, 0], [7, 7]], rule=EXCLUSIVE)


@pytest.mark.parametrize("seconds", [[1.0, -1.0], [1.0, float("inf")], [float("nan"), 1.0], [1.0]])
def test_durations_must_be_finite_and_not_negative(seconds):
    made = instance(SMALL, platform({}, {"nodes": 2}))
    with pytest.raises(InvalidInput, match=r"seconds (contains|is an array)"):
        decode(made, None, [0, 0], seconds=seconds)


def test_unknown_placement_rule_is_refused():
    with pytest.raises(InvalidInput, match="the decoder rule is 9"):
        decode(instance({"a": {"work": 1}}, "identical:2"), None, [0], rule=9)
