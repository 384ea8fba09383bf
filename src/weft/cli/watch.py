"""``weft watch``: follow a run from another shell."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from weft.cli import options
from weft.cli.terminal import LiveDisplay
from weft.redaction import redact

if TYPE_CHECKING:
    from weft.api.project import JournalFollower, OpenProject
    from weft.cli.run_display import RunDisplay
    from weft.repository.runs import RunRecord


_PAUSE_S = 0.2


@click.command("watch")
@options.run_argument
@options.project
@click.option(
    "--json", "as_json", is_flag=True, help="Print the events as they happen, one JSON object per line."
)
def command(run: int | None, project: str | None, as_json: bool) -> None:
    """Follow RUN, or the last run, until it ends. Ctrl-C stops watching, not the run.

    Exit code 0: the run completed; 1: it did not complete, or no engine is running.
    """
    from weft.api.project import JournalFollower, OpenProject
    from weft.cli.run_display import RunDisplay
    from weft.cli.terminal import colored_errors

    with OpenProject.at(project) as opened:
        found = opened.runs.run(run)
        followed = JournalFollower(opened, found.execution)
        view = RunDisplay(
            zero_at_s=followed.header.started_at_s,
            progress=followed.progress,
            logs=opened.logs(found.execution),
            run=found.position,
            color=colored_errors(),
            began_s=found.started_at_s - followed.header.started_at_s,
        )
        _print_events(followed, found, view) if as_json else _show(followed, found, view)
        _end(opened, opened.runs.run(found.number), view, quiet=as_json)


def _is_running(opened: OpenProject, view: RunDisplay, found: RunRecord) -> bool:
    """Return whether a run is still running; also update the promise that ``view`` displays."""
    now = opened.runs.run(found.number)
    view.promises = {} if now.promise is None else {now.position: now.promise}
    return opened.state_of(now) == "running"


def _show(followed: JournalFollower, found: RunRecord, view: RunDisplay) -> None:
    def now_s() -> float:
        return max(followed.now_s, time.time() - followed.header.started_at_s)

    live = LiveDisplay(lambda columns, rows: view.block(now_s(), columns, rows), lambda: view.line(now_s()))
    try:
        while True:
            running = _is_running(followed.opened, view, found)
            followed.catch_up()
            if not running:
                return
            live.tick()
            time.sleep(_PAUSE_S)
    finally:
        live.clear()


def _print_events(followed: JournalFollower, found: RunRecord, view: RunDisplay) -> None:
    """Print the events of a run and of its machines as JSON lines until the run ends."""
    from weft.reports.events_jsonl import EventLines

    writer = EventLines(
        followed.history, followed.header.started_at_s, lambda _: found.number, run=found.position
    )
    while True:
        running = _is_running(followed.opened, view, found)
        for entry in followed.new_entries():
            for line in writer.lines(entry, followed.state):
                click.echo(line)
        sys.stdout.flush()
        if not running:
            return
        time.sleep(_PAUSE_S)


def _end(opened: OpenProject, found: RunRecord, view: RunDisplay, *, quiet: bool) -> None:
    state = opened.state_of(found)
    view.has_engine = False
    if not quiet:
        from weft.reports.text import printable

        for line in (*view.kind_lines(), *view.failure_lines()):
            click.echo(redact(printable(line)))
        hint = (
            "; `weft resume` continues"
            if state in ("interrupted", "stopped")
            else f"; details: `weft report {found.number}`"
        )
        click.echo(f"run {found.number}, {printable(found.workflow)}: {state}{hint}")
    if state != "completed":
        raise click.exceptions.Exit(1)
