"""The chronicle: follows a journal entry by entry and keeps what reports of executed runs need.

The history knows how attempts went; beside it stand their exit codes, what was moved for them, when their
outputs were brought home, and the first plan of every run.

The last lines that a program wrote, from weft's records of its attempt.

Whatever lies there was written by a program that nobody trusts: only plain files are read, no link out of the
project is followed, little is read, and what a terminal would obey is taken out.

What is known of an executed run beyond its journal: promises, measurements, logs, products, wall clock.

Everything may be missing: the journal of a simulation has none of it, and the reports say ``-`` there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from weft.backends.attempt.safe_paths import StagingProblem, open_inside
from weft.backends.backend import Product
from weft.backends.layout import ProjectLayout
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.engine.engine import Engine
from weft.engine.history import History
from weft.engine.journal import JournalEntry
from weft.engine.reactions.failures import requests_rerun
from weft.engine.replan.promise import Promise
from weft.engine.state.plan import StoredPlan
from weft.engine.state.run import RunState
from weft.engine.state.state import EngineState
from weft.engine.states import TaskState
from weft.reports.text import printable

__all__ = [
    "NO_RECORDS",
    "AttemptFacts",
    "AttemptLogs",
    "ExecutionHistory",
    "ExecutionRecords",
    "LogTail",
    "ProcessUsage",
    "read_history",
]


@dataclass(slots=True, kw_only=True)
class AttemptFacts:
    """What the journal says of one attempt beyond its history."""

    exit_code: int | None = None
    story: str = ""
    """What its world said of its end."""
    moved_bytes: float = 0.0
    """What was brought to its machine for it."""
    problem: str = ""
    """Why its data did not come, or its outputs were not brought home."""
    leaving_s: float | None = None
    """When its outputs were first sent for; None: they stayed, or nobody asked for them."""
    left_s: float | None = None
    """When they were there."""
    memory_bytes: float | None = None
    """Its limit."""
    time_limit_s: float | None = None
    begun_n: int | None = None
    """The entry in which its machine was told to start it; None: it was not (a transfer never is)."""
    completed_n: int | None = None
    """The entry in which its task completed by it; None: it did not. Entries tell the order of what happened
    at the same time."""


_NO_FACTS = AttemptFacts()


class ExecutionHistory:
    """What a journal tells."""

    def __init__(self) -> None:
        self.history = History()
        self.runs: tuple[RunState, ...] = ()
        """The state of each run at the end, for its graph."""
        self.first_plans: dict[int, StoredPlan] = {}
        """By run: the first plan it adopted."""
        self._facts: dict[int, AttemptFacts] = {}
        self._tries: dict[tuple[int, str], list[int]] = {}
        """By run and task: its attempts."""

    def take(self, entry: JournalEntry, state: EngineState) -> None:
        """Take in an entry; ``state`` is the engine's after it."""
        self.history.take(entry, state)
        match entry.event:
            case ev.Ended(attempt=attempt, exit_code=code, story=story) as ended:
                facts = self._of(attempt)
                # A program that its world has ended, so that it runs again later, has no exit code.
                stopped = bool(story) and requests_rerun(ended)
                facts.exit_code, facts.story = None if stopped else code, story
            case ev.StagedIn(attempt=attempt, problem=problem, moved_bytes=moved):
                facts = self._of(attempt)
                facts.moved_bytes += moved or 0.0
                facts.problem = problem or facts.problem
            case ev.StagedOut(attempt=attempt, problem=problem):
                facts = self._of(attempt)
                facts.left_s = entry.now
                facts.problem = problem or facts.problem
            case ev.PlanReady(run=run, plan=key) if key:
                self.first_plans.setdefault(run, state.plans[key])
        for command in entry.commands:
            self._command(command, entry, state)

    def _command(self, command: cm.Command, entry: JournalEntry, state: EngineState) -> None:
        match command:
            case cm.Assign(run=run, task=task, attempt=attempt):
                self._tries.setdefault((run, state.runs[run].compiled.names[task]), []).append(attempt)
            case cm.Start(attempt=attempt):
                facts = self._of(attempt)
                facts.begun_n = entry.sequence if facts.begun_n is None else facts.begun_n
                facts.memory_bytes, facts.time_limit_s = command.memory_bytes, command.time_limit_s
            case cm.StageOut(attempt=attempt):
                facts = self._of(attempt)
                facts.leaving_s = entry.now if facts.leaving_s is None else facts.leaving_s
            case cm.Settle(run=run, task=task, state=TaskState.COMPLETED):
                for attempt in self._tries.get((run, state.runs[run].compiled.names[task]), ()):
                    facts = self._of(attempt)
                    if facts.completed_n is None and self.history.attempts[attempt].ending == "completed":
                        facts.completed_n = entry.sequence

    def _of(self, attempt: int) -> AttemptFacts:
        return self._facts.setdefault(attempt, AttemptFacts())

    def facts(self, attempt: int) -> AttemptFacts:
        """Give what is known of an attempt."""
        return self._facts.get(attempt, _NO_FACTS)

    def finish(self, state: EngineState) -> ExecutionHistory:
        """Work out what can only be known in the end; ``state`` is the engine's then."""
        self.history.finish()
        self.runs = tuple(state.runs)
        return self


