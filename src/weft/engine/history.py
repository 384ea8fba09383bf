"""What a history is made of: runs, tries of tasks, moves, failures. Times are on the engine's clock.

A number that changes now and then: its value over time, as steps.

Useful and replicated work: which part of what was done nobody had to do again (invariant I7).

The attempts of one task in one iteration are looked at from the last to the first. The one that completed
did everything above the checkpoint it began with; the one before it that wrote this checkpoint did what lies
between its own beginning and that; and so on down to zero. What an attempt did beyond its useful part was
replicated, or lost with a task that never completed.

History: follows a journal entry by entry and remembers what became of every attempt, run and machine.

It reads events and commands; of the engine's state, as it is after the entry, only names, iterations and how
many tasks are ready. So it tells the same story during a run and when its journal is applied later.

Numbers that sum a history up: utilisation, replicated work, slowdowns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.engine.journal import JournalEntry
from weft.engine.state.state import EngineState
from weft.workflow.task_graph import COMPUTE

__all__ = [
    "AttemptRecord",
    "FailureRecord",
    "History",
    "MachineUse",
    "MigrationRecord",
    "RunSummary",
    "StepFunction",
    "assign_useful_shares",
    "count_causes",
    "count_migration_reasons",
    "count_node_seconds",
    "list_slowdowns",
    "measure_machines",
    "replicated_share",
]


@dataclass(slots=True, kw_only=True)
class AttemptRecord:
    """One attempt, from its assignment to its end."""

    number: int
    run: int
    task: str
    iteration: int
    kind: str
    """What tasks have in common: the description that points of a sweep share, or the program it names."""
    machine: int
    nodes: int
    count: int
    assigned_s: float
    reason: str = ""
    """Who sent it there and why, as the journal says."""
    replaces: int | None = None
    seconds: float = 0.0
    """Estimated for the whole task at the machine's stated speed."""
    restart_from: float = 0.0
    """The share of the work that a checkpoint spares it."""
    staging_s: float | None = None
    """When data were first sent for; None: nothing had to move."""
    staged_s: float | None = None
    """When the last of them had come."""
    submitted_s: float | None = None
    started_s: float | None = None
    ended_s: float | None = None
    suspended_s: float = 0.0
    """How long the remote side had stopped it, in all."""
    work_done: float | None = None
    """The share of the task's work that was done at its end; None: unknown."""
    checkpoint: float | None = None
    """The share that its last restart files kept; None: it wrote none."""
    ending: str = ""
    """``completed``, ``failed``, ``migrated``, ``cancelled``, ``withdrawn`` (it never ran); "": not over."""
    cause: str = ""
    """Of a failure."""
    left_for: str = ""
    """Why it had to leave its machine; "": it did not have to."""
    useful_share: float = 0.0
    """The share of the task's work that it did and that nobody did again."""

    def ran(self, seconds: float, until_s: float) -> None:
        """Correct its times by what was measured where its program ran.

        Clocks differ: it did not begin before it was to, nor end after that was told.
        """
        told_s = until_s if self.ended_s is None else self.ended_s
        earliest_s = self.assigned_s if self.submitted_s is None else self.submitted_s
        self.ended_s = min(told_s, max(until_s, earliest_s + seconds))
        self.started_s = max(earliest_s, self.ended_s - seconds)

    @property
    def ran_s(self) -> float:
        """Give how long its program ran (of a transfer: how long data moved)."""
        if self.started_s is None or self.ended_s is None:
            return 0.0
        return self.ended_s - self.started_s

    @property
    def node_seconds(self) -> float:
        """Give the node-seconds its program took."""
        return self.nodes * self.ran_s

    @property
    def useful_s(self) -> float:
        """Give how much of the time it ran served the task in the end."""
        if self.ending == "completed" and self.useful_share > 0:
            return self.ran_s
        if self.useful_share <= 0:
            return 0.0
        done = None if self.work_done is None else self.work_done - self.restart_from
        if done is not None and done > 0:
            return self.ran_s * min(1.0, self.useful_share / done)
        return min(self.ran_s, self.useful_share * self.seconds)

    def as_record(self, machines: tuple[str, ...]) -> dict[str, Any]:
        """Give it as plain data, with the machine's name."""
        return asdict(self) | {"machine": machines[self.machine], "useful_s": self.useful_s}


