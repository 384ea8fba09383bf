"""The reaction to each kind of event, to timers and to requests of the user.

See docs/papers/adaptive-jobs.md, section 4, and docs/papers/unified.md, section 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.engine import messages
from weft.engine.context import DecisionContext
from weft.engine.ranking import accepts_machine
from weft.engine.reactions import contracts, dispatch, machines, migration, replanning
from weft.engine.reactions.branches import complete_task, skip_task
from weft.engine.reactions.failures import (
    fail_task,
    find_cause,
    requests_rerun,
    rerun_lost,
    rerun_task,
    stop_run,
)
from weft.engine.reactions.migration import (
    clean_up_leftovers,
    clean_up_or_close,
    is_prepared,
    migrate_attempt,
    prepare_successor,
    settle_cancelled,
)
from weft.engine.reactions.staging import request_data
from weft.engine.state.run import RunState
from weft.engine.state.state import pop_first
from weft.engine.states import (
    Attempt,
    Cause,
    MigrationReason,
    ProbeTarget,
    RequestKind,
    RunOutcome,
    Stage,
    TaskState,
    TimerKind,
)
from weft.workflow.quantity import growth_file

_ENDED = Stage.ENDED  # faster to read than the member of the class


def _handle_timer(context: DecisionContext, event: messages.TimerFired) -> None:
    """Run the reaction to a timer that has fired."""
    kind, number = TimerKind.parse(event.timer)
    match kind:
        case TimerKind.WATCH:
            contracts.poll_attempts(context)
        case TimerKind.BETTER:
            migration.move_to_better_machines(context)
        case TimerKind.LADDER:
            machines.probe_attempts(context)
        case TimerKind.REPLAN:
            replanning.handle_replan_timer(context, number)
        case TimerKind.SELECT:
            machines.refresh_inquiries(context)
        case TimerKind.SUSPENDED:
            contracts.end_suspension(context, number)
        case TimerKind.WAITING:
            contracts.end_waiting(context, number)
        case TimerKind.STAGE_OUT:
            _stage_out_again(context, number)
        case TimerKind.ASK:
            dispatch.ask_selectors_again(context)


def _handle_request(context: DecisionContext, event: messages.RequestReceived) -> None:
    """Carry out a user's request; an impossible request is recorded as refused."""
    if not 0 <= event.run < len(context.state.runs):
        _refuse(context, event.run, f"{event.what}: there is no such run")
        return
    run = context.state.runs[event.run]
    tasks = [event.task] if event.task is not None else list(range(len(run)))
    match event.what:
        case RequestKind.CANCEL if event.task is None:
            stop_run(context, run, "cancelled by the user")
        case RequestKind.CANCEL | RequestKind.HOLD:
            for task in tasks:
                _hold(context, run, task, alone=event.task is not None)
        case RequestKind.RELEASE | RequestKind.RESUME:
            for task in tasks:
                _release(context, run, task, alone=event.task is not None)
        case RequestKind.MIGRATE if event.task is not None:
            _migrate(context, run, event.task, event.machine)
        case _:
            _refuse(context, run.index, f"{event.what}: not a valid request")


def _refuse(context: DecisionContext, run: int, reason: str, task: int = -1, machine: int = -1) -> None:
    context.emit(messages.Refuse(run=run, reason=reason, task=task, machine=machine))


def _hold(context: DecisionContext, run: RunState, task: int, *, alone: bool) -> None:
    """Hold a task that has not started.

    If the task has started, the request is refused if it was for this task ``alone``, otherwise ignored.
    """
    attempt = context.state.attempt_of(run, task)
    free = attempt is not None and not attempt.cancelled and attempt.replaces is None
    if run.state[task] in (TaskState.WAITING, TaskState.READY):
        context.settle(run, task, TaskState.HELD, reason="held by the user")
    elif attempt is not None and free and attempt.stage == Stage.ASSIGNED and attempt.staging:
        context.cancel(attempt, "held")
    elif attempt is not None and free and attempt.stage == Stage.ASSIGNED:
        context.settle(run, task, TaskState.HELD, reason="held by the user")
    elif alone and run.state[task] != TaskState.HELD:
        word = TaskState(run.state[task]).name.lower()
        _refuse(context, run.index, f"hold: it is {word}", task)


