"""Progress display of a run: task counts by kind, time left, and recent failures."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

import click

from weft.cli.terminal import ascii_only
from weft.engine.states import describe_restart
from weft.records import dataclass
from weft.redaction import redact
from weft.reports.text import TextTable, fitted, printable, promise_text, strays_text
from weft.units import format_count, format_seconds

if TYPE_CHECKING:
    from weft.api.progress import ExecutionProgress, TimeLeft
    from weft.engine.explanation import Reservation
    from weft.engine.history import (
        FailureRecord,
        MachineChange,
        MigrationRecord,
        ReservationRecord,
        StageRetry,
        StartDelay,
        StopRecord,
    )
    from weft.engine.kind_counts import KindCount
    from weft.engine.replan.promise import Promise
    from weft.engine.state.machines import MachineState
    from weft.engine.state.run import RunState
    from weft.reports.execution_records import AttemptLogs


_COLUMNS = ("kind", "waiting", "running", "done", "reused", "failed")
_FAILURES = 3
_MIGRATIONS = 2
_LISTED = 5
"""Number of last migrations, and of last retried stages, that ``weft status`` lists."""
_LOG_LINES = 2
_AT_LEAST = 3
"""Minimal number of rows of the table of kinds."""
_LOW = 8
"""Terminals with at most this many lines do not show the prediction."""


@dataclass(slots=True, kw_only=True)
class RunDisplay:
    """Display of all runs of an execution, or of one of them."""

    progress: ExecutionProgress
    logs: AttemptLogs
    run: int | None = None
    """Index of the displayed run in the engine; None: all runs are displayed."""
    color: bool = False
    began_s: float = 0.0
    """Time at which the display was started, in seconds on the engine's clock."""
    promises: Mapping[int, Promise] = field(default_factory=dict)
    """Prediction recorded before a run started, by index of the run."""
    zero_at_s: float = 0.0
    """Unix time at which the engine's clock was 0."""
    has_engine: bool = True
    """Whether an engine drives the execution; otherwise no task is running."""

    def counts(self) -> list[KindCount]:
        """Return a row of task counts for each workflow and kind; runs of one workflow are added up."""
        from weft.engine.kind_counts import sum_by_workflow

        return sum_by_workflow(self.progress.counts(self.run))

    @property
    def _runs(self) -> list[RunState]:
        return [run for run in self.progress.state.runs if self.run in (None, run.index)]

    def left(self, now_s: float) -> TimeLeft:
        """Return the estimated time until all displayed runs have ended."""
        from weft.api.progress import latest_of, time_left

        return latest_of(
            [time_left(run, self.progress, now_s, self.promises.get(run.index)) for run in self._runs]
        )

    def left_text(self, now_s: float) -> str:
        """Return a text with the time left, or a text which says that held tasks block all displayed runs."""
        left = self.left(now_s)
        if left.held:
            return f"nothing can start: {left.why}; `weft release` continues"
        return f"time left {left}"

    def promise_line(self) -> str:
        """Return the promise as text if exactly one run is displayed and has a promise, else ""."""
        runs = self._runs
        promised = self.promises.get(runs[0].index) if len(runs) == 1 else None
        return "" if promised is None else f"promise: {promise_text(promised)}"

    def line(self, now_s: float) -> str:
        """Return the progress of the displayed runs as one line."""
        counts = self.counts()
        done, tasks = sum(each.completed for each in counts), sum(each.tasks for each in counts)
        parts = [f"{done} of {format_count(tasks, 'task')} done"]
        for name in ("skipped", "running", "failed", "held"):
            number = sum(getattr(each, name) for each in counts)
            if number:
                parts.append(f"{number} {name}")
        if moves := len(self.migrations):
            parts.append(f"{moves} migrated")
        if stages := len(self.stage_retries):
            parts.append(format_count(stages, "retried stage"))
        parts += self._workflows_part()
        so_far = format_seconds(round(now_s - self.began_s))
        return f"{so_far}: {', '.join(parts)}; {self.left_text(now_s)}"

    def _workflows_part(self) -> list[str]:
        """Return how many of several runs have ended, and their mean slowdown; empty for a single run."""
        runs = self.progress.history.runs
        if self.run is not None or len(runs) < 2:
            return []
        ended = sum(bool(run.outcome) for run in runs)
        found = [run.slowdown for run in runs if run.slowdown is not None]
        mean = f" (mean slowdown {sum(found) / len(found):.2f})" if found else ""
        return [f"{ended} of {len(runs)} workflows ended{mean}"]

    def slowdown_lines(self) -> list[str]:
        """Return a line with the slowdown of the displayed run, and one with statistics over all runs."""
        from weft.engine.history import list_slowdowns
        from weft.papers.statistics import summarise
        from weft.reports.simulation import fairness_facts

        runs = self.progress.history.runs
        own = runs[self.run].slowdown if self.run is not None else None
        lines = [] if own is None else [f"slowdown: {own:.3g}"]
        every = [value for values in list_slowdowns(runs).values() for value in values]
        if len(runs) > 1 and len(every) > 1:
            facts = ", ".join(text for _, text in fairness_facts(summarise(every)))
            lines.append(f"slowdown of {len(every)} of {len(runs)} runs: {facts}")
        return lines

    def migration_lines(self, most: int = _MIGRATIONS) -> list[str]:
        """Return lines about the last ``most`` changes of machine: task, machines and reason."""
        return [self.describe_migration(each) for each in self._moves[-most:]]

    def describe_migration(self, each: MigrationRecord) -> str:
        """Return a line about one migration, or about a task that had not started."""
        machines = self.progress.state.machines
        source, target = machines[each.source].name, machines[each.target].name
        saved = f", {where}" if (where := describe_restart(each.restart_from)) else ""
        if not each.ran:
            return (
                f"{each.label}, not started on {source}, is assigned to {target} instead "
                f"({each.reason}{saved})"
            )
        return f"{each.label} migrates from {source} to {target} ({each.reason}{saved})"

    def describe_cancelled(self, each: MigrationRecord) -> str:
        """Return a line about a migration that was called off after it had begun."""
        machines = self.progress.state.machines
        source, target = machines[each.source].name, machines[each.target].name
        why = f": {each.off_reason}" if each.off_reason else ""
        what = f"does not migrate from {source}" if each.ran else f"is not moved from {source}"
        return f"{each.label} {what} to {target} ({each.reason}){why}"

    @property
    def migrations(self) -> list[MigrationRecord]:
        """Return the migrations of the displayed runs that have begun and were not called off."""
        return [each for each in self._moves if each.ran]

    @property
    def _moves(self) -> list[MigrationRecord]:
        """Return the migrations, and the changes of machine of tasks that had not started."""
        moves = self.progress.history.begun_moves
        return [each for each in moves if not each.off and self.run in (None, each.run)]

    @property
    def stops(self) -> list[StopRecord]:
        """Return the tasks of the displayed runs that had to leave a machine and have no other one yet."""
        every = self.progress.history.stops
        return [each for each in every if not each.over and self.run in (None, each.run)]

    def describe_stop(self, each: StopRecord) -> str:
        """Return a line about a task that had to leave its machine."""
        return printable(each.text)

    @property
    def cancelled_migrations(self) -> list[MigrationRecord]:
        """Return the migrations of the displayed runs that were called off after they had begun."""
        return [each for each in self.progress.history.cancelled_moves if self.run in (None, each.run)]

    @property
    def reservations(self) -> list[Reservation]:
        """Return the tasks that the user moves to busy machines; none without an engine."""
        from weft.engine.explanation import list_reservations

        return list_reservations(self.progress.state, self.run) if self.has_engine else []

    @property
    def cancelled_reservations(self) -> list[ReservationRecord]:
        """Return the migrations of the displayed runs that were called off while they waited."""
        every = self.progress.history.reservations
        return [each for each in every if each.off and self.run in (None, each.run)]

    @property
    def stage_retries(self) -> list[StageRetry]:
        """Return a record for each retry of copying outputs in the displayed runs."""
        return [each for each in self.progress.history.stage_retries if self.run in (None, each.run)]

    @property
    def delays(self) -> list[StartDelay]:
        """Return the times during which jobs of the displayed runs waited to be submitted or started."""
        every = self.progress.history.delays
        return [each for each in every if self.run is None or self.run in each.attempts.values()]

    def delay_lines(self, now_s: float) -> list[str]:
        """Return a line for each machine and reason about the jobs that wait to be submitted or started."""
        delays = self.delays if self.has_engine else []
        return [self.describe_delay(each, now_s) for each in delays if each.until_s is None]

    def describe_delay(self, each: StartDelay, now_s: float) -> str:
        """Return a line about jobs that wait, or have waited, to be submitted or started."""
        return printable(redact(each.describe(self.progress.state.machines[each.machine].name, now_s)))

    @property
    def lost_machines(self) -> dict[str, str]:
        """Return the names of the machines that are lost now, each with the reason."""
        return {each.name: each.reason for each in self.progress.state.machines if not each.up}

    def lost_lines(self) -> list[str]:
        """Return a line about each machine that is lost now."""
        lost = self.lost_machines.items()
        return [printable(redact(f"machine {name} is lost: {reason}")) for name, reason in lost if reason]

    def describe_reservation(self, each: ReservationRecord) -> str:
        """Return a line about a migration that waits for a busy machine or was called off."""
        return printable(each.text)

    def describe_retry(self, each: StageRetry) -> str:
        """Return a line about outputs that are copied again."""
        return printable(redact(each.text))

    def change_lines(self, most: int = _LISTED) -> list[str]:
        """Return lines about migrations, reassigned and stopped tasks, and retried stages.

        They state the number of each, and the last ``most``.
        """
        moves = [printable(self.describe_migration(each)) for each in self.migrations]
        unstarted = [printable(self.describe_migration(each)) for each in self._moves if not each.ran]
        off = [printable(self.describe_cancelled(each)) for each in self.cancelled_migrations]
        off += map(self.describe_reservation, self.cancelled_reservations)
        stages = list(map(self.describe_retry, self.stage_retries))
        lines = []
        for noun, texts in (
            ("migration", moves),
            ("reassigned task", unstarted),
            ("stopped task", list(map(self.describe_stop, self.stops))),
            ("cancelled migration", off),
            ("retried stage", stages),
        ):
            if texts:
                last = ", the last:" if len(texts) > most else ":"
                lines += [format_count(len(texts), noun) + last, *(f"  {text}" for text in texts[-most:])]
        return lines

    def describe_machine(self, change: MachineChange) -> str:
        """Return a line about a machine that was lost, came back, joined or was closed."""
        at_s = change.lost_at_s
        then = "" if at_s is None else f"; it counts as lost at {self.clock_time(at_s)} unless it answers"
        return printable(f"machine {self.progress.state.machines[change.machine].name} {change.text}{then}")

    @property
    def silent_machines(self) -> list[MachineState]:
        """Return the machines whose hosts do not answer; none without an engine."""
        machines = self.progress.state.machines if self.has_engine else ()
        return [each for each in machines if each.silence is not None]

    def silence_lines(self) -> list[str]:
        """Return a line about each host that does not answer, so that the state of its tasks is unknown."""
        from weft.engine.explanation import describe_silence

        return [
            printable(redact(f"{each.name} {describe_silence(each.silence, self.clock_time)}"))
            for each in self.silent_machines
            if each.silence is not None
        ]

    def clock_time(self, at_s: float) -> str:
        """Return a time of the engine as the time of day here."""
        from weft.api.progress import clock_time

        return clock_time(self.zero_at_s, at_s)

    def module_lines(self) -> list[str]:
        """Return a line about each failure of a task's module that did not affect the task."""
        return [printable(redact(each.text)) for each in self.progress.history.module_failures]

    def block(self, now_s: float, columns: int, rows: int) -> list[str]:
        """Return the lines of the display, limited to the size of the terminal."""
        lines = self.failure_lines()
        failures = lines[max(0, len(lines) - max(0, rows - _AT_LEAST - 3)) :]
        promise = self.promise_line() if rows > _LOW else ""
        changes = self.progress.history.machine_changes[-_MIGRATIONS:]
        moves = self.silence_lines()[-_MIGRATIONS:]
        if rows > _LOW:
            modules = self.module_lines()[-_MIGRATIONS:]
            stages = map(self.describe_retry, self.stage_retries[-_MIGRATIONS:])
            off = [self.describe_cancelled(each) for each in self.cancelled_migrations[-_MIGRATIONS:]]
            off += [each.text for each in self.cancelled_reservations[-_MIGRATIONS:]]
            waiting = [each.text for each in self.reservations[:_MIGRATIONS]]
            moves += [*map(self.describe_machine, changes), *self.migration_lines()]
            stopped = map(self.describe_stop, self.stops[-_MIGRATIONS:])
            moves += [*stopped, *off, *waiting, *stages, *modules]
        moves = [*self.delay_lines(now_s)[-_MIGRATIONS:], *moves]
        lines = self.kind_lines(max(_AT_LEAST, rows - 2 - bool(promise) - len(failures) - len(moves)))
        lines += [self.line(now_s), *([promise] if promise else []), *moves]
        shown = [
            fitted(printable(line), columns, ascii_only=ascii_only(sys.stderr)).rstrip()
            for line in (*lines, *failures)
        ]
        if not self.color:
            return shown
        head, last = click.style(shown[0], bold=True), len(lines)
        return [head, *shown[1:last], *(click.style(line, fg="red") for line in shown[last:])]

    def kind_lines(self, most: int = 1_000_000) -> list[str]:
        """Return the table of task counts by kind in at most ``most`` lines.

        If rows are left out, the last line states their number.
        """
        counts = self.counts()
        several = len({each.workflow for each in counts}) > 1
        further = [
            name for name in ("skipped", "held", "cancelled") if any(getattr(each, name) for each in counts)
        ]
        columns = (*_COLUMNS, *further)
        rows: list[tuple[str, ...]] = []
        for each in counts:
            kind = f"{each.workflow}: {each.kind}" if several else each.kind
            running, waiting = each.running, each.waiting
            if not self.has_engine:
                running, waiting = 0, waiting + running
            numbers = [waiting, running, each.completed, each.taken_over, each.failed]
            numbers += [getattr(each, name) for name in further]
            rows.append((printable(kind), *(str(number or "-") for number in numbers)))
        if len(rows) >= most:
            hidden = format_count(len(rows) - (most - 2), "more kind")
            rows = [*rows[: most - 2], (f"… {hidden}", *[""] * (len(columns) - 1))]
        return TextTable(heading=columns, rows=tuple(rows), texts=1).lines()

    def stray_line(self, *, verbose: bool = False) -> str:
        """Return a line about processes that programs left behind; "" if there were none."""
        every = self.progress.history.attempts.values()
        return strays_text((each for each in every if self.run in (None, each.run)), verbose=verbose)

    def failure_lines(self, most: int = _FAILURES) -> list[str]:
        """Return lines about the last ``most`` failures: cause, last lines of the log, path of the log."""
        chosen = [each for each in self.progress.failures if self.run in (None, each.run)]
        lines = []
        for each in chosen[-most:]:
            lines += self.describe_failure(each)
        if len(chosen) > most:
            lines.insert(0, f"{format_count(len(chosen) - most, 'earlier failure')}; the last:")
        return lines

    def describe_failure(self, each: FailureRecord, *, recorded: bool = True) -> list[str]:
        """Return lines about one failure: task, cause, last lines and path of the log.

        ``recorded``: whether the journal contains it. If not, the next engine decides what follows.
        """
        then, what = "failed, will be retried", "" if recorded else "not recorded: "
        if not recorded:
            then = "failed"
        elif each.for_good:
            then = "failed, is held until `weft resume`" if each.waits else "failed permanently"
        text = f": {redact(each.text)}" if each.text else ""
        lines = [f"{what}{each.label} {then} ({each.cause}{text})"]
        log = self.logs.last(each.reported_by, each.cause) if each.reported_by >= 0 else None
        if log is not None:
            lines += [f"  | {line}" for line in log.lines[-_LOG_LINES:]]
            lines.append(f"  log: {log.path}")
        return lines
