"""``weft resume``: go on with a run that was interrupted or stopped."""

from __future__ import annotations

import click

from weft.cli import options
from weft.cli.terminal import stage

__all__ = ["command"]


@click.command("resume")
@options.run_argument
@click.option("--report", metavar="FILE", help="Write the report there too (HTML).")
@click.option("--trace", metavar="FILE", help="Write the attempts there too, in Nextflow's columns.")
@options.project
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
@options.as_json
def command(
    run: int | None, report: str | None, trace: str | None, project: str | None, quiet: bool, as_json: bool
) -> None:
    """Go on with RUN, or the last run, where it was interrupted; programs that still run are found again.

    Tasks that failed and wait for the user (on_failure: hold) are tried again. What was asked for when the
    run was begun still holds; to change something, call `weft run` again. Exit codes are those of `weft run`.
    """
    with stage("loading"):
        from weft.api.project import OpenProject
        from weft.api.run import resume
        from weft.cli.driver import drive_run
    with OpenProject.at(project) as place:
        execution = None if run is None else place.runs.run(run).execution
    printed = "-" in (report, trace)
    drive_run(
        resume, as_json=as_json, quiet=quiet or printed, report=report, trace=trace, execution=execution,
        project=project,
    )  # fmt: skip
