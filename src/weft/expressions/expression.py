"""An expression: its canonical text, its tree and the names it needs."""

from __future__ import annotations

import functools
import keyword
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace

from weft.errors import InvalidInput, Problem, shorten
from weft.expressions.parser import MAX_LENGTH, parse_tree
from weft.expressions.tree import (
    Binary,
    Compare,
    Conditional,
    ExpressionNode,
    FunctionCall,
    Index,
    ListOf,
    Logical,
    Name,
    Unary,
    format_tree,
    walk,
)
from weft.expressions.values import BUILT_IN, ExpressionError, unknown_name

__all__ = ["Expression", "find_unknown_names", "parse", "rename"]

_CACHED_LENGTH = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """A checked expression; two are equal if their canonical texts are."""

    text: str
    """The canonical text: parsing it gives an equal expression."""
    tree: ExpressionNode = field(compare=False, repr=False)
    names: tuple[str, ...] = field(compare=False, repr=False)
    """Free dotted names in order of first appearance, units such as ``GB`` among them."""
    source: str = field(compare=False, repr=False)
    """The text as it was written; the columns of the tree and of errors count in it."""

    def __str__(self) -> str:
        return self.text


def parse(text: str) -> Expression:
    """Read an expression, or raise an ExpressionError that says where it went wrong and what to do."""
    return _parse_cached(text) if len(text) <= _CACHED_LENGTH else _parse(text)


def _parse(text: str) -> Expression:
    tree = parse_tree(text)
    canonical = format_tree(tree)
    if len(canonical) > MAX_LENGTH:
        rule = f"an expression has at most {MAX_LENGTH} characters when written out with blanks"
        raise ExpressionError(f"{len(canonical)} characters", text, 1, rule, "name parts of it")
    names = dict.fromkeys(node.name for node in walk(tree) if isinstance(node, Name))
    return Expression(text=canonical, tree=tree, names=tuple(names), source=text)


_parse_cached = functools.lru_cache(maxsize=4096)(_parse)


def find_unknown_names(expression: Expression, known: Container[str]) -> list[ExpressionError]:
    """List the names that are neither known (as a whole or by a dotted prefix) nor units nor optional."""
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


def rename(expression: Expression, mapping: Mapping[str, str]) -> Expression:
    """Replace names, to translate another system's attributes; the columns are those of the new text."""
    for name in expression.names:
        new = mapping.get(name, name)
        if not all(part.isidentifier() and not keyword.iskeyword(part) for part in new.split(".")):
            raise InvalidInput(
                Problem(
                    what=f"{shorten(name)!r} renamed to {shorten(new)!r}",
                    rule="a name is made of letters, digits, _ and dots, and is no word of the language",
                    advice="choose another name",
                )
            )
    return parse(format_tree(_renamed(expression.tree, mapping)))


def _renamed(node: ExpressionNode, mapping: Mapping[str, str]) -> ExpressionNode:
    match node:
        case Name(name=name):
            return replace(node, name=mapping.get(name, name))
        case ListOf(items=parts):
            return replace(node, items=_each(parts, mapping))
        case FunctionCall(arguments=parts):
            return replace(node, arguments=_each(parts, mapping))
        case Compare(operands=parts) | Logical(operands=parts):
            return replace(node, operands=_each(parts, mapping))
        case Unary(operand=operand):
            return replace(node, operand=_renamed(operand, mapping))
        case Binary(left=left, right=right):
            return replace(node, left=_renamed(left, mapping), right=_renamed(right, mapping))
        case Index(target=target, key=key):
            return replace(node, target=_renamed(target, mapping), key=_renamed(key, mapping))
        case Conditional(condition=condition, then=then, otherwise=otherwise):
            condition, then, otherwise = _each((condition, then, otherwise), mapping)
            return replace(node, condition=condition, then=then, otherwise=otherwise)
        case _:
            return node


def _each(nodes: tuple[ExpressionNode, ...], mapping: Mapping[str, str]) -> tuple[ExpressionNode, ...]:
    return tuple(_renamed(node, mapping) for node in nodes)
