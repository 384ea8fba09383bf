"""Migration: a task leaves its machine and goes on elsewhere, in the exact order of S3 section 4.

1. The attempt that runs is cancelled. 2. The new machine is prepared, restart files included. 3. What the old
attempt left is cleaned up, without bringing outputs anywhere. 4. The new attempt starts. The nodes on the new
machine are kept from the moment of the decision (S3 gap G6), so that nobody else takes them.
"""

from __future__ import annotations

from weft.engine.deciding.restarting import spared
from weft.engine.deciding.staging import send_for_data
from weft.engine.desk import Desk
from weft.engine.messages import commands as cm
from weft.engine.state.attempt import Attempt, Stage
from weft.engine.state.run import Run
from weft.engine.state.states import TaskState

__all__ = ["clean_up_or_drop", "migrate", "prepare_new"]


def migrate(desk: Desk, attempt: Attempt, machine: int, count: int, reason: str) -> None:
    """Begin to move a task to another machine or node count."""
    state = desk.state
    run = state.runs[attempt.run]
    task = attempt.task
    nodes = run.known.options(task).nodes[machine, count]
    demand = run.known.demand(task, machine, count) if run.known.demands else ()
    reserve = machine != attempt.machine and state.machines.fits(machine, nodes, demand)
    running = attempt.stage != Stage.ASSIGNED or attempt.staging > 0
    new = state.next_attempt
    if running and not attempt.cancelled:
        desk.emit(cm.Cancel(attempt=attempt.number, machine=attempt.machine, reason=reason))
    desk.emit(
        cm.Assign(
            attempt=new,
            run=run.index,
            task=task,
            machine=machine,
            nodes=nodes,
            count=count,
            reserve=reserve,
            order=attempt.order,
            replaces=attempt.number,
            restart_from=spared(desk, run, task, count),
            reason=reason,
        )
    )
    _rebind(desk, run, attempt, machine)
    if not running:
        prepare_new(desk, attempt)


def _rebind(desk: Desk, run: Run, attempt: Attempt, machine: int) -> None:
    """Send the members of the abstract machine that have not started where this one goes."""
    variable = run.known.variable[attempt.task]
    if not run.known.shared[variable]:
        return
    for member in run.members(variable):
        number = run.attempt_of.get(member)
        other = desk.state.attempts.get(number) if number is not None else None
        if other is None or member == attempt.task or other.machine == machine:
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
        desk.emit(cm.Drop(attempt=old.number))
        return
    send_for_data(desk, new, first=True)
    if not new.staging:
        clean_up_or_drop(desk, new)


def clean_up_or_drop(desk: Desk, new: Attempt) -> None:
    """Step 3: the new machine is prepared; clean up after the old attempt, if there is anything and a way."""
    old = desk.state.attempts.get(new.replaces) if new.replaces is not None else None
    if old is None or old.stage == Stage.CLEANING:
        return
    left_something = old.started_s is not None or old.staged_in
    if left_something and desk.state.machines[old.machine].up:
        desk.emit(cm.CleanUp(attempt=old.number, machine=old.machine))
    else:
        desk.emit(cm.Drop(attempt=old.number))
