"""Drive an execution from the command line: progress display, signals, final summary and exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from weft.cli import options
from weft.cli.run_display import RunDisplay
from weft.cli.terminal import LiveDisplay, ascii_only, width
from weft.errors import InvalidInput
from weft.redaction import redact, redact_words
from weft.units import format_count

if TYPE_CHECKING:
    from weft.api.report import ExecutionReport
    from weft.api.run import RunResult
    from weft.engine.engine import Engine
    from weft.engine.history import AttemptRecord
    from weft.engine.journal import JournalEntry
    from weft.runtime.driver import Listener
    from weft.runtime.execution import Execution


INTERRUPTED = 75
"""Exit code after a signal; the run can be resumed."""

_KILLED = 128
"""After a second signal the exit code is this number plus the number of the signal, as in a shell."""

_MOST_TASKS = 20_000
"""With more tasks, reports are written on request only, because writing takes over ten seconds."""

_UNRECORDED_SHOWN = 5
"""Maximal number of completed tasks that are named if the journal could not be written."""

_STALE_SHOWN = 3
"""Maximal number of reasons for stale results that are printed per kind of task."""


def command_line() -> list[str]:
    """Return the command line of this process without secrets, for the journal and the lock."""
    return ["weft", *redact_words(sys.argv[1:])]


class RunDriver:
    """Progress display and signal handling of an execution in this process."""

    def __init__(self, *, quiet: bool, errors: bool = False) -> None:
        """Create a driver; ``quiet``: show no progress; ``errors``: print permanent failures anyway."""
        from weft.api.run import SignalHandler

        self.signals = SignalHandler(self._at_once)
        self.view: RunDisplay | None = None
        self.execution: Execution | None = None
        self.live = LiveDisplay(self._block, self._line, quiet=quiet)
        self._only_errors = quiet and errors
        self._printed_failures = self._printed_moves = self._printed_changes = self._printed_modules = 0
        self._printed_stages = self._printed_reservations = self._printed_cancelled = 0
        self._printed_stops = self._printed_delays = 0
        self._recorded = 0
        """Number of journal entries that are written."""
        self._interrupt_printed = False

    def watch(self, execution: Execution) -> Sequence[Listener]:
        """Start the display and return listeners for journal entries.

        The counts include the progress of a resumed execution; its earlier failures and migrations are not
        printed again.
        """
        from weft.api.project import read_progress
        from weft.cli.terminal import colored_errors
        from weft.reports.execution_records import AttemptLogs

        self.print_changes()
        self.execution = execution
        # The execution is reopened when machines join; keep the start time that the user has seen.
        began_s = execution.clock.now() if self.view is None else self.view.began_s
        self.view = RunDisplay(
            progress=read_progress(execution),
            logs=AttemptLogs(
                layout=execution.layout, execution=execution.number, nonce=execution.attempt_nonce
            ),
            color=colored_errors(),
            began_s=began_s,
            zero_at_s=execution.header.started_at_s,
            promises=execution.promises,
        )
        self._printed_failures = len(self.view.progress.history.failures)
        self._printed_moves = len(self.view.progress.history.begun_moves)
        self._printed_cancelled = len(self.view.progress.history.cancelled_moves)
        self._printed_stops = len(self.view.progress.history.stops)
        self._printed_delays = sum(each.until_s is not None for each in self.view.progress.history.delays)
        self._printed_reservations = len(self.view.progress.history.reservations)
        self._printed_changes = len(self.view.progress.history.machine_changes)
        self._printed_modules = len(self.view.progress.history.module_failures)
        self._printed_stages = len(self.view.progress.history.stage_retries)
        return [self._record_entry]

    def interrupted(self) -> bool:
        """Redraw the display if due, and return whether a signal has arrived.

        The execution calls this method several times per second, always after it has written its journal, so
        that only changes are printed that are recorded. After the first signal it stops the programs.
        """
        self.print_changes()
        self.live.tick()
        if self.signals() and not self._interrupt_printed:
            self._interrupt_printed = True
            # Stop the programs before the message: a second signal may follow immediately.
            if self.execution is not None:
                self.execution.end_programs()
            self.live.clear()
            self.live.say("interrupted: stopping programs; interrupt again to exit immediately")
        return self.signals()

    def _record_entry(self, _: JournalEntry, __: Engine) -> None:
        assert self.view is not None
        self.view.progress.update()

    def print_unrecorded(self) -> None:
        """Print which ends of tasks the journal does not contain, because it could not be written."""
        from weft.reports.text import printable

        if self.view is None:
            return
        history = self.view.progress.history
        lines: list[str] = []
        for failure in history.failures[self._printed_failures :]:
            lines += self.view.describe_failure(failure, recorded=False)
        done = [each for each in history.attempts.values() if self._is_unrecorded(each)]
        names = [each.label for each in done[:_UNRECORDED_SHOWN]]
        if more := len(done) - len(names):
            names.append(format_count(more, "more task"))
        if names:
            lines.append(printable(f"not recorded: completed: {', '.join(names)}"))
        for line in lines:
            self.live.say(line, error=self._only_errors)
        if lines:
            text = (
                "all earlier steps are recorded; `weft resume` takes the ends that are not from the records"
            )
            self.live.say(f"{text} of the runners, or runs these tasks again", error=self._only_errors)

    def _is_unrecorded(self, attempt: AttemptRecord) -> bool:
        return attempt.completed_n is not None and attempt.completed_n >= self._recorded

    def print_changes(self) -> None:
        """Print the changes since the last call, if the display does not contain them.

        All of them must be recorded in the journal.
        """
        if self.view is None:
            return
        self._recorded = self.view.progress.history.entries
        if self.live.drawn:
            return
        failures = self.view.progress.history.failures
        # Before the failures: the loss of a machine is their reason.
        changes = self.view.progress.history.machine_changes
        for change in changes[self._printed_changes :] if not self._only_errors else ():
            self.live.say(self.view.describe_machine(change))
        self._printed_changes = len(changes)
        delays = self.view.progress.history.delays
        now_s = self.view.progress.history.now
        for delay in delays[self._printed_delays :] if not self._only_errors else ():
            self.live.say(self.view.describe_delay(delay, now_s))
        self._printed_delays = len(delays)
        for failure in failures[self._printed_failures :]:
            if failure.for_good or not self._only_errors:
                for line in self.view.describe_failure(failure):
                    self.live.say(line, error=self._only_errors)
        self._printed_failures = len(failures)
        # Before the new migrations: a task may move to a third machine instead.
        cancelled = self.view.progress.history.cancelled_moves
        for move in cancelled[self._printed_cancelled :] if not self._only_errors else ():
            self.live.say(self.view.describe_cancelled(move))
        self._printed_cancelled = len(cancelled)
        moves = self.view.progress.history.begun_moves
        for move in moves[self._printed_moves :] if not self._only_errors else ():
            self.live.say(self.view.describe_migration(move))
        self._printed_moves = len(moves)
        stops = self.view.progress.history.stops
        for stop in stops[self._printed_stops :] if not self._only_errors else ():
            self.live.say(self.view.describe_stop(stop))
        self._printed_stops = len(stops)
        reservations = self.view.progress.history.reservations
        for each in reservations[self._printed_reservations :] if not self._only_errors else ():
            self.live.say(self.view.describe_reservation(each))
        self._printed_reservations = len(reservations)
        stages = self.view.progress.history.stage_retries
        for stage in stages[self._printed_stages :] if not self._only_errors else ():
            self.live.say(self.view.describe_retry(stage))
        self._printed_stages = len(stages)
        modules = self.view.progress.history.module_failures
        if len(modules) > self._printed_modules and not self._only_errors:
            for line in self.view.module_lines()[self._printed_modules :]:
                self.live.say(line)
        self._printed_modules = len(modules)

    def _block(self, columns: int, rows: int) -> list[str]:
        if self.view is None or self.execution is None or not self.view.progress.state.runs:
            return []
        return self.view.block(self.execution.clock.now(), columns, rows)

    def _line(self) -> str:
        if self.view is None or self.execution is None:
            return "starting"
        return self.view.line(self.execution.clock.now())

    def _at_once(self, number: int) -> NoReturn:
        if not self._interrupt_printed and self.execution is not None:
            with suppress(Exception):  # the signal may have interrupted any operation
                self.execution.end_programs()
        kept = self.execution is not None and self.execution.backend.capabilities.reattaches
        what = "re-attaches to programs that still run" if kept else "starts unfinished tasks again"
        self.live.say_at_once(f"exited immediately; `weft resume` {what}")
        # Exit without an exception, so that no exit handler can block.
        os._exit(_KILLED + number)


def drive_run(
    run: Callable[..., RunResult],
    *,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    report: str | None,
    trace: str | None,
    **how: Any,
) -> NoReturn:
    """Call ``run`` (``weft.run`` or ``weft.resume``) with a display, print the summary and exit.

    ``how``: further arguments of ``run``.
    """
    quiet = quiet or "-" in (report, trace)
    from weft.repository.database import StateMoved, StorageProblem

    driver = RunDriver(quiet=quiet or as_json, errors=not as_json)
    with driver.signals:
        try:
            ran = run(**how, command=command_line(), watch=driver.watch, interrupted=driver.interrupted)
        except StorageProblem as error:
            driver.live.clear()
            if not (isinstance(error, StateMoved) and error.is_lost):
                driver.print_unrecorded()
            raise
        finally:
            driver.live.clear()
        driver.print_changes()
        try:
            _finish(ran, driver, as_json=as_json, quiet=quiet, verbose=verbose, report=report, trace=trace)
        except (InvalidInput, StorageProblem):
            if os.path.lexists(ran.layout.database):
                raise
            raise StorageProblem(
                f"the run has ended ({ran.outcome}), but '{ran.layout.home}' was moved or removed before its "
                "reports were written; move it back, then `weft report` writes them"
            ) from None


def _finish(
    ran: RunResult,
    driver: RunDriver,
    *,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    report: str | None,
    trace: str | None,
) -> NoReturn:
    """Write the reports, print the summary, and exit: 0 if all runs completed, 75 if interrupted, else 1."""
    from weft.api.project import OpenProject
    from weft.api.report import write_reports
    from weft.formats.files import save_text

    if driver.signals.first is not None:
        _ignore_output(driver.signals.first)
    detailed = as_json or report is not None or trace is not None
    if not detailed and sum(run.tasks for run in ran.runs) > _MOST_TASKS:
        if not quiet:
            _show_briefly(ran, driver, verbose=verbose)
        _exit(ran, driver, as_json=as_json)
    with OpenProject.at(str(ran.layout.project)) as opened:
        written = write_reports(opened, ran.execution, compiled=ran.compiled)
    if written is not None:
        folder, summary = written
        if report is not None:
            save_text(summary.html(), report)
        if trace is not None:
            save_text(summary.trace(), trace)
        if as_json:
            options.print_json(_record(ran, driver, summary, folder))
        elif not quiet:
            _show(ran, driver, summary, _relative(folder), verbose=verbose)
    _exit(ran, driver, as_json=as_json)


def _exit(ran: RunResult, driver: RunDriver, *, as_json: bool) -> NoReturn:
    for line in ran.ending.stuck:
        click.echo(redact(f"error: the run cannot continue: {line}"), err=True)
    if ran.outcome == "interrupted":
        if not as_json:
            click.echo("interrupted; `weft resume` continues", err=True)
        if driver.execution is not None and driver.execution.searching:
            # Python would wait for the planner thread, which may search until its budget is spent.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(INTERRUPTED)
        raise click.exceptions.Exit(INTERRUPTED)
    raise click.exceptions.Exit(0 if ran.completed else 1)


def _show_briefly(ran: RunResult, driver: RunDriver, *, verbose: bool) -> None:
    """Print a short summary of a run that is too large for automatic reports."""
    view = driver.view
    if view is not None:
        most = [sys.maxsize] if verbose else []
        options.print_lines((*view.kind_lines(), *view.change_lines(*most), *view.failure_lines(*most)))
    for run in ran.runs:
        click.echo(f"run {run.number}, {run.workflow}: {run.state}; details: `weft report {run.number}`")


def _ignore_output(number: int) -> None:
    """After SIGHUP, redirect standard output and error to /dev/null, because the terminal is closed."""
    import signal

    if number == signal.SIGHUP:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nowhere, stream.fileno())


def _show(ran: RunResult, driver: RunDriver, summary: ExecutionReport, folder: str, *, verbose: bool) -> None:
    from weft.reports.execution_page import execution_lines

    if ran.resumed:
        click.echo("resumed an unfinished run")
    options.print_lines(
        execution_lines(summary.executed, width=width(), ascii_only=ascii_only(), verbose=verbose)
    )
    options.print_lines(_reuse_lines(driver, None if verbose else _STALE_SHOWN))
    numbers = [run.number for run in ran.runs]
    named = f"run {numbers[0]}" if len(numbers) == 1 else f"runs {numbers[0]} to {numbers[-1]}"
    click.echo(f"{named}: `weft logs TASK`, `weft explain TASK`; report {folder}/report.html")


def _reuse_lines(driver: RunDriver, most: int | None) -> list[str]:
    """Return a heading and, per kind of task, a line with the numbers of reused, stale and new tasks.

    The line states at most ``most`` reasons for stale results; None: all reasons. If no earlier results were
    considered, return [].
    """
    view = driver.view
    if view is None or not (view.progress.taken_over or view.progress.stale):
        return []
    progress, lines = view.progress, []
    for run in progress.state.runs:
        for kind in dict.fromkeys(task.program for task in run.compiled.graph.workflow.tasks):
            key = run.index, kind
            parts = [f"{progress.taken_over[key]} reused"] if progress.taken_over[key] else []
            if stale := progress.stale.get(key):
                shown = [text for text, _ in stale.most_common(most)]
                why, rest = "; ".join(shown), len(stale) - len(shown)
                more = f"; and {format_count(rest, 'more reason')}" if rest else ""
                parts.append(f"{stale.total()} stale ({why}{more})")
            new = progress.ran[key] - (stale.total() if stale else 0)
            if new:
                parts.append(f"{new} new")
            if parts:
                lines.append(f"  {kind}: {', '.join(parts)}")
    return ["reuse of earlier results:", *lines]


def _record(ran: RunResult, driver: RunDriver, summary: ExecutionReport, folder: Path) -> dict[str, Any]:
    from weft.reports.execution_page import execution_notes

    progress = driver.view.progress if driver.view is not None else None
    numbers = {run.position: run.number for run in ran.runs}
    return {
        "numbers": [run.number for run in ran.runs],
        "execution": ran.execution,
        "resumed": ran.resumed,
        "project": str(ran.layout.project),
        "reports": str(folder),
        "stuck": list(ran.ending.stuck),
        "stale": [
            {"run": numbers[run], "kind": kind, "reasons": dict(reasons)}
            for (run, kind), reasons in (progress.stale.items() if progress else ())
        ],
        **summary.executed.as_record(),
        "outcome": ran.outcome,
        "notes": execution_notes(summary.executed),
    }


def _relative(folder: Path) -> str:
    """Return the path of a folder: relative if it is below the current directory, else as given."""
    here = Path.cwd()
    return str(folder.relative_to(here)) if folder.is_relative_to(here) else str(folder)
