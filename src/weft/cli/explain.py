"""``weft explain``: why a task is where it is, at any time of a journal."""

from __future__ import annotations

import click

from weft.cli import options
from weft.cli.progress import stage

__all__ = ["command"]


@click.command("explain")
@click.argument("journal", type=click.Path(path_type=str))
@click.argument("task")
@click.option("--at", "at", metavar="TIME", help="The time: 90, 1h30m; if not given, the journal's end.")
@click.option(
    "--run",
    type=click.IntRange(min=0),
    metavar="NUMBER",
    help="Which run: of a project as `weft ls` numbers them, if not given the last; of a file from 0 in the "
    "order of arrival, if not given the first.",
)
@options.as_json
def command(journal: str, task: str, at: str | None, run: int | None, as_json: bool) -> None:
    """Say why TASK is where it is: its state, the last decision about it, and what that rested on.

    JOURNAL is a file that `weft simulate --journal` wrote, or a project in which `weft run` was called (its
    folder, or the database in its .weft); TASK is a name such as lapw0 or 'lapw1[3]'. Every machine is shown
    with the conditions it met or not and with the estimates at the moment of the decision; of a task that
    waits, what it waits for.
    """
    at_s = options.given_seconds("--at", at)
    with stage("loading"):
        from weft.api.runs.explaining import explain_task, explanation_lines
    with stage(f"reading {journal}"):
        found = explain_task(journal, task, run=run, at_s=at_s)
    if as_json:
        options.print_json(found.as_record())
        return
    for line in explanation_lines(found):
        click.echo(line)
