"""The kind of an expression before any value is known: finds wrong types when a file is read, not in a run.

A name whose kind nobody has told is UNKNOWN, and nothing unknown is ever complained about.
"""

from __future__ import annotations

from collections.abc import Mapping

from weft.expressions.expression import Expression
from weft.expressions.failure import Refusal
from weft.expressions.functions import FUNCTIONS
from weft.expressions.kinds import Kind, kind_of
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

__all__ = ["infer"]

_NUMERIC = {Kind.NUMBER, Kind.UNKNOWN}
_TEXTUAL = {Kind.STRING, Kind.UNKNOWN}
_ORDERINGS = ("<", "<=", ">", ">=")


def infer(expression: Expression, types: Mapping[str, Kind]) -> Kind:
    """Tell the kind an expression will have, or raise an ExpressionError where kinds cannot go together."""
    try:
        return _Inference(types).kind(expression.tree)
    except Refusal as refusal:
        raise refusal.error(expression.source) from None


class _Inference:
    def __init__(self, types: Mapping[str, Kind]) -> None:
        self._types = types

    def kind(self, node: Node) -> Kind:
        """Infer one node; a refusal from inside learns the column on its way out."""
        try:
            return self._infer(node)
        except Refusal as refusal:
            raise refusal.at(node.column) from None

    def _infer(self, node: Node) -> Kind:
        match node:
            case Literal(value=value):
                return kind_of(value)
            case Name(name=name):
                return self._types.get(name, Kind.UNKNOWN)
            case ListOf(items=items):
                for item in items:
                    self.kind(item)
                return Kind.LIST
            case Unary(operator="not", operand=operand):
                return self._condition(operand)
            case Unary(operator=operator, operand=operand):
                return _signed(operator, self.kind(operand))
            case Binary(operator=operator, left=left, right=right):
                return _calculated(operator, self.kind(left), self.kind(right))
            case Comparison():
                return self._comparison(node)
            case Logical(operands=operands):
                for operand in operands:
                    self._condition(operand)
                return Kind.BOOLEAN
            case Conditional(condition=condition, then=then, otherwise=otherwise):
                self._condition(condition)
                first, second = self.kind(then), self.kind(otherwise)
                return first if first is second else Kind.UNKNOWN
            case Index(target=target, key=key):
                return _entry(self.kind(target), self.kind(key))
            case Call():
                return self._call(node)

    def _condition(self, node: Node) -> Kind:
        kind = self.kind(node)
        if kind not in (Kind.BOOLEAN, Kind.UNKNOWN):
            rule, advice = "conditions are true or false", "compare it, for example `x != 0`"
            raise Refusal(f"a {kind.value} used as a condition", rule=rule, advice=advice).at(node.column)
        return Kind.BOOLEAN

    def _comparison(self, node: Comparison) -> Kind:
        kinds = [self.kind(operand) for operand in node.operands]
        for place, (operator, column) in enumerate(zip(node.operators, node.columns, strict=True)):
            try:
                _compared(operator, kinds[place], kinds[place + 1])
            except Refusal as refusal:
                raise refusal.at(column) from None
        return Kind.BOOLEAN

    def _call(self, node: Call) -> Kind:
        function = FUNCTIONS[node.function]
        for position, argument in enumerate(node.arguments):
            kind = self.kind(argument)
            try:
                function.check_kind(position, kind, f"a {kind.value}")
            except Refusal as refusal:
                raise refusal.at(argument.column) from None
        return function.gives


def _signed(operator: str, kind: Kind) -> Kind:
    if kind not in _NUMERIC:
        raise Refusal(f"`{operator}` before a {kind.value}", rule="a sign takes a number")
    return Kind.NUMBER


def _calculated(operator: str, left: Kind, right: Kind) -> Kind:
    if operator == "+" and left in _TEXTUAL and right in _TEXTUAL:
        return Kind.STRING if Kind.STRING in (left, right) else Kind.UNKNOWN
    if left in _NUMERIC and right in _NUMERIC:
        return Kind.UNKNOWN if operator == "+" and left is right is Kind.UNKNOWN else Kind.NUMBER
    rule = "arithmetic takes two numbers" + (" or, with +, two strings" if operator == "+" else "")
    advice = "check the names and types of the operands"
    raise Refusal(f"`{operator}` between a {left.value} and a {right.value}", rule=rule, advice=advice)


def _compared(operator: str, left: Kind, right: Kind) -> None:
    if operator in _ORDERINGS:
        fits = {left, right} <= _NUMERIC or {left, right} <= _TEXTUAL
        rule = "only two numbers or two strings have an order"
    elif operator in ("in", "not in"):
        fits = right in (Kind.LIST, Kind.MAPPING, Kind.UNKNOWN) or (right is Kind.STRING and left in _TEXTUAL)
        rule = "`in` looks for a value in a list, a string in a string, or a key in a mapping"
    else:
        return
    if not fits:
        raise Refusal(f"`{operator}` between a {left.value} and a {right.value}", rule=rule)


def _entry(target: Kind, key: Kind) -> Kind:
    if target not in (Kind.LIST, Kind.MAPPING, Kind.UNKNOWN):
        raise Refusal(f"a {target.value} has no entries", rule="only lists and mappings can be indexed")
    if target is Kind.LIST and key not in _NUMERIC:
        raise Refusal(f"a {key.value} used as a position", rule="positions are whole numbers")
    return Kind.UNKNOWN
