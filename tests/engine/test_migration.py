"""Migration, command by command: cancel, stage in, clean up, start (docs/papers/adaptive-jobs.md, section 4)."""

from __future__ import annotations

import re

import pytest

from driven_engine import DrivenEngine, one_task, platform_of
from weft.engine import messages as ev
from weft.engine.reactions.dispatch import PolicyError
from weft.platform.machine import Machine
from weft.platform.platform import Platform
from weft.policies.orders import ByIndex
from weft.policies.policy import Migrate, Place
from weft.workflow.settings import RunSettings

CHECKPOINT = {"files": ["restart"], "every": 10}
NEEDS_M1 = 'name == "m1"'
"""A requirement that only m1 meets."""


def running(platform=None, settings=None, **facets):
    """Return an engine with one task running on m0, the fastest machine."""
    facets = {"checkpoint": CHECKPOINT, "outputs": {"result": 1000}} | facets
    engine = DrivenEngine(one_task(**facets), platform or platform_of(2, 1), settings)
    assert engine.first[0] == "assign 0 m0"
    engine.handle(ev.Started(attempt=0))
    return engine


def cancelled(attempt=0, done=0.5):
    return ev.Ended(attempt=attempt, exit_code=None, cause="cancelled", work_done=done)


def moving(engine, at=20.0):
    """Request a migration of the task to m1; return the commands as text."""
    return engine.handle(ev.RequestReceived(what="migrate", run=0, task=0, machine=1), at=at)


def test_migration_has_four_steps_in_order():
    engine = running()
    engine.handle(ev.Checkpointed(attempt=0, work_done=0.2), at=10)
    assert moving(engine) == ["cancel 0 m0: user", "assign 1 m1 after 0: user"]
    assert engine.state() == "MIGRATING"
    assert engine.handle(cancelled(), at=21) == ["prolog 1 m1 (restart files from 0)"]
    assert engine.handle(ev.StagedIn(attempt=1, part=0), at=22) == ["clean-up 0 m0"]
    assert engine.handle(ev.CleanedUp(attempt=0), at=23) == ["start 1 m1 from 0.2"]
    engine.handle(ev.Started(attempt=1))
    assert engine.handle(ev.Ended(attempt=1), at=100) == ["settle 0 COMPLETED", "finish completed"]
    assert not engine.engine.state.attempts


def test_migration_without_restart_files_starts_from_zero():
    engine = running(checkpoint=None)
    moving(engine)
    assert engine.handle(cancelled()) == ["clean-up 0 m0"]
    assert engine.handle(ev.CleanedUp(attempt=0)) == ["start 1 m1 from 0"]


def test_restart_files_written_during_the_cancellation_are_used():
    engine = running(checkpoint={"files": ["restart"]})
    moving(engine)
    words = engine.handle(ev.Checkpointed(attempt=0, work_done=0.4), cancelled())
    assert words == ["prolog 1 m1 (restart files from 0)"]
    words = engine.handle(ev.StagedIn(attempt=1, part=0), ev.CleanedUp(attempt=0))
    assert words == ["clean-up 0 m0", "start 1 m1 from 0.4"]


def test_restart_files_are_ignored_when_checkpoints_are_disabled():
    engine = running(settings=RunSettings(checkpoints=False))
    engine.handle(ev.Checkpointed(attempt=0, work_done=0.2), at=10)
    moving(engine)
    assert engine.handle(cancelled(), ev.CleanedUp(attempt=0)) == ["clean-up 0 m0", "start 1 m1 from 0"]


def test_failed_clean_up_does_not_delay_the_migration():
    engine = running()
    moving(engine)
    engine.handle(cancelled())
    assert engine.handle(ev.CleanedUp(attempt=0, problem="no such directory")) == ["start 1 m1 from 0"]


def test_no_clean_up_is_sent_to_a_lost_machine():
    engine = running()
    engine.handle(ev.Checkpointed(attempt=0, work_done=0.2), at=10)
    moving(engine)
    # It is lost before it could be cancelled: the restart files come from the copy of the project.
    words = engine.handle(ev.MachineChanged(machine=0, up=False), at=21)
    assert words == ["note lost", "prolog 1 m1 (restart files from -1)"]
    assert engine.handle(ev.StagedIn(attempt=1, part=0)) == ["drop 0", "start 1 m1 from 0.2"]


