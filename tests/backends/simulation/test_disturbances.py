"""Disturbances are ordered by time, end, follow the stated distributions, and depend only on seed and
scenario.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from weft.backends.simulation.disturbances import Disturbance, DisturbanceKind, generate_disturbances
from weft.backends.simulation.scenario import CompetingLoad, Failure, Perturbation, Scenario, Silence, Span
from weft.backends.simulation.state import HostSpeed
from weft.errors import InvalidInput
from weft.platform.short_forms import parse_short_form

MACHINES = parse_short_form("identical:20").machines


def first(scenario, count, seed=1):
    return list(itertools.islice(generate_disturbances(scenario, MACHINES, seed), count))


def exactly(number):
    return Span(low=number, high=number)


GRID = Perturbation(
    machines=("*",), every_s=4.0, slowdown=Span(low=3.0, high=10.0), lasting_s=Span(low=100.0, high=600.0)
)


def test_disturbances_with_given_times_happen_at_these_times():
    scenario = Scenario(
        perturbations=(
            Perturbation(machines=("m2",), at_s=5.0, slowdown=exactly(2.0), lasting_s=exactly(10.0)),
        ),
        failures=(
            Failure(machines=("m1", "m3"), at_s=7.0, repair_s=3.0),
            Failure(machines=("m4",), at_s=9.0),
        ),
        loads=(CompetingLoad(machines=("m1",), processes=3, at_s=5.0, until_s=8.0),),
        silences=(
            Silence(machines=("m1",), at_s=6.0, lasting_s=1.0),
            Silence(machines=("m2",), at_s=6.0, what="gatekeeper"),
        ),
    )
    assert first(scenario, 99) == [
        Disturbance(5.0, DisturbanceKind.SLOWED, 1, 2.0),
        Disturbance(5.0, DisturbanceKind.LOADED, 0, 3.0),
        Disturbance(6.0, DisturbanceKind.JOB_MANAGER_SILENT, 0),
        Disturbance(6.0, DisturbanceKind.GATEKEEPER_SILENT, 0),
        Disturbance(6.0, DisturbanceKind.GATEKEEPER_SILENT, 1),
        Disturbance(7.0, DisturbanceKind.FAILED, 0),
        Disturbance(7.0, DisturbanceKind.FAILED, 2),
        Disturbance(7.0, DisturbanceKind.JOB_MANAGER_BACK, 0),
        Disturbance(7.0, DisturbanceKind.GATEKEEPER_BACK, 0),
        Disturbance(8.0, DisturbanceKind.UNLOADED, 0, 3.0),
        Disturbance(9.0, DisturbanceKind.FAILED, 3),
        Disturbance(10.0, DisturbanceKind.REPAIRED, 0),
        Disturbance(10.0, DisturbanceKind.REPAIRED, 2),
        Disturbance(15.0, DisturbanceKind.RELIEVED, 1, 2.0),
    ]


def test_perturbations_have_the_stated_intervals_factors_and_durations():
    items = first(Scenario(perturbations=(GRID,)), 20_000)
    begins = [item for item in items if item.what is DisturbanceKind.SLOWED]
    intervals = np.diff([0.0, *(item.at_s for item in begins)])
    assert intervals.min() >= 0
    assert intervals.max() <= 8.0
    assert intervals.mean() == pytest.approx(4.0, rel=0.03)
    assert np.mean(intervals < 2.0) == pytest.approx(0.25, abs=0.02)  # uniform, not exponential
    factors = np.array([item.value for item in begins])
    assert (factors.min() >= 3.0, factors.max() <= 10.0) == (True, True)
    assert factors.mean() == pytest.approx(6.5, rel=0.02)
    struck = Counter(item.machine for item in begins)
    assert set(struck) == set(range(20))
    assert max(struck.values()) < 1.3 * min(struck.values())
    lasting = times_between(items, DisturbanceKind.SLOWED, DisturbanceKind.RELIEVED)
    assert min(lasting) >= 99.999
    assert max(lasting) <= 600.001
    assert np.mean(lasting) == pytest.approx(350.0, rel=0.03)


def times_between(items, begin, end):
    """Return the durations between every begin and the next end of the same machine and value."""
    began, found = {}, []
    for item in items:
        if item.what is begin:
            began.setdefault((item.machine, item.value), []).append(item.at_s)
        elif item.what is end:
            found.append(item.at_s - began[item.machine, item.value].pop(0))
    return found


def test_failures_and_repairs_alternate_with_exponential_intervals():
    items = first(Scenario(failures=(Failure(machines=("m[1-4]",), mtbf_s=3600.0, repair_s=600.0),)), 16_000)
    assert {item.machine for item in items} == {0, 1, 2, 3}
    for machine in range(4):
        mine = [item for item in items if item.machine == machine]
        assert [item.what for item in mine] == [DisturbanceKind.FAILED, DisturbanceKind.REPAIRED] * (
            len(mine) // 2
        ) + [DisturbanceKind.FAILED] * (len(mine) % 2)
        spans = np.diff([0.0, *(item.at_s for item in mine)])
        for spent, mean in ((spans[::2], 3600.0), (spans[1::2], 600.0)):
            assert spent.mean() == pytest.approx(mean, rel=0.1)
            assert spent.std() == pytest.approx(mean, rel=0.15)


def test_a_machine_that_is_never_repaired_fails_once():
    items = first(Scenario(failures=(Failure(machines=("*",), mtbf_s=10.0),)), 99)
    assert [item.what for item in items] == [DisturbanceKind.FAILED] * 20


def test_no_perturbation_starts_after_its_end_time():
    short = Perturbation(
        machines=("*",), every_s=1.0, at_s=50.0, until_s=90.0, slowdown=exactly(2.0), lasting_s=exactly(30.0)
    )
    items = first(Scenario(perturbations=(short,)), 9999)
    begins = [item.at_s for item in items if item.what is DisturbanceKind.SLOWED]
    assert 50.0 <= min(begins) <= max(begins) <= 90.0
    assert len(items) == 2 * len(begins) > 40


def test_adding_a_scenario_entry_does_not_change_disturbances_of_earlier_entries():
    failing = Failure(machines=("m1",), mtbf_s=50.0, repair_s=5.0)
    one = Scenario(perturbations=(GRID,), failures=(failing,))
    more = Scenario(
        perturbations=(GRID, GRID),
        failures=(failing, Failure(machines=("m2",), mtbf_s=5.0, repair_s=1.0)),
        loads=(CompetingLoad(machines=("m1",), processes=1),),
    )
    alone = first(one, 300)
    among = set(
        itertools.takewhile(
            lambda item: item.at_s <= alone[-1].at_s, generate_disturbances(more, MACHINES, 1)
        )
    )
    assert set(alone) < among
    assert first(one, 300, seed=2) != alone
    doubled = first(Scenario(perturbations=(GRID, GRID)), 50)
    assert len({item.at_s for item in doubled}) == 50, "equal entries draw apart"


SPANS = st.tuples(st.integers(1, 5), st.integers(0, 5)).map(lambda each: Span(low=each[0], high=sum(each)))
PATTERNS = st.sampled_from([("*",), ("m1",), ("m[1-3]", "m2"), ("m1?",)])
SCENARIOS = st.builds(
    Scenario,
    perturbations=st.lists(
        st.builds(
            Perturbation,
            machines=PATTERNS,
            slowdown=SPANS,
            lasting_s=SPANS,
            at_s=st.integers(0, 5).map(float),
            every_s=st.sampled_from([None, 1.0, 5.0]),
        ),
        max_size=3,
    ).map(tuple),
    failures=st.lists(
        st.builds(
            Failure,
            machines=PATTERNS,
            repair_s=st.sampled_from([2.0, math.inf]),
            at_s=st.integers(0, 5).map(float),
            mtbf_s=st.sampled_from([None, 3.0]),
        ),
        max_size=3,
    ).map(tuple),
    loads=st.lists(
        st.builds(
            CompetingLoad,
            machines=PATTERNS,
            processes=st.integers(1, 3),
            at_s=st.just(1.0),
            until_s=st.sampled_from([1.0, 4.0]),
        ),
        max_size=2,
    ).map(tuple),
)
ENDS = {
    DisturbanceKind.RELIEVED: DisturbanceKind.SLOWED,
    DisturbanceKind.REPAIRED: DisturbanceKind.FAILED,
    DisturbanceKind.UNLOADED: DisturbanceKind.LOADED,
}


@given(SCENARIOS, st.integers(0, 99))
def test_disturbances_are_ordered_by_time_and_every_end_follows_its_start(scenario, seed):
    items = first(scenario, 200, seed)
    assert items == first(scenario, 200, seed)
    assert all(one.at_s <= other.at_s for one, other in itertools.pairwise(items))
    going_on, speeds = Counter(), [HostSpeed() for _ in MACHINES]
    for item in items:
        if item.what in ENDS:
            going_on[ENDS[item.what], item.machine, item.value] -= 1
        else:
            going_on[item.what, item.machine, item.value] += 1
        assert min(going_on.values()) >= 0
        speed = speeds[item.machine]
        match item.what:
            case DisturbanceKind.SLOWED:
                speed.slow(item.value, item.at_s)
            case DisturbanceKind.RELIEVED:
                speed.relieve(item.value, item.at_s)
            case DisturbanceKind.LOADED:
                speed.load(int(item.value), item.at_s)
            case DisturbanceKind.UNLOADED:
                speed.unload(int(item.value), item.at_s)
        assert 0 < speed.share <= 1


def test_simulation_in_which_no_task_makes_progress_is_refused(tmp_path: Path) -> None:
    """Slowdowns that overlap left a machine a share of 1e-14 of its speed: the simulation did not end."""
    (tmp_path / "w.yaml").write_text("weft: 1\nname: w\ntasks: {a: {work: 100, command: 'true'}}\n")
    (tmp_path / "s.yaml").write_text(
        "weft: 1\nperturbations: [{machines: '*', every: 5s, slowdown: 8, lasting: 200s}]\n"
    )
    with pytest.raises(InvalidInput, match="no task made progress"):
        weft.simulate(tmp_path / "w.yaml", on="identical:1", scenario=tmp_path / "s.yaml")


def test_simulation_without_progress_is_refused_although_machines_fail_repeatedly(tmp_path: Path) -> None:
    """Each failure and repair counted as progress of a task that takes longer than any simulation."""
    (tmp_path / "w.yaml").write_text("weft: 1\nname: w\ntasks: {a: {work: 1e299, command: 'true'}}\n")
    (tmp_path / "s.yaml").write_text(
        "weft: 1\nfailures: [{machine: m2, mtbf: 6h, repair: 10m}]\n"
        "perturbations: [{machines: '*', every: 40s, slowdown: 2, lasting: 60s}]\n"
    )
    with pytest.raises(InvalidInput, match="no task made progress"):
        weft.simulate(tmp_path / "w.yaml", on="identical:2", scenario=tmp_path / "s.yaml", plan_steps=5)
