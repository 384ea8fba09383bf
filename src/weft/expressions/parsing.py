"""From text to tree: Python's expression grammar, of which only a white list is let through.

Python's ``ast`` does the grammar; nothing is ever compiled or run. Its nodes are turned one by one into our
own, and a node without a rule here is an error.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from weft.errors import nearest, shorten
from weft.expressions.failure import Refusal
from weft.expressions.functions import FUNCTIONS
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
from weft.expressions.operators import MAX_BITS
from weft.expressions.tokens import MAX_DEPTH, Token, scan

__all__ = ["MAX_NODES", "to_tree"]

MAX_NODES = 2_000
"""Parts an expression may have."""

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
}
_UNARY: dict[type[ast.unaryop], str] = {ast.USub: "-", ast.UAdd: "+", ast.Not: "not"}
_COMPARISON: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.In: "in",
    ast.NotIn: "not in",
}
_FOREIGN: dict[type[ast.expr], str] = {
    ast.ListComp: "a comprehension",
    ast.GeneratorExp: "a comprehension",
    ast.Starred: "a star",
    ast.Await: "`await`",
    ast.Yield: "`yield`",
    ast.YieldFrom: "`yield`",
}


def to_tree(text: str) -> Node:
    """Read a text into a tree, or raise an ExpressionError that says where it went wrong."""
    try:
        return _read(text)
    except Refusal as refusal:
        raise refusal.error(text) from None


def _read(text: str) -> Node:
    tokens = scan(text)
    if not tokens:
        raise Refusal("the expression is empty", advice="write a value, such as 1 or memory >= 4*GB").at(1)
    # Python takes a leading blank for an indentation, so the text starts at the first token.
    offset = tokens[0].start
    body = text[offset:]
    try:
        parsed = ast.parse(body, mode="eval")
    except SyntaxError as error:
        raise _syntax(error, tokens, len(body.rstrip()), offset) from None
    except (RecursionError, MemoryError, ValueError, OverflowError):
        raise _too_deep(offset + 1) from None
    return _Builder(body, tokens, offset).node(parsed.body, 1)


def _syntax(error: SyntaxError, tokens: Sequence[Token], length: int, offset: int) -> Refusal:
    # An offset of 0 is Python's way to say that the text ends too early.
    column = offset + min(error.offset or length + 1, length + 1)
    here = next(
        (token for token in tokens if token.start + 1 <= column <= token.start + len(token.text)), None
    )
    found = f"{shorten(here.text, 30)!r}" if here else "the end"
    reason = "" if error.msg == "invalid syntax" else f" ({shorten(error.msg, 80)})"
    return Refusal(
        f"cannot be read at {found}{reason}",
        rule="expressions are written as in Python",
        advice="look for a missing operator, operand or bracket before it",
    ).at(column)


def _too_deep(column: int) -> Refusal:
    rule = f"an expression is nested at most {MAX_DEPTH} deep"
    return Refusal("too many nested parts", rule=rule, advice="name parts of it").at(column)


class _Builder:
    """Turns Python's nodes into ours; counts them, and looks up where operators stand."""

    def __init__(self, body: str, tokens: Sequence[Token], offset: int) -> None:
        self._tokens = tokens
        self._offset = offset
        self._count = 0
        # Python counts UTF-8 bytes, users count characters.
        self._characters: list[int] | None = None
        if not body.isascii():
            sizes = [len(character.encode()) for character in body]
            self._characters = [position for position, size in enumerate(sizes) for _ in range(size)] + [
                len(body)
            ]

    def _column(self, position: int) -> int:
        return self._offset + (self._characters[position] if self._characters else position) + 1

    def _operator_column(self, left: ast.expr) -> int:
        """Find the operator after an operand: the next word that does not close the operand's parentheses."""
        end = self._column(left.end_col_offset or 0) - 1
        low, high = 0, len(self._tokens)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self._tokens[middle].start < end else (low, middle)
        while self._tokens[low].text == ")":
            low += 1
        return self._tokens[low].start + 1

    def node(self, node: ast.expr, depth: int) -> Node:
        """Build one node and everything below it."""
        column = self._column(node.col_offset)
        self._count += 1
        if depth > MAX_DEPTH:
            raise _too_deep(column)
        if self._count > MAX_NODES:
            rule = f"an expression has at most {MAX_NODES} parts"
            raise Refusal("too many parts", rule=rule, advice="name parts of it, or use a list").at(column)
        match node:
            case ast.Constant():
                return self._constant(node, column)
            case ast.Name(id=name):
                return Name(name=name, column=column)
            case ast.Attribute():
                return Name(name=self._dotted(node), column=column)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return ListOf(items=self._all(items, depth), column=column)
            case ast.Call():
                return self._call(node, column, depth)
            case ast.Subscript():
                return self._index(node, column, depth)
            case _:
                return self._operation(node, column, depth)

    def _all(self, nodes: Sequence[ast.expr], depth: int) -> tuple[Node, ...]:
        return tuple(self.node(node, depth + 1) for node in nodes)

    def _operation(self, node: ast.expr, column: int, depth: int) -> Node:
        match node:
            case ast.UnaryOp(op=operator, operand=operand) if type(operator) in _UNARY:
                name = _UNARY[type(operator)]
                return Unary(operator=name, operand=self.node(operand, depth + 1), column=column)
            case ast.BinOp(op=operator, left=left, right=right) if type(operator) in _BINARY:
                first, second = self._all((left, right), depth)
                place = self._operator_column(left)
                return Binary(operator=_BINARY[type(operator)], left=first, right=second, column=place)
            case ast.BoolOp(op=operator, values=values):
                return self._logical("and" if isinstance(operator, ast.And) else "or", values, column, depth)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                then, condition, otherwise = self._all((body, test, orelse), depth)
                return Conditional(condition=condition, then=then, otherwise=otherwise, column=column)
            case ast.Compare():
                return self._comparison(node, depth)
            case _:
                raise _foreign(_FOREIGN.get(type(node), "this"), column)

    def _constant(self, node: ast.Constant, column: int) -> Node:
        value = node.value
        if isinstance(value, float) and value in (float("inf"), float("-inf")):
            raise Refusal("a number that is too large", rule="numbers stay below 1.8e308").at(column)
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            raise Refusal("a number that is too large", rule=f"integers have at most {MAX_BITS} bits").at(
                column
            )
        if not (value is None or isinstance(value, bool | int | float | str)):
            raise _foreign("this literal", column)
        return Literal(value=value, column=column)

    def _dotted(self, node: ast.Attribute) -> str:
        parts: list[str] = []
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute):
            parts.append(inner.attr)
            inner = inner.value
        if not isinstance(inner, ast.Name):
            raise Refusal(
                f"`.{shorten(parts[-1], 30)}` after something that is not a name",
                rule="a dot only joins the parts of a name",
                advice='take an entry with [ ], for example x["name"]',
            ).at(self._column(inner.end_col_offset or 0))
        return ".".join([inner.id, *reversed(parts)])

    def _call(self, node: ast.Call, column: int, depth: int) -> Node:
        if not isinstance(node.func, ast.Name):
            raise _foreign("a call of anything but a function's name", column)
        name = node.func.id
        if name not in FUNCTIONS:
            close = nearest(name, FUNCTIONS)
            advice = f"did you mean {close}()?" if close else f"known: {', '.join(FUNCTIONS)}"
            raise Refusal(f"unknown function {shorten(name, 40)}()", advice=advice).at(column)
        if node.keywords:
            raise _foreign("an argument with a name", column)
        try:
            FUNCTIONS[name].check_count(len(node.args))
        except Refusal as refusal:
            raise refusal.at(column) from None
        arguments = self._all(node.args, depth)
        if FUNCTIONS[name].lenient and isinstance(first := arguments[0], Name):
            arguments = (replace(first, optional=True), *arguments[1:])
        return Call(function=name, arguments=arguments, column=column)

    def _index(self, node: ast.Subscript, column: int, depth: int) -> Node:
        if isinstance(node.slice, ast.Slice | ast.Tuple):
            raise _foreign("an index of several values", column)
        target, key = self._all((node.value, node.slice), depth)
        return Index(target=target, key=key, column=column)

    def _logical(self, operator: str, values: Sequence[ast.expr], column: int, depth: int) -> Node:
        operands: list[Node] = []
        for operand in self._all(values, depth):
            same = isinstance(operand, Logical) and operand.operator == operator
            operands.extend(operand.operands if same and isinstance(operand, Logical) else (operand,))
        return Logical(operator=operator, operands=tuple(operands), column=column)

    def _comparison(self, node: ast.Compare, depth: int) -> Node:
        parts = (node.left, *node.comparators)
        columns = tuple(self._operator_column(part) for part in parts[:-1])
        names: list[str] = []
        for operator, column in zip(node.ops, columns, strict=True):
            if type(operator) not in _COMPARISON:
                raise Refusal("`is` is not part of expressions", advice="compare with == or !=").at(column)
            names.append(_COMPARISON[type(operator)])
        operands = self._all(parts, depth)
        return Comparison(operators=tuple(names), operands=operands, columns=columns, column=columns[0])


def _foreign(what: str, column: int) -> Refusal:
    rule = (
        "expressions hold literals, lists, names, operators, `if else`, indexes and calls of known functions"
    )
    return Refusal(f"{what} is not part of expressions", rule=rule).at(column)
