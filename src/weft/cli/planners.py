"""``weft planners``: what stands on the registry, and the options of one planner."""

from __future__ import annotations

import click

from weft.cli import options
from weft.cli.registries import show_registry

__all__ = ["command"]


@click.command("planners")
@click.argument("name", required=False)
@options.as_json
def command(name: str | None, as_json: bool) -> None:
    """List the planners, or the options of the planner NAME.

    Options are written after the name: weft plan ... --planner NAME:OPTION=VALUE:OPTION=VALUE
    """
    from weft.planners import PLANNERS

    show_registry(PLANNERS, name, as_json=as_json)
