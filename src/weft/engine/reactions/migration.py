"""Migration: a task leaves its machine and goes on elsewhere, in the exact order of S3 section 4.

1. The attempt that runs is cancelled. 2. The new machine is prepared, restart files included. 3. What the old
attempt left is cleaned up, without bringing outputs anywhere. 4. The new attempt starts. The nodes on the new
machine are kept from the moment of the decision (S3 gap G6), so that nobody else takes them. A clean-up that
fails holds nothing up (G8); a machine that is down is not cleaned up.

A task that leaves and has nowhere to go, or whose new machine is lost on the way, waits without nodes: what
it left stays where it is (``run.left_behind``), and steps 2 to 4 follow when a machine is found for it.
"""

from __future__ import annotations

from weft.engine import messages as cm
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
    """Begin to move a task to another machine or node count."""
    state = context.state
    run = state.runs[attempt.run]
    task = attempt.task
    nodes = run.compiled.options(task).nodes[machine, count]
    fits = state.machines.fits(machine, nodes, run.demand(task, machine, count))
    new = state.next_attempt
    begun = attempt.stage != Stage.ASSIGNED or attempt.staged_in
    if begun:
        context.emit(cm.Cancel(attempt=attempt.number, machine=attempt.machine, reason=reason))
    context.emit(
        cm.Assign(
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
        context.emit(cm.Drop(attempt=attempt.number))
        request_data(context, state.attempts[new], first=True)


def rebind_members(context: DecisionContext, run: RunState, task: int, machine: int | None) -> None:
    """Send the members of a task's abstract machine that have not started where it goes; None: not known."""
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
                context.emit(
                    cm.Cancel(
                        attempt=other.number, machine=other.machine, reason="its abstract machine moved"
                    )
                )
            else:
                state = "WAITING" if run.missing[member] else "READY"
                text = "its abstract machine moved"
                context.emit(cm.Settle(run=run.index, task=member, state=state, reason=text, again=True))


def prepare_successor(context: DecisionContext, old: Attempt) -> None:
    """Step 2: the old attempt is out of the way; prepare the machine of the new one."""
    new = context.state.attempts.get(old.replaced_by) if old.replaced_by is not None else None
    if new is None:
        _discard_attempt(context, old)
    elif not is_prepared(context, new):
        request_data(context, new, first=True)
        if not new.staging:
            clean_up_or_drop(context, new)


def is_prepared(context: DecisionContext, new: Attempt) -> bool:
    """Say whether an attempt's data were sent for, or it need not wait for another to be out of the way."""
    old = context.state.attempts.get(new.replaces) if new.replaces is not None else None
    return old is None or old.stage == Stage.CLEANING or new.parts > 0


def clean_up_or_drop(context: DecisionContext, new: Attempt) -> None:
    """Step 3: the new machine is prepared; clean up after the old attempt, if there is anything and a way."""
    old = context.state.attempts.get(new.replaces) if new.replaces is not None else None
    if old is not None and old.stage == Stage.ENDED:
        _discard_attempt(context, old)


def _discard_attempt(context: DecisionContext, old: Attempt) -> None:
    left_something = old.started_s is not None or old.staged_in
    if left_something and context.state.machines[old.machine].up:
        context.emit(cm.CleanUp(attempt=old.number, machine=old.machine))
    else:
        context.emit(cm.Drop(attempt=old.number))


def settle_cancelled(context: DecisionContext, run: RunState, attempt: Attempt) -> None:
    """Settle a task whose attempt we have ended and which nobody takes over from yet."""
    task = attempt.task
    if run.stopping:
        context.emit(cm.Settle(run=run.index, task=task, state="CANCELLED", reason=run.stopping))
    elif attempt.cancelled == "held":
        context.emit(cm.Settle(run=run.index, task=task, state="HELD", reason="held by the user"))
    else:
        state = "WAITING" if run.missing[task] else "READY"
        keep = attempt.started_s is not None
        reason = attempt.cancelled
        context.emit(cm.Settle(run=run.index, task=task, state=state, reason=reason, again=True, keep=keep))


def cancel_migration(context: DecisionContext, run: RunState, new: Attempt, old: Attempt) -> None:
    """Give a migration up whose new machine is lost: the task waits for another, what it left is kept."""
    name = context.state.machines[new.machine].name
    context.emit(
        cm.Note(
            kind="target-lost",
            run=run.index,
            task=new.task,
            attempt=old.number,
            machine=new.machine,
            text=f"{name} was lost before the task got there",
        )
    )
    context.emit(cm.Return(attempt=old.number))
    if old.stage == Stage.ENDED:
        settle_cancelled(context, run, old)


def clean_up_leftovers(context: DecisionContext, run: RunState) -> None:
    """Clean up what tasks left behind that nobody will take over any more."""
    for number in list(run.left_behind.values()):
        _discard_attempt(context, context.state.attempts[number])
