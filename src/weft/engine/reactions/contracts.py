"""Performance contracts: the limits of running attempts, and the polls that detect violations.

The contracts of two papers have one interface (docs/papers/unified.md, section 6): a ratio of projected to
predicted time, and a limit for it.

- Performance contract: R. Prodan, T. Fahringer, Dynamic Scheduling of Scientific Workflow Applications on the
  Grid: A Case Study, SAC 2005 (docs/papers/dynamic-grid.md, section 9). The ratio is the total time projected
  from the work done, divided by the predicted time, minus 1. Without progress information the elapsed time is
  used, which makes the contract a timeout.
- Iteration profile and suspension timeout: E. Huedo, R. Montero, I. Llorente, The GridWay Framework for
  Adaptive Scheduling and Execution on Grids (docs/papers/adaptive-jobs.md, sections 2, 3 and 6). The ratio is
  the time of the last iteration, divided by the expected time of an iteration, minus 1. Another limit is the
  number of seconds that an attempt may wait or be suspended.
- The delay of a whole workflow (docs/papers/many-workflows.md) is checked like the first contract without
  progress information. It is measured from the arrival; the predicted time is the makespan on the empty
  platform.

A violation is determined by comparing times (start plus allowance), never quotients: at the last allowed time
the contract is met, at the next larger double it is violated. One timer polls all running attempts with a
contract. The progress of an attempt also updates the estimated speed of its machine; this estimate expires.

Deviations from dynamic-grid.md: there a contract is checked until the predicted end, here until the attempt
ends. The work done is the work that was last reported. Until the next report is overdue, the time since the
last report does not count against the attempt. (If ``reported_s`` is None, the work done is known at all
times, as in the paper.) The time for which a host did not answer does not count: a fault of the network must
not cause a migration. With an iteration profile the work done is ignored, but the limit of the elapsed time
still applies. The grace period applies to every performance rule, not only while no work is done.
"""

from __future__ import annotations

import math
from enum import Enum

from weft.engine import messages
from weft.engine.context import DecisionContext
from weft.engine.ranking import accepts_machine, check_requirement
from weft.engine.reactions import migration, replanning
from weft.engine.states import Attempt, MigrationReason, ProbeTarget, Stage, TaskState, TimerKind
from weft.records import dataclass

_GRACE_SHARE = 0.1
"""Share of the predicted time that passes before an attempt is checked (dynamic-grid.md, section 9)."""


