"""``weft schema``: the JSON Schema of our files, so that editors complete and check them."""

from __future__ import annotations

import click

__all__ = ["command"]


@click.command("schema")
@click.argument("kind", type=click.Choice(["workflow", "platform"]))
def command(kind: str) -> None:
    """Print the JSON Schema of workflow or platform files.

    In an editor with the YAML language server, put this above the file:
    # yaml-language-server: $schema=workflow.json
    """
    from weft.formats.schema import schema_text

    click.echo(schema_text(kind), nl=False)
