"""U3: workflows that arrive while others run, with real processes; ``weft reproduce u3`` runs all 102
workflows.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from published.real_time import require_quiet_host
from weft.backends.simulation.scenario import Arrival
from weft.engine.history import list_slowdowns
from weft.papers.many_workflows import reference_arrivals, run_policy
from weft.papers.reproduction import Results
from weft.papers.runs import repeat_if_disturbed
from weft.papers.unified_sharing import POLICIES, SharingStudy

ARRIVALS = reference_arrivals(0)[:18]
"""Mean slowdowns of these arrivals differ by a quarter between policies."""
AT_ONCE = [Arrival(workflow=name) for name in ("GEE", "PipeAlign", "MAXDo", "MAXDo")]
FIRST = 8
"""The first tasks start so far apart that real processes keep the order."""


pytestmark = pytest.mark.real_time


def run_all():
    """Run all policies at the same time, because tasks only sleep."""
    with ThreadPoolExecutor() as pool:
        many = {policy: pool.submit(SharingStudy(0.01).execute, ARRIVALS, policy) for policy in POLICIES}
        few = {policy: pool.submit(SharingStudy(0.04).execute, AT_ONCE, policy) for policy in POLICIES}
        return [{policy: found.result() for policy, found in each.items()} for each in (many, few)]


@pytest.fixture(scope="module")
def measured():
    return repeat_if_disturbed(run_all)


@pytest.fixture(scope="module")
def ran(measured):
    return measured[0][0]


@pytest.fixture(scope="module")
def ran_at_once(measured):
    return measured[0][1]


@pytest.fixture
def quiet(measured):
    require_quiet_host(measured[1])


def mean_slowdown(history):
    values = [value for of in list_slowdowns(history.runs).values() for value in of]
    return sum(values) / len(values)


def starts(history):
    attempts = sorted(history.attempts.values(), key=lambda each: (each.started_s, each.number))
    return [(each.run, each.task) for each in attempts]


@pytest.mark.usefixtures("quiet")
def test_mean_slowdowns_are_in_the_order_of_the_paper(ran):
    found = [mean_slowdown(ran[policy].history) for policy in POLICIES]
    assert found == sorted(found)
    assert found[-1] > 1.5 * found[0]


@pytest.mark.parametrize("policy", POLICIES)
def test_all_workflows_complete_on_four_slots(ran, policy):
    history = ran[policy].history
    assert [run.outcome for run in history.runs] == ["completed"] * len(ARRIVALS)
    changes = sorted(
        change for each in history.attempts.values() for change in ((each.started_s, 1), (each.ended_s, -1))
    )
    running = most = 0
    for _, change in changes:
        running += change
        most = max(most, running)
    assert most == 4


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("policy", POLICIES)
def test_first_tasks_start_in_the_simulated_order(ran_at_once, policy):
    """Later tasks that end together in the simulation do not end together in reality."""
    simulated = run_policy(AT_ONCE, policy, servers=4)
    assert starts(ran_at_once[policy].history)[:FIRST] == starts(simulated.history)[:FIRST]


def test_the_policies_start_tasks_in_different_orders(ran_at_once):
    orders = {policy: tuple(starts(found.history)[:FIRST]) for policy, found in ran_at_once.items()}
    assert len(set(orders.values())) == len(POLICIES)


def test_figures_outside_their_tolerance_are_named():
    fine = {
        policy: {
            "completed": 102.0,
            "disturbance": 0.0,
            "slowdown": value,
            "end_s": 30.0,
            "over_bound_percent": 1.0,
        }
        | {f"{name}.slowdown": value for name in ("MAXDo", "PipeAlign", "GEE")}
        for policy, value in zip(POLICIES, (5.0, 7.0, 13.0, 39.0), strict=True)
    }
    changed = fine | {"foft": fine["foft"] | {"slowdown": 5.0, "completed": 101.0}}
    outside = [
        [row.figure for row in SharingStudy().rows(_results(found), full=False) if row.within is False]
        for found in (fine, changed)
    ]
    assert outside == [[], ["FOFT: workflows completed", "mean slowdown, FOFT / SRPT"]]


def _results(found):
    return Results({policy: [measures] for policy, measures in found.items()})
