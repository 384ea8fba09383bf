"""The chronicle: follows a journal entry by entry and keeps what reports of executed runs need.

The history knows how attempts went; beside it stand their exit codes, what was moved for them, when their
outputs were brought home, and the first plan of every run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from weft.engine.deciding.failing import asks_to_run_again
from weft.engine.engine import Engine
from weft.engine.history.history import History
from weft.engine.journal import Entry
from weft.engine.messages import commands as cm
from weft.engine.messages import events as ev
from weft.engine.state.plans import StoredPlan
from weft.engine.state.run import Run
from weft.engine.state.state import State

__all__ = ["Chronicle", "Facts", "chronicle_of"]


@dataclass(slots=True, kw_only=True)
class Facts:
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


_NOTHING = Facts()


class Chronicle:
    """What a journal tells."""

    def __init__(self) -> None:
        self.history = History()
        self.runs: tuple[Run, ...] = ()
        """The state of each run at the end, for its graph."""
        self.first_plans: dict[int, StoredPlan] = {}
        """By run: the first plan it adopted."""
        self._facts: dict[int, Facts] = {}
        self._tries: dict[tuple[int, str], list[int]] = {}
        """By run and task: its attempts."""

    def take(self, entry: Entry, state: State) -> None:
        """Take in an entry; ``state`` is the engine's after it."""
        self.history.take(entry, state)
        match entry.event:
            case ev.Ended(attempt=attempt, exit_code=code, story=story) as ended:
                facts = self._of(attempt)
                # A program that its world has ended, so that it runs again later, has no exit code.
                stopped = bool(story) and asks_to_run_again(ended)
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

    def _command(self, command: cm.Command, entry: Entry, state: State) -> None:
        match command:
            case cm.Assign(run=run, task=task, attempt=attempt):
                self._tries.setdefault((run, state.runs[run].known.names[task]), []).append(attempt)
            case cm.Start(attempt=attempt):
                facts = self._of(attempt)
                facts.begun_n = entry.sequence if facts.begun_n is None else facts.begun_n
                facts.memory_bytes, facts.time_limit_s = command.memory_bytes, command.time_limit_s
            case cm.StageOut(attempt=attempt):
                facts = self._of(attempt)
                facts.leaving_s = entry.now if facts.leaving_s is None else facts.leaving_s
            case cm.Settle(run=run, task=task, state="COMPLETED"):
                for attempt in self._tries.get((run, state.runs[run].known.names[task]), ()):
                    facts = self._of(attempt)
                    if facts.completed_n is None and self.history.attempts[attempt].ending == "completed":
                        facts.completed_n = entry.sequence

    def _of(self, attempt: int) -> Facts:
        return self._facts.setdefault(attempt, Facts())

    def facts(self, attempt: int) -> Facts:
        """Give what is known of an attempt."""
        return self._facts.get(attempt, _NOTHING)

    def finish(self, state: State) -> Chronicle:
        """Work out what can only be known in the end; ``state`` is the engine's then."""
        self.history.finish()
        self.runs = tuple(state.runs)
        return self


def chronicle_of(engine: Engine, entries: Iterable[Entry], plans: Mapping[str, StoredPlan]) -> Chronicle:
    """Apply the entries of a journal to a fresh engine and tell what happened."""
    engine.state.plans.update(plans)
    chronicle = Chronicle()
    for entry in entries:
        engine.apply(entry.event, entry.now, entry.commands)
        chronicle.take(entry, engine.state)
    return chronicle.finish(engine.state)
