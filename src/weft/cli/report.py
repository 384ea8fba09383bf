"""``weft report``: how a run went."""

from __future__ import annotations

import sys

import click

from weft.cli import options
from weft.cli.terminal import stage

__all__ = ["command"]


@click.command("report")
@options.run_argument
@click.option("--html", metavar="FILE", help="Write the page: charts, tables, failures.")
@click.option("--trace", metavar="FILE", help="Write the attempts in Nextflow's columns (.tsv).")
@click.option("--events", metavar="FILE", help="Write what happened, one JSON object a line.")
@click.option("--wfformat", metavar="FILE", help="Write the executed run as WfFormat 1.5.")
@options.project
@options.as_json
def command(
    run: int | None,
    html: str | None,
    trace: str | None,
    events: str | None,
    wfformat: str | None,
    project: str | None,
    as_json: bool,
) -> None:
    """Say how RUN, or the last run, went: promise and outcome, tasks by kind, failures with their logs.

    In --html, --trace, --events and --wfformat, - is the standard output. A run that is not over can be
    reported too.
    """
    files = {"--html": html, "--trace": trace, "--events": events, "--wfformat": wfformat}
    printing = [f"{name} -" for name, file in files.items() if file == "-"]
    sharing = [*printing, "--json"] if as_json else printing
    if len(sharing) > 1:
        raise click.UsageError(f"{' and '.join(sharing)} cannot share the standard output.")
    with stage("reading the journal"):
        from weft.api.project import OpenProject
        from weft.api.report import read_report
        from weft.formats.files import save_text
        from weft.reports.execution_page import execution_lines

        with OpenProject.at(project) as place:
            found = place.runs.run(run)
            told = read_report(place, found.execution, found)
    texts = {
        "--html": told.html,
        "--trace": told.trace,
        "--events": told.events_text,
        "--wfformat": told.wfformat,
    }
    for name, file in files.items():
        if file is not None:
            save_text(texts[name](), file)
    if as_json:
        options.print_json({"number": found.number, **told.executed.as_record()})
    elif not printing:
        from weft.cli.terminal import width

        utf8 = "utf" in (sys.stdout.encoding or "").lower()
        click.echo(f"run {found.number}")
        for line in execution_lines(told.executed, width=width(), ascii_only=not utf8):
            click.echo(line)
        for file in files.values():
            if file is not None:
                click.echo(f"wrote {file}")
