"""Re-planning: when the rest of a run is planned again, and how a new plan is adopted.

R. Prodan, T. Fahringer, SAC 2005 (docs/papers/dynamic-grid.md, sections 8 and 10; docs/papers/unified.md,
section 5, step 7). Planning takes time, so a plan is requested by a command and arrives as an event; until
then the run follows the old plan.

A task that runs and meets its contract is never moved (I5). A task that violates its contract migrates if the
new plan puts it on another machine. With ``bound_ancestors: always`` the completed tasks on the abstract
machine of the moving task run again on the new machine, and the moving task waits for them; the journal
records this as a Settle of a completed task.

Deviations: the paper cancels a violating task before planning; here it runs until the plan arrives. A task
that violates its contract after the plan was requested waits for the next plan.
"""

from __future__ import annotations

from collections.abc import Collection

from weft.engine import messages
from weft.engine.context import DecisionContext
from weft.engine.reactions import migration
from weft.engine.reactions.failures import stop_run
from weft.engine.reactions.migration import migrate_attempt
from weft.engine.replan.remainder import find_violators
from weft.engine.state.plan import PlanLine, RunPlan
from weft.engine.state.run import RunState
from weft.engine.states import Attempt, MigrationReason, Stage, TaskState, TimerKind
from weft.workflow.task_graph import TRANSFER

_USABLE = "its planned machine is usable now"


def _request_plan(context: DecisionContext, run: RunState, reason: str, *, again: bool = True) -> None:
    """Request a new plan for an active planned run.

    While a plan is being made, which does not contain the latest change, the request is postponed until that
    plan has arrived, or dropped if ``again`` is false.
    """
    if not run.planned or run.index not in context.state.active or run.stopping:
        return
    if not run.plan_wanted:
        context.emit(messages.Replan(run=run.index, version=run.version, reason=reason))
    elif again and not run.next_plan:
        context.emit(messages.PostponeReplan(run=run.index, reason=reason))


def schedule_replan(context: DecisionContext, run: RunState) -> None:
    """Set the timer for the next plan of a run that has attempts, if the settings state an interval.

    With interval 0 a plan is requested as soon as the last plan has arrived (the paper's maximal frequency).
    If planning takes no time, the poll interval is used instead.
    """
    every_s, state = run.settings.replan_every_s, context.state
    if every_s is None or not run.planned or run.plan_wanted:
        return
    timer = TimerKind.REPLAN.name_of(run.index)
    if timer in state.timers or run.index not in state.active or not run.attempt_of:
        return
    wait_s = every_s
    if wait_s == 0.0 and state.now <= run.plan_asked_s:
        wait_s = context.settings.poll_every_s
    context.set_timer(timer, state.now + wait_s)


def handle_replan_timer(context: DecisionContext, index: int) -> None:
    """Request a plan when the replan timer fires, after its interval or because of violated contracts."""
    if (run := context.state.active.get(index)) is None or not run.attempt_of:
        return
    slow = len(find_violators(context.state, run))
    reason = f"{slow} running tasks violate their contracts" if slow else "interval"
    _request_plan(context, run, reason, again=False)


def replan_on_machine_change(context: DecisionContext, event: messages.MachineChanged) -> None:
    """Request plans for the active runs if the user changed a machine, or a machine went down or came back.

    A change by the user and a machine that came back always cause a new plan, because otherwise queued tasks
    would not use that machine. A lost machine causes a new plan only if the settings require it, because its
    tasks are placed on other machines anyway.
    """
    if event.up is None and event.admission is None:
        return
    for run in list(context.state.active.values()):
        if event.up or event.admission is not None or "machines" in run.settings.replan_when:
            _request_plan(context, run, "machines changed")


def replan_on_answer(context: DecisionContext) -> None:
    """Request a plan for every active run, because a probe has shown that a machine is back."""
    for run in list(context.state.active.values()):
        _request_plan(context, run, "machines changed")


