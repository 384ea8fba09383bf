"""Predicted times of WIEN2k-50 on the reference testbed, in both occupancy modes (A1.6).

R. Prodan, T. Fahringer, SAC 2005; docs/papers/dynamic-grid.md, section 2.2, with 56 binding variables: LAPW2
of a k-point runs on the machine of its LAPW1.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from published.wien2k import POINTS, WORK, grid_of, wien2k
from weft.instance import compile_instance
from weft.planners.decoding import APPEND, EXCLUSIVE, UNLIMITED, decode, decode_population
from weft.schedule.verification import verify
from weft.workflow.unfold import unfold

GENES = ["lapw0", *(f"host{point}" for point in POINTS), "fermi", "sumpara", "lcore", "mixer", "conv"]
BINDINGS = {
    "all_on_A000": lambda gene: 0,
    "round_robin_16_fast": lambda gene: gene % 16,
    "round_robin_314": lambda gene: gene % 314,
}
RULES = {"no_contention": UNLIMITED, "exclusive": EXCLUSIVE}


@pytest.fixture(scope="module")
def made(spec_data):
    """Return the instance: 314 machines on four sites, of which only B has a fast internal network."""
    facts = json.loads((spec_data / "s1_testbed.json").read_text())
    return compile_instance(unfold(wien2k()), grid_of(facts))


@pytest.fixture(scope="module")
def expected(spec_data):
    return json.loads((spec_data / "s1_expected.json").read_text())


def listed_order(made):
    """Return the tasks in the order of the reference."""
    names = ["lapw0", *(f"lapw1[{point}]" for point in POINTS), "fermi"]
    names += [*(f"lapw2[{point}]" for point in POINTS), "sumpara", "lcore", "mixer", "conv"]
    return [made.graph.names.index(name) for name in names]


def binding(made, choose):
    machine = {gene: choose(index) for index, gene in enumerate(GENES)}
    return np.array([machine[variable] for variable in made.graph.variables], dtype=np.uint32)


def test_the_workflow_equals_the_reference_instance(made, expected):
    assert len(made.graph) == 106
    assert sorted(made.graph.variables) == sorted(GENES)
    assert expected["W_LAPW1"] == WORK
    assert len(made.machines) == 314


@pytest.mark.parametrize("occupancy", RULES)
@pytest.mark.parametrize("name", BINDINGS)
def test_predicted_times_equal_the_reference_data(made, expected, name, occupancy):
    bound, order = binding(made, BINDINGS[name]), listed_order(made)
    schedule = decode(made, order, bound, rule=RULES[occupancy])
    assert schedule.makespan_s == pytest.approx(expected["values"][name][occupancy], rel=1e-6)
    if occupancy == "exclusive":
        assert verify(schedule, made.graph, made.platform) == []
        # On machines with one node both occupancy modes are equal.
        assert decode(made, order, bound, rule=APPEND).start_s.tolist() == schedule.start_s.tolist()


def test_makespans_of_a_population_equal_the_reference_data(made, expected):
    bounds = np.array([binding(made, choose) for choose in BINDINGS.values()])
    for occupancy, rule in RULES.items():
        found = decode_population(made, listed_order(made), bounds, rule=rule)
        wanted = [expected["values"][name][occupancy] for name in BINDINGS]
        assert found.makespan_s == pytest.approx(wanted, rel=1e-6)
