"""``weft migrate``: move a running task to another machine."""

from __future__ import annotations

import click

from weft.cli import options

__all__ = ["command"]


@click.command("migrate")
@click.argument("task")
@click.option("--to", "machine", metavar="MACHINE", help="Where to; if not given, wherever is best now.")
@options.run_option
@options.project
@options.as_json
def command(task: str, machine: str | None, run: int | None, project: str | None, as_json: bool) -> None:
    """Move TASK, which must be running, to another machine; it goes on there from its last restart files.

    Exit code 1: it does not run, it cannot run there, or no engine is at work.
    """
    from weft.api.project import OpenProject
    from weft.cli.control import send_requests

    where = f"moves to {machine}" if machine else "leaves its machine"
    with OpenProject.at(project) as place:
        found = place.runs.run(run)
        send_requests(place, "migrate", found, tasks=(task,), machine=machine, as_json=as_json, done=where)
