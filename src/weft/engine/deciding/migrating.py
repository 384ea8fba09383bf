"""Migration: a task leaves its machine and goes on elsewhere, in the exact order of S3 section 4.

1. The attempt that runs is cancelled. 2. The new machine is prepared, restart files included. 3. What the old
attempt left is cleaned up, without bringing outputs anywhere. 4. The new attempt starts. The nodes on the new
machine are kept from the moment of the decision (S3 gap G6), so that nobody else takes them. A clean-up that
fails holds nothing up (G8); a machine that is down is not cleaned up.

A task that leaves and has nowhere to go, or whose new machine is lost on the way, waits without nodes: what
it left stays where it is (``run.left_behind``), and steps 2 to 4 follow when a machine is found for it.
"""

from __future__ import annotations

from weft.engine.deciding.staging import send_for_data
from weft.engine.desk import Desk
from weft.engine.messages import commands as cm
from weft.engine.restarts import spared
from weft.engine.state.attempt import Attempt, Stage
from weft.engine.state.run import Run
from weft.engine.state.states import TaskState

__all__ = [
    "clean_up_or_drop",
    "clear_up",
    "is_prepared",
    "migrate",
    "prepare_new",
    "rebind",
    "settle_cancelled",
    "target_lost",
]


def migrate(desk: Desk, attempt: Attempt, machine: int, count: int, reason: str) -> None:
    """Begin to move a task to another machine or node count."""
    state = desk.state
    run = state.runs[attempt.run]
    task = attempt.task
    nodes = run.known.options(task).nodes[machine, count]
    fits = state.machines.fits(machine, nodes, run.demand(task, machine, count))
    new = state.next_attempt
    begun = attempt.stage != Stage.ASSIGNED or attempt.staged_in
    if begun:
        desk.emit(cm.Cancel(attempt=attempt.number, machine=attempt.machine, reason=reason))
    desk.emit(
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
            restart_from=spared(state, run, task, count),
            reason=reason,
        )
    )
    rebind(desk, run, task, machine)
    if not begun:
        desk.emit(cm.Drop(attempt=attempt.number))
        send_for_data(desk, state.attempts[new], first=True)


def rebind(desk: Desk, run: Run, task: int, machine: int | None) -> None:
    """Send the members of a task's abstract machine that have not started where it goes; None: not known."""
    variable = run.known.variable[task]
    if not run.known.shared[variable]:
        return
    for member in run.members(variable):
        number = run.attempt_of.get(member)
        other = desk.state.attempts.get(number) if number is not None else None
        if other is None or other.cancelled or member == task or other.machine == machine:
            continue
        if other.stage == Stage.ASSIGNED and run.state[member] in (TaskState.SCHEDULED, TaskState.PROLOG):
            if other.staging:
                desk.emit(
                    cm.Cancel(
                        attempt=other.number, machine=other.machine, reason="its abstract machine moved"
                    )
                )
            else:
                state = "WAITING" if run.missing[member] else "READY"
                text = "its abstract machine moved"
                desk.emit(cm.Settle(run=run.index, task=member, state=state, reason=text, again=True))


def prepare_new(desk: Desk, old: Attempt) -> None:
    """Step 2: the old attempt is out of the way; prepare the machine of the new one."""
    new = desk.state.attempts.get(old.replaced_by) if old.replaced_by is not None else None
    if new is None:
        _part_from(desk, old)
    elif not is_prepared(desk, new):
        send_for_data(desk, new, first=True)
        if not new.staging:
            clean_up_or_drop(desk, new)


def is_prepared(desk: Desk, new: Attempt) -> bool:
    """Say whether an attempt's data were sent for, or it need not wait for another to be out of the way."""
    old = desk.state.attempts.get(new.replaces) if new.replaces is not None else None
    return old is None or old.stage == Stage.CLEANING or new.parts > 0


def clean_up_or_drop(desk: Desk, new: Attempt) -> None:
    """Step 3: the new machine is prepared; clean up after the old attempt, if there is anything and a way."""
    old = desk.state.attempts.get(new.replaces) if new.replaces is not None else None
    if old is not None and old.stage == Stage.ENDED:
        _part_from(desk, old)


def _part_from(desk: Desk, old: Attempt) -> None:
    left_something = old.started_s is not None or old.staged_in
    if left_something and desk.state.machines[old.machine].up:
        desk.emit(cm.CleanUp(attempt=old.number, machine=old.machine))
    else:
        desk.emit(cm.Drop(attempt=old.number))


def settle_cancelled(desk: Desk, run: Run, attempt: Attempt) -> None:
    """Settle a task whose attempt we have ended and which nobody takes over from yet."""
    task = attempt.task
    if run.stopping:
        desk.emit(cm.Settle(run=run.index, task=task, state="CANCELLED", reason=run.stopping))
    elif attempt.cancelled == "held":
        desk.emit(cm.Settle(run=run.index, task=task, state="HELD", reason="held by the user"))
    else:
        state = "WAITING" if run.missing[task] else "READY"
        keep = attempt.started_s is not None
        reason = attempt.cancelled
        desk.emit(cm.Settle(run=run.index, task=task, state=state, reason=reason, again=True, keep=keep))


def target_lost(desk: Desk, run: Run, new: Attempt, old: Attempt) -> None:
    """Give a migration up whose new machine is lost: the task waits for another, what it left is kept."""
    name = desk.state.machines[new.machine].name
    desk.emit(
        cm.Note(
            kind="target-lost",
            run=run.index,
            task=new.task,
            attempt=old.number,
            machine=new.machine,
            text=f"{name} was lost before the task got there",
        )
    )
    desk.emit(cm.Return(attempt=old.number))
    if old.stage == Stage.ENDED:
        settle_cancelled(desk, run, old)


def clear_up(desk: Desk, run: Run) -> None:
    """Clean up what tasks left behind that nobody will take over any more."""
    for number in list(run.left_behind.values()):
        _part_from(desk, desk.state.attempts[number])
