"""The stage log of a run: what was done with which job where, as its journal tells (S3 section 4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from weft.engine.journal import Entry
from weft.engine.messages import commands as cm
from weft.engine.messages import events as ev
from weft.engine.settings import PRESETS
from weft.engine.state.known import Library
from weft.instance import compile_instance
from weft.policies.naming import policy_named
from weft.simulation.scenario import Arrival, Scenario
from weft.simulation.simulate import Simulation
from weft.studies.adaptive_jobs.testbed import MOVING_S, array_job, grid
from weft.workflow.unfolding.unfold import unfold

__all__ = ["Logged", "StageLog", "log_of", "run_jobs"]

_WORKFLOW = "jobs"


class Logged(NamedTuple):
    """One line of the log."""

    at_s: float
    what: str
    """``assign``, ``cancel``, ``prolog``, ``clean-up``, ``start`` (commands); ``begun``, ``ended``,
    ``completed``, ``request`` (what happened); ``violation`` (what was found)."""
    job: int
    machine: str
    reason: str = ""
    """Why a job was assigned to another machine or cancelled: a code of S3."""
    value: float = 0.0
    """Of ``ended``, ``request`` and ``start``: the share of the work done or spared."""


@dataclass(frozen=True, slots=True)
class StageLog:
    """All lines, in the order in which they happened."""

    lines: tuple[Logged, ...]

    def of(self, what: str, job: int | None = None, *, reason: str | None = None) -> list[Logged]:
        """List the lines of one kind."""
        return [
            line
            for line in self.lines
            if line.what == what and job in (None, line.job) and reason in (None, line.reason)
        ]

    def moves(self, job: int | None = None, *, reason: str | None = None) -> list[Logged]:
        """List the decisions that a job goes on elsewhere."""
        return [line for line in self.of("assign", job, reason=reason) if line.reason]

    def most_at_once(self, machine: str) -> int:
        """Count the programs that ran side by side on a machine at most."""
        running = most = 0
        for line in self.lines:
            if line.machine == machine and line.what in ("begun", "ended"):
                running += 1 if line.what == "begun" else -1
                most = max(most, running)
        return most


def run_jobs(units: int, scenario: Scenario, *, poll_every_s: float) -> StageLog:
    """Run the array of jobs in a scenario under the literal reading of S3."""
    instance = compile_instance(unfold(array_job(units)), grid())
    entries: list[Entry] = []
    Simulation(
        library=Library({_WORKFLOW: instance}),
        arrivals=[Arrival(workflow=_WORKFLOW)],
        policy=policy_named("rank"),
        settings=replace(PRESETS["s3"], poll_every_s=poll_every_s, restart_cost_s=MOVING_S),
        scenario=scenario,
    ).run(record=entries.append)
    return log_of(entries, [machine.name for machine in instance.machines])


def log_of(entries: Sequence[Entry], machines: Sequence[str], *, at_once: bool = False) -> StageLog:
    """Read the journal of one run; ``at_once``: programs begin when they are started, and nobody says so."""
    return StageLog(tuple(_Reader(machines, at_once=at_once).lines(entries)))


class _Reader:
    """Reads a journal of one run whose tasks are jobs."""

    def __init__(self, machines: Sequence[str], *, at_once: bool) -> None:
        self._machines = machines
        self._at_once = at_once
        self._job: dict[int, int] = {}
        self._machine: dict[int, str] = {}

    def lines(self, entries: Sequence[Entry]) -> Iterator[Logged]:
        for entry in entries:
            yield from self._event(entry.now, entry.event)
            for command in entry.commands:
                yield from self._command(entry.now, command)

    def _event(self, now: float, event: ev.Event) -> Iterator[Logged]:
        match event:
            case ev.Started(attempt=attempt):
                yield self._line(now, "begun", attempt)
            case ev.Ended(attempt=attempt, work_done=share):
                if share is not None or self._at_once:
                    yield self._line(now, "ended", attempt, value=share or 0.0)
            case ev.RequirementsChanged(attempt=attempt):
                yield self._line(now, "request", attempt)

    def _command(self, now: float, command: cm.Command) -> Iterator[Logged]:
        match command:
            case cm.Assign():
                self._job[command.attempt] = command.task
                self._machine[command.attempt] = self._machines[command.machine]
                reason = "" if command.replaces is None else command.reason
                yield self._line(now, "assign", command.attempt, reason)
            case cm.Cancel(attempt=attempt, reason=reason):
                yield self._line(now, "cancel", attempt, reason)
            case cm.StageIn(attempt=attempt):
                yield self._line(now, "prolog", attempt)
            case cm.CleanUp(attempt=attempt):
                yield self._line(now, "clean-up", attempt)
            case cm.Start(attempt=attempt, restart_from=share):
                yield self._line(now, "start", attempt, value=share)
                if self._at_once:
                    yield self._line(now, "begun", attempt)
            case cm.Note(kind="violation", attempt=attempt):
                yield self._line(now, "violation", attempt)
            case cm.Settle(state="COMPLETED", task=task):
                yield Logged(now, "completed", task, "")

    def _line(self, now: float, what: str, attempt: int, reason: str = "", value: float = 0.0) -> Logged:
        return Logged(now, what, self._job[attempt], self._machine[attempt], reason, value)
