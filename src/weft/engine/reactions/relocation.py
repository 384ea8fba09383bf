"""Relocation: whether and where an attempt migrates, for the five reasons of docs/papers/adaptive-jobs.md,
section 1.

By default an attempt leaves a slow machine only if the remaining time here exceeds the remaining time there,
including the move, by a share that grows with every migration of the task. With ``migrate: always`` it moves
to the best free machine, as in both papers. An attempt that must leave and finds no machine waits without
nodes and keeps its restart files (section 4).

The remaining time there depends on the work that restart files save with that node count: a moldable task
with ``nodes: any`` may change its node count, another task keeps it or starts from zero, whichever ends
sooner.
"""

from __future__ import annotations

from weft.engine import messages
from weft.engine.context import DecisionContext
from weft.engine.reactions.failures import count_retries
from weft.engine.reactions.migration import migrate_attempt
from weft.engine.selection import estimate_work_done, spared_share_if_ended
from weft.engine.state.run import RunState
from weft.engine.states import Attempt, Cause, MigrationReason, Stage, TimerKind
from weft.engine.view import EngineView
from weft.policies.policy import Mode

__all__ = [
    "MANDATORY_REASONS",
    "is_worth_moving",
    "move_to_better_machines",
    "relocate_attempt",
    "time_left_s",
]


MANDATORY_REASONS = frozenset(
    {
        MigrationReason.SELF_MIGRATION,
        MigrationReason.SUSPENSION,
        MigrationReason.WAITING,
        MigrationReason.USER,
    }
)
"""Reasons for which an attempt leaves even if no machine is free. ``performance`` and ``better-machine`` are
optional; ``failure`` and ``preempted`` are handled in ``failures``.
"""

_MAX_GAIN = 0.95

_MAX_MOVES = 50
"""Migrations after which a task no longer looks for a better machine. The paper has no limit, but a task that
is slower than estimated on every machine, has no restart files and a constant threshold would move forever.
"""


def relocate_attempt(
    context: DecisionContext, attempt: Attempt, reason: str, *, behind: float | None = None
) -> None:
    """Migrate an attempt for a reason, if the move is mandatory or saves enough time."""
    run = context.state.runs[attempt.run]
    must = reason in MANDATORY_REASONS
    if not must and context.settings.migrate == "never":
        return
    allowed = count_retries(context, run, attempt.task, Cause.CONTRACT)
    if (
        reason == MigrationReason.PERFORMANCE
        and run.facts_of(attempt.task).failures.get(Cause.CONTRACT, 0) >= allowed
    ):
        _record_stay(context, attempt, reason, f"it has moved {allowed} times for that")
        return
    found = _find_best_mode(context, run, attempt)
    if found is None:
        if must:
            context.cancel(attempt, reason)
        else:
            _record_stay(context, attempt, reason, "no other machine is free")
        return
    target, there_s = found
    if (
        must
        or context.settings.migrate == "always"
        or is_worth_moving(context, attempt, reason, there_s, behind=behind)
    ):
        migrate_attempt(context, attempt, target.machine, target.count, reason)


def is_worth_moving(
    context: DecisionContext, attempt: Attempt, reason: str, there_s: float, *, behind: float | None = None
) -> bool:
    """Return whether a move saves the required share of the remaining time; if not, record why the attempt
    stays.
    """
    here_s = time_left_s(context, attempt, behind)
    wanted = _required_gain(context, context.state.runs[attempt.run], attempt.task)
    if there_s < (1.0 - wanted) * here_s:
        return True
    text = f"{here_s:.6g} s left here, {there_s:.6g} s there: less than {wanted:.0%} saved"
    _record_stay(context, attempt, reason, text)
    return False


def _required_gain(context: DecisionContext, run: RunState, task: int) -> float:
    """Return the share of the remaining time that a migration must save; it grows to prevent moving back and
    forth.
    """
    settings = context.settings
    return min(_MAX_GAIN, settings.gain * settings.gain_growth ** run.facts_of(task).migrations)


def _record_stay(context: DecisionContext, attempt: Attempt, reason: str, text: str) -> None:
    context.emit(
        messages.KeepAttempt(
            run=attempt.run, task=attempt.task, attempt=attempt.number, reason=f"{reason}: {text}"
        )
    )


def time_left_s(context: DecisionContext, attempt: Attempt, behind: float | None = None) -> float:
    """Estimate the remaining seconds of an attempt, at its own pace or that of its machine."""
    state = context.state
    pace = 1.0 / state.machines[attempt.machine].speed_factor
    if behind is not None:
        pace = max(pace, 1.0 + behind)
    whole = 1.0 - attempt.restart_from
    if attempt.started_s is None or whole <= 0.0:
        return attempt.seconds * pace
    if attempt.work_done is None and behind is not None and behind > 0.0:
        # Only the delay is known: assume at least the estimated seconds once more.
        return max(pace * attempt.seconds - (state.now - attempt.started_s), attempt.seconds)
    return (1.0 - estimate_work_done(state, attempt)) / whole * attempt.seconds * pace


def _find_best_mode(context: DecisionContext, run: RunState, attempt: Attempt) -> tuple[Mode, float] | None:
    """Return the best mode elsewhere, by the task's rank, then the remaining seconds, and these seconds."""
    view = EngineView(context.state)
    seen = view.run(run.index)
    modes = view.modes(seen, attempt.task, but=attempt.machine, rebind=True)
    best: tuple[float, float, int, int] | None = None
    chosen = None
    for mode in modes:
        if mode.machine == attempt.machine:
            continue
        rank = view.rank(seen, attempt.task, mode.machine)
        there_s = _time_there_s(context, run, attempt, mode)
        key = (-rank if rank is not None else 0.0, there_s, mode.machine, mode.count)
        if best is None or key < best:
            best, chosen = key, (mode, there_s)
    return chosen


def _time_there_s(context: DecisionContext, run: RunState, attempt: Attempt, mode: Mode) -> float:
    """Estimate the seconds of an attempt elsewhere: staging, restart, and the remaining work."""
    state, task = context.state, attempt.task
    share = spared_share_if_ended(state, run, attempt, mode.count)
    seconds = run.compiled.seconds(task, mode.machine, mode.count) * (1.0 - share)
    files = run.facts_of(task).restart_files
    source = attempt.machine if files is None else files.machine
    files_s = (
        run.instance.link_s(source, mode.machine, run.compiled.restart_bytes(task), 1.0, 0.0)
        if share
        else 0.0
    )
    moving_s = mode.ready_s - state.now + files_s + context.settings.restart_cost_s
    return moving_s + seconds / state.machines[mode.machine].speed_factor


def move_to_better_machines(context: DecisionContext) -> None:
    """Migrate running attempts to machines that save the required share (opportunistic migration)."""
    state, every_s = context.state, context.settings.better_every_s
    if every_s is None:
        return
    for attempt in list(state.attempts.values()):
        if attempt.stage != Stage.RUNNING or attempt.cancelled or context.settings.migrate == "never":
            continue
        run = state.runs[attempt.run]
        if run.facts_of(attempt.task).migrations >= _MAX_MOVES:
            continue
        found = _find_best_mode(context, run, attempt)
        here = time_left_s(context, attempt)
        if (
            found is not None
            and here > 0.0
            and (here - found[1]) / here > _required_gain(context, run, attempt.task)
        ):
            migrate_attempt(
                context, attempt, found[0].machine, found[0].count, MigrationReason.BETTER_MACHINE
            )
    if state.active:
        context.emit(messages.SetTimer(timer=TimerKind.BETTER, at_s=state.now + every_s))