def _release(context: DecisionContext, run: RunState, task: int, *, alone: bool) -> None:
    if run.state[task] in (TaskState.HELD, TaskState.STOPPED):
        context.reopen(run, task, "released by the user")
    elif alone:
        _refuse(context, run.index, "release: it is not held", task)


def _migrate(context: DecisionContext, run: RunState, task: int, machine: int | None) -> None:
    """Move a task to a machine, or refuse the request if that is not possible.

    If ``machine`` is None, the task moves to the best free machine.
    """
    attempt = context.state.attempt_of(run, task)
    if attempt is None or attempt.stage > Stage.RUNNING:
        word = TaskState(run.state[task]).name.lower()
        _refuse(context, run.index, f"migrate: it is {word}, not running", task)
    elif attempt.cancelled or attempt.replaces in context.state.attempts:
        _refuse(context, run.index, "migrate: it is being moved or ended already", task)
    elif machine is None:
        if (found := migration.find_best_mode(context, run, attempt)) is None:
            _refuse(context, run.index, "migrate: no other machine can run it now", task)
        else:
            migrate_attempt(context, attempt, found[0].machine, found[0].count, MigrationReason.USER)
            replanning.replan_on_migration(context, run)
    elif machine == attempt.machine:
        _refuse(context, run.index, "migrate: it is there already", task, machine)
    elif obstacle := _find_obstacle(context, run, attempt, machine):
        _refuse(context, run.index, f"migrate: {obstacle}", task, machine)
    else:
        _migrate_to(context, run, attempt, machine)


def _find_obstacle(context: DecisionContext, run: RunState, attempt: Attempt, machine: int) -> str:
    """Return why a task cannot run on a machine, even if the machine is free; "": the task can run on it."""
    state, name = context.state, context.state.machines[machine].name
    if why := state.obstacle(machine):
        return f"{name}: {why}"
    if not run.compiled.options(attempt.task).counts.get(machine):
        return f"{name} cannot run it: nodes, cores, memory, service or requirements do not fit"
    if not accepts_machine(state, run, attempt.task, machine):
        return f"{name} does not meet its requirements"
    return ""


def _migrate_to(context: DecisionContext, run: RunState, attempt: Attempt, machine: int) -> None:
    """Migrate an attempt to a machine at once if enough nodes are free, otherwise when they become free."""
    counts, task = run.compiled.options(attempt.task).counts[machine], attempt.task
    fastest = min(counts, key=lambda count: run.compiled.seconds(task, machine, count))
    count = attempt.count if attempt.count in counts else fastest
    nodes = run.compiled.options(task).nodes[machine, count]
    if context.state.machines.fits(machine, nodes, run.demand(task, machine, count)):
        migrate_attempt(context, attempt, machine, count, MigrationReason.USER)
        replanning.replan_on_migration(context, run)
    else:
        migration.await_machine(context, attempt, machine, count)


def react(context: DecisionContext, event: messages.Event) -> None:
    """Run the reaction to an event, before the policy is called."""
    if (reaction := _REACTIONS.get(type(event))) is not None:
        reaction(context, event)
    replanning.follow_plans(context)


def finish_runs(context: DecisionContext) -> None:
    """Complete virtual tasks and finish the runs that have nothing left to do."""
    state = context.state
    while state.pending.runs:
        if (run := state.active.get(pop_first(state.pending.runs))) is None:
            continue
        while run.virtual:
            complete_task(context, run, next(iter(run.virtual)))
        if run.unfinished == 0 and not run.attempt_of:
            clean_up_leftovers(context, run)
            context.emit(messages.FinishRun(run=run.index, outcome=_find_outcome(run), reason=run.stopping))
        elif not len(run.ready) and all(
            state.is_early(state.attempts[number]) for number in run.attempt_of.values()
        ):
            _finish_stopped(context, run)


