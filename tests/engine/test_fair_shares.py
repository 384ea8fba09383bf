"""Priorities between runs while outputs are copied: the events of a real run, some milliseconds apart."""

from __future__ import annotations

import pytest

from driven_engine import DrivenEngine, platform_of
from weft.engine import messages as ev
from weft.engine.view import EngineView
from weft.workflow.builder import Builder
from weft.workflow.settings import RunSettings


def sweep(*, work=1):
    """Return a workflow of four tasks whose outputs are copied when their programs have ended."""
    flow = Builder("sweep")
    for index in range(4):
        flow.task(f"t{index}", work=work, outputs={f"o{index}": {"to": f"o{index}"}})
    return flow.build()


def two_runs(policy, *, work=1):
    """Return an engine in which the first of two runs occupies both machines."""
    engine = DrivenEngine(sweep(work=work), platform_of(1, 1), RunSettings(), policy)
    engine.handle(ev.Started(attempt=0), at=0.004)
    engine.handle(ev.Started(attempt=1), at=0.006)
    engine.handle(ev.Submitted(run=1, workflow="w"), at=0.011)
    assert owners(engine) == [0, 0]
    return engine


def owners(engine):
    """Return the run of every attempt that is not over, in the order of assignment."""
    attempts = engine.engine.state.attempts
    return [attempts[number].run for number in sorted(attempts)]


@pytest.mark.parametrize("second_ends", ["while the first copies", "after the first has copied"])
def test_run_that_waited_longer_is_preferred_while_outputs_of_the_other_are_copied(second_ends):
    engine = two_runs("foft")
    engine.handle(ev.Ended(attempt=0), at=1.021)
    assert engine.state(0) == "EPILOG"
    assert owners(engine) == [0, 0, 1]
    if second_ends == "after the first has copied":
        engine.handle(ev.StagedOut(attempt=0), at=1.024)
        assert owners(engine) == [0, 1]
    engine.handle(ev.Ended(attempt=1), at=1.026)
    assert owners(engine)[-2:] == [1, 1]


def test_work_of_an_ended_program_is_not_left_while_its_outputs_are_copied():
    """The estimate is ten times the real time, so the estimated end is far away when the program ends."""
    engine = two_runs("srpt", work=10)
    view = EngineView(engine.engine.state).run(0)
    assert view.remaining_s == pytest.approx(40.0 - 0.007 - 0.005)
    engine.handle(ev.Ended(attempt=0), at=1.004)
    assert engine.state(0) == "EPILOG"
    assert view.remaining_s == pytest.approx(30.0 - 0.998)
    engine.handle(ev.StagedOut(attempt=0), at=1.004)
    assert view.remaining_s == pytest.approx(30.0 - 0.998)
