"""Re-planning: when what remains of a run is planned again (S1 section 8; unified section 5, step 7).

Planning takes time, so it is a command that an event answers; execution goes on under the old plan meanwhile.
What comes of the new plan is in ``adopting``.

Adopting a plan: what has started is kept, what waits goes where it says, what is too slow is moved there.

R. Prodan, T. Fahringer, SAC 2005 (spec s1 sections 8 and 10). A properly running task is never moved (I5). A
task that breaks its contract, and is planned on another machine, migrates there; a plan that keeps it where
it is leaves it alone. With ``bound_ancestors: always`` completed tasks that are tied to the abstract machine
it leaves run again on the new one, and it waits for them; this stands in the journal as a Settle of a
completed task.

Deviations: S1 cancels a violating task before it plans; here it runs on until there is a plan. What broke its
contract after the plan was asked for waits for the next one (stale-plan reconciliation).
"""

from __future__ import annotations

from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.engine.context import DecisionContext
from weft.engine.reactions import relocation
from weft.engine.reactions.failures import stop_run
from weft.engine.reactions.migration import migrate_attempt
from weft.engine.replan.remainder import find_violators
from weft.engine.state.plan import PlanLine, RunPlan
from weft.engine.state.run import RunState
from weft.engine.states import Attempt, Stage, TaskState
from weft.workflow.task_graph import TRANSFER

__all__ = [
    "REPLAN",
    "adopt_plan",
    "handle_replan_timer",
    "replan_on_growth",
    "replan_on_iteration",
    "replan_on_machine_change",
    "replan_on_violation",
    "request_plan",
    "schedule_replan",
]


REPLAN = "replan"
"""Prefix of the timers that ask for a new plan, one per run."""


def request_plan(context: DecisionContext, run: RunState, reason: str) -> None:
    """Ask for a new plan, unless one is on the way."""
    if run.planned and not run.plan_wanted and run.index in context.state.active and not run.stopping:
        context.emit(cm.Replan(run=run.index, version=run.version, reason=reason))


def schedule_replan(context: DecisionContext, run: RunState) -> None:
    """See to it that a run is planned again at its interval, as long as something of it is alive.

    With the interval 0 a plan follows the other as soon as it is there (S1's maximal frequency); where
    planning takes no time, at the interval of the polls.
    """
    rule, state = context.settings.replanning, context.state
    if rule is None or rule.every_s is None or not run.planned or run.plan_wanted:
        return
    timer = f"{REPLAN}:{run.index}"
    if timer in state.timers or run.index not in state.active or not run.attempt_of:
        return
    wait_s = rule.every_s
    if wait_s == 0.0 and state.now <= run.plan_asked_s:
        wait_s = context.settings.poll_every_s
    context.emit(cm.SetTimer(timer=timer, at_s=state.now + wait_s))


def handle_replan_timer(context: DecisionContext, index: int) -> None:
    """Plan again because it is time, or because enough tasks are too slow."""
    run = context.state.active.get(index)
    if run is None or not run.attempt_of:
        return
    slow = len(find_violators(context.state, run))
    request_plan(context, run, f"{slow} running tasks violate their contracts" if slow else "interval")


def replan_on_machine_change(context: DecisionContext, event: ev.MachineChanged) -> None:
    """Plan again because machines went or came."""
    rule = context.settings.replanning
    if rule is not None and rule.on_machines and event.up is not None:
        for run in list(context.state.active.values()):
            request_plan(context, run, "machines changed")


def replan_on_iteration(context: DecisionContext, run: RunState) -> None:
    """Plan again because a loop begins its next iteration."""
    rule = context.settings.replanning
    if rule is not None and rule.on_iteration:
        request_plan(context, run, "next iteration")


def replan_on_growth(context: DecisionContext, event: ev.TasksAdded) -> None:
    """Plan again because there are tasks that no plan knows."""
    run = context.state.active.get(event.run)
    if run is not None:
        request_plan(context, run, "tasks were added")


def replan_on_violation(context: DecisionContext, attempt: Attempt) -> bool:
    """Say whether a violation is answered by a new plan; ask for one if enough attempts violate.

    The plan is asked for by a timer that is due now: the news of others that came at the same time are heard
    before, and one plan serves all.
    """
    rule = context.settings.replanning
    run = context.state.runs[attempt.run]
    if rule is None or rule.violators is None or not run.planned:
        return False
    if not attempt.violating:
        context.emit(cm.Note(kind="violating", run=run.index, task=attempt.task, attempt=attempt.number))
    running = sum(
        1 for number in run.attempt_of.values() if context.state.attempts[number].stage == Stage.RUNNING
    )
    slow = len(find_violators(context.state, run))
    if slow and slow >= rule.violators * running and not run.plan_wanted:
        context.emit(cm.SetTimer(timer=f"{REPLAN}:{run.index}", at_s=context.state.now))
    return True


