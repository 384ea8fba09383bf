"""Parsed expressions: their canonical text, tree and names."""

from __future__ import annotations

import functools
from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from weft.expressions.parser import MAX_LENGTH, parse_tree
from weft.expressions.tree import ExpressionNode, Name, format_tree, walk
from weft.expressions.values import BUILT_IN, ExpressionError, unknown_name

__all__ = ["Expression", "find_unknown_names", "parse"]

_CACHED_LENGTH = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """A parsed expression; expressions are equal if their canonical texts are equal."""

    text: str
    """The canonical text: parsing it gives an equal expression."""
    tree: ExpressionNode = field(compare=False, repr=False)
    names: tuple[str, ...] = field(compare=False, repr=False)
    """Dotted names in order of first appearance, including units such as ``GB``."""
    source: str = field(compare=False, repr=False)
    """The original text; columns of the tree and of errors refer to it."""

    def __str__(self) -> str:
        return self.text


def parse(text: str) -> Expression:
    """Return the expression of a text, or raise ExpressionError."""
    return _parse_cached(text) if len(text) <= _CACHED_LENGTH else _parse(text)


def _parse(text: str) -> Expression:
    tree = parse_tree(text)
    canonical = format_tree(tree)
    if len(canonical) > MAX_LENGTH:
        rule = f"an expression has at most {MAX_LENGTH} characters in canonical form"
        raise ExpressionError(
            f"{len(canonical)} characters", text, 1, rule, "define parameters for parts of it"
        )
    names = dict.fromkeys(node.name for node in walk(tree) if isinstance(node, Name))
    return Expression(text=canonical, tree=tree, names=tuple(names), source=text)


_parse_cached = functools.lru_cache(maxsize=4096)(_parse)


def find_unknown_names(expression: Expression, known: Container[str]) -> list[ExpressionError]:
    """Return an error for each name that is not known (whole or by a dotted prefix), built in or optional."""
    columns: dict[str, int] = {}
    for node in walk(expression.tree):
        if isinstance(node, Name) and not (node.optional or _is_known(node.name, known)):
            columns.setdefault(node.name, node.column)
    suggestions = [name for name in known if isinstance(name, str)] if isinstance(known, Iterable) else []
    return [
        unknown_name(name, suggestions).at(column).error(expression.source)
        for name, column in columns.items()
    ]


def _is_known(name: str, known: Container[str]) -> bool:
    parts = name.split(".")
    return name in BUILT_IN or any(".".join(parts[:count]) in known for count in range(len(parts), 0, -1))
