"""Restarts: how much of a task's work its restart files spare the next attempt (S3 section 2).

The last restart files of a task are believed to be kept on our side too (S3's checkpoint store, gap G3): they
outlive the machine that wrote them.
"""

from __future__ import annotations

from weft.engine.state.attempt import Attempt
from weft.engine.state.run import Run
from weft.engine.state.state import State

__all__ = ["done_by_now", "spared", "spared_if_ended"]


def spared(state: State, run: Run, task: int, count: int) -> float:
    """Give the share of the work that need not be done again on so many nodes; 0: it starts from zero."""
    kept = run.checkpoint.get(task) if run.checkpoint else None
    if kept is None or not state.settings.checkpoints:
        return 0.0
    share, _, written_with = kept
    return share if _fits(run, task, written_with, count) else 0.0


def spared_if_ended(state: State, run: Run, attempt: Attempt, count: int) -> float:
    """Give the share that would be spared if a running attempt were told to end now.

    Restart files without an interval are written at that moment.
    """
    share = spared(state, run, attempt.task, count)
    checkpoint = run.known.description(attempt.task).recovery.checkpoint
    if checkpoint is None or checkpoint.every is not None or not state.settings.checkpoints:
        return share
    return (
        max(share, done_by_now(state, attempt)) if _fits(run, attempt.task, attempt.count, count) else share
    )


def done_by_now(state: State, attempt: Attempt) -> float:
    """Estimate the share of its task's work that an attempt has done, by its reports or the time passed."""
    if attempt.work_done is not None and attempt.reported_s is not None:
        known, since_s = attempt.work_done, attempt.reported_s
    elif attempt.started_s is not None:
        known, since_s = attempt.restart_from, attempt.started_s
    else:
        return attempt.restart_from
    if attempt.suspended_since_s is not None:
        passed_s = max(0.0, attempt.suspended_since_s - since_s)
    else:
        passed_s = state.now - since_s
    whole_s = attempt.seconds / (1.0 - attempt.restart_from) if attempt.restart_from < 1.0 else 0.0
    speed = state.machines[attempt.machine].speed_factor
    return min(1.0, known + passed_s * speed / whole_s) if whole_s > 0 else 1.0


def _fits(run: Run, task: int, written_with: int, count: int) -> bool:
    """Say whether restart files written on some nodes serve a start on others."""
    if written_with == count:
        return True
    checkpoint = run.known.description(task).recovery.checkpoint
    return checkpoint is not None and checkpoint.nodes == "any"
