"""The life of a task: what follows from each event (spec s3 section 4, unified section 2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.engine.deciding import asking, laddering, replanning, watching
from weft.engine.deciding.branching import complete
from weft.engine.deciding.failing import asks_to_run_again, cause_of, fail
from weft.engine.deciding.migrating import clean_up_or_drop, prepare_new
from weft.engine.deciding.staging import send_for_data
from weft.engine.desk import Desk
from weft.engine.messages import commands as cm
from weft.engine.messages import events as ev
from weft.engine.state.attempt import Attempt, Stage
from weft.engine.state.run import Run
from weft.engine.state.states import TaskState

__all__ = ["react", "tidy"]


def react(desk: Desk, event: ev.Event) -> None:
    """Decide what follows from an event, before the policy is asked."""
    reaction = _REACTIONS.get(type(event))
    if reaction is not None:
        reaction(desk, event)


def tidy(desk: Desk) -> None:
    """Complete virtual tasks, send for the data of early placements, end the runs that are over."""
    for run in list(desk.state.active.values()):
        while run.virtual:
            task = run.virtual.pop()
            if run.state[task] == TaskState.READY:
                complete(desk, run, task)
        if run.unfinished == 0 and not run.attempt_of:
            desk.emit(cm.Finish(run=run.index, outcome=_outcome(run), reason=run.stopping))


def _outcome(run: Run) -> str:
    if any(state == TaskState.STOPPED for state in run.state):
        return "stopped"
    if run.failed:
        return "failed"
    return "cancelled" if any(state == TaskState.CANCELLED for state in run.state) else "completed"


def _submitted(desk: Desk, event: ev.Submitted) -> None:
    run = desk.state.runs[event.run]
    if run.planned:
        desk.emit(cm.Replan(run=run.index, version=run.version, reason="submitted"))
    replanning.begin(desk, run)


def _started(desk: Desk, event: ev.Started) -> None:
    attempt = desk.state.attempts.get(event.attempt)
    if attempt is not None:
        watching.begin(desk, attempt)


def _ended(desk: Desk, event: ev.Ended) -> None:
    attempt = desk.state.attempts.get(event.attempt)
    if attempt is None or attempt.stage != Stage.ENDED:
        return
    run = desk.state.runs[attempt.run]
    if attempt.replaced_by is not None:
        _ended_for_another(desk, run, attempt, event)
    elif attempt.cancelled:
        _cancelled(desk, run, attempt)
    elif asks_to_run_again(event):
        reason = f"exit code {event.exit_code}: asks to be run again"
        desk.emit(cm.Settle(run=run.index, task=attempt.task, state="READY", reason=reason, again=True))
    elif cause := cause_of(run, attempt, event):
        fail(desk, run, attempt.task, cause, _story(event))
    elif run.known.brings_out(attempt.task):
        desk.emit(cm.StageOut(attempt=attempt.number, machine=attempt.machine))
    else:
        _completed(desk, run, attempt.task)


def _completed(desk: Desk, run: Run, task: int) -> None:
    complete(desk, run, task)
    if run.planned or run.known.moves_data:
        _send_to_early(desk, run, task)


def _send_to_early(desk: Desk, run: Run, task: int) -> None:
    """Send the data of a completed task to the successors that already have a machine."""
    for successor in run.known.after(task):
        number = run.attempt_of.get(successor)
        attempt = desk.state.attempts.get(number) if number is not None else None
        if attempt is not None and attempt.stage == Stage.ASSIGNED and attempt.replaces is None:
            send_for_data(desk, attempt)


def _story(event: ev.Ended) -> str:
    if event.cause:
        return event.cause
    return "no exit code" if event.exit_code is None else f"exit code {event.exit_code}"


def _ended_for_another(desk: Desk, run: Run, attempt: Attempt, event: ev.Ended) -> None:
    """Go on with a migration; if the task ended well before it could be cancelled, the migration is off."""
    new = desk.state.attempts.get(attempt.replaced_by) if attempt.replaced_by is not None else None
    if not event.cause and not cause_of(run, attempt, event) and new is not None:
        desk.emit(
            cm.Note(
                kind="too-late",
                run=run.index,
                task=attempt.task,
                attempt=attempt.number,
                text="it completed before it could be moved",
            )
        )
        desk.emit(cm.Return(attempt=attempt.number))
        _completed(desk, run, attempt.task)
    else:
        prepare_new(desk, attempt)


def _cancelled(desk: Desk, run: Run, attempt: Attempt) -> None:
    if run.stopping:
        desk.emit(cm.Settle(run=run.index, task=attempt.task, state="CANCELLED", reason=run.stopping))
    elif attempt.cancelled == "held":
        desk.emit(cm.Settle(run=run.index, task=attempt.task, state="HELD", reason="held by the user"))
    else:
        state = "WAITING" if run.missing[attempt.task] else "READY"
        reason = attempt.cancelled
        keep = attempt.started_s is not None
        desk.emit(
            cm.Settle(run=run.index, task=attempt.task, state=state, reason=reason, again=True, keep=keep)
        )


def _staged_in(desk: Desk, event: ev.StagedIn) -> None:
    attempt = desk.state.attempts.get(event.attempt)
    if attempt is None or not attempt.live:
        return
    run = desk.state.runs[attempt.run]
    if event.problem:
        fail(desk, run, attempt.task, "staging", f"staging failed: {event.problem}")
    elif attempt.replaces is not None and attempt.staging == 0:
        clean_up_or_drop(desk, attempt)


def _staged_out(desk: Desk, event: ev.StagedOut) -> None:
    attempt = desk.state.attempts.get(event.attempt)
    if attempt is None or attempt.stage != Stage.ENDED:
        return
    run = desk.state.runs[attempt.run]
    if event.problem:
        fail(desk, run, attempt.task, "staging", f"staging out failed: {event.problem}")
    else:
        _completed(desk, run, attempt.task)


def _machine_changed(desk: Desk, event: ev.MachineChanged) -> None:
    if event.up is False:
        laddering.machine_lost(desk, event.machine)
    replanning.machines_changed(desk, event)


_REACTIONS: dict[type, Callable[[Desk, Any], None]] = {
    ev.Submitted: _submitted,
    ev.Started: _started,
    ev.Ended: _ended,
    ev.StagedIn: _staged_in,
    ev.StagedOut: _staged_out,
    ev.Progressed: watching.progressed,
    ev.Suspended: watching.suspended,
    ev.RequirementsChanged: watching.requirements_changed,
    ev.MachineChanged: _machine_changed,
    ev.Answered: laddering.answered,
    ev.PlanReady: replanning.adopted,
    ev.TimerFired: asking.timer_fired,
    ev.Asked: asking.asked,
}
