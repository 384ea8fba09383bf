"""``weft clean``: remove the files of finished runs."""

from __future__ import annotations

from dataclasses import asdict

import click

from weft.cli import options
from weft.cli.terminal import stage
from weft.units import format_bytes, format_count

_MOST_NAMED = 10
"""Most runs whose numbers are printed."""


@click.command("clean")
@click.argument("runs", nargs=-1, type=click.IntRange(min=1), metavar="[RUN]...")
@click.option(
    "--keep-results", is_flag=True, help="Keep output directories, so that later runs can reuse them."
)
@click.option("--all", "everything", is_flag=True, help="Also remove reports and input caches.")
@click.option(
    "--force",
    is_flag=True,
    help="In a copied project: also remove directories that the original may use.",
)
@click.option("-n", "--dry-run", is_flag=True, help="Only print what would be removed.")
@options.project
@options.as_json
def command(
    runs: tuple[int, ...],
    keep_results: bool,
    everything: bool,
    force: bool,
    dry_run: bool,
    project: str | None,
    as_json: bool,
) -> None:
    """Remove sandboxes, records and checkpoints of RUN, or of every finished run.

    Unfinished runs are kept, but for the directories of attempts that have failed. The journal and the files
    that were copied into the project are kept, so `weft ls`, `weft explain` and `weft report` still work,
    without the last lines of logs. Runs of one execution are removed together. No space is needed, so this
    also helps if a disk is full. Exit code 4: an engine is running.
    """
    with stage("cleaning"):
        from weft.api.cleanup import clean
        from weft.api.project import OpenProject
        from weft.cli.driver import command_line

        with OpenProject.at(project) as opened:
            found = clean(
                opened,
                runs,
                keep_results=keep_results,
                everything=everything,
                dry_run=dry_run,
                force=force,
                command=command_line(),
            )
    if as_json:
        options.print_json(asdict(found) | {"dry_run": dry_run})
        return
    would = "would remove" if dry_run else "removed"
    if dry_run:
        for folder in found.folders:
            click.echo(folder)
    click.echo(
        f"{would} {format_count(found.files, 'file')} of {_describe_origin(found.runs, found.attempts)}, "
        f"{format_bytes(found.freed_bytes)}"
    )
    for number in found.kept:
        where = ""
        if original := found.originals.get(number):
            where = f" in '{original}', where it was started and of which this project is a copy,"
        ends = f"`weft resume {number}` or `weft cancel {number}`{where} ends it"
        click.echo(f"kept unfinished run {number}; {ends}")
    for folder, original in found.shared.items():
        copied = f"this project was copied or moved from '{original}', and the project there may use it"
        click.echo(f"kept '{folder}': {copied}; --force removes it")
    for machine, reason in found.unreachable.items():
        advice = "run `weft clean` again when the machine can be reached"
        click.echo(f"kept the directories on {machine}: {reason}; {advice}")


def _describe_origin(runs: list[int], attempts: int) -> str:
    """Return a text about what the removed files belonged to: runs, and attempts of unfinished runs."""
    parts = []
    if runs or not attempts:
        named = f" ({', '.join(map(str, runs))})" if 0 < len(runs) <= _MOST_NAMED else ""
        parts.append(f"{format_count(len(runs), 'run')}{named}")
    if attempts:
        parts.append(f"{format_count(attempts, 'ended attempt')} of unfinished runs")
    return " and ".join(parts)
