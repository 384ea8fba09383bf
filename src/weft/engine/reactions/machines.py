"""Liveness probes of machines and jobs, and the queries required before a machine is used.

Liveness (docs/papers/adaptive-jobs.md, section 5): the job manager of each running attempt (on real machines
the runner) is probed at an interval. If the job manager does not answer, the machine itself (its gatekeeper)
is probed. If the machine answers, a new job manager is attached to the job. If the machine does not answer
either, it or the network has failed, and the tasks continue on other machines from their last restart files.
If the machine answers again later, its old jobs are cancelled, because only one attempt of a task may
continue.

Selection (section 3; E. Huedo, R. Montero, I. Llorente, The GridWay Framework for Adaptive Scheduling and
Execution on Grids) has four steps: discover, filter, authorise, fetch. After them the policy ranks the
machines. The list of machines and the state of each machine have their own query intervals. Each step waits
for the answer to the step before, and only machines that passed all steps are used.

Deviations: access is tested again with every new list. Machines that no task of an active run can use (step
2) are not queried.
"""

from __future__ import annotations

import math

from weft.engine import messages
from weft.engine.context import DecisionContext
from weft.engine.reactions.failures import fail_task
from weft.engine.reactions.migration import (
    cancel_migration,
    prepare_successor,
    relocate_attempt,
    settle_cancelled,
)
from weft.engine.reactions.replanning import replan_on_answer
from weft.engine.states import (
    FINAL,
    Admission,
    Attempt,
    Cause,
    MigrationReason,
    ProbeTarget,
    Stage,
    TimerKind,
)

_ON_THE_MACHINE = (Stage.SUBMITTED, Stage.RUNNING)


def probe_attempts(context: DecisionContext) -> None:
    """Probe the job managers of all running attempts, and the machines that are down.

    An attempt that was cancelled before its start has no job manager; its machine is probed instead.
    """
    every_s = context.settings.ladder_every_s
    if every_s is None:
        return
    state = context.state
    for attempt in list(state.attempts.values()):
        if attempt.stage in _ON_THE_MACHINE:
            _probe_attempt(context, ProbeTarget.JOB, attempt)
        elif _is_unconfirmed(attempt):
            _probe_attempt(context, ProbeTarget.MACHINE, attempt)
    for machine in state.machines:
        if not machine.up:
            context.emit(messages.Probe(of=ProbeTarget.MACHINE, machine=machine.index))
    if state.active:
        context.set_timer(TimerKind.LADDER, state.now + every_s)


def _probe_attempt(context: DecisionContext, of: ProbeTarget, attempt: Attempt) -> None:
    context.emit(messages.Probe(of=of, attempt=attempt.number, machine=attempt.machine))


def _is_unconfirmed(attempt: Attempt) -> bool:
    """Return whether an attempt was cancelled before its start and the cancellation is not confirmed."""
    return attempt.stage == Stage.ASSIGNED and bool(attempt.cancelled)


def probe_machine(context: DecisionContext, attempt: Attempt, cause: str) -> None:
    """Probe the machine of a failed attempt if the cause is LOST and the settings require liveness probes."""
    if (
        cause == Cause.LOST
        and context.settings.ladder_every_s is not None
        and context.state.machines[attempt.machine].up
    ):
        context.emit(messages.Probe(of=ProbeTarget.MACHINE, machine=attempt.machine))


def handle_answer(context: DecisionContext, event: messages.ProbeAnswered) -> None:
    """Handle the result of a probe of a job manager or a machine.

    If a job manager does not answer, its machine is probed. A machine that does not answer is marked as down.
    If the machine answers, a new job manager is attached to the job.
    """
    attempt = context.state.find_attempt(event.attempt)
    if attempt is not None and not (attempt.stage in _ON_THE_MACHINE or _is_unconfirmed(attempt)):
        attempt = None  # it has ended meanwhile
    if event.of == ProbeTarget.JOB:
        if not event.alive and attempt is not None:
            _probe_attempt(context, ProbeTarget.MACHINE, attempt)
    elif event.of == ProbeTarget.MACHINE and event.machine is not None:
        if not event.alive:
            _mark_down(context, event.machine)
        elif not context.state.machines[event.machine].up:
            context.emit(messages.MarkMachine(machine=event.machine, reason="it answers again", up=True))
            handle_machine_return(context, event.machine)
            replan_on_answer(context)
        elif attempt is not None and _is_unconfirmed(attempt):
            # The machine was down when the cancellation was sent, so it is sent again.
            context.cancel(attempt, attempt.cancelled)
        elif attempt is not None:
            context.emit(messages.ReattachJob(attempt=attempt.number, machine=event.machine))
            context.emit(
                messages.Probe(of=ProbeTarget.REATTACH, attempt=attempt.number, machine=event.machine)
            )


