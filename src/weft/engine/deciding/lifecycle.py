"""The life of a task: what follows from each event (spec s3 section 4, unified section 2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.engine.deciding import adopting, asking, laddering, replanning, watching
from weft.engine.deciding.branching import complete, leave_out
from weft.engine.deciding.failing import asks_to_run_again, cause_of, fail, run_again
from weft.engine.deciding.migrating import (
    clean_up_or_drop,
    clear_up,
    is_prepared,
    prepare_new,
    settle_cancelled,
)
from weft.engine.deciding.staging import send_for_data
from weft.engine.desk import Desk
from weft.engine.messages import commands as cm
from weft.engine.messages import events as ev
from weft.engine.rerunning import rerun_lost
from weft.engine.selection import pipeline
from weft.engine.state.attempt import Attempt, Stage
from weft.engine.state.run import Run
from weft.engine.state.states import TaskState
from weft.workflow.records.sweep import growth_file

__all__ = ["react", "tidy"]


def react(desk: Desk, event: ev.Event) -> None:
    """Decide what follows from an event, before the policy is asked."""
    reaction = _REACTIONS.get(type(event))
    if reaction is not None:
        reaction(desk, event)


def tidy(desk: Desk) -> None:
    """Complete virtual tasks, send for the data of early placements, end the runs that are over."""
    state = desk.state
    while state.to_tidy:
        index = next(iter(state.to_tidy))
        del state.to_tidy[index]
        run = state.active.get(index)
        if run is None:
            continue
        while run.virtual:
            complete(desk, run, next(iter(run.virtual)))
        if run.unfinished == 0 and not run.attempt_of:
            clear_up(desk, run)
            desk.emit(cm.Finish(run=run.index, outcome=_outcome(run), reason=run.stopping))
        elif not len(run.ready) and all(
            state.was_sent_ahead(state.attempts[number]) for number in run.attempt_of.values()
        ):
            _stop_waiting(desk, run)


def _stop_waiting(desk: Desk, run: Run) -> None:
    """End a run in which all that is left waits for tasks that wait for the user."""
    if any(state == TaskState.HELD for state in run.state):
        return
    stopped = [task for task, state in enumerate(run.state) if state == TaskState.STOPPED]
    if stopped:
        reason = f"{run.name(stopped[0])} waits for the user, and everything else for it"
        for task in list(run.attempt_of):
            desk.emit(cm.Settle(run=run.index, task=task, state="WAITING", reason=reason, again=True))
        clear_up(desk, run)
        desk.emit(cm.Finish(run=run.index, outcome="stopped", reason=reason))


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


def _started(desk: Desk, event: ev.Started) -> None:
    attempt = desk.state.attempts.get(event.attempt)
    if attempt is not None:
        watching.begin(desk, attempt)
        replanning.go_on(desk, desk.state.runs[attempt.run])


def _ended(desk: Desk, event: ev.Ended) -> None:
    attempt = desk.state.attempts.get(event.attempt)
    if attempt is None or attempt.stage != Stage.ENDED:
        return
    run = desk.state.runs[attempt.run]
    if run.left_behind and run.left_behind.get(attempt.task) == attempt.number:
        return  # given up before: a second answer, or news from a machine that was silent
    if attempt.replaced_by is not None:
        _ended_for_another(desk, run, attempt, event)
    elif attempt.cancelled:
        _cancelled(desk, run, attempt, event)
    elif asks_to_run_again(event):
        run_again(desk, run, attempt, event)
    elif cause := cause_of(run, attempt, event):
        laddering.doubt(desk, attempt, cause)
        fail(desk, run, attempt.task, cause, _story(event), lasting=event.lasting)
    else:
        _ended_well(desk, run, attempt)


def _ended_well(desk: Desk, run: Run, attempt: Attempt) -> None:
    if _brings_out(desk, run, attempt.task):
        desk.emit(cm.StageOut(attempt=attempt.number, machine=attempt.machine))
    else:
        _completed(desk, run, attempt.task)


def _brings_out(desk: Desk, run: Run, task: int) -> bool:
    """Say whether something a task has made is wanted elsewhere than on its machine."""
    known = run.known
    return known.brings_out(task) or (desk.settings.brings_results and bool(known.results(task)))


def _completed(desk: Desk, run: Run, task: int) -> None:
    complete(desk, run, task)
    if run.planned or run.known.moves_data:
        _send_to_early(desk, run, task)


def _send_to_early(desk: Desk, run: Run, task: int) -> None:
    """Send the data of a completed task to the successors that already have a machine."""
    for successor in run.known.after(task):
        number = run.attempt_of.get(successor)
        attempt = desk.state.attempts.get(number) if number is not None else None
        if attempt is not None and attempt.stage == Stage.ASSIGNED and is_prepared(desk, attempt):
            send_for_data(desk, attempt)


def _story(event: ev.Ended) -> str:
    if event.story:
        return event.story
    if event.cause:
        return event.cause
    return "no exit code" if event.exit_code is None else f"exit code {event.exit_code}"


def _ended_for_another(desk: Desk, run: Run, attempt: Attempt, event: ev.Ended) -> None:
    """Go on with a migration, unless the task ended by itself before it could be cancelled."""
    by_itself = not event.cause and event.exit_code is not None and not asks_to_run_again(event)
    if not by_itself or attempt.replaced_by not in desk.state.attempts:
        prepare_new(desk, attempt)
        return
    desk.emit(
        cm.Note(
            kind="too-late",
            run=run.index,
            task=attempt.task,
            attempt=attempt.number,
            text="it ended before it could be moved",
        )
    )
    desk.emit(cm.Return(attempt=attempt.number))
    if cause := cause_of(run, attempt, event):
        fail(desk, run, attempt.task, cause, _story(event))
    else:
        _ended_well(desk, run, attempt)


def _cancelled(desk: Desk, run: Run, attempt: Attempt, event: ev.Ended) -> None:
    """Settle a task whose attempt was ended by us; if it ended well before that, it is completed."""
    if not event.cause and event.exit_code is not None and not cause_of(run, attempt, event):
        _ended_well(desk, run, attempt)
    else:
        settle_cancelled(desk, run, attempt)


def _staged_in(desk: Desk, event: ev.StagedIn) -> None:
    attempt = desk.state.attempts.get(event.attempt)
    if attempt is None or not attempt.live:
        return
    run = desk.state.runs[attempt.run]
    if event.problem:
        if not (event.lost and rerun_lost(desk, attempt, event.lost)):
            reason = f"staging failed: {event.problem}"
            fail(desk, run, attempt.task, "staging", reason, lasting=event.lasting)
    elif attempt.replaces is not None and attempt.staging == 0:
        clean_up_or_drop(desk, attempt)


def _staged_out(desk: Desk, event: ev.StagedOut) -> None:
    attempt = desk.state.attempts.get(event.attempt)
    if attempt is None or attempt.stage != Stage.ENDED:
        return
    run = desk.state.runs[attempt.run]
    if event.problem:
        reason = f"staging out failed: {event.problem}"
        fail(desk, run, attempt.task, "staging", reason, lasting=event.lasting)
    else:
        _completed(desk, run, attempt.task)


def _answered(desk: Desk, event: ev.Answered) -> None:
    if event.of == "access":
        pipeline.refresh(desk)
    else:
        laddering.answered(desk, event)


def _discovered(desk: Desk, event: ev.Discovered) -> None:  # noqa: ARG001
    pipeline.refresh(desk)


def _machine_changed(desk: Desk, event: ev.MachineChanged) -> None:
    if event.up is False:
        laddering.machine_lost(desk, event.machine)
    elif event.up:
        laddering.machine_back(desk, event.machine)
    replanning.machines_changed(desk, event)


def _tasks_added(desk: Desk, event: ev.TasksAdded) -> None:
    """Leave out what was to be done with the lines of a file that has none."""
    run = desk.state.active.get(event.run)
    if run is None or run.stopping:
        return
    for file in sorted(file for file, lines in event.lines.items() if not lines):
        for task in range(len(run)):
            sweep = run.known.description(task).sweep
            if sweep is not None and any(growth_file(values) == file for _, values in sweep.variables):
                leave_out(desk, run, task, f"{file} has no lines")
    replanning.grown(desk, event)


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
    ev.Answered: _answered,
    ev.Discovered: _discovered,
    ev.PlanReady: adopting.adopted,
    ev.TasksAdded: _tasks_added,
    ev.TimerFired: asking.timer_fired,
    ev.Asked: asking.asked,
}
