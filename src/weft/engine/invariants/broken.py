"""A broken invariant: a bug of weft, told with the story of what it is about."""

from __future__ import annotations

from collections.abc import Iterable

from weft.engine.state.attempt import Attempt, Stage
from weft.engine.state.run import Run
from weft.engine.state.state import State
from weft.engine.state.states import TaskState
from weft.errors import WeftError

__all__ = ["Broken", "demand", "story_of_attempt", "story_of_task"]


class Broken(WeftError):
    """Something that must always hold does not."""


def demand(holds: bool, rule: str, *stories: str) -> None:
    """Raise unless a rule holds."""
    if not holds:
        raise Broken("; ".join((rule, *stories)))


def story_of_attempt(state: State, attempt: Attempt) -> str:
    """Tell what is known of an attempt."""
    facts: Iterable[str] = (
        f"attempt {attempt.number} of {state.runs[attempt.run].name(attempt.task)!r} of run {attempt.run}",
        f"on {state.machines[attempt.machine].name!r} with {attempt.nodes} nodes",
        f"stage {Stage(attempt.stage).name}",
        "takes nodes" if attempt.holds else "takes none",
        "waits in the queue" if attempt.queued else "",
        f"{attempt.staging} parts of its data on the way" if attempt.staging else "",
        f"assigned at {attempt.assigned_s} s ({attempt.reason or 'no reason given'})",
        f"started at {attempt.started_s} s" if attempt.started_s is not None else "",
        f"ended at {attempt.ended_s} s" if attempt.ended_s is not None else "",
        f"cancelled: {attempt.cancelled}" if attempt.cancelled else "",
        f"takes over from {attempt.replaces}" if attempt.replaces is not None else "",
        f"taken over by {attempt.replaced_by}" if attempt.replaced_by is not None else "",
    )
    return ", ".join(fact for fact in facts if fact)


def story_of_task(state: State, run: Run, task: int) -> str:
    """Tell what is known of a task and of its attempt."""
    number = run.attempt_of.get(task)
    attempt = state.attempts.get(number) if number is not None else None
    told = (
        f"task {run.name(task)!r} of run {run.index} is {TaskState(run.state[task]).name} at {state.now} s, "
        f"{run.missing[task]} predecessors missing, failures {run.failures.get(task, {})}"
    )
    if attempt is not None:
        return f"{told}; {story_of_attempt(state, attempt)}"
    return f"{told}; its attempt {number} is unknown" if number is not None else told
