"""``weft hold``: let tasks wait until they are released."""

from __future__ import annotations

import click

from weft.cli import options

__all__ = ["command"]


@click.command("hold")
@click.argument("tasks", nargs=-1, metavar="[TASK]...")
@options.run_option
@options.project
@options.as_json
def command(tasks: tuple[str, ...], run: int | None, project: str | None, as_json: bool) -> None:
    """Let every TASK that has not begun wait until `weft release`; without TASK all of the run.

    TASK is a name such as lapw0 or 'lapw1[3]'; the name of a sweep means all its tasks. What runs already
    goes on. Exit code 1: there is no such task, or no engine is at work.
    """
    from weft.api.project import OpenProject
    from weft.cli.control import send_requests

    with OpenProject.at(project) as place:
        found = place.runs.run(run)
        send_requests(
            place, "hold", found, tasks=tasks, as_json=as_json, done="is held; `weft release` lets it go on"
        )
