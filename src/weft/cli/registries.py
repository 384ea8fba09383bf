"""Describe planners and policies: their titles, and their options, the fields of their dataclasses.

What ``weft planners`` and ``weft policies`` print: a registry, or the options of one thing on it.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import MISSING, asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import click

from weft.cli import options
from weft.planners import PLANNERS
from weft.registry import Registry, list_options

if TYPE_CHECKING:
    from weft.registry import Registry

__all__ = ["Description", "OptionDescription", "describe", "show_registry"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionDescription:
    """One option, as it is written after the name of what has it: ``heft:NAME=VALUE``."""

    name: str
    values: str
    """What it may be: some words, or the kind of value."""
    default: str | None
    """None: it must be given."""
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What a user may want to know of a planner or a policy."""

    name: str
    title: str
    options: tuple[OptionDescription, ...]

    def as_record(self) -> dict[str, Any]:
        """Give it as plain data for ``--json``."""
        return asdict(self)


def describe(name: str, registry: Registry = PLANNERS) -> Description:
    """Describe what stands on a registry under a name."""
    kind = registry.load(name)
    fields = list_options(kind)
    types = get_type_hints(kind) if fields else {}
    meanings = _meanings(kind)
    options = tuple(
        OptionDescription(
            name=field.name.replace("_", "-"),
            values=_values(types[field.name]),
            default=None if field.default is MISSING else _text(field.default),
            meaning=meanings.get(field.name, ""),
        )
        for field in fields
    )
    return Description(name=name, title=kind.title, options=options)


def _values(kind: Any) -> str:
    words = get_args(kind)
    if words:
        return ", ".join(map(str, words))
    return {bool: "true, false", int: "a whole number", float: "a number"}.get(kind, "a text")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _meanings(kind: type) -> dict[str, str]:
    """Read the texts below the fields of a class and of those it extends; only the source keeps them."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        found |= _meanings_in(base)
    return found


def _meanings_in(kind: type) -> dict[str, str]:
    try:
        body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    except (OSError, TypeError):  # a class without a source file
        return {}
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, below in pairwise(body.body):
        name = field.target if isinstance(field, ast.AnnAssign) else None
        text = below.value if isinstance(below, ast.Expr) else None
        if isinstance(name, ast.Name) and isinstance(text, ast.Constant) and isinstance(text.value, str):
            found[name.id] = " ".join(text.value.split())
    return found


def show_registry(registry: Registry, name: str | None, *, as_json: bool) -> None:
    """Print the names and titles on a registry, or all about the one of a name."""
    if name is None:
        _list(registry, as_json=as_json)
        return

    found = describe(name, registry)
    if as_json:
        options.print_json(found.as_record())
    else:
        _show(found)


def _list(registry: Registry, *, as_json: bool) -> None:
    titles = {name: registry.load(name).title for name in registry}
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
