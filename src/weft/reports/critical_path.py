"""Critical path of an executed run: the chain of attempts that determined its end.

The path is built backwards from the attempt that ended last. The candidates for the predecessor of an attempt
are the attempts of tasks whose data it needs, earlier attempts of the same task, attempts of the previous
iteration of its loop, and attempts that occupied nodes it needed. The predecessor is the candidate that ended
last before the start was decided. The time from the end of the predecessor to the start is split into staging
and waiting (for a decision, a queue or the machine). Running, staging and waiting add up to the time of the
run.
Resources other than nodes are not considered: waiting for memory is shown as waiting.

Complexity: O(n log n) for n attempts, and O(degree) per attempt on the path.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from weft.engine.history import AttemptRecord, History
from weft.engine.state.run import RunState
from weft.records import dataclass

_ORDER = ("data", "iteration", "retry", "nodes")
"""What a start may wait for; of predecessors that ended at the same time, the first in this order is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathStep:
    """One attempt on the critical path, with the staging and waiting time before its start."""

    attempt: AttemptRecord
    link: str
    """What the start waited for: ``data``, ``iteration``, ``retry``, ``nodes`` or ``arrival``."""
    after: AttemptRecord | None
    """Attempt whose end allowed the start; None if the arrival of the run allowed it."""
    from_s: float
    """End of the attempt ``after``, or arrival of the run."""
    staged_s: float
    waited_s: float
    ran_s: float

    @property
    def end_s(self) -> float:
        """Return the end of the attempt."""
        return self.from_s + self.staged_s + self.waited_s + self.ran_s


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticalPath:
    """The steps of a critical path, by time."""

    steps: tuple[PathStep, ...] = ()
    after_s: float = 0.0
    """Seconds from the end of the last attempt to the end of the run: stage-out and the last decision."""

    @property
    def ran_s(self) -> float:
        """Return the seconds on the path in which programs ran."""
        return sum(step.ran_s for step in self.steps)

    @property
    def staged_s(self) -> float:
        """Return the seconds on the path in which data were staged."""
        return sum(step.staged_s for step in self.steps)

    @property
    def waited_s(self) -> float:
        """Return the seconds on the path spent waiting, including ``after_s``."""
        return sum(step.waited_s for step in self.steps) + self.after_s


def find_critical_path(
    history: History, runs: Sequence[RunState], nodes: Sequence[int], run: int
) -> CriticalPath:
    """Return the critical path of a run; ``nodes``: number of nodes of each machine (0: unlimited).

    ``runs`` are the final states of all runs.
    """
    story = history.runs[run]
    end_s = history.end_s if story.ended_s is None else story.ended_s
    ran = [each for each in history.attempts.values() if each.started_s is not None]
    search = _CriticalPathSearch(runs, ran, nodes, end_s)
    own = [each for each in ran if each.run == run and search.end(each) <= end_s]
    current: AttemptRecord | None = max(own, key=lambda each: (search.end(each), -each.number), default=None)
    if current is None:
        return CriticalPath(after_s=end_s - story.arrival_s)
    after_s = end_s - search.end(current)
    steps: list[PathStep] = []
    while current is not None:
        step = search.step(current, story.arrival_s)
        steps.append(step)
        current = step.after
    return CriticalPath(steps=tuple(reversed(steps)), after_s=after_s)


