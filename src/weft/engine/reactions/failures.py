"""Failures: retries by cause, and the reaction when no retry is left.

See docs/papers/adaptive-jobs.md, section 5, and docs/papers/unified.md, C9. If no retry is left, the setting
``on_failure`` of the task or run decides: the task is held, started on another machine, fails alone, or stops
the run. A task uses a machine on which it failed only if there is no other; after it ran out of memory or
time, its limit grows instead. A task that lost its machine or was preempted continues from its files, as in a
migration, on another machine that is free; if none is, on the same machine. A machine that was down and is
back is used like any other.

Completed tasks run again if their outputs are lost: outputs stay on the machine that produced them. If that
machine does not answer when the outputs are needed, the producer runs again, recursively
(docs/papers/dynamic-grid.md, gap G13). With ``bound_ancestors: always`` (preset ``s1``) the completed
ancestors of a failed task on its abstract machine run again too (section 10).
"""

from __future__ import annotations

from collections.abc import Container

from weft.engine.context import DecisionContext
from weft.engine.messages import STOPPED, CountRequeue, Ended, StopRun
from weft.engine.reactions.migration import rebind_members
from weft.engine.state.run import RunState
from weft.engine.states import FINAL, Attempt, Cause, Stage, TaskState, TimerKind


def rerun_lost(context: DecisionContext, attempt: Attempt, machines: Container[int]) -> bool:
    """Rerun the completed predecessors of an attempt's task whose outputs were on the lost ``machines``.

    The attempt is cancelled if it has not ended, and its task waits for these predecessors. Return whether
    there are such predecessors.
    """
    run = context.state.runs[attempt.run]
    lost = [
        before
        for before in run.compiled.before(attempt.task)
        if run.state[before] == TaskState.COMPLETED and run.where[before] in machines
    ]
    if not lost:
        return False
    if attempt.live:
        context.cancel(attempt, "its inputs are lost")
    context.reopen(run, attempt.task, "its inputs are lost")
    for task in lost:
        name = context.state.machines[run.where[task]].name
        context.reopen(run, task, f"its outputs were on {name}, which is lost")
    return True


def _rerun_bound_ancestors(context: DecisionContext, run: RunState, task: int) -> None:
    """Rerun the completed ancestors of a failed task on its abstract machine, if the settings require it."""
    if run.settings.bound_ancestors == "always":
        for before in _list_bound_ancestors(run, task):
            context.reopen(run, before, f"its abstract machine moves with {run.name(task)}, which failed")


def _list_bound_ancestors(run: RunState, task: int) -> list[int]:
    """Return the completed ancestors of a task on the same abstract machine, ascending."""
    compiled = run.compiled
    variable = compiled.variable[task]
    if not compiled.shared[variable]:
        return []
    members = {member for member in run.members(variable) if run.state[member] == TaskState.COMPLETED}
    found: set[int] = set()
    seen = {task}
    stack = [task]
    while stack and members - found:
        for before in compiled.before(stack.pop()):
            if before not in seen:
                seen.add(before)
                stack.append(before)
                if before in members:
                    found.add(before)
    return sorted(found)


_FROM_RESTART_FILES, _FROM_THE_START = 85, 99
_RERUN_CODES = (_FROM_RESTART_FILES, _FROM_THE_START)
"""Exit codes with which a task requests to be run again."""

_MAX_REQUEUES = 100
"""Maximal number of requested reruns in a row without progress."""

_RESUMABLE = (Cause.LOST, Cause.PREEMPTED)
"""Causes of failure after which the next attempt continues from the files of the failed one."""


def find_cause(run: RunState, attempt: Attempt, event: Ended) -> Cause:
    """Return the cause of failure of an ended attempt; NONE: it succeeded."""
    if event.cause or event.exit_code == 0:
        return event.cause
    if event.exit_code is None:
        # adaptive-jobs.md, section 5: without an exit code the program ended prematurely.
        return Cause.ERROR
    return Cause.NONE if event.exit_code in run.compiled.outcomes(attempt.task) else Cause.ERROR


