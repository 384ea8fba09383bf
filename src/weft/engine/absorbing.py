"""Absorbing: what an event by itself changes in the state. Nothing is decided here.

Together with ``enacting`` this is all that ever changes the state: a journal's events and commands rebuild it
without asking a policy again (design section 6).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.engine.messages import events as ev
from weft.engine.selection.requirements import requirement_problem
from weft.engine.state.attempt import Attempt, Stage
from weft.engine.state.growth import grow
from weft.engine.state.plans import RunPlan
from weft.engine.state.run import Outcome, Run
from weft.engine.state.state import State
from weft.engine.state.states import TaskState

__all__ = ["absorb", "note_arrival"]


def absorb(state: State, event: ev.Event, now: float) -> None:
    """Take an event in."""
    state.now = now
    if state.inquiries.needed:
        state.inquiries.pass_time(now)
    _ABSORB[type(event)](state, event)


def _submitted(state: State, event: ev.Submitted) -> None:
    known = state.library[event.workflow]
    run = Run(
        event.run,
        known,
        state.order,
        owner=event.owner,
        now=state.now,
        planned=state.planned,
        promise=state.machines.promise,
    )
    state.runs.append(run)
    state.active[run.index] = run
    state.roster += 1
    state.to_tidy[run.index] = None
    state.dirty = True


def _started(state: State, event: ev.Started) -> None:
    attempt = state.attempts.get(event.attempt)
    if attempt is None or attempt.stage != Stage.SUBMITTED:
        return
    attempt.stage = Stage.RUNNING
    attempt.started_s = state.now
    machine = state.machines[attempt.machine]
    attempt.expected_end_s = state.now + attempt.seconds / machine.speed_factor
    machine.changed()
    state.runs[attempt.run].began(attempt)
    if _leads(state, attempt):
        state.runs[attempt.run].move(attempt.task, TaskState.RUNNING)


def _leads(state: State, attempt: Attempt) -> bool:
    """Say whether an attempt is the one its task's state speaks of, not one that is left behind."""
    return state.runs[attempt.run].attempt_of.get(attempt.task) == attempt.number


def _ended(state: State, event: ev.Ended) -> None:
    attempt = state.attempts.get(event.attempt)
    if attempt is None or not attempt.live:
        return
    attempt.stage = Stage.ENDED
    attempt.ended_s = state.now
    if event.work_done is not None:
        attempt.work_done = event.work_done
    if attempt.queued:
        state.unqueue(attempt)
    state.give_back(attempt)
    state.touch(attempt.machine)
    state.dirty = True
    run = state.runs[attempt.run]
    if run.spoken_of and run.known.description(attempt.task).name in run.spoken_of:
        run.outcome[attempt.task] = Outcome(exit_code=event.exit_code, result=event.result)


def _staged_in(state: State, event: ev.StagedIn) -> None:
    attempt = state.attempts.get(event.attempt)
    if attempt is None or not attempt.live:
        return
    attempt.staging -= 1
    run = state.runs[attempt.run]
    if not event.problem and attempt.staging == 0 and run.state[attempt.task] == TaskState.PROLOG:
        run.move(attempt.task, TaskState.SCHEDULED)
    note_arrival(state, attempt)


def note_arrival(state: State, attempt: Attempt) -> None:
    """Remember that an attempt may be able to start now."""
    if attempt.holds:
        state.arrived[attempt.number] = None
    else:
        state.touched[attempt.machine] = None


def _staged_out(state: State, event: ev.StagedOut) -> None:
    attempt = state.attempts.get(event.attempt)
    if attempt is not None and attempt.stage == Stage.STAGING_OUT:
        attempt.stage = Stage.ENDED


def _cleaned_up(state: State, event: ev.CleanedUp) -> None:
    attempt = state.attempts.get(event.attempt)
    if attempt is not None and attempt.stage == Stage.CLEANING:
        attempt.stage = Stage.OVER
        successor = state.attempts.get(attempt.replaced_by) if attempt.replaced_by is not None else None
        state.close(attempt)
        if successor is not None:
            note_arrival(state, successor)


def _progressed(state: State, event: ev.Progressed) -> None:
    attempt = state.attempts.get(event.attempt)
    if attempt is None:
        return
    if event.work_done is not None:
        attempt.work_done = event.work_done
    if event.last_iteration_s is not None:
        attempt.last_iteration_s = event.last_iteration_s
    if event.all_iterations is not None:
        attempt.all_iterations = event.all_iterations
    attempt.reported_s = state.now


