"""Arrivals with given times, drawn arrivals, and the arrivals of the many-workflows paper."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from weft.backends.simulation.scenario import Arrival, ArrivalTrace, Scenario, Series, draw_arrivals
from weft.backends.simulation.scenario_reader import read_scenario
from weft.documents import Document, from_python
from weft.randomness import generator

MIX = {"GEE": 10, "MAXDo": 25, "PipeAlign": 16}


def scenario_of(*entries):
    return read_scenario(Document(root=from_python({"weft": 1, "arrivals": list(entries)})))


def drawn(scenario, seed=0):
    return draw_arrivals(scenario, generator(seed, "arrivals"))


def test_the_arrivals_of_the_many_workflows_paper_can_be_described(spec_data):
    published = json.loads((spec_data / "s5_expected.json").read_text())["scenario_seed0"]
    halves = [[name for at, name in published if at <= 600], [name for at, name in published if at > 600]]
    stated = scenario_of(
        {"order": halves[0], "every": "12s"}, {"order": halves[1], "every": "12s", "from": "1200s"}
    )
    assert [(each.at_s, each.workflow) for each in drawn(stated)] == [(at, name) for at, name in published]
    by_mix = scenario_of({"mix": MIX, "every": "12s"}, {"mix": MIX, "every": "12s", "from": "1200s"})
    assert sorted(each.at_s for each in drawn(by_mix)) == [at for at, _ in published]
    assert Counter(each.workflow for each in drawn(by_mix)) == Counter(name for _, name in published)


def test_arrival_mix_is_a_permutation_that_depends_on_the_seed():
    mix = scenario_of({"mix": MIX, "every": 12, "owner": "ann"})
    orders = {tuple(each.workflow for each in drawn(mix, seed)) for seed in range(20)}
    assert len(orders) == 20
    assert {frozenset(Counter(order).items()) for order in orders} == {frozenset(MIX.items())}
    assert drawn(mix, 3) == drawn(mix, 3)
    assert {each.owner for each in drawn(mix)} == {"ann"}


def test_all_positions_in_an_arrival_mix_are_equally_likely():
    mix = scenario_of({"mix": {"a": 1, "b": 3}, "every": 1})
    places = Counter([each.workflow for each in drawn(mix, seed)].index("a") for seed in range(400))
    assert all(60 <= places[place] <= 140 for place in range(4))


def test_poisson_intervals_have_the_stated_mean_and_are_memoryless():
    found = drawn(scenario_of({"workflow": "a", "count": 20_000, "poisson": "45s", "from": 100}))
    times = np.array([each.at_s for each in found])
    intervals = np.diff(times, prepend=100.0)
    assert intervals.min() > 0
    assert intervals.mean() == pytest.approx(45.0, rel=0.03)
    assert intervals.std() == pytest.approx(45.0, rel=0.04)
    assert np.mean(intervals > 90.0) == pytest.approx(np.exp(-2), abs=0.01)


def test_arrivals_are_ordered_by_time_then_by_position_in_the_file():
    scenario = Scenario(
        arrivals=(
            Arrival(workflow="late", at_s=24.0),
            Series(workflows=("a", "b", "c"), every_s=12.0),
            ArrivalTrace(
                file="t.csv", arrivals=(Arrival(workflow="t", at_s=12.0, owner="x"), Arrival(workflow="u"))
            ),
            Series(workflows=("p", "p"), from_s=24.0),
        )
    )
    found = [(each.at_s, each.workflow) for each in drawn(scenario)]
    assert found == [(0, "a"), (0, "u"), (12, "b"), (12, "t"), (24, "late"), (24, "c"), (24, "p"), (24, "p")]
