"""Many workflows: single applications (A5.1), the reference order (A5.2), no contention (A5.7)."""

from __future__ import annotations

import json
from statistics import fmean, pstdev

import pytest

from planning_examples import instance
from policy_runs import run_all

POLICIES = {
    "BASIC": "basic",
    "GHEFT": "g-heft",
    "AGING": "aging",
    "AGINGE": "aging-e",
    "FCFS": "fcfs",
    "SRPT": "srpt",
    "FOFT": "foft",
}


@pytest.fixture(scope="module")
def figures(spec_data):
    return json.loads((spec_data / "s5_expected.json").read_text())


@pytest.fixture(scope="module")
def arrivals(figures):
    return [(float(time), name) for time, name in map(sorted_pair, figures["scenario_seed0"])]


def sorted_pair(pair):
    """Return a pair of a time and a name, in any order, as [time, name]."""
    return sorted(pair, key=lambda value: isinstance(value, str))


def applications(figures, servers):
    """Compile the three applications for this number of identical servers."""
    made = {}
    for name, app in figures["apps"].items():
        before = [[] for _ in app["w"]]
        for task, following in app["succ"].items():
            for other in following:
                before[other].append(f"t{int(task):02}")
        tasks = {
            f"t{task:02}": {"seconds": seconds, "after": before[task]}
            for task, seconds in enumerate(app["w"])
        }
        made[name] = instance(tasks, f"identical:{servers}")
    return made


@pytest.mark.parametrize("policy", POLICIES.values())
def test_a5_1_makespans_of_single_applications_equal_the_reference(figures, policy):
    found = {
        name: run_all({name: made}, [(0.0, name)], policy).end_s
        for name, made in applications(figures, 4).items()
    }
    assert found == {name: pytest.approx(app["alone_4"]) for name, app in figures["apps"].items()}


@pytest.mark.parametrize("name", POLICIES)
def test_a5_2_reference_order_gives_the_expected_slowdowns(figures, arrivals, name):
    expected = figures["expected_no_overhead"][name]
    result = run_all(applications(figures, 4), arrivals, POLICIES[name])
    assert sum(map(len, result.lines.values())) == 928
    slowdown = [
        (result.ended_s(run) - time) / figures["apps"][kind]["alone_4"]
        for run, (time, kind) in enumerate(arrivals)
    ]
    assert result.end_s == pytest.approx(expected["experiment_end"], rel=0.005)
    assert fmean(slowdown) == pytest.approx(expected["mean_slowdown"], rel=0.05)
    # Not required by A5.2: the dispersion and the largest slowdown.
    assert pstdev(slowdown) == pytest.approx(expected["pstdev"], rel=0.05)
    assert max(slowdown) == pytest.approx(expected["max"], rel=0.05)
    for kind, mean in expected["per_app"].items():
        of = [value for value, (_, other) in zip(slowdown, arrivals, strict=True) if other == kind]
        assert fmean(of) == pytest.approx(mean, rel=0.05)


@pytest.mark.parametrize("policy", POLICIES.values())
def test_a5_7_without_contention_all_policies_give_equal_results(figures, arrivals, policy):
    result = run_all(applications(figures, 600), arrivals, policy)
    assert result.end_s == pytest.approx(1896.0)
    flow = sum(result.ended_s(run) - time for run, (time, _) in enumerate(arrivals))
    assert flow == pytest.approx(6715.0, abs=0.05)
