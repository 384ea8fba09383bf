"""Reopening: a task that had a machine, or had even completed, goes back to where it waits.

Its abstract machine may be bound anew once nothing keeps it where it is; its successors wait for it again.
"""

from __future__ import annotations

from weft.engine.state.run import Run
from weft.engine.state.state import State
from weft.engine.state.states import TaskState

__all__ = ["reopen"]


def reopen(state: State, run: Run, task: int, *, failed: bool) -> None:
    """Put a task back; one that ``failed`` takes its abstract machine along, whoever else is there."""
    variable = run.known.variable[task]
    if run.known.shared[variable] and (failed or not _held(state, run, variable, besides=task)):
        run.unbind(variable)
    if run.state[task] == TaskState.COMPLETED:
        _wait_again(run, task)
    run.make_ready_or_waiting(task)
    if run.planned and run.state[task] == TaskState.WAITING and _partly_ready(run, task):
        run.early.add(task)


def _held(state: State, run: Run, variable: int, *, besides: int) -> bool:
    """Say whether some other task keeps an abstract machine where it is: it is on its machine, or was."""
    for member in run.members(variable):
        attempt = state.attempts.get(run.attempt_of.get(member, -1))
        here = attempt is not None and not attempt.cancelled
        if member != besides and (here or run.state[member] == TaskState.COMPLETED):
            return True
    return False


def _wait_again(run: Run, task: int) -> None:
    """Let the successors of a completed task wait for it once more."""
    run.reopened.add(task)
    inside = task in run.loops.around
    for successor in run.known.after(task):
        if inside and run.loops.waits_for_end(task, successor):
            continue
        run.missing[successor] += 1
        if run.state[successor] == TaskState.READY:
            run.move(successor, TaskState.WAITING)


def _partly_ready(run: Run, task: int) -> bool:
    """Say whether data of some predecessor could already move."""
    return any(run.state[before] == TaskState.COMPLETED for before in run.known.before(task))
