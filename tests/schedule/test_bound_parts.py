"""Parts of the lower bounds equal simple references on random instances."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planning_examples import instance, planned, platform, workflow
from planning_strategies import platforms, workflows
from weft.errors import Infeasible
from weft.instance import compile_instance
from weft.schedule.bounds.area import (
    SupplyLoad,
    bound_by_turns,
    find_crossing,
    find_cuts,
    heads_after_ancestors,
    heads_after_stages,
    longest_refuted,
    sum_taken,
)
from weft.schedule.bounds.lower_bounds import lower_bounds
from weft.schedule.bounds.modes import collect_modes, shortest_seconds, widest_nodes
from weft.schedule.bounds.paths import (
    PathEdges,
    backward_edges,
    bound_transfers,
    follow_machine_paths,
    forward_edges,
    heads,
    tails,
)
from weft.schedule.bounds.supplies import build_front, list_supplies
from weft.workflow.task_graph import COMPUTE, TRANSFER
from weft.workflow.unfold import unfold

SOME = settings(max_examples=40, deadline=None, derandomize=True)


def compiled(flow, where):
    try:
        return compile_instance(unfold(flow), where)
    except Infeasible:
        return None


def loads_of(made):
    ways = collect_modes(made)
    widest = widest_nodes(ways, len(made))
    return [
        SupplyLoad(supply=supply, front=build_front(made, ways, supply), widest=widest, reach=supply.reach())
        for supply in list_supplies(made, ways)
    ]


@given(workflows(), platforms())
@SOME
def test_weights_of_machines_sum_to_one_and_areas_use_the_smallest_mode(flow, where):
    made = compiled(flow, where)
    if made is None:
        return
    ways = collect_modes(made)
    for supply in list_supplies(made, ways):
        assert (supply.weight * supply.capacity).sum() == pytest.approx(1.0)
        assert not supply.weight[made.unlimited].any()
        if supply.resource is None and not supply.rounding:
            front = build_front(made, ways, supply)
            for task in np.flatnonzero(made.graph.kind == COMPUTE).tolist():
                modes = made.modes(task)
                areas = supply.weight[modes.machine] * modes.nodes * modes.seconds
                assert front.area[task] == pytest.approx(areas.min())


@given(workflows(), platforms(), st.sampled_from([0.05, 0.5, 2.0, 9.0, 60.0]))
@SOME
def test_a_duration_limit_excludes_longer_modes(flow, where, limit_s):
    made = compiled(flow, where)
    if made is None:
        return
    for load in loads_of(made):
        found = load.front.area_within(np.full(len(made), limit_s))
        for task in np.flatnonzero(made.graph.kind == COMPUTE).tolist():
            if load.supply.resource is None and not load.supply.rounding:
                modes = made.modes(task)
                fits = modes.seconds <= limit_s
                areas = (load.supply.weight[modes.machine] * modes.nodes * modes.seconds)[fits]
                assert found[task] == pytest.approx(areas.min(initial=math.inf))


def test_merged_pareto_fronts_are_never_above_the_exact_fronts():
    law = {"nodes": "1..200", "speedup": {"amdahl": 0.02}}
    made = instance({"a": {"work": 100} | law}, "cluster:200")
    load = loads_of(made)[0]
    modes = made.modes(0)
    areas = modes.nodes * modes.seconds / 200
    assert load.front.step_s.shape[1] == 48
    for limit in (2.6, 3.0, 5.0, 20.0, 100.0):
        least = areas[modes.seconds <= limit].min()
        found = float(load.front.area_within(np.array([limit]))[0])
        assert 0.8 * least <= found <= least * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_adjusted_prices_give_a_bound_as_good_as_the_best_prices_of_a_grid(seed):
    rng = np.random.default_rng(seed)
    seconds = rng.integers(1, 10, size=(12, 2))
    tasks = {f"t{row}": {"seconds": {"m0": float(a), "m1": float(b)}} for row, (a, b) in enumerate(seconds)}
    found = lower_bounds(instance(tasks, platform({}, {}))).area_s
    grid = np.linspace(0, 1, 20_001)[:, None]
    best = np.minimum(grid * seconds[:, 0], (1 - grid) * seconds[:, 1]).sum(axis=1).max()
    assert best * 0.995 <= found <= best * (1 + 1e-4)


def walk(made):
    """Return {task: {machine: earliest finish}} by following every path over every machine."""
    graph, finish, heads_s = made.graph, {}, []
    for task in range(len(made)):
        variable = int(graph.variable[task])
        mine = made.candidates_of(variable).tolist()
        reads = int(graph.source_variable[task]) if graph.kind[task] == TRANSFER else variable
        first = int(graph.predecessor_pointer[task])

        def ready(machine, task=task, reads=reads, first=first):
            times = [0.0]
            for edge, other in enumerate(graph.predecessors(task).tolist(), start=first):
                there = finish[other].items()
                if int(graph.variable[other]) == reads:
                    there = [(machine, finish[other].get(machine, math.inf))]
                times.append(min(end + made.edge_s(edge, place, machine) for place, end in there))
            return max(times)

        if graph.kind[task] == TRANSFER:
            sources = mine if reads == variable else made.candidates_of(reads).tolist()
            arrivals = {place: ready(place) for place in sources}
            finish[task] = {
                machine: min(
                    time + made.transfer_s(task, place, machine)
                    for place, time in arrivals.items()
                    if reads != variable or place == machine
                )
                for machine in mine
            }
        else:
            arrivals = {machine: ready(machine) for machine in mine}
            spent = dict.fromkeys(mine, 0.0)
            if graph.kind[task] == COMPUTE:
                modes = made.modes(task)
                for machine in mine:
                    spent[machine] = float(modes.seconds[modes.machine == machine].min(initial=math.inf))
            finish[task] = {machine: arrivals[machine] + spent[machine] for machine in mine}
        heads_s.append(min(arrivals.values()))
    return heads_s, finish


@given(workflows(), platforms())
@SOME
def test_path_bounds_per_machine_equal_the_reference(flow, where):
    made = compiled(flow, where)
    found = None if made is None else follow_machine_paths(made, collect_modes(made))
    if found is None:
        return
    heads_s, finish = walk(made)
    assert found.head_s == pytest.approx(np.array(heads_s), rel=1e-9)
    longest = max(min(times.values()) for times in finish.values())
    assert found.longest_s >= longest * (1 - 1e-9)


def test_path_bounds_per_machine_are_skipped_if_one_machine_is_fastest_for_all_tasks():
    tasks = {"a": {"work": 4, "outputs": {"x": "5MB"}}, "b": {"work": 5, "inputs": ["x"]}}
    made = instance(tasks, platform({}, {"speed": 2.0}))
    assert follow_machine_paths(made, collect_modes(made)) is None


@given(workflows(), platforms())
@SOME
def test_transfer_bounds_are_the_fastest_links_between_candidates(flow, where):
    made = compiled(flow, where)
    if made is None:
        return
    graph, found = made.graph, bound_transfers(made)
    hosts = made.network.host
    machines = range(len(made.machines))
    for task in range(len(made)):
        transfer = graph.kind[task] == TRANSFER
        mine = made.candidates_of(int(graph.variable[task])).tolist()
        reads = int(graph.source_variable[task]) if transfer else int(graph.variable[task])
        first = int(graph.predecessor_pointer[task])
        for edge, other in enumerate(graph.predecessors(task).tolist(), start=first):
            theirs = made.candidates_of(int(graph.variable[other])).tolist()
            here = made.candidates_of(reads).tolist()
            least = min(made.edge_s(edge, a, b) for a in theirs for b in here)
            assert found.edge_s[edge] <= least * (1 + 1e-9)
            apart = [made.edge_s(edge, a, b) for a in machines for b in machines if hosts[a] != hosts[b]]
            assert found.apart_s[edge] <= min(apart, default=0.0) * (1 + 1e-9)
        if transfer:
            sources = made.candidates_of(reads).tolist()
            least = min(made.transfer_s(task, a, b) for a in sources for b in mine)
            assert found.transfer_s[task] <= least * (1 + 1e-9)


def test_transfer_bound_is_the_exact_time_if_source_and_destination_share_no_host():
    tasks = {
        "write": {"work": 1, "outputs": {"x": "9MB"}, "requirements": 'name == "m0"'},
        "move": {"kind": "transfer", "from_": "A", "to": "B", "file": "x", "size": "9MB"},
        "hold": {"work": 1, "machine": "A", "requirements": 'name == "m2"'},
        "read": {"work": 1, "machine": "B", "inputs": ["x"], "requirements": 'name == "m1"'},
    }
    made = instance(tasks, platform({}, {}, {}))
    found, move = bound_transfers(made), made.graph.index("move")
    assert found.transfer_s[move] == pytest.approx(9)
    assert found.edge_s[int(made.graph.predecessor_pointer[move])] == pytest.approx(9)
    assert not found.apart_s[int(made.graph.predecessor_pointer[move])]


@given(workflows(), platforms())
@SOME
def test_head_and_tail_bounds_of_tasks_hold_for_every_schedule(flow, where):
    made = compiled(flow, where)
    if made is None:
        return
    schedule, graph, ways = planned(made), made.graph, collect_modes(made)
    moving = bound_transfers(made)
    shortest = shortest_seconds(ways, len(made)) + moving.transfer_s
    early = heads(graph, shortest, made.earliest_start_s, moving.edge_s)
    late = tails(graph, shortest, moving.edge_s)
    slack = 1e-9 * max(1.0, schedule.makespan_s)
    loads, ahead, back = (
        loads_of(made),
        forward_edges(graph, moving.edge_s),
        backward_edges(graph, moving.edge_s),
    )
    for raising in (heads_after_ancestors, heads_after_stages):
        raised = raising(ahead, shortest, early, loads, whole=False)
        assert (raised >= early - slack).all()
        assert (raised <= schedule.start_s + slack).all()
        reverse = [load.backwards() for load in loads]
        rest = raising(back, shortest[::-1], late[::-1], reverse, whole=False)[::-1]
        assert (rest >= late - slack).all()
        assert (rest <= schedule.makespan_s - schedule.finish_s + slack).all()


def random_edges(rng, tasks, chance):
    before = [[other for other in range(task) if rng.random() < chance] for task in range(tasks)]
    pointer = np.cumsum([0] + [len(some) for some in before])
    flat = np.array([other for some in before for other in some], dtype=np.int64)
    return before, PathEdges(pointer=pointer, before=flat, moving_s=np.zeros(len(flat)))


@pytest.mark.parametrize("seed", range(40))
def test_tasks_before_a_cut_precede_all_tasks_after_it(seed):
    rng = np.random.default_rng(seed)
    before, edges = random_edges(rng, int(rng.integers(1, 9)), float(rng.choice([0.3, 0.7, 0.95])))
    ancestors = []
    for some in before:
        ancestors.append(set(some).union(*(ancestors[other] for other in some)))
    tasks = len(before)
    expected = [
        cut
        for cut in range(1, tasks)
        if all(set(range(cut)) <= ancestors[task] for task in range(cut, tasks))
    ]
    assert find_cuts(edges).tolist() == expected


def test_backward_edges_are_the_reversed_forward_edges():
    flow = workflow({"a": {"work": 1}, "b": {"work": 1, "after": "a"}, "c": {"work": 1, "after": ["a", "b"]}})
    graph = unfold(flow)
    edges = backward_edges(graph, np.arange(float(graph.edge_count)))
    assert edges.pointer.tolist() == [0, 0, 1, 3]
    assert edges.before.tolist() == [0, 1, 0]
    forward = {(0, 1): 0.0, (0, 2): 1.0, (1, 2): 2.0}
    targets = np.repeat(np.arange(3), np.diff(edges.pointer)).tolist()
    for target, other, moving in zip(targets, edges.before.tolist(), edges.moving_s.tolist(), strict=True):
        assert forward[2 - target, 2 - other] == moving


@pytest.mark.parametrize("seed", range(20))
def test_bound_by_rounds_of_equal_tasks_equals_the_formula(seed):
    rng = np.random.default_rng(seed)
    nodes, seconds = int(rng.integers(1, 4)), rng.integers(1, 6, size=int(rng.integers(1, 12)))
    tasks = {f"t{index}": {"work": float(value)} for index, value in enumerate(seconds)}
    made = instance(tasks, f"identical:{nodes}")
    longest_first = sorted(seconds.tolist(), reverse=True)
    # Of the longest k * nodes + 1 tasks some node runs k + 1.
    by_hand = max(
        (
            (turns + 1) * longest_first[turns * nodes]
            for turns in range(1, len(seconds))
            if turns * nodes < len(seconds)
        ),
        default=0.0,
    )
    assert bound_by_turns(loads_of(made)[0], np.arange(len(seconds))) == pytest.approx(by_hand)


def test_the_fixed_point_of_a_decreasing_function_is_found():
    assert find_crossing(1.0, lambda time: 10.0 if time < 4 else 6.0) == pytest.approx(6.0)
    assert find_crossing(1.0, lambda time: 10.0 if time < 7 else 2.0) == pytest.approx(7.0)
    assert find_crossing(5.0, lambda _: 3.0) == 5.0


@pytest.mark.parametrize("limit", [101.3, 100.001, 250.0, 3456.7])
def test_longest_makespan_that_can_be_refuted_is_found(limit):
    assert longest_refuted(100.0, lambda time: time < limit, whole=False, tries=60) == pytest.approx(
        limit, rel=2e-9
    )
    assert longest_refuted(100.0, lambda time: time < limit, whole=True, tries=60) == math.ceil(limit)
    coarse = longest_refuted(100.0, lambda time: time < limit, whole=False, tries=8)
    assert 100.0 <= coarse <= limit * (1 + 2e-9)


def test_a_bound_that_cannot_be_raised_is_returned_unchanged():
    assert longest_refuted(100.5, lambda _: False, whole=False, tries=9) == 100.5
    assert longest_refuted(100.5, lambda _: False, whole=True, tries=9) == 101
    assert longest_refuted(0.0, lambda _: True, whole=False, tries=9) == 0.0


def test_tasks_outside_a_window_take_nothing_from_it_in_modes_that_are_possible():
    rate = np.array([[[2.0], [np.inf]], [[1.0], [3.0]]])
    inside = np.array([[[-1.0, 4.0], [-1.0, 0.0]], [[-5.0, 1.0], [2.0, 1.0]]])
    assert sum_taken(rate, inside).tolist() == [0.0, 9.0]
