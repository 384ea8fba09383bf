"""``weft status``: show the progress of a run."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from weft.cli import options
from weft.redaction import redact
from weft.units import format_count, format_seconds

if TYPE_CHECKING:
    from weft.api.progress import RunningAttempt
    from weft.api.project import JournalFollower, OpenProject
    from weft.cli.run_display import RunDisplay
    from weft.engine.history import FailureRecord
    from weft.engine.state.machines import MachineState
    from weft.repository.runs import RunRecord


_SHOWN = 20
"""Maximal number of running tasks that are listed."""


@click.command("status")
@options.run_argument
@options.project
@options.verbose
@options.as_json
def command(run: int | None, project: str | None, verbose: bool, as_json: bool) -> None:
    """Show the progress of RUN, or the last run: tasks by kind, running tasks, time left, failures.

    The promise is the prediction of the first plan. The time left is a range (P50 to P90), estimated from the
    rest of the plan and the measured times of completed tasks.
    """
    from weft.api.project import OpenProject, follow_run
    from weft.cli.run_display import RunDisplay

    with OpenProject.at(project) as opened:
        found, followed = follow_run(opened, run)
        view = RunDisplay(
            progress=followed.progress,
            logs=opened.logs(found.execution),
            run=found.position,
            began_s=found.started_at_s - followed.header.started_at_s,
            zero_at_s=followed.header.started_at_s,
            promises={} if found.promise is None else {found.position: found.promise},
            has_engine=opened.state_of(found) == "running",
        )
        if as_json:
            options.print_json(_record(opened, found, followed, view))
        else:
            _show(opened, found, followed, view, verbose=verbose)


def _now_s(opened: OpenProject, found: RunRecord, followed: JournalFollower) -> float:
    """Return the current time on the engine's clock; if the run is not running, the last entry's time."""
    if opened.state_of(found) == "running":
        return max(followed.now_s, time.time() - followed.header.started_at_s)
    return followed.now_s


def _show(
    opened: OpenProject, found: RunRecord, followed: JournalFollower, view: RunDisplay, *, verbose: bool
) -> None:
    from weft.reports.text import printable, promise_text

    state, now_s = opened.state_of(found), _now_s(opened, found, followed)
    reason = f" ({found.reason})" if found.reason else ""
    click.echo(f"run {found.number}, {printable(found.workflow)}: {state}{redact(printable(reason))}")
    if found.promise is not None:
        click.echo(printable(f"promise: {promise_text(found.promise, verbose=verbose)}"))
    engine = opened.engine
    if state == "running" and engine is not None:
        click.echo(f"engine: {printable(str(engine))}")
    elif state == "interrupted":
        click.echo(_describe_missing_engine(found, view))
    for line in view.kind_lines():
        click.echo(f"  {line}")
    running = _running_attempts(view)
    most = len(running) if verbose else _SHOWN
    for each in running[:most]:
        since = format_seconds(max(0.0, round(now_s - each.since_s, 1)))
        nodes = f", {format_count(each.nodes, 'node')}" if each.nodes > 1 else ""
        part = "" if each.host is None else f" (part of {each.host})"
        halted = ""
        if each.suspended_since_s is not None:
            halted_s = max(0.0, round(now_s - each.suspended_since_s, 1))
            halted = f", suspended for {format_seconds(halted_s)}"
        if each.silent_since_s is not None:
            halted += f", unknown since {view.clock_time(each.silent_since_s)}"
        job = f", job {each.job}" if each.job else ""
        click.echo(printable(f"  {each.task} on {each.machine}{part}{nodes}{job} for {since}{halted}"))
    if len(running) > most:
        click.echo(f"  … {format_count(len(running) - most, 'more running task')}")
    for line in view.silence_lines():
        click.echo(f"  {line}")
    for reservation in view.reservations:
        click.echo(printable(f"  {reservation.text}"))
    lost = view.lost_lines() if state in ("running", "interrupted") else []
    for line in (*lost, *view.delay_lines(now_s)):
        click.echo(f"  {line}")
    if state == "running":
        click.echo(view.left_text(now_s))
    for line in view.slowdown_lines():
        click.echo(line)
    if strays := view.stray_line(verbose=verbose):
        click.echo(printable(f"note: {strays}"))
    for line in view.change_lines(*([sys.maxsize] if verbose else [])):
        click.echo(line)
    for line in view.failure_lines(*([len(view.progress.failures)] if verbose else [])):
        click.echo(redact(printable(line)))


def _describe_missing_engine(found: RunRecord, view: RunDisplay) -> str:
    """Return a line which says that no engine is running, and how many programs may still run."""
    left = len(view.progress.running_attempts(view.run)) if found.state == "running" else 0
    if not left:
        return "no engine is running; `weft resume` continues the run"
    programs = format_count(left, "program")
    return f"no engine is running; {programs} may still run: `weft resume` re-attaches and continues the run"


def _running_attempts(view: RunDisplay) -> list[RunningAttempt]:
    return view.progress.running_attempts(view.run) if view.has_engine else []


def _record(
    opened: OpenProject, found: RunRecord, followed: JournalFollower, view: RunDisplay
) -> dict[str, Any]:
    from weft.engine.history import list_slowdowns
    from weft.papers.statistics import summarise

    now_s = _now_s(opened, found, followed)
    left = view.left(now_s)
    engine = opened.engine
    names = tuple(machine.name for machine in view.progress.state.machines)
    return {
        **found.as_record(),
        "state": opened.state_of(found),
        "now_s": now_s,
        "engine": None if engine is None else asdict(engine),
        "kinds": [
            asdict(each) | {"run": found.number, "completed": each.completed} for each in view.counts()
        ],
        "running": [
            asdict(each) | {"run": found.number, "for_s": max(0.0, now_s - each.since_s)}
            for each in _running_attempts(view)
        ],
        "silent": [_describe_silent(each) for each in view.silent_machines],
        "delays": [
            {
                "machine": names[each.machine],
                "reason": redact(each.reason),
                "since_s": each.since_s,
                "until_s": each.until_s,
                "tasks": len(each.attempts),
                "waiting": len(each.waiting),
            }
            for each in view.delays
        ],
        "lost_machines": {name: redact(reason) for name, reason in view.lost_machines.items()},
        "strays": sum(
            each.strays for each in view.progress.history.attempts.values() if each.run == view.run
        ),
        "left_p50_s": left.p50_s,
        "left_p90_s": left.p90_s,
        "left_unknown": left.why,
        "left_without_held": left.without,
        "slowdowns": {
            name: asdict(summarise(values)) for name, values in list_slowdowns(followed.history.runs).items()
        },
        "migrations": [
            each.as_record(names) | {"run": found.number}
            for each in followed.history.moves
            if each.run == view.run
        ],
        "reservations": [each._asdict() | {"run": found.number} for each in view.reservations],
        "cancelled_migrations": [
            each.as_record() | {"run": found.number} for each in view.cancelled_reservations
        ],
        "stage_retries": [each.as_record() | {"run": found.number} for each in view.stage_retries],
        "failures": [
            _failure_record(each) | {"run": found.number}
            for each in view.progress.failures
            if each.run == view.run
        ],
    }


def _describe_silent(machine: MachineState) -> dict[str, Any]:
    """Return a machine whose host does not answer as plain data; times are those of the engine."""
    silence = machine.silence
    return {"machine": machine.name, **({} if silence is None else silence._asdict())}


def _failure_record(failed: FailureRecord) -> dict[str, Any]:
    return {
        "at_s": failed.at_s,
        "run": failed.run,
        "task": failed.label,
        "attempt": failed.reported_by,
        "cause": failed.cause,
        "text": failed.text,
        "for_good": failed.for_good and not failed.waits,
        "waits": failed.waits,
    }
