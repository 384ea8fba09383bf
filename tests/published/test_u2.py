"""U2: the reference example of parameter sweeps with real processes, as ``weft reproduce u2`` runs it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from published.real_time import require_quiet_host
from weft.papers.reproduction import ExperimentCell, Results
from weft.papers.runs import repeat_if_disturbed
from weft.papers.unified_pipeline import EXPECTED, PipelineStudy, find_starts
from weft.randomness import generator

UNIT_S = 0.2
PARENTS = {"t21": ("t11", "t14"), "t22": ("t12", "t13"), "t31": ("t22",), "t32": ("t21",)}
LENGTHS = {"t11": 1, "t12": 4, "t13": 4, "t14": 1, "t21": 2, "t22": 2, "t31": 1, "t32": 10}


pytestmark = pytest.mark.real_time


def run_both():
    """Run both policies at the same time, because subtasks only sleep."""
    with ThreadPoolExecutor() as pool:
        return dict(zip(EXPECTED, pool.map(PipelineStudy(UNIT_S).execute, EXPECTED), strict=True))


@pytest.fixture(scope="module")
def measured():
    found, share = repeat_if_disturbed(run_both)
    assert {policy: each.outcome for policy, each in found.items()} == dict.fromkeys(EXPECTED, "completed")
    return {policy: find_starts(each, UNIT_S) for policy, each in found.items()}, share


@pytest.fixture(scope="module")
def ran(measured):
    return measured[0]


@pytest.fixture
def quiet(measured):
    require_quiet_host(measured[1])


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("policy", EXPECTED)
def test_subtasks_start_in_the_order_of_the_paper(ran, policy):
    assert list(ran[policy]) == list(EXPECTED[policy])


@pytest.mark.parametrize("policy", EXPECTED)
def test_no_subtask_ends_early_or_starts_before_its_predecessors_have_ended(ran, policy):
    found = ran[policy]
    for name, (start, end) in found.items():
        assert start >= EXPECTED[policy][name] - 0.05
        assert end - start >= LENGTHS[name] - 0.05
        assert all(found[parent][1] <= start for parent in PARENTS.get(name, ()))


@pytest.mark.parametrize("policy", EXPECTED)
def test_a_machine_runs_one_subtask_at_a_time(ran, policy):
    for layer in ("t1", "t3"):
        lines = [line for name, line in ran[policy].items() if name.startswith(layer)]
        assert all(before[1] <= after[0] for before, after in pairwise(lines))


@pytest.mark.usefixtures("quiet")
def test_priorities_reduce_the_makespan_by_a_third(ran):
    ends = {policy: max(end for _, end in found.values()) for policy, found in ran.items()}
    assert ends["pm-s"] < 0.9 * ends["m-s"]


@pytest.mark.parametrize(
    ("changed", "outside"),
    [
        ({}, []),
        ({"total_units": 16.1}, ["pM-S: total"]),
        ({"total_units": 13.9}, ["pM-S: total"]),
        ({"in_order": 0.0}, ["pM-S: starts in the order of the paper (1 = yes)"]),
        ({"total_units": 30.0, "in_order": 0.0, "disturbance": 0.9}, []),
    ],
)
def test_figures_outside_their_tolerance_are_named_if_the_run_was_not_disturbed(changed, outside):
    fine = {
        policy: {
            "total_units": float(total),
            "in_order": 1.0,
            "disturbance": 0.0,
            **{f"{name}_start_units": float(start) for name, start in EXPECTED[policy].items()},
        }
        for policy, total in (("m-s", 22), ("pm-s", 15))
    }
    fine["pm-s"] |= changed
    rows = PipelineStudy().rows(Results({policy: [found] for policy, found in fine.items()}), full=False)
    assert [row.figure for row in rows if row.within is False] == outside
    left_open = [row for row in rows if row.disturbed and row.band is not None and row.within is None]
    assert len(left_open) == (2 if "disturbance" in changed else 0)


def test_a_run_returns_every_measure():
    found = PipelineStudy(0.02).run(ExperimentCell(name="pm-s", runs=1), generator(0, "u2"))
    assert found["total_units"] >= 15
    assert {f"{name}_start_units" for name in EXPECTED["pm-s"]} < set(found)
