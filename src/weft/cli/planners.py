"""``weft planners``: what stands on the shelf."""

from __future__ import annotations

import click

from weft.cli import options

__all__ = ["command"]


@click.command("planners")
@options.as_json
def command(as_json: bool) -> None:
    """List the planners."""
    from weft.planners import PLANNERS

    found = {name: PLANNERS.load(name).title for name in PLANNERS}
    if as_json:
        options.print_json([{"name": name, "title": title} for name, title in found.items()])
        return
    width = max(len(name) for name in found)
    for name, title in found.items():
        click.echo(f"{name:<{width}}  {title}")
