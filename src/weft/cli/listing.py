"""What ``weft planners`` and ``weft policies`` print: a shelf, or the options of one thing on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from weft.cli import options

if TYPE_CHECKING:
    from weft.api.describing import Description
    from weft.registry import Shelf

__all__ = ["show_shelf"]


def show_shelf(shelf: Shelf, name: str | None, *, as_json: bool) -> None:
    """Print the names and titles on a shelf, or all about the one of a name."""
    if name is None:
        _list(shelf, as_json=as_json)
        return
    from weft.api.describing import describe

    found = describe(name, shelf)
    if as_json:
        options.print_json(found.as_record())
    else:
        _show(found)


def _list(shelf: Shelf, *, as_json: bool) -> None:
    titles = {name: shelf.load(name).title for name in shelf}
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
