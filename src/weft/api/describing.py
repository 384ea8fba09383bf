"""Describe planners and policies: their titles, and their options, the fields of their dataclasses."""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import MISSING, asdict, dataclass
from itertools import pairwise
from typing import Any, get_args, get_type_hints

from weft.naming import options_of
from weft.planners import PLANNERS
from weft.registry import Shelf

__all__ = ["Description", "Option", "describe"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
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
    options: tuple[Option, ...]

    def as_record(self) -> dict[str, Any]:
        """Give it as plain data for ``--json``."""
        return asdict(self)


def describe(name: str, shelf: Shelf = PLANNERS) -> Description:
    """Describe what stands on a shelf under a name."""
    kind = shelf.load(name)
    fields = options_of(kind)
    types = get_type_hints(kind) if fields else {}
    meanings = _meanings(kind)
    options = tuple(
        Option(
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
