"""``weft explain``: explain the state of a task at any time of a journal."""

from __future__ import annotations

import click

from weft.cli import options
from weft.cli.terminal import stage


@click.command("explain")
@click.argument("words", nargs=-1, required=True, metavar="[JOURNAL] TASK")
@click.option(
    "--at",
    "at_s",
    callback=options.read_seconds,
    metavar="TIME",
    help="Time such as 90 or 1h30m (default: the end of the journal).",
)
@click.option(
    "--run",
    type=click.IntRange(min=0),
    metavar="NUMBER",
    help="Run number: in a project as shown by `weft ls` (default: the last run); in a file counted from 0 "
    "by arrival (default: the first).",
)
@options.project
@options.verbose
@options.as_json
def command(
    words: tuple[str, ...],
    at_s: float | None,
    run: int | None,
    project: str | None,
    verbose: bool,
    as_json: bool,
) -> None:
    """Explain the state of TASK: the last decision about it and the data behind that decision.

    JOURNAL is a file written by `weft simulate --journal`, or a project with runs (its folder or the database
    in .weft); default: the current project. TASK is a name such as lapw0 or 'lapw1[3]'. 'conv#2' is the
    second iteration of a task in a loop; 'conv#2.1' is the first iteration of an inner loop within the second
    iteration of the outer loop. Every machine is shown with the conditions that it meets or fails and with
    the estimates at the time of the decision. For a waiting task, the output says what it waits for.
    """
    if len(words) > 2 or (len(words) == 2 and project is not None):
        raise click.UsageError("Give JOURNAL and TASK, or a TASK of the project.")
    task = words[-1]
    with stage("loading"):
        from weft.api.journal import explain_task, explanation_lines
        from weft.api.project import require_project

        journal = words[0] if len(words) == 2 else str(require_project(project).project)
    with stage(f"reading {journal}"):
        found = explain_task(journal, task, run=run, at_s=at_s)
    if as_json:
        options.print_json(found.as_record())
        return
    interrupted = len(words) == 1 and at_s is None and _is_interrupted(project, found.run)
    lines = explanation_lines(
        found, verbose=verbose, interrupted=interrupted, one_iteration=task != found.task
    )
    options.print_lines(lines)


def _is_interrupted(project: str | None, run: int) -> bool:
    """Return whether a run is unfinished and no engine drives it."""
    from weft.api.project import OpenProject

    with OpenProject.at(project) as opened:
        return opened.resumable(opened.runs.run(run))