def follow_plans(context: DecisionContext) -> None:
    """Send waiting tasks to planned machines that they could not use when the plan was adopted.

    - An answer to a query has made a machine usable: the tasks that the plan puts there are in the queues of
      other machines. If plans could not use the machine before, because it was not listed or refused access,
      a new plan is requested, too.
    - The earlier attempt of a task is closed, so that the task may leave its queue.
    """
    state, pending = context.state, context.state.pending
    if not (pending.usable or pending.admitted or pending.successors):
        return
    usable, admitted, successors = pending.take_new()
    for run in list(state.active.values()) if usable or admitted else ():
        if admitted:
            _request_plan(context, run, "machines changed")
        for task in sorted(run.attempt_of):
            _requeue_task(context, run, task, usable)
    for number in successors:
        if (attempt := state.attempts.get(number)) is not None:
            run = state.runs[attempt.run]
            # A plan that was requested before the migration may put the task on the machine that it left.
            if run.plan_asked_s >= attempt.assigned_s and not run.plan_wanted:
                _requeue_task(context, run, attempt.task)


def _requeue_task(
    context: DecisionContext, run: RunState, task: int, machines: Collection[int] | None = None
) -> None:
    """Reopen a task that waits in the queue of another machine than its planned one.

    ``machines``: do so only if the planned machine is one of these.
    """
    line = None if run.plan is None else run.plan.planned_tasks.get(task)
    attempt = None if line is None else _find_queued(context, run, task)
    if line is None or attempt is None or line.machine == attempt.machine:
        return
    if machines is not None and line.machine not in machines:
        return
    if not context.state.machines[line.machine].usable:
        return
    if attempt.staging:
        context.cancel(attempt, _USABLE)
    else:
        context.reopen(run, task, _USABLE)


def replan_on_migration(context: DecisionContext, run: RunState) -> None:
    """Request a plan because the user moved a task, so that other tasks may use its old machine."""
    _request_plan(context, run, "the user moved a task")


def replan_on_iteration(context: DecisionContext, run: RunState) -> None:
    """Request a plan if the settings require one per loop iteration.

    A plan that is being made contains the next iteration, so no further plan is requested.
    """
    if "iteration" in run.settings.replan_when:
        _request_plan(context, run, "next iteration", again=False)


def replan_on_growth(context: DecisionContext, event: messages.TasksAdded) -> None:
    """Request a plan because the current one does not contain the new tasks."""
    if (run := context.state.active.get(event.run)) is not None:
        _request_plan(context, run, "tasks were added")


def replan_on_violation(context: DecisionContext, attempt: Attempt) -> bool:
    """Return whether violations cause new plans for the run of an attempt that violates its contract.

    If they do, mark the attempt as violating. If enough attempts violate their contracts, also set the timer
    for a plan request to the current time. The timer fires after all progress reports of this time, so that
    one plan covers all violations.
    """
    run = context.state.runs[attempt.run]
    if "violated" not in run.settings.replan_when or not run.planned:
        return False
    if not attempt.violating:
        context.emit(messages.MarkViolating(run=run.index, task=attempt.task, attempt=attempt.number))
    running = sum(
        1 for number in run.attempt_of.values() if context.state.attempts[number].stage == Stage.RUNNING
    )
    slow = len(find_violators(context.state, run))
    if slow and slow >= run.settings.replan_share * running and not run.plan_wanted:
        context.set_timer(TimerKind.REPLAN.name_of(run.index), context.state.now)
    return True


def adopt_plan(context: DecisionContext, event: messages.PlanReady) -> None:
    """Apply a new plan to its run; stop the run if it needs a plan and there is none."""
    run = context.state.runs[event.run]
    if run.index not in context.state.active:
        return
    if not event.plan or run.plan is None:
        problem = event.problem or "no plan"
        context.emit(messages.Refuse(run=run.index, reason=problem))
        if run.plan is None and _needs_plan(run):
            stop_run(context, run, f"there is no plan to follow: {problem}")
    else:
        context.emit(messages.AdoptPlan(run=run.index, finish_s=run.plan.stored.finish_s, plan=event.plan))
        _migrate_violators(context, run, run.plan)
        _requeue_moved(context, run, run.plan)
    if run.next_plan:
        _request_plan(context, run, run.next_plan)
    schedule_replan(context, run)


def _needs_plan(run: RunState) -> bool:
    """Return whether a task is left that has neither a machine nor a selector of its own."""
    open_states = (TaskState.WAITING, TaskState.READY, TaskState.HELD)
    return any(
        state in open_states and not run.compiled.selector(task) for task, state in enumerate(run.state)
    )


