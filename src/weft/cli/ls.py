"""``weft ls``: list the runs of a project."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from weft.cli import options
from weft.units import format_seconds

if TYPE_CHECKING:
    from weft.repository.runs import RunRecord


@click.command("ls")
@options.project
@options.as_json
def command(project: str | None, as_json: bool) -> None:
    """List the runs of the project, oldest first, with state, start, times and slowdown.

    `promised` is the time that the first plan predicted (P50); nine of ten such runs do not take longer than
    P90. `slowdown` is the time from arrival to end divided by the estimated time of the same work alone on
    the empty platform. An interrupted run can be resumed.
    """
    from weft.api.project import OpenProject

    with OpenProject.at(project) as opened:
        runs = opened.runs.all()
        states = [opened.state_of(run) for run in runs]
    if as_json:
        options.print_json(
            [run.as_record() | {"state": state} for run, state in zip(runs, states, strict=True)]
        )
        return
    from weft.reports.text import TextTable, printable

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
                "-" if run.slowdown is None else f"{run.slowdown:.2f}",
            )
        )
    heading = (
        "run", "workflow", "owner", "state", "started", "tasks", "promised", "P90", "took", "slowdown",
    )  # fmt: skip
    options.print_lines(TextTable(heading=heading, rows=tuple(rows), texts=5).lines())


def _promised(run: RunRecord) -> tuple[str, str]:
    """Return P50 and P90 of a run's predicted time as text."""
    promise = run.promise
    if promise is None:
        return "-", "-"
    least = "unknown" if promise.least_s is None else f"at least {format_seconds(promise.least_s)}"
    return (
        least if promise.p50_s is None else format_seconds(promise.p50_s),
        "unknown" if promise.p90_s is None else format_seconds(promise.p90_s),
    )
