"""``weft clean``: remove the files of finished runs."""

from __future__ import annotations

from dataclasses import asdict

import click

from weft.cli import options
from weft.cli.terminal import stage
from weft.units import format_bytes, format_count


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

    Unfinished runs are kept. The journal and the files that were copied into the project are kept, so `weft
    ls`, `weft explain` and `weft report` still work, without the last lines of logs. Runs of one execution
    are removed together. Exit code 4: an engine is running.
    """
    with stage("cleaning"):
        from weft.api.project import OpenProject, clean
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
    named = ", ".join(map(str, found.runs))
    of = (
        f" of {format_count(len(found.runs), 'run')} ({named})"
        if 0 < len(found.runs) <= 10
        else f" of {format_count(len(found.runs), 'run')}"
    )
    click.echo(f"{would} {format_count(found.files, 'file')}{of}, {format_bytes(found.freed_bytes)}")
    for number in found.kept:
        where = ""
        if original := found.originals.get(number):
            where = f" in '{original}', where it was started and of which this project is a copy,"
        ends = f"`weft resume {number}` or `weft cancel {number}`{where} ends it"
        click.echo(f"kept unfinished run {number}; {ends}")
    for folder, original in found.shared.items():
        copied = f"this project was copied or moved from '{original}', and the project there may use it"
        click.echo(f"kept '{folder}': {copied}; --force removes it")
