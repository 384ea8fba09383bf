"""``weft explain``: why a task is where it is, at any time of a journal."""

from __future__ import annotations

import click

from weft.cli import options
from weft.cli.terminal import stage

__all__ = ["command"]


@click.command("explain")
@click.argument("words", nargs=-1, required=True, metavar="[JOURNAL] TASK")
@click.option("--at", "at", metavar="TIME", help="The time: 90, 1h30m; if not given, the journal's end.")
@click.option(
    "--run",
    type=click.IntRange(min=0),
    metavar="NUMBER",
    help="Which run: of a project as `weft ls` numbers them, if not given the last; of a file from 0 in the "
    "order of arrival, if not given the first.",
)
@options.project
@options.as_json
def command(
    words: tuple[str, ...], at: str | None, run: int | None, project: str | None, as_json: bool
) -> None:
    """Say why TASK is where it is: its state, the last decision about it, and what that rested on.

    JOURNAL is a file that `weft simulate --journal` wrote, or a project in which `weft run` was called (its
    folder, or the database in its .weft), if not given the project one is in; TASK is a name such as lapw0 or
    'lapw1[3]'. Every machine is shown with the conditions it met or not and with the estimates at the moment
    of the decision; of a task that waits, what it waits for.
    """
    if len(words) > 2 or (len(words) == 2 and project is not None):
        raise click.UsageError("Name a JOURNAL and a TASK, or a TASK of the project.")
    task = words[-1]
    at_s = options.given_seconds("--at", at)
    with stage("loading"):
        from weft.api.journal import explain_task, explanation_lines
        from weft.api.project import require_project

        journal = words[0] if len(words) == 2 else str(require_project(project).project)
    with stage(f"reading {journal}"):
        found = explain_task(journal, task, run=run, at_s=at_s)
    if as_json:
        options.print_json(found.as_record())
        return
    for line in explanation_lines(found):
        click.echo(line)
    if len(words) == 1 and at_s is None:
        _note_if_interrupted(project, found.run)


def _note_if_interrupted(project: str | None, run: int) -> None:
    """Say of a run that does not go on that what was decided last waits for an engine."""
    from weft.api.project import OpenProject

    with OpenProject.at(project) as place:
        if place.resumable(place.runs.run(run)):
            click.echo("no engine is at work; `weft resume` goes on")
