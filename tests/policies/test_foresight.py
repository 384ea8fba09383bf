"""Foresight against a slow twin that looks at every node of every machine."""

from __future__ import annotations

import numpy as np
import pytest

from planning_examples import instance, platform
from policies.hand_made import HandMade, attempt, run_of
from weft.planners.lists.ranks import upward_ranks
from weft.platform.link import Link
from weft.policies.foresight import Foresight


def twin_left_s(made, view, run, live):
    """Place what is left, one task after the other, each node with a time from which it is free."""
    nodes = [[0.0] * int(capacity) for capacity in made.capacity]
    ends, homes = {}, {}
    for running in live:
        left = max(0.0, running.expected_end_s - view.now)
        free = sorted(nodes[running.machine])
        nodes[running.machine] = free[running.nodes :] + [left] * running.nodes
        ends[running.task], homes[running.task] = left, running.machine
    ranks = upward_ranks(made)
    for task in sorted(run.unfinished(), key=lambda task: (-ranks[task], task)):
        if task in ends:
            continue
        before = list(enumerate(made.graph.predecessors(task).tolist(), made.graph.predecessor_pointer[task]))
        modes, found = made.modes(task), []
        for machine in sorted(set(modes.machine.tolist())):
            if not view.machines[machine].up:
                continue
            there = np.flatnonzero(modes.machine == machine)
            best = there[modes.seconds[there].argmin()]
            arrival = 0.0
            for edge, other in before:
                home = homes[other] if other in homes else run.where(other)
                moving = 0.0 if home is None else made.edge_s(int(edge), home, machine)
                arrival = max(arrival, ends.get(other, 0.0) + moving)
            free = sorted(nodes[machine])
            free_from = 0.0 if made.unlimited[machine] else free[int(modes.nodes[best]) - 1]
            seconds = float(modes.seconds[best]) / view.machines[machine].speed_factor
            found.append((max(arrival, free_from) + seconds, free_from, machine, int(modes.nodes[best])))
        finish, _, machine, taken = min(found)
        if not made.unlimited[machine]:
            nodes[machine] = sorted(nodes[machine])[taken:] + [finish] * taken
        ends[task], homes[task] = finish, machine
    return max(ends[task] for task in run.unfinished())


def random_graph(rng, *, data, nodes):
    described = {}
    for index in range(14):
        before = sorted(set(rng.integers(0, index, size=2).tolist())) if index > 2 else []
        keys = {"work": float(rng.integers(1, 6)), "after": [f"t{b:02}" for b in before]}
        if data:
            keys["outputs"] = {f"f{index}": float(rng.integers(0, 4)) * 1e6}
            keys["inputs"] = [f"f{b}" for b in before if rng.integers(2)]
        if nodes and rng.integers(2):
            keys |= {"nodes": [1, 2, 4], "speedup": {"amdahl": 0.3}}
        described[f"t{index:02}"] = keys
    sites = ["a", "b"] if data else ["a"]
    machines = [
        {
            "speed": float(rng.integers(1, 3)),
            "nodes": 4 if nodes and rng.integers(2) else 1,
            "site": sites[m % len(sites)],
        }
        for m in range(5)
    ]
    if nodes:
        machines[0]["nodes"] = 4
    return instance(described, platform(*machines, link=Link(bandwidth_Bps=1e6, latency_s=0.5)))


def situation(rng, made):
    """Draw how far a run is: what has ended and where, and what runs."""
    graph, cut = made.graph, int(rng.integers(0, len(made)))
    started = range(cut)
    where, live, taken = {}, [], set()
    for task in started:
        machine = int(rng.choice(made.modes(task).machine))
        last = not any(other < cut for other in graph.successors(task).tolist())
        if last and machine not in taken and rng.integers(2):
            taken.add(machine)
            live.append(attempt(task, machine, 100.0 + float(rng.integers(-1, 5))))
        else:
            where[task] = machine
    return where, live


@pytest.mark.parametrize("nodes", [False, True])
@pytest.mark.parametrize("data", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_it_finds_what_the_twin_finds(seed, data, nodes):
    rng = np.random.default_rng(seed)
    made = random_graph(rng, data=data, nodes=nodes)
    for _ in range(4):
        where, live = situation(rng, made)
        factors = [float(rng.choice([0.5, 1.0, 1.0, 2.0])) for _ in range(4)]
        view = HandMade.of(made, now=100.0, live=live, factors=[1.0, *factors])
        run = run_of(made, done=where, where=where)
        expected = twin_left_s(made, view, run, live)
        assert Foresight(view).left_s(run) == pytest.approx(expected, rel=1e-12)
        assert Foresight(view).left_s(run) == pytest.approx(expected, rel=1e-12), "remembered or not"


def test_other_runs_and_the_time_do_not_count():
    made = instance({"a": {"work": 4}, "b": {"work": 3, "after": "a"}}, "identical:2")
    other = attempt(0, 0, 1000.0, run=7)
    found = [Foresight(HandMade.of(made, now=now, live=[other])).left_s(run_of(made)) for now in (0.0, 55.5)]
    assert found == [7.0, 7.0]


def test_what_is_remembered_is_forgotten_with_the_beliefs():
    made = instance({"a": {"work": 4}}, "identical:2")
    for factors, expected in (([1.0, 1.0], 4.0), ([0.5, 0.5], 8.0), ([0.5, 4.0], 1.0), ([1.0, 1.0], 4.0)):
        assert Foresight(HandMade.of(made, factors=factors)).left_s(run_of(made)) == expected


def test_without_a_machine_the_end_is_never():
    made = instance({"a": {"work": 4}}, "identical:2")
    assert Foresight(HandMade.of(made, factors=[0.0, 0.0])).left_s(run_of(made)) == float("inf")


def test_abstract_machines_transfers_and_virtual_tasks_count():
    tasks = {
        "a": {"work": 3, "machine": "A", "outputs": ["x"]},
        "move": {"kind": "transfer", "from_": "A", "to": "B", "file": "x", "size": "8MB"},
        "b": {"work": 3, "machine": "B", "inputs": ["x"]},
        "c": {"work": 5, "machine": "A", "after": "a"},
        "end": {"kind": "virtual", "after": ["b", "c"]},
    }
    made = instance(tasks, platform({}, {}))
    view = HandMade.of(made)
    # a 0-3; c follows a on its machine 3-8; the file moves 3-11 between different machines, b 11-14.
    assert Foresight(view).left_s(run_of(made)) == pytest.approx(14.0)
    a, c = made.graph.index("a"), made.graph.index("c")
    run = run_of(made, done=[a], where={a: 1}, bound={c: 1})
    assert Foresight(view).left_s(run) == pytest.approx(11.0)


def test_machines_without_limit_take_everything_at_once():
    made = instance(
        {"a": {"sweep": {"k": "1..9"}, "work": 2}}, platform({"occupancy": "unlimited"}, {"speed": 0.1})
    )
    assert Foresight(HandMade.of(made)).left_s(run_of(made)) == 2.0
