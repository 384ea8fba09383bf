"""``weft planners``, ``policies`` and ``formats``: list registered implementations and their options.

Options are the fields of an implementation's dataclass.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import MISSING, asdict, dataclass
from itertools import pairwise
from typing import Any, get_args, get_type_hints

import click

from weft.cli import options
from weft.registry import Registry, list_options, option_type


@click.command("planners")
@click.argument("name", required=False)
@options.as_json
def planners(name: str | None, as_json: bool) -> None:
    """List the planners, or the options of the planner NAME.

    Append options to the name: weft plan ... --planner NAME:OPTION=VALUE,OPTION=VALUE
    """
    from weft.planners import PLANNERS

    _show_registry(PLANNERS, name, as_json=as_json)


@click.command("policies")
@click.argument("name", required=False)
@options.as_json
def policies(name: str | None, as_json: bool) -> None:
    """List the policies, or the options of the policy NAME.

    Append options to the name: weft simulate ... --policy NAME:OPTION=VALUE,OPTION=VALUE
    """
    from weft.policies import POLICIES

    _show_registry(POLICIES, name, as_json=as_json)


@click.command("formats")
@options.as_json
def formats(as_json: bool) -> None:
    """List the file formats of workflows. Files are recognised by their content."""
    from weft.formats import FORMATS

    rows = []
    for name, entry, title in FORMATS.load_titled():
        can = {} if entry is None else {"read": entry.reads, "write": entry.writes}
        endings = [] if entry is None else list(entry.extensions)
        verbs = [verb for verb, able in can.items() if able]
        rows.append({"name": name, "title": title, "endings": endings, "can": verbs})
    if as_json:
        options.print_json(rows)
        return
    width = max(len(str(row["name"])) for row in rows)
    for row in rows:
        columns = f"{', '.join(row['can']):<12}  {' '.join(row['endings']):<12}"
        click.echo(f"{row['name']:<{width}}  {columns}  {row['title']}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionDescription:
    """One option of an implementation, written after its name: ``heft:NAME=VALUE``."""

    name: str
    values: str
    """Allowed values, or the type of the value, as text."""
    default: str | None
    """Default value as text; None if the option is required."""
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """Title and options of a registered implementation."""

    name: str
    title: str
    options: tuple[OptionDescription, ...]

    def as_record(self) -> dict[str, Any]:
        """Return the object printed with ``--json``."""
        return asdict(self)


def describe(name: str, registry: Registry) -> Description:
    """Return the title and options of the registry entry ``name``."""
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
    kind = option_type(kind)
    if words := get_args(kind):
        return ", ".join(map(str, words))
    return {bool: "true, false", int: "a whole number", float: "a number"}.get(kind, "a text")


def _text(value: object) -> str:
    if value is None:
        return "as in the preset"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _meanings(kind: type) -> dict[str, str]:
    """Return the docstrings of the fields of a class and its bases, by field, read from their source."""
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


def _show_registry(registry: Registry, name: str | None, *, as_json: bool) -> None:
    """Print the names and titles of a registry's entries, or the options of the entry ``name``."""
    if name is None:
        options.print_titles(registry, as_json=as_json)
        return
    found = describe(name, registry)
    if as_json:
        options.print_json(found.as_record())
    else:
        _show(found)


def _show(found: Description) -> None:
    click.echo(f"{found.name}: {found.title}")
    if not found.options:
        click.echo("no options")
    for option in found.options:
        default = "" if option.default is None else f" (default {option.default})"
        click.echo(f"  {found.name}:{option.name}=...  {option.values}{default}")
        if option.meaning:
            click.echo(f"      {option.meaning}")