def adopt_plan(context: DecisionContext, event: ev.PlanReady) -> None:
    """Take up a plan that has come, or go on without it."""
    run = context.state.runs[event.run]
    if run.index not in context.state.active:
        return
    if not event.plan or run.plan is None:
        problem = event.problem or "no plan"
        context.emit(cm.Note(kind="refused", run=run.index, text=problem))
        if run.plan is None:
            stop_run(context, run, f"there is no plan to follow: {problem}")
    else:
        context.emit(cm.Note(kind="adopted", run=run.index, value=run.plan.stored.finish_s, text=event.plan))
        _migrate_violators(context, run, run.plan)
        _requeue_moved(context, run, run.plan)
    schedule_replan(context, run)


def _requeue_moved(context: DecisionContext, run: RunState, plan: RunPlan) -> None:
    """Take back the tasks that wait at a machine and are planned elsewhere, or at another time."""
    for task, number in sorted(run.attempt_of.items()):
        attempt = context.state.attempts[number]
        line = plan.line.get(task)
        waits = attempt.stage == Stage.ASSIGNED and attempt.queued
        moving = attempt.replaced_by is not None or attempt.replaces in context.state.attempts
        if line is None or not waits or attempt.cancelled or moving:
            continue
        elsewhere = (line.machine, line.count) != (attempt.machine, attempt.count)
        if attempt.staging:
            # Its data are on the way: only another place is worth losing them.
            if elsewhere and context.state.machines[line.machine].usable:
                context.emit(
                    cm.Cancel(attempt=attempt.number, machine=attempt.machine, reason="the new plan")
                )
        elif elsewhere or line.start_s != attempt.order:
            state = "WAITING" if run.missing[task] else "READY"
            context.emit(cm.Settle(run=run.index, task=task, state=state, reason="the new plan", again=True))


def _migrate_violators(context: DecisionContext, run: RunState, plan: RunPlan) -> None:
    """Move what was too slow when the plan was asked for, and still is."""
    planned = set(plan.stored.moving)
    for task in find_violators(context.state, run):
        attempt = context.state.attempts[run.attempt_of[task]]
        line = plan.line.get(task)
        if run.name(task) not in planned or line is None or line.machine == attempt.machine:
            continue
        possible = run.is_mode(task, line.machine, line.count)
        if (
            possible
            and context.state.machines[line.machine].usable
            and _is_worthwhile(context, attempt, line)
        ):
            _migrate_violator(context, run, plan, attempt, line)


def _is_worthwhile(context: DecisionContext, attempt: Attempt, line: PlanLine) -> bool:
    """Say whether a slow task may leave: always, or where the plan ends it early enough."""
    if context.settings.migrate != "pays":
        return context.settings.migrate == "always"
    return relocation.is_worth_moving(context, attempt, "performance", line.finish_s - context.state.now)


def _migrate_violator(
    context: DecisionContext, run: RunState, plan: RunPlan, attempt: Attempt, line: PlanLine
) -> None:
    before = _list_tied_tasks(run, plan, attempt.task)
    if not before:
        migrate_attempt(context, attempt, line.machine, line.count, "performance")
        return
    # It cannot go on before they have: it gives its nodes back and waits for its turn.
    context.emit(cm.Cancel(attempt=attempt.number, machine=attempt.machine, reason="performance"))
    context.emit(cm.Note(kind="rebound", run=run.index, task=before[0], machine=line.machine))
    for task in before:
        state = "WAITING" if run.missing[task] else "READY"
        reason = f"its abstract machine moves with {run.name(attempt.task)}"
        context.emit(cm.Settle(run=run.index, task=task, state=state, reason=reason, again=True))


def _list_tied_tasks(run: RunState, plan: RunPlan, task: int) -> list[int]:
    """List the completed tasks that the plan runs again because one leaves their abstract machine."""
    if not plan.stored.again:
        return []
    known = run.compiled
    column = known.graph.source_variable if known.kind[task] == TRANSFER else known.graph.variable
    again = set(plan.stored.again)
    return [
        member
        for member in run.members(int(column[task]))
        if run.state[member] == TaskState.COMPLETED and run.name(member) in again
    ]
