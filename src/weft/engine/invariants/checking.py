"""Checking an engine after an event: everything it knows fits together.

O(tasks + edges + machines) per call: for tests. Nothing here asks the code that decides.
"""

from __future__ import annotations

from weft.engine.engine import Engine
from weft.engine.invariants.broken import demand, story_of_attempt
from weft.engine.invariants.machines import check_machines
from weft.engine.invariants.tasks import check_run
from weft.engine.state.attempt import Attempt, Stage
from weft.engine.state.state import State

__all__ = ["check"]


def check(engine: Engine) -> None:
    """Raise Broken if something does not fit together."""
    state = engine.state
    for run in state.runs:
        check_run(state, run)
    for number, attempt in state.attempts.items():
        told = story_of_attempt(state, attempt)
        demand(attempt.number == number < state.next_attempt, "attempts are numbered in order", told)
        demand(attempt.stage != Stage.OVER, "an attempt that is over is forgotten", told)
        demand(attempt.staging >= 0, "no more data come than were sent for", told)
        _check_place(state, attempt)
        _check_times(state, attempt)
    for index, run in enumerate(state.runs):
        for task, number in run.left_behind.items():
            demand(number in state.attempts, f"what task {task} of run {index} left behind is known")
    if state.runs:
        check_machines(state, state.runs[0].instance)
    for timer, at_s in state.timers.items():
        demand(at_s >= state.now, f"timer {timer!r} was due at {at_s} s", f"it is {state.now} s")
    left = state.touched or state.arrived or state.to_serve or state.to_tidy or state.dirty
    demand(not left, "nothing is left to be looked at", f"at {state.now} s")


def _check_place(state: State, attempt: Attempt) -> None:
    """Every attempt is that of its task, or leads to it, or waits to be cleaned up."""
    run, told = state.runs[attempt.run], story_of_attempt(state, attempt)
    leads = run.attempt_of.get(attempt.task) == attempt.number
    behind = run.left_behind.get(attempt.task) == attempt.number
    if attempt.replaced_by is not None:
        successor = state.attempts.get(attempt.replaced_by)
        demand(successor is not None, "who takes over is known", told)
        assert successor is not None
        demand(successor.replaces == attempt.number, "who takes over knows from whom", told)
        demand(successor.task == attempt.task and successor.run == attempt.run, "it is the same task", told)
    else:
        demand(leads or behind or attempt.stage == Stage.CLEANING, "an attempt belongs to its task", told)
    before = state.attempts.get(attempt.replaces) if attempt.replaces is not None else None
    if before is not None:
        demand(before.replaced_by == attempt.number, "an attempt takes over from who knows it", told)


def _check_times(state: State, attempt: Attempt) -> None:
    """Time goes forward (I6)."""
    times = [attempt.assigned_s, attempt.started_s, attempt.ended_s, state.now]
    known = [at_s for at_s in times if at_s is not None]
    demand(known == sorted(known), "times go forward", story_of_attempt(state, attempt))