def test_machine_lost_during_clean_up_does_not_delay_the_migration():
    engine = running()
    moving(engine)
    engine.handle(cancelled())
    assert engine.handle(ev.MachineChanged(machine=0, up=False)) == ["drop 0", "start 1 m1 from 0"]
    assert engine.handle(ev.CleanedUp(attempt=0, problem="too late")) == []


def test_task_that_completes_before_it_can_be_cancelled_is_not_moved():
    engine = running()
    moving(engine)
    words = engine.handle(ev.Ended(attempt=0, exit_code=0))
    assert words == ["note too-late", "return 0", "settle 0 COMPLETED", "finish completed"]
    # The answer to the cancellation arrives late.
    assert engine.handle(cancelled()) == []
    assert engine.engine.state.machines[1].free_nodes == 1


def test_outputs_of_a_task_that_completes_before_cancellation_are_staged_out():
    engine = running(outputs={"result": {"size": 10, "to": "result"}})
    moving(engine)
    assert engine.handle(ev.Ended(attempt=0, exit_code=0)) == ["note too-late", "return 0", "epilog 0 m0"]
    assert engine.handle(cancelled()) == []
    assert engine.handle(ev.StagedOut(attempt=0)) == ["settle 0 COMPLETED", "finish completed"]


def test_task_that_fails_before_its_cancellation_counts_as_failed():
    engine = running(retries=0)
    moving(engine)
    words = engine.handle(ev.Ended(attempt=0, exit_code=1))
    assert words[:3] == ["note too-late", "return 0", "settle 0 FAILED (error)"]


def test_duplicate_answer_to_a_cancellation_is_ignored():
    engine = running()
    engine.handle(ev.Checkpointed(attempt=0, work_done=0.2), at=10)
    moving(engine)
    engine.handle(cancelled())
    assert engine.handle(cancelled()) == []
    assert engine.handle(ev.StagedIn(attempt=1, part=0), cancelled()) == ["clean-up 0 m0"]


def test_migration_target_lost_before_the_old_attempt_has_ended_is_replaced():
    engine = running(platform_of(3, 2, 1))
    engine.handle(ev.Checkpointed(attempt=0, work_done=0.2), at=10)
    moving(engine)
    assert engine.handle(ev.MachineChanged(machine=1, up=False), at=21) == ["note target-lost", "return 0"]
    assert engine.state() == "RUNNING"
    # It is being cancelled and takes the next machine, its own included.
    words = engine.handle(cancelled(), at=22)
    assert words == ["settle 0 READY keep", "assign 2 m0 after 0: user", "clean-up 0 m0"]
    assert engine.handle(ev.CleanedUp(attempt=0)) == ["start 2 m0 from 0.2"]


def test_migration_target_lost_during_preparation_is_replaced():
    engine = running(platform_of(3, 2, 1))
    engine.handle(ev.Checkpointed(attempt=0, work_done=0.2), at=10)
    moving(engine)
    engine.handle(cancelled(), at=21)
    words = engine.handle(ev.MachineChanged(machine=1, up=False), at=22)
    assert words == [
        "note target-lost", "return 0", "settle 0 READY keep", "assign 2 m0 after 0: user", "clean-up 0 m0",
    ]  # fmt: skip


def test_attempt_continues_from_stored_files_when_the_target_is_lost_after_the_clean_up():
    engine = running(platform_of(3, 2, 1))
    engine.handle(ev.Checkpointed(attempt=0, work_done=0.2), at=10)
    moving(engine)
    engine.handle(cancelled(), ev.StagedIn(attempt=1, part=0), ev.CleanedUp(attempt=0), at=21)
    engine.handle(ev.Started(attempt=1))
    words = engine.handle(ev.MachineChanged(machine=1, up=False), at=30)
    # The restart files were moved to m1; the last ones are kept with the project.
    assert words == [
        "settle 0 READY (lost) keep", "assign 2 m0 after 1: failure", "prolog 2 m0 (restart files from -1)",
    ]  # fmt: skip
    assert engine.handle(ev.StagedIn(attempt=2, part=0)) == ["drop 1", "start 2 m0 from 0.2"]