@dataclass(slots=True, kw_only=True)
class MigrationRecord:
    """A task went on elsewhere: a migration, for one of the reasons of S3 section 1 or by a plan."""

    at_s: float
    """When it was decided (for ``failure``: when the task got its new machine)."""
    run: int
    task: str
    iteration: int
    source: int
    target: int
    reason: str
    """``better-machine``, ``performance``, ``suspension``, ``self-migration``, ``failure``, ``user``, ..."""
    old: int
    new: int
    """The attempts."""
    restart_from: float = 0.0
    off: bool = False
    """Whether it came to nothing: the task ended before it could be cancelled."""

    def as_record(self, machines: tuple[str, ...]) -> dict[str, Any]:
        """Give it as plain data, with the machines' names."""
        return asdict(self) | {"source": machines[self.source], "target": machines[self.target]}


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRecord:
    """An attempt failed, or a task did for good."""

    at_s: float
    run: int
    task: str
    cause: str
    reason: str
    attempt: int
    """-1: none (a loop that did not converge)."""
    for_good: bool


@dataclass(slots=True, kw_only=True)
class RunSummary:
    """One run, from arrival to end."""

    index: int
    workflow: str
    owner: str
    arrival_s: float
    alone_s: float = 0.0
    """Estimated makespan alone on the empty platform (S5 section 3: mk)."""
    tasks: int = 0
    ended_s: float | None = None
    outcome: str = ""
    """``completed``, ``failed``, ``stopped``, ``cancelled``; "": it has not ended."""
    reason: str = ""
    iterations: dict[str, int] = field(default_factory=dict)
    """How often each loop ran; of a loop with several bodies, the most."""
    plans: int = 0
    """How many plans it adopted."""

    @property
    def response_s(self) -> float | None:
        """Give the time from arrival to end; None: it has not ended."""
        return None if self.ended_s is None else self.ended_s - self.arrival_s

    @property
    def slowdown(self) -> float | None:
        """Give (C - r) / mk of S5; None: it has not completed, or takes no time alone."""
        if self.outcome != "completed" or self.response_s is None or self.alone_s <= 0:
            return None
        return self.response_s / self.alone_s

    def as_record(self) -> dict[str, Any]:
        """Give it as plain data."""
        return asdict(self) | {"response_s": self.response_s, "slowdown": self.slowdown}


