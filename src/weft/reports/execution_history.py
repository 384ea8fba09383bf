"""Records of an execution: the history of its journal, resource usage, products and logs.

Records besides the journal may be missing, as for a simulation; reports then show ``-``. Logs are written by
untrusted programs: only regular files are read, no link is followed, the size is limited and control
characters are removed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import field
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
from weft.records import dataclass
from weft.reports.text import printable


@dataclass(slots=True, kw_only=True)
class AttemptFacts:
    """Journal data of one attempt that ``History`` does not contain."""

    exit_code: int | None = None
    story: str = ""
    """Message of the backend about its end."""
    moved_bytes: float = 0.0
    """Bytes staged in."""
    problem: str = ""
    """Why staging failed."""
    leaving_s: float | None = None
    """Start of the first stage-out; None if there was none."""
    left_s: float | None = None
    """End of the last stage-out."""
    memory_bytes: float | None = None
    """Memory limit."""
    time_limit_s: float | None = None
    begun_n: int | None = None
    """Journal entry with its Start command; None if it was not started (transfers never are)."""
    completed_n: int | None = None
    """Journal entry in which it completed its task, or None. Entry numbers order simultaneous events."""


_NO_FACTS = AttemptFacts()


class ExecutionHistory:
    """Projection of a journal for reports: history, facts of attempts and first plans."""

    def __init__(self) -> None:
        self.history = History()
        self.runs: tuple[RunState, ...] = ()
        """Final state of each run, for its graph."""
        self.first_plans: dict[int, StoredPlan] = {}
        """By run: the first adopted plan."""
        self._facts: dict[int, AttemptFacts] = {}
        self._tries: dict[tuple[int, str], list[int]] = {}
        """By (run, task): its attempts."""

    def take(self, entry: JournalEntry, state: EngineState) -> None:
        """Add an entry; ``state`` is the engine's state after it."""
        self.history.take(entry, state)
        match entry.event:
            case ev.Ended(attempt=attempt, exit_code=code, story=story) as ended:
                facts = self._of(attempt)
                # A program stopped by the backend, to be run again, has no exit code.
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
        """Return the facts of an attempt."""
        return self._facts.get(attempt, _NO_FACTS)

    def finish(self, state: EngineState) -> ExecutionHistory:
        """Complete the projection with the final state of the engine."""
        self.history.finish()
        self.runs = tuple(state.runs)
        return self


def read_history(
    engine: Engine, entries: Iterable[JournalEntry], plans: Mapping[str, StoredPlan]
) -> ExecutionHistory:
    """Apply the entries of a journal to a new engine and return their projection."""
    engine.state.plans.update(plans)
    projection = ExecutionHistory()
    for entry in entries:
        engine.apply(entry.event, entry.now, entry.commands)
        projection.take(entry, engine.state)
    return projection.finish(engine.state)


_LINES = 10
_MOST_BYTES = 16_384
_LONGEST = 500
"""Maximal characters per line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTail:
    """The last lines of a log."""

    path: str
    """Path of the log relative to the project."""
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLogs:
    """Logs of the attempts of one execution."""

    layout: ProjectLayout
    execution: int

    def last(self, attempt: int, lines: int = _LINES) -> LogTail | None:
        """Return the last lines of the standard error, else of the output; None if both are empty."""
        folder = self.layout.records(self.execution, attempt).relative_to(self.layout.project)
        for name in ("err", "out"):
            path = str(folder / name)
            if found := _last_lines(_end_of(self.layout.project, path), lines):
                return LogTail(path=path, lines=found)
        return None


def _last_lines(data: bytes, most: int) -> tuple[str, ...]:
    if not (text := data.decode("utf-8", "replace").rstrip()):
        return ()
    # A carriage return starts a line, as in progress displays of programs.
    found = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")[-most:]
    return tuple(printable(line.expandtabs(4))[:_LONGEST] for line in found)


def _end_of(project: Path, path: str) -> bytes:
    try:
        descriptor = open_inside(project, path)
    except (OSError, StagingProblem):
        return b""  # a missing log is no error
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
    """Resource usage and end of one attempt's process; None if unknown."""

    cpu_s: float | None = None
    max_rss_bytes: float | None = None
    pid: int | None = None
    signal: int | None = None
    """Signal that ended it; None if none."""
    text: str = ""
    """Message of the runner, such as why the program could not start."""

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> ProcessUsage:
        """Create from the end record of a runner (``user_s``, ``system_s``, ``pid``, ...)."""
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
    """Records of an execution besides its journal."""

    promises: Mapping[int, Promise] = field(default_factory=dict)
    """By run. For a run without one, the prediction is computed from its first plan."""
    measured: Mapping[int, ProcessUsage] = field(default_factory=dict)
    """By attempt."""
    products: Mapping[int, Product] = field(default_factory=dict)
    """By the attempt that produced them."""
    logs: AttemptLogs | None = None
    numbers: Mapping[int, int] = field(default_factory=dict)
    """Run numbers shown to users, by run index; a run without one shows its index."""
    zero_at_s: float | None = None
    """Unix time of the engine's time 0; None if unknown."""

    def wall(self, time_s: float | None) -> datetime | None:
        """Convert a time of the engine's clock to UTC; None if unknown."""
        if time_s is None or self.zero_at_s is None:
            return None
        return datetime.fromtimestamp(self.zero_at_s + time_s, UTC)


NO_RECORDS = ExecutionRecords()
"""For a journal without further records."""