def read_history(
    engine: Engine, entries: Iterable[JournalEntry], plans: Mapping[str, StoredPlan]
) -> ExecutionHistory:
    """Apply the entries of a journal to a fresh engine and tell what happened."""
    engine.state.plans.update(plans)
    chronicle = ExecutionHistory()
    for entry in entries:
        engine.apply(entry.event, entry.now, entry.commands)
        chronicle.take(entry, engine.state)
    return chronicle.finish(engine.state)


_LINES = 10
_MOST_BYTES = 16_384
_LONGEST = 500
"""Characters of one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTail:
    """The end of a log."""

    path: str
    """Of the log, relative to the project."""
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLogs:
    """The records of one execution's attempts."""

    layout: ProjectLayout
    execution: int

    def last(self, attempt: int, lines: int = _LINES) -> LogTail | None:
        """Give the end of what a program said of its errors, else of its output; None: it said nothing."""
        folder = self.layout.records(self.execution, attempt).relative_to(self.layout.project)
        for name in ("err", "out"):
            path = str(folder / name)
            found = _last_lines(_end_of(self.layout.project, path), lines)
            if found:
                return LogTail(path=path, lines=found)
        return None


def _last_lines(data: bytes, most: int) -> tuple[str, ...]:
    text = data.decode("utf-8", "replace").rstrip()
    if not text:
        return ()
    # A tab is shown as blanks; a carriage return begins a line, as programs that count on one line mean it.
    found = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")[-most:]
    return tuple(printable(line.expandtabs(4))[:_LONGEST] for line in found)


def _end_of(project: Path, path: str) -> bytes:
    try:
        descriptor = open_inside(project, path)
    except (OSError, StagingProblem):
        return b""  # no log is no error: the report says what else is known
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return b""
        return os.pread(descriptor, _MOST_BYTES, max(0, found.st_size - _MOST_BYTES))
    except OSError:
        return b""
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessUsage:
    """What the operating system says of one attempt's program; None: unknown."""

    cpu_s: float | None = None
    max_rss_bytes: float | None = None
    pid: int | None = None
    signal: int | None = None
    """Which signal ended it; None: none did."""
    text: str = ""
    """Why it could not be started, or what else its runner has to say."""

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> ProcessUsage:
        """Read the end record of a runner (``user_s``, ``system_s``, ``max_rss_bytes``, ``pid``, ...)."""
        times = [record.get(key) for key in ("user_s", "system_s")]
        known = [float(seconds) for seconds in times if seconds is not None]
        return cls(
            cpu_s=sum(known) if known else None,
            max_rss_bytes=record.get("max_rss_bytes"),
            pid=record.get("pid"),
            signal=record.get("signal"),
            text=str(record.get("text") or ""),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionRecords:
    """Everything else that is known."""

    promises: Mapping[int, Promise] = field(default_factory=dict)
    """By run. Of a run without one, the first plan in its journal is its promise."""
    measured: Mapping[int, ProcessUsage] = field(default_factory=dict)
    """By attempt."""
    products: Mapping[int, Product] = field(default_factory=dict)
    """By the attempt that made them."""
    logs: AttemptLogs | None = None
    numbers: Mapping[int, int] = field(default_factory=dict)
    """By run, the number that users know it by; a run without one goes by its place in the execution."""
    zero_at_s: float | None = None
    """Seconds since 1970 at the engine's time 0; None: unknown."""

    def wall(self, time_s: float | None) -> datetime | None:
        """Give a time on the engine's clock as a date, in UTC; None: unknown."""
        if time_s is None or self.zero_at_s is None:
            return None
        return datetime.fromtimestamp(self.zero_at_s + time_s, UTC)


NO_RECORDS = ExecutionRecords()
"""The journal is all there is."""
