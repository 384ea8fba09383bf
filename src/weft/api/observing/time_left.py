"""The time a run has left, as a range: what remains of its plan, at the pace of the tasks that have ended.

The plan says how much lies between the earliest task that has not ended and its own end, and how long further
expected iterations of loops take; the pace is how long tasks took over how long they were estimated to take.
Half of the tasks were slower than P50 says, one in ten slower than P90. Before any has ended the range is
that of the promise. Tasks without a stated time are planned with a placeholder: their pace is that of those
of the same kind that have ended. Of open tasks of several paces the mean counts, weighed by planned seconds.

Nobody knows the time left without a plan, while a task is open of whose kind neither an estimate nor a
measured time is known, in a loop that does not say how often it runs or runs more often than it said, and
when the run should be over by now.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from weft.api.observing.tally import Tally
from weft.engine.remaining.promises import Promise, untimed_tasks
from weft.engine.state.loops import Body
from weft.engine.state.plans import Line
from weft.engine.state.run import Run
from weft.engine.state.state import State
from weft.engine.state.states import FINAL
from weft.units import counted, format_seconds

__all__ = ["UNKNOWN", "TimeLeft", "of_all", "time_left"]

_NOT_YET = 0.05
"""A pace below this says nothing: tasks that take no time at all."""

_Pace = tuple[float, float | None]
"""How slow tasks are against their estimates: half of them, and nine of ten (None: unknown)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLeft:
    """Seconds until a run ends; None: unknown."""

    p50_s: float | None
    p90_s: float | None
    why: str = ""
    """Why it is unknown; "": nothing to say."""

    def __str__(self) -> str:
        if self.p50_s is None:
            return f"unknown ({self.why})" if self.why else "unknown"
        if self.p90_s is None:
            return f"{_rounded(self.p50_s)} (spread unknown)"
        low, high = _rounded(self.p50_s), _rounded(self.p90_s)
        return low if low == high else f"{low} to {high}"


UNKNOWN = TimeLeft(p50_s=None, p90_s=None)


def _rounded(seconds: float) -> str:
    """Write a time that nobody knows to the millisecond."""
    return format_seconds(round(seconds, 1) if seconds < 10 else float(round(seconds)))


def of_all(found: Sequence[TimeLeft]) -> TimeLeft:
    """Give the time until the last of several runs ends."""
    unknown = [each for each in found if each.p50_s is None]
    if unknown:
        return unknown[0]
    late = [each.p90_s for each in found if each.p90_s is not None]
    return TimeLeft(
        p50_s=max((each.p50_s or 0.0 for each in found), default=0.0),
        p90_s=max(late, default=0.0) if len(late) == len(found) else None,
    )


def time_left(run: Run, state: State, tally: Tally, now_s: float, promise: Promise | None = None) -> TimeLeft:
    """Judge how long a run will still take; ``promise``: what was said before it began."""
    if run.ending:
        return TimeLeft(p50_s=0.0, p90_s=0.0)
    further_s = None if run.plan is None else _further_s(run, run.plan.line)
    if run.plan is None or further_s is None:
        return UNKNOWN
    lines = run.plan.line
    open_tasks = [task for task in lines if run.state[task] not in FINAL]
    if not open_tasks:
        return TimeLeft(p50_s=0.0, p90_s=0.0)
    untimed = untimed_tasks(run.instance)
    mute = [task for task in open_tasks if untimed[task] and _key(run, task) not in tally.untimed]
    if mute:
        return TimeLeft(p50_s=None, p90_s=None, why=f"{counted(len(mute), 'task')} of unknown length")
    usual, slow = _pace(run, tally, open_tasks, untimed.tolist(), promise)
    reached_s = min(_reached(run, state, tally, task, lines[task], now_s, usual) for task in open_tasks)
    if len(open_tasks) == len(lines) and not run.attempt_of:
        reached_s = min(reached_s, now_s)  # a plan may begin with waiting
    left_s = max(lines[task].finish_s for task in open_tasks) - reached_s + further_s
    if left_s <= 0.0:
        return TimeLeft(p50_s=None, p90_s=None, why="it should be over by now")
    return TimeLeft(p50_s=left_s * usual, p90_s=None if slow is None else left_s * slow)


