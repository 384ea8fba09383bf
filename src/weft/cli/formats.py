"""``weft formats``: which files can be read and written."""

from __future__ import annotations

import click

from weft.cli import options

__all__ = ["command"]


@click.command("formats")
@options.as_json
def command(as_json: bool) -> None:
    """List the file formats of workflows. Files are recognised by their content."""
    from weft.formats import FORMATS

    rows = []
    for name in FORMATS:
        entry = FORMATS.load(name)
        verbs = [verb for verb, able in (("read", entry.reads), ("write", entry.writes)) if able]
        rows.append({"name": name, "title": entry.title, "endings": list(entry.extensions), "can": verbs})
    if as_json:
        options.print_json(rows)
        return
    width = max(len(str(row["name"])) for row in rows)
    for row in rows:
        can, endings = ", ".join(row["can"]), " ".join(row["endings"])
        click.echo(f"{row['name']:<{width}}  {can:<12}  {endings:<12}  {row['title']}")
