"""Useful and replicated work: which part of what was done nobody had to do again (invariant I7).

The attempts of one task in one iteration are looked at from the last to the first. The one that completed
did everything above the checkpoint it began with; the one before it that wrote this checkpoint did what lies
between its own beginning and that; and so on down to zero. What an attempt did beyond its useful part was
replicated, or lost with a task that never completed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weft.engine.history.happenings import Tried

__all__ = ["judge_usefulness"]


def judge_usefulness(attempts: Iterable[Tried]) -> None:
    """Set the useful share of every attempt; those of a completed task sum up to 1."""
    stories: dict[tuple[int, str, int], list[Tried]] = {}
    for attempt in attempts:
        stories.setdefault((attempt.run, attempt.task, attempt.iteration), []).append(attempt)
    for tries in stories.values():
        _judge(tries)


def _judge(tries: Sequence[Tried]) -> None:
    level: float | None = None
    for attempt in reversed(tries):
        attempt.useful_share = 0.0
        if level is None:
            if attempt.ending == "completed":
                attempt.useful_share = 1.0 - attempt.restart_from
                level = attempt.restart_from
        elif attempt.checkpoint is not None and attempt.restart_from < level <= attempt.checkpoint:
            attempt.useful_share = level - attempt.restart_from
            level = attempt.restart_from
