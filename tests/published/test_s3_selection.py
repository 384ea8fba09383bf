"""Selection of machines for adaptive jobs, simulated: A3.6 (two caches) and the access probe."""

from __future__ import annotations

from itertools import pairwise

import pytest

from driven_engine import one_task, platform_of, simulated
from weft.backends.simulation.scenario import CompetingLoad, Scenario
from weft.engine import messages as cm
from weft.formats.profiles import preset_settings


@pytest.fixture(scope="module")
def ran():
    """Simulate forty jobs of 100 s on three machines: more than twenty minutes of decisions."""
    scenario = Scenario(
        stage_latency_s=7.3, loads=(CompetingLoad(machines=("m1",), processes=1, at_s=200.0),)
    )
    return simulated(
        one_task(sweep={"i": "1..40"}), platform_of(1, 1, 1), scenario, preset_settings("s3"), policy="rank"
    )


def gaps(times):
    return [after - before for before, after in pairwise(times)]


def test_a3_6_machines_are_discovered_at_most_once_in_five_minutes(ran):
    times = [at for at, _ in ran.commands(cm.Discover)]
    assert ran.run.ended_s > 1200
    assert len(times) > ran.run.ended_s // 300 - 1
    assert min(gaps(times)) >= 300.0


@pytest.mark.parametrize("machine", [0, 1, 2])
def test_a3_6_machine_state_is_queried_at_most_once_in_half_a_minute(ran, machine):
    times = [at for at, fetch in ran.commands(cm.Fetch) if fetch.machine == machine]
    assert len(times) > ran.run.ended_s // 30 - 1
    assert min(gaps(times)) >= 30.0


def test_a_machine_that_denies_access_is_never_used():
    scenario = Scenario(denied=("m2",))
    ran = simulated(
        one_task(sweep={"i": "1..6"}), platform_of(1, 1, 9), scenario, preset_settings("s3"), policy="rank"
    )
    assert ran.run.ending == "completed"
    assert {assign.machine for _, assign in ran.commands(cm.Assign)} == {0, 1}
    assert all(fetch.machine != 2 for _, fetch in ran.commands(cm.Fetch))


def test_no_job_is_placed_before_all_machines_have_answered():
    ran = simulated(one_task(), platform_of(1, 2), settings=preset_settings("s3"), policy="rank")
    words = [each for _, each in ran.words()]
    assert words.index("assign 0 m1") > max(words.index("fetch m0"), words.index("fetch m1"))