def _finish_stopped(context: DecisionContext, run: RunState) -> None:
    """Finish a run whose remaining tasks all depend on failed tasks that only a user can resume."""
    if any(state == TaskState.HELD for state in run.state):
        return
    stopped = [task for task, state in enumerate(run.state) if state == TaskState.STOPPED]
    if stopped:
        reason = f"{run.name(stopped[0])} waits for the user, and everything else for it"
        for task in list(run.attempt_of):
            context.settle(run, task, TaskState.WAITING, reason=reason, again=True)
        clean_up_leftovers(context, run)
        context.emit(messages.FinishRun(run=run.index, outcome=RunOutcome.STOPPED, reason=reason))


def _find_outcome(run: RunState) -> RunOutcome:
    if any(state == TaskState.STOPPED for state in run.state):
        return RunOutcome.STOPPED
    if run.failed:
        return RunOutcome.FAILED
    cancelled = any(state == TaskState.CANCELLED for state in run.state)
    return RunOutcome.CANCELLED if cancelled else RunOutcome.COMPLETED


def _on_submitted(context: DecisionContext, event: messages.Submitted) -> None:
    run = context.state.runs[event.run]
    if run.planned:
        context.emit(messages.Replan(run=run.index, version=run.version, reason=messages.SUBMITTED))


def _on_started(context: DecisionContext, event: messages.Started | messages.JobQueued) -> None:
    attempt = context.state.attempts.get(event.attempt)
    # A job that was accepted at once counts as running since its start command.
    if attempt is not None and attempt.started_s == context.state.now:
        contracts.start_monitoring(context, attempt)
        replanning.schedule_replan(context, context.state.runs[attempt.run])


def _on_ended(context: DecisionContext, event: messages.Ended) -> None:
    attempt = context.state.attempts.get(event.attempt)
    if attempt is None or attempt.stage != _ENDED:
        return
    run = context.state.runs[attempt.run]
    if run.left_behind and run.left_behind.get(attempt.task) == attempt.number:
        return  # its task was reopened before: a duplicate event, or a late one of a lost machine
    if attempt.replaced_by is not None:
        _continue_migration(context, run, attempt, event)
    elif attempt.cancelled:
        _handle_cancelled(context, run, attempt, event)
    elif requests_rerun(event):
        rerun_task(context, run, attempt, event)
    elif event.lost and not run.stopping and rerun_lost(context, attempt, event.lost):
        pass  # its task waits until these inputs are there again
    elif cause := find_cause(run, attempt, event):
        machines.probe_machine(context, attempt, cause)
        fail_task(context, run, attempt.task, cause, _describe_end(event), lasting=event.lasting)
    else:
        _handle_success(context, run, attempt)


def _handle_success(context: DecisionContext, run: RunState, attempt: Attempt) -> None:
    if _needs_stage_out(context, run, attempt.task):
        context.emit(messages.StageOut(attempt=attempt.number, machine=attempt.machine))
    else:
        _complete_attempt(context, run, attempt.task)


def _needs_stage_out(context: DecisionContext, run: RunState, task: int) -> bool:
    """Return whether some output of a task must be copied from its machine."""
    compiled = run.compiled
    if compiled.has_targets and compiled.has_target(task):
        return True
    return context.settings.brings_results and bool(compiled.results(task))


def _complete_attempt(context: DecisionContext, run: RunState, task: int) -> None:
    complete_task(context, run, task)
    if run.planned or run.compiled.moves_data:
        _stage_to_successors(context, run, task)


