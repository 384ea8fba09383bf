"""``weft planners``: what stands on the shelf, and the options of one planner."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from weft.cli import options

if TYPE_CHECKING:
    from weft.api.describing import Description

__all__ = ["command"]


@click.command("planners")
@click.argument("name", required=False)
@options.as_json
def command(name: str | None, as_json: bool) -> None:
    """List the planners, or the options of the planner NAME.

    Options are written after the name: weft plan ... --planner NAME:OPTION=VALUE:OPTION=VALUE
    """
    from weft.api.describing import describe

    if name is not None:
        found = describe(name)
        if as_json:
            options.print_json(found.as_record())
        else:
            _show(found)
        return
    _list(as_json=as_json)


def _list(*, as_json: bool) -> None:
    from weft.planners import PLANNERS

    titles = {name: PLANNERS.load(name).title for name in PLANNERS}
    if as_json:
        options.print_json([{"name": name, "title": title} for name, title in titles.items()])
        return
    width = max(len(name) for name in titles)
    for name, title in titles.items():
        click.echo(f"{name:<{width}}  {title}")


def _show(found: Description) -> None:
    click.echo(f"{found.name}: {found.title}")
    if not found.options:
        click.echo("It has no options.")
    for option in found.options:
        default = "" if option.default is None else f" (default {option.default})"
        click.echo(f"  {found.name}:{option.name}=...  {option.values}{default}")
        if option.meaning:
            click.echo(f"      {option.meaning}")