def _requeue_moved(context: DecisionContext, run: RunState, plan: RunPlan) -> None:
    """Reopen the queued tasks that the new plan puts on another machine or at another time."""
    for task in sorted(run.attempt_of):
        line, attempt = plan.planned_tasks.get(task), _find_queued(context, run, task)
        if line is None or attempt is None:
            continue
        elsewhere = (line.machine, line.count) != (attempt.machine, attempt.count)
        if attempt.staging:
            # Its data are being copied; request them again only for another machine.
            if elsewhere and context.state.machines[line.machine].usable:
                context.cancel(attempt, "the new plan")
        elif elsewhere or line.start_s != attempt.order:
            context.reopen(run, task, "the new plan")


def _find_queued(context: DecisionContext, run: RunState, task: int) -> Attempt | None:
    """Return the attempt of a task that waits in a queue and may leave it; None: there is no such attempt.

    A task that the user moves to a busy machine stays in its queue until it moves, and a migrating task until
    its earlier attempt is closed.
    """
    attempt = context.state.attempts[run.attempt_of[task]]
    waits = attempt.stage == Stage.ASSIGNED and attempt.queued and not attempt.cancelled
    moving = attempt.replaced_by is not None or attempt.replaces in context.state.attempts
    return attempt if waits and not moving and attempt.awaited_machine is None else None


def _plan_label(run: RunState, task: int) -> str:
    """Return a task's name in plans; if it is in loops, with the innermost iteration: ``solve#2``."""
    name = run.compiled.names[task]
    return f"{name}#{run.loops.iteration(task)}" if task in run.loops.around else name


def _migrate_violators(context: DecisionContext, run: RunState, plan: RunPlan) -> None:
    """Migrate tasks to their planned machines if they violated their contracts when the plan was requested.

    Tasks that no longer violate their contracts stay.
    """
    planned = set(plan.stored.moving)
    for task in find_violators(context.state, run):
        attempt = context.state.attempts[run.attempt_of[task]]
        line = plan.planned_tasks.get(task)
        if _plan_label(run, task) not in planned or line is None or line.machine == attempt.machine:
            continue
        possible = run.is_mode(task, line.machine, line.count)
        if (
            possible
            and context.state.machines[line.machine].usable
            and _is_worthwhile(context, attempt, line)
        ):
            _migrate_violator(context, run, plan, attempt, line)


def _is_worthwhile(context: DecisionContext, attempt: Attempt, line: PlanLine) -> bool:
    """Return whether the ``migrate`` setting of a violating task allows its migration.

    With ``migrate: pays`` the task may migrate if its planned end saves enough time.
    """
    when = context.state.runs[attempt.run].settings_of(attempt.task).migrate
    if when != "pays":
        return when == "always"
    return migration.is_worth_moving(
        context, attempt, MigrationReason.PERFORMANCE, line.finish_s - context.state.now
    )


def _migrate_violator(
    context: DecisionContext, run: RunState, plan: RunPlan, attempt: Attempt, line: PlanLine
) -> None:
    if not (before := _list_tied_tasks(run, plan, attempt.task)):
        migrate_attempt(context, attempt, line.machine, line.count, MigrationReason.PERFORMANCE)
        return
    # The task depends on the tasks that run again, so its attempt is cancelled and it waits for them.
    context.cancel(attempt, MigrationReason.PERFORMANCE)
    context.emit(messages.Unbind(run=run.index, task=before[0], machine=line.machine))
    for task in before:
        context.reopen(run, task, f"its abstract machine moves with {run.name(attempt.task)}")


def _list_tied_tasks(run: RunState, plan: RunPlan, task: int) -> list[int]:
    """Return the completed tasks that the plan runs again because ``task`` leaves their machine."""
    if not plan.stored.again:
        return []
    compiled = run.compiled
    column = compiled.graph.source_variable if compiled.kind[task] == TRANSFER else compiled.graph.variable
    again = set(plan.stored.again)
    return [
        member
        for member in run.members(int(column[task]))
        if run.state[member] == TaskState.COMPLETED and _plan_label(run, member) in again
    ]
