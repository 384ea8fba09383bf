"""The tally of an execution: per kind of task how many wait, run, are done, taken over, failed; and why.

It hears every entry, while the engine decides or when the journal is read later, and looks at the engine's
state only when somebody wants to see the counts.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from weft.engine.engine import Engine
from weft.engine.journal import Entry
from weft.engine.messages import commands as cm
from weft.engine.messages import events as ev
from weft.engine.remaining.promises import is_untimed
from weft.engine.state.run import Run
from weft.engine.state.state import State
from weft.engine.state.states import TaskState
from weft.workflow.unfolding.task_graph import COMPUTE

__all__ = ["Going", "KindCount", "Setback", "Tally"]

_S = TaskState
_WAITING = (_S.WAITING, _S.READY, _S.SCHEDULED, _S.PROLOG)
_RUNNING = (_S.SUBMITTED, _S.RUNNING, _S.EPILOG, _S.MIGRATING, _S.SUSPENDED)
_DONE = (_S.COMPLETED, _S.SKIPPED)
_FAILED = (_S.FAILED, _S.STOPPED)
_STATES = len(TaskState)
_KEPT = 1_000
"""How many of the last measured tasks of a run its pace is judged by, and how many setbacks are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindCount:
    """The tasks of one kind in one run."""

    run: int
    """As the engine counts."""
    workflow: str
    kind: str
    tasks: int
    waiting: int
    running: int
    done: int
    """Those that completed, were taken over, or were not needed."""
    taken_over: int
    """Of those that are done."""
    failed: int
    held: int = 0
    cancelled: int = 0

    def as_record(self) -> dict[str, Any]:
        """Give it as plain data."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setback:
    """An attempt that failed."""

    at_s: float
    run: int
    task: str
    attempt: int
    """-1: none (a loop that did not converge)."""
    cause: str
    text: str
    """What the world said of it."""
    for_good: bool
    waits: bool
    """Whether it waits for the user to resume it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Going:
    """An attempt that runs."""

    run: int
    task: str
    attempt: int
    machine: str
    nodes: int
    since_s: float


