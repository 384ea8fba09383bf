"""Explain: why a task is where it is, at any time of a journal.

The journal is applied up to that time. What was decided about the task stands in its commands; the
conditions and estimates that its last placement rested on are worked out again from the state at the very
moment of that decision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from weft.engine.absorbing import absorb
from weft.engine.enacting import enact
from weft.engine.engine import Engine
from weft.engine.explaining.candidates import Candidate, candidates_of
from weft.engine.explaining.telling import told
from weft.engine.explaining.waiting import waits_for
from weft.engine.journal import Entry
from weft.engine.messages.commands import Assign
from weft.engine.replaying import rebuild
from weft.engine.state.known import Known
from weft.engine.state.plans import StoredPlan
from weft.engine.state.run import Run
from weft.engine.state.states import FINAL, TaskState
from weft.errors import InvalidInput, Problem, nearest

__all__ = ["Choice", "Explanation", "Step", "explain"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that happened to the task, or was decided about it."""

    entry: int
    now: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The last time the task was given a machine."""

    entry: int
    now: float
    attempt: int
    machine: str
    nodes: int
    count: int
    by: str
    """The policy, or the reason for a migration."""
    queued: bool
    """Whether it was sent to wait in the machine's queue."""
    candidates: tuple[Candidate, ...]
    """As they were believed to be at that moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a task is where it is."""

    run: int
    workflow: str
    task: str
    iteration: int
    at_s: float
    state: str
    waits_for: tuple[str, ...]
    choice: Choice | None
    candidates: tuple[Candidate, ...]
    """As they are believed to be now, of a task that has no machine yet."""
    story: tuple[Step, ...]

    def as_record(self) -> dict[str, Any]:
        """Give it as plain data."""
        record = asdict(self)
        record["candidates"] = [candidate.as_record() for candidate in self.candidates]
        if self.choice is not None:
            record["choice"]["candidates"] = [each.as_record() for each in self.choice.candidates]
        return record


def explain(
    fresh: Callable[[], Engine],
    entries: Sequence[Entry],
    plans: Mapping[str, StoredPlan],
    task: str,
    *,
    run: int = 0,
    at_s: float = math.inf,
    rebuilt: Callable[[int], Engine] | None = None,
) -> Explanation:
    """Explain one task; ``fresh`` makes an engine as the journal's.

    ``rebuilt`` gives one as it was after so many entries, where there is a quicker way than to apply them
    all.
    """
    engine = fresh()
    engine.state.plans.update(plans)
    past = [entry for entry in entries if entry.now <= at_s]
    story: list[Step] = []
    placed: tuple[int, int] | None = None
    attempts: set[int] = set()
    finder = _Finder(task)
    for index, entry in enumerate(past):
        engine.apply(entry.event, entry.now, entry.commands)
        if len(engine.state.runs) <= run:
            continue
        number = finder.index(engine.state.runs[run])
        for position, text in told(engine.state, entry, run, number, attempts):
            story.append(Step(entry=entry.sequence, now=entry.now, text=text))
            if position >= 0 and isinstance(entry.commands[position], Assign):
                placed = index, position
    there = _run(engine, run)
    number = finder.index(there)
    if number < 0:
        raise _unknown(there, task)
    choice = None
    if placed is not None:
        index, position = placed
        before = rebuild(fresh(), past[:index], plans) if rebuilt is None else rebuilt(index)
        choice = _choice(before, past[index], position)
    waiting = there.state[number] in (TaskState.READY, TaskState.WAITING, TaskState.HELD)
    return Explanation(
        run=run,
        workflow=there.known.key,
        task=task,
        iteration=there.loops.iteration(number),
        at_s=engine.state.now if math.isinf(at_s) else at_s,
        state=TaskState(there.state[number]).name.lower(),
        waits_for=() if there.state[number] in FINAL else tuple(waits_for(engine.state, there, number)),
        choice=choice,
        candidates=tuple(candidates_of(engine.state, there, number)) if waiting else (),
        story=tuple(story),
    )


class _Finder:
    """Finds a task by its name, which stays when a graph grows."""

    def __init__(self, task: str) -> None:
        self._task = task
        self._known: Known | None = None
        self._index = -1

    def index(self, run: Run) -> int:
        """Give the index of the task in a run; -1: it does not exist (yet)."""
        if run.known is not self._known:
            self._known = run.known
            found = (index for index, name in enumerate(run.known.names) if name == self._task)
            self._index = next(found, -1)
        return self._index


def _run(engine: Engine, run: int) -> Run:
    if run < len(engine.state.runs):
        return engine.state.runs[run]
    count = len(engine.state.runs)
    rule = f"at that time there are {count}, from 0" if count else "nothing has arrived by that time"
    raise InvalidInput(Problem(what=f"no run {run}", rule=rule))


def _unknown(run: Run, task: str) -> InvalidInput:
    close = nearest(task, run.known.names)
    points = [name for name in run.known.names if name.startswith(f"{task}[")]
    advice = f"did you mean {close!r}?" if close else "`weft show` lists the tasks of a workflow"
    if points:
        advice = f"it has {len(points)} points: name one, such as {points[0]!r}"
    return InvalidInput(
        Problem(what=f"run {run.index} ({run.known.key}) has no task {task!r}", advice=advice)
    )


def _choice(engine: Engine, entry: Entry, position: int) -> Choice:
    """Work out again what a placement rested on; ``engine`` is as it was before the entry that decided it."""
    state = engine.state
    absorb(state, entry.event, entry.now)
    for command in entry.commands[:position]:
        enact(state, command)
    command = entry.commands[position]
    assert isinstance(command, Assign)
    run = state.runs[command.run]
    by = f"policy {engine.policy.name!r}"
    if command.replaces is not None:
        by = f"migration: {command.reason}" if command.reason else f"{by}, for a task that had to leave"
    elif command.reason:
        by = f"{by}: {command.reason}"
    return Choice(
        entry=entry.sequence,
        now=entry.now,
        attempt=command.attempt,
        machine=state.machines[command.machine].name,
        nodes=command.nodes,
        count=command.count,
        by=by,
        queued=not command.reserve,
        candidates=tuple(candidates_of(state, run, command.task)),
    )
