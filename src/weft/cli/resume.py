"""``weft resume``: resume an interrupted or stopped run."""

from __future__ import annotations

import click

from weft.cli import options
from weft.cli.terminal import stage


@click.command("resume")
@options.run_argument
@options.execution_files
@options.project
@options.quiet
@options.verbose
@options.as_json
def command(
    run: int | None,
    report: str | None,
    trace: str | None,
    project: str | None,
    quiet: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Resume RUN, or the last run, and re-attach to programs that are still running.

    Failed tasks that wait for the user (on_failure: hold) are retried. The options of the original `weft run`
    still hold; to change them, call `weft run` again. Exit codes are those of `weft run`.
    """
    options.check_files((), "", {"--report": report, "--trace": trace}, as_json=as_json)
    with stage("loading"):
        options.load_numpy()
        from weft.api.project import OpenProject
        from weft.api.run import resume
        from weft.cli.driver import drive_run
    with OpenProject.at(project) as opened:
        execution = None if run is None else opened.runs.run(run).execution
    drive_run(
        resume, as_json=as_json, quiet=quiet, verbose=verbose, report=report, trace=trace,
        execution=execution, project=project,
    )  # fmt: skip