class Tally:
    """Counts what happens."""

    def __init__(self) -> None:
        self.taken_over: Counter[tuple[int, str]] = Counter()
        """By run and kind: tasks that an earlier execution had done."""
        self.stale: dict[tuple[int, str], Counter[str]] = {}
        """By run and kind: why what an earlier execution had made could not be used, and how often."""
        self.ran: Counter[tuple[int, str]] = Counter()
        """By run and kind: tasks whose programs ran and completed."""
        self.setbacks: deque[Setback] = deque(maxlen=_KEPT)
        self.paces: dict[int, deque[float]] = {}
        """By run: seconds that tasks took over seconds that were estimated, of the last that completed."""
        self.untimed: dict[tuple[int, str], deque[float]] = {}
        """By run and kind, of tasks whose time nobody had stated: the same over their placeholders."""
        self._begun: dict[int, float] = {}
        """When the program of each live attempt began."""
        self._seen: dict[int, tuple[int, int, float]] = {}
        """Run, task and estimated seconds of each live attempt."""
        self._story: dict[int, str] = {}

    def hear(self, entry: Entry, engine: Engine) -> None:
        """Take in an entry; the engine's state is that after it."""
        event = entry.event
        if type(event) is ev.Ended:
            self._ended(event, entry.now, engine.state)
        elif isinstance(event, ev.StagedIn | ev.StagedOut) and event.problem:
            self._story[event.attempt] = event.problem
        for command in entry.commands:
            if type(command) is cm.Start:
                self._start(command, entry.now, engine.state)
            elif type(command) is cm.Settle and command.cause:
                self._set_back(command, entry, engine.state)

    def _start(self, command: cm.Start, now_s: float, state: State) -> None:
        known = state.runs[command.run].known
        seconds = 0.0
        if known.kind[command.task] == COMPUTE:
            left = 1.0 - command.restart_from
            seconds = left * known.seconds(command.task, command.machine, command.count)
        self._begun[command.attempt] = now_s
        self._seen[command.attempt] = command.run, command.task, seconds

    def _ended(self, event: ev.Ended, now_s: float, state: State) -> None:
        began_s = self._begun.pop(event.attempt, None)
        seen = self._seen.pop(event.attempt, None)
        if event.cause or event.exit_code is None:
            self._story[event.attempt] = event.story
        if began_s is None or seen is None or event.cause or event.exit_code != 0:
            return
        run, task, seconds = seen
        key = run, state.runs[run].known.description(task).program
        if event.taken_over is not None:
            self.taken_over[key] += 1
            return
        self.ran[key] += 1
        if event.story:
            self.stale.setdefault(key, Counter())[event.story] += 1
        if seconds > 0:
            pace = (now_s - began_s if event.ran_s is None else event.ran_s) / seconds
            if is_untimed(state.runs[run].instance, task):
                self.untimed.setdefault(key, deque(maxlen=_KEPT)).append(pace)
            else:
                self.paces.setdefault(run, deque(maxlen=_KEPT)).append(pace)

    def _set_back(self, command: cm.Settle, entry: Entry, state: State) -> None:
        attempt = getattr(entry.event, "attempt", None)
        self.setbacks.append(
            Setback(
                at_s=entry.now,
                run=command.run,
                task=state.runs[command.run].name(command.task),
                attempt=-1 if attempt is None else attempt,
                cause=command.cause,
                text=self._story.pop(attempt, "") if attempt is not None else command.reason,
                for_good=command.state == "FAILED",
                waits=command.state == "STOPPED",
            )
        )

    def began_s(self, attempt: int) -> float | None:
        """Give when an attempt that runs began; None: it does not."""
        return self._begun.get(attempt)

    def going(self, state: State, chosen: Callable[[Run], bool] = lambda _: True) -> list[Going]:
        """List the attempts that run, in the order in which they began."""
        found = []
        for number, since_s in self._begun.items():
            attempt = state.attempts.get(number)
            if attempt is not None and chosen(state.runs[attempt.run]):
                run = state.runs[attempt.run]
                going = Going(
                    run=run.index,
                    task=run.name(attempt.task),
                    attempt=number,
                    machine=state.machines[attempt.machine].name,
                    nodes=attempt.count,
                    since_s=since_s,
                )
                found.append(going)
        return found

    def counts(self, state: State, chosen: Callable[[Run], bool] = lambda _: True) -> list[KindCount]:
        """Count the tasks of runs by kind, in the order of their descriptions."""
        return [row for run in state.runs if chosen(run) for row in self._of(run)]

    def _of(self, run: Run) -> Iterator[KindCount]:
        graph = run.known.graph
        templates = np.asarray(graph.template, dtype=np.int64)
        states = np.frombuffer(bytes(run.state), dtype=np.uint8)
        kinds = graph.workflow.tasks
        table = np.bincount(templates * _STATES + states, minlength=len(kinds) * _STATES)
        rows: dict[str, list[int]] = {}
        for kind, row in zip(kinds, table.reshape(-1, _STATES).tolist(), strict=True):
            if any(row):
                before = rows.get(kind.program)
                rows[kind.program] = (
                    row if before is None else [a + b for a, b in zip(before, row, strict=True)]
                )
        for name, row in rows.items():

            def summed(states: tuple[TaskState, ...], row: list[int] = row) -> int:
                return sum(row[state] for state in states)

            yield KindCount(
                run=run.index,
                workflow=run.known.key,
                kind=name,
                tasks=sum(row),
                waiting=summed(_WAITING),
                running=summed(_RUNNING),
                done=summed(_DONE),
                taken_over=self.taken_over[run.index, name],
                failed=summed(_FAILED),
                held=row[_S.HELD],
                cancelled=row[_S.CANCELLED],
            )