@dataclass(slots=True)
class StepFunction:
    """Times and the values from then on; before the first time the value is 0."""

    times_s: list[float] = field(default_factory=list)
    values: list[int] = field(default_factory=list)

    def at(self, now_s: float, value: int) -> None:
        """Say what the value is from now on; of several at one time the last holds."""
        if self.times_s and self.times_s[-1] == now_s:
            self.values[-1] = value
            if len(self.values) > 1 and self.values[-2] == value:
                del self.times_s[-1], self.values[-1]
        elif not self.values or self.values[-1] != value:
            self.times_s.append(now_s)
            self.values.append(value)

    def add(self, now_s: float, change: int) -> None:
        """Change the value by some amount from now on."""
        self.at(now_s, (self.values[-1] if self.values else 0) + change)

    @property
    def most(self) -> int:
        """Give the largest value."""
        return max(self.values, default=0)

    def mean(self, end_s: float) -> float:
        """Give the mean value from 0 to a time."""
        if end_s <= 0:
            return 0.0
        borders = [*self.times_s[1:], end_s]
        area = sum(
            value * max(0.0, min(after, end_s) - min(start, end_s))
            for start, after, value in zip(self.times_s, borders, self.values, strict=False)
        )
        return area / end_s

    def thinned(self, most: int) -> list[tuple[float, int]]:
        """Give at most about so many steps; where steps are joined, the largest value of them stays."""
        pairs = list(zip(self.times_s, self.values, strict=True))
        each = -(-len(pairs) // most) if pairs else 1
        if each <= 1:
            return pairs
        joined = [
            (pairs[first][0], max(value for _, value in pairs[first : first + each]))
            for first in range(0, len(pairs) - 1, each)
        ]
        return [*joined, pairs[-1]]


def assign_useful_shares(attempts: Iterable[AttemptRecord]) -> None:
    """Set the useful share of every attempt; those of a completed task sum up to 1."""
    stories: dict[tuple[int, str, int], list[AttemptRecord]] = {}
    for attempt in attempts:
        stories.setdefault((attempt.run, attempt.task, attempt.iteration), []).append(attempt)
    for tries in stories.values():
        _assign_shares(tries)


def _assign_shares(tries: Sequence[AttemptRecord]) -> None:
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


class History:
    """What happened so far."""

    def __init__(self) -> None:
        self.now = 0.0
        self.acted_s = 0.0
        """When anything last happened to a task."""
        self.entries = 0
        self.runs: list[RunSummary] = []
        self.attempts: dict[int, AttemptRecord] = {}
        """By number."""
        self.moves: list[MigrationRecord] = []
        self.failures: list[FailureRecord] = []
        self.violations = 0
        """How often an attempt was found to break its contract."""
        self.active = StepFunction()
        """Workflows that have arrived and not ended, over time."""
        self.ready = StepFunction()
        """Tasks that could run if there were a machine, over time."""
        self.down: list[tuple[int, float, float | None]] = []
        """Machines that were down: machine, since when, until when; None: still."""
        self._current: dict[tuple[int, str], int] = {}
        """Per run and task: its last attempt."""
        self._suspended: dict[int, float] = {}
        self._ready_of: dict[int, int] = {}
        self._ready_total = 0
        self._hear: dict[type, Callable[[Any, EngineState], None]] = {
            ev.Submitted: self._submitted,
            ev.Started: self._started,
            ev.Ended: self._ended,
            ev.StagedIn: self._staged_in,
            ev.Progressed: self._progressed,
            ev.Checkpointed: self._checkpointed,
            ev.Suspended: self._suspend,
            ev.Resumed: self._resumed,
            ev.MachineChanged: self._machine_changed,
        }
        self._obey: dict[type, Callable[[Any, EngineState], None]] = {
            cm.Assign: self._assign,
            cm.StageIn: self._stage_in,
            cm.Start: self._start,
            cm.Cancel: self._cancel,
            cm.Return: self._return,
            cm.Settle: self._settle,
            cm.Drop: self._drop,
            cm.Repeat: self._repeat,
            cm.Finish: self._finish,
            cm.Note: self._note,
        }

    def take(self, entry: JournalEntry, state: EngineState) -> None:
        """Take in an entry; ``state`` is the engine's after it."""
        self.now = entry.now
        self.entries += 1
        hear = self._hear.get(type(entry.event))
        if hear is not None:
            hear(entry.event, state)
            self.acted_s = self.now
        touched = {getattr(entry.event, "run", -1)}
        for command in entry.commands:
            obey = self._obey.get(type(command))
            if obey is not None:
                obey(command, state)
                self.acted_s = self.acted_s if isinstance(command, cm.Note) else self.now
                touched.add(getattr(command, "run", -1))
        self._count_ready(state, touched)

    def finish(self) -> History:
        """Work out what can only be known in the end: which work was useful."""
        assign_useful_shares(self.attempts.values())
        return self

    @property
    def end_s(self) -> float:
        """Give when the last run ended, or when anything last happened where some run has not."""
        if any(run.ended_s is None for run in self.runs):
            return self.acted_s
        return max((run.ended_s for run in self.runs if run.ended_s is not None), default=0.0)

    def _count_ready(self, state: EngineState, touched: set[int]) -> None:
        for index in touched:
            if 0 <= index < len(state.runs):
                ready = len(state.runs[index].ready) if index in state.active else 0
                self._ready_total += ready - self._ready_of.get(index, 0)
                self._ready_of[index] = ready
        self.ready.at(self.now, self._ready_total)

    # Events

    def _submitted(self, event: ev.Submitted, state: EngineState) -> None:
        known = state.runs[event.run].compiled
        self.runs.append(
            RunSummary(
                index=event.run,
                workflow=event.workflow,
                owner=event.owner,
                arrival_s=self.now,
                alone_s=known.alone_s,
                tasks=len(known),
                iterations={body.loop.name: 1 for body in state.runs[event.run].loops.bodies},
            )
        )
        self.active.add(self.now, 1)

    def _started(self, event: ev.Started, state: EngineState) -> None:  # noqa: ARG002
        attempt = self.attempts.get(event.attempt)
        if attempt is not None and attempt.started_s is None and not attempt.ending:
            attempt.started_s = self.now

    def _ended(self, event: ev.Ended, state: EngineState) -> None:  # noqa: ARG002
        attempt = self.attempts.get(event.attempt)
        if attempt is None or attempt.ended_s is not None:
            return
        attempt.ended_s = self.now
        if event.taken_over is not None:
            attempt.started_s = None  # no program ran: an earlier execution had done it
        elif event.ran_s is not None and attempt.started_s is not None:
            attempt.ran(event.ran_s, self.now - event.late_s)
        self._end_suspension(attempt)
        if event.work_done is not None:
            attempt.work_done = event.work_done

    def _staged_in(self, event: ev.StagedIn, state: EngineState) -> None:  # noqa: ARG002
        attempt = self.attempts.get(event.attempt)
        if attempt is not None:
            attempt.staged_s = self.now

    def _progressed(self, event: ev.Progressed, state: EngineState) -> None:  # noqa: ARG002
        attempt = self.attempts.get(event.attempt)
        if attempt is not None and event.work_done is not None and attempt.ended_s is None:
            attempt.work_done = event.work_done

    def _checkpointed(self, event: ev.Checkpointed, state: EngineState) -> None:  # noqa: ARG002
        attempt = self.attempts.get(event.attempt)
        if attempt is not None:
            attempt.checkpoint = event.work_done

    def _suspend(self, event: ev.Suspended, state: EngineState) -> None:  # noqa: ARG002
        self._suspended.setdefault(event.attempt, self.now)

    def _resumed(self, event: ev.Resumed, state: EngineState) -> None:  # noqa: ARG002
        attempt = self.attempts.get(event.attempt)
        if attempt is not None:
            self._end_suspension(attempt)

    def _end_suspension(self, attempt: AttemptRecord) -> None:
        since = self._suspended.pop(attempt.number, None)
        if since is not None:
            until_s = self.now if attempt.ended_s is None else attempt.ended_s
            attempt.suspended_s += max(0.0, until_s - since)

    def _machine_changed(self, event: ev.MachineChanged, state: EngineState) -> None:  # noqa: ARG002
        if event.up is not None:
            self._set_up(event.machine, event.up)

    def _set_up(self, machine: int, up: bool) -> None:
        last = next((row for row in reversed(self.down) if row[0] == machine), None)
        is_down = last is not None and last[2] is None
        if up and is_down and last is not None:
            self.down[self.down.index(last)] = (machine, last[1], self.now)
        elif not up and not is_down:
            self.down.append((machine, self.now, None))

    # Commands

    def _assign(self, command: cm.Assign, state: EngineState) -> None:
        run = state.runs[command.run]
        known, task = run.compiled, command.task
        name, iteration = known.names[task], run.loops.iteration(task)
        before = self.attempts.get(self._current.get((command.run, name), -1))
        compute = known.kind[task] == COMPUTE
        tried = AttemptRecord(
            number=command.attempt,
            run=command.run,
            task=name,
            iteration=iteration,
            kind=known.graph.description(task).program,
            machine=command.machine,
            nodes=command.nodes,
            count=command.count,
            assigned_s=self.now,
            reason=command.reason,
            replaces=command.replaces,
            seconds=known.seconds(task, command.machine, command.count) if compute else 0.0,
            restart_from=command.restart_from,
        )
        self.attempts[command.attempt] = tried
        self._current[command.run, name] = command.attempt
        if before is not None and before.iteration == iteration:
            self._note_move(before, tried, command)

    def _note_move(self, before: AttemptRecord, tried: AttemptRecord, command: cm.Assign) -> None:
        """Remember a migration: one that was decided as such, or a new try after a failure elsewhere."""
        if command.replaces is not None:
            before.left_for = reason = before.left_for or command.reason
            if before.ending in ("", "cancelled"):
                before.ending = "migrated" if before.started_s is not None else "withdrawn"
        elif before.cause and before.started_s is not None and before.machine != tried.machine:
            reason = "failure"
        else:
            return
        self.moves.append(
            MigrationRecord(
                at_s=self.now,
                run=tried.run,
                task=tried.task,
                iteration=tried.iteration,
                source=before.machine,
                target=tried.machine,
                reason=reason,
                old=before.number,
                new=tried.number,
                restart_from=tried.restart_from,
            )
        )

    def _stage_in(self, command: cm.StageIn, state: EngineState) -> None:  # noqa: ARG002
        attempt = self.attempts[command.attempt]
        if attempt.staging_s is None:
            attempt.staging_s = self.now

    def _start(self, command: cm.Start, state: EngineState) -> None:
        attempt = self.attempts[command.attempt]
        attempt.submitted_s = self.now
        attempt.restart_from = command.restart_from
        if state.settings.begins_at_once and attempt.started_s is None:
            attempt.started_s = self.now

    def _cancel(self, command: cm.Cancel, state: EngineState) -> None:  # noqa: ARG002
        attempt = self.attempts.get(command.attempt)
        if attempt is not None and not attempt.left_for:
            attempt.left_for = command.reason

    def _return(self, command: cm.Return, state: EngineState) -> None:  # noqa: ARG002
        """Take a migration back that came too late."""
        old = self.attempts[command.attempt]
        new = self.attempts[self._current[old.run, old.task]]
        if new.number != old.number:
            new.ending = "withdrawn"
            old.ending = old.left_for = ""
            self._current[old.run, old.task] = old.number
            for move in self.moves:
                move.off = move.off or move.new == new.number

    def _settle(self, command: cm.Settle, state: EngineState) -> None:
        name = state.runs[command.run].compiled.names[command.task]
        attempt = self.attempts.get(self._current.get((command.run, name), -1))
        if attempt is not None and attempt.ending:
            attempt = None  # it was over before: what is settled is the task
        if command.cause:
            number = -1 if attempt is None else attempt.number
            self.failures.append(
                FailureRecord(
                    at_s=self.now,
                    run=command.run,
                    task=name,
                    cause=command.cause,
                    reason=command.reason,
                    attempt=number,
                    for_good=command.state in ("FAILED", "STOPPED"),
                )
            )
        if attempt is not None:
            self._settle_attempt(attempt, command)

    def _settle_attempt(self, attempt: AttemptRecord, command: cm.Settle) -> None:
        if attempt.submitted_s is None and command.state == "COMPLETED":
            # A transfer: it ran while its data moved.
            attempt.started_s = attempt.staging_s if attempt.staging_s is not None else self.now
        if attempt.started_s is not None and attempt.ended_s is None:
            attempt.ended_s = self.now
            self._end_suspension(attempt)
        attempt.cause = command.cause
        if command.state == "COMPLETED":
            attempt.ending, attempt.work_done = "completed", 1.0
        elif command.cause:
            attempt.ending = "failed"
        else:
            attempt.ending = "cancelled" if attempt.started_s is not None else "withdrawn"
            attempt.left_for = attempt.left_for or command.reason

    def _drop(self, command: cm.Drop, state: EngineState) -> None:  # noqa: ARG002
        attempt = self.attempts.get(command.attempt)
        if attempt is not None and attempt.started_s is not None and attempt.ended_s is None:
            attempt.ended_s = self.now
            self._end_suspension(attempt)

    def _repeat(self, command: cm.Repeat, state: EngineState) -> None:
        name = state.runs[command.run].loops.bodies[command.body].loop.name
        story = self.runs[command.run].iterations
        story[name] = max(story.get(name, 1), command.iteration)

    def _finish(self, command: cm.Finish, state: EngineState) -> None:
        story = self.runs[command.run]
        story.ended_s, story.outcome, story.reason = self.now, command.outcome, command.reason
        story.tasks = len(state.runs[command.run])
        self.active.add(self.now, -1)

    def _note(self, command: cm.Note, state: EngineState) -> None:  # noqa: ARG002
        match command.kind:
            case "violation":
                self.violations += 1
            case "adopted":
                self.runs[command.run].plans += 1
            case "up" | "down":
                self._set_up(command.machine, command.kind == "up")
            case "lost":
                attempt = self.attempts.get(command.attempt)
                if attempt is not None and attempt.started_s is not None and attempt.ended_s is None:
                    attempt.ended_s = self.now


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineUse:
    """How a machine was used from 0 to the end."""

    machine: str
    attempts: int
    busy_node_s: float
    replicated_node_s: float
    """Of these: what was done again elsewhere, or lost."""
    down_s: float
    share: float
    """Busy node-seconds over those the machine has."""


def measure_machines(history: History, machines: Sequence[tuple[str, int]]) -> list[MachineUse]:
    """Measure every machine, given by name and nodes."""
    end_s = history.end_s
    busy, waste, number = ([0.0] * len(machines) for _ in range(3))
    for attempt in history.attempts.values():
        if attempt.started_s is not None:
            busy[attempt.machine] += count_node_seconds(attempt, end_s)
            waste[attempt.machine] += count_node_seconds(attempt, end_s) - attempt.nodes * attempt.useful_s
            number[attempt.machine] += 1
    down = [0.0] * len(machines)
    for machine, since_s, until_s in history.down:
        down[machine] += max(0.0, min(end_s if until_s is None else until_s, end_s) - since_s)
    return [
        MachineUse(
            machine=name,
            attempts=int(number[index]),
            busy_node_s=busy[index],
            replicated_node_s=waste[index],
            down_s=down[index],
            share=busy[index] / (nodes * end_s) if nodes * end_s > 0 else 0.0,
        )
        for index, (name, nodes) in enumerate(machines)
    ]


def count_node_seconds(attempt: AttemptRecord, end_s: float) -> float:
    """Give the node-seconds an attempt took up to a time."""
    if attempt.started_s is None:
        return 0.0
    ended_s = end_s if attempt.ended_s is None else attempt.ended_s
    return attempt.nodes * max(0.0, ended_s - attempt.started_s)


def replicated_share(found: Sequence[MachineUse]) -> float:
    """Give the share of all node-seconds taken that served nobody in the end (S1: replicated work)."""
    busy = sum(use.busy_node_s for use in found)
    return sum(use.replicated_node_s for use in found) / busy if busy > 0 else 0.0


def count_migration_reasons(history: History) -> dict[str, int]:
    """Count the migrations by reason, the most frequent first."""
    return dict(Counter(move.reason for move in history.moves if not move.off).most_common())


def count_causes(history: History) -> dict[str, int]:
    """Count the failures by cause, the most frequent first."""
    return dict(Counter(failure.cause for failure in history.failures).most_common())


def list_slowdowns(history: History) -> dict[str, list[float]]:
    """Give the slowdowns of the completed runs by application (workflow), in the order of their arrival."""
    found: dict[str, list[float]] = {}
    for run in history.runs:
        if run.slowdown is not None:
            found.setdefault(run.workflow, []).append(run.slowdown)
    return found
