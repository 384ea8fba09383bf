"""Adopting a plan: what has started is kept, what waits goes where it says, what is too slow is moved there.

R. Prodan, T. Fahringer, SAC 2005 (spec s1 sections 8 and 10). A properly running task is never moved (I5). A
task that breaks its contract, and is planned on another machine, migrates there; a plan that keeps it where
it is leaves it alone. With ``bound_ancestors: always`` completed tasks that are tied to the abstract machine
it leaves run again on the new one, and it waits for them; this stands in the journal as a Settle of a
completed task.

Deviations: S1 cancels a violating task before it plans; here it runs on until there is a plan. What broke its
contract after the plan was asked for waits for the next one (stale-plan reconciliation).
"""

from __future__ import annotations

from weft.engine.deciding import leaving, replanning
from weft.engine.deciding.failing import stop_run
from weft.engine.deciding.migrating import migrate
from weft.engine.desk import Desk
from weft.engine.messages import commands as cm
from weft.engine.messages import events as ev
from weft.engine.remaining.standings import violators
from weft.engine.state.attempt import Attempt, Stage
from weft.engine.state.plans import Line, RunPlan
from weft.engine.state.run import Run
from weft.engine.state.states import TaskState
from weft.workflow.unfolding.task_graph import TRANSFER

__all__ = ["adopted"]


def adopted(desk: Desk, event: ev.PlanReady) -> None:
    """Take up a plan that has come, or go on without it."""
    run = desk.state.runs[event.run]
    if run.index not in desk.state.active:
        return
    if not event.plan or run.plan is None:
        problem = event.problem or "no plan"
        desk.emit(cm.Note(kind="refused", run=run.index, text=problem))
        if run.plan is None:
            stop_run(desk, run, f"there is no plan to follow: {problem}")
    else:
        desk.emit(cm.Note(kind="adopted", run=run.index, value=run.plan.stored.finish_s, text=event.plan))
        _move_slow_ones(desk, run, run.plan)
        _place_anew(desk, run, run.plan)
    replanning.go_on(desk, run)


def _place_anew(desk: Desk, run: Run, plan: RunPlan) -> None:
    """Take back the tasks that wait at a machine and are planned elsewhere, or at another time."""
    for task, number in sorted(run.attempt_of.items()):
        attempt = desk.state.attempts[number]
        line = plan.line.get(task)
        waits = attempt.stage == Stage.ASSIGNED and attempt.queued
        moving = attempt.replaced_by is not None or attempt.replaces in desk.state.attempts
        if line is None or not waits or attempt.cancelled or moving:
            continue
        elsewhere = (line.machine, line.count) != (attempt.machine, attempt.count)
        if attempt.staging:
            # Its data are on the way: only another place is worth losing them.
            if elsewhere and desk.state.machines[line.machine].usable:
                desk.emit(cm.Cancel(attempt=attempt.number, machine=attempt.machine, reason="the new plan"))
        elif elsewhere or line.start_s != attempt.order:
            state = "WAITING" if run.missing[task] else "READY"
            desk.emit(cm.Settle(run=run.index, task=task, state=state, reason="the new plan", again=True))


def _move_slow_ones(desk: Desk, run: Run, plan: RunPlan) -> None:
    """Move what was too slow when the plan was asked for, and still is."""
    planned = set(plan.stored.moving)
    for task in violators(desk.state, run):
        attempt = desk.state.attempts[run.attempt_of[task]]
        line = plan.line.get(task)
        if run.name(task) not in planned or line is None or line.machine == attempt.machine:
            continue
        possible = run.is_mode(task, line.machine, line.count)
        if possible and desk.state.machines[line.machine].usable and _worth_it(desk, attempt, line):
            _move(desk, run, plan, attempt, line)


def _worth_it(desk: Desk, attempt: Attempt, line: Line) -> bool:
    """Say whether a slow task may leave: always, or where the plan ends it early enough."""
    if desk.settings.migrate != "pays":
        return desk.settings.migrate == "always"
    return leaving.pays(desk, attempt, "performance", line.finish_s - desk.state.now)


def _move(desk: Desk, run: Run, plan: RunPlan, attempt: Attempt, line: Line) -> None:
    before = _tied(run, plan, attempt.task)
    if not before:
        migrate(desk, attempt, line.machine, line.count, "performance")
        return
    # It cannot go on before they have: it gives its nodes back and waits for its turn.
    desk.emit(cm.Cancel(attempt=attempt.number, machine=attempt.machine, reason="performance"))
    desk.emit(cm.Note(kind="rebound", run=run.index, task=before[0], machine=line.machine))
    for task in before:
        state = "WAITING" if run.missing[task] else "READY"
        reason = f"its abstract machine moves with {run.name(attempt.task)}"
        desk.emit(cm.Settle(run=run.index, task=task, state=state, reason=reason, again=True))


def _tied(run: Run, plan: RunPlan, task: int) -> list[int]:
    """List the completed tasks that the plan runs again because one leaves their abstract machine."""
    if not plan.stored.again:
        return []
    known = run.known
    column = known.graph.source_variable if known.kind[task] == TRANSFER else known.graph.variable
    again = set(plan.stored.again)
    return [
        member
        for member in run.members(int(column[task]))
        if run.state[member] == TaskState.COMPLETED and run.name(member) in again
    ]
