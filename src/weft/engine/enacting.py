"""Enacting: what a command changes in the state, at the moment it is decided or read from a journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from weft.engine.absorbing import note_arrival
from weft.engine.leftovers import forget_left_behind, leave_behind, take_back
from weft.engine.messages import commands as cm
from weft.engine.state.attempt import Attempt, Demand, Stage
from weft.engine.state.plans import RunPlan
from weft.engine.state.reopening import reopen
from weft.engine.state.run import Run
from weft.engine.state.state import State
from weft.engine.state.states import ACTIVE, FINAL, STATES, TaskState
from weft.workflow.unfolding.task_graph import COMPUTE

__all__ = ["ENACT", "enact"]

_NOT_OF_THE_MACHINE = ("oom", "timeout", "cancelled")
"""Causes of failure that say nothing against the machine."""

_CODES = {"lost": "failure"}
"""Causes of failure whose name as the reason of a migration is another one."""


def enact(state: State, command: cm.Command) -> None:
    """Take a command's consequences in."""
    ENACT[type(command)](state, command)


def _assign(state: State, command: cm.Assign) -> None:
    run = state.runs[command.run]
    known = run.known
    task = command.task
    seconds = 0.0
    demand: Demand = ()
    if known.kind[task] == COMPUTE:
        seconds = known.seconds(task, command.machine, command.count) * (1.0 - command.restart_from)
        demand = run.demand(task, command.machine, command.count)
    iteration = run.loops.iteration(task) if run.loops.around else 1
    attempt = Attempt.of(command, iteration, seconds, state.now, demand)
    state.attempts[attempt.number] = attempt
    state.next_attempt = attempt.number + 1
    if command.replaces is not None:
        state.attempts[command.replaces].replaced_by = attempt.number
        run.migrations[task] = run.migrations.get(task, 0) + 1
        run.left_behind.pop(task, None)
        if command.reason == "performance":
            _count_failure(run, task, "contract")
    if task in run.attempt_of:
        run.move(task, TaskState.MIGRATING)
    else:
        run.early.discard(task)
        run.move(task, TaskState.SCHEDULED)
    run.lead(attempt)
    run.version += 1
    if known.shared[known.variable[task]]:
        run.bind(task, command.machine)
    if command.reserve:
        state.machines.take(attempt)
        attempt.expected_end_s = state.now + seconds / state.machines.all[command.machine].speed_factor
    else:
        state.machines[command.machine].enqueue(attempt)
    note_arrival(state, attempt)


def _stage_in(state: State, command: cm.StageIn) -> None:
    attempt = state.attempts[command.attempt]
    attempt.parts = max(attempt.parts, command.part + 1)
    attempt.staging += 1
    attempt.staged_in = True
    shared = [parcel.name for parcel in command.parcels if parcel.shared]
    if shared:
        state.copies.bring(state.machines[command.machine].host, shared)
    attempt.sent_for |= {parcel.task for parcel in command.parcels if parcel.task >= 0}
    run = state.runs[attempt.run]
    if run.state[attempt.task] == TaskState.SCHEDULED:
        run.move(attempt.task, TaskState.PROLOG)


def _start(state: State, command: cm.Start) -> None:
    attempt = state.attempts[command.attempt]
    if attempt.queued:
        state.unqueue(attempt)
    if not attempt.holds:
        state.machines.take(attempt)
    attempt.stage = Stage.SUBMITTED
    state.runs[attempt.run].tries[attempt.task] = command.tries
    if command.restart_from != attempt.restart_from:
        known = state.runs[attempt.run].known
        attempt.restart_from = attempt.checkpoint = command.restart_from
        attempt.seconds = known.seconds(attempt.task, attempt.machine, attempt.count) * (
            1.0 - command.restart_from
        )
    machine = state.machines.all[attempt.machine]
    attempt.expected_end_s = state.now + attempt.seconds / machine.speed_factor
    machine.changed()
    if state.settings.begins_at_once:
        attempt.stage = Stage.RUNNING
        attempt.started_s = state.now
        state.runs[attempt.run].began(attempt)
        state.runs[attempt.run].move(attempt.task, TaskState.RUNNING)
    else:
        state.runs[attempt.run].move(attempt.task, TaskState.SUBMITTED)


def _cancel(state: State, command: cm.Cancel) -> None:
    attempt = state.attempts.get(command.attempt)
    if attempt is not None:
        attempt.cancelled = command.reason or "cancelled"
    if state.unknown:
        state.unknown.get(command.machine, {}).pop(command.attempt, None)


def _stage_out(state: State, command: cm.StageOut) -> None:
    attempt = state.attempts[command.attempt]
    attempt.stage = Stage.STAGING_OUT
    state.runs[attempt.run].move(attempt.task, TaskState.EPILOG)


