"""``weft cancel``: end a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from weft.cli import options

if TYPE_CHECKING:
    from weft.api.project import OpenProject
    from weft.repository.runs import RunRecord

__all__ = ["command"]


@click.command("cancel")
@options.run_argument
@options.project
@options.as_json
def command(run: int | None, project: str | None, as_json: bool) -> None:
    """End RUN, or the last run: its programs are ended, what it has made stays for later runs.

    A run whose engine was interrupted or has died is given up: what still runs of it is ended. To let single
    tasks wait there is `weft hold`. Exit code 1: the run is over, or its engine does not answer.
    """
    from weft.api.project import OpenProject
    from weft.cli.control import send_requests

    with OpenProject.at(project) as place:
        found = place.runs.run(run)
        if place.resumable(found):
            _give_up(place, found, as_json=as_json)
        else:
            send_requests(place, "cancel", found, as_json=as_json, done="is cancelled")


def _give_up(place: OpenProject, found: RunRecord, *, as_json: bool) -> None:
    """Cancel a run without an engine."""
    from weft.api.run import cancel_unfinished
    from weft.cli.driver import RunDriver

    driver = RunDriver(quiet=True)
    with driver.signals:
        ended = cancel_unfinished(place, found, interrupted=driver.signals)
    if as_json:
        answer = {"task": None, "granted": ended.state == "cancelled", "heard": False, "text": ended.state}
        options.print_json({"run": found.number, "asked": "cancel", "answers": [answer]})
    elif ended.state == "cancelled":
        click.echo(f"run {found.number} is cancelled; no engine was at work")
    if ended.state != "cancelled":
        click.echo(f"error: run {found.number} is {ended.state}", err=True)
        raise click.exceptions.Exit(1)
