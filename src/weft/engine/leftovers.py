"""What attempts leave on their machines for those who take over from them (S3 section 4)."""

from __future__ import annotations

from weft.engine.state.attempt import Attempt, Stage
from weft.engine.state.run import Run
from weft.engine.state.state import State

__all__ = ["forget_left_behind", "leave_behind", "take_back"]


def leave_behind(state: State, run: Run, attempt: Attempt, reason: str) -> None:
    """Keep what an attempt left on its machine for the next one."""
    attempt.left_for = reason or attempt.cancelled
    run.let_go(attempt.task)
    run.left_behind[attempt.task] = attempt.number
    attempt.stage = Stage.ENDED
    state.unqueue(attempt)
    state.give_back(attempt)
    state.touched[attempt.machine] = None


def take_back(state: State, run: Run, attempt: Attempt) -> None:
    """If an attempt ends that was to take over from another, what that one left is kept for the next."""
    old = state.attempts.get(attempt.replaces) if attempt.replaces is not None else None
    if old is None or old.replaced_by != attempt.number:
        return
    if old.stage == Stage.CLEANING:
        # What it left is being removed: nobody can take over from it any more.
        old.replaced_by = None
    elif old.stage == Stage.ENDED:
        old.replaced_by = None
        old.left_for = old.left_for or old.cancelled
        run.left_behind[attempt.task] = old.number


def forget_left_behind(run: Run, attempt: Attempt) -> None:
    """Keep what an attempt left no longer."""
    if run.left_behind.get(attempt.task) == attempt.number:
        del run.left_behind[attempt.task]
