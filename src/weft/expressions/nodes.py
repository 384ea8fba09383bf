"""The tree of an expression: ten kinds of nodes, frozen, compared by structure and not by column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = [
    "Binary",
    "Call",
    "Comparison",
    "Conditional",
    "Index",
    "ListOf",
    "Literal",
    "Logical",
    "Name",
    "Node",
    "Unary",
    "children",
    "walk",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    column: int = field(default=1, compare=False, repr=False)
    """Where it stands in the text, in characters from 1; of an operation: its operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Literal(_Placed):
    """A number, a string, ``True``, ``False`` or ``None``."""

    value: bool | int | float | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Name(_Placed):
    """A name, dotted or plain: ``conv.exit_code`` is one name."""

    name: str
    optional: bool = field(default=False, compare=False, repr=False)
    """Unknown, instead of an error, where nobody knows it: the first argument of ``default``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOf(_Placed):
    """``[a, b]`` or ``(a, b)``."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unary(_Placed):
    """``-a``, ``+a`` or ``not a``."""

    operator: str
    operand: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary(_Placed):
    """Arithmetic of two operands: ``+ - * / // % **``."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(_Placed):
    """``a < b <= c``: one operand more than operators."""

    operators: tuple[str, ...]
    operands: tuple[Node, ...]
    columns: tuple[int, ...] = field(compare=False, repr=False)
    """The column of each operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Logical(_Placed):
    """``a and b and c`` or ``a or b or c``."""

    operator: str
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditional(_Placed):
    """``then if condition else otherwise``."""

    condition: Node
    then: Node
    otherwise: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Index(_Placed):
    """``target[key]``."""

    target: Node
    key: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(_Placed):
    """``function(arguments)`` of the white list."""

    function: str
    arguments: tuple[Node, ...]


Node = Literal | Name | ListOf | Unary | Binary | Comparison | Logical | Conditional | Index | Call


def children(node: Node) -> tuple[Node, ...]:
    """List the parts of a node in the order in which they are written."""
    match node:
        case (
            ListOf(items=parts) | Comparison(operands=parts) | Logical(operands=parts) | Call(arguments=parts)
        ):
            return parts
        case Unary(operand=operand):
            return (operand,)
        case Binary(left=left, right=right):
            return (left, right)
        case Conditional(condition=condition, then=then, otherwise=otherwise):
            return (then, condition, otherwise)
        case Index(target=target, key=key):
            return (target, key)
        case _:
            return ()


def walk(tree: Node) -> Iterator[Node]:
    """Yield every node of a tree in the order in which they are written."""
    stack = [tree]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))
