"""Machines by free capacity and by the time they become free, compared with slow references."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planning_examples import instance, platform
from policy_runs import run_all
from weft.backends.simulation.scenario import Durations, Failure, Scenario
from weft.engine.state.indexes import AvailabilityQueue, FreeMachines
from weft.engine.state.run import RunProgress

MACHINES = st.integers(0, 6)
LEFT = st.one_of(st.none(), st.integers(1, 3), st.tuples(st.just(1.0), st.sampled_from([0.5, 2.0])))
TIMES = st.integers(0, 12).map(float)


@given(st.lists(st.tuples(MACHINES, LEFT), max_size=40), st.sets(MACHINES, max_size=3))
def test_first_of_equally_free_machines_is_returned(steps, but):
    rooms, left = FreeMachines(), {}
    for machine, now_left in steps:
        rooms.move(machine, left.get(machine), now_left)
        left[machine] = now_left
    free = {machine: found for machine, found in left.items() if found is not None and machine not in but}
    firsts = {found: min(each for each in free if free[each] == found) for found in free.values()}
    assert sorted(rooms.firsts(but)) == sorted(firsts.values())


@given(
    st.lists(st.tuples(MACHINES, st.one_of(st.none(), st.tuples(TIMES, TIMES))), max_size=30),
    st.lists(st.integers(0, 30), min_size=3, max_size=3),
    st.integers(1, 8),
)
def test_machines_are_ordered_by_the_time_they_become_free(steps, moments, most):
    loads = dict.fromkeys(range(7), (0.0, 0.0))
    waits = AvailabilityQueue(loads, loads.__getitem__)
    third = len(steps) // 3
    for number, now in enumerate(sorted(map(float, moments))):
        for machine, load in steps[number * third : (number + 1) * third]:
            loads[machine] = load
            waits.changed(machine)
        free = sorted(
            (max(load[0], now) + load[1], machine) for machine, load in loads.items() if load is not None
        )
        assert waits.first(most, now) == [machine for _, machine in free[:most]]


@given(st.lists(st.tuples(st.integers(0, 4), st.floats(0.1, 20.0), st.booleans()), max_size=30))
def test_running_tasks_progress_linearly_until_their_expected_end(steps):
    progress, running, now = RunProgress(), {}, 1.7e9
    for task, seconds, runs in steps:
        now += 1.5
        if runs:
            progress.begin(task, 2.0 * seconds + task, now, seconds)
            running[task] = (2.0 * seconds + task, now, seconds)
        else:
            progress.stop(task)
            running.pop(task, None)
        done = sum(mean * min(1.0, (now + 0.5 - since) / long) for mean, since, long in running.values())
        assert progress.done_s(now + 0.5) == pytest.approx(done, abs=1e-5)


def test_stopped_tasks_contribute_no_progress():
    tried, plain = RunProgress(), RunProgress()
    for progress in (tried, plain):
        progress.begin(0, 1.0, 0.1, 3.0)
    tried.begin(1, 0.7, 0.3, 0.2)
    assert tried.done_s(0.6) > plain.done_s(0.6)
    tried.stop(1)
    assert tried.done_s(1.7) == plain.done_s(1.7)


PAIRS = {
    "a": {"sweep": {"k": "1..20"}, "work": "5 + k % 7"},
    "b": {"sweep": {"k": "1..20"}, "work": "3 + k % 5", "after": "a[k]"},
    "c": {"sweep": {"k": "1..5"}, "work": 4, "requirements": "name != 'm1'"},
}
ROUGH = Scenario(
    durations=Durations(noise=0.4, bias=1.3), failures=(Failure(machines=("m2",), at_s=9.0, repair_s=30.0),)
)


@pytest.mark.parametrize("policy", ["basic", "lazy", "lazy:by=finish"])
def test_placements_with_a_shortlist_of_machines_equal_placements_with_all_machines(monkeypatch, policy):
    made = instance(PAIRS, platform(*({"speed": 1.0 + number // 6} for number in range(12))))
    arrivals = [(0.0, "v"), (6.0, "w")]
    found = []
    for most, some in ((64, 16), (0, 1)):
        monkeypatch.setattr("weft.engine.state.indexes._MAX_COMPARED", most)
        monkeypatch.setattr("weft.engine.state.indexes._SHORTLIST", some)
        found.append(run_all({"v": made, "w": made}, arrivals, policy, ROUGH))
    assert found[0].endings() == ["completed", "completed"]
    assert found[0].lines == found[1].lines
