"""``weft report``: report on a run."""

from __future__ import annotations

import click

from weft.cli import options
from weft.cli.terminal import ascii_only, stage, width


@click.command("report")
@options.run_argument
@click.option("--html", metavar="FILE", help="Write the HTML page.")
@click.option("--trace", metavar="FILE", help="Write the attempts as a Nextflow trace (.tsv).")
@click.option("--events", metavar="FILE", help="Write the events, one JSON object per line.")
@click.option("--wfformat", metavar="FILE", help="Write the executed run as WfFormat 1.5.")
@options.project
@options.verbose
@options.as_json
def command(
    run: int | None,
    html: str | None,
    trace: str | None,
    events: str | None,
    wfformat: str | None,
    project: str | None,
    verbose: bool,
    as_json: bool,
) -> None:
    """Report on RUN, or the last run: prediction and outcome, tasks by kind, failures with their logs.

    For --html, --trace, --events and --wfformat, - is the standard output. The run need not have ended.
    """
    files = {"--html": html, "--trace": trace, "--events": events, "--wfformat": wfformat}
    options.check_files((), "", files, as_json=as_json)
    with stage("reading the journal"):
        from weft.api.project import OpenProject
        from weft.api.report import read_report
        from weft.formats.files import save_text
        from weft.reports.execution_page import execution_lines, execution_notes

        with OpenProject.at(project) as opened:
            found = opened.runs.run(run)
            report = read_report(opened, found.execution, found)
    texts = {
        "--html": report.html,
        "--trace": report.trace,
        "--events": report.events_text,
        "--wfformat": report.wfformat,
    }
    for name, file in files.items():
        if file is not None:
            save_text(texts[name](), file)
    if as_json:
        notes = execution_notes(report.executed)
        options.print_json({"number": found.number, **report.executed.as_record(), "notes": notes})
    elif "-" not in files.values():
        click.echo(f"run {found.number}")
        lines = execution_lines(report.executed, width=width(), ascii_only=ascii_only(), verbose=verbose)
        options.print_lines(lines)
        options.print_written(*files.values())