def _clean_up(state: State, command: cm.CleanUp) -> None:
    attempt = state.attempts.get(command.attempt)
    if attempt is None:
        return
    attempt.stage = Stage.CLEANING
    run = state.runs[attempt.run]
    forget_left_behind(run, attempt)
    kept = run.checkpoint.get(attempt.task)
    successor = state.attempts.get(attempt.replaced_by) if attempt.replaced_by is not None else None
    if kept is not None and successor is not None and kept[1] == attempt.machine:
        # The restart files have moved with the task.
        run.checkpoint[attempt.task] = (kept[0], successor.machine, kept[2])


def _drop(state: State, command: cm.Drop) -> None:
    attempt = state.attempts.get(command.attempt)
    if attempt is None:
        return
    forget_left_behind(state.runs[attempt.run], attempt)
    attempt.stage = Stage.OVER
    successor = state.attempts.get(attempt.replaced_by) if attempt.replaced_by is not None else None
    state.close(attempt)
    if successor is not None:
        note_arrival(state, successor)


def _return(state: State, command: cm.Return) -> None:
    old = state.attempts[command.attempt]
    new = state.attempts[old.replaced_by] if old.replaced_by is not None else None
    run = state.runs[old.run]
    old.replaced_by = None
    if new is not None:
        new.stage = Stage.OVER
        state.close(new)
        run.migrations[old.task] -= 1
    run.lead(old)
    run.bind(old.task, old.machine)
    if old.live:
        run.move(old.task, _state_of(old))


def _state_of(attempt: Attempt) -> TaskState:
    """Give the state of a task whose attempt is live."""
    if attempt.suspended_since_s is not None:
        return TaskState.SUSPENDED
    if attempt.stage == Stage.ASSIGNED:
        return TaskState.PROLOG if attempt.staging else TaskState.SCHEDULED
    return TaskState.RUNNING if attempt.stage == Stage.RUNNING else TaskState.SUBMITTED


def _replan(state: State, command: cm.Replan) -> None:
    run = state.runs[command.run]
    run.plan_wanted, run.plan_asked_s = True, state.now


def _set_timer(state: State, command: cm.SetTimer) -> None:
    state.timers[command.timer] = command.at_s


def _discover(state: State, command: cm.Discover) -> None:  # noqa: ARG001
    state.inquiries.discovered_s = state.now


def _fetch(state: State, command: cm.Fetch) -> None:
    state.inquiries.ask_for_state(command.machine, state.now)


def _probe(state: State, command: cm.Probe) -> None:
    if command.of == "access" and command.machine is not None:
        state.inquiries.ask_for_access(command.machine, state.now)
    attempt = state.attempts.get(command.attempt) if command.attempt is not None else None
    if attempt is not None:
        attempt.probed_s = state.now


def _settle(state: State, command: cm.Settle) -> None:
    run = state.runs[command.run]
    task, wanted = command.task, STATES[command.state]
    attempt = state.attempts.get(run.attempt_of.get(task, -1))
    if command.cause:
        _count_failure(run, task, command.cause)
        if attempt is not None and command.cause not in _NOT_OF_THE_MACHINE:
            run.avoid.setdefault(task, set()).add(attempt.machine)
        if command.growth is not None:
            run.grown.setdefault(task, {})[command.cause] = command.growth
    if wanted not in FINAL and run.state[task] in (TaskState.STOPPED, TaskState.FAILED):
        # The user resumes it: what went wrong before has been seen to.
        run.failures.pop(task, None)
        run.avoid.pop(task, None)
        if run.ending:
            _wake(state, run)
    if wanted == TaskState.COMPLETED:
        _complete(state, run, task, attempt)
    else:
        _settle_otherwise(state, run, task, wanted, command)
    if attempt is not None and wanted not in ACTIVE:
        if command.keep:
            leave_behind(state, run, attempt, _CODES.get(command.cause, command.cause))
        else:
            _part_with(state, attempt)
            take_back(state, run, attempt)
    run.version += 1
    state.dirty = True
    # Under a plan some are sent ahead: they do not keep a run going in which one waits for the user.
    if run.virtual or not (len(run.ready) or (run.attempt_of and TaskState.STOPPED not in run.state)):
        state.to_tidy[run.index] = None


def _count_failure(run: Run, task: int, cause: str) -> None:
    by_cause = run.failures.setdefault(task, {})
    by_cause[cause] = by_cause.get(cause, 0) + 1


def _wake(state: State, run: Run) -> None:
    """Let a run that was over go on: the user resumes what was stopped."""
    run.ending, run.ended_s, run.stopping = "", None, ""
    state.active = dict(sorted([*state.active.items(), (run.index, run)]))
    state.roster += 1


def _finish(state: State, command: cm.Finish) -> None:
    run = state.runs[command.run]
    run.ended_s, run.ending = state.now, command.outcome
    state.active.pop(run.index, None)
    state.roster += 1


def _part_with(state: State, attempt: Attempt) -> None:
    """Close an attempt, unless something is still to be cleaned up after it."""
    if attempt.stage != Stage.CLEANING:
        attempt.stage = Stage.OVER
        state.close(attempt)
    else:
        state.runs[attempt.run].let_go(attempt.task)


