"""Outputs lost with a machine are produced again if later tasks need them."""

from __future__ import annotations

from driven_engine import DrivenEngine, platform_of, simulated
from weft.backends.simulation.scenario import Failure, Scenario
from weft.engine import messages as cm
from weft.engine.states import Cause, TaskState
from weft.formats.profiles import preset_settings
from weft.workflow.builder import Builder


def chain(*, shared=False):
    """Return the workflow a -> b -> c with files; if ``shared``, a and b have one abstract machine."""
    flow = Builder("chain")
    tied = {"machine": "here"} if shared else {}
    flow.task("a", work=10, outputs={"x": 1000}, requirements='name == "m0"', **tied)
    flow.task("b", work=10, inputs=["x"], outputs={"y": 1000}, requirements='name == "m0"', **tied)
    flow.task("c", work=10, inputs=["y"], requirements='name == "m1"')
    return flow.build()


def lost_at(at_s, repair_s=float("inf")):
    return Scenario(failures=(Failure(machines=("m0",), at_s=at_s, repair_s=repair_s),))


def runs_of(done, name):
    task = done.run.compiled.names.index(name)
    return [now for now, command in done.commands(cm.Start) if command.task == task]


def test_producer_runs_again_when_its_outputs_are_lost_before_their_transfer():
    flow = Builder("pair")
    flow.task("a", work=10, outputs={"x": 1000}, requirements='name == "m0" or name == "m2"')
    flow.task("b", work=30, requirements='name == "m1"')
    flow.task("c", work=10, inputs=["x"], after=["b"], requirements='name == "m1"')
    done = simulated(flow.build(), platform_of(1.0, 1.0, 0.5), lost_at(15.0))
    assert done.run.ending == "completed"
    # At 30 s the data x for c are unavailable; a runs again on m2, which is half as fast.
    assert runs_of(done, "a") == [0.0, 30.0]
    assert runs_of(done, "c")[0] >= 50.0
    reasons = [command.reason for _, command in done.commands(cm.Settle) if command.again]
    assert "its outputs were on m0, which is lost" in reasons


def test_producer_of_unneeded_outputs_does_not_run_again():
    flow = Builder("pair")
    flow.task("a", work=10, outputs={"x": 1000}, requirements='name == "m0"')
    flow.task("c", work=30, inputs=["x"], requirements='name == "m1"')
    done = simulated(flow.build(), platform_of(1.0, 1.0), lost_at(20.0))
    assert done.run.ending == "completed"
    assert len(runs_of(done, "a")) == 1


def test_producers_run_again_recursively():
    done = simulated(chain(), platform_of(1.0, 1.0), lost_at(20.0 + 1e-9, repair_s=100.0))
    assert done.run.ending == "completed"
    # The output of b is lost in transit to c; b needs x, which is on the same machine and is produced again
    # too.
    assert len(runs_of(done, "b")) == 2
    assert len(runs_of(done, "a")) == 1
    assert runs_of(done, "b")[1] >= 120.0


def test_data_lost_during_a_transfer_are_produced_again():
    flow = Builder("slow")
    flow.task("a", work=10, outputs={"x": "5GB"}, requirements='name == "m0"')
    flow.task("c", work=10, inputs=["x"], requirements='name == "m1"')
    done = simulated(flow.build(), platform_of(1.0, 1.0), lost_at(12.0, repair_s=20.0))
    assert done.run.ending == "completed"
    assert len(runs_of(done, "a")) == 2


def test_ancestors_bound_to_the_machine_of_a_failed_task_run_again_under_the_rule_always():
    flow = Builder("tied")
    flow.task("a", work=10, machine="here")
    flow.task("b", work=20, after=["a"], machine="here", retries=1)
    workflow = flow.build()
    scenario = Scenario(exit_codes={"b": (1, 0)})
    settings = preset_settings("s1")
    literal = simulated(workflow, platform_of(1.0, 1.0), scenario, settings, policy="plan")
    ours = simulated(workflow, platform_of(1.0, 1.0), scenario, policy="plan")
    assert len(runs_of(literal, "a")) == 2
    assert len(runs_of(ours, "a")) == 1
    assert literal.run.ending == ours.run.ending == "completed"


def test_producer_runs_again_when_its_outputs_are_lost_at_the_start_of_a_program():
    flow = Builder("pair")
    flow.task("a", work=10, outputs={"x": 1000})
    flow.task("c", work=10, inputs=["x"])
    driven = DrivenEngine(flow.build(), platform_of(1.0, 0.5))
    driven.handle(cm.Started(attempt=0), cm.Ended(attempt=0), at=10.0)
    driven.handle(cm.MachineChanged(machine=0, up=False), at=11.0)
    number = driven.run.attempt_of[1]
    driven.handle(cm.StagedIn(attempt=number, part=0))
    failed = cm.Ended(attempt=number, exit_code=None, cause=Cause.STAGING, story="x is lost", lost=(0,))
    driven.handle(failed, at=12.0)
    assert driven.run.facts_of(1).failures.get(Cause.STAGING, 0) == 0
    assert driven.run.state[1] == TaskState.WAITING
    again = driven.run.attempt_of[0]
    assert driven.engine.state.attempts[again].machine == 1
    driven.handle(cm.Started(attempt=again), cm.Ended(attempt=again), at=40.0)
    assert driven.run.state[0] == TaskState.COMPLETED
    assert 1 in driven.run.attempt_of