def _key(run: Run, task: int) -> tuple[int, str]:
    return run.index, run.known.description(task).program


def _pace(
    run: Run, tally: Tally, tasks: Sequence[int], untimed: Sequence[bool], promise: Promise | None
) -> _Pace:
    """Give the mean pace of open tasks."""
    lines = run.plan.line if run.plan is not None else {}
    weights: dict[tuple[int, str], float] = {}
    stated_s = 0.0
    for task in tasks:
        planned_s = lines[task].finish_s - lines[task].start_s
        if untimed[task]:
            key = _key(run, task)
            weights[key] = weights.get(key, 0.0) + planned_s
        else:
            stated_s += planned_s
    paces = [(seconds, _measured(tally.untimed[key])) for key, seconds in weights.items()]
    if stated_s > 0.0 or not paces:
        paces.append((max(stated_s, 1e-9), _stated(tally.paces.get(run.index, ()), promise)))
    whole = sum(weight for weight, _ in paces) or 1.0
    usual = sum(weight * pace[0] for weight, pace in paces) / whole
    late = [weight * pace[1] for weight, pace in paces if pace[1] is not None]
    return usual, sum(late) / whole if len(late) == len(paces) else None


def _stated(measured: Iterable[float], promise: Promise | None) -> _Pace:
    """Give the pace of tasks whose time was stated: as measured, before that as promised."""
    usual, slow = 1.0, None
    if promise is not None and promise.p50_s is not None and promise.planned_s > 0.0:
        usual = promise.p50_s / promise.planned_s
        slow = None if promise.p90_s is None else promise.p90_s / promise.planned_s
    found = list(measured)
    if not found:
        return usual, slow
    middle, late = _measured(found)
    return middle, middle * slow / usual if late is None and slow is not None else late


def _measured(paces: Iterable[float]) -> _Pace:
    """Give P50 and P90 of measured paces; one alone has no spread."""
    found = np.array(list(paces))
    usual, slow = np.quantile(found, [0.5, 0.9]).tolist()
    return max(_NOT_YET, usual), max(_NOT_YET, slow) if len(found) > 1 else None


def _further_s(run: Run, lines: dict[int, Line]) -> float | None:
    """Give the planned seconds of the iterations that are still expected to begin; None: unknown."""
    total_s = 0.0
    for declared in run.known.graph.loops:
        counts = [_to_come(run, body) for body in run.loops.bodies if body.loop.name == declared.loop.name]
        more = [each[0] for each in counts if each is not None]
        if len(more) < len(counts):
            return None
        found = [lines[task] for task in declared.tasks.tolist() if task in lines]
        if found:
            span_s = max(line.finish_s for line in found) - min(line.start_s for line in found)
            total_s += max(more, default=0) * span_s
    return total_s


def _to_come(run: Run, body: Body) -> tuple[int, int] | None:
    """Count the iterations to come of a body: those that begin after its own last, and all; None: unknown.

    An iteration of an outer loop has one of the inner one in its span already.
    """
    around = [each for each in run.loops.bodies if body.index in each.inner]
    outer = 0
    if around:
        found = _to_come(run, min(around, key=lambda each: len(each.tasks)))
        if found is None:
            return None
        outer = found[1]
    if body.left and not outer:
        return 0, 0
    expect = next(each.expect for each in run.known.graph.loops if each.loop.name == body.loop.name)
    if expect is None or (not body.left and body.iteration > expect):
        return None
    now = 0 if body.left else expect - body.iteration
    return now + outer * (expect - 1), now + outer * expect


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