def _stage_to_successors(context: DecisionContext, run: RunState, task: int) -> None:
    """Request the outputs of a completed task for the successors that already have a machine."""
    for successor in run.compiled.after(task):
        attempt = context.state.attempt_of(run, successor)
        if attempt is not None and attempt.stage == Stage.ASSIGNED and is_prepared(context, attempt):
            request_data(context, attempt)


def _describe_end(event: messages.Ended) -> str:
    if event.story:
        return event.story
    if event.cause:
        return event.cause
    return "no exit code" if event.exit_code is None else f"exit code {event.exit_code}"


def _continue_migration(
    context: DecisionContext, run: RunState, attempt: Attempt, event: messages.Ended
) -> None:
    """Continue a migration after the old attempt ended; revert it if the program ended by itself."""
    by_itself = not event.cause and event.exit_code is not None and not requests_rerun(event)
    if not by_itself or attempt.replaced_by not in context.state.attempts:
        prepare_successor(context, attempt)
        return
    context.emit(
        messages.ReportLateCancel(
            run=run.index,
            task=attempt.task,
            attempt=attempt.number,
            reason="it ended before it could be moved",
        )
    )
    context.emit(messages.RevertMigration(attempt=attempt.number))
    if cause := find_cause(run, attempt, event):
        fail_task(context, run, attempt.task, cause, _describe_end(event))
    else:
        _handle_success(context, run, attempt)


def _handle_cancelled(
    context: DecisionContext, run: RunState, attempt: Attempt, event: messages.Ended
) -> None:
    """Settle a task whose attempt was cancelled; complete the task if its program had already succeeded."""
    if not event.cause and event.exit_code is not None and not find_cause(run, attempt, event):
        _handle_success(context, run, attempt)
    else:
        settle_cancelled(context, run, attempt)


def _on_staged_in(context: DecisionContext, event: messages.StagedIn) -> None:
    if (attempt := context.state.attempts.get(event.attempt)) is None or not attempt.live:
        return
    run = context.state.runs[attempt.run]
    if event.problem:
        if not (event.lost and rerun_lost(context, attempt, event.lost)):
            cause, reason = Cause.STAGING, f"staging failed: {event.problem}"
            if event.module:
                cause, reason = Cause.PROLOG, event.problem
            fail_task(context, run, attempt.task, cause, reason, lasting=event.lasting)
    elif attempt.replaces is not None and attempt.staging == 0:
        clean_up_or_close(context, attempt)


def _on_cleaned_up(context: DecisionContext, event: messages.CleanedUp) -> None:
    """Record that a task's own epilog failed in a clean-up; the new attempt starts nevertheless.

    See docs/papers/adaptive-jobs.md, gap G8.
    """
    if event.module:
        context.report_module(event.run, event.task, event.attempt, event.module, event.problem)


def _on_checkpointed(context: DecisionContext, event: messages.Checkpointed) -> None:
    """Record why restart files could not be copied; the task continues."""
    attempt = context.state.attempts.get(event.attempt)
    if event.problem and attempt is not None:
        context.report_module(attempt.run, attempt.task, attempt.number, "checkpoint", event.problem)


def _on_staged_out(context: DecisionContext, event: messages.StagedOut) -> None:
    attempt = context.state.attempts.get(event.attempt)
    if attempt is None or attempt.stage != Stage.ENDED:
        return
    run = context.state.runs[attempt.run]
    if not event.problem:
        _complete_attempt(context, run, attempt.task)
        return
    reason = f"staging out failed: {event.problem}"
    allowed = context.max_retries(run, attempt.task, Cause.STAGING)
    if event.lasting or run.stopping:
        fail_task(context, run, attempt.task, Cause.STAGING, reason, lasting=event.lasting)
    elif attempt.stage_failures > allowed:
        fail_task(context, run, attempt.task, Cause.STAGING, reason, tries=allowed)
    else:
        _postpone_stage_out(context, run, attempt, f"{reason}; retry {attempt.stage_failures} of {allowed}")