def test_failed_staging_keeps_the_files_for_the_next_attempt():
    engine = running()
    engine.handle(ev.Checkpointed(attempt=0, work_done=0.2), at=10)
    moving(engine)
    engine.handle(cancelled(), at=21)
    words = engine.handle(ev.StagedIn(attempt=1, part=0, problem="disk full"), at=22)
    assert words == ["settle 0 READY (staging)", "assign 2 m0 after 0: user", "clean-up 0 m0"]


def test_task_without_a_target_waits_and_keeps_its_files():
    engine = running(rank="speed")
    assert engine.handle(ev.MachineChanged(machine=1, up=False)) == []
    engine.handle(ev.Checkpointed(attempt=0, work_done=0.7), at=30)
    words = engine.handle(ev.RequirementsChanged(attempt=0, requirements=NEEDS_M1), at=30)
    assert words == ["cancel 0 m0: self-migration"]
    assert engine.handle(cancelled(), at=31) == ["settle 0 READY keep"]
    assert engine.run.left_behind == {0: 0}
    assert engine.engine.state.machines[0].free_nodes == 1
    words = engine.handle(ev.MachineChanged(machine=1, up=True), at=50)
    assert words == ["assign 1 m1 after 0: self-migration", "prolog 1 m1 (restart files from 0)"]
    words = engine.handle(ev.StagedIn(attempt=1, part=0), ev.CleanedUp(attempt=0), at=52)
    assert words == ["clean-up 0 m0", "start 1 m1 from 0.7"]


def test_attempt_continues_from_kept_files_after_its_machine_is_lost():
    engine = running()
    engine.handle(ev.MachineChanged(machine=1, up=False))
    engine.handle(ev.Checkpointed(attempt=0, work_done=0.7), at=30)
    engine.handle(ev.RequirementsChanged(attempt=0, requirements=NEEDS_M1), cancelled(), at=30)
    assert engine.handle(ev.MachineChanged(machine=0, up=False), at=40) == []
    words = engine.handle(ev.MachineChanged(machine=1, up=True), at=50)
    assert words == ["assign 1 m1 after 0: self-migration", "prolog 1 m1 (restart files from -1)"]
    assert engine.handle(ev.StagedIn(attempt=1, part=0)) == ["drop 0", "start 1 m1 from 0.7"]


def test_kept_files_are_removed_when_the_run_is_cancelled():
    engine = running()
    engine.handle(ev.MachineChanged(machine=1, up=False))
    engine.handle(ev.RequirementsChanged(attempt=0, requirements=NEEDS_M1), cancelled(), at=30)
    words = engine.handle(ev.RequestReceived(what="cancel", run=0), at=40)
    assert words == ["note stopping", "settle 0 CANCELLED", "clean-up 0 m0", "finish cancelled"]


def test_cancelled_run_stops_its_migrating_task():
    engine = running()
    engine.handle(ev.Checkpointed(attempt=0, work_done=0.2), at=10)
    moving(engine)
    engine.handle(cancelled(), at=21)
    assert engine.handle(ev.RequestReceived(what="cancel", run=0), at=22) == [
        "note stopping",
        "cancel 1 m1: stopped",
    ]
    words = engine.handle(cancelled(1), at=23)
    assert words == ["settle 0 CANCELLED", "clean-up 0 m0", "finish cancelled"]
    engine.handle(ev.CleanedUp(attempt=0))
    assert not engine.engine.state.attempts


def test_nodes_are_reserved_when_the_migration_is_decided():
    engine = running()
    moving(engine)
    machines = engine.engine.state.machines
    assert (machines[0].free_nodes, machines[1].free_nodes) == (0, 0)
    engine.handle(cancelled())
    assert (machines[0].free_nodes, machines[1].free_nodes) == (1, 0)


