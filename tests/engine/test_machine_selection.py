"""Selection of machines: each step starts after the previous one (docs/papers/adaptive-jobs.md, section 3)."""

from __future__ import annotations

import pytest

from driven_engine import DrivenEngine, one_task, platform_of, simulated
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.engine.reactions.dispatch import PolicyError
from weft.formats.profiles import preset_settings
from weft.policies.orders import ByIndex
from weft.policies.policy import Place
from weft.workflow.settings import RunSettings

CACHED = RunSettings(discover_every_s=300.0, fetch_every_s=30.0, authorise=True)


def begun(settings=CACHED, speeds=(1, 2, 3), **facets):
    return DrivenEngine(one_task(**facets), platform_of(*speeds), settings)


def access(machine, alive=True):
    return ev.ProbeAnswered(of="access", alive=alive, machine=machine)


def fetched(machine, speed=1.0):
    return ev.Fetched(machine=machine, speed_factor=speed)


def test_selection_discovers_authorises_and_fetches_before_placement():
    engine = begun()
    assert engine.first == ["discover"]
    assert engine.handle(ev.Discovered(machines=(0, 1))) == ["probe access m0", "probe access m1"]
    assert engine.handle(access(0)) == ["fetch m0"]
    assert engine.handle(access(1)) == ["fetch m1"]
    assert engine.handle(fetched(0)) == []
    # m2 is not listed; m1 is the fastest of the others.
    assert engine.handle(fetched(1)) == ["assign 0 m1", "start 0 m1 from 0"]


def test_machines_that_fail_the_requirements_are_not_queried():
    engine = begun(requirements="speed < 3")
    words = engine.handle(ev.Discovered(machines=(0, 1, 2)))
    assert words == ["probe access m0", "probe access m1"]


def test_machine_that_refuses_access_is_not_used():
    engine = begun()
    engine.handle(ev.Discovered(machines=(0, 1, 2)), access(0), access(1), access(2, alive=False))
    assert engine.handle(fetched(0), fetched(1)) == ["assign 0 m1", "start 0 m1 from 0"]
    assert engine.engine.state.obstacle(2) == "access is refused"


def test_machine_that_does_not_answer_in_time_is_skipped():
    engine = begun()
    engine.handle(ev.Discovered(machines=(0, 1, 2)), access(0), access(1), access(2), fetched(0))
    assert engine.state() == "READY"
    words = engine.handle(ev.TimerFired(timer="select"), at=30)
    assert words == ["fetch m0", "fetch m1", "fetch m2", "assign 0 m0", "start 0 m0 from 0"]


def test_answer_of_a_machine_expires():
    engine = begun(RunSettings(fetch_every_s=30.0), speeds=(1, 2))
    assert engine.first == ["fetch m0", "fetch m1"]
    engine.handle(fetched(0), fetched(1))
    state = engine.engine.state
    engine.handle(ev.TimerFired(timer="select"), at=30)
    engine.handle(fetched(0))
    engine.handle(ev.TimerFired(timer="select"), at=60)
    assert (state.obstacle(0), state.obstacle(1)) == ("", "its state is not known")


def test_task_is_placed_by_the_machine_speeds_that_the_selection_has_fetched():
    engine = begun(RunSettings(fetch_every_s=30.0), speeds=(2, 1))
    # Three competing processes leave a quarter of m0.
    assert engine.handle(fetched(0, 0.25), fetched(1)) == ["assign 0 m1", "start 0 m1 from 0"]


def test_machine_list_and_machine_state_have_separate_refresh_intervals():
    engine = begun(RunSettings(discover_every_s=50.0, fetch_every_s=30.0), speeds=(1,))
    engine.handle(ev.Discovered(machines=(0,)), fetched(0), ev.Started(attempt=0))
    requested = []
    for _ in range(12):
        at = engine.engine.state.timers["select"]
        words = engine.handle(ev.TimerFired(timer="select"), at=at)
        requested += [(at, each) for each in words]
        engine.handle(ev.Discovered(machines=(0,)), fetched(0))
    assert [at for at, each in requested if each == "discover"] == [50, 100, 150, 200, 250]
    assert [at for at, each in requested if each == "fetch m0"] == [30, 60, 90, 120, 150, 180, 210, 240]


def test_machine_listed_later_passes_all_selection_steps():
    engine = begun(speeds=(1, 2))
    engine.handle(ev.Discovered(machines=(0,)), access(0), fetched(0))
    engine.handle(ev.TimerFired(timer="select"), at=30)
    engine.handle(fetched(0))
    words = engine.handle(ev.TimerFired(timer="select"), ev.Discovered(machines=(0, 1)), at=300)
    assert words == ["discover", "probe access m0", "fetch m0", "probe access m1"]


def test_no_machine_is_queried_if_selection_settings_are_missing():
    assert begun(RunSettings(), speeds=(1, 2)).first == ["assign 0 m1", "start 0 m1 from 0"]


class Careless:
    """Policy that places everything on the last machine, regardless of the view."""

    name, title, needs_plan, order = "careless", "", False, ByIndex()

    def decide(self, view):
        for run in view.runs:
            for task in list(run.ready):
                yield Place(run=run.index, task=task, machine=len(view.machines) - 1)


def test_policy_that_places_a_task_on_a_machine_without_access_raises_an_error():
    engine = begun()
    engine.engine._context.policy = Careless()
    engine.handle(ev.Discovered(machines=(0, 1, 2)), access(0), access(1), access(2, alive=False), fetched(0))
    with pytest.raises(PolicyError, match=r"'careless'.*'job'.*'m2'.*access is refused"):
        engine.handle(fetched(1))


def test_plan_may_use_machines_that_have_not_answered():
    """No machine has answered at the submission; the plan is followed once they have answered."""
    done = simulated(one_task(), platform_of(1.0, 2.0), settings=preset_settings("s3"), policy="plan")
    assert done.run.ending == "completed"
    ((_, assigned),) = done.commands(cm.Assign)
    assert assigned.machine == 1