def _checkpointed(state: State, event: ev.Checkpointed) -> None:
    attempt = state.attempts.get(event.attempt)
    if attempt is None:
        return
    attempt.checkpoint = event.work_done
    run = state.runs[attempt.run]
    run.checkpoint[attempt.task] = (event.work_done, attempt.machine, attempt.count)


def _suspended(state: State, event: ev.Suspended) -> None:
    attempt = state.attempts.get(event.attempt)
    if attempt is not None and attempt.stage in (Stage.SUBMITTED, Stage.RUNNING):
        attempt.suspended_since_s = state.now
        if _leads(state, attempt) and not attempt.cancelled:
            state.runs[attempt.run].move(attempt.task, TaskState.SUSPENDED)


def _resumed(state: State, event: ev.Resumed) -> None:
    attempt = state.attempts.get(event.attempt)
    if attempt is not None and attempt.suspended_since_s is not None:
        attempt.expected_end_s += state.now - attempt.suspended_since_s
        attempt.suspended_since_s = None
        run = state.runs[attempt.run]
        if _leads(state, attempt) and run.state[attempt.task] == TaskState.SUSPENDED:
            run.move(attempt.task, TaskState.RUNNING)


def _requirements_changed(state: State, event: ev.RequirementsChanged) -> None:
    attempt = state.attempts.get(event.attempt)
    if attempt is None or (event.requirements is None and event.rank is None):
        return
    run = state.runs[attempt.run]
    requirements, rank = run.requirements.get(attempt.task, (None, None))
    run.requirements[attempt.task] = (
        _changed(run, attempt.task, requirements, event.requirements),
        _changed(run, attempt.task, rank, event.rank),
    )
    state.dirty = True


def _changed(run: Run, task: int, old: str | None, new: str | None) -> str | None:
    """Give what holds after a change: what cannot be read changes nothing, an empty text takes it back."""
    return old if new is None or (new and requirement_problem(new, run, task)) else new


def _machine_changed(state: State, event: ev.MachineChanged) -> None:
    if event.up is not None:
        state.inquiries.set_up(event.machine, event.up, state.now)
        state.copies.lose(state.machines[event.machine].host)
    if event.speed_factor is not None:
        state.machines.believe(event.machine, event.speed_factor, state.now)
    state.touched[event.machine] = None
    state.dirty = True


def _answered(state: State, event: ev.Answered) -> None:
    if event.of == "access" and event.machine is not None:
        state.inquiries.answer_access(event.machine, event.alive, state.now)
        state.dirty = True


def _discovered(state: State, event: ev.Discovered) -> None:
    state.inquiries.list_anew(event.machines, state.now)
    state.dirty = True


def _fetched(state: State, event: ev.Fetched) -> None:
    state.machines.believe(event.machine, event.speed_factor, state.now)
    state.inquiries.answer_state(event.machine, state.now)
    state.dirty = True


def _plan_ready(state: State, event: ev.PlanReady) -> None:
    run = state.runs[event.run]
    run.plan_wanted = False
    if event.plan:
        run.plan = RunPlan(state.plans[event.plan], run.known, event.plan, run.loops.iteration)
    state.dirty = True


def _timer_fired(state: State, event: ev.TimerFired) -> None:
    state.timers.pop(event.timer, None)
    name, _, argument = event.timer.partition(":")
    if name in ("turn", "serve"):
        state.touched[int(argument)] = None
    if name == "serve":
        state.to_serve[int(argument)] = None
    # Who has not answered in time is waited for no longer: what is placed may change.
    state.dirty = state.dirty or event.timer == "select"


def _tasks_added(state: State, event: ev.TasksAdded) -> None:
    grow(state, event.run, event.lines)
    state.to_tidy[event.run] = None
    state.dirty = True


def _asked(state: State, event: ev.Asked) -> None:  # noqa: ARG001
    state.dirty = True


_ABSORB: dict[type, Callable[[State, Any], None]] = {
    ev.Submitted: _submitted,
    ev.Started: _started,
    ev.Ended: _ended,
    ev.StagedIn: _staged_in,
    ev.StagedOut: _staged_out,
    ev.CleanedUp: _cleaned_up,
    ev.Progressed: _progressed,
    ev.Checkpointed: _checkpointed,
    ev.Suspended: _suspended,
    ev.Resumed: _resumed,
    ev.RequirementsChanged: _requirements_changed,
    ev.MachineChanged: _machine_changed,
    ev.Answered: _answered,
    ev.Discovered: _discovered,
    ev.Fetched: _fetched,
    ev.PlanReady: _plan_ready,
    ev.TimerFired: _timer_fired,
    ev.TasksAdded: _tasks_added,
    ev.Asked: _asked,
}
