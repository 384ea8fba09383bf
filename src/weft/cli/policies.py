"""``weft policies``: what stands on the registry, and the options of one policy."""

from __future__ import annotations

import click

from weft.cli import options
from weft.cli.registries import show_registry

__all__ = ["command"]


@click.command("policies")
@click.argument("name", required=False)
@options.as_json
def command(name: str | None, as_json: bool) -> None:
    """List the policies, or the options of the policy NAME.

    Options are written after the name: weft simulate ... --policy NAME:OPTION=VALUE:OPTION=VALUE
    """
    from weft.policies import POLICIES

    show_registry(POLICIES, name, as_json=as_json)