def _complete(state: State, run: Run, task: int, attempt: Attempt | None) -> None:
    if attempt is not None:
        run.where[task] = attempt.machine
    for remembered in (run.tries, run.checkpoint, run.avoid, run.requirements, run.grown, run.requeued):
        if remembered:
            remembered.pop(task, None)
    run.move(task, TaskState.COMPLETED)
    run.reopened.discard(task)
    _release_after(state, run, task)


def _release_after(state: State, run: Run, task: int) -> None:
    """Count a task as done for its successors, but for those who wait until a loop is left."""
    known, loops = run.known, run.loops
    inside = task in loops.around
    release, attempt_of = run.release, run.attempt_of
    for successor in known.after(task):
        if inside and loops.waits_for_end(task, successor):
            continue
        if release(successor) and (number := attempt_of.get(successor)) in state.attempts:
            note_arrival(state, state.attempts[number])
    for changed in run.order.completed(task):
        run.ready.changed(changed)


def _release(state: State, run: Run, successor: int) -> None:
    if run.release(successor) and (number := run.attempt_of.get(successor)) in state.attempts:
        note_arrival(state, state.attempts[number])


def _settle_otherwise(state: State, run: Run, task: int, wanted: TaskState, command: cm.Settle) -> None:
    if wanted in (TaskState.READY, TaskState.WAITING):
        reopen(state, run, task, failed=bool(command.cause))
    else:
        run.early.discard(task)
        run.move(task, wanted)
        if wanted == TaskState.FAILED:
            run.failed += 1
        if wanted == TaskState.SKIPPED or (wanted == TaskState.FAILED and command.again):
            # A task that is left out, or whose failure does not matter, does not hold its successors up.
            _release_after(state, run, task)


def _repeat(state: State, command: cm.Repeat) -> None:
    run = state.runs[command.run]
    body = run.loops.bodies[command.body]
    body.iteration = command.iteration
    for inner in body.inner:
        run.loops.bodies[inner].iteration = 1
        run.loops.bodies[inner].left = False
    inside = set(body.tasks)
    run.reopened -= inside
    for task in body.tasks:
        run.missing[task] = sum(1 for predecessor in run.known.before(task) if predecessor in inside)
        variable = run.known.variable[task]
        if run.known.shared[variable]:
            run.unbind(variable)
        run.tries.pop(task, None)
        run.migrations.pop(task, None)
        run.failures.pop(task, None)
    for task in body.tasks:
        run.make_ready_or_waiting(task)
    if run.plan is not None:
        # The lines of this iteration count from now on.
        run.plan = RunPlan(run.plan.stored, run.known, run.plan.key, run.loops.iteration)
    run.version += 1
    state.to_tidy[run.index] = None
    state.dirty = True


def _leave(state: State, command: cm.Leave) -> None:
    run = state.runs[command.run]
    body = run.loops.bodies[command.body]
    body.left = True
    for task, successor in body.leaving:
        if run.state[task] in FINAL:
            _release(state, run, successor)
    state.to_tidy[run.index] = None
    state.dirty = True


def _note(state: State, command: cm.Note) -> None:
    match command.kind:
        case "stopping":
            state.runs[command.run].stopping = command.text
        case "believed" if command.value is not None:
            state.machines.believe(command.machine, command.value, state.now)
            state.dirty = True
        case "down" | "up":
            state.inquiries.set_up(command.machine, command.kind == "up", state.now)
            state.dirty = True
        case "unknown":
            state.unknown.setdefault(command.machine, {})[command.attempt] = None
        case "requeued":
            run = state.runs[command.run]
            run.requeued[command.task] = int(command.value or 0.0)
        case "violating" | "recovered":
            state.attempts[command.attempt].violating = command.kind == "violating"
        case "rebound":
            run = state.runs[command.run]
            run.unbind(run.known.variable[command.task])
        case "lost":
            attempt = state.attempts[command.attempt]
            attempt.stage = Stage.ENDED
            state.give_back(attempt)


def _signal(state: State, command: cm.Signal) -> None:
    """Change nothing: the attempt will tell what it made of it."""


ENACT: Mapping[type, Callable[[State, Any], None]] = {
    cm.Assign: _assign,
    cm.StageIn: _stage_in,
    cm.Start: _start,
    cm.Signal: _signal,
    cm.Cancel: _cancel,
    cm.StageOut: _stage_out,
    cm.CleanUp: _clean_up,
    cm.Drop: _drop,
    cm.Return: _return,
    cm.Probe: _probe,
    cm.Discover: _discover,
    cm.Fetch: _fetch,
    cm.Replan: _replan,
    cm.SetTimer: _set_timer,
    cm.Settle: _settle,
    cm.Repeat: _repeat,
    cm.Leave: _leave,
    cm.Finish: _finish,
    cm.Note: _note,
}
"""Per kind of command: what takes its consequences in."""