class Breach(Enum):
    """The kind of limit that was violated; it is also the reason for the migration."""

    PERFORMANCE = "performance"
    """The attempt is too slow, by its work, its iterations or its total time."""
    WAITING = "waiting"
    """The attempt was suspended or queued on the machine for too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PerformanceSample:
    """Measured progress of an attempt. Work that it took over from restart files does not count."""

    started_s: float | None = None
    """Time at which the program of the attempt started; None: not started."""
    predicted_s: float = math.inf
    """Predicted seconds of this attempt; if they are 0 or infinite, the attempt is never late."""
    work: float = 1.0
    """Total work of this attempt, in any unit."""
    done: float | None = None
    """Work done in this attempt, in the same unit; None: unknown."""
    reported_s: float | None = None
    """Time at which ``done`` was measured; None: ``done`` is current at all times."""
    reports_every_s: float | None = None
    """Seconds between progress reports; None: unknown."""
    last_iteration_s: float | None = None
    """Seconds of the last iteration in the application's profile; None: no profile."""
    expected_iteration_s: float | None = None
    waiting_since_s: float | None = None
    """Start of the current wait or suspension; None: the attempt neither waits nor is suspended."""

    @property
    def finished(self) -> bool:
        """Return whether all work of the attempt is reported as done."""
        return self.done is not None and self.done >= self.work

    @property
    def timed(self) -> bool:
        """Return whether the attempt has a predicted time to compare with."""
        return 0 < self.predicted_s < math.inf

    @property
    def profiled(self) -> bool:
        """Return whether the last and the expected iteration time are known, so that they can be compared."""
        return self.last_iteration_s is not None and bool(self.expected_iteration_s)

    def grace_end_s(self, grace_s: float | None = None) -> float:
        """Return the time of the first check: after ``grace_s``, and not before the first report is due.

        If ``grace_s`` is None, a tenth of the predicted time is used.
        """
        if grace_s is None:
            grace_s = _GRACE_SHARE * self.predicted_s if self.timed else 0.0
        return (self.started_s or 0.0) + max(grace_s, self.reports_every_s or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PerformanceContract:
    """The limits of an attempt: for the ratio of its times, for an iteration, and for waiting.

    The ratio is that of projected to predicted time (``compute_ratio``).
    """

    limit: float | None = 0.5
    """Largest allowed ratio (``compute_ratio``; the factor of the paper); None: no limit."""
    grace_s: float | None = None
    """Seconds before the first check; None: a tenth of the predicted time."""
    iteration_limit_s: float | None = None
    """Seconds an iteration may take; None: (1 + ``limit``) times the expected seconds."""
    waiting_limit_s: float | None = None
    """Seconds the attempt may wait or be suspended; None: no limit."""


def compute_ratio(watched: PerformanceSample, now_s: float) -> float | None:
    """Return projected time / predicted time - 1 of an attempt; None: cannot be computed now.

    0: on schedule; 1: twice the predicted time; -0.5: half of the predicted time.
    """
    if watched.started_s is None or watched.finished:
        return None
    if now_s <= watched.started_s:
        return 0.0
    ratios = (_iteration_ratio(watched), _time_ratio(watched, now_s))
    shares = [share for share in ratios if share is not None]
    return max(shares) - 1.0 if shares else None


def find_breach(watched: PerformanceSample, contract: PerformanceContract, now_s: float) -> Breach | None:
    """Return the kind of limit that is violated; None: no violation. The waiting limit is checked first."""
    if now_s >= _waited_s(watched, contract):
        return Breach.WAITING
    return Breach.PERFORMANCE if now_s >= _late_s(watched, contract) else None


def next_check_s(watched: PerformanceSample, contract: PerformanceContract, now_s: float) -> float | None:
    """Return when the contract will be violated if no report arrives; None: never.

    The returned time is not before ``now_s``.
    """
    moment_s = min(_waited_s(watched, contract), _late_s(watched, contract))
    return max(moment_s, now_s) if moment_s < math.inf else None


def _iteration_ratio(watched: PerformanceSample) -> float | None:
    """Return the time of the last iteration divided by the expected time; None: one of them is unknown."""
    if watched.last_iteration_s is None or not watched.expected_iteration_s:
        return None
    return watched.last_iteration_s / watched.expected_iteration_s


def _time_ratio(watched: PerformanceSample, now_s: float) -> float | None:
    """Return the larger of elapsed and projected time, divided by the predicted time; None: unknown."""
    started_s = watched.started_s or 0.0
    if not watched.timed:
        return None
    if watched.done == 0 and not watched.profiled and now_s < watched.grace_end_s():
        return None  # no work is done yet, so the projected time would be infinite
    passed = (now_s - started_s) / watched.predicted_s
    if not watched.done or watched.profiled:
        return passed
    share_s = watched.predicted_s * (watched.done / watched.work)
    projected = (_known_until_s(watched, now_s) - started_s) / share_s if share_s > 0 else math.inf
    return max(passed, projected)


def _known_until_s(watched: PerformanceSample, now_s: float) -> float:
    """Return the time at which the attempt had done the reported work.

    This is the time of the last report. If the next report is overdue, it is the time one reporting interval
    ago: until then the program has done no more than it reported.
    """
    if watched.reported_s is None:
        return now_s
    if watched.reports_every_s is None:
        return watched.reported_s
    return max(watched.reported_s, now_s - watched.reports_every_s)


def _waited_s(watched: PerformanceSample, contract: PerformanceContract) -> float:
    """Return the first time at which the wait exceeds its limit; infinity: never."""
    if watched.waiting_since_s is None or contract.waiting_limit_s is None:
        return math.inf
    return _next_moment(watched.waiting_since_s + contract.waiting_limit_s)


def _late_s(watched: PerformanceSample, contract: PerformanceContract) -> float:
    """Return the first time at which the attempt is too slow if no progress is reported; infinity: never."""
    if watched.started_s is None or watched.finished:
        return math.inf
    moments = (
        _iteration_late_s(watched, contract, watched.started_s),
        _work_late_s(watched, contract, watched.started_s),
    )
    return max(min(moments), watched.grace_end_s(contract.grace_s))


def _iteration_late_s(watched: PerformanceSample, contract: PerformanceContract, started_s: float) -> float:
    """Return the start of the attempt if its last iteration was too slow, else infinity."""
    allowed_s = contract.iteration_limit_s
    if allowed_s is None and contract.limit is not None and watched.profiled:
        allowed_s = (1 + contract.limit) * (watched.expected_iteration_s or 0.0)
    slow = allowed_s is not None and (watched.last_iteration_s or 0.0) > allowed_s
    return started_s if slow else math.inf


def _work_late_s(watched: PerformanceSample, contract: PerformanceContract, started_s: float) -> float:
    """Return the first time at which the elapsed time exceeds the time allowed for the work done."""
    if contract.limit is None or not watched.timed:
        return math.inf
    allowed_s = (1 + contract.limit) * watched.predicted_s
    overdue_s = _next_moment(started_s + allowed_s)
    if not watched.done or watched.profiled:
        return overdue_s
    last_s = started_s + allowed_s * (watched.done / watched.work)
    if watched.reported_s is None:
        return min(overdue_s, _next_moment(last_s))
    if watched.reported_s > last_s:
        return watched.reported_s
    if watched.reports_every_s is None:
        return overdue_s
    return min(overdue_s, _next_moment(last_s + watched.reports_every_s))


def _next_moment(moment_s: float) -> float:
    """Return the next larger floating-point number."""
    return math.nextafter(moment_s, math.inf)


_SLOW, _USUAL = 0.9, 1.0
"""Speed factors: a machine counts as slow if its factor is below ``_SLOW``.

A larger estimate is replaced by ``_USUAL``, the nominal speed.
"""


def start_monitoring(context: DecisionContext, attempt: Attempt) -> None:
    """Set the poll timer if a started attempt has a contract and the timer is not set."""
    if TimerKind.WATCH not in context.state.timers and _is_watched(context, attempt):
        context.set_timer(TimerKind.WATCH, context.state.now + context.settings.poll_every_s)


def _is_watched(context: DecisionContext, attempt: Attempt) -> bool:
    """Return whether an attempt has a contract or an evaluator program."""
    run = context.state.runs[attempt.run]
    untimed = run.compiled.is_untimed(attempt.task)
    return run.settings_of(attempt.task).polls_progress(untimed=untimed)


def _find_contract(context: DecisionContext, attempt: Attempt) -> PerformanceContract | None:
    """Return the performance contract of an attempt; None: it has no limits."""
    run = context.state.runs[attempt.run]
    settings = run.settings_of(attempt.task)
    if not settings.has_contract:
        return None
    # Without an estimate there is nothing to compare with; a placeholder is not an estimate.
    limit = None if run.compiled.is_untimed(attempt.task) else settings.contract
    if limit is None and settings.iteration_limit_s is None:
        return None
    return PerformanceContract(
        limit=limit, grace_s=settings.grace_s, iteration_limit_s=settings.iteration_limit_s
    )


def poll_attempts(context: DecisionContext) -> None:
    """Probe every running attempt with a contract or evaluator, and reset old speed estimates to nominal.

    An attempt on a host that does not answer is not probed: its state is unknown.
    """
    state, settings = context.state, context.settings
    watched = [
        attempt
        for attempt in state.attempts.values()
        if attempt.stage == Stage.RUNNING and not attempt.cancelled and _is_watched(context, attempt)
    ]
    for attempt in watched:
        if state.machines[attempt.machine].silence is None:
            context.emit(messages.Probe(of=ProbeTarget.PROGRESS, attempt=attempt.number))
    for index in sorted(state.machines.off_nominal):
        machine = state.machines[index]
        if machine.learned_factor < _USUAL and state.now - machine.believed_at_s >= settings.belief_s:
            context.emit(messages.EstimateSpeed(machine=index, speed_factor=_USUAL, reason="forgotten"))
    if watched:
        context.set_timer(TimerKind.WATCH, state.now + settings.poll_every_s)


def handle_progress(context: DecisionContext, event: messages.Progressed) -> None:
    """Check the contract of an attempt after a progress report."""
    attempt = context.state.attempts.get(event.attempt)
    if attempt is None or attempt.stage != Stage.RUNNING or attempt.cancelled:
        return
    if event.problem:
        context.report_module(attempt.run, attempt.task, attempt.number, "evaluator", event.problem)
    if event.degraded:
        # A report of poor performance counts as a violation (gw_perf in docs/papers/adaptive-jobs.md).
        _record_violation(context, attempt, text=event.degraded)
        migration.relocate_attempt(context, attempt, MigrationReason.PERFORMANCE, requested=True)
        return
    if (contract := _find_contract(context, attempt)) is None:
        return
    if context.state.machines[attempt.machine].silence is not None:
        return  # the report was on the way; the contract is checked when the host answers again
    watched, known_until_s = _sample_attempt(context, attempt), context.state.now - event.silent_s
    behind = compute_ratio(watched, known_until_s)
    _update_speed_estimate(context, attempt, behind)
    if find_breach(watched, contract, known_until_s) is Breach.PERFORMANCE:
        _record_violation(context, attempt, behind=behind)
        if not replanning.replan_on_violation(context, attempt):
            migration.relocate_attempt(context, attempt, MigrationReason.PERFORMANCE, behind=behind)
    elif attempt.violating:
        context.emit(
            messages.MarkViolating(
                run=attempt.run, task=attempt.task, attempt=attempt.number, ratio=behind, violating=False
            )
        )


def _record_violation(
    context: DecisionContext, attempt: Attempt, *, behind: float | None = None, text: str = ""
) -> None:
    context.emit(
        messages.ReportViolation(
            run=attempt.run,
            task=attempt.task,
            attempt=attempt.number,
            machine=attempt.machine,
            ratio=behind,
            reason=text,
        )
    )


def _sample_attempt(context: DecisionContext, attempt: Attempt) -> PerformanceSample:
    """Return the measured progress of a running attempt.

    A delay caused by other tasks on a time-shared machine does not count, nor does the time for which the
    host did not answer: the start is moved by both.
    """
    machine = context.state.machines[attempt.machine]
    done = None if attempt.work_done is None else max(0.0, attempt.work_done - attempt.restart_from)
    return PerformanceSample(
        started_s=(
            None
            if attempt.started_s is None
            else attempt.started_s + machine.delay_s(attempt, context.state.now) + attempt.silent_s
        ),
        predicted_s=attempt.seconds,
        work=1.0 - attempt.restart_from,
        done=done,
        reported_s=attempt.reported_s if attempt.dated else None,
        reports_every_s=attempt.reports_every_s,
        last_iteration_s=attempt.last_iteration_s,
        expected_iteration_s=_expected_iteration_s(attempt, machine.crowding()),
        waiting_since_s=attempt.suspended_since_s,
    )


def _expected_iteration_s(attempt: Attempt, crowding: float) -> float | None:
    """Return the expected seconds of an iteration; None: the number of iterations is unknown.

    ``crowding``: factor by which programs on a time-shared machine slow each other down.
    """
    left = 1.0 - attempt.restart_from
    if not attempt.all_iterations or left <= 0.0:
        return None
    return attempt.seconds * crowding / (left * attempt.all_iterations)


def _update_speed_estimate(context: DecisionContext, attempt: Attempt, behind: float | None) -> None:
    """Update the estimated speed of a machine from the progress of an attempt that runs on it.

    ``behind`` is the ratio of the attempt (``compute_ratio``); None: unknown.
    """
    if behind is None or attempt.work_done is None:
        return
    speed = 1.0 / (1.0 + behind) if behind > -1.0 else _USUAL
    believed = speed if speed < _SLOW else _USUAL
    machine = context.state.machines[attempt.machine]
    if abs(machine.speed_factor - believed) > 0.05 * machine.speed_factor:
        context.emit(
            messages.EstimateSpeed(machine=attempt.machine, attempt=attempt.number, speed_factor=believed)
        )


def handle_suspension(context: DecisionContext, event: messages.Suspended) -> None:
    """Set a timer to migrate an attempt that stays suspended (suspension timeout of adaptive-jobs.md)."""
    attempt = context.state.attempts.get(event.attempt)
    if attempt is None or attempt.suspended_since_s is None:
        return
    timeout_s = context.state.runs[attempt.run].settings_of(attempt.task).suspension_timeout_s
    if timeout_s is not None:
        context.set_timer(TimerKind.SUSPENDED.name_of(attempt.number), context.state.now + timeout_s)


def handle_delay(context: DecisionContext, event: messages.StartDelayed) -> None:
    """Set a timer to migrate an attempt whose job is not submitted or stays in the queue."""
    attempt = context.state.attempts.get(event.attempt)
    if attempt is not None and attempt.stage == Stage.SUBMITTED:
        limit_waiting(context, attempt)


def limit_waiting(context: DecisionContext, attempt: Attempt) -> None:
    """Set a timer to migrate an attempt that stays in its machine's own queue."""
    timeout_s = context.state.runs[attempt.run].settings_of(attempt.task).waiting_timeout_s
    if timeout_s is not None:
        context.set_timer(TimerKind.WAITING.name_of(attempt.number), context.state.now + timeout_s)


def end_waiting(context: DecisionContext, number: int) -> None:
    """Migrate an attempt if its machine has not started it by the time the waiting timer fires."""
    attempt = context.state.attempts.get(number)
    if attempt is not None and attempt.stage == Stage.SUBMITTED and not attempt.cancelled:
        migration.relocate_attempt(context, attempt, MigrationReason.WAITING)


def end_suspension(context: DecisionContext, number: int) -> None:
    """Migrate an attempt that is still suspended when the suspension timer fires."""
    attempt = context.state.attempts.get(number)
    if attempt is not None and attempt.suspended_since_s is not None and not attempt.cancelled:
        migration.relocate_attempt(context, attempt, MigrationReason.SUSPENSION)


def handle_requirements(context: DecisionContext, event: messages.RequirementsChanged) -> None:
    """Migrate an attempt whose machine does not meet its changed requirements (self-migration)."""
    attempt = context.state.attempts.get(event.attempt)
    if attempt is None or attempt.cancelled or attempt.stage > Stage.RUNNING:
        return
    run = context.state.runs[attempt.run]
    said = [text for text in (event.requirements, event.rank) if text is not None]
    problems = [event.problem]
    problems += [check_requirement(text, run, attempt.task) for text in (event.requirements,) if text]
    problems += [check_requirement(text, run, attempt.task, is_rank=True) for text in (event.rank,) if text]
    for problem in problems:
        if problem:
            context.emit(
                messages.IgnoreRequirement(run=run.index, task=attempt.task, reason=f"ignored: {problem}")
            )
    if not said:
        return
    met = accepts_machine(context.state, run, attempt.task, attempt.machine)
    if event.mandatory and not met and run.state[attempt.task] != TaskState.MIGRATING:
        migration.relocate_attempt(context, attempt, MigrationReason.SELF_MIGRATION)