def _postpone_stage_out(context: DecisionContext, run: RunState, attempt: Attempt, reason: str) -> None:
    """Copy the outputs of an attempt again after a pause, which grows with each failure."""
    settings = run.settings_of(attempt.task)
    pause_s = settings.pause_s * settings.pause_growth ** (attempt.stage_failures - 1)
    pause_s = min(pause_s, settings.longest_pause_s)
    text = f"{reason} in {pause_s:g} s"
    context.emit(
        messages.PostponeStaging(run=run.index, task=attempt.task, attempt=attempt.number, reason=text)
    )
    context.set_timer(TimerKind.STAGE_OUT.name_of(attempt.number), context.state.now + pause_s)


def _stage_out_again(context: DecisionContext, number: int) -> None:
    attempt = context.state.attempts.get(number)
    if attempt is not None and attempt.stage == Stage.ENDED and not attempt.cancelled:
        context.emit(messages.StageOut(attempt=attempt.number, machine=attempt.machine))


def _on_answered(context: DecisionContext, event: messages.ProbeAnswered) -> None:
    if event.of == ProbeTarget.ACCESS:
        machines.refresh_inquiries(context)
    else:
        machines.handle_answer(context, event)


def _on_machines_selected(context: DecisionContext, event: messages.MachinesSelected) -> None:
    if event.problem:
        number = context.state.runs[event.run].attempt_of.get(event.task, -1)
        context.report_module(event.run, event.task, number, "selector", event.problem)


def _on_discovered(context: DecisionContext, event: messages.Discovered) -> None:  # noqa: ARG001
    machines.refresh_inquiries(context)


def _on_machine_changed(context: DecisionContext, event: messages.MachineChanged) -> None:
    if event.up is False:
        machines.handle_machine_loss(context, event.machine)
    elif event.up:
        machines.handle_machine_return(context, event.machine)
    if event.admission is not None:
        machines.handle_admission(context, event.machine, event.admission)
    if event.admission is not None or context.settings.pushes_state:
        machines.refresh_inquiries(context)  # its sensor is started again
    replanning.replan_on_machine_change(context, event)


def _on_tasks_added(context: DecisionContext, event: messages.TasksAdded) -> None:
    """Skip the tasks of sweeps over files without lines, and request a plan that includes the new tasks."""
    if (run := context.state.active.get(event.run)) is None or run.stopping:
        return
    for file in sorted(file for file, lines in event.lines.items() if not lines):
        for task in range(len(run)):
            sweep = run.compiled.description(task).sweep
            if sweep is not None and any(growth_file(values) == file for _, values in sweep.variables):
                skip_task(context, run, task, f"{file} has no lines")
    replanning.replan_on_growth(context, event)


_REACTIONS: dict[type, Callable[[DecisionContext, Any], None]] = {
    messages.Submitted: _on_submitted,
    messages.Started: _on_started,
    messages.JobQueued: _on_started,
    messages.StartDelayed: contracts.handle_delay,
    messages.Ended: _on_ended,
    messages.StagedIn: _on_staged_in,
    messages.StagedOut: _on_staged_out,
    messages.CleanedUp: _on_cleaned_up,
    messages.Checkpointed: _on_checkpointed,
    messages.Progressed: contracts.handle_progress,
    messages.Suspended: contracts.handle_suspension,
    messages.RequirementsChanged: contracts.handle_requirements,
    messages.MachineChanged: _on_machine_changed,
    messages.ProbeAnswered: _on_answered,
    messages.Discovered: _on_discovered,
    messages.MachinesSelected: _on_machines_selected,
    messages.PlanReady: replanning.adopt_plan,
    messages.TasksAdded: _on_tasks_added,
    messages.TimerFired: _handle_timer,
    messages.RequestReceived: _handle_request,
}