class _CriticalPathSearch:
    """Finds the predecessor of an attempt on the critical path."""

    def __init__(
        self, runs: Sequence[RunState], ran: Sequence[AttemptRecord], nodes: Sequence[int], end_s: float
    ) -> None:
        self._runs = runs
        self._end_s = end_s
        self._of_task: dict[tuple[int, str], list[AttemptRecord]] = {}
        on: dict[int, list[AttemptRecord]] = {}
        for attempt in ran:
            self._of_task.setdefault((attempt.run, attempt.task), []).append(attempt)
            on.setdefault(attempt.machine, []).append(attempt)
        self._machines = {
            machine: _OccupancyTimeline(attempts, nodes[machine], self.end)
            for machine, attempts in on.items()
        }
        self._index: dict[int, dict[str, int]] = {}
        self._met: set[int] = set()

    def end(self, attempt: AttemptRecord) -> float:
        """Return the end of an attempt; for a running attempt, the end of the run."""
        return self._end_s if attempt.ended_s is None else attempt.ended_s

    def step(self, attempt: AttemptRecord, arrival_s: float) -> PathStep:
        """Return the step of an attempt: its predecessor, and the times since the end of the predecessor."""
        self._met.add(attempt.number)
        found = [
            (self.end(other), -_ORDER.index(link), -other.number, link, other)
            for link, other in self._candidates(attempt, _decided_s(attempt), arrival_s)
            if self.end(other) > arrival_s and other.number not in self._met
        ]
        link, after = max(found, key=lambda each: each[:3])[3:] if found else ("arrival", None)
        from_s = arrival_s if after is None else self.end(after)
        begin_s = max(attempt.started_s or 0.0, arrival_s)
        staged_s = self._staged(attempt, after, from_s, begin_s)
        return PathStep(
            attempt=attempt,
            link=link,
            after=after,
            from_s=from_s,
            staged_s=staged_s,
            waited_s=begin_s - from_s - staged_s,
            ran_s=self.end(attempt) - begin_s,
        )

    def _candidates(
        self, attempt: AttemptRecord, by_s: float, after_s: float
    ) -> Iterator[tuple[str, AttemptRecord]]:
        for link, other in self._own_candidates(attempt, by_s):
            after_s = max(after_s, self.end(other))
            yield link, other
        blocker = self._machines[attempt.machine].blocker(attempt, by_s, after_s)
        if blocker is not None:
            yield "nodes", blocker

    def _own_candidates(self, attempt: AttemptRecord, by_s: float) -> Iterator[tuple[str, AttemptRecord]]:
        run = self._runs[attempt.run]
        names = run.compiled.names
        if (task := self._task(run, attempt)) is not None:
            for before in find_sources(run, task, lambda each: (run.index, names[each]) in self._of_task):
                yield from self._last_ended("data", attempt.run, names[before], by_s)
            # Outermost first, as the counters: each loop that is not in its first iteration was repeated.
            for index, count in zip(reversed(run.loops.around.get(task, ())), attempt.counters, strict=False):
                for other in run.loops.bodies[index].lasts if count > 1 else ():
                    yield from self._last_ended("iteration", attempt.run, names[other], by_s)
        yield from self._last_ended("retry", attempt.run, attempt.task, by_s)

    def _task(self, run: RunState, attempt: AttemptRecord) -> int | None:
        """Return the index of an attempt's task in the final task graph; None if the final graph lacks it."""
        if (index := self._index.get(run.index)) is None:
            index = self._index[run.index] = {name: task for task, name in enumerate(run.compiled.names)}
        return index.get(attempt.task)

    def _last_ended(self, link: str, run: int, name: str, by_s: float) -> Iterator[tuple[str, AttemptRecord]]:
        tries = self._of_task.get((run, name), ())
        ended = [each for each in tries if self.end(each) <= by_s and each.number not in self._met]
        if ended:
            yield link, max(ended, key=lambda each: (self.end(each), each.number))

    def _staged(
        self, attempt: AttemptRecord, after: AttemptRecord | None, from_s: float, to_s: float
    ) -> float:
        """Return the seconds of staging between two times: stage-in, and stage-out of the predecessor."""
        spans = [(attempt.staging_s, attempt.staged_s)]
        if after is not None:
            spans.append((after.leaving_s, after.left_s))
        found = sorted(
            (max(low, from_s), min(high, to_s))
            for low, high in spans
            if low is not None and high is not None and min(high, to_s) > max(low, from_s)
        )
        total_s, reached_s = 0.0, from_s
        for low, high in found:
            total_s += max(0.0, high - max(low, reached_s))
            reached_s = max(reached_s, high)
        return total_s


def find_sources(run: RunState, task: int, has_run: Callable[[int], bool]) -> Iterator[int]:
    """Yield the predecessors of a task; a predecessor that never ran is replaced by its own predecessors."""
    seen, above = {task}, run.compiled.before(task)
    while above:
        if (before := above.pop(0)) in seen:
            continue
        seen.add(before)
        if has_run(before):
            yield before
        else:
            above.extend(run.compiled.before(before))


def _decided_s(attempt: AttemptRecord) -> float:
    """Return the time at which the start of an attempt was decided: submission, or start if earlier."""
    started_s = attempt.started_s or 0.0
    return started_s if attempt.submitted_s is None else min(attempt.submitted_s, started_s)


class _OccupancyTimeline:
    """Attempts on a machine by their ends, and the number of occupied nodes over time."""

    def __init__(
        self, attempts: Sequence[AttemptRecord], nodes: int, end: Callable[[AttemptRecord], float]
    ) -> None:
        self._nodes = nodes
        pairs = sorted(((end(each), each.number, each) for each in attempts), key=lambda pair: pair[:2])
        self._ends = [pair[0] for pair in pairs]
        self._ended = [pair[2] for pair in pairs]
        self._freed = [0, *accumulate(each.nodes for each in self._ended)]
        starts = sorted((each.started_s or 0.0, each.nodes) for each in attempts)
        self._starts = [pair[0] for pair in starts]
        self._taken = [0, *accumulate(pair[1] for pair in starts)]

    def blocker(self, attempt: AttemptRecord, by_s: float, after_s: float) -> AttemptRecord | None:
        """Return the attempt whose end freed the nodes that ``attempt`` needed; None if enough were free.

        The ends after ``after_s`` and up to ``by_s`` are examined from the last to the first, because enough
        nodes may have been free already before the last end.
        """
        last = bisect_right(self._ends, by_s)
        while last > 0 and self._nodes > 0 and self._ends[last - 1] > after_s:
            at_s = self._ends[last - 1]
            first = bisect_left(self._ends, at_s)
            taken = self._taken[bisect_left(self._starts, at_s)] - self._freed[first]
            if self._nodes - taken < attempt.nodes:
                # If several attempts ended at this time, return the one with the lowest number.
                return next((each for each in self._ended[first:last] if each is not attempt), None)
            last = first
        return None
