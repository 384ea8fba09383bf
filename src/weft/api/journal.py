"""Explain a task and replay a journal: the functions behind ``weft explain`` and ``weft replay``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from weft.engine.explanation import (
    Candidate,
    Explanation,
    ExplanationStep,
    PlacementChoice,
    describe_state,
    explain,
)
from weft.engine.history import AttemptRecord
from weft.engine.replay import ReplayResult, replay
from weft.engine.states import ACTIVE, format_counters
from weft.policies.policy import make_policy
from weft.repository.database import open_database
from weft.repository.journal import Journal
from weft.repository.journal_store import SelectedJournal, find_journal
from weft.repository.products import find_source_run
from weft.units import format_count, format_seconds

_SHOWN = 12
"""Maximal number of machines, and of history steps, that are printed unless ``verbose``."""
_MOST_MACHINES = 1_000_000


def explain_task(
    journal: Journal | str | Path, task: str, *, run: int | None = None, at_s: float | None = None
) -> Explanation:
    """Explain the state of a task at a time of a journal (default: the end of the journal).

    In a project, ``run`` is the number shown by ``weft ls`` (default: the last run). In a journal object or
    file, ``run`` is the position of the run, counted from 0 (default: the first run).
    """
    if isinstance(journal, Journal):
        found = SelectedJournal(journal=journal, position=run or 0)
    else:
        found = find_journal(journal, run)
    read, which = found.journal, found.position
    wanted = math.inf if at_s is None else at_s
    return explain(
        read.engine,
        read.entries,
        read.plans,
        task,
        run=which,
        number=found.number,
        at_s=wanted,
        rebuilt=read.rebuilt,
        name_source=None if found.database is None else partial(_name_source, found),
    )


def _name_source(found: SelectedJournal, attempt: AttemptRecord) -> str:
    """Return the run whose outputs an attempt reuses, such as ``run 3``; ``an earlier run`` if unknown."""
    assert found.database is not None
    assert found.execution is not None
    assert attempt.reused_from is not None
    with open_database(found.database) as database:
        number = find_source_run(database, found.execution, attempt.number, attempt.reused_from)
    return "an earlier run" if number is None else f"run {number}"


_ACTIVE = frozenset(state.name.lower() for state in ACTIVE)


def explanation_lines(
    found: Explanation, *, verbose: bool = False, interrupted: bool = False, one_iteration: bool = False
) -> Iterator[str]:
    """Yield an explanation as lines of text; ``verbose``: all machines and the whole history.

    ``interrupted``: no engine drives the run; the text says that the states are those of the last journal
    entry. ``one_iteration``: the explanation is about one iteration of a loop, and the text names the
    iteration even if it is the first.
    """
    most = len(found.story) + _MOST_MACHINES if verbose else _SHOWN
    later = one_iteration or any(count > 1 for count in found.counters)
    iteration = f", iteration {format_counters(found.counters)}" if later else ""
    at = f"at {format_seconds(found.at_s)}"
    state = describe_state(found.state)
    when = f"is {state} {at}"
    if interrupted and found.state in _ACTIVE:
        when = f"was {state} when the engine ended, {at}"
    yield f"{found.task} of run {found.run} ({found.workflow}){iteration} {when}"
    for reason in found.waits_for:
        yield f"  waits for {reason}"
    if found.choice is not None:
        yield from _choice_lines(found.choice, most)
    if found.candidates:
        yield "now:"
        yield from _candidate_lines(found.candidates, most, chosen="")
    yield "history:"
    story = [step for step in found.story if verbose or not step.routine]
    yield from _story_lines(story, most)
    if not story:
        yield "  nothing yet"
    if hidden := len(found.story) - len(story):
        yield f"  {format_count(hidden, 'report')} of progress and checkpoints: -v shows them"
    if interrupted:
        states = "the states are those of the last journal entry"
        yield f"{states}: no engine is running; `weft resume` continues the run"


def _story_lines(story: Sequence[ExplanationStep], most: int) -> Iterator[str]:
    """Yield the last ``most`` steps of a history and all earlier migrations, with counts of hidden steps."""
    first = max(0, len(story) - most)
    skipped = 0
    for number, step in enumerate(story):
        if number < first and not step.migration:
            skipped += 1
            continue
        if skipped:
            yield f"  … {format_count(skipped, 'earlier step')}"
            skipped = 0
        yield f"  {format_seconds(step.now):>10}  {step.text}"


def _choice_lines(choice: PlacementChoice, most: int) -> Iterator[str]:
    ahead = f" behind {format_count(choice.ahead, 'attempt')}" if choice.ahead else ""
    how = f", waiting in its queue{ahead}" if choice.queued else ""
    nodes = f" with {format_count(choice.count, 'node')}" if choice.count else ""
    yield (
        f"placed on {choice.machine}{nodes}{how} at {format_seconds(choice.now)} "
        f"(entry {choice.entry}) by {choice.by}; the machines at that time:"
    )
    if choice.left:
        what = "migrates away from" if choice.ran else "had not started on"
        yield f"   the task {what} {choice.left}, which is therefore no candidate"
    yield from _candidate_lines(choice.candidates, most, chosen=choice.machine)


def _candidate_lines(candidates: Sequence[Candidate], most: int, *, chosen: str) -> Iterator[str]:
    """Yield one line per machine: the chosen one first, then by estimated finish time of the task."""

    def place(candidate: Candidate) -> tuple[bool, bool, float]:
        finish = min((option.finish_s for option in candidate.options), default=math.inf)
        return candidate.machine != chosen, not candidate.options, finish

    if common := _met_by_all(candidates):
        yield f"   every machine: {', '.join(common)}"
    ordered = sorted(candidates, key=place)
    for candidate in ordered[:most]:
        mark = "*" if candidate.machine == chosen else " "
        yield f" {mark} {candidate.machine}: {'; '.join(_verdict(candidate, common))}"
    if len(ordered) > most:
        yield f"   … {format_count(len(ordered) - most, 'more machine')}"


def _met_by_all(candidates: Sequence[Candidate]) -> list[str]:
    """Return the texts of the conditions that every machine meets; [] for fewer than two machines."""
    met = [
        {condition.text: None for condition in candidate.conditions if condition.holds}
        for candidate in candidates
    ]
    return [text for text in met[0] if all(text in other for other in met[1:])] if len(met) > 1 else []


def _verdict(candidate: Candidate, common: Sequence[str]) -> Iterator[str]:
    met = [each.text for each in candidate.conditions if each.holds and each.text not in common]
    if met:
        yield "yes, " + ", ".join(met)
    if candidate.refusals:
        yield "no, " + ", ".join(condition.text for condition in candidate.refusals)
    if candidate.rank is not None:
        yield f"rank {candidate.rank:g}"
    if candidate.options:
        best = min(candidate.options, key=lambda option: (option.finish_s, option.count))
        nodes = f"{format_count(best.count, 'node')}: " if len(candidate.options) > 1 else ""
        work = f"{format_seconds(best.seconds)} of work{' (assumed: no stated time)' if best.assumed else ''}"
        yield (
            f"{nodes}{work}, "
            f"data ready at {format_seconds(best.data_ready_s)}, end at {format_seconds(best.finish_s)}"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class ReplayedJournal:
    """A journal and the result of its replay."""

    journal: Journal
    policy: str
    """Policy used for the replay."""
    replayed: ReplayResult

    def as_record(self) -> dict[str, Any]:
        """Return the object printed by ``weft replay --json``."""
        replayed = self.replayed
        return {
            "policy": self.policy,
            "recorded_policy": self.journal.header.policy,
            "recorded_version": self.journal.header.version,
            "entries": replayed.total,
            "decided": replayed.entries,
            "commands": replayed.commands,
            "same": replayed.same,
            "differences": [difference.as_record() for difference in replayed.differences],
        }


def replay_journal(
    journal: Journal | str | Path, *, policy: str | None = None, run: int | None = None
) -> ReplayedJournal:
    """Replay the events of a journal with its own or another policy, and compare the commands.

    For a project, ``run`` selects the journal by run number (default: the last run).
    """
    read = journal if isinstance(journal, Journal) else find_journal(journal, run).journal
    name = read.header.policy if policy is None else policy
    engine = read.engine(make_policy(name))
    return ReplayedJournal(journal=read, policy=name, replayed=replay(engine, read.entries, read.plans))
