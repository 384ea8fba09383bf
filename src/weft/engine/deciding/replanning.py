"""Re-planning: when what remains of a run is planned again, and what adopting a plan means (S1 section 8).

Planning takes time, so it is a command that an event answers; execution goes on under the old plan meanwhile.
What has started when the new plan comes is kept (stale-plan reconciliation).
"""

from __future__ import annotations

from weft.engine.deciding.migrating import migrate
from weft.engine.desk import Desk
from weft.engine.messages import commands as cm
from weft.engine.messages import events as ev
from weft.engine.state.attempt import Attempt, Stage
from weft.engine.state.run import Run
from weft.engine.state.states import TaskState

__all__ = ["REPLAN", "adopted", "begin", "iteration_began", "machines_changed", "replan_timer", "violated"]

REPLAN = "replan"
"""Prefix of the timers that ask for a new plan, one per run."""


def begin(desk: Desk, run: Run) -> None:
    """Set the timer of a run that is re-planned at intervals."""
    rule = desk.settings.replanning
    if rule is not None and rule.every_s and run.planned:
        desk.emit(cm.SetTimer(timer=f"{REPLAN}:{run.index}", at_s=desk.state.now + rule.every_s))


def ask(desk: Desk, run: Run, reason: str) -> None:
    """Ask for a new plan, unless one is on the way."""
    if run.planned and not run.plan_wanted and run.index in desk.state.active:
        desk.emit(cm.Replan(run=run.index, version=run.version, reason=reason))


def replan_timer(desk: Desk, index: int) -> None:
    """Plan again because it is time."""
    run = desk.state.active.get(index)
    if run is not None:
        ask(desk, run, "interval")
        begin(desk, run)


def machines_changed(desk: Desk, event: ev.MachineChanged) -> None:
    """Plan again because machines went or came."""
    rule = desk.settings.replanning
    if rule is not None and rule.on_machines and event.up is not None:
        for run in list(desk.state.active.values()):
            ask(desk, run, "machines changed")


def iteration_began(desk: Desk, run: Run) -> None:
    """Plan again because a loop begins its next iteration."""
    rule = desk.settings.replanning
    if rule is not None and rule.on_iteration:
        ask(desk, run, "next iteration")


def violated(desk: Desk, attempt: Attempt) -> bool:
    """Say whether a violation is answered by a new plan; ask for one if enough attempts violate."""
    rule = desk.settings.replanning
    if rule is None or rule.violators is None:
        return False
    run = desk.state.runs[attempt.run]
    if not run.planned:
        return False
    desk.emit(cm.Note(kind="violating", run=run.index, task=attempt.task, attempt=attempt.number))
    running = [
        number for number in run.attempt_of.values() if desk.state.attempts[number].stage == Stage.RUNNING
    ]
    slow = [number for number in running if desk.state.attempts[number].violating]
    if len(slow) >= rule.violators * len(running):
        ask(desk, run, f"{len(slow)} of {len(running)} running tasks violate their contracts")
    return True


def adopted(desk: Desk, event: ev.PlanReady) -> None:
    """Adopt a new plan: what has not started goes where it says; what runs too slowly is moved there."""
    run = desk.state.runs[event.run]
    if not event.plan or run.plan is None:
        desk.emit(cm.Note(kind="refused", run=run.index, text=event.problem or "no plan"))
        return
    desk.emit(cm.Note(kind="adopted", run=run.index, value=run.plan.stored.finish_s, text=event.plan))
    for task, number in sorted(run.attempt_of.items()):
        attempt = desk.state.attempts[number]
        line = run.plan.line.get(task)
        if (
            line is None
            or attempt.cancelled
            or attempt.replaced_by is not None
            or attempt.replaces is not None
        ):
            continue
        same = (line.machine, line.count) == (attempt.machine, attempt.count)
        if attempt.stage == Stage.ASSIGNED and attempt.queued and not attempt.staging and not same:
            state = "WAITING" if run.missing[task] else "READY"
            desk.emit(cm.Settle(run=run.index, task=task, state=state, reason="the new plan", again=True))
        elif attempt.violating and line.machine != attempt.machine and run.state[task] == TaskState.RUNNING:
            _move(desk, run, attempt, line.machine, line.count)
    rule = desk.settings.replanning
    if rule is not None and rule.every_s == 0.0 and run.index in desk.state.active:
        at_s = desk.state.now + desk.settings.poll_every_s
        desk.emit(cm.SetTimer(timer=f"{REPLAN}:{run.index}", at_s=at_s))


def _move(desk: Desk, run: Run, attempt: Attempt, machine: int, count: int) -> None:
    if desk.state.machines[machine].up and (machine, count) in run.known.options(attempt.task).nodes:
        migrate(desk, attempt, machine, count, "performance")