def requests_rerun(event: Ended) -> bool:
    """Return whether a task exited with a code that requests a rerun.

    If ``event.story`` is set, the request came from the backend, which interrupted the task.
    """
    return not event.cause and event.exit_code in _RERUN_CODES


def rerun_task(context: DecisionContext, run: RunState, attempt: Attempt, event: Ended) -> None:
    """Rerun a task that requested it; let the task fail after too many reruns without progress."""
    task = attempt.task
    fresh = event.exit_code == _FROM_THE_START and not event.story
    where = "the start" if fresh else "its restart files"
    reason = f"exit code {event.exit_code}: it asks to be run again from {where}"
    further = not fresh and attempt.checkpoint > attempt.restart_from
    requeues = run.facts_of(task).requeues
    times = 0 if further else requeues + 1
    if event.story:
        # Interruptions by the backend do not count against the task.
        reason, times = f"{event.story}: it will run again", requeues
    if times > _MAX_REQUEUES:
        fail_task(
            context, run, task, Cause.ERROR, f"{reason}, for the {times}th time without getting any further"
        )
        return
    if times != requeues:
        context.emit(CountRequeue(run=run.index, task=task, attempt=attempt.number, times=times))
    context.reopen(run, task, reason, fresh=fresh)


def fail_task(
    context: DecisionContext,
    run: RunState,
    task: int,
    cause: Cause,
    reason: str,
    *,
    lasting: bool = False,
    tries: int | None = None,
) -> None:
    """Retry a failed task, or apply its ``on_failure`` rule if no retry is left.

    ``lasting``: a retry would fail in the same way, so the task is not retried. If ``tries`` is given, that
    many retries were made without running the program again, and no retry is left.
    """
    allowed = context.max_retries(run, task, cause)
    before = run.facts_of(task).failures.get(cause, 0)
    if run.stopping:
        _fail_permanently(context, run, task, cause, reason)
        return
    growth = _grow_limit(context, run, task, cause)
    if cause == Cause.EPILOG:
        # The program has succeeded; the backend has already repeated the epilog as often as allowed.
        _give_up(context, run, task, cause, reason)
    elif lasting:
        _give_up(context, run, task, cause, f"{reason}; not tried again, since it would not change")
    elif before >= allowed or tries is not None:
        _give_up(context, run, task, cause, f"{reason}; no retry left ({allowed} for {cause})")
    elif growth is not None and growth <= run.facts_of(task).growth.get(cause, 1.0):
        _give_up(context, run, task, cause, f"{reason}; no machine has more memory for it")
    else:
        _retry_task(context, run, task, cause, f"{reason}; retry {before + 1} of {allowed}", growth)


def _grow_limit(context: DecisionContext, run: RunState, task: int, cause: Cause) -> float | None:
    """Return the new factor for the exceeded memory or time limit; None: no such limit was exceeded."""
    wanted = run.facts_of(task).growth.get(cause, 1.0) * run.settings_of(task).growth
    if cause == Cause.TIMEOUT:
        return wanted
    if cause != Cause.OUT_OF_MEMORY or not run.compiled.demands:
        return None
    options = run.compiled.options(task)
    largest = 0.0
    bound = run.binding.get(run.compiled.variable[task])
    # Equivalent machines have equal memory; one per class is enough.
    representatives = (
        [each.members[0] for each in context.state.machines.classes(options)] if bound is None else [bound]
    )
    for machine in representatives:
        for count in options.counts.get(machine, ()):
            required = dict(run.compiled.demand(task, machine, count)).get("memory")
            if required is None:
                return None
            total = run.instance.machines[machine].memory
            largest = max(largest, wanted if total is None else min(wanted, total / required))
    return largest


