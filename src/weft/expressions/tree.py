"""The syntax tree of an expression and its canonical text.

Nodes are frozen and compared by structure, not by column. ``format_tree`` writes a tree with the fewest
parentheses; parsing its result gives an equal tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from weft.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class _PositionedNode:
    column: int = field(default=1, compare=False, repr=False)
    """Position in the text, in characters from 1; of an operation, the position of its operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Literal(_PositionedNode):
    """A number, a string, ``True``, ``False`` or ``None``."""

    value: bool | int | float | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Name(_PositionedNode):
    """A plain or dotted name: ``conv.exit_code`` is one name."""

    name: str
    optional: bool = field(default=False, compare=False, repr=False)
    """Whether the name may be undefined, in which case its value is unknown.

    This is so for the first argument of ``default``.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOf(_PositionedNode):
    """``[a, b]`` or ``(a, b)``."""

    items: tuple[ExpressionNode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unary(_PositionedNode):
    """``-a``, ``+a`` or ``not a``."""

    operator: str
    operand: ExpressionNode


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary(_PositionedNode):
    """Arithmetic of two operands: ``+ - * / // % **``."""

    operator: str
    left: ExpressionNode
    right: ExpressionNode


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare(_PositionedNode):
    """``a < b <= c``: there is one more operand than operators."""

    operators: tuple[str, ...]
    operands: tuple[ExpressionNode, ...]
    columns: tuple[int, ...] = field(compare=False, repr=False)
    """The column of each operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Logical(_PositionedNode):
    """``a and b and c`` or ``a or b or c``."""

    operator: str
    operands: tuple[ExpressionNode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditional(_PositionedNode):
    """``then if condition else otherwise``."""

    condition: ExpressionNode
    then: ExpressionNode
    otherwise: ExpressionNode


@dataclass(frozen=True, slots=True, kw_only=True)
class Index(_PositionedNode):
    """``target[key]``."""

    target: ExpressionNode
    key: ExpressionNode


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCall(_PositionedNode):
    """``function(arguments)`` with an allowed function."""

    function: str
    arguments: tuple[ExpressionNode, ...]


ExpressionNode = (
    Literal | Name | ListOf | Unary | Binary | Compare | Logical | Conditional | Index | FunctionCall
)


def children(node: ExpressionNode) -> tuple[ExpressionNode, ...]:
    """Return the child nodes in the order of the text."""
    match node:
        case (
            ListOf(items=parts)
            | Compare(operands=parts)
            | Logical(operands=parts)
            | FunctionCall(arguments=parts)
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


def walk(tree: ExpressionNode) -> Iterator[ExpressionNode]:
    """Yield every node of a tree, parents before children, children in the order of the text."""
    stack = [tree]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


_CONDITIONAL, _OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _SIGN, _POWER, _ATOM = range(1, 11)
_BINARY = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "//": _PRODUCT, "%": _PRODUCT, "**": _POWER}
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def format_tree(node: ExpressionNode) -> str:
    """Return the canonical text of a tree."""
    return _write(node)[0]


def _write(node: ExpressionNode) -> tuple[str, int]:
    match node:
        case Literal(value=value):
            return (_quote(value) if isinstance(value, str) else repr(value)), _ATOM
        case Name(name=name):
            return name, _ATOM
        case ListOf(items=items):
            return f"[{_comma_separated(items)}]", _ATOM
        case FunctionCall(function=function, arguments=arguments):
            return f"{function}({_comma_separated(arguments)})", _ATOM
        case Index(target=target, key=key):
            return f"{_inside(target, _ATOM)}[{_inside(key, _CONDITIONAL)}]", _ATOM
        case Unary() | Binary():
            return _arithmetic(node)
        case Compare(operators=operators, operands=operands):
            parts = [_inside(operand, _SUM) for operand in operands]
            tail = "".join(f" {name} {part}" for name, part in zip(operators, parts[1:], strict=True))
            return parts[0] + tail, _COMPARISON
        case Logical(operator=operator, operands=operands):
            level = _AND if operator == "and" else _OR
            return f" {operator} ".join(_inside(operand, level + 1) for operand in operands), level
        case Conditional(condition=condition, then=then, otherwise=otherwise):
            text = (
                f"{_inside(then, _OR)} if {_inside(condition, _OR)} else {_inside(otherwise, _CONDITIONAL)}"
            )
            return text, _CONDITIONAL


def _arithmetic(node: Unary | Binary) -> tuple[str, int]:
    if isinstance(node, Unary):
        if node.operator == "not":
            return f"not {_inside(node.operand, _NOT)}", _NOT
        return f"{node.operator}{_inside(node.operand, _SIGN)}", _SIGN
    level = _BINARY[node.operator]
    # A power binds tighter than a sign on its left, looser than one on its right: -a ** -b is -(a ** (-b)).
    left, right = (_ATOM, _SIGN) if level == _POWER else (level, level + 1)
    return f"{_inside(node.left, left)} {node.operator} {_inside(node.right, right)}", level


def _inside(node: ExpressionNode, level: int) -> str:
    text, own = _write(node)
    return text if own >= level else f"({text})"


def _comma_separated(nodes: tuple[ExpressionNode, ...]) -> str:
    return ", ".join(_inside(node, _CONDITIONAL) for node in nodes)


def _quote(text: str) -> str:
    quote = "'" if text.count('"') > text.count("'") else '"'
    return quote + "".join(_escape(character, quote) for character in text) + quote


def _escape(character: str, quote: str) -> str:
    if character == quote:
        return "\\" + quote
    if character in _ESCAPES:
        return _ESCAPES[character]
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
