"""History: follows a journal entry by entry and remembers what became of every attempt, run and machine.

It reads events and commands; of the engine's state, as it is after the entry, only names, iterations and how
many tasks are ready. So it tells the same story during a run and when its journal is applied later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.engine.history.happenings import Failed, Moved, RunStory, Tried
from weft.engine.history.steps import Steps
from weft.engine.history.usefulness import judge_usefulness
from weft.engine.journal import Entry
from weft.engine.messages import commands as cm
from weft.engine.messages import events as ev
from weft.engine.state.state import State
from weft.workflow.unfolding.task_graph import COMPUTE

__all__ = ["History"]


class History:
    """What happened so far."""

    def __init__(self) -> None:
        self.now = 0.0
        self.acted_s = 0.0
        """When anything last happened to a task."""
        self.entries = 0
        self.runs: list[RunStory] = []
        self.attempts: dict[int, Tried] = {}
        """By number."""
        self.moves: list[Moved] = []
        self.failures: list[Failed] = []
        self.violations = 0
        """How often an attempt was found to break its contract."""
        self.active = Steps()
        """Workflows that have arrived and not ended, over time."""
        self.ready = Steps()
        """Tasks that could run if there were a machine, over time."""
        self.down: list[tuple[int, float, float | None]] = []
        """Machines that were down: machine, since when, until when; None: still."""
        self._current: dict[tuple[int, str], int] = {}
        """Per run and task: its last attempt."""
        self._suspended: dict[int, float] = {}
        self._ready_of: dict[int, int] = {}
        self._ready_total = 0
        self._hear: dict[type, Callable[[Any, State], None]] = {
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
        self._obey: dict[type, Callable[[Any, State], None]] = {
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

    def take(self, entry: Entry, state: State) -> None:
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
        judge_usefulness(self.attempts.values())
        return self

    @property
    def end_s(self) -> float:
        """Give when the last run ended, or when anything last happened where some run has not."""
        if any(run.ended_s is None for run in self.runs):
            return self.acted_s
        return max((run.ended_s for run in self.runs if run.ended_s is not None), default=0.0)

    def _count_ready(self, state: State, touched: set[int]) -> None:
        for index in touched:
            if 0 <= index < len(state.runs):
                ready = len(state.runs[index].ready) if index in state.active else 0
                self._ready_total += ready - self._ready_of.get(index, 0)
                self._ready_of[index] = ready
        self.ready.at(self.now, self._ready_total)

    # Events

    def _submitted(self, event: ev.Submitted, state: State) -> None:
        known = state.runs[event.run].known
        self.runs.append(
            RunStory(
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

    def _started(self, event: ev.Started, state: State) -> None:  # noqa: ARG002
        attempt = self.attempts.get(event.attempt)
        if attempt is not None and attempt.started_s is None and not attempt.ending:
            attempt.started_s = self.now

    def _ended(self, event: ev.Ended, state: State) -> None:  # noqa: ARG002
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

    def _staged_in(self, event: ev.StagedIn, state: State) -> None:  # noqa: ARG002
        attempt = self.attempts.get(event.attempt)
        if attempt is not None:
            attempt.staged_s = self.now

    def _progressed(self, event: ev.Progressed, state: State) -> None:  # noqa: ARG002
        attempt = self.attempts.get(event.attempt)
        if attempt is not None and event.work_done is not None and attempt.ended_s is None:
            attempt.work_done = event.work_done

    def _checkpointed(self, event: ev.Checkpointed, state: State) -> None:  # noqa: ARG002
        attempt = self.attempts.get(event.attempt)
        if attempt is not None:
            attempt.checkpoint = event.work_done

    def _suspend(self, event: ev.Suspended, state: State) -> None:  # noqa: ARG002
        self._suspended.setdefault(event.attempt, self.now)

    def _resumed(self, event: ev.Resumed, state: State) -> None:  # noqa: ARG002
        attempt = self.attempts.get(event.attempt)
        if attempt is not None:
            self._end_suspension(attempt)

    def _end_suspension(self, attempt: Tried) -> None:
        since = self._suspended.pop(attempt.number, None)
        if since is not None:
            until_s = self.now if attempt.ended_s is None else attempt.ended_s
            attempt.suspended_s += max(0.0, until_s - since)

    def _machine_changed(self, event: ev.MachineChanged, state: State) -> None:  # noqa: ARG002
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

    def _assign(self, command: cm.Assign, state: State) -> None:
        run = state.runs[command.run]
        known, task = run.known, command.task
        name, iteration = known.names[task], run.loops.iteration(task)
        before = self.attempts.get(self._current.get((command.run, name), -1))
        compute = known.kind[task] == COMPUTE
        tried = Tried(
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

    def _note_move(self, before: Tried, tried: Tried, command: cm.Assign) -> None:
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
            Moved(
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

    def _stage_in(self, command: cm.StageIn, state: State) -> None:  # noqa: ARG002
        attempt = self.attempts[command.attempt]
        if attempt.staging_s is None:
            attempt.staging_s = self.now

    def _start(self, command: cm.Start, state: State) -> None:
        attempt = self.attempts[command.attempt]
        attempt.submitted_s = self.now
        attempt.restart_from = command.restart_from
        if state.settings.begins_at_once and attempt.started_s is None:
            attempt.started_s = self.now

    def _cancel(self, command: cm.Cancel, state: State) -> None:  # noqa: ARG002
        attempt = self.attempts.get(command.attempt)
        if attempt is not None and not attempt.left_for:
            attempt.left_for = command.reason

    def _return(self, command: cm.Return, state: State) -> None:  # noqa: ARG002
        """Take a migration back that came too late."""
        old = self.attempts[command.attempt]
        new = self.attempts[self._current[old.run, old.task]]
        if new.number != old.number:
            new.ending = "withdrawn"
            old.ending = old.left_for = ""
            self._current[old.run, old.task] = old.number
            for move in self.moves:
                move.off = move.off or move.new == new.number

    def _settle(self, command: cm.Settle, state: State) -> None:
        name = state.runs[command.run].known.names[command.task]
        attempt = self.attempts.get(self._current.get((command.run, name), -1))
        if attempt is not None and attempt.ending:
            attempt = None  # it was over before: what is settled is the task
        if command.cause:
            number = -1 if attempt is None else attempt.number
            self.failures.append(
                Failed(
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

    def _settle_attempt(self, attempt: Tried, command: cm.Settle) -> None:
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

    def _drop(self, command: cm.Drop, state: State) -> None:  # noqa: ARG002
        attempt = self.attempts.get(command.attempt)
        if attempt is not None and attempt.started_s is not None and attempt.ended_s is None:
            attempt.ended_s = self.now
            self._end_suspension(attempt)

    def _repeat(self, command: cm.Repeat, state: State) -> None:
        name = state.runs[command.run].loops.bodies[command.body].loop.name
        story = self.runs[command.run].iterations
        story[name] = max(story.get(name, 1), command.iteration)

    def _finish(self, command: cm.Finish, state: State) -> None:
        story = self.runs[command.run]
        story.ended_s, story.outcome, story.reason = self.now, command.outcome, command.reason
        story.tasks = len(state.runs[command.run])
        self.active.add(self.now, -1)

    def _note(self, command: cm.Note, state: State) -> None:  # noqa: ARG002
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
