"""``weft release``: let tasks go on that were held."""

from __future__ import annotations

import click

from weft.cli import options

__all__ = ["command"]


@click.command("release")
@click.argument("tasks", nargs=-1, metavar="[TASK]...")
@options.run_option
@options.project
@options.as_json
def command(tasks: tuple[str, ...], run: int | None, project: str | None, as_json: bool) -> None:
    """Let every TASK go on that was held, or that failed and waits for the user; without TASK all of the run.

    TASK is a name such as lapw0 or 'lapw1[3]'; the name of a sweep means all its tasks. Exit code 1: there is
    no such task, or no engine is at work.
    """
    from weft.api.project import OpenProject
    from weft.cli.control import send_requests

    with OpenProject.at(project) as place:
        found = place.runs.run(run)
        send_requests(place, "release", found, tasks=tasks, as_json=as_json, done="goes on")