def _mark_down(context: DecisionContext, machine: int) -> None:
    if not context.state.machines[machine].up:
        return
    context.emit(
        messages.MarkMachine(machine=machine, reason="neither job manager nor gatekeeper answers", up=False)
    )
    for attempt in list(context.state.attempts.values()):
        if attempt.machine == machine and attempt.stage in _ON_THE_MACHINE:
            context.emit(messages.AbandonAttempt(attempt=attempt.number, machine=machine))
    handle_machine_loss(context, machine)


def handle_machine_return(context: DecisionContext, machine: int) -> None:
    """Cancel abandoned attempts that may still run on a machine that came back."""
    for number in list(context.state.unknown.get(machine, ())):
        context.emit(messages.Cancel(attempt=number, machine=machine, reason="given up"))


def handle_machine_loss(context: DecisionContext, machine: int) -> None:
    """Retry the tasks whose programs ran on a lost machine, reopen those that had not started there.

    Abstract machines are unbound from the machine.
    """
    state = context.state
    _call_off_migrations(context, machine, f"{state.machines[machine].name} is lost")
    for attempt in list(state.attempts.values()):
        if attempt.machine == machine and attempt.number in state.attempts:
            _lose_attempt(context, attempt)
    _free_abstract_machines(context, machine)


def _call_off_migrations(context: DecisionContext, machine: int, reason: str) -> None:
    """Call off the migrations that wait for nodes of a machine, which is lost or closed."""
    for number in list(context.state.machines[machine].awaited_by):
        context.call_off_migration(context.state.attempts[number], f"it does not move: {reason}")


def handle_admission(context: DecisionContext, machine: int, admission: Admission) -> None:
    """Move tasks off a machine that the user has closed.

    If the machine is drained, only tasks that have not started move; if it is removed, all tasks move.
    """
    if admission == Admission.OPEN:
        return
    state, name = context.state, context.state.machines[machine].name
    text = f"{name} is drained" if admission == Admission.DRAINED else f"{name} was removed"
    _call_off_migrations(context, machine, text)
    for attempt in [each for each in state.attempts.values() if each.machine == machine]:
        run = state.runs[attempt.run]
        if attempt.cancelled or run.attempt_of.get(attempt.task) != attempt.number:
            continue
        if attempt.stage == Stage.ASSIGNED and attempt.replaces not in state.attempts:
            if attempt.staging:
                context.cancel(attempt, text)
            else:
                context.reopen(run, attempt.task, text)
        elif admission == Admission.REMOVED and attempt.stage in _ON_THE_MACHINE:
            relocate_attempt(context, attempt, MigrationReason.USER)
    _free_abstract_machines(context, machine, text)


def _free_abstract_machines(context: DecisionContext, machine: int, text: str = "") -> None:
    """Unbind abstract machines that have unfinished tasks from a lost or closed machine.

    ``text`` is the reason that is recorded; "": the machine is lost. Tasks that completed on the machine are
    not run again here.
    """
    text = text or f"{context.state.machines[machine].name} is lost"
    for run in list(context.state.active.values()):
        for variable, bound in sorted(run.binding.items()):
            waiting = [task for task in run.members(variable) if run.state[task] not in FINAL]
            if bound == machine and waiting:
                context.emit(messages.Unbind(run=run.index, task=waiting[0], machine=machine, reason=text))


