"""Migration of a task to another machine, in the order of docs/papers/adaptive-jobs.md, section 4.

1. The running attempt is cancelled. 2. The new machine is prepared, restart files included. 3. The files of
the old attempt are removed; no outputs are copied. 4. The new attempt starts. The nodes of the new machine
are reserved when the migration is decided (gap G6). A failed clean-up delays nothing (G8); a machine that is
down is not cleaned up.

A task without a new machine, or whose new machine is lost during the migration, waits without nodes. Its
files stay where they are (``left_behind``), and steps 2 to 4 follow when it is placed again.
"""

from __future__ import annotations

from weft.engine import messages
from weft.engine.context import DecisionContext
from weft.engine.reactions.staging import request_data
from weft.engine.selection import spared_share
from weft.engine.state.run import RunState
from weft.engine.states import Attempt, Stage, TaskState

__all__ = [
    "cancel_migration",
    "clean_up_leftovers",
    "clean_up_or_drop",
    "is_prepared",
    "migrate_attempt",
    "prepare_successor",
    "rebind_members",
    "settle_cancelled",
]


def migrate_attempt(
    context: DecisionContext, attempt: Attempt, machine: int, count: int, reason: str
) -> None:
    """Start the migration of a task to another machine or node count."""
    state = context.state
    run = state.runs[attempt.run]
    task = attempt.task
    nodes = run.compiled.options(task).nodes[machine, count]
    fits = state.machines.fits(machine, nodes, run.demand(task, machine, count))
    new = state.next_attempt
    begun = attempt.stage != Stage.ASSIGNED or attempt.staged_in
    if begun:
        context.cancel(attempt, reason)
    context.emit(
        messages.Assign(
            attempt=new,
            run=run.index,
            task=task,
            machine=machine,
            nodes=nodes,
            count=count,
            reserve=machine != attempt.machine and fits,
            order=attempt.order,
            replaces=attempt.number,
            restart_from=spared_share(state, run, task, count),
            reason=reason,
        )
    )
    rebind_members(context, run, task, machine)
    if not begun:
        context.emit(messages.CloseAttempt(attempt=attempt.number))
        request_data(context, state.attempts[new], first=True)


def rebind_members(context: DecisionContext, run: RunState, task: int, machine: int | None) -> None:
    """Make members of a task's abstract machine ready again that have not started on ``machine``; None: not
    chosen yet.
    """
    variable = run.compiled.variable[task]
    if not run.compiled.shared[variable]:
        return
    for member in run.members(variable):
        number = run.attempt_of.get(member)
        other = context.state.attempts.get(number) if number is not None else None
        if other is None or other.cancelled or member == task or other.machine == machine:
            continue
        if other.stage == Stage.ASSIGNED and run.state[member] in (TaskState.SCHEDULED, TaskState.PROLOG):
            if other.staging:
                context.cancel(other, "its abstract machine moved")
            else:
                text = "its abstract machine moved"
                context.reopen(run, member, text)


def prepare_successor(context: DecisionContext, old: Attempt) -> None:
    """Step 2: request the data of the new attempt after the old one has ended."""
    new = context.state.attempts.get(old.replaced_by) if old.replaced_by is not None else None
    if new is None:
        _discard_attempt(context, old)
    elif not is_prepared(context, new):
        request_data(context, new, first=True)
        if not new.staging:
            clean_up_or_drop(context, new)


def is_prepared(context: DecisionContext, new: Attempt) -> bool:
    """Return whether an attempt's data were requested, or no older attempt is in the way."""
    old = context.state.attempts.get(new.replaces) if new.replaces is not None else None
    return old is None or old.stage == Stage.CLEANING or new.parts > 0


def clean_up_or_drop(context: DecisionContext, new: Attempt) -> None:
    """Step 3: clean up the old attempt after the new machine is prepared."""
    old = context.state.attempts.get(new.replaces) if new.replaces is not None else None
    if old is not None and old.stage == Stage.ENDED:
        _discard_attempt(context, old)


def _discard_attempt(context: DecisionContext, old: Attempt) -> None:
    left_something = old.started_s is not None or old.staged_in
    if left_something and context.state.machines[old.machine].up:
        context.emit(messages.CleanUp(attempt=old.number, machine=old.machine))
    else:
        context.emit(messages.CloseAttempt(attempt=old.number))


def settle_cancelled(context: DecisionContext, run: RunState, attempt: Attempt) -> None:
    """Settle a task whose attempt was cancelled and has no successor yet."""
    task = attempt.task
    if run.stopping:
        context.settle(run, task, TaskState.CANCELLED, reason=run.stopping)
    elif attempt.cancelled == "held":
        context.settle(run, task, TaskState.HELD, reason="held by the user")
    else:
        keep = attempt.started_s is not None
        reason = attempt.cancelled
        context.reopen(run, task, reason, keep=keep)


def cancel_migration(context: DecisionContext, run: RunState, new: Attempt, old: Attempt) -> None:
    """Call off a migration whose new machine is lost; the task waits for another, its files are kept."""
    name = context.state.machines[new.machine].name
    context.emit(
        messages.ReportTargetLoss(
            run=run.index,
            task=new.task,
            attempt=old.number,
            machine=new.machine,
            reason=f"{name} was lost before the task got there",
        )
    )
    context.emit(messages.RevertMigration(attempt=old.number))
    if old.stage == Stage.ENDED:
        settle_cancelled(context, run, old)


def clean_up_leftovers(context: DecisionContext, run: RunState) -> None:
    """Clean up files that no attempt will use any more."""
    for number in list(run.left_behind.values()):
        _discard_attempt(context, context.state.attempts[number])
