"""Failures: cause by cause, what is tried again, where, and what happens when nothing more is tried (S3
section 5).

The ladder of unified C9: retry, then as the task says: hold it, try it elsewhere from the start, stop the
run, or go on with what does not depend on it.
"""

from __future__ import annotations

from weft.engine.desk import Desk
from weft.engine.messages.commands import Cancel, Note, Settle
from weft.engine.messages.events import Ended
from weft.engine.state.attempt import Attempt, Stage
from weft.engine.state.run import Run
from weft.engine.state.states import FINAL, TaskState

__all__ = ["cause_of", "fail", "stop_run"]

_AGAIN, _REQUEUE = 85, 99
"""Exit codes by which a task asks to be run again: from its checkpoint, or from wherever it can."""


def cause_of(run: Run, attempt: Attempt, event: Ended) -> str:
    """Judge how an attempt ended: a cause of failure, or "" if it ended well."""
    if event.cause:
        return event.cause
    if event.exit_code is None:
        # S3 section 5: without an exit code it ended before its time.
        return "error"
    return "" if event.exit_code in run.known.outcomes(attempt.task) else "error"


def asks_to_run_again(event: Ended) -> bool:
    """Say whether a task ended in order to be run again."""
    return not event.cause and event.exit_code in (_AGAIN, _REQUEUE)


def fail(desk: Desk, run: Run, task: int, cause: str, reason: str) -> None:
    """Decide what becomes of a task that has failed: it is tried again, or the ladder goes on."""
    allowed = _retries(desk, run, task, cause)
    before = run.failures.get(task, {}).get(cause, 0)
    if run.stopping:
        _for_good(desk, run, task, cause, reason)
    elif before < allowed:
        desk.emit(_again(run, task, cause, f"{reason}; retry {before + 1} of {allowed}"))
    else:
        _give_up(desk, run, task, cause, f"{reason}; no retry left ({allowed} for {cause})")


def _retries(desk: Desk, run: Run, task: int, cause: str) -> int:
    recovery = run.known.graph.description(task).recovery
    if cause in recovery.retries_by_cause:
        return recovery.retries_by_cause[cause]
    return desk.settings.retries_of(cause) if recovery.retries is None else recovery.retries


def _again(run: Run, task: int, cause: str, reason: str) -> Settle:
    state = "WAITING" if run.missing[task] else "READY"
    return Settle(run=run.index, task=task, state=state, cause=cause, reason=reason)


def _give_up(desk: Desk, run: Run, task: int, cause: str, reason: str) -> None:
    wish = run.known.graph.description(task).recovery.on_failure or desk.settings.on_failure
    if wish == "hold":
        desk.emit(Settle(run=run.index, task=task, state="STOPPED", cause=cause, reason=reason))
    elif wish == "reschedule" and _somewhere_else(desk, run, task):
        desk.emit(_again(run, task, cause, f"{reason}; tried on another machine"))
    elif wish == "continue":
        _for_good(desk, run, task, cause, reason)
    else:
        _for_good(desk, run, task, cause, reason)
        stop_run(desk, run, f"{run.name(task)} failed: {reason}")


def _somewhere_else(desk: Desk, run: Run, task: int) -> bool:
    """Say whether some machine is up on which the task has not failed yet."""
    if run.known.group[task] < 0:
        return False
    failed = set(run.avoid.get(task, ()))
    number = run.attempt_of.get(task)
    if number is not None and number in desk.state.attempts:
        failed.add(desk.state.attempts[number].machine)
    machines = run.known.options(task).machines
    return any(machine not in failed and desk.state.machines[machine].up for machine in machines)


def _for_good(desk: Desk, run: Run, task: int, cause: str, reason: str) -> None:
    """Let a task fail for good, and give up what depends on it."""
    desk.emit(Settle(run=run.index, task=task, state="FAILED", cause=cause, reason=reason))
    stack = [task]
    while stack:
        for successor in run.known.after(stack.pop()):
            if run.state[successor] in (TaskState.WAITING, TaskState.READY, TaskState.HELD):
                text = f"it needs {run.name(task)}, which failed"
                desk.emit(Settle(run=run.index, task=successor, state="CANCELLED", reason=text))
                stack.append(successor)
            elif run.state[successor] not in FINAL:
                give_up_attempt(desk, run, successor)
                stack.append(successor)


def stop_run(desk: Desk, run: Run, reason: str) -> None:
    """Start nothing more of a run; what runs is ended."""
    if run.stopping:
        return
    desk.emit(Note(kind="stopping", run=run.index, text=reason))
    for task in range(len(run)):
        state = run.state[task]
        if state in (TaskState.WAITING, TaskState.READY, TaskState.HELD):
            desk.emit(Settle(run=run.index, task=task, state="CANCELLED", reason=reason))
        elif state not in FINAL:
            give_up_attempt(desk, run, task)


def give_up_attempt(desk: Desk, run: Run, task: int) -> None:
    """End the live attempt of a task whose run goes no further."""
    number = run.attempt_of.get(task)
    attempt = desk.state.attempts.get(number) if number is not None else None
    if attempt is None:
        return
    if attempt.stage == Stage.ASSIGNED and not attempt.staging:
        desk.emit(Settle(run=run.index, task=task, state="CANCELLED", reason="its run was stopped"))
    elif not attempt.cancelled:
        desk.emit(Cancel(attempt=attempt.number, machine=attempt.machine, reason="stopped"))
