"""Failures: cause by cause, what is tried again, where, and what happens in the end (S3 section 5).

The ladder of unified C9: retry, then as the task says: hold it, try it elsewhere from the start, stop the
run, or go on with what does not depend on it. A machine on which a task has failed is its last resort, unless
it ran out of memory or time: then it gets more of either. A task that its machine or the remote side has
thrown out (lost, preempted) leaves files behind, and goes on from them as in a migration.
"""

from __future__ import annotations

from weft.engine.deciding.migrating import rebind
from weft.engine.desk import Desk
from weft.engine.messages.commands import Cancel, Note, Settle
from weft.engine.messages.events import Ended
from weft.engine.rerunning import rerun_bound_ancestors
from weft.engine.state.attempt import Attempt, Stage
from weft.engine.state.run import Run
from weft.engine.state.states import FINAL, TaskState

__all__ = ["asks_to_run_again", "cause_of", "fail", "give_up_attempt", "retries_of", "run_again", "stop_run"]

_AGAIN, _REQUEUE = 85, 99
"""Exit codes by which a task asks to be run again: from its checkpoint, or from wherever it can."""

_MOST_REQUEUES = 100
"""How often in a row a task may ask to be run again without having got any further."""

_THROWN_OUT = ("lost", "preempted")
"""Causes after which a task goes on elsewhere from what it left."""


def cause_of(run: Run, attempt: Attempt, event: Ended) -> str:
    """Judge how an attempt ended: a cause of failure, or "" if it ended well."""
    if event.cause:
        return event.cause
    if event.exit_code is None:
        # S3 section 5: without an exit code it ended before its time.
        return "error"
    good = event.exit_code == 0 or event.exit_code in run.known.outcomes(attempt.task)
    return "" if good else "error"


def asks_to_run_again(event: Ended) -> bool:
    """Say whether a task ended in order to be run again; with a story, that was its world's wish."""
    return not event.cause and event.exit_code in (_AGAIN, _REQUEUE)


def run_again(desk: Desk, run: Run, attempt: Attempt, event: Ended) -> None:
    """Let a task run again: one that asks for it, unless it gets no further, or that its world has ended."""
    task = attempt.task
    reason = f"exit code {event.exit_code}: asks to be run again"
    further = attempt.checkpoint > attempt.restart_from
    times = 0 if further else run.requeued.get(task, 0) + 1
    if event.story:
        # It asked for nothing: however often the engine is stopped, that says nothing against the task.
        reason, times = f"{event.story}: it will run again", run.requeued.get(task, 0)
    if times > _MOST_REQUEUES:
        fail(desk, run, task, "error", f"{reason}, for the {times}th time without getting any further")
        return
    if times != run.requeued.get(task, 0):
        desk.emit(Note(kind="requeued", run=run.index, task=task, attempt=attempt.number, value=float(times)))
    state = "WAITING" if run.missing[task] else "READY"
    desk.emit(Settle(run=run.index, task=task, state=state, reason=reason, again=True))


def fail(desk: Desk, run: Run, task: int, cause: str, reason: str, *, lasting: bool = False) -> None:
    """Decide what becomes of a task that has failed: it is tried again, or the ladder goes on.

    ``lasting``: it would fail in the same way again, so that no retry is spent on it.
    """
    allowed = retries_of(desk, run, task, cause)
    before = run.failures.get(task, {}).get(cause, 0)
    if run.stopping:
        _for_good(desk, run, task, cause, reason)
        return
    growth = _growth(desk, run, task, cause)
    if lasting:
        _give_up(desk, run, task, cause, f"{reason}; not tried again, since it would not change")
    elif before >= allowed:
        _give_up(desk, run, task, cause, f"{reason}; no retry left ({allowed} for {cause})")
    elif growth is not None and growth <= run.grown.get(task, {}).get(cause, 1.0):
        _give_up(desk, run, task, cause, f"{reason}; no machine has more memory for it")
    else:
        _try_again(desk, run, task, cause, f"{reason}; retry {before + 1} of {allowed}", growth)


def retries_of(desk: Desk, run: Run, task: int, cause: str) -> int:
    """Give how often a failure of a cause is forgiven."""
    recovery = run.known.description(task).recovery
    if cause in recovery.retries_by_cause:
        return recovery.retries_by_cause[cause]
    return desk.settings.retries_of(cause) if recovery.retries is None else recovery.retries


def _growth(desk: Desk, run: Run, task: int, cause: str) -> float | None:
    """Give what memory or time limit is to be multiplied with after running out of it; None: nothing is."""
    wanted = run.grown.get(task, {}).get(cause, 1.0) * desk.settings.growth
    if cause == "timeout":
        return wanted
    if cause != "oom" or not run.known.demands:
        return None
    options = run.known.options(task)
    largest = 0.0
    bound = run.binding.get(run.known.variable[task])
    # Machines that are alike have the same memory: one of each class is enough.
    alike = [each.members[0] for each in desk.state.machines.classes(options)] if bound is None else [bound]
    for machine in alike:
        for count in options.counts.get(machine, ()):
            asked = dict(run.known.demand(task, machine, count)).get("memory")
            if asked is None:
                return None
            total = run.instance.machines[machine].memory
            largest = max(largest, wanted if total is None else min(wanted, total / asked))
    return largest


def _try_again(desk: Desk, run: Run, task: int, cause: str, reason: str, growth: float | None = None) -> None:
    """Put a task back, and those of its abstract machine that have not started: they go where it goes."""
    state = "WAITING" if run.missing[task] else "READY"
    attempt = desk.state.attempts.get(run.attempt_of.get(task, -1))
    keep = cause in _THROWN_OUT and attempt is not None and attempt.started_s is not None
    desk.emit(
        Settle(run=run.index, task=task, state=state, cause=cause, reason=reason, keep=keep, growth=growth)
    )
    rebind(desk, run, task, None)
    rerun_bound_ancestors(desk, run, task)


def _give_up(desk: Desk, run: Run, task: int, cause: str, reason: str) -> None:
    wish = run.known.description(task).recovery.on_failure or desk.settings.on_failure
    if wish == "hold":
        desk.emit(Settle(run=run.index, task=task, state="STOPPED", cause=cause, reason=reason))
    elif wish == "reschedule" and _somewhere_else(desk, run, task, cause):
        _try_again(desk, run, task, cause, f"{reason}; tried on another machine")
    elif wish == "continue":
        _for_good(desk, run, task, cause, reason)
    else:
        _for_good(desk, run, task, cause, reason)
        stop_run(desk, run, f"{run.name(task)} failed: {reason}")


def _somewhere_else(desk: Desk, run: Run, task: int, cause: str) -> bool:
    """Say whether some machine is up on which the task has not failed yet."""
    if run.known.group[task] < 0:
        return False
    beyond = run.failures.get(task, {}).get(cause, 0) - retries_of(desk, run, task, cause)
    if beyond >= len(run.known.options(task).machines):
        # Causes that say nothing against a machine leave it open where it failed; once per machine is enough.
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
