"""The time a run has left, as a range: what remains of its plan, at the pace of the tasks that have ended.

The plan says how much lies between the earliest task that has not ended and its own end; the pace is how long
tasks took over how long they were estimated to take. Half of the tasks were slower than P50 says, one in ten
slower than P90. Nobody knows the time left without a plan, in a loop that is not left yet, where tasks have
no estimate and none has ended, and when the run should be over by now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.api.observing.tally import Tally
from weft.engine.state.plans import Line
from weft.engine.state.run import Run
from weft.engine.state.state import State
from weft.engine.state.states import FINAL
from weft.predictors.assumed import Assumed
from weft.units import format_seconds

__all__ = ["UNKNOWN", "TimeLeft", "of_all", "time_left"]

_NOT_YET = 0.05
"""A pace below this says nothing: tasks that take no time at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLeft:
    """Seconds until a run ends; None: unknown."""

    p50_s: float | None
    p90_s: float | None

    def __str__(self) -> str:
        if self.p50_s is None or self.p90_s is None:
            return "unknown"
        low, high = _rounded(self.p50_s), _rounded(self.p90_s)
        return low if low == high else f"{low} to {high}"


UNKNOWN = TimeLeft(p50_s=None, p90_s=None)


def _rounded(seconds: float) -> str:
    """Write a time that nobody knows to the millisecond."""
    return format_seconds(round(seconds, 1) if seconds < 10 else float(round(seconds)))


def of_all(found: Sequence[TimeLeft]) -> TimeLeft:
    """Give the time until the last of several runs ends."""
    if any(each.p50_s is None for each in found):
        return UNKNOWN
    return TimeLeft(
        p50_s=max((each.p50_s or 0.0 for each in found), default=0.0),
        p90_s=max((each.p90_s or 0.0 for each in found), default=0.0),
    )


def time_left(run: Run, state: State, tally: Tally, now_s: float) -> TimeLeft:
    """Judge how long a run will still take."""
    if run.ending:
        return TimeLeft(p50_s=0.0, p90_s=0.0)
    if run.plan is None or any(not body.left for body in run.loops.bodies):
        return UNKNOWN
    open_tasks = [task for task in run.plan.line if run.state[task] not in FINAL]
    if not open_tasks:
        return TimeLeft(p50_s=0.0, p90_s=0.0)
    pace = _pace(run, tally, open_tasks)
    if pace is None:
        return UNKNOWN
    usual, slow = pace
    lines = run.plan.line
    reached_s = min(_reached(run, state, tally, task, lines[task], now_s, usual) for task in open_tasks)
    left_s = max(lines[task].finish_s for task in open_tasks) - reached_s
    if left_s <= 0.0:
        return UNKNOWN  # it should be over by now
    return TimeLeft(p50_s=left_s * usual, p90_s=left_s * slow)


def _pace(run: Run, tally: Tally, tasks: list[int]) -> tuple[float, float] | None:
    """Give how slow tasks are against their estimates: half of them, and nine of ten."""
    measured = tally.paces.get(run.index)
    if measured:
        usual, slow = np.quantile(np.array(measured), [0.5, 0.9]).tolist()
        return max(_NOT_YET, usual), max(_NOT_YET, slow)
    seconds = run.instance.seconds
    where = np.array(tasks)
    if Assumed.source in seconds.sources:
        guessed = seconds.sources.index(Assumed.source)
        if bool((seconds.source[where] == guessed).any()):
            return None
    spread = seconds.spread[where]
    known = spread[np.isfinite(spread)]
    return 1.0, float(max(1.0, known.max())) if len(known) else 1.0


def _reached(run: Run, state: State, tally: Tally, task: int, line: Line, now_s: float, pace: float) -> float:
    """Give the time of the plan that a task has reached."""
    number = run.attempt_of.get(task)
    began_s = None if number is None else tally.began_s(number)
    if number is None or began_s is None:
        return line.start_s
    attempt = state.attempts.get(number)
    if attempt is not None and attempt.work_done is not None:
        share = attempt.work_done
    else:
        planned_s = max(1e-9, line.finish_s - line.start_s)
        share = (now_s - began_s) / (planned_s * pace)
    return line.start_s + min(1.0, max(0.0, share)) * (line.finish_s - line.start_s)
