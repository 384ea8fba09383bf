"""Writes a tree as canonical text, with only the parentheses it needs; parsing that gives the tree back."""

from __future__ import annotations

from weft.expressions.nodes import (
    Binary,
    Call,
    Comparison,
    Conditional,
    Index,
    ListOf,
    Literal,
    Logical,
    Name,
    Node,
    Unary,
)

__all__ = ["to_text"]

_CONDITIONAL, _OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _SIGN, _POWER, _ATOM = range(1, 11)
_BINARY = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "//": _PRODUCT, "%": _PRODUCT, "**": _POWER}
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def to_text(node: Node) -> str:
    """Write the canonical text of a tree."""
    return _write(node)[0]


def _write(node: Node) -> tuple[str, int]:
    match node:
        case Literal(value=value):
            return (_quote(value) if isinstance(value, str) else repr(value)), _ATOM
        case Name(name=name):
            return name, _ATOM
        case ListOf(items=items):
            return f"[{_comma_separated(items)}]", _ATOM
        case Call(function=function, arguments=arguments):
            return f"{function}({_comma_separated(arguments)})", _ATOM
        case Index(target=target, key=key):
            return f"{_inside(target, _ATOM)}[{_inside(key, _CONDITIONAL)}]", _ATOM
        case Unary() | Binary():
            return _arithmetic(node)
        case Comparison(operators=operators, operands=operands):
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
    # A power binds its left side tighter than a sign and its right side looser: -a ** -b is -(a ** (-b)).
    left, right = (_ATOM, _SIGN) if level == _POWER else (level, level + 1)
    return f"{_inside(node.left, left)} {node.operator} {_inside(node.right, right)}", level


def _inside(node: Node, level: int) -> str:
    text, own = _write(node)
    return text if own >= level else f"({text})"


def _comma_separated(nodes: tuple[Node, ...]) -> str:
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