@pytest.mark.parametrize("nodes", ["any", "same"])
def test_migration_changes_the_node_count_only_if_the_checkpoint_allows(nodes):
    checkpoint = CHECKPOINT | {"nodes": nodes}
    platform = Platform(machines=(Machine(name="m0", nodes=2, speed=2.0), Machine(name="m1", nodes=4)))
    engine = DrivenEngine(
        one_task(nodes=[1, 2, 4], speedup={"amdahl": 0.0}, checkpoint=checkpoint, outputs={"r": 10}), platform
    )
    assert engine.first == ["assign 0 m0 x2", "start 0 m0 from 0"]
    engine.handle(ev.Started(attempt=0), ev.Checkpointed(attempt=0, work_done=0.6), at=15)
    words = engine.handle(ev.RequestReceived(what="migrate", run=0, task=0), at=16)
    # 40 % of the work on 2 nodes take 20 s; all of it on 4 nodes 25 s; 40 % of it on 4 nodes 10 s.
    count = {"any": 4, "same": 2}[nodes]
    assert words == ["cancel 0 m0: user", f"assign 1 m1 x{count} after 0: user"]
    engine.handle(cancelled())
    words = engine.handle(ev.StagedIn(attempt=1, part=0), ev.CleanedUp(attempt=0))
    assert words[-1] == "start 1 m1 from 0.6"


def test_moldable_task_starts_from_zero_if_that_ends_sooner():
    platform = Platform(machines=(Machine(name="m0", nodes=2, speed=2.0), Machine(name="m1", nodes=4)))
    flow = one_task(nodes=[1, 2, 4], speedup={"amdahl": 0.0}, checkpoint=CHECKPOINT, outputs={"r": 10})
    engine = DrivenEngine(flow, platform)
    engine.handle(ev.Started(attempt=0), ev.Checkpointed(attempt=0, work_done=0.2), at=5)
    # 80 % of the work on 2 nodes take 40 s; all of it on 4 nodes 25 s.
    words = engine.handle(
        ev.RequestReceived(what="migrate", run=0, task=0), cancelled(), ev.CleanedUp(attempt=0), at=6
    )
    assert words == [
        "cancel 0 m0: user",
        "assign 1 m1 x4 after 0: user",
        "clean-up 0 m0",
        "start 1 m1 from 0",
    ]


def test_migration_to_the_same_machine_is_refused():
    engine = running()
    assert engine.handle(ev.RequestReceived(what="migrate", run=0, task=0, machine=0), at=20) == [
        "note refused"
    ]
    assert engine.state() == "RUNNING"


def test_queued_attempt_migrates_without_a_cancel_command():
    flow = one_task(sweep={"i": "1..2"})
    engine = DrivenEngine(flow, platform_of(2, 1), policy="lazy")
    engine.handle(ev.Started(attempt=0))
    assert engine.first == ["assign 0 m0", "assign 1 m0", "start 0 m0 from 0"]
    words = engine.handle(ev.RequestReceived(what="migrate", run=0, task=1, machine=1))
    assert words == ["assign 2 m1 after 1: user", "drop 1", "start 2 m1 from 0"]


class Restless:
    """Policy that places the task on m0 and then makes the moves in ``moves``."""

    name, title, needs_plan, order = "restless", "", False, ByIndex()
    moves = ()

    def decide(self, view):
        for run in view.runs:
            for task in list(run.ready):
                yield Place(run=run.index, task=task, machine=0)
        yield from self.moves


@pytest.mark.parametrize(
    ("move", "message"),
    [
        (Migrate(attempt=7, machine=1), "migrates attempt 7, which has ended"),
        (Migrate(attempt=0, machine=9), "'job' to machine 9: there is no such machine"),
        (Migrate(attempt=0, machine=2), "'job' to machine 'm2': it is down"),
        (Migrate(attempt=0, machine=1, count=5), "to machine 'm1' with 5 nodes: the task has no such mode"),
    ],
)
def test_impossible_migration_requested_by_a_policy_raises_an_error(move, message):
    engine = running(platform_of(3, 2, 1))
    engine.handle(ev.MachineChanged(machine=2, up=False))
    engine.engine._context.policy = policy = Restless()
    policy.moves = (move,)
    with pytest.raises(PolicyError, match=re.escape("policy 'restless'") + ".*" + re.escape(message)):
        engine.handle(ev.MachineChanged(machine=1, speed_factor=1.0))


def test_policy_migrates_a_running_attempt_once():
    engine = running()
    engine.engine._context.policy = policy = Restless()
    policy.moves = (Migrate(attempt=0, machine=1),)
    words = engine.handle(ev.MachineChanged(machine=1, speed_factor=1.0))
    assert words == ["cancel 0 m0: restless", "assign 1 m1 after 0: restless"]
    with pytest.raises(PolicyError, match="already migrating"):
        engine.handle(ev.MachineChanged(machine=1, speed_factor=1.0))
