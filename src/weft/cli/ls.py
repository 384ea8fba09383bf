"""``weft ls``: the runs of a project."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from weft.cli import options
from weft.units import format_seconds

if TYPE_CHECKING:
    from weft.repository.runs import RunRecord

__all__ = ["command"]


@click.command("ls")
@options.project
@options.as_json
def command(project: str | None, as_json: bool) -> None:
    """List the runs of the project, the last one at the end: how they ended, how long they took.

    `promised` is the time that half of such runs take by the first plan, P90 what nine of ten keep to. A run
    that is called interrupted can be resumed.
    """
    from weft.api.project import OpenProject

    with OpenProject.at(project) as place:
        runs = place.runs.all()
        states = [place.state_of(run) for run in runs]
    if as_json:
        options.print_json(
            [run.as_record() | {"state": state} for run, state in zip(runs, states, strict=True)]
        )
        return
    from weft.reports.comparison import TextTable
    from weft.reports.text import printable

    rows = []
    for run, state in zip(runs, states, strict=True):
        ended_s = time.time() if state == "running" else run.ended_at_s
        rows.append(
            (
                str(run.number),
                printable(run.workflow),
                printable(run.owner) or "-",
                state,
                time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.started_at_s)),
                str(run.tasks),
                *_promised(run),
                "-" if ended_s is None else format_seconds(max(0.0, ended_s - run.started_at_s)),
            )
        )
    heading = ("run", "workflow", "owner", "state", "started", "tasks", "promised", "P90", "took")
    for line in TextTable(heading=heading, rows=tuple(rows), texts=5).lines():
        click.echo(line)


def _promised(run: RunRecord) -> tuple[str, str]:
    """Give P50 and P90 of what was promised."""
    promise = run.promise
    if promise is None:
        return "-", "-"
    least = "unknown" if promise.least_s is None else f"at least {format_seconds(promise.least_s)}"
    return (
        least if promise.p50_s is None else format_seconds(promise.p50_s),
        "unknown" if promise.p90_s is None else format_seconds(promise.p90_s),
    )
