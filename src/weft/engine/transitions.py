"""Transitions: everything that changes the state. ``absorb`` applies an event, ``enact`` applies a command.

No decision is made here: the events and commands of a journal rebuild the state without a policy.

A sweep may have the lines of a file as its values. When such a file exists, the run's graph grows: the
workflow is unfolded again with the lines of the file. Tasks keep their state by name; new tasks start as
waiting or ready. If a task goes back to READY or WAITING, its abstract machine may lose its binding, and the
successors of the task wait for it again. Files of an attempt that left its machine are kept for the next
attempt (docs/papers/adaptive-jobs.md, section 4).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from weft.engine import messages
from weft.engine.ranking import check_requirement
from weft.engine.state.compiled import LoopState, parse_or_none
from weft.engine.state.machines import HostSilence, MeasuredValues
from weft.engine.state.plan import RunPlan
from weft.engine.state.run import RestartFiles, RunState, RunTerms, TaskOutcome
from weft.engine.state.state import EngineState
from weft.engine.states import (
    ACTIVE,
    FINAL,
    Attempt,
    Cause,
    Demand,
    MigrationReason,
    ProbeTarget,
    Stage,
    TaskState,
    TimerKind,
)
from weft.instance.preferences import uses_measurements
from weft.workflow.task_graph import COMPUTE
from weft.workflow.unfold import try_unfold
from weft.workflow.workflow import set_growth_lines


def _grow_run(state: EngineState, index: int, lines: Mapping[str, Sequence[str]]) -> None:
    """Unfold the sweeps over the lines of new files, and continue the run with the larger graph.

    ``lines`` maps the name of each file to its lines.
    """
    old = state.runs[index]
    lines = {file: found for file, found in lines.items() if found}
    if not lines or old.ending or old.stopping:
        return
    graph, _ = try_unfold(set_growth_lines(old.compiled.graph.workflow, lines))
    if graph is None:
        # The lines of several files are invalid together. The task of the sweep fails when it is ready.
        return
    compiled = state.library.grown(old.compiled, graph)
    new = state.create_run(index, compiled, terms=old.terms, now=old.arrival_s, planned=old.planned)
    if old.promises is not None:
        old.promises.withdraw()
    place = {name: task for task, name in enumerate(compiled.names)}
    moved = {task: place[name] for task, name in enumerate(old.compiled.names) if name in place}
    for attempt in [each for each in state.attempts.values() if each.run == index]:
        if attempt.task not in moved:
            # It was assigned early for the placeholder task that the sweep replaces.
            state.close(attempt)
    new.lines = {**old.lines, **{file: tuple(found) for file, found in lines.items()}}
    _carry_over(old, new, moved)
    _recount_missing(new)
    new.promise_all()
    for attempt in state.attempts.values():
        if attempt.run == index:
            attempt.task = moved[attempt.task]
            attempt.sent_for = frozenset(moved[task] for task in attempt.sent_for)
    state.runs[index] = state.active[index] = new
    state.roster += 1


def _carry_over(old: RunState, new: RunState, moved: Mapping[int, int]) -> None:
    new.facts.update((moved[task], facts) for task, facts in old.facts.items() if task in moved)
    for name in ("attempt_of", "left_behind"):
        attempts = getattr(old, name).items()
        getattr(new, name).update((moved[task], number) for task, number in attempts if task in moved)
    for task, place in moved.items():
        new.where[place] = old.where[task]
        new.state[place] = old.state[task]
    new.version, new.failed = old.version + 1, old.failed
    new.stopping, new.plan_wanted, new.plan_asked_s = old.stopping, old.plan_wanted, old.plan_asked_s
    new.next_plan = old.next_plan
    names = {name: variable for variable, name in enumerate(new.compiled.graph.variables)}
    for variable, machine in old.binding.items():
        if (found := names.get(old.compiled.graph.variables[variable])) is not None:
            new.binding[found] = machine
    for body in new.loops.bodies:
        before = next((other for other in old.loops.bodies if _is_same_body(old, other, new, body)), None)
        if before is not None:
            body.iteration, body.left = before.iteration, before.left
    if old.plan is not None:
        # The plan has no lines for the new tasks.
        new.plan = RunPlan(old.plan.stored, new.compiled, old.plan.key, new.loops.iteration)


def _is_same_body(old: RunState, before: LoopState, new: RunState, body: LoopState) -> bool:
    return (
        before.loop.name == body.loop.name
        and old.compiled.names[before.lasts[0]] == new.compiled.names[body.lasts[0]]
    )


def _recount_missing(run: RunState) -> None:
    """Recount the missing predecessors of every task, and make tasks without an attempt ready or waiting."""
    compiled, loops = run.compiled, run.loops
    run.unfinished = sum(1 for state in run.state if state not in FINAL)
    run.list_ready([])
    for task in range(len(run)):
        missing = 0
        for predecessor in compiled.before(task):
            held = loops.held_back_by(predecessor, task)
            done = run.state[predecessor] in _RELEASED and (held is None or loops.bodies[held].left)
            missing += not done
        run.missing[task] = missing
        if run.state[task] == TaskState.COMPLETED:
            run.order.completed(task)
    for task in range(len(run)):
        if run.state[task] in (TaskState.WAITING, TaskState.READY):
            run.state[task] = TaskState.WAITING
            run.make_ready_or_waiting(task)
            begun = any(run.state[before] == TaskState.COMPLETED for before in compiled.before(task))
            if run.planned and begun and run.state[task] == TaskState.WAITING:
                run.offer_early(task)


_RELEASED = frozenset({TaskState.COMPLETED, TaskState.SKIPPED})

# Until Python 3.12 reading a member from its class takes much longer than reading a global name.
_SCHEDULED, _RUNNING, _COMPLETED = TaskState.SCHEDULED, TaskState.RUNNING, TaskState.COMPLETED
_STAGE_SUBMITTED, _STAGE_RUNNING, _STAGE_ENDED = Stage.SUBMITTED, Stage.RUNNING, Stage.ENDED
_STAGE_CLEANING, _STAGE_OVER = Stage.CLEANING, Stage.OVER


def absorb(state: EngineState, event: messages.Event, now: float) -> None:
    """Apply an event to the state and set the time to ``now``."""
    state.now = state.machines.now = now
    if state.inquiries.needed:
        state.inquiries.pass_time(now)
    _ABSORB[type(event)](state, event)


def _on_submitted(state: EngineState, event: messages.Submitted) -> None:
    compiled = state.library[event.workflow]
    terms = RunTerms(event.owner, event.priority, event.results)
    run = state.create_run(event.run, compiled, terms=terms, now=state.now, planned=state.planned)
    state.runs.append(run)
    state.active[run.index] = run
    state.roster += 1
    state.pending.runs[run.index] = None
    state.pending.policy = True


def _on_started(state: EngineState, event: messages.Started | messages.JobQueued) -> None:
    attempt = state.attempts.get(event.attempt)
    if attempt is None or attempt.stage != Stage.SUBMITTED:
        return
    attempt.stage = Stage.RUNNING
    attempt.started_s = state.now
    machine = state.machines[attempt.machine]
    attempt.expected_end_s = state.now + attempt.seconds / machine.speed_factor
    if machine.time_shared:
        machine.begin_sharing(attempt, state.now)
    machine.changed()
    state.runs[attempt.run].began(attempt)
    if _is_leading(state, attempt):
        state.runs[attempt.run].move(attempt.task, TaskState.RUNNING)


def _on_start_delayed(state: EngineState, event: messages.StartDelayed) -> None:
    attempt = state.attempts.get(event.attempt)
    if attempt is None or attempt.stage != Stage.RUNNING:
        return
    attempt.stage, attempt.started_s = Stage.SUBMITTED, None
    state.machines[attempt.machine].changed()
    run = state.runs[attempt.run]
    run.delayed(attempt)
    if _is_leading(state, attempt) and run.state[attempt.task] == TaskState.RUNNING:
        run.move(attempt.task, TaskState.SUBMITTED)


def _is_leading(state: EngineState, attempt: Attempt) -> bool:
    """Return whether an attempt is the current one of its task."""
    return state.runs[attempt.run].attempt_of.get(attempt.task) == attempt.number


def _on_ended(state: EngineState, event: messages.Ended) -> None:
    if (attempt := state.attempts.get(event.attempt)) is None or not attempt.live:
        return
    attempt.stage = _STAGE_ENDED
    attempt.ended_s = state.now
    state.stop_waiting(attempt)
    if event.work_done is not None:
        attempt.work_done = event.work_done
    if attempt.queued:
        state.unqueue(attempt)
    state.release_nodes(attempt)
    state.touch(attempt.machine)
    state.pending.policy = True
    run = state.runs[attempt.run]
    run.ended(attempt)
    if state.priced and attempt.started_s is not None:
        run.spent += (state.now - attempt.started_s) * attempt.nodes * state.prices[attempt.machine]
    if run.referenced and run.compiled.description(attempt.task).name in run.referenced:
        outcome = TaskOutcome(exit_code=event.exit_code, result=event.result)
        run.change_facts(attempt.task).outcome = outcome


def _on_staged_in(state: EngineState, event: messages.StagedIn) -> None:
    if (attempt := state.attempts.get(event.attempt)) is None or not attempt.live:
        return
    attempt.staging -= 1
    run = state.runs[attempt.run]
    if not event.problem and attempt.staging == 0 and run.state[attempt.task] == TaskState.PROLOG:
        run.move(attempt.task, TaskState.SCHEDULED)
    _mark_for_start(state, attempt)


def _mark_for_start(state: EngineState, attempt: Attempt) -> None:
    """Mark an attempt, or the queue that contains it, so that it is checked for a possible start."""
    if attempt.holds:
        state.pending.attempts[attempt.number] = None
    else:
        state.pending.queues[attempt.machine] = None


def _on_staged_out(state: EngineState, event: messages.StagedOut) -> None:
    attempt = state.attempts.get(event.attempt)
    if attempt is not None and attempt.stage == Stage.STAGING_OUT:
        attempt.stage = Stage.ENDED
        attempt.stage_failures += bool(event.problem)


def _on_cleaned_up(state: EngineState, event: messages.CleanedUp) -> None:
    attempt = state.attempts.get(event.attempt)
    if attempt is not None and attempt.stage == Stage.CLEANING:
        _close_predecessor(state, attempt)


def _close_predecessor(state: EngineState, attempt: Attempt) -> None:
    """Close a replaced attempt, so that its replacement may start."""
    attempt.stage = Stage.OVER
    successor = state.find_attempt(attempt.replaced_by)
    state.close(attempt)
    if successor is not None:
        state.pending.successors[successor.number] = None
        _mark_for_start(state, successor)


def _on_progressed(state: EngineState, event: messages.Progressed) -> None:
    if (attempt := state.attempts.get(event.attempt)) is None:
        return
    if event.work_done is not None:
        attempt.work_done = event.work_done
    if event.last_iteration_s is not None:
        attempt.last_iteration_s = event.last_iteration_s
    if event.all_iterations is not None:
        attempt.all_iterations = event.all_iterations
    attempt.reported_s = state.now - (event.age_s or 0.0)
    attempt.dated = event.age_s is not None
    attempt.reports_every_s = event.every_s


def _on_checkpointed(state: EngineState, event: messages.Checkpointed) -> None:
    if (attempt := state.attempts.get(event.attempt)) is None or event.work_done is None:
        return
    attempt.checkpoint = event.work_done
    run = state.runs[attempt.run]
    files = RestartFiles(event.work_done, attempt.machine, attempt.count)
    run.change_facts(attempt.task).restart_files = files


def _on_suspended(state: EngineState, event: messages.Suspended) -> None:
    attempt = state.attempts.get(event.attempt)
    if attempt is not None and attempt.stage in (Stage.SUBMITTED, Stage.RUNNING):
        attempt.suspended_since_s = state.now
        if _is_leading(state, attempt) and not attempt.cancelled:
            state.runs[attempt.run].move(attempt.task, TaskState.SUSPENDED)


def _on_resumed(state: EngineState, event: messages.Resumed) -> None:
    attempt = state.attempts.get(event.attempt)
    if attempt is not None and attempt.suspended_since_s is not None:
        attempt.expected_end_s += state.now - attempt.suspended_since_s
        attempt.suspended_since_s = None
        run = state.runs[attempt.run]
        if _is_leading(state, attempt) and run.state[attempt.task] == TaskState.SUSPENDED:
            run.move(attempt.task, TaskState.RUNNING)


def _on_requirements_changed(state: EngineState, event: messages.RequirementsChanged) -> None:
    attempt = state.attempts.get(event.attempt)
    if attempt is None or (event.requirements is None and event.rank is None):
        return
    run = state.runs[attempt.run]
    facts = run.change_facts(attempt.task)
    requirements, rank = facts.requirements or (None, None)
    facts.requirements = (
        _merge_requirement(run, attempt.task, requirements, event.requirements),
        _merge_requirement(run, attempt.task, rank, event.rank, is_rank=True),
    )
    if any(_uses_measurements(run, attempt.task, text) for text in facts.requirements):
        state.inquiries.start_measuring(state.now)
    state.pending.policy = True


def _merge_requirement(
    run: RunState, task: int, old: str | None, new: str | None, *, is_rank: bool = False
) -> str | None:
    """Return the requirement after a change by the application.

    It is ``new``, which may be empty, or ``old`` if ``new`` is None or invalid.
    """
    return old if new is None or (new and check_requirement(new, run, task, is_rank=is_rank)) else new


def _uses_measurements(run: RunState, task: int, text: str | None) -> bool:
    defined = {*run.compiled.machine_columns, *run.compiled.graph.context(task)}
    return bool(text) and uses_measurements(parse_or_none(text or ""), defined)


def _on_machine_changed(state: EngineState, event: messages.MachineChanged) -> None:
    if event.up is False and event.started is not None:
        for attempt in state.attempts.values():
            if attempt.machine == event.machine and attempt.number not in event.started:
                _undo_start(attempt)
    if event.up is not None:
        state.machines[event.machine].silence = None
        state.machines[event.machine].reason = "" if event.up else event.reason
        state.machines[event.machine].lasting = event.lasting
        state.inquiries.set_up(event.machine, event.up, state.now)
        state.copies.lose(state.machines[event.machine].host)
        if event.up:
            _readmit_machine(state, event.machine)
    if event.speed_factor is not None:
        state.machines.set_speed(event.machine, event.speed_factor, state.now)
    if event.admission is not None:
        state.inquiries.set_admission(event.machine, event.admission, state.now)
    state.pending.queues[event.machine] = None
    state.pending.policy = True


def _on_contact_changed(state: EngineState, event: messages.ContactChanged) -> None:
    machine = state.machines[event.machine]
    before, now = machine.silence, state.now
    if not math.isfinite(event.silent_s + (event.lost_in_s or 0.0)):
        raise ValueError("silent_s and lost_in_s must be finite")
    if not event.answers:
        lost_at_s = None if event.lost_in_s is None else now + event.lost_in_s
        since_s = now - event.silent_s if before is None else before.since_s
        machine.silence = HostSilence(since_s, lost_at_s, event.reason)
        return
    machine.silence = None
    since_s = now - event.silent_s if before is None else before.since_s
    for attempt in state.attempts.values():
        if attempt.machine == event.machine and attempt.started_s is not None:
            attempt.silent_s += max(0.0, now - max(since_s, attempt.started_s))


def _readmit_machine(state: EngineState, machine: int) -> None:
    for run in state.active.values():
        if run.facts:
            run.readmit_machine(machine)


def _undo_start(attempt: Attempt) -> None:
    """Undo the effect of a Start command on an attempt whose program has not started."""
    if attempt.stage == Stage.RUNNING:
        attempt.stage, attempt.started_s, attempt.tries = Stage.SUBMITTED, None, 0


@contextmanager
def _note_new_machines(state: EngineState, machines: Iterable[int]) -> Iterator[None]:
    """Context manager that records which of the machines an answer to a query makes usable."""
    inquiries = state.inquiries
    before = [(index, state.machines.is_usable(index), inquiries.is_ruled_out(index)) for index in machines]
    yield
    for index, usable, ruled_out in before:
        if not usable and state.machines.is_usable(index):
            state.pending.usable[index] = None
        if ruled_out and not inquiries.is_ruled_out(index):
            state.pending.admitted[index] = None


def _on_answered(state: EngineState, event: messages.ProbeAnswered) -> None:
    if event.of == ProbeTarget.ACCESS and event.machine is not None:
        with _note_new_machines(state, (event.machine,)):
            state.inquiries.answer_access(event.machine, event.alive, state.now)
        state.pending.policy = True


def _on_discovered(state: EngineState, event: messages.Discovered) -> None:
    with _note_new_machines(state, range(len(state.machines))):
        state.inquiries.set_listed(event.machines, state.now)
    state.pending.policy = True


def _on_fetched(state: EngineState, event: messages.Fetched) -> None:
    measured = MeasuredValues(event.load, event.free_memory_bytes, event.free_disk_bytes)
    state.machines.set_measured(event.machine, measured, event.speed_factor, state.now)
    with _note_new_machines(state, (event.machine,)):
        state.inquiries.answer_state(event.machine, state.now)
    state.changes.note(event.machine)  # requirements that use these values may be met now
    state.pending.policy = True


def _on_machines_selected(state: EngineState, event: messages.MachinesSelected) -> None:
    run = state.runs[event.run]
    if not run.facts_of(event.task).order_wanted:
        return
    facts = run.change_facts(event.task)
    facts.order, facts.order_wanted = tuple(event.machines), False
    facts.order_usual = bool(event.problem)
    state.pending.policy = True


def _on_plan_ready(state: EngineState, event: messages.PlanReady) -> None:
    run = state.runs[event.run]
    run.plan_wanted = False
    if event.plan:
        run.plan = RunPlan(state.plans[event.plan], run.compiled, event.plan, run.loops.iteration)
    state.pending.policy = True


def _on_timer_fired(state: EngineState, event: messages.TimerFired) -> None:
    state.timers.pop(event.timer, None)
    kind, number = TimerKind.parse(event.timer)
    if kind in (TimerKind.TURN, TimerKind.SERVE):
        state.pending.queues[number] = None
    if kind == TimerKind.SERVE:
        state.pending.due_queues[number] = None
    # Placements do not wait for machines that have not answered in time, so they may change now.
    state.pending.policy = state.pending.policy or kind == TimerKind.SELECT


def _on_tasks_added(state: EngineState, event: messages.TasksAdded) -> None:
    _grow_run(state, event.run, event.lines)
    state.pending.runs[event.run] = None
    state.pending.policy = True


def _on_request(state: EngineState, event: messages.RequestReceived) -> None:  # noqa: ARG001
    state.pending.policy = True


def _on_run_stalled(state: EngineState, event: messages.RunStalled) -> None:
    """Do nothing: the tasks of the run keep their states, so that the run can be resumed."""


_ABSORB: dict[type, Callable[[EngineState, Any], None]] = {
    messages.Submitted: _on_submitted,
    messages.Started: _on_started,
    messages.Ended: _on_ended,
    messages.StagedIn: _on_staged_in,
    messages.StagedOut: _on_staged_out,
    messages.CleanedUp: _on_cleaned_up,
    messages.Progressed: _on_progressed,
    messages.Checkpointed: _on_checkpointed,
    messages.JobQueued: _on_started,
    messages.StartDelayed: _on_start_delayed,
    messages.Suspended: _on_suspended,
    messages.Resumed: _on_resumed,
    messages.RequirementsChanged: _on_requirements_changed,
    messages.MachineChanged: _on_machine_changed,
    messages.ContactChanged: _on_contact_changed,
    messages.ProbeAnswered: _on_answered,
    messages.Discovered: _on_discovered,
    messages.Fetched: _on_fetched,
    messages.MachinesSelected: _on_machines_selected,
    messages.PlanReady: _on_plan_ready,
    messages.TimerFired: _on_timer_fired,
    messages.TasksAdded: _on_tasks_added,
    messages.RunStalled: _on_run_stalled,
    messages.RequestReceived: _on_request,
}


def _keep_files(state: EngineState, run: RunState, attempt: Attempt, reason: str) -> None:
    """Keep the files of an ended attempt for the next attempt of its task."""
    # If the next machine was lost before the task got there, the task still leaves for its first reason.
    attempt.left_for = reason or attempt.cancelled or attempt.left_for
    if attempt.tries:
        run.remember_tries(attempt)
    run.drop_current(attempt.task)
    run.left_behind[attempt.task] = attempt.number
    attempt.stage = Stage.ENDED
    state.unqueue(attempt)
    state.release_nodes(attempt)
    state.pending.queues[attempt.machine] = None


def _keep_predecessor_files(state: EngineState, run: RunState, attempt: Attempt) -> None:
    """Keep the files of the attempt that a closed attempt should have replaced.

    The next attempt of the task uses them.
    """
    old = state.find_attempt(attempt.replaces)
    if old is None or old.replaced_by != attempt.number:
        return
    if old.stage == Stage.CLEANING:
        # Its files are being removed, so no attempt can use them.
        old.replaced_by = None
    elif old.stage == Stage.ENDED:
        old.replaced_by = None
        old.left_for = old.left_for or old.cancelled
        run.left_behind[attempt.task] = old.number


def _forget_files(run: RunState, attempt: Attempt) -> None:
    """Stop keeping the files of an attempt."""
    if run.left_behind.get(attempt.task) == attempt.number:
        del run.left_behind[attempt.task]


def _reopen_task(state: EngineState, run: RunState, task: int, *, failed: bool) -> None:
    """Make a task ready or waiting again.

    Its abstract machine is unbound if the task failed or if no other task has used the abstract machine.
    """
    variable = run.compiled.variable[task]
    if run.compiled.shared[variable] and (failed or not _is_used(state, run, variable, besides=task)):
        run.unbind(variable)
    if run.state[task] == TaskState.COMPLETED:
        _wait_again(run, task)
    run.make_ready_or_waiting(task)
    if run.planned and run.state[task] == TaskState.WAITING and _is_partly_ready(run, task):
        run.offer_early(task)


def _is_used(state: EngineState, run: RunState, variable: int, *, besides: int) -> bool:
    """Return whether a task of an abstract machine, except ``besides``, has an attempt or has completed."""
    for member in run.members(variable):
        attempt = state.attempt_of(run, member)
        here = attempt is not None and not attempt.cancelled
        if member != besides and (here or run.state[member] == TaskState.COMPLETED):
            return True
    return False


def _wait_again(run: RunState, task: int) -> None:
    """Make the successors of a completed task wait for it again."""
    run.change_facts(task).reopened = True
    inside = task in run.loops.around
    for successor in run.compiled.after(task):
        if inside and run.loops.waits_for_end(task, successor):
            continue
        run.missing[successor] += 1
        if run.state[successor] == TaskState.READY:
            run.move(successor, TaskState.WAITING)


def _is_partly_ready(run: RunState, task: int) -> bool:
    """Return whether some predecessor of a task has completed, so that its data can be copied to the task."""
    return any(run.state[before] == TaskState.COMPLETED for before in run.compiled.before(task))


_UNRELATED_TO_MACHINE = (Cause.OUT_OF_MEMORY, Cause.TIMEOUT, Cause.CANCELLED)
"""Causes of failure after which the task may use the same machine again."""
_CAUSED_BY_MACHINE = (Cause.LOST, Cause.PREEMPTED)
"""Causes that lie in the machine, not in the task; plans may use the machine again when it is back."""

_REASONS: Mapping[Cause, str] = {Cause.LOST: MigrationReason.FAILURE}
"""Reason of a migration by cause of failure, for causes whose names differ from the reasons."""


def enact(state: EngineState, command: messages.Command) -> None:
    """Apply a command to the state."""
    ENACT[type(command)](state, command)


def _assign(state: EngineState, command: messages.Assign) -> None:
    run = state.runs[command.run]
    compiled, task, machine = run.compiled, command.task, command.machine
    seconds = 0.0
    demand: Demand = ()
    if compiled.kind[task] == COMPUTE:
        seconds = compiled.seconds(task, machine, command.count) * (1.0 - command.restart_from)
        if compiled.demands:
            demand = run.demand(task, machine, command.count)
        if compiled.graph.budget_names:
            run.change_facts(task).node_count = command.count
    iteration = run.loops.iteration(task) if run.loops.around else 1
    counters = run.loops.counters(task) if run.loops.around else ()
    attempt = Attempt(
        command.attempt,
        command.run,
        task,
        iteration,
        machine,
        command.nodes,
        command.count,
        command.reserve,
        command.order,
        command.replaces,
        command.restart_from,
        seconds,
        state.now,
        demand,
        counters,
        checkpoint=command.restart_from,
        reason=command.reason,
    )
    state.attempts[attempt.number] = attempt
    state.next_attempt = attempt.number + 1
    if command.replaces is not None:
        state.attempts[command.replaces].replaced_by = attempt.number
        state.stop_waiting(state.attempts[command.replaces])
        run.change_facts(task).migrations += 1
        run.left_behind.pop(task, None)
        if command.reason == MigrationReason.PERFORMANCE:
            _count_failure(run, task, Cause.CONTRACT)
            attempt.slow_machine = state.attempts[command.replaces].machine
    if task in run.attempt_of:
        run.move(task, TaskState.MIGRATING)
    else:
        run.early.discard(task)
        run.move(task, _SCHEDULED)
    run.set_current(attempt)
    run.version += 1
    if compiled.shared[compiled.variable[task]]:
        run.bind(task, machine)
    if command.reserve:
        state.machines.take(attempt)
        attempt.expected_end_s = state.now + seconds / state.machines.all[machine].speed_factor
    else:
        state.machines.all[machine].enqueue(attempt)
    _mark_for_start(state, attempt)


def _stage_in(state: EngineState, command: messages.StageIn) -> None:
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


def _start(state: EngineState, command: messages.Start) -> None:
    attempt = state.attempts[command.attempt]
    run = state.runs[attempt.run]
    if attempt.queued:
        state.unqueue(attempt)
    if not attempt.holds:
        state.machines.take(attempt)
    attempt.stage = _STAGE_SUBMITTED
    attempt.tries = command.tries
    if command.restart_from != attempt.restart_from:
        attempt.restart_from = attempt.checkpoint = command.restart_from
        whole_s = run.compiled.seconds(attempt.task, attempt.machine, attempt.count)
        attempt.seconds = whole_s * (1.0 - command.restart_from)
    machine = state.machines.all[attempt.machine]
    attempt.expected_end_s = state.now + attempt.seconds / machine.speed_factor
    if machine.time_shared:
        machine.begin_sharing(attempt, state.now)
    machine.changed()
    if state.settings.begins_at_once:
        attempt.stage = _STAGE_RUNNING
        attempt.started_s = state.now
        run.began(attempt)
        run.move(attempt.task, _RUNNING)
    else:
        run.move(attempt.task, TaskState.SUBMITTED)


def _cancel(state: EngineState, command: messages.Cancel) -> None:
    if (attempt := state.attempts.get(command.attempt)) is not None:
        attempt.cancelled = command.reason or "cancelled"
    if state.unknown:
        state.unknown.get(command.machine, {}).pop(command.attempt, None)


def _await_machine(state: EngineState, command: messages.AwaitMachine) -> None:
    attempt = state.attempts[command.attempt]
    state.stop_waiting(attempt)
    if command.machine is not None:
        attempt.awaited_count = command.count
        state.machines.await_nodes(attempt, command.machine)
        state.touch(command.machine)


def _stage_out(state: EngineState, command: messages.StageOut) -> None:
    attempt = state.attempts[command.attempt]
    attempt.stage = Stage.STAGING_OUT
    state.runs[attempt.run].move(attempt.task, TaskState.EPILOG)


def _clean_up(state: EngineState, command: messages.CleanUp) -> None:
    if (attempt := state.attempts.get(command.attempt)) is None:
        return
    attempt.stage = Stage.CLEANING
    run = state.runs[attempt.run]
    _forget_files(run, attempt)
    files = run.facts_of(attempt.task).restart_files
    successor = state.find_attempt(attempt.replaced_by)
    if files is not None and successor is not None and files.machine == attempt.machine:
        # The restart files have moved with the task.
        run.change_facts(attempt.task).restart_files = files._replace(machine=successor.machine)


def _close_replaced(state: EngineState, command: messages.CloseAttempt) -> None:
    if (attempt := state.attempts.get(command.attempt)) is not None:
        _forget_files(state.runs[attempt.run], attempt)
        _close_predecessor(state, attempt)


def _revert_migration(state: EngineState, command: messages.RevertMigration) -> None:
    old = state.attempts[command.attempt]
    new = state.attempts[old.replaced_by] if old.replaced_by is not None else None
    run = state.runs[old.run]
    old.replaced_by = None
    if new is not None:
        new.stage = Stage.OVER
        state.close(new)
        run.change_facts(old.task).migrations -= 1
        _avoid_slow_machine(run, new)
    run.set_current(old)
    run.bind(old.task, old.machine)
    if old.live:
        run.move(old.task, _live_state(old))


def _live_state(attempt: Attempt) -> TaskState:
    if attempt.suspended_since_s is not None:
        return TaskState.SUSPENDED
    if attempt.stage == Stage.ASSIGNED:
        return TaskState.PROLOG if attempt.staging else TaskState.SCHEDULED
    return TaskState.RUNNING if attempt.stage == Stage.RUNNING else TaskState.SUBMITTED


def _replan(state: EngineState, command: messages.Replan) -> None:
    run = state.runs[command.run]
    run.plan_wanted, run.plan_asked_s = True, state.now
    run.next_plan = ""


def _postpone_replan(state: EngineState, command: messages.PostponeReplan) -> None:
    state.runs[command.run].next_plan = command.reason


def _set_timer(state: EngineState, command: messages.SetTimer) -> None:
    state.timers[command.timer] = command.at_s


def _discover(state: EngineState, command: messages.Discover) -> None:  # noqa: ARG001
    state.inquiries.discovered_s = state.now


def _fetch(state: EngineState, command: messages.Fetch) -> None:
    state.inquiries.ask_for_state(command.machine, state.now)


def _probe(state: EngineState, command: messages.Probe) -> None:
    if command.of == ProbeTarget.ACCESS and command.machine is not None:
        state.inquiries.ask_for_access(command.machine, state.now)
    if (attempt := state.find_attempt(command.attempt)) is not None:
        attempt.probed_s = state.now


def _never_ran(attempt: Attempt, cause: Cause) -> bool:
    """Return whether an attempt failed before the command of its task ran."""
    return attempt.started_s is None or cause in (Cause.PROLOG, Cause.STAGING)


def _avoid_slow_machine(run: RunState, attempt: Attempt) -> None:
    """Keep a task from returning to the machine that it left because it was too slow there."""
    if attempt.slow_machine is not None:
        facts = run.change_facts(attempt.task)
        facts.avoid.add(attempt.slow_machine)
        facts.failed_on.add(attempt.slow_machine)


def _settle(state: EngineState, command: messages.Settle) -> None:
    run = state.runs[command.run]
    task, wanted = command.task, command.state
    attempt = state.attempt_of(run, task)
    if command.cause:
        _count_failure(run, task, command.cause)
        if attempt is not None and (command.avoid or command.cause not in _UNRELATED_TO_MACHINE):
            run.change_facts(task).avoid.add(attempt.machine)
            if command.avoid or command.cause not in _CAUSED_BY_MACHINE:
                run.change_facts(task).failed_on.add(attempt.machine)
        if attempt is not None and _never_ran(attempt, command.cause):
            _avoid_slow_machine(run, attempt)
        if command.growth is not None:
            run.change_facts(task).growth[command.cause] = command.growth
    if command.fresh and run.facts_of(task).restart_files is not None:
        run.change_facts(task).restart_files = None
        run.drop_facts(task)
    if wanted not in FINAL and run.state[task] in (TaskState.STOPPED, TaskState.FAILED):
        # The user resumes it: earlier failures no longer count.
        facts = run.change_facts(task)
        facts.failures, facts.avoid, facts.failed_on = {}, set(), set()
        run.drop_facts(task)
        if run.ending:
            _resume_run(state, run)
    if wanted == _COMPLETED:
        _complete(state, run, task, attempt)
    else:
        _settle_otherwise(state, run, task, wanted, command)
    if attempt is not None and wanted not in ACTIVE:
        if command.keep:
            _keep_files(state, run, attempt, _REASONS.get(command.cause, command.cause))
        else:
            _close_attempt(state, attempt)
            _keep_predecessor_files(state, run, attempt)
    run.version += 1
    state.pending.policy = True
    # Attempts assigned early do not keep a run active whose other tasks wait for the user.
    if run.virtual or not (len(run.ready) or (run.attempt_of and TaskState.STOPPED not in run.state)):
        state.pending.runs[run.index] = None


def _count_failure(run: RunState, task: int, cause: Cause) -> None:
    failures = run.change_facts(task).failures
    failures[cause] = failures.get(cause, 0) + 1


def _resume_run(state: EngineState, run: RunState) -> None:
    """Make an ended run active again."""
    run.ending, run.ended_s, run.stopping = None, None, ""
    state.active = dict(sorted([*state.active.items(), (run.index, run)]))
    state.roster += 1


def _finish_run(state: EngineState, command: messages.FinishRun) -> None:
    run = state.runs[command.run]
    run.ended_s, run.ending = state.now, command.outcome
    state.active.pop(run.index, None)
    state.roster += 1


def _close_attempt(state: EngineState, attempt: Attempt) -> None:
    """Close an attempt; if its files are being removed, only detach it from its task."""
    if attempt.stage != _STAGE_CLEANING:
        attempt.stage = _STAGE_OVER
        state.close(attempt)
    else:
        run = state.runs[attempt.run]
        if attempt.tries:
            run.remember_tries(attempt)
        run.drop_current(attempt.task)


def _complete(state: EngineState, run: RunState, task: int, attempt: Attempt | None) -> None:
    if attempt is not None:
        run.where[task] = attempt.machine
        attempt.tries = 0
    if task in run.facts:
        run.facts[task].complete()
        run.drop_facts(task)
    run.move(task, _COMPLETED)
    _release_after(state, run, task)


def _release_after(state: EngineState, run: RunState, task: int) -> None:
    """Release the successors of a task, except those that wait for the end of a loop."""
    compiled, loops = run.compiled, run.loops
    inside = task in loops.around
    release, attempt_of = run.release, run.attempt_of
    for successor in compiled.after(task):
        if inside and loops.waits_for_end(task, successor):
            continue
        if release(successor) and (number := attempt_of.get(successor)) in state.attempts:
            _mark_for_start(state, state.attempts[number])
    for changed in run.order.completed(task):
        run.ready.changed(changed)


def _release(state: EngineState, run: RunState, successor: int) -> None:
    if run.release(successor) and (number := run.attempt_of.get(successor)) in state.attempts:
        _mark_for_start(state, state.attempts[number])


def _settle_otherwise(
    state: EngineState, run: RunState, task: int, wanted: TaskState, command: messages.Settle
) -> None:
    if wanted in (TaskState.READY, TaskState.WAITING):
        if run.facts_of(task).order is not None:
            run.change_facts(task).order = None
        _reopen_task(state, run, task, failed=bool(command.cause))
    else:
        run.early.discard(task)
        run.move(task, wanted)
        if wanted == TaskState.FAILED:
            run.failed += 1
        if wanted == TaskState.SKIPPED or (wanted == TaskState.FAILED and command.again):
            # Successors do not wait for a skipped task or for one whose failure may be ignored.
            _release_after(state, run, task)


def _repeat_loop(state: EngineState, command: messages.RepeatLoop) -> None:
    run = state.runs[command.run]
    body = run.loops.bodies[command.body]
    body.iteration = command.iteration
    for inner in body.inner:
        run.loops.bodies[inner].iteration = 1
        run.loops.bodies[inner].left = False
    inside = set(body.tasks)
    for task in body.tasks:
        run.missing[task] = sum(1 for predecessor in run.compiled.before(task) if predecessor in inside)
        variable = run.compiled.variable[task]
        if run.compiled.shared[variable]:
            run.unbind(variable)
        if task in run.facts:
            facts = run.facts[task]
            facts.tries, facts.migrations, facts.failures, facts.reopened = 0, 0, {}, False
            run.drop_facts(task)
    for task in body.tasks:
        run.make_ready_or_waiting(task)
    if run.plan is not None:
        # The plan lines of the new iteration apply.
        run.plan = RunPlan(run.plan.stored, run.compiled, run.plan.key, run.loops.iteration)
    run.version += 1
    state.pending.runs[run.index] = None
    state.pending.policy = True


def _end_loop(state: EngineState, command: messages.EndLoop) -> None:
    run = state.runs[command.run]
    body = run.loops.bodies[command.body]
    body.left = True
    for task, successor in body.leaving:
        if run.state[task] in FINAL:
            _release(state, run, successor)
    state.pending.runs[run.index] = None
    state.pending.policy = True


def _stop_run(state: EngineState, command: messages.StopRun) -> None:
    state.runs[command.run].stopping = command.reason


def _estimate_speed(state: EngineState, command: messages.EstimateSpeed) -> None:
    if command.attempt >= 0:
        state.machines.set_speed(command.machine, command.speed_factor, state.now, learned=True)
    else:
        state.machines.forget_speed(command.machine, state.now)
    state.pending.policy = True


def _mark_machine(state: EngineState, command: messages.MarkMachine) -> None:
    machine = state.machines[command.machine]
    machine.reason, machine.lasting = "" if command.up else command.reason, False
    machine.silence = None
    state.inquiries.set_up(command.machine, command.up, state.now)
    if command.up:
        _readmit_machine(state, command.machine)
    state.pending.policy = True


def _abandon_attempt(state: EngineState, command: messages.AbandonAttempt) -> None:
    state.unknown.setdefault(command.machine, {})[command.attempt] = None


def _lose_attempt(state: EngineState, command: messages.LoseAttempt) -> None:
    attempt = state.attempts[command.attempt]
    attempt.stage = Stage.ENDED
    state.release_nodes(attempt)


def _count_requeue(state: EngineState, command: messages.CountRequeue) -> None:
    state.runs[command.run].change_facts(command.task).requeues = command.times


def _mark_violating(state: EngineState, command: messages.MarkViolating) -> None:
    state.attempts[command.attempt].violating = command.violating


def _unbind(state: EngineState, command: messages.Unbind) -> None:
    run = state.runs[command.run]
    run.unbind(run.compiled.variable[command.task])


def _select_machines(state: EngineState, command: messages.SelectMachines) -> None:
    facts = state.runs[command.run].change_facts(command.task)
    facts.order_wanted = True
    if facts.order:
        facts.order = None  # an answer without machines stays valid until the program answers again


def _change_nothing(state: EngineState, command: messages.Command) -> None:
    """Do nothing: the command only records a decision, or an event will report its effect."""


ENACT: Mapping[type, Callable[[EngineState, Any], None]] = {
    **dict.fromkeys(messages.RECORDS, _change_nothing),
    messages.Assign: _assign,
    messages.StageIn: _stage_in,
    messages.Start: _start,
    messages.Signal: _change_nothing,
    messages.Cancel: _cancel,
    messages.StageOut: _stage_out,
    messages.CleanUp: _clean_up,
    messages.CloseAttempt: _close_replaced,
    messages.RevertMigration: _revert_migration,
    messages.Probe: _probe,
    messages.Discover: _discover,
    messages.Fetch: _fetch,
    messages.SelectMachines: _select_machines,
    messages.Replan: _replan,
    messages.SetTimer: _set_timer,
    messages.Settle: _settle,
    messages.RepeatLoop: _repeat_loop,
    messages.EndLoop: _end_loop,
    messages.FinishRun: _finish_run,
    messages.AwaitMachine: _await_machine,
    messages.PostponeReplan: _postpone_replan,
    messages.StopRun: _stop_run,
    messages.EstimateSpeed: _estimate_speed,
    messages.MarkMachine: _mark_machine,
    messages.AbandonAttempt: _abandon_attempt,
    messages.LoseAttempt: _lose_attempt,
    messages.CountRequeue: _count_requeue,
    messages.MarkViolating: _mark_violating,
    messages.Unbind: _unbind,
}
"""The function that applies each kind of command."""