def _retry_task(
    context: DecisionContext,
    run: RunState,
    task: int,
    cause: Cause,
    reason: str,
    growth: float | None = None,
    *,
    avoid: bool = False,
) -> None:
    """Make a failed task ready or waiting again.

    Other tasks of its abstract machine that are assigned but have not started are reopened too. ``avoid``:
    from now on the task avoids the machine of its failed attempt, whatever the cause.
    """
    attempt = context.state.attempt_of(run, task)
    keep = cause in _RESUMABLE and attempt is not None and attempt.started_s is not None
    context.settle(
        run, task, run.open_state(task), cause=cause, reason=reason, keep=keep, growth=growth, avoid=avoid
    )
    rebind_members(context, run, task, None)
    _rerun_bound_ancestors(context, run, task)


def _give_up(context: DecisionContext, run: RunState, task: int, cause: Cause, reason: str) -> None:
    rule = run.settings_of(task).on_failure
    if rule == "hold":
        context.settle(run, task, TaskState.STOPPED, cause=cause, reason=reason)
    elif rule == "reschedule" and _has_other_machine(context, run, task, cause):
        _retry_task(context, run, task, cause, f"{reason}; another machine is tried next", avoid=True)
    else:
        fail_finally(context, run, task, cause, reason)


def fail_finally(context: DecisionContext, run: RunState, task: int, cause: Cause, reason: str) -> None:
    """Fail a task permanently, whatever retries are left; stop the run unless its rule is to continue."""
    _fail_permanently(context, run, task, cause, reason)
    if run.settings_of(task).on_failure != "continue":
        stop_run(context, run, f"{run.name(task)} failed: {reason}")


def _has_other_machine(context: DecisionContext, run: RunState, task: int, cause: Cause) -> bool:
    """Return whether a task may be retried on another machine, which is up and on which it has not failed.

    A task gets at most as many such retries as it has candidate machines.
    """
    if run.compiled.group[task] < 0:
        return False
    beyond = run.facts_of(task).failures.get(cause, 0) - context.max_retries(run, task, cause)
    if beyond >= len(run.compiled.options(task).machines):
        # After some causes a machine may be used again; stop after one attempt per machine.
        return False
    failed = set(run.facts_of(task).failed_on)
    number = run.attempt_of.get(task)
    if number is not None and number in context.state.attempts:
        failed.add(context.state.attempts[number].machine)
    machines = run.compiled.options(task).machines
    return any(machine not in failed and context.state.machines[machine].up for machine in machines)


def _fail_permanently(context: DecisionContext, run: RunState, task: int, cause: Cause, reason: str) -> None:
    """Fail a task permanently and cancel the tasks that depend on it."""
    context.settle(run, task, TaskState.FAILED, cause=cause, reason=reason)
    stack = [task]
    while stack:
        for successor in run.compiled.after(stack.pop()):
            if run.state[successor] in (TaskState.WAITING, TaskState.READY, TaskState.HELD):
                text = f"it needs {run.name(task)}, which failed"
                context.settle(run, successor, TaskState.CANCELLED, reason=text)
                stack.append(successor)
            elif run.state[successor] not in FINAL:
                _cancel_attempt(context, run, successor)
                stack.append(successor)


def stop_run(context: DecisionContext, run: RunState, reason: str) -> None:
    """Stop a run: cancel all its attempts, and its tasks that have not started."""
    if run.stopping:
        return
    context.emit(StopRun(run=run.index, reason=reason))
    for task in range(len(run)):
        state = run.state[task]
        if state in (TaskState.WAITING, TaskState.READY, TaskState.HELD):
            context.settle(run, task, TaskState.CANCELLED, reason=reason)
        elif state not in FINAL:
            _cancel_attempt(context, run, task)


def _cancel_attempt(context: DecisionContext, run: RunState, task: int) -> None:
    """Cancel the current attempt of a task; if nothing was sent to the machine, settle the task at once."""
    if (attempt := context.state.attempt_of(run, task)) is None:
        return
    waits = TimerKind.STAGE_OUT.name_of(attempt.number) in context.state.timers
    if waits or (attempt.stage == Stage.ASSIGNED and not attempt.staging):
        context.settle(run, task, TaskState.CANCELLED, reason="its run was stopped")
    elif not attempt.cancelled:
        context.cancel(attempt, STOPPED)