def _lose_attempt(context: DecisionContext, attempt: Attempt) -> None:
    state = context.state
    run, text = state.runs[attempt.run], f"{state.machines[attempt.machine].name} is lost"
    if run.attempt_of.get(attempt.task) == attempt.number:
        old = state.find_attempt(attempt.replaces)
        if old is not None and old.stage != Stage.CLEANING:
            cancel_migration(context, run, attempt, old)
        elif attempt.started_s is not None:
            fail_task(context, run, attempt.task, Cause.LOST, text)
        elif run.stopping or attempt.cancelled == "held":
            settle_cancelled(context, run, attempt)
        else:
            context.reopen(run, attempt.task, text)  # it has not started, so it uses no retry
    elif attempt.stage == Stage.CLEANING:
        context.emit(messages.CloseAttempt(attempt=attempt.number))
    elif attempt.live:
        # Its task is migrating; on a lost machine there is nothing to cancel or clean up.
        context.emit(messages.LoseAttempt(attempt=attempt.number, machine=attempt.machine))
        prepare_successor(context, attempt)


def refresh_inquiries(context: DecisionContext) -> None:
    """Send the queries that are due and set a timer for the next one.

    O(active workflows + machines changed or due).
    """
    state, settings, inquiries = context.state, context.settings, context.state.inquiries
    if not inquiries.needed or not state.active:
        return
    if _is_due(inquiries.discovered_s, settings.discover_every_s, state.now):
        context.emit(messages.Discover())
    inquiries.agenda.set_wanted({index: run.compiled.machines for index, run in state.active.items()})
    for machine in inquiries.agenda.pop_due(state.now):
        _inquire(context, machine)
    due_s = min(_due_s(inquiries.discovered_s, settings.discover_every_s), inquiries.agenda.fetch.first())
    if due_s < math.inf and state.timers.get(TimerKind.SELECT) != due_s:
        context.set_timer(TimerKind.SELECT, due_s)


def _inquire(context: DecisionContext, machine: int) -> None:
    """Send the access test and state query that are due for a machine, and record the next due times."""
    now, settings, inquiries = context.state.now, context.settings, context.state.inquiries
    may_query, probed_s, fetched_s = _is_wanted(context, machine), math.inf, math.inf
    if may_query and settings.authorise:
        # Without a periodic list, access is tested once.
        every_s = settings.discover_every_s or math.inf
        if _is_due(inquiries.access_asked_s.get(machine), every_s, now):
            context.emit(messages.Probe(of=ProbeTarget.ACCESS, machine=machine))
        probed_s = _due_s(inquiries.access_asked_s.get(machine), every_s)
        may_query = inquiries.access.get(machine, False)
    if may_query:
        # A backend that measures by itself is asked once.
        measured_s, pushes = inquiries.measures_every_s, settings.pushes_state
        asked_s, interval_s = inquiries.fetch_asked_s.get(machine), math.inf if pushes else measured_s
        if measured_s is not None and _is_due(asked_s, interval_s, now):
            context.emit(messages.Fetch(machine=machine, every_s=measured_s if pushes else None))
        fetched_s = _due_s(inquiries.fetch_asked_s.get(machine), interval_s)
    inquiries.agenda.access.put(machine, probed_s)
    inquiries.agenda.fetch.put(machine, fetched_s)


def _is_wanted(context: DecisionContext, machine: int) -> bool:
    """Return whether a machine is listed, up and open, and a candidate for some task of an active run."""
    state, inquiries = context.state, context.state.inquiries
    listed = context.settings.discover_every_s is None or machine in (inquiries.listed or ())
    open_to_tasks = state.machines[machine].up and state.machines[machine].admission == Admission.OPEN
    return listed and inquiries.agenda.is_wanted(machine) and open_to_tasks


def _is_due(queried_s: float | None, every_s: float | None, now: float) -> bool:
    # Use the same sum as the timer, or rounding could make the timer fire too early.
    return every_s is not None and (queried_s is None or now >= queried_s + every_s)


def _due_s(queried_s: float | None, every_s: float | None) -> float:
    return math.inf if every_s is None or queried_s is None else queried_s + every_s
